/* The adapter "sglang" against scripted answers, which are the real server's of tests/engines/sglang/traps_test.py. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/engine.h"
#include "agent/engine/sglang_dialect.h"
#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "tests/unit/engine_server.h"
#include "tests/unit/sglang_landing_maker.h"

#define SOON   (baton_clock_monotonic_ns() + 2000 * BATON_NS_PER_MS)
#define PLENTY (baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S)

#define SERVER(changes)                                                                            \
    "{" changes "\"version\":\"0.5.23\",\"device\":\"cpu\",\"tp_size\":1,\"pp_size\":1,"           \
    "\"nnodes\":1,\"tokenizer_worker_num\":1,\"quantization\":null,"                               \
    "\"disaggregation_mode\":\"null\",\"random_seed\":42,"                                         \
    "\"startup_time\":{\"tokenizer_e2e\":8.25}}"
#define SOUND_SERVER SERVER("\"dp_size\":1,")
#define SLEEPER      SERVER("\"dp_size\":1,\"enable_memory_saver\":true,")
#define ROUTES                                                                                     \
    "{\"paths\":{\"/update_weights_from_disk\":{},\"/weights_checker\":{},"                        \
    "\"/pause_generation\":{},\"/update_weights_from_tensor\":{},\"/begin_weight_update\":{},"     \
    "\"/end_weight_update\":{}}}"
#define SUMS(norm)                                                                                 \
    "{\"success\":true,\"ranks\":[{\"checksums\":{\"lm_head.weight\":\"" LANDING_SUM_HEAD          \
    "\",\"model.layers.0.qkv_proj.weight\":\"" LANDING_SUM_QKV "\",\"model.norm.weight\":\"" norm  \
    "\"}}]}"
#define GUARD(gate, active)                                                                        \
    "{\"guard\":1,\"gate\":\"" gate                                                                \
    "\",\"boots\":3,\"bootId\":\"ab000000000000000000000000000000\","                              \
    "\"version\":9,\"held\":0,\"active\":" active "}"
#define OK(request, body)                                                                          \
    {                                                                                              \
        request, 200, body, SCRIPT_ANSWER, NULL                                                    \
    }
#define SAYS(request, code, body)                                                                  \
    {                                                                                              \
        request, code, body, SCRIPT_ANSWER, NULL                                                   \
    }

static const struct engine_fence FENCE = { 1, 1, 1, 7, 2 };

/* A sound server, paused. */
static const struct script_row SOUND[] = {
    OK("GET /server_info", SOUND_SERVER),
    OK("GET /openapi.json", ROUTES),
    SAYS("GET /ready", 503, ""),
    SAYS("POST /update_weight_version", 400, "{\"object\":\"error\",\"message\":\"new_version\"}"),
    OK("POST /pause_generation", "{\"status\":\"ok\"}"),
    OK("POST /continue_generation", "{\"status\":\"ok\"}"),
    OK("POST /flush_cache", "Cache flushed.\n"),
    OK("POST /update_weights_from_disk", "{\"success\":true,\"message\":\"Succeeded\"}"),
    OK("POST /weights_checker", SUMS(LANDING_SUM_NORM)),
    OK("POST /release_memory_occupation", "null"),
    OK("POST /resume_memory_occupation", "null"),
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
static struct guard_page *page;
static char *served;
static char *landing;
static char digest[BATON_DIGEST_TEXT_BYTES];
static char model_info[BATON_PATH_BYTES + 128];

static void begin(void)
{
    char other[BATON_DIGEST_TEXT_BYTES];
    adapter = engine_adapter_find("sglang");
    rows_count = 0;
    page_path[0] = '\0';
    served = maker_directory();
    landing = maker_directory();
    landing_make(served, LANDING_WHOLE, other);
    landing_make(landing, LANDING_WHOLE, digest);
    (void)snprintf(model_info, sizeof model_info,
                   "{\"model_path\":\"%s\",\"weight_version\":\"v1\"}", served);
}

static void stop(void)
{
    if (engine != NULL) {
        adapter->close(engine);
        engine = NULL;
    }
    if (script != NULL) {
        script_stop(script);
        script = NULL;
    }
    rows_count = 0;
}

static void end(void)
{
    stop();
    if (page_path[0] != '\0') {
        (void)munmap(page, GUARD_PAGE_BYTES);
        (void)unlink(page_path);
    }
    maker_remove(served);
    maker_remove(landing);
}

TestSuite(sglang, .init = begin, .fini = end);

static void say(struct script_row row)
{
    rows[rows_count++] = row;
}

static void say_ok(const char *request, const char *body)
{
    say((struct script_row)OK(request, body));
}

static void add_unsaid(struct script_row row, size_t said)
{
    for (size_t i = 0; i < said; i++) {
        if (strcmp(rows[i].request, row.request) == 0) {
            return;
        }
    }
    say(row);
}

/* Starts the engine: what was said so far, then the sound answers to whatever was not said. */
static void attach_with(const char *token_file)
{
    struct engine_options options = { .name = "e0" };
    size_t said = rows_count;
    for (size_t i = 0; i < SOUND_COUNT; i++) {
        add_unsaid(SOUND[i], said);
    }
    add_unsaid((struct script_row)OK("GET /model_info", model_info), said);
    script = script_start(rows, rows_count);
    (void)snprintf(options.url, sizeof options.url, "%s", script_url(script));
    (void)snprintf(options.guard_page, sizeof options.guard_page, "%s", page_path);
    (void)snprintf(options.token_file, sizeof options.token_file, "%s", token_file);
    struct baton_status st = adapter->open(&options, &engine);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = adapter->attach(engine, PLENTY, &facts);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void attach(void)
{
    attach_with("");
}

static void attach_guarded(const char *guard)
{
    page = script_page(page_path, sizeof page_path);
    say_ok("GET /baton/guard", guard);
    attach();
    cr_assert(facts.guarded, "%s", facts.way_in_reason);
}

static void expect_no_way_in(const char *reason)
{
    attach();
    cr_expect_eq(facts.way_in, ENGINE_WAY_IN_NONE);
    cr_expect_not_null(strstr(facts.way_in_reason, reason), "%s", facts.way_in_reason);
    stop();
}

static struct baton_status run_update(uint64_t deadline_ns)
{
    return adapter->update(engine, landing, digest, &FENCE, deadline_ns, &update);
}

Test(sglang, attach_finds_what_is_there)
{
    attach();
    cr_expect_eq(facts.way_in, ENGINE_WAY_IN_RELOAD, "%s", facts.way_in_reason);
    cr_expect_not_null(strstr(facts.way_in_reason, "dialect disk"), "%s", facts.way_in_reason);
    cr_expect_not_null(strstr(facts.way_in_reason, "tensor"), "%s", facts.way_in_reason);
    cr_expect_not_null(strstr(facts.way_in_reason, "residents: verified"));
    cr_expect_str_eq(facts.software, "0.5.23");
    cr_expect_str_eq(facts.incarnation, "42-8.250000000");
    cr_expect_str_eq(facts.label, "v1");
    cr_expect(facts.world_size == 1 && facts.paused && !facts.guarded && !facts.live);
}

Test(sglang, attach_says_why_there_is_no_way_in)
{
    say_ok("GET /server_info", SERVER("\"dp_size\":2,"));
    expect_no_way_in("replica");
    say_ok("GET /server_info", SERVER("\"dp_size\":1,\"speculative_algorithm\":\"EAGLE\","));
    expect_no_way_in("draft");
    say_ok("GET /server_info", SERVER("\"dp_size\":1,\"hicache_storage_backend\":\"file\","));
    expect_no_way_in("--hicache-storage-backend");
    say((struct script_row)SAYS("POST /update_weight_version", 401, "{\"error\":\"no\"}"));
    expect_no_way_in("--admin-api-key");
    say_ok("GET /openapi.json", "{\"paths\":{\"/pull_weights\":{}}}");
    expect_no_way_in("pull by disk delta is not driven");
    say_ok("GET /openapi.json", "{\"paths\":{}}");
    expect_no_way_in("/update_weights_from_disk");
    say((struct script_row)SAYS("GET /server_info", 404, "{\"detail\":\"Not Found\"}"));
    expect_no_way_in("Not Found");
}

/* What a GPU, several ranks or quantised layers make of the weights cannot be computed here. */
Test(sglang, attach_claims_residents_only_where_their_sums_are_known)
{
    say_ok("GET /server_info",
           "{\"version\":\"0.5.23\",\"device\":\"cuda\",\"tp_size\":1,\"dp_size\":1,\"pp_size\":1,"
           "\"nnodes\":1,\"tokenizer_worker_num\":1,\"startup_time\":{\"tokenizer_e2e\":8.25}}");
    attach();
    cr_expect_not_null(strstr(facts.way_in_reason, "not verified"), "%s", facts.way_in_reason);
    struct baton_status st = run_update(PLENTY);
    cr_expect(baton_ok(&st) && update.ok && update.level == ENGINE_LEVEL_LANDED, "%s", st.message);
    cr_expect_eq(script_count(script, "POST /weights_checker"), 0);
    st = adapter->readback(engine, landing, digest, PLENTY, &update);
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED);
}

Test(sglang, attach_fails_when_nobody_answers)
{
    say_ok("GET /server_info", SOUND_SERVER);
    say((struct script_row){ "GET /server_info", 0, "", SCRIPT_HANG, NULL });
    attach();
    struct baton_status st = adapter->attach(engine, SOON, &facts);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_UNREACHABLE);
    st = adapter->update(engine, landing, digest, &FENCE, SOON, &update);
    cr_expect(!update.restored && !update.ok, "it forgot nothing, and knows nothing of it now");
}

