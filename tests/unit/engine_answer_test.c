/* agent/engine/answer: what is believed of an engine's answers, and what is not. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/answer.h"

#define DIGEST_A "00112233445566778899aabbccddeeff"
#define DIGEST_B "ffeeddccbbaa99887766554433221100"
#define ERROR_B                                                                                    \
    "{\"code\":\"MISSING_TENSOR\",\"message\":\"no such\",\"tensor\":\"w.1\",\"rank\":1}"
#define PEER "{\"code\":\"PEER_FAILED\",\"message\":\"rank 1\",\"tensor\":null,\"rank\":0}"

static const struct engine_fence FENCE = { 1, 2, 3, 4, 5 };
static const struct engine_fence OLD = { 1, 2, 3, 4, 4 };

/* One rank of a report; parts are JSON. */
struct rank_text {
    const char *session;
    const char *staged;
    const char *applied;
    const char *resident;
    const char *readback;
    const char *live; /* Null: it does not tell. */
};

static const struct rank_text BARE = { "false", "null", "null", "null", "null", NULL };

static struct answer_report report; /* Large. */

static struct baton_status read_ranks(const struct rank_text *ranks, uint32_t count)
{
    static char body[64 << 10];
    size_t used = (size_t)snprintf(body, sizeof body, "{\"results\":[");
    for (uint32_t i = 0; i < count; i++) {
        used += (size_t)snprintf(
            body + used, sizeof body - used,
            "%s{\"protocol\":1,\"rank\":%u,\"world_size\":%u,\"session\":%s,"
            "%s\"fence\":[1,2,3,4,5],\"staged\":%s,\"applied\":%s,\"resident\":%s,\"readback\":%s,"
            "\"seconds\":{\"stage\":0.5,\"load\":%u,\"finalize\":0,\"verify\":null}}",
            i > 0 ? "," : "", i, count, ranks[i].session,
            ranks[i].live != NULL ? ranks[i].live : "", ranks[i].staged, ranks[i].applied,
            ranks[i].resident, ranks[i].readback, i + 1);
    }
    (void)snprintf(body + used, sizeof body - used, "]}");
    return answer_report(baton_bytes_of(body), count, &report);
}

static const char *part(const char *ok, const char *digest, int step, const char *rest)
{
    static char texts[8][512];
    static unsigned at;
    char *text = texts[at++ % 8];
    (void)snprintf(text, sizeof texts[0],
                   "{\"ok\":%s,\"version_digest\":\"%s\",\"fence\":[1,2,3,4,%d]%s}", ok, digest,
                   step, rest);
    return text;
}

static const char RESIDENT_A[] = "{\"version_digest\":\"" DIGEST_A "\",\"level\":\"resident\"}";
static const char COPIED_A[] = "{\"version_digest\":\"" DIGEST_A "\",\"level\":\"copied\"}";

Test(answer, reads_the_three_shapes_of_errors)
{
    static const char *const SHAPES[] = {
        "{\"error\":{\"message\":\"it broke\",\"type\":\"t\",\"code\":500}}",
        "{\"error\":\"it broke\"}",
        "{\"detail\":\"it broke\"}",
        "it broke",
    };
    char text[64];
    for (size_t i = 0; i < sizeof SHAPES / sizeof SHAPES[0]; i++) {
        answer_error_text(baton_bytes_of(SHAPES[i]), text, sizeof text);
        cr_expect_str_eq(text, "it broke", "shape %zu: %s", i, text);
    }
    answer_error_text(baton_bytes_of(""), text, sizeof text);
    cr_expect_str_eq(text, "no body");
    answer_error_text(baton_bytes_of("{\"error\":\"a\\nb\\u0007c\"}"), text, sizeof text);
    cr_expect_str_eq(text, "a b c", "nothing of an engine may break a line of log");
    answer_error_text(baton_bytes_of("{\"error\":\"aä\"}"), text, 3);
    cr_expect_str_eq(text, "a", "a character is not cut in two");
}

Test(answer, maps_codes_of_http_to_what_the_caller_should_do)
{
    static const struct {
        uint32_t http;
        enum baton_code code;
    } ROWS[] = {
        { 302, BATON_ABORTED },           { 400, BATON_INVALID_ARGUMENT },
        { 403, BATON_PERMISSION_DENIED }, { 404, BATON_UNIMPLEMENTED },
        { 405, BATON_UNIMPLEMENTED },     { 409, BATON_FAILED_PRECONDITION },
        { 500, BATON_ABORTED },           { 503, BATON_UNAVAILABLE },
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct baton_status st = answer_error(ROWS[i].http, baton_bytes_of("{\"error\":\"why\"}"));
        cr_expect_eq(st.code, ROWS[i].code, "%u", ROWS[i].http);
        cr_expect_eq(st.reason, BATON_REASON_ENGINE_REFUSED);
        cr_expect_not_null(strstr(st.message, "why"));
    }
}

