/* engine_check_weights.c -- what lies in the engine's memory, and whether it can be replaced; see
 * engine_check.h. */
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/http/http.h"
#include "controller/cli/engine_check.h"

static const char fix_same[] =
    "give the directory that the engine was started on, or was swapped to last; "
    "the engine must be able to read it";

static const char *level_name(enum engine_level level)
{
    switch (level) {
    case ENGINE_LEVEL_RESIDENT: return "resident";
    case ENGINE_LEVEL_COPIED: return "copied";
    case ENGINE_LEVEL_LANDED: return "landed";
    case ENGINE_LEVEL_NONE: break;
    }
    return "none";
}

/* --- read-back --- */

/* "root" of the first model of /v1/models: what the engine was started on. */
static void root_of(const char *body, char out[BATON_PATH_BYTES])
{
    json_t *models = json_loads(body, JSON_REJECT_DUPLICATES, NULL);
    const json_t *first = json_array_get(json_object_get(models, "data"), 0);
    const char *root = json_string_value(json_object_get(first, "root"));
    out[0] = '\0';
    if (root != NULL && root[0] == '/') {
        (void)baton_text_copy(out, BATON_PATH_BYTES, root);
    }
    json_decref(models);
}

/* The directory that the engine names, if it lies on this machine; else empty. */
static void find_root(const struct check *check, char out[BATON_PATH_BYTES])
{
    struct http_request request = { .method = "GET", .path = "/v1/models", .repeatable = true };
    struct http *http = NULL;
    struct http_answer answer;
    out[0] = '\0';
    struct baton_status st = http_open(&(struct http_options){ .url = check->options.url }, &http);
    if (baton_ok(&st)) {
        st = http_call(http, &request, check_soon(check), &answer);
    }
    if (baton_ok(&st) && answer.code == 200) {
        root_of(answer.body, out);
    }
    http_close(http);
    if (access(out, R_OK | X_OK) != 0) {
        out[0] = '\0';
    }
}

/* Says whether the weights are those of 'sealed', where that can be seen. */
static bool read_back(struct check *check, const struct check_sealed *sealed, const char *dir)
{
    struct engine_update result;
    struct baton_status st = check->adapter->readback(check->engine, sealed->path, sealed->digest,
                                                      check_late(check), &result);
    if (!baton_ok(&st)) {
        check_add_failed(check, "weights", &st, fix_same);
        return false;
    }
    check_add(check, "weights", result.level == ENGINE_LEVEL_RESIDENT ? CHECK_OK : CHECK_WARN, NULL,
              "are those of %s, level %s", dir, level_name(result.level));
    return true;
}

void check_weights(struct check *check)
{
    char root[BATON_PATH_BYTES];
    struct check_sealed sealed;
    const char *dir = check->weights_dir != NULL ? check->weights_dir : check->self_update;
    if (check->weights_skipped || !check->speaks || check->facts.way_in != ENGINE_WAY_IN_PLUGIN) {
        return; /* Nothing else can read back; what is wrong with the way in is said there. */
    }
    if (dir == NULL) {
        find_root(check, root);
        dir = root;
    }
    if (dir[0] == '\0') {
        check_add(check, "weights", CHECK_WARN,
                  "give --weights the directory that it was started on",
                  "not compared: the engine names no directory of this machine");
        return;
    }
    if (!check->cli->quiet) {
        (void)fprintf(stderr, "comparing all weights with %s (--no-weights leaves that out)\n",
                      dir);
    }
    struct baton_status st = check_sealed_open(dir, &sealed);
    if (!baton_ok(&st)) {
        check_add_failed(check, "weights", &st, fix_same);
        return;
    }
    (void)read_back(check, &sealed, dir);
    check_sealed_close(&sealed);
}

/* --- self-update --- */

/* No agent's fence is that low: generations begin at 1. */
static bool is_driven(const struct engine_fence *fence)
{
    return fence->generation != 0 || fence->n != 0 || fence->owner_term != 0 || fence->ticket != 0;
}