/* Whoever may drive the server sends its key, and clients do not. */
Test(sglang, the_token_is_the_admin_key)
{
    char *file = maker_join(landing, "key");
    maker_write_text(landing, "key", "0123456789abcdef0123456789abcdef\n");
    cr_assert(chmod(file, 0600) == 0);
    say_ok("POST /v1/completions", "{}");
    attach_with(file);
    free(file);
    cr_expect(script_last_has(script, "GET /openapi.json",
                              "Authorization: Bearer 0123456789abcdef0123456789abcdef"));
    struct baton_status st = adapter->warm(engine, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(!script_last_has(script, "POST /v1/completions", "Bearer"));
}

Test(sglang, dialects_are_told_apart_by_their_routes)
{
    size_t count = 0;
    char reason[BATON_TEXT_BYTES];
    const struct sglang_dialect *all = sglang_dialects(&count);
    const char *old = "{\"paths\":{\"/update_weights_from_distributed\":{},"
                      "\"/init_weights_update_group\":{}}}";
    cr_expect_null(sglang_dialect_choose(baton_bytes_of(old), reason, sizeof reason));
    cr_expect_not_null(strstr(reason, "distributed, older form"), "%s", reason);
    for (size_t i = 0; i < count; i++) {
        bool disk = strcmp(all[i].name, "disk") == 0;
        cr_expect_eq(all[i].why_not == NULL, disk, "%s", all[i].name);
        cr_expect_not_null(all[i].source);
    }
}

Test(sglang, pause_is_read_back)
{
    say((struct script_row)SAYS("GET /ready", 503, ""));
    say((struct script_row)SAYS("GET /ready", 503, ""));
    say((struct script_row)SAYS("GET /ready", 200, ""));
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_KEEP, true, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(script_last_has(script, "POST /pause_generation", "\"retract\""));
    cr_expect_eq(script_count(script, "POST /flush_cache"), 1);
    st = adapter->pause(engine, ENGINE_IN_FLIGHT_ABORT, false, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "200, and not paused: %s", st.message);
    cr_expect(script_last_has(script, "POST /pause_generation", "\"abort\""));
}

Test(sglang, pause_that_gets_no_answer_says_what_it_did)
{
    say((struct script_row){ "POST /pause_generation", 0, "", SCRIPT_HANG, NULL });
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_KEEP, false, SOON);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED);
    cr_expect_not_null(strstr(st.hint, "it is paused"), "%s", st.hint);
}

