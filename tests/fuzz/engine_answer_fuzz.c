/* engine_answer_fuzz.c -- whatever an engine answers, the agent's parsers must survive it, and what they
 * accept must be what they promise.  The first byte picks the parser. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "agent/engine/answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PARSERS = 8, RANKS = 2 };

#define DIGEST "00112233445566778899aabbccddeeff"

static void is_text(const char *text, size_t bytes)
{
    baton_assert(memchr(text, '\0', bytes) != NULL);
}

static void fuzz_error(struct baton_bytes body)
{
    char text[64];
    answer_error_text(body, text, sizeof text);
    is_text(text, sizeof text);
    for (const char *at = text; *at != '\0'; at++) {
        baton_assert((unsigned char)*at >= ' ' && *at != 0x7f);
    }
    struct baton_status st = answer_error(500, body);
    baton_assert(!baton_ok(&st));
}

static void fuzz_members(struct baton_bytes body)
{
    bool flag = false;
    uint32_t count = 0;
    char text[16];
    struct baton_status st = answer_bool(body, "is_paused", &flag);
    st = answer_count(body, "world_size", &count);
    st = answer_text(body, "weight_version", text, sizeof text);
    if (baton_ok(&st)) {
        is_text(text, sizeof text);
    }
    st = answer_model(body, text, sizeof text);
    if (baton_ok(&st)) {
        is_text(text, sizeof text);
    }
}

static void fuzz_guard(struct baton_bytes body)
{
    struct answer_guard guard;
    uint8_t id[BATON_UID_BYTES];
    struct baton_status st = answer_guard(body, &guard);
    if (baton_ok(&st)) {
        baton_assert(guard.gate <= GUARD_GATE_HOLD);
        baton_assert(baton_hex_decode(guard.incarnation, id, sizeof id));
    }
}

static void fuzz_server(struct baton_bytes body)
{
    struct answer_server server;
    struct baton_status st = answer_server(body, &server);
    if (baton_ok(&st)) {
        is_text(server.backend, sizeof server.backend);
        is_text(server.instance, sizeof server.instance);
    }
}

static void fuzz_probe(struct baton_bytes body)
{
    struct engine_probe probe = { 0 };
    struct baton_status st = answer_probe(body, &probe);
    baton_assert(probe.ok == baton_ok(&st));
    if (probe.ok) {
        baton_assert(probe.tokens_count > 0 && isfinite(probe.logprob_sum));
        is_text(probe.text, sizeof probe.text);
    }
}

static void fuzz_nulls(struct baton_bytes body)
{
    struct baton_status st = answer_nulls(body, RANKS);
    baton_assert(st.code != BATON_INTERNAL);
}

/* An update that is accepted names the right digest and fence on every rank. */
static void sum(const struct answer_report *report, enum answer_phase phase)
{
    struct engine_fence fence = { 1, 1, 1, 1, 1 };
    struct engine_update update = { 0 };
    struct baton_status st = answer_sum(report, phase, DIGEST, &fence, &update);
    baton_assert(update.ok == baton_ok(&st));
    baton_assert(!(update.ok && update.restored));
    for (uint32_t i = 0; update.ok && i < report->ranks_count; i++) {
        const struct answer_rank *rank = &report->ranks[i];
        const struct answer_part *part = phase == ANSWER_STAGED    ? &rank->staged
                                         : phase == ANSWER_APPLIED ? &rank->applied
                                                                   : &rank->readback;
        baton_assert(part->present && part->ok && strcmp(part->digest, DIGEST) == 0);
        baton_assert(phase == ANSWER_READBACK || part->fence.step == 1);
    }
}

static void fuzz_report(struct baton_bytes body, uint32_t ranks)
{
    static struct answer_report report;
    struct baton_status st = answer_report(body, ranks, &report);
    if (baton_ok(&st)) {
        baton_assert(report.ranks_count == ranks);
        sum(&report, ANSWER_STAGED);
        sum(&report, ANSWER_APPLIED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct baton_bytes body = { data + 1, size - 1 };
    switch (data[0] % PARSERS) {
    case 0: fuzz_error(body); break;
    case 1: fuzz_members(body); break;
    case 2: fuzz_guard(body); break;
    case 3: fuzz_server(body); break;
    case 4: fuzz_probe(body); break;
    case 5: fuzz_nulls(body); break;
    case 6: fuzz_report(body, 1); break;
    default: fuzz_report(body, RANKS); break;
    }
    return 0;
}