/* Why it is not tried; null: it is. */
static const char *obstacle(const struct check *check)
{
    if (is_driven(&check->facts.fence) || check->facts.gate != GUARD_GATE_SHUT) {
        return "an agent drives this engine: roll a version instead";
    }
    if (!check->speaks || check->facts.way_in == ENGINE_WAY_IN_NONE) {
        return "there is no way in";
    }
    if (check_has_failed(check, "weights")) {
        return "the weights that it serves are others, or cannot be compared";
    }
    return check->probed ? NULL : "without two equal probes nothing could be compared";
}

/* From the pause to the verdict.  'sound': all ranks have whole weights, new or old. */
static struct baton_status replace(struct check *check, const struct check_sealed *sealed,
                                   struct engine_update *result, bool *sound)
{
    const struct engine_adapter *adapter = check->adapter;
    struct engine_fence fence = check->facts.fence;
    struct baton_status st = baton_status_ok();
    fence.step++;
    *sound = true;
    if (check->facts.way_in == ENGINE_WAY_IN_PLUGIN) {
        st = adapter->raise_fence(check->engine, &fence, check_soon(check));
    }
    if (baton_ok(&st)) {
        st = adapter->pause(check->engine, ENGINE_IN_FLIGHT_KEEP, false, check_soon(check));
    }
    if (!baton_ok(&st)) {
        return st;
    }
    st = adapter->update(check->engine, sealed->path, sealed->digest, &fence, check_late(check),
                         result);
    *sound = baton_ok(&st) || result->restored;
    return baton_ok(&st) ? adapter->invalidate(check->engine, check_soon(check)) : st;
}

static void check_output(struct check *check, const struct engine_update *result)
{
    struct engine_probe after;
    struct baton_status st = check->adapter->probe(check->engine, true, check_soon(check), &after);
    if (!baton_ok(&st)) {
        check_add_failed(check, "self-update", &st, "restart the engine");
    } else if (!check_same_output(&check->before, &after)) {
        check_add(check, "self-update", CHECK_FAIL,
                  "are these the weights that it served? Else restart the engine",
                  "the output changed: \"%.60s\" (log-probability %.4f), before \"%.60s\" (%.4f)",
                  after.text, after.logprob_sum, check->before.text, check->before.logprob_sum);
    } else {
        check_add(
            check, "self-update", CHECK_OK, NULL,
            "paused, loaded in %.3f s, verified (level %s), resumed; the same output as before",
            (double)(result->stage_ns + result->load_ns + result->finalize_ns + result->verify_ns) /
                1e9,
            level_name(result->level));
    }
}

/* Resumes what is sound, whatever came before. */
static void run_update(struct check *check, const struct check_sealed *sealed)
{
    struct engine_update result = { .error_rank = -1 };
    bool sound = false;
    struct baton_status st = replace(check, sealed, &result, &sound);
    if (!sound) {
        check_add_failed(check, "self-update", &st,
                         "its weights are unknown, and it stays paused: restart the engine");
        return;
    }
    struct baton_status resumed = check->adapter->resume(check->engine, check_soon(check));
    if (!baton_ok(&st)) {
        check_add_failed(check, "self-update", &st, fix_same);
    }
    if (!baton_ok(&resumed)) {
        check_add_failed(check, "resume", &resumed, "POST /resume, or restart the engine");
    }
    if (baton_ok(&st) && baton_ok(&resumed)) {
        check_output(check, &result);
    }
}

/* Who interrupts waits for the end, which deadlines bound: no engine is left paused without a word.  Only
 * the printing is left after it, so this is not taken back. */
static void hold_signals(void)
{
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &ends, NULL);
}

void check_self_update(struct check *check)
{
    struct check_sealed sealed;
    if (check->self_update == NULL) {
        return;
    }
    const char *why = obstacle(check);
    if (why != NULL) {
        check_add(check, "self-update", CHECK_FAIL, NULL, "not done: %s", why);
        return;
    }
    struct baton_status st = check_sealed_open(check->self_update, &sealed);
    if (!baton_ok(&st)) {
        check_add_failed(check, "self-update", &st, fix_same);
        return;
    }
    hold_signals();
    run_update(check, &sealed);
    check_sealed_close(&sealed);
}