Test(answer, reads_members_and_names_the_one_that_is_wrong)
{
    bool flag = false;
    uint32_t count = 0;
    char text[8];
    struct baton_status st =
        answer_bool(baton_bytes_of("{\"is_paused\":true}"), "is_paused", &flag);
    cr_expect(baton_ok(&st) && flag);
    st = answer_bool(baton_bytes_of("{\"is_paused\":1}"), "is_paused", &flag);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED);
    cr_expect_not_null(strstr(st.message, "is_paused"));
    st = answer_count(baton_bytes_of("{\"n\":4}"), "n", &count);
    cr_expect(baton_ok(&st) && count == 4);
    st = answer_count(baton_bytes_of("{\"n\":-4}"), "n", &count);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED);
    st = answer_count(baton_bytes_of("{\"n\":4294967296}"), "n", &count);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED);
    st = answer_text(baton_bytes_of("{\"v\":\"12345678\"}"), "v", text, sizeof text);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED, "one byte too long");
    st = answer_text(baton_bytes_of("{\"v\":\"a\\u0000b\"}"), "v", text, sizeof text);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED, "a zero inside");
    st = answer_text(baton_bytes_of("[1"), "v", text, sizeof text);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED);
    st = answer_text(baton_bytes_of("{\"v\":\"a\",\"v\":\"b\"}"), "v", text, sizeof text);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED, "named twice");
}

Test(answer, reads_a_guard_and_refuses_half_of_one)
{
    static const char *const BAD[] = {
        "{}",
        "{\"guard\":2,\"gate\":\"open\",\"boots\":1,\"bootId\":\"" DIGEST_A "\",\"version\":1,"
        "\"held\":0,\"active\":0}",
        "{\"guard\":1,\"gate\":\"ajar\",\"boots\":1,\"bootId\":\"" DIGEST_A "\",\"version\":1,"
        "\"held\":0,\"active\":0}",
        "{\"guard\":1,\"gate\":\"open\",\"boots\":1,\"bootId\":\"xx\",\"version\":1,\"held\":0,"
        "\"active\":0}",
        "{\"guard\":1,\"gate\":\"open\",\"boots\":1,\"bootId\":\"" DIGEST_A "\",\"version\":1,"
        "\"held\":0}",
    };
    struct answer_guard guard;
    struct baton_status st = answer_guard(
        baton_bytes_of("{\"guard\":1,\"gate\":\"hold\",\"boots\":7,\"bootId\":\"" DIGEST_A
                       "\",\"version\":9,\"held\":2,\"active\":3}"),
        &guard);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(guard.gate == GUARD_GATE_HOLD && guard.boots == 7 && guard.version == 9 &&
              guard.held == 2 && guard.active == 3);
    cr_expect_str_eq(guard.incarnation, DIGEST_A);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        st = answer_guard(baton_bytes_of(BAD[i]), &guard);
        cr_expect_eq(st.reason, BATON_REASON_MALFORMED, "%s", BAD[i]);
    }
}

Test(answer, probe_needs_log_probabilities_that_are_some)
{
    static const char *const BAD[] = {
        "{\"choices\":[]}",
        "{\"choices\":[{\"text\":\"a\",\"logprobs\":null}]}",
        "{\"choices\":[{\"text\":\"a\",\"logprobs\":{\"token_logprobs\":[]}}]}",
        "{\"choices\":[{\"text\":\"a\",\"logprobs\":{\"token_logprobs\":[-1,null]}}]}",
        "{\"choices\":[{\"text\":\"a\",\"logprobs\":{\"token_logprobs\":[0.5]}}]}",
        "{\"choices\":[{\"text\":\"a\",\"logprobs\":{\"token_logprobs\":[NaN]}}]}",
    };
    struct engine_probe probe = { 0 };
    struct baton_status st = answer_probe(
        baton_bytes_of("{\"choices\":[{\"text\":\"ab\",\"logprobs\":{\"token_logprobs\":"
                       "[-0.5,-1.25]}}]}"),
        &probe);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(probe.ok && probe.tokens_count == 2 && probe.logprob_sum == -1.75);
    cr_expect_str_eq(probe.text, "ab");
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        st = answer_probe(baton_bytes_of(BAD[i]), &probe);
        cr_expect(!baton_ok(&st) && !probe.ok, "%s", BAD[i]);
    }
}

