/* The adapter "vllm" against scripted answers: what a lying, silent or broken engine leads to. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "api/base/clock.h"
#include "tests/unit/engine_server.h"

#define SOON     (baton_clock_monotonic_ns() + 2000 * BATON_NS_PER_MS)
#define PLENTY   (baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S)
#define DIGEST_A "00112233445566778899aabbccddeeff"
#define DIGEST_B "ffeeddccbbaa99887766554433221100"

/* Rank r of two: report with session, staged, applied, resident. */
#define RANK(r, session, staged, applied, resident)                                                \
    "{\"protocol\":1,\"rank\":" r ",\"world_size\":2,\"session\":" session                         \
    ",\"fence\":[1,1,1,7,2],\"staged\":" staged ",\"applied\":" applied ",\"resident\":" resident  \
    ",\"readback\":null,\"seconds\":{\"stage\":0.25,\"load\":0.5,\"finalize\":0,\"verify\":0.125}" \
    "}"
#define BOTH(session, staged, applied, resident)                                                   \
    "{\"results\":[" RANK("0", session, staged, applied,                                           \
                          resident) "," RANK("1", session, staged, applied, resident) "]}"
#define PART(ok, digest, step, rest)                                                               \
    "{\"ok\":" ok ",\"version_digest\":\"" digest "\",\"fence\":[1,1,1,7," step "]" rest "}"
#define RESIDENT(digest) "{\"version_digest\":\"" digest "\",\"level\":\"resident\"}"
#define ERROR(code, rank)                                                                          \
    ",\"restored\":true,\"error\":{\"code\":\"" code                                               \
    "\",\"message\":\"m\",\"tensor\":\"w\",\"rank\":" rank "}"

#define REPORT_OLD     BOTH("false", "null", "null", RESIDENT(DIGEST_A))
#define REPORT_OPEN    BOTH("true", "null", "null", RESIDENT(DIGEST_A))
#define REPORT_STAGED  BOTH("true", PART("true", DIGEST_B, "2", ""), "null", RESIDENT(DIGEST_A))
#define REPORT_APPLIED BOTH("false", "null", PART("true", DIGEST_B, "2", ""), RESIDENT(DIGEST_B))
#define REPORT_UNSTAGED                                                                            \
    "{\"results\":[" RANK(                                                                         \
        "0", "true", PART("true", DIGEST_B, "2", ""), "null",                                      \
        RESIDENT(DIGEST_A)) "," RANK("1", "true",                                                  \
                                     PART("false", DIGEST_B, "2", ERROR("MISSING_TENSOR", "1")),   \
                                     "null", RESIDENT(DIGEST_A)) "]}"
#define REPORT_RESTORED                                                                            \
    BOTH("false", "null", PART("false", DIGEST_B, "2", ERROR("PEER_FAILED", "0")),                 \
         RESIDENT(DIGEST_A))
#define INFO(backend)                                                                              \
    "{\"vllm_config\":{\"weight_transfer_config\":" backend ",\"instance_id\":\"abc12\"}}"
#define OK(request, body)                                                                          \
    {                                                                                              \
        request, 200, body, SCRIPT_ANSWER, NULL                                                    \
    }

static const struct engine_fence FENCE = { 1, 1, 1, 7, 2 };

/* A sound engine of two ranks with the plug-in, paused, at DIGEST_A. */
static const struct script_row SOUND[] = {
    OK("GET /v1/models", "{\"data\":[{\"id\":\"tiny\"}]}"),
    OK("GET /version", "{\"version\":\"0.32.0\"}"),
    OK("GET /health", ""),
    OK("GET /get_world_size", "{\"world_size\":2}"),
    OK("GET /weight_info", "{\"weight_version\":\"v1\"}"),
    OK("GET /is_paused", "{\"is_paused\":true}"),
    OK("GET /is_sleeping", "{\"is_sleeping\":false}"),
    OK("GET /server_info", INFO("{\"backend\":\"baton\"}")),
    OK("RPC check_health", "{\"results\":[null,null]}"),
    OK("RPC baton_report", REPORT_OLD),
    OK("RPC baton_fence", "{\"results\":[null,null]}"),
    OK("POST /init_weight_transfer_engine", "{\"message\":\"\"}"),
    OK("POST /start_weight_update", "{\"message\":\"\"}"),
    OK("POST /update_weights", "{\"message\":\"\"}"),
    OK("POST /finish_weight_update", "{\"message\":\"\"}"),
    OK("POST /pause", "{\"status\":\"paused\"}"),
    OK("POST /resume", "{\"status\":\"resumed\"}"),
    OK("POST /reset_prefix_cache", "{\"success\":true}"),
    OK("POST /update_weight_version", "{\"success\":true}"),
};
enum { SOUND_COUNT = sizeof SOUND / sizeof SOUND[0], ROWS_MAX = 48 };

