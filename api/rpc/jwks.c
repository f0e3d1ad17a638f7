/* jwks.c -- a set of keys; see jwt.h. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>

#include "api/rpc/jwt.h"
#include "api/wire/json.h"

enum {
    RSA_BITS_MIN = 2048,
    RSA_BITS_MAX = 8192,
    NUMBER_BYTES_MAX = RSA_BITS_MAX / 8,
    NUMBER_TEXT_MAX = NUMBER_BYTES_MAX * 4 / 3 + 4,
    P256_BYTES = 32
};

/* A number of a key; bytes, 0: there is none, or it is too long. */
static size_t read_number(const json_t *key, const char *name, uint8_t out[NUMBER_TEXT_MAX])
{
    const json_t *value = json_object_get(key, name);
    size_t size = 0;
    if (!json_is_string(value) || json_string_length(value) > NUMBER_TEXT_MAX ||
        !wire_json_parse_base64(json_string_value(value), out, &size)) {
        return 0;
    }
    return size;
}

static EVP_PKEY *make_key(const char *type, OSSL_PARAM_BLD *builder)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(builder);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (params == NULL || context == NULL || EVP_PKEY_fromdata_init(context) != 1 ||
        EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1) {
        key = NULL;
    }
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *read_rsa(const json_t *from)
{
    uint8_t n[NUMBER_TEXT_MAX];
    uint8_t e[NUMBER_TEXT_MAX];
    size_t n_size = read_number(from, "n", n);
    size_t e_size = read_number(from, "e", e);
    if (n_size == 0 || e_size == 0 || e_size > sizeof(uint32_t)) {
        return NULL;
    }
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    BIGNUM *modulus = BN_bin2bn(n, (int)n_size, NULL);
    BIGNUM *exponent = BN_bin2bn(e, (int)e_size, NULL);
    baton_assert(builder != NULL && modulus != NULL && exponent != NULL);
    EVP_PKEY *key = NULL;
    int bits = BN_num_bits(modulus);
    if (bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX && BN_is_odd(exponent) != 0 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
        OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_RSA_E, exponent) == 1) {
        key = make_key("RSA", builder);
    }
    OSSL_PARAM_BLD_free(builder);
    BN_free(modulus);
    BN_free(exponent);
    return key;
}

static EVP_PKEY *read_p256(const json_t *from)
{
    uint8_t x[NUMBER_TEXT_MAX];
    uint8_t y[NUMBER_TEXT_MAX];
    uint8_t point[1 + 2 * P256_BYTES] = { POINT_CONVERSION_UNCOMPRESSED };
    const char *curve = json_string_value(json_object_get(from, "crv"));
    if (curve == NULL || strcmp(curve, "P-256") != 0 || read_number(from, "x", x) != P256_BYTES ||
        read_number(from, "y", y) != P256_BYTES) {
        return NULL;
    }
    memcpy(point + 1, x, P256_BYTES);
    memcpy(point + 1 + P256_BYTES, y, P256_BYTES);
    OSSL_PARAM_BLD *builder = OSSL_PARAM_BLD_new();
    baton_assert(builder != NULL);
    EVP_PKEY *key = NULL;
    if (OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof(point)) ==
            1) {
        key = make_key("EC", builder);
    }
    OSSL_PARAM_BLD_free(builder);
    return key;
}

/* Whether it is one of ours; then 'out' has it. */
static bool read_key(const json_t *from, struct jwks_key *out)
{
    const char *type = json_string_value(json_object_get(from, "kty"));
    const char *use = json_string_value(json_object_get(from, "use"));
    const char *id = json_string_value(json_object_get(from, "kid"));
    if (type == NULL || id == NULL || (use != NULL && strcmp(use, "sig") != 0) ||
        !baton_text_copy(out->id, sizeof(out->id), id)) {
        return false;
    }
    out->algorithm = strcmp(type, "RSA") == 0 ? JWT_RS256 : JWT_ES256;
    out->key = strcmp(type, "RSA") == 0  ? read_rsa(from)
               : strcmp(type, "EC") == 0 ? read_p256(from)
                                         : NULL;
    return out->key != NULL;
}

struct baton_status jwks_parse(struct baton_bytes text, struct jwks *out)
{
    struct baton_status st = baton_status_ok();
    json_error_t error = { .line = 0 };
    out->count = 0;
    json_t *root = text.size <= JWKS_BYTES_MAX ? json_loadb((const char *)text.data, text.size,
                                                            JSON_REJECT_DUPLICATES, &error)
                                               : NULL;
    const json_t *keys = json_object_get(root, "keys");
    if (root == NULL && text.size <= JWKS_BYTES_MAX) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                               "line %d is no JSON: %.80s", error.line, error.text);
    } else if (json_array_size(keys) > JWKS_KEYS_MAX || text.size > JWKS_BYTES_MAX) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                               "has more than %d bytes or %d keys", JWKS_BYTES_MAX, JWKS_KEYS_MAX);
    }
    for (size_t i = 0; baton_ok(&st) && i < json_array_size(keys); i++) {
        out->count += read_key(json_array_get(keys, i), &out->keys[out->count]);
    }
    json_decref(root);
    if (baton_ok(&st) && out->count == 0) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                               "has no key (\"keys\": RSA of 2048 to 8192 bits or P-256, with a "
                               "\"kid\", for signatures)");
    }
    return st;
}

void jwks_free(struct jwks *jwks)
{
    for (size_t i = 0; i < jwks->count; i++) {
        EVP_PKEY_free(jwks->keys[i].key);
    }
    jwks->count = 0;
}