Test(answer, sees_a_channel_out_of_step)
{
    struct baton_status st = answer_nulls(baton_bytes_of("{\"results\":[null,null]}"), 2);
    cr_expect(baton_ok(&st), "%s", st.message);
    st = answer_nulls(baton_bytes_of("{\"results\":[null,{\"dp0\":\"x\"}]}"), 2);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED);
    st = answer_nulls(baton_bytes_of("{\"results\":[null]}"), 2);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED);
    st = answer_report(baton_bytes_of("{\"results\":[null]}"), 1, &report);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED);
    st = answer_report(baton_bytes_of("{\"results\":[{\"protocol\":1,\"rank\":1,\"world_size\":1,"
                                      "\"session\":false,\"fence\":[0,0,0,0,0]}]}"),
                       1, &report);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "another rank's");
    st = answer_report(baton_bytes_of("{\"results\":[{\"protocol\":2,\"rank\":0}]}"), 1, &report);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
}

Test(answer, refuses_reports_with_a_wrong_member_and_names_rank_and_member)
{
    struct rank_text rank = BARE;
    rank.staged = "{\"ok\":true,\"version_digest\":\"zz\",\"fence\":[1,2,3,4,5]}";
    struct baton_status st = read_ranks(&rank, 1);
    cr_expect_eq(st.reason, BATON_REASON_MALFORMED);
    cr_expect_not_null(strstr(st.message, "rank 0: staged.version_digest"), "%s", st.message);
    rank = BARE;
    rank.applied = "{\"ok\":true,\"version_digest\":\"" DIGEST_A "\",\"fence\":[1,2,3,4]}";
    st = read_ranks(&rank, 1);
    cr_expect_not_null(strstr(st.message, "applied.fence"), "%s", st.message);
    rank = BARE;
    rank.resident = "{\"version_digest\":\"" DIGEST_A "\",\"level\":\"certain\"}";
    st = read_ranks(&rank, 1);
    cr_expect_not_null(strstr(st.message, "resident.level"), "%s", st.message);
    rank = BARE;
    rank.session = "null";
    st = read_ranks(&rank, 1);
    cr_expect_not_null(strstr(st.message, "session"), "%s", st.message);
}

/* A plug-in that does not tell whether it swaps live does not. */
Test(answer, live)
{
    struct rank_text rank = BARE;
    struct baton_status st = read_ranks(&rank, 1);
    cr_assert(baton_ok(&st) && !report.ranks[0].live && report.ranks[0].live_why[0] != '\0');
    rank.live = "\"live\":true,\"live_why\":\"one step\",";
    st = read_ranks(&rank, 1);
    cr_assert(baton_ok(&st) && report.ranks[0].live);
    cr_assert_str_eq(report.ranks[0].live_why, "one step");
    rank.live = "\"live\":false,\"live_why\":\"a pipeline\",";
    st = read_ranks(&rank, 1);
    cr_assert(baton_ok(&st) && !report.ranks[0].live);
    cr_assert_str_eq(report.ranks[0].live_why, "a pipeline");
    rank.live = "\"live\":1,";
    st = read_ranks(&rank, 1);
    cr_assert_not_null(strstr(st.message, "report.live"), "%s", st.message);
}

Test(answer, sums_up_ranks_that_all_applied)
{
    struct engine_update update = { 0 };
    struct rank_text ranks[2] = { BARE, BARE };
    ranks[0].applied = part("true", DIGEST_A, 5, "");
    ranks[1].applied = ranks[0].applied;
    ranks[0].resident = RESIDENT_A;
    ranks[1].resident = COPIED_A;
    struct baton_status st = read_ranks(ranks, 2);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = answer_sum(&report, ANSWER_APPLIED, DIGEST_A, &FENCE, &update);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(update.ok && !update.restored && update.error_rank == -1);
    cr_expect_eq(update.level, ENGINE_LEVEL_COPIED, "the weakest rank's");
    cr_expect_eq(update.load_ns, UINT64_C(2000000000), "the slowest rank's");
    /* The same report is no proof of another fence, another digest, or with a session open. */
    st = answer_sum(&report, ANSWER_APPLIED, DIGEST_A, &OLD, &update);
    cr_expect(!update.ok && st.reason == BATON_REASON_ENGINE_LIED);
    st = answer_sum(&report, ANSWER_APPLIED, DIGEST_B, &FENCE, &update);
    cr_expect(!update.ok && !update.restored);
    ranks[1].session = "true";
    st = read_ranks(ranks, 2);
    cr_assert(baton_ok(&st));
    st = answer_sum(&report, ANSWER_APPLIED, DIGEST_A, &FENCE, &update);
    cr_expect(!baton_ok(&st) && !update.ok);
}