static const struct engine_adapter *adapter;
static struct script_row rows[ROWS_MAX];
static size_t rows_count;
static struct script *script;
static struct engine *engine;
static struct engine_facts facts;
static struct engine_update update;
static char page_path[64];

static void begin(void)
{
    adapter = engine_adapter_find("vllm");
    rows_count = 0;
    page_path[0] = '\0';
}

static void end(void)
{
    if (engine != NULL) {
        adapter->close(engine);
        engine = NULL;
    }
    if (script != NULL) {
        script_stop(script);
        script = NULL;
    }
    if (page_path[0] != '\0') {
        (void)unlink(page_path);
    }
}

TestSuite(vllm, .init = begin, .fini = end);

/* A row that is used before the sound ones; several of one request are used in order. */
static void say(struct script_row row)
{
    rows[rows_count++] = row;
}

static void say_ok(const char *request, const char *body)
{
    say((struct script_row)OK(request, body));
}

static void say_code(const char *request, int code, const char *body)
{
    say((struct script_row){ request, code, body, SCRIPT_ANSWER, NULL });
}

/* Starts the engine: what was said so far, then the sound answers to whatever was not said. */
static void serve(void)
{
    struct engine_options options = { .name = "e0" };
    size_t said = rows_count;
    for (size_t i = 0; i < SOUND_COUNT; i++) {
        bool replaced = false;
        for (size_t j = 0; j < said; j++) {
            replaced = replaced || strcmp(rows[j].request, SOUND[i].request) == 0;
        }
        if (!replaced) {
            say(SOUND[i]);
        }
    }
    script = script_start(rows, rows_count);
    (void)snprintf(options.url, sizeof options.url, "%s", script_url(script));
    (void)snprintf(options.guard_page, sizeof options.guard_page, "%s", page_path);
    struct baton_status st = adapter->open(&options, &engine);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void attach(void)
{
    serve();
    struct baton_status st = adapter->attach(engine, PLENTY, &facts);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void expect_no_way_in(const char *reason)
{
    attach();
    cr_expect_eq(facts.way_in, ENGINE_WAY_IN_NONE);
    cr_expect_not_null(strstr(facts.way_in_reason, reason), "%s", facts.way_in_reason);
    end();
    rows_count = 0;
}

#define GUARD(gate)                                                                                \
    "{\"guard\":1,\"gate\":\"" gate                                                                \
    "\",\"boots\":3,\"bootId\":\"ab000000000000000000000000000000\","                              \
    "\"version\":9,\"held\":0,\"active\":0}"

/* The reports that attach with two ranks reads: one, and one of the channel's trial. */
static void say_attach_reports(void)
{
    say_ok("RPC baton_report", REPORT_OLD);
    say_ok("RPC baton_report", REPORT_OLD);
}

static struct baton_status run_update(uint64_t deadline_ns)
{
    return adapter->update(engine, "/landing", DIGEST_B, &FENCE, deadline_ns, &update);
}

Test(vllm, attach_finds_what_is_there)
{
    attach();
    cr_expect_eq(facts.way_in, ENGINE_WAY_IN_PLUGIN, "%s", facts.way_in_reason);
    cr_expect_str_eq(facts.software, "0.32.0");
    cr_expect_str_eq(facts.incarnation, "abc12");
    cr_expect_str_eq(facts.label, "v1");
    cr_expect_str_eq(facts.resident_digest, DIGEST_A);
    cr_expect(facts.world_size == 2 && facts.paused && !facts.sleeping && !facts.session_open);
    cr_expect(facts.level == ENGINE_LEVEL_RESIDENT && !facts.guarded);
    cr_expect(facts.fence.ticket == 7 && facts.fence.step == 2);
    cr_expect(facts.ranks_all == 2 && !facts.sleep_mode);
}

Test(vllm, attach_says_why_there_is_no_way_in)
{
    say_code("GET /get_world_size", 404, "{\"detail\":\"Not Found\"}");
    expect_no_way_in("VLLM_SERVER_DEV_MODE=1");
    say_code("GET /baton/guard", 403, "{\"error\":{\"message\":\"no\"}}");
    expect_no_way_in("token file");
    say_ok("GET /version", "{\"version\":\"0.25.1\"}");
    expect_no_way_in("0.25.1 is too old");
    say_ok("GET /get_world_size?include_dp=true", "{\"world_size\":4}");
    say_ok("GET /get_world_size?include_dp=false", "{\"world_size\":2}");
    expect_no_way_in("data parallel");
    say_ok("GET /version", "{\"version\":\"0.28.0\"}");
    say_ok("GET /server_info", INFO("null"));
    expect_no_way_in("in step");
    say_ok("RPC check_health", "{\"results\":[null," RESIDENT(DIGEST_A) "]}");
    expect_no_way_in("out of step");
}

Test(vllm, attach_fails_when_nobody_answers)
{
    say((struct script_row){ "GET /version", 0, "", SCRIPT_HANG, NULL });
    serve();
    struct baton_status st = adapter->attach(engine, SOON, &facts);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_UNREACHABLE);
    cr_expect_eq(facts.way_in, ENGINE_WAY_IN_NONE);
}

/* A look at an engine in use that is cut off: by silence here, for a swap elsewhere. */
Test(vllm, attach_that_fails_forgets_nothing)
{
    static const struct script_row HANGS = { "GET /server_info", 0, NULL, SCRIPT_HANG, NULL };
    struct engine_facts again;
    say_ok("GET /server_info", INFO("{\"backend\":\"baton\"}"));
    say(HANGS);
    attach();
    struct baton_status st = adapter->attach(engine, SOON, &again);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED, "%s", st.message);
    st = adapter->raise_fence(engine, &FENCE, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
}

Test(vllm, attach_never_asks_a_worker_for_what_it_may_not_know)
{
    say_ok("GET /version", "{\"version\":\"0.28.0\"}");
    say_ok("GET /server_info", INFO("{\"backend\":\"nccl\"}"));
    attach();
    cr_expect_eq(script_count(script, "RPC baton_report"), 0, "an unknown method would raise");
    cr_expect_eq(script_count(script, "RPC compute_weight_checksums"), 0);
}

Test(vllm, pause_is_read_back)
{
    say_ok("GET /is_paused", "{\"is_paused\":true}");  /* attach */
    say_ok("GET /is_paused", "{\"is_paused\":false}"); /* before the pause */
    say_ok("GET /is_paused", "{\"is_paused\":true}");
    say_ok("GET /is_paused", "{\"is_paused\":false}");
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_KEEP, true, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(script_count(script, "POST /pause?mode=keep&clear_cache=true"), 1);
    st = adapter->pause(engine, ENGINE_IN_FLIGHT_ABORT, false, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "200, and not paused: %s", st.message);
    cr_expect_eq(script_count(script, "POST /pause?mode=abort&clear_cache=false"), 1);
}

Test(vllm, pause_that_gets_no_answer_says_what_it_did)
{
    say((struct script_row){ "POST /pause", 0, "", SCRIPT_HANG, NULL });
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_WAIT, true, SOON);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED);
    cr_expect_not_null(strstr(st.hint, "it is paused"), "%s", st.hint);
}

