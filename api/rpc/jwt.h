/* jwt.h -- what a signed token (RFC 7519, three parts) says, and the keys that verify it (RFC 7517); private to api/rpc.
 *
 * Bytes of strangers: everything has a bound, and nothing is believed before jwt_is_signed().
 *
 * Pure.  Depends on: api/base, api/wire (base64, jansson), OpenSSL.  Threads: any; keys are only read.
 * Ownership: the caller frees keys. */
#ifndef BATON_RPC_JWT_H
#define BATON_RPC_JWT_H

#include <openssl/evp.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "api/rpc/rpc.h"

enum {
    JWT_BYTES_MAX = 4096,
    JWT_KEY_ID_BYTES = 128,
    JWT_SIGNATURE_BYTES = 1024,
    JWKS_BYTES_MAX = 1 << 18,
    JWKS_KEYS_MAX = 64
};

enum jwt_algorithm { JWT_RS256, JWT_ES256 };

struct jwt {
    enum jwt_algorithm algorithm;
    char key_id[JWT_KEY_ID_BYTES];
    char issuer[RPC_IDENTITY_BYTES];
    char subject[RPC_IDENTITY_BYTES];
    bool is_for_audience; /* One of its audiences is the one that was asked for. */
    int64_t expires;      /* Wall seconds. */
    int64_t not_before;   /* 0: it does not say. */
    size_t signed_bytes;  /* Of the token, from its begin, that the signature is of. */
    size_t signature_bytes;
    uint8_t signature[JWT_SIGNATURE_BYTES];
};

/* Null: 'out' has what it says; else what is wrong with it, without a word of it. */
const char *jwt_parse(struct baton_bytes token, const char *audience, struct jwt *out);

struct jwks_key {
    enum jwt_algorithm algorithm;
    char id[JWT_KEY_ID_BYTES];
    EVP_PKEY *key;
};

struct jwks {
    size_t count;
    struct jwks_key keys[JWKS_KEYS_MAX];
};

/* RSA keys of 2048 to 8192 bits and P-256 keys with an id, for signatures; others are passed over.  MALFORMED says what is
 * wrong, also that none is left.  'out' is to be freed only after OK. */
BATON_MUST_USE struct baton_status jwks_parse(struct baton_bytes text, struct jwks *out);
void jwks_free(struct jwks *jwks);

/* Whether the key that the token names has signed it. */
bool jwt_is_signed(const struct jwt *jwt, struct baton_bytes token, const struct jwks *jwks);

#endif /* jwt.h */
