/* jwt.c -- a token's parts; see jwt.h. */
#include "api/rpc/jwt.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/ecdsa.h>

#include "api/wire/json.h"

enum { ES256_HALF_BYTES = 32, AUDIENCES_MAX = 64 };

/* A part without its dot. */
struct part {
    const char *text;
    size_t size;
};

struct parts {
    struct part header;
    struct part claims;
    struct part signature;
};

static bool split(struct baton_bytes token, struct parts *out)
{
    const char *text = (const char *)token.data;
    const char *first = memchr(text, '.', token.size);
    if (first == NULL) {
        return false;
    }
    const char *second = memchr(first + 1, '.', token.size - (size_t)(first + 1 - text));
    const char *end = text + token.size;
    if (second == NULL || memchr(second + 1, '.', (size_t)(end - second - 1)) != NULL) {
        return false;
    }
    out->header = (struct part){ text, (size_t)(first - text) };
    out->claims = (struct part){ first + 1, (size_t)(second - first - 1) };
    out->signature = (struct part){ second + 1, (size_t)(end - second - 1) };
    return true;
}

/* 'out' has room for 'part' and its terminator. */
static bool decode(struct part part, uint8_t *out, size_t *size)
{
    char text[JWT_BYTES_MAX + 1];
    if (part.size == 0 || memchr(part.text, '\0', part.size) != NULL) {
        return false;
    }
    memcpy(text, part.text, part.size);
    text[part.size] = '\0';
    return wire_json_parse_base64(text, out, size);
}

static json_t *decode_object(struct part part)
{
    uint8_t bytes[JWT_BYTES_MAX + 1];
    size_t size = 0;
    json_t *object = NULL;
    if (decode(part, bytes, &size)) {
        object = json_loadb((const char *)bytes, size, JSON_REJECT_DUPLICATES, NULL);
    }
    if (object != NULL && !json_is_object(object)) {
        json_decref(object);
        object = NULL;
    }
    return object;
}

static bool copy_text(const json_t *object, const char *key, char *out, size_t out_bytes)
{
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) && json_string_length(value) > 0 &&
           strlen(json_string_value(value)) == json_string_length(value) &&
           baton_text_copy(out, out_bytes, json_string_value(value));
}

static const char *read_header(const json_t *header, struct jwt *out)
{
    const char *algorithm = json_string_value(json_object_get(header, "alg"));
    if (header == NULL) {
        return "its first part is no JSON object";
    }
    if (json_object_get(header, "crit") != NULL) {
        return "it asks for what is not known here (crit)";
    }
    if (algorithm == NULL || (strcmp(algorithm, "RS256") != 0 && strcmp(algorithm, "ES256") != 0)) {
        return "it is signed neither by RS256 nor by ES256";
    }
    out->algorithm = strcmp(algorithm, "RS256") == 0 ? JWT_RS256 : JWT_ES256;
    return copy_text(header, "kid", out->key_id, sizeof(out->key_id)) ? NULL
                                                                      : "it names no key (kid)";
}

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && json_string_length(value) == strlen(text) &&
           strcmp(json_string_value(value), text) == 0;
}

static bool is_for(const json_t *audiences, const char *audience)
{
    size_t count = json_array_size(audiences); /* 0 of anything else. */
    for (size_t i = 0; i < count && i < AUDIENCES_MAX; i++) {
        if (is_text(json_array_get(audiences, i), audience)) {
            return true;
        }
    }
    return is_text(audiences, audience);
}

/* NumericDate; what is no number, or none that a clock shows: false. */
static bool read_time(const json_t *value, int64_t *out)
{
    double seconds = json_number_value(value);
    if (!json_is_number(value) || !(seconds >= 0 && seconds < 1e12)) {
        return false;
    }
    *out = (int64_t)seconds;
    return true;
}