Test(vllm, pause_is_not_tried_on_a_sleeper_or_with_ranks_out_of_step)
{
    say_ok("GET /is_paused", "{\"is_paused\":false}");
    say_ok("GET /is_sleeping", "{\"is_sleeping\":true}");
    say_ok("GET /is_sleeping", "{\"is_sleeping\":true}");
    say_ok("GET /is_sleeping", "{\"is_sleeping\":false}");
    say_ok("RPC check_health", "{\"results\":[null,null]}");
    say_ok("RPC check_health", "{\"results\":[null,{\"late\":1}]}");
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_KEEP, true, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_HELD, "%s", st.message);
    st = adapter->pause(engine, ENGINE_IN_FLIGHT_KEEP, true, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
    cr_expect_eq(script_count(script, "POST /pause"), 0);
}

#define SLEEPS_INFO INFO("{\"backend\":\"baton\"},\"model_config\":{\"enable_sleep_mode\":true}")

/* "Sleeping" is what a mere pause says, too: only what happens to the scheduler shows released memory. */
Test(vllm, sleep_is_believed_only_when_memory_is_released)
{
    struct guard_page *page = script_page(page_path, sizeof page_path);
    say_ok("GET /baton/guard", GUARD("shut"));
    say_ok("GET /server_info", SLEEPS_INFO);
    say_ok("POST /sleep", "{\"status\":\"sleeping\",\"level\":2}");
    say_ok("POST /wake_up", "{\"status\":\"sleeping\",\"tags\":[\"scheduling\"]}");
    say_ok("POST /wake_up", "{\"status\":\"awake\",\"tags\":[\"scheduling\"]}");
    attach();
    struct baton_status st = adapter->sleep(engine, 0, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(script_last_has(script, "POST /sleep", "level=2&mode=abort"));
    cr_expect(script_last_has(script, "POST /wake_up", "tags=scheduling"));
    st = adapter->sleep(engine, 0, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
    (void)munmap(page, GUARD_PAGE_BYTES);
}

static void expect_no_sleep(const char *hint)
{
    attach();
    struct baton_status st = adapter->sleep(engine, 0, PLENTY);
    cr_expect_eq(st.code, BATON_FAILED_PRECONDITION, "%s", st.message);
    cr_expect_not_null(strstr(st.hint, hint), "%s: %s", st.message, st.hint);
    cr_expect_eq(script_count(script, "POST /sleep"), 0);
}

Test(vllm, sleep_without_sleep_mode_is_refused_before_it_is_asked_for)
{
    struct guard_page *page = script_page(page_path, sizeof page_path);
    say_ok("GET /baton/guard", GUARD("shut"));
    expect_no_sleep("--enable-sleep-mode");
    (void)munmap(page, GUARD_PAGE_BYTES);
}

/* A wake lets the scheduler run: what was discarded would be served to whoever asks. */
Test(vllm, sleep_without_a_guard_is_refused_before_it_is_asked_for)
{
    say_ok("GET /server_info", SLEEPS_INFO);
    expect_no_sleep("vllm.md");
}

Test(vllm, wake_is_read_back)
{
    say_ok("POST /wake_up", "{\"status\":\"awake\",\"tags\":null}");
    say_ok("GET /is_paused", "{\"is_paused\":true}"); /* attach */
    say_ok("GET /is_paused", "{\"is_paused\":false}");
    say_ok("GET /is_paused", "{\"is_paused\":true}");
    attach();
    struct baton_status st = adapter->wake(engine, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    st = adapter->wake(engine, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
}

Test(vllm, partial_wake_is_no_wake)
{
    say_ok("POST /wake_up", "{\"status\":\"sleeping\",\"tags\":null}");
    attach();
    struct baton_status st = adapter->wake(engine, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
}

Test(vllm, pause_answered_500_by_a_stale_reply_is_seen_through)
{
    say_code("POST /pause", 500, "{\"error\":\"Failed to pause generation: something older\"}");
    say_ok("RPC check_health", "{\"results\":[null,null]}"); /* attach */
    say_ok("RPC check_health", "{\"results\":[null,null]}"); /* before the pause */
    say_ok("RPC check_health", "{\"results\":[null,{\"late\":1}]}");
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_KEEP, true, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
    cr_expect_not_null(strstr(st.message, "out of step"), "%s", st.message);
}

Test(vllm, a_second_wait_proves_no_drain)
{
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_WAIT, true, PLENTY);
    cr_expect_eq(st.code, BATON_FAILED_PRECONDITION, "%s", st.message);
    cr_expect_not_null(strstr(st.message, "proves no drain"), "%s", st.message);
}

Test(vllm, update_goes_by_the_order_and_gives_every_field)
{
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OLD);
    say_ok("RPC baton_report", REPORT_STAGED);
    say_ok("RPC baton_report", REPORT_APPLIED);
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(update.ok && update.answered && update.in_step && !update.restored);
    cr_expect_eq(update.level, ENGINE_LEVEL_RESIDENT);
    cr_expect(update.stage_ns == 250000000 && update.load_ns == 500000000 &&
              update.verify_ns == 125000000);
    cr_expect_eq(update.error_rank, -1);
    cr_expect(
        script_last_has(script, "POST /update_weights",
                        "{\"update_info\":{\"landing\":\"/landing\",\"version_digest\":\"" DIGEST_B
                        "\",\"fence\":[1,1,1,7,2]}}"));
    cr_expect_eq(script_count(script, "POST /start_weight_update"), 1);
    cr_expect_eq(script_count(script, "POST /finish_weight_update"), 1);
    cr_expect_not(script_last_has(script, "POST /finish_weight_update", "weight_version"),
                  "the label is never given with finish");
}

Test(vllm, update_uses_a_session_that_was_left_open)
{
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OPEN);
    say_ok("RPC baton_report", REPORT_STAGED);
    say_ok("RPC baton_report", REPORT_APPLIED);
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(script_count(script, "POST /start_weight_update"), 0, "it would raise");
}

Test(vllm, update_that_was_not_staged_on_a_rank_ends_the_session_untouched)
{
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OLD);
    say_ok("RPC baton_report", REPORT_UNSTAGED);
    say_ok("RPC baton_report", REPORT_UNSTAGED);
    say_ok("RPC baton_report", REPORT_RESTORED);
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE, "%s", st.message);
    cr_expect(!update.ok && update.restored && update.answered && update.in_step);
    cr_expect_str_eq(update.error_code, "MISSING_TENSOR");
    cr_expect_str_eq(update.error_tensor, "w");
    cr_expect_eq(update.error_rank, 1);
    cr_expect_eq(script_count(script, "POST /finish_weight_update"), 1);
}

