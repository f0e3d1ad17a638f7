/* capability.h -- what lets one node pull one version from its peers for a while, signed by the controller.
 *
 * A capability names the version, the node that may pull it, the identity that the controller saw the node's
 * certificate bear (empty: it had none), and when it was issued and ends.  It is signed with Ed25519: who checks
 * holds public keys only, so a serving node has no secret that could be taken from it.  Pure but for the
 * signer's key, which comes from the kernel's randomness.
 *
 * Bytes: magic "BCP1", u8[8] id of the key, then framed (u32le length) node and identity, 16 bytes of digest,
 * u64le issued and u64le end (seconds since 1970), then 64 bytes of signature over all before it.
 *
 * Depends on: api/base, transport/model/digest.h, OpenSSL (private).  Threads: any; a signer by one at a time.
 * Ownership: values are copied; capability_signer_create() gives, _destroy() takes. */
#ifndef TRANSPORT_CAPABILITY_CAPABILITY_H
#define TRANSPORT_CAPABILITY_CAPABILITY_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"
#include "api/base/status.h"
#include "transport/model/digest.h"

enum {
    CAPABILITY_KEY_ID_BYTES = 8,
    CAPABILITY_KEY_BYTES = 32,
    CAPABILITY_SIGNATURE_BYTES = 64,
    CAPABILITY_BYTES_MAX = 512,
    /* How far clocks of controller and nodes may be apart. */
    CAPABILITY_SKEW_S = 60,
};

struct capability {
    struct digest version;
    char node[BATON_NAME_BYTES];     /* The agent that pulls. */
    char identity[BATON_TEXT_BYTES]; /* Of its certificate; empty: the controller saw none. */
    uint64_t issued_s;
    uint64_t ends_s;
};

/* What checks: the public half. */
struct capability_key {
    uint8_t id[CAPABILITY_KEY_ID_BYTES];
    uint8_t public_key[CAPABILITY_KEY_BYTES];
};

struct capability_signer;

/* Makes a new key pair. */
struct capability_signer *capability_signer_create(void);
/* Null is fine. */
void capability_signer_destroy(struct capability_signer *signer);
struct capability_key capability_signer_key(const struct capability_signer *signer);

/* Writes the signed bytes; returns how many.  All of it fits CAPABILITY_BYTES_MAX. */
size_t capability_sign(const struct capability_signer *signer, const struct capability *capability,
                       uint8_t out[CAPABILITY_BYTES_MAX]);

/* Reads and checks form, key and signature; INVALID_ARGUMENT MALFORMED, or PERMISSION_DENIED NOT_ALLOWED: no key of
 * that id is among 'keys', or the signature is not that key's.  '*out' holds what it claims after a refusal, too,
 * as far as it could be read: for the record only. */
BATON_MUST_USE struct baton_status capability_open(struct baton_bytes bytes,
                                                   const struct capability_key *keys, size_t count,
                                                   struct capability *out);
/* The time between issue and end, give or take the skew; PERMISSION_DENIED NOT_ALLOWED says how far it is off. */
BATON_MUST_USE struct baton_status capability_check_time(const struct capability *capability,
                                                         uint64_t now_s);
/* The version that is asked for. */
BATON_MUST_USE struct baton_status capability_check_version(const struct capability *capability,
                                                            struct digest version);

#endif /* capability.h */