Test(answer, blames_the_rank_that_began_it_and_sees_who_is_old)
{
    struct engine_update update = { 0 };
    struct rank_text ranks[2] = { BARE, BARE };
    ranks[0].applied = part("false", DIGEST_A, 5, ",\"restored\":true,\"error\":" PEER);
    ranks[1].applied = part("false", DIGEST_A, 5, ",\"restored\":true,\"error\":" ERROR_B);
    struct baton_status st = read_ranks(ranks, 2);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = answer_sum(&report, ANSWER_APPLIED, DIGEST_A, &FENCE, &update);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.message, "w.1"), "%s", st.message);
    cr_expect(!update.ok && update.restored && update.error_rank == 1);
    cr_expect_str_eq(update.error_code, "MISSING_TENSOR");
    cr_expect_str_eq(update.error_tensor, "w.1");
    /* A rank that kept the new tensors makes the engine mixed, whatever else it says. */
    ranks[0].applied = part("true", DIGEST_A, 5, ",\"restored\":true");
    ranks[0].resident = RESIDENT_A;
    st = read_ranks(ranks, 2);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = answer_sum(&report, ANSWER_APPLIED, DIGEST_A, &FENCE, &update);
    cr_expect(!baton_ok(&st) && !update.ok && !update.restored);
}

Test(answer, takes_an_old_outcome_for_nothing_done)
{
    struct engine_update update = { 0 };
    struct rank_text rank = BARE;
    rank.applied = part("true", DIGEST_A, 4, "");
    rank.resident = RESIDENT_A;
    struct baton_status st = read_ranks(&rank, 1);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = answer_sum(&report, ANSWER_APPLIED, DIGEST_A, &FENCE, &update);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED);
    cr_expect_str_eq(update.error_code, "VERIFY_FAILED");
    cr_expect(!update.ok && update.restored, "what did not happen left the weights alone");
    rank.staged = part("false", DIGEST_A, 4,
                       ",\"error\":{\"code\":\"FENCED\",\"message\":\"lower\",\"rank\":0}");
    st = read_ranks(&rank, 1);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = answer_sum(&report, ANSWER_STAGED, DIGEST_A, &FENCE, &update);
    cr_expect_eq(st.reason, BATON_REASON_STALE_TICKET);
    cr_expect_str_eq(update.error_code, "FENCED");
}

Test(answer, sums_up_a_readback)
{
    struct engine_update update = { 0 };
    struct rank_text rank = BARE;
    rank.readback = "{\"ok\":true,\"version_digest\":\"" DIGEST_A
                    "\",\"level\":\"resident\",\"tensors\":3,\"mismatched\":[],\"seconds\":0.1}";
    struct baton_status st = read_ranks(&rank, 1);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = answer_sum(&report, ANSWER_READBACK, DIGEST_A, NULL, &update);
    cr_expect(baton_ok(&st) && update.ok && update.level == ENGINE_LEVEL_RESIDENT);
    st = answer_sum(&report, ANSWER_READBACK, DIGEST_B, NULL, &update);
    cr_expect(!baton_ok(&st) && !update.ok && !update.restored);
    rank.readback = "{\"ok\":false,\"version_digest\":\"" DIGEST_A
                    "\",\"level\":\"resident\",\"tensors\":3,\"mismatched\":[\"a.w\",\"b.w\"]}";
    st = read_ranks(&rank, 1);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = answer_sum(&report, ANSWER_READBACK, DIGEST_A, NULL, &update);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED);
    cr_expect_not_null(strstr(st.message, "2 tensors differ, the first is a.w"), "%s", st.message);
    cr_expect_str_eq(update.error_code, "VERIFY_FAILED");
}

Test(answer, reads_how_a_server_was_started)
{
    static const char TEXT[] =
        "{\"vllm_config\":{\"instance_id\":\"a\",\"device_config\":{\"device\":\"cpu\"},"
        "\"model_config\":{\"model\":\"/m/v1\",\"served_model_name\":\"/m/v1\","
        "\"enforce_eager\":false}}}";
    struct answer_server server;
    struct baton_status st = answer_server(baton_bytes_of(TEXT), &server);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(server.compiled_on_cpu && server.named_by_path);
    st = answer_server(baton_bytes_of("{\"vllm_config\":{}}"), &server);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(!server.compiled_on_cpu && !server.named_by_path);
}