Test(vllm, update_answered_200_without_having_been_done_is_no_update)
{
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OLD);
    say_ok("RPC baton_report", REPORT_STAGED);
    say_ok("RPC baton_report",
           BOTH("false", "null", PART("true", DIGEST_A, "1", ""), RESIDENT(DIGEST_A)));
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
    cr_expect(!update.ok && update.restored && update.level == ENGINE_LEVEL_NONE);
}

Test(vllm, update_without_an_answer_is_unknown)
{
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OLD);
    say_ok("RPC baton_report", REPORT_STAGED);
    say((struct script_row){ "POST /finish_weight_update", 0, "", SCRIPT_HANG, NULL });
    attach();
    struct baton_status st = run_update(SOON);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED, "%s", st.message);
    cr_expect(!update.answered && !update.ok && !update.restored);
}

Test(vllm, update_of_an_engine_that_dies_is_unknown)
{
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OLD);
    say((struct script_row){ "POST /update_weights", 0, "", SCRIPT_CLOSE, NULL });
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    cr_expect(!update.answered && !update.ok && !update.restored);
}

Test(vllm, update_answered_500_looks_whether_the_ranks_are_in_step)
{
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OLD);
    say_code("POST /update_weights", 500, "{\"error\":{\"message\":\"worker failed\"}}");
    say_ok("RPC check_health", "{\"results\":[null,null]}");
    say_ok("RPC check_health", "{\"results\":[null,{\"late\":1}]}");
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_not_null(strstr(st.message, "worker failed"), "%s", st.message);
    cr_expect(update.answered && !update.in_step && !update.ok && !update.restored);
    cr_expect_eq(script_count(script, "POST /finish_weight_update"), 0);
}

