/* sglang_answer_fuzz.c -- whatever an SGLang server answers, the agent's parsers must survive it, and what they accept
 * must be what they promise.  The first byte picks the parser. */
#include <stdint.h>
#include <string.h>

#include "agent/engine/sglang_answer.h"
#include "agent/engine/sglang_dialect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARSERS = 4 };

static void is_text(const char *text, size_t bytes)
{
    baton_assert(memchr(text, '\0', bytes) != NULL);
}

static void fuzz_server(struct baton_bytes body)
{
    struct sglang_server server;
    struct baton_status st = sglang_answer_server(body, &server);
    if (baton_ok(&st)) {
        is_text(server.software, sizeof server.software);
        is_text(server.incarnation, sizeof server.incarnation);
        baton_assert(server.tp > 0 && server.dp > 0 && server.pp > 0 && server.nodes > 0);
        baton_assert(server.incarnation[0] != '\0');
    }
}

static bool take_sum(void *context, const char *name, const char *sum)
{
    size_t *count = context;
    (void)name;
    baton_assert(strlen(sum) == 16 && strspn(sum, "0123456789abcdef") == 16);
    return ++*count < 100;
}

static void fuzz_sums(struct baton_bytes body)
{
    size_t count = 0;
    struct baton_status st = sglang_answer_sums(body, take_sum, &count);
    baton_assert(!baton_ok(&st) || count > 0);
}

static void fuzz_routes(struct baton_bytes body)
{
    char reason[64];
    const struct sglang_dialect *dialect = sglang_dialect_choose(body, reason, sizeof reason);
    is_text(reason, sizeof reason);
    baton_assert(dialect == NULL ||
                 (dialect->why_not == NULL && sglang_answer_has_route(body, dialect->routes[0])));
}

/* No word with a slash is left. */
static void fuzz_paths(struct baton_bytes body)
{
    char text[256];
    char out[64];
    size_t size = body.size < sizeof text - 1 ? body.size : sizeof text - 1;
    memcpy(text, body.data, size);
    text[size] = '\0';
    sglang_answer_hide_paths(text, out, sizeof out);
    is_text(out, sizeof out);
    baton_assert(strchr(out, '/') == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct baton_bytes body = { data + 1, size - 1 };
    switch (data[0] % PARSERS) {
    case 0: fuzz_server(body); break;
    case 1: fuzz_sums(body); break;
    case 2: fuzz_routes(body); break;
    default: fuzz_paths(body); break;
    }
    return 0;
}