static const char *read_claims(const json_t *claims, const char *audience, struct jwt *out)
{
    const json_t *not_before = json_object_get(claims, "nbf");
    if (claims == NULL) {
        return "its second part is no JSON object";
    }
    if (!copy_text(claims, "iss", out->issuer, sizeof(out->issuer)) ||
        !copy_text(claims, "sub", out->subject, sizeof(out->subject))) {
        return "its issuer or subject is none, or too long";
    }
    if (!read_time(json_object_get(claims, "exp"), &out->expires) ||
        (not_before != NULL && !read_time(not_before, &out->not_before))) {
        return "it has no end (exp), or a time that is none";
    }
    out->is_for_audience = is_for(json_object_get(claims, "aud"), audience);
    return NULL;
}

const char *jwt_parse(struct baton_bytes token, const char *audience, struct jwt *out)
{
    struct parts parts;
    uint8_t signature[JWT_BYTES_MAX + 1];
    *out = (struct jwt){ 0 };
    if (token.size == 0 || token.size > JWT_BYTES_MAX || !split(token, &parts)) {
        return "it has not three parts, or is too long";
    }
    if (!decode(parts.signature, signature, &out->signature_bytes) || out->signature_bytes == 0 ||
        out->signature_bytes > JWT_SIGNATURE_BYTES) {
        return "its signature is none";
    }
    memcpy(out->signature, signature, out->signature_bytes);
    out->signed_bytes = parts.header.size + 1 + parts.claims.size;
    json_t *header = decode_object(parts.header);
    json_t *claims = decode_object(parts.claims);
    const char *fault = read_header(header, out);
    if (fault == NULL) {
        fault = read_claims(claims, audience, out);
    }
    json_decref(header);
    json_decref(claims);
    return fault;
}

/* --- the signature --- */

/* OpenSSL wants the two numbers in DER.  Bytes written to 'out', which it allocates; at most 0 is a failure. */
static int write_der(const struct jwt *jwt, uint8_t **out)
{
    int size = -1;
    if (jwt->signature_bytes != (size_t)2 * ES256_HALF_BYTES) {
        return size;
    }
    BIGNUM *r = BN_bin2bn(jwt->signature, ES256_HALF_BYTES, NULL);
    BIGNUM *s = BN_bin2bn(jwt->signature + ES256_HALF_BYTES, ES256_HALF_BYTES, NULL);
    ECDSA_SIG *pair = ECDSA_SIG_new();
    baton_assert(r != NULL && s != NULL && pair != NULL);
    if (ECDSA_SIG_set0(pair, r, s) == 1) {
        size = i2d_ECDSA_SIG(pair, out);
    }
    ECDSA_SIG_free(pair);
    return size;
}

static bool verify(EVP_PKEY *key, const uint8_t *signature, size_t signature_bytes,
                   struct baton_bytes text)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    baton_assert(context != NULL);
    bool is_good = EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
                   EVP_DigestVerify(context, signature, signature_bytes, text.data, text.size) == 1;
    EVP_MD_CTX_free(context);
    return is_good;
}

static bool verify_token(const struct jwt *jwt, struct baton_bytes text, EVP_PKEY *key)
{
    uint8_t *der = NULL;
    if (jwt->algorithm == JWT_RS256) {
        return verify(key, jwt->signature, jwt->signature_bytes, text);
    }
    int size = write_der(jwt, &der);
    bool is_good = size > 0 && verify(key, der, (size_t)size, text);
    OPENSSL_free(der);
    return is_good;
}

bool jwt_is_signed(const struct jwt *jwt, struct baton_bytes token, const struct jwks *jwks)
{
    struct baton_bytes text = { token.data, jwt->signed_bytes };
    for (size_t i = 0; i < jwks->count; i++) {
        const struct jwks_key *key = &jwks->keys[i];
        if (key->algorithm == jwt->algorithm && strcmp(key->id, jwt->key_id) == 0 &&
            verify_token(jwt, text, key->key)) {
            return true;
        }
    }
    return false;
}