Test(vllm, update_refused_by_the_worker_does_not_finish_a_session_that_is_closed)
{
    say_code("POST /update_weights", 500, "{\"error\":{\"message\":\"worker failed\"}}");
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_not_null(strstr(st.message, "worker failed"), "%s", st.message);
    cr_expect(update.answered && update.in_step && update.restored && !update.ok);
    cr_expect_eq(script_count(script, "POST /finish_weight_update"), 0, "it would raise");
}

Test(vllm, update_is_not_begun_unless_paused_and_the_same_engine)
{
    say_ok("GET /is_paused", "{\"is_paused\":true}");
    say_ok("GET /is_paused", "{\"is_paused\":false}");
    say_ok("GET /server_info", INFO("{\"backend\":\"baton\"}"));
    say_ok("GET /server_info", INFO("{\"backend\":\"baton\"}"));
    say_ok("GET /server_info", "{\"vllm_config\":{\"instance_id\":\"other\"}}");
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_HELD, "%s", st.message);
    cr_expect(update.restored && !update.ok && update.answered);
    st = run_update(PLENTY);
    cr_expect_eq(st.code, BATON_ABORTED, "%s", st.message);
    cr_expect(!update.restored, "nobody knows what another incarnation holds");
    cr_expect_eq(script_count(script, "POST /start_weight_update"), 0);
}

