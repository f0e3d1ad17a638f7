/* jwt_fuzz.c -- any bytes as a signed token, and as the set of keys that verifies it.
 *
 * The first byte says which.  What parses keeps its bounds; no made-up key has signed a made-up token that names it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/rpc/jwt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void as_token(struct baton_bytes token)
{
    static const struct jwks none = { .count = 0 };
    struct jwt jwt;
    if (jwt_parse(token, "baton", &jwt) == NULL) {
        check(jwt.signed_bytes < token.size && jwt.signature_bytes > 0);
        check(jwt.signature_bytes <= sizeof(jwt.signature) && jwt.expires >= 0);
        check(memchr(jwt.key_id, '\0', sizeof(jwt.key_id)) != NULL && jwt.key_id[0] != '\0');
        check(memchr(jwt.subject, '\0', sizeof(jwt.subject)) != NULL && jwt.subject[0] != '\0');
        check(!jwt_is_signed(&jwt, token, &none));
    }
}

static void as_keys(struct baton_bytes text)
{
    static const uint8_t token[] = "a.b.c";
    struct jwks keys;
    struct baton_status st = jwks_parse(text, &keys);
    if (!baton_ok(&st)) {
        check(st.message[0] != '\0');
        return;
    }
    check(keys.count > 0 && keys.count <= JWKS_KEYS_MAX);
    for (size_t i = 0; i < keys.count; i++) {
        struct jwt jwt = { .algorithm = keys.keys[i].algorithm, .signed_bytes = 3 };
        memcpy(jwt.key_id, keys.keys[i].id, sizeof(jwt.key_id));
        jwt.signature_bytes = jwt.algorithm == JWT_ES256 ? 64 : 256;
        memset(jwt.signature, 0x5a, jwt.signature_bytes);
        check(!jwt_is_signed(&jwt, (struct baton_bytes){ token, 5 }, &keys));
    }
    jwks_free(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        struct baton_bytes rest = { data + 1, size - 1 };
        (data[0] % 2 == 0 ? as_token : as_keys)(rest);
    }
    return 0;
}
