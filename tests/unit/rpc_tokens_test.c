/* rpc_tokens_test.c -- the file of tokens' digests: whose a token is, what is wrong with a row, a file that changes. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/rpc/tokens.h"

/* The SHA-256 of the token. */
#define DIGEST_A "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"
#define TOKEN_A  "0123456789abcdef"

struct place {
    char file[32];
};

static struct place make(const char *text)
{
    struct place place = { "/tmp/baton-tokens-XXXXXX" };
    int fd = mkstemp(place.file);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    return place;
}

static bool find(struct rpc_tokens *tokens, const char *token, struct rpc_peer_name *name)
{
    return rpc_tokens_find(tokens, (struct baton_bytes){ (const uint8_t *)token, strlen(token) },
                           name);
}

Test(rpc_tokens, whose_it_is)
{
    struct place place = make("# people\n\nsha256:" DIGEST_A "\tspiffe://lab/operator/ada\n");
    struct rpc_tokens *tokens = NULL;
    struct rpc_peer_name name;
    struct baton_status st = rpc_tokens_open(place.file, &tokens);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert(find(tokens, TOKEN_A, &name));
    cr_assert_str_eq(name.text, "spiffe://lab/operator/ada");
    cr_assert_eq(name.kind, RPC_NAME_SPIFFE);
    cr_assert_not(find(tokens, "0123456789abcdeF", &name));
    cr_assert_not(find(tokens, "", &name));
    cr_assert_not(find(tokens, DIGEST_A, &name), "the digest is no token");
    rpc_tokens_close(tokens);
    (void)unlink(place.file);
}

Test(rpc_tokens, what_is_wrong_is_named_with_its_line)
{
    static const char *const bad[] = {
        "\nsha256:" DIGEST_A "\n",
        "\nsha256:" DIGEST_A " a b\n",
        "\nmd5:" DIGEST_A " a\n",
        "\nsha256:9f9f a\n",
        "\nsha256:zz9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f a\n",
        "\nsha256:" DIGEST_A " n\xc3\xa4me\n",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char where[64];
        struct place place = make(bad[i]);
        struct rpc_tokens *tokens = NULL;
        struct baton_status st = rpc_tokens_open(place.file, &tokens);
        (void)snprintf(where, sizeof(where), "%s:2: ", place.file);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", bad[i]);
        cr_assert_not_null(strstr(st.message, where), "%s", st.message);
        cr_assert_null(tokens);
        (void)unlink(place.file);
    }
    struct rpc_tokens *tokens = NULL;
    struct baton_status st = rpc_tokens_open("/nonexistent/tokens", &tokens);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
}

Test(rpc_tokens, a_client_reads_its_first_line)
{
    char token[RPC_TOKEN_BYTES_MAX + 1];
    struct place place = make(TOKEN_A "\nnot this\n");
    struct baton_status st = rpc_token_read(place.file, token);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(token, TOKEN_A);
    (void)unlink(place.file);
    place = make("short\n");
    st = rpc_token_read(place.file, token);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_null(strstr(st.message, "short"), "the message tells no token: %s", st.message);
    (void)unlink(place.file);
}