static void *abort_in_finish(void *self)
{
    (void)self;
    (void)script_await(script, "POST /finish_weight_update");
    adapter->abort(engine);
    return NULL;
}

Test(vllm, update_can_be_aborted)
{
    pthread_t thread;
    say_attach_reports();
    say_ok("RPC baton_report", REPORT_OLD);
    say_ok("RPC baton_report", REPORT_STAGED);
    say((struct script_row){ "POST /finish_weight_update", 0, "", SCRIPT_HANG, NULL });
    attach();
    cr_assert_eq(pthread_create(&thread, NULL, abort_in_finish, NULL), 0);
    struct baton_status st = run_update(baton_clock_monotonic_ns() + 3600 * BATON_NS_PER_S);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_expect_eq(st.code, BATON_CANCELLED, "%s", st.message);
    cr_expect(!update.answered && !update.restored);
}

static char landing[64];

static void landing_file(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", landing, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static void landing_make(const char *digest)
{
    char manifest[512];
    (void)snprintf(landing, sizeof landing, "/tmp/engine_landing_XXXXXX");
    cr_assert_not_null(mkdtemp(landing));
    (void)snprintf(manifest, sizeof manifest,
                   "{\"versionDigest\":\"%s\",\"tensors\":[{\"name\":\"w\",\"file\":\"a.st\"}]}",
                   digest);
    landing_file("config.json", "{}");
    landing_file("baton.manifest.json", manifest);
}

static void landing_drop(void)
{
    static const char *const NAMES[] = { "config.json", "baton.manifest.json", "a.st" };
    for (unsigned i = 0; i < 3; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", landing, NAMES[i]);
        (void)unlink(path);
    }
    (void)rmdir(landing);
}

Test(vllm, reload_checks_the_landing_before_the_engine_hears_of_it)
{
    say_ok("GET /server_info", INFO("null"));
    say_ok("GET /get_world_size", "{\"world_size\":1}");
    say_ok("RPC reload_weights", "{\"results\":[null]}");
    attach();
    cr_expect_eq(facts.way_in, ENGINE_WAY_IN_RELOAD, "%s", facts.way_in_reason);
    struct baton_status st = run_update(PLENTY);
    cr_expect_eq(st.code, BATON_NOT_FOUND, "%s", st.message);
    cr_expect(update.restored && update.answered);
    landing_make(DIGEST_B);
    st = adapter->update(engine, landing, DIGEST_B, &FENCE, PLENTY, &update);
    cr_expect_eq(st.code, BATON_NOT_FOUND, "a.st is missing: %s", st.message);
    cr_expect_not_null(strstr(st.message, "a.st"), "%s", st.message);
    landing_file("a.st", "x");
    st = adapter->update(engine, landing, DIGEST_A, &FENCE, PLENTY, &update);
    cr_expect_eq(st.reason, BATON_REASON_DIGEST_MISMATCH, "%s", st.message);
    cr_expect_eq(script_count(script, "RPC reload_weights"), 0);
    st = adapter->update(engine, landing, DIGEST_B, &FENCE, PLENTY, &update);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(update.ok && update.level == ENGINE_LEVEL_LANDED, "no more is known");
    cr_expect(script_last_has(script, "RPC reload_weights", landing));
    landing_drop();
}

Test(vllm, reload_that_fails_leaves_an_engine_to_recreate)
{
    say_ok("GET /server_info", INFO("null"));
    say_ok("GET /get_world_size", "{\"world_size\":1}");
    say_code("RPC reload_weights", 500, "{\"error\":{\"message\":\"bad\"}}");
    say((struct script_row){ "RPC reload_weights", 0, "", SCRIPT_HANG, NULL });
    attach();
    landing_make(DIGEST_B);
    landing_file("a.st", "x");
    struct baton_status st = adapter->update(engine, landing, DIGEST_B, &FENCE, PLENTY, &update);
    cr_expect_not_null(strstr(st.message, "bad"), "%s", st.message);
    cr_expect(update.answered && !update.ok && !update.restored);
    cr_expect_str_eq(update.error_code, "LOAD_FAILED");
    st = adapter->update(engine, landing, DIGEST_B, &FENCE, SOON, &update);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED, "%s", st.message);
    cr_expect(!update.answered && !update.ok && !update.restored);
    landing_drop();
}