/* SGLang's own counts stand still in a pause. */
Test(sglang, a_drain_is_proved_by_the_guard_alone)
{
    attach();
    struct baton_status st = adapter->pause(engine, ENGINE_IN_FLIGHT_WAIT, false, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE, "%s", st.message);
    cr_expect_eq(script_count(script, "POST /pause_generation"), 0);
    stop();
    say_ok("GET /baton/guard", GUARD("hold", "2"));
    say_ok("GET /baton/guard", GUARD("hold", "1"));
    attach_guarded(GUARD("hold", "0"));
    st = adapter->pause(engine, ENGINE_IN_FLIGHT_WAIT, false, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(script_count(script, "POST /pause_generation"), 1);
}

/* in_place, with a request inside: the weights move, the cache does not, and the answer is 400. */
Test(sglang, a_flush_that_is_refused_is_a_failure_and_in_place_is_never_asked_for)
{
    say((struct script_row)SAYS("POST /flush_cache", 400, "Flush cache failed.\n"));
    attach();
    struct baton_status st = adapter->invalidate(engine, PLENTY);
    cr_expect_not_null(strstr(st.message, "not flushed"), "%s", st.message);
    cr_expect_gt(script_count(script, "POST /flush_cache"), 1, "a batch may just have ended");
    cr_expect(!script_last_has(script, "POST /flush_cache", "timeout"));
}

Test(sglang, update_is_verified_by_what_is_resident)
{
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(update.ok && update.answered && update.level == ENGINE_LEVEL_RESIDENT);
    cr_expect(script_last_has(script, "POST /update_weights_from_disk", "\"flush_cache\":false"));
    cr_expect(
        script_last_has(script, "POST /update_weights_from_disk", "\"abort_all_requests\":false"));
    cr_expect(!script_last_has(script, "POST /update_weights_from_disk", "weight_version"),
              "a label moves whatever was loaded");
    st = adapter->readback(engine, landing, digest, PLENTY, &update);
    cr_expect(baton_ok(&st) && update.level == ENGINE_LEVEL_RESIDENT, "%s", st.message);
}

/* The server says 200 of weights that are not there. */
Test(sglang, update_that_left_something_out_is_found)
{
    say_ok("POST /weights_checker", SUMS(LANDING_SUM_QKV));
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
    cr_expect(!update.ok && update.answered && !update.restored);
    cr_expect_str_eq(update.error_code, "VERIFY_FAILED");
    cr_expect_str_eq(update.error_tensor, "model.norm.weight");
    cr_expect_eq(update.level, ENGINE_LEVEL_NONE);
}

static void expect_never_sent(enum landing_fault fault, const char *code)
{
    landing_make(landing, fault, digest);
    struct baton_status st = run_update(PLENTY);
    cr_expect(!baton_ok(&st) && !update.ok && update.restored && update.answered);
    cr_expect_str_eq(update.error_code, code, "%s", st.message);
    cr_expect_eq(script_count(script, "POST /update_weights_from_disk"), 0);
}

Test(sglang, what_would_end_the_server_never_reaches_it)
{
    attach();
    expect_never_sent(LANDING_NARROW, "SHAPE_MISMATCH");
    expect_never_sent(LANDING_NO_K, "MISSING_TENSOR");
    expect_never_sent(LANDING_EXTRA, "UNEXPECTED_TENSOR");
    landing_make(landing, LANDING_WHOLE, digest);
    maker_damage(landing, "model.safetensors", 600);
    struct baton_status st = run_update(PLENTY);
    cr_expect_str_eq(update.error_code, "DIGEST_MISMATCH", "%s", st.message);
    cr_expect_eq(script_count(script, "POST /update_weights_from_disk"), 0);
}

/* A cut connection is how the death of a scheduler looks. */
Test(sglang, update_that_is_cut_off_is_unknown)
{
    say((struct script_row){ "POST /update_weights_from_disk", 0, "", SCRIPT_CLOSE, NULL });
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect(!baton_ok(&st) && !update.answered && !update.restored && !update.ok);
    cr_expect_eq(script_count(script, "POST /update_weights_from_disk"), 1, "never sent twice");
}

Test(sglang, update_that_is_refused_shows_no_path_of_the_server)
{
    say((struct script_row)SAYS(
        "POST /update_weights_from_disk", 400,
        "{\"success\":false,\"message\":\"Failed to open /secret/place/x now\"}"));
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect_null(strstr(st.message, "secret"), "%s", st.message);
    cr_expect_str_eq(update.error_code, "LOAD_FAILED");
    cr_expect(update.answered && !update.restored);
}

Test(sglang, health_that_is_refused_shows_no_path_of_the_server)
{
    say_ok("GET /server_info", SOUND_SERVER);
    say((struct script_row)SAYS("GET /server_info", 500, "{\"message\":\"in /secret/place/x\"}"));
    struct engine_gate_state state;
    attach();
    struct baton_status st = adapter->health(engine, PLENTY, &state);
    cr_expect(!baton_ok(&st) && strstr(st.message, "secret") == NULL, "%s", st.message);
}

Test(sglang, update_of_an_engine_that_runs_or_was_restarted_is_refused)
{
    say((struct script_row)SAYS("GET /ready", 503, ""));
    say((struct script_row)SAYS("GET /ready", 200, ""));
    say_ok("GET /server_info", SOUND_SERVER);
    say_ok("GET /server_info", SOUND_SERVER);
    say_ok("GET /server_info",
           "{\"version\":\"0.5.23\",\"device\":\"cpu\",\"tp_size\":1,\"dp_size\":1,\"pp_size\":1,"
           "\"nnodes\":1,\"tokenizer_worker_num\":1,\"startup_time\":{\"tokenizer_e2e\":9}}");
    attach();
    struct baton_status st = run_update(PLENTY);
    cr_expect(st.reason == BATON_REASON_HELD && update.restored, "%s", st.message);
    st = run_update(PLENTY);
    cr_expect(st.reason == BATON_REASON_STALE_EPOCH && !update.restored, "%s", st.message);
    cr_expect_eq(script_count(script, "POST /update_weights_from_disk"), 0);
}

Test(sglang, label_is_written_without_an_abort_and_read_back)
{
    say((struct script_row)SAYS("POST /update_weight_version", 400, "{}"));
    say_ok("POST /update_weight_version", "{\"success\":true,\"new_version\":\"v1\"}");
    attach();
    struct baton_status st = adapter->label(engine, "v1", PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(
        script_last_has(script, "POST /update_weight_version", "\"abort_all_requests\":false"));
    st = adapter->label(engine, "v2", PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "/model_info says the old one: %s",
                 st.message);
}

/* A /health of somebody else's, during the pause, leaves "not ready" behind. */
Test(sglang, resume_mends_what_a_foreign_health_check_left)
{
    say((struct script_row)SAYS("GET /ready", 503, ""));
    say((struct script_row)SAYS("GET /ready", 503, ""));
    say((struct script_row)SAYS("GET /ready", 200, ""));
    say((struct script_row)SAYS("GET /ready", 503, ""));
    say_ok("GET /health", "");
    attach();
    struct baton_status st = adapter->resume(engine, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(script_count(script, "GET /health"), 1);
    st = adapter->resume(engine, PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
}

static void expect_no_sleep(const char *hint)
{
    struct baton_status st = adapter->sleep(engine, 0, SOON);
    cr_expect(!baton_ok(&st) && strstr(st.hint, hint) != NULL, "%s: %s", st.message, st.hint);
    cr_expect_eq(script_count(script, "POST /release_memory_occupation"), 0);
}

/* Released with a request inside, it dies. */
Test(sglang, sleep_waits_until_nobody_is_inside)
{
    say_ok("GET /server_info", SLEEPER);
    say_ok("GET /baton/guard", GUARD("shut", "1"));
    say_ok("GET /baton/guard", GUARD("shut", "1"));
    say_ok("GET /baton/guard", GUARD("shut", "1"));
    say_ok("GET /baton/guard", GUARD("shut", "1"));
    attach_guarded(GUARD("shut", "0"));
    struct baton_status st = adapter->wake(engine, PLENTY);
    cr_expect_not_null(strstr(st.hint, "recreate"), "resumed without a release it dies: %s",
                       st.message);
    st = adapter->sleep(engine, 0, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect(script_last_has(script, "POST /release_memory_occupation", "weights"));
    cr_expect(script_last_has(script, "POST /pause_generation", "abort"));
}

Test(sglang, wake_resumes_only_what_this_agent_released)
{
    say((struct script_row)SAYS("GET /ready", 503, ""));
    say((struct script_row)SAYS("GET /ready", 200, ""));
    say_ok("GET /server_info", SLEEPER);
    attach_guarded(GUARD("shut", "0"));
    struct baton_status st = adapter->sleep(engine, 0, PLENTY);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = adapter->wake(engine, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(script_count(script, "POST /resume_memory_occupation"), 1);
    st = adapter->wake(engine, PLENTY);
    cr_expect(!baton_ok(&st));
    cr_expect_eq(script_count(script, "POST /resume_memory_occupation"), 1);
}

Test(sglang, sleep_is_refused_where_it_would_be_none_or_a_death)
{
    attach();
    expect_no_sleep("guard");
    stop();
    attach_guarded(GUARD("shut", "0"));
    expect_no_sleep("--enable-memory-saver");
}

Test(sglang, what_it_cannot_do_is_said)
{
    attach();
    struct baton_status st = adapter->raise_fence(engine, &FENCE, PLENTY);
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED);
    st = adapter->swap_live(engine, digest, &FENCE, PLENTY, &update);
    cr_expect(st.code == BATON_UNIMPLEMENTED && update.restored && !update.ok);
}