Test(vllm, cache_label_and_resume_are_believed_only_when_read_back)
{
    say_ok("POST /reset_prefix_cache", "{\"success\":true}");
    say_ok("POST /reset_prefix_cache", "{\"success\":false}");
    say_code("POST /update_weight_version", 200, "{\"success\":true}");
    say_code("POST /update_weight_version", 200, "{\"success\":true}");
    say_code("POST /update_weight_version", 404, "{\"detail\":\"Not Found\"}");
    attach();
    struct baton_status st = adapter->invalidate(engine, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(script_count(script, "POST /reset_prefix_cache?reset_running_requests=true"), 1);
    st = adapter->invalidate(engine, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_REFUSED, "%s", st.message);
    st = adapter->label(engine, "v1", PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(script_last_has(script, "POST /update_weight_version", "{\"new_version\":\"v1\"}"));
    st = adapter->label(engine, "v2", PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
    st = adapter->label(engine, "v1", PLENTY);
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "%s", st.message);
    st = adapter->resume(engine, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "it stays paused: %s", st.message);
}

Test(vllm, fence_is_confirmed_by_every_rank)
{
    struct engine_fence lower = { 1, 1, 1, 7, 1 };
    attach();
    struct baton_status st = adapter->raise_fence(engine, &FENCE, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(script_last_has(script, "RPC baton_fence", "\"kwargs\":{\"fence\":[1,1,1,7,2]}"));
    st = adapter->raise_fence(engine, &lower, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_STALE_TICKET, "%s", st.message);
}

Test(vllm, probe_sends_a_fresh_salt_and_reads_log_probabilities)
{
    struct engine_probe probe;
    say((struct script_row){ "POST /v1/completions", 200,
                             "{\"choices\":[{\"text\":\" the\",\"logprobs\":{\"token_logprobs\":"
                             "[-0.5,-0.25]}}]}",
                             SCRIPT_ANSWER, "x-baton-version: 12" });
    say_ok("POST /v1/completions", "{\"choices\":[{\"text\":\"\",\"logprobs\":null}]}");
    attach();
    struct baton_status st = adapter->probe(engine, false, PLENTY, &probe);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(probe.ok && probe.version == 12 && probe.tokens_count == 2 &&
              probe.logprob_sum == -0.75);
    cr_expect(script_last_has(script, "POST /v1/completions", "\"cache_salt\":\""));
    cr_expect(script_last_has(script, "POST /v1/completions", "\"model\":\"tiny\""));
    st = adapter->probe(engine, false, PLENTY, &probe);
    cr_expect(!baton_ok(&st) && !probe.ok);
}

Test(vllm, gate_is_what_the_guard_reads)
{
    struct engine_gate_state state;
    struct engine_gate_order order = { .gate = GUARD_GATE_OPEN, .version = 9, .boots = 3 };
    struct guard_page *page = script_page(page_path, sizeof page_path);
    say_ok("GET /baton/guard", GUARD("open"));
    attach();
    cr_expect(facts.guarded && facts.boots == 3 && facts.gate == GUARD_GATE_OPEN);
    cr_expect_str_eq(facts.incarnation, "ab000000000000000000000000000000");
    struct baton_status st = adapter->set_gate(engine, &order, PLENTY, &state);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(page->gate == GUARD_GATE_OPEN && page->version == 9 && page->opened_for == 3);
    order.gate = GUARD_GATE_SHUT;
    st = adapter->set_gate(engine, &order, PLENTY, &state);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "it still reads open: %s", st.message);
    cr_expect_eq(page->gate, GUARD_GATE_SHUT);
    order.boots = 2;
    st = adapter->set_gate(engine, &order, PLENTY, &state);
    cr_expect_eq(st.code, BATON_ABORTED, "%s", st.message);
    st = adapter->health(engine, PLENTY, &state);
    cr_expect(baton_ok(&st) && state.boots == 3, "%s", st.message);
    (void)munmap(page, GUARD_PAGE_BYTES);
}

Test(vllm, a_guard_with_another_page_is_no_guard)
{
    struct guard_page *page = script_page(page_path, sizeof page_path);
    page->boots = 4;
    say_ok("GET /baton/guard", GUARD("open"));
    attach();
    cr_expect(!facts.guarded && facts.way_in == ENGINE_WAY_IN_NONE);
    cr_expect_not_null(strstr(facts.way_in_reason, "another page"), "%s", facts.way_in_reason);
    (void)munmap(page, GUARD_PAGE_BYTES);
}
