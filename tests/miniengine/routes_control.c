/* routes_control.c -- the control routes: pauses, caches, weight updates, calls to workers, faults.
 *
 * Bodies, parameters, status codes and error shapes are those measured on vLLM 0.32. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tests/miniengine/reply.h"

static const char *query(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* An optional boolean of the query, in the spellings that the real server takes. */
static bool query_bool(const struct exchange *exchange, const char *name, bool *value)
{
    static const char *const yes[] = { "true", "1", "yes", "on", "t", "y" };
    static const char *const no[] = { "false", "0", "no", "off", "f", "n" };
    const char *text = query(exchange, name);
    if (text == NULL) {
        return true;
    }
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *value = strcasecmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static struct engine *engine_of(const struct exchange *exchange)
{
    return exchange->server->engine;
}

/* A body that may be missing; null with 'queued' set if it is there and bad. */
static json_t *optional_body(struct exchange *exchange, enum MHD_Result *queued)
{
    return exchange->body_bytes == 0 ? json_object() : reply_body(exchange, queued);
}

/* 200 with 'ok', or the call's error in the first shape. */
static enum MHD_Result settle(struct exchange *exchange, struct engine_result *result, json_t *ok)
{
    json_decref(result->result);
    if (result->status == 200) {
        return reply_json(exchange, 200, ok);
    }
    json_decref(ok);
    return reply_error(exchange, 500, NULL, "%s", result->message);
}

/* The second shape, which only these routes have. */
static enum MHD_Result settle_flat(struct exchange *exchange, struct engine_result *result,
                                   const char *what, json_t *ok)
{
    json_decref(result->result);
    if (result->status == 200) {
        return reply_json(exchange, 200, ok);
    }
    char text[ENGINE_MESSAGE_MAX + 64];
    (void)snprintf(text, sizeof text, "Failed to %s: %s", what, result->message);
    json_decref(ok);
    return reply_json(exchange, 500, json_pack("{s:s}", "error", text));
}

static enum MHD_Result pause_route(struct exchange *exchange)
{
    const char *mode = query(exchange, "mode");
    bool clear = true;
    mode = mode != NULL ? mode : "abort";
    if (strcmp(mode, "keep") != 0 && strcmp(mode, "wait") != 0 && strcmp(mode, "abort") != 0) {
        return reply_error(exchange, 400, "query.mode",
                           "Input should be 'abort', 'wait' or 'keep'");
    }
    if (!query_bool(exchange, "clear_cache", &clear)) {
        return reply_error(exchange, 400, "query.clear_cache", "Input should be a valid boolean");
    }
    struct engine_result result =
        engine_perform(engine_of(exchange), ENGINE_PAUSE,
                       json_pack("{s:s, s:b}", "mode", mode, "clear_cache", (int)clear));
    return settle_flat(exchange, &result, "pause generation",
                       json_pack("{s:s}", "status", "paused"));
}

static enum MHD_Result resume_route(struct exchange *exchange)
{
    struct engine_result result = engine_perform(engine_of(exchange), ENGINE_RESUME, NULL);
    return settle_flat(exchange, &result, "resume generation",
                       json_pack("{s:s}", "status", "resumed"));
}

static enum MHD_Result boolean_route(struct exchange *exchange, enum engine_call call,
                                     const char *name, const char *what)
{
    struct engine_result result = engine_perform(engine_of(exchange), call, NULL);
    json_t *ok = json_pack("{s:O?}", name, result.result);
    return settle_flat(exchange, &result, what, ok);
}

static enum MHD_Result is_paused_route(struct exchange *exchange)
{
    return boolean_route(exchange, ENGINE_IS_PAUSED, "is_paused", "fetch pause status");
}

/* Paused means asleep, too: measured. */
static enum MHD_Result is_sleeping_route(struct exchange *exchange)
{
    return boolean_route(exchange, ENGINE_IS_ASLEEP, "is_sleeping", "fetch sleep status");
}

/* Without sleep mode a sleep is a pause that aborts, and still calls itself one: measured on a CPU. */
static enum MHD_Result sleep_route(struct exchange *exchange)
{
    const char *level = query(exchange, "level");
    const char *mode = query(exchange, "mode");
    level = level != NULL ? level : "1";
    if (strlen(level) != 1 || strchr("012", level[0]) == NULL) {
        return reply_error(exchange, 400, "query.level", "Input should be 0, 1 or 2");
    }
    if (mode != NULL && strcmp(mode, "abort") != 0) {
        return reply_error(exchange, 400, "query.mode", "only 'abort' is here");
    }
    bool real = exchange->server->sleep_mode;
    struct engine_result result =
        real ? engine_perform(engine_of(exchange), ENGINE_SLEEP,
                              json_pack("{s:i}", "level", level[0] - '0'))
             : engine_perform(engine_of(exchange), ENGINE_PAUSE,
                              json_pack("{s:s, s:b}", "mode", "abort", "clear_cache", 1));
    return settle(exchange, &result,
                  json_pack("{s:s, s:i}", "status", "sleeping", "level", level[0] - '0'));
}

static enum MHD_Result wake_route(struct exchange *exchange)
{
    const char *tags = query(exchange, "tags");
    if (tags != NULL && !exchange->server->sleep_mode) {
        return reply_json(exchange, 200,
                          json_pack("{s:s, s:[s]}", "status", "sleeping", "tags", tags));
    }
    struct engine_result result =
        engine_perform(engine_of(exchange), ENGINE_WAKE, json_pack("{s:b}", "all", tags == NULL));
    const char *status = json_is_true(result.result) ? "awake" : "sleeping";
    json_t *told = tags != NULL ? json_pack("[s]", tags) : json_null();
    return settle(exchange, &result, json_pack("{s:s, s:o}", "status", status, "tags", told));
}

/* Caches that a text model does not have. */
static enum MHD_Result no_cache_route(struct exchange *exchange)
{
    return reply_text(exchange, 200, "application/json", "");
}

/* A string counts as a list of one.  Nothing is shared with 'body': the engine's thread may free
 * its copy while this one is still in use. */
static json_t *abort_arguments(const json_t *body)
{
    json_t *ids = json_object_get(body, "request_ids");
    if (json_is_string(ids)) {
        return json_pack("{s:[s]}", "request_ids", json_string_value(ids));
    }
    return json_is_array(ids) ? json_pack("{s:o}", "request_ids", json_deep_copy(ids))
                              : json_object();
}

static enum MHD_Result abort_route(struct exchange *exchange)
{
    json_t *body = json_loadb(exchange->body != NULL ? exchange->body : "", exchange->body_bytes,
                              JSON_DECODE_ANY, NULL);
    if (!json_is_object(body)) {
        bool parsed = body != NULL;
        json_decref(body);
        return reply_error(exchange, 400, NULL, "%s",
                           parsed ? "Request body must be a JSON object" : "Invalid JSON format");
    }
    struct engine_result result =
        engine_perform(engine_of(exchange), ENGINE_ABORT, abort_arguments(body));
    json_decref(body);
    json_t *ok = json_pack("{s:s, s:O?}", "status", "aborted", "aborted", result.result);
    return settle_flat(exchange, &result, "abort requests", ok);
}

static enum MHD_Result reset_route(struct exchange *exchange)
{
    bool running = false;
    if (!query_bool(exchange, "reset_running_requests", &running)) {
        return reply_error(exchange, 400, "query.reset_running_requests",
                           "Input should be a valid boolean");
    }
    struct engine_result result =
        engine_perform(engine_of(exchange), ENGINE_RESET,
                       json_pack("{s:b}", "reset_running_requests", (int)running));
    json_t *ok = json_pack("{s:O?}", "success", result.result);
    return settle(exchange, &result, ok);
}

static enum MHD_Result collective(struct exchange *exchange, const char *method, json_t *kwargs,
                                  const char *message)
{
    struct engine_result result =
        engine_perform(engine_of(exchange), ENGINE_COLLECTIVE,
                       json_pack("{s:s, s:o}", "method", method, "kwargs", kwargs));
    return settle(exchange, &result, json_pack("{s:s}", "message", message));
}

static enum MHD_Result init_route(struct exchange *exchange)
{
    enum MHD_Result queued = MHD_NO;
    json_t *body = optional_body(exchange, &queued);
    if (body == NULL) {
        return queued;
    }
    json_t *info = json_incref(json_object_get(body, "init_info"));
    json_decref(body);
    if (!json_is_object(info)) {
        json_decref(info);
        return reply_error(exchange, 400, "body.init_info", "'init_info' must be an object");
    }
    return collective(exchange, "init_weight_transfer_engine",
                      json_pack("{s:o}", "init_info", info), "Weight transfer initialized");
}

static enum MHD_Result start_route(struct exchange *exchange)
{
    return collective(exchange, "start_weight_update", json_object(), "Weight update started");
}

static enum MHD_Result update_route(struct exchange *exchange)
{
    enum MHD_Result queued = MHD_NO;
    json_t *body = optional_body(exchange, &queued);
    if (body == NULL) {
        return queued;
    }
    json_t *info = json_incref(json_object_get(body, "update_info"));
    json_decref(body);
    if (!json_is_object(info) && !json_is_array(info)) {
        json_decref(info);
        return reply_error(exchange, 400, "body.update_info",
                           "'update_info' must be an object or a list of objects");
    }
    return collective(exchange, "update_weights", json_pack("{s:o}", "update_info", info),
                      "Weights updated");
}

static enum MHD_Result finish_route(struct exchange *exchange)
{
    enum MHD_Result queued = MHD_NO;
    json_t *body = optional_body(exchange, &queued);
    if (body == NULL) {
        return queued;
    }
    const json_t *label = json_object_get(body, "weight_version");
    if (label != NULL && !json_is_null(label) && !json_is_string(label)) {
        json_decref(body);
        return reply_error(exchange, 400, "body.weight_version", "Input should be a valid string");
    }
    struct engine_result result = engine_perform(engine_of(exchange), ENGINE_FINISH, body);
    return settle(exchange, &result, json_pack("{s:s}", "message", "Weight update finished"));
}

static enum MHD_Result label_route(struct exchange *exchange)
{
    enum MHD_Result queued = MHD_NO;
    json_t *body = reply_body(exchange, &queued);
    if (body == NULL) {
        return queued;
    }
    json_t *label = json_incref(json_object_get(body, "new_version"));
    json_decref(body);
    if (!json_is_string(label) || json_string_length(label) >= ENGINE_LABEL_MAX) {
        json_decref(label);
        return reply_error(exchange, 400, "body.new_version",
                           "'new_version' must be a string shorter than %d bytes",
                           ENGINE_LABEL_MAX);
    }
    struct engine_result result =
        engine_perform(engine_of(exchange), ENGINE_SET_LABEL,
                       json_pack("{s:s}", "new_version", json_string_value(label)));
    return settle(exchange, &result, json_pack("{s:b, s:o}", "success", 1, "new_version", label));
}

static enum MHD_Result weight_info_route(struct exchange *exchange)
{
    struct engine_result result = engine_perform(engine_of(exchange), ENGINE_GET_LABEL, NULL);
    json_t *ok = json_pack("{s:O?}", "weight_version", result.result);
    return settle(exchange, &result, ok);
}

static enum MHD_Result rpc_route(struct exchange *exchange)
{
    enum MHD_Result queued = MHD_NO;
    json_t *body = reply_body(exchange, &queued);
    if (body == NULL) {
        return queued;
    }
    json_t *method = json_incref(json_object_get(body, "method"));
    json_t *kwargs = json_incref(json_object_get(body, "kwargs"));
    json_decref(body);
    if (!json_is_string(method)) {
        json_decref(method);
        json_decref(kwargs);
        return reply_error(exchange, 400, NULL, "Missing 'method' in request body");
    }
    struct engine_result result = engine_perform(
        engine_of(exchange), ENGINE_COLLECTIVE,
        json_pack("{s:o, s:o}", "method", method, "kwargs", kwargs != NULL ? kwargs : json_null()));
    json_t *ok = json_pack("{s:O?}", "results", result.result);
    return settle(exchange, &result, ok);
}

/* All ranks' checksums in one object.  As there, an answer that is not an object breaks it. */
static enum MHD_Result checksums(struct exchange *exchange, json_t **sums)
{
    struct engine_result result =
        engine_perform(engine_of(exchange), ENGINE_COLLECTIVE,
                       json_pack("{s:s, s:{}}", "method", "compute_weight_checksums", "kwargs"));
    *sums = NULL;
    if (result.status != 200) {
        return settle(exchange, &result, NULL);
    }
    *sums = json_object();
    for (size_t i = 0; i < json_array_size(result.result); i++) {
        if (json_object_update(*sums, json_array_get(result.result, i)) != 0) {
            json_decref(*sums);
            json_decref(result.result);
            *sums = NULL;
            return reply_error(exchange, 500, NULL, "'NoneType' object has no attribute 'keys'");
        }
    }
    json_decref(result.result);
    return MHD_YES;
}

static enum MHD_Result compare_checksums(struct exchange *exchange, json_t *sums,
                                         const json_t *baseline)
{
    json_t *mismatches = json_array();
    const char *key;
    json_t *value;
    json_object_foreach(sums, key, value)
    {
        if (!json_equal(value, json_object_get(baseline, key))) {
            (void)json_array_append_new(mismatches, json_string(key));
        }
    }
    json_decref(sums);
    return reply_json(exchange, 200,
                      json_pack("{s:b, s:o}", "match", json_array_size(mismatches) == 0,
                                "mismatches", mismatches));
}

static enum MHD_Result checker_route(struct exchange *exchange)
{
    enum MHD_Result queued = MHD_NO;
    json_t *body = reply_body(exchange, &queued);
    if (body == NULL) {
        return queued;
    }
    const char *action = json_string_value(json_object_get(body, "action"));
    bool compare = action != NULL && strcmp(action, "compare") == 0;
    json_t *baseline = json_incref(json_object_get(body, "baseline"));
    bool known =
        compare ? json_is_object(baseline) : action != NULL && strcmp(action, "checksum") == 0;
    json_decref(body);
    json_t *sums = NULL;
    if (!known) {
        queued = reply_error(exchange, 400, "body.action",
                             "'action' must be checksum, or compare with an object 'baseline'");
    } else {
        queued = checksums(exchange, &sums);
    }
    if (sums != NULL) {
        queued =
            compare ? compare_checksums(exchange, sums, baseline) : reply_json(exchange, 200, sums);
    }
    json_decref(baseline);
    return queued;
}

static enum MHD_Result world_size_route(struct exchange *exchange)
{
    return reply_json(exchange, 200,
                      json_pack("{s:i}", "world_size", (int)exchange->server->ranks));
}

static enum MHD_Result server_info_route(struct exchange *exchange)
{
    const struct server *s = exchange->server;
    json_t *transfer =
        s->backend[0] != '\0' ? json_pack("{s:s}", "backend", s->backend) : json_null();
    json_t *config = json_pack(
        "{s:{s:s, s:s, s:i, s:b}, s:{s:i, s:i}, s:{s:i}, s:o, s:s}", "model_config", "model",
        s->dir, "served_model_name", s->model, "max_model_len", (int)s->length_max,
        "enable_sleep_mode", (int)s->sleep_mode, "parallel_config", "tensor_parallel_size",
        (int)s->ranks, "world_size", (int)s->ranks, "cache_config", "block_size", KV_BLOCK_TOKENS,
        "weight_transfer_config", transfer, "instance_id", s->instance_id);
    return reply_json(
        exchange, 200,
        json_pack("{s:o, s:{}, s:{}}", "vllm_config", config, "vllm_env", "system_env"));
}

static enum MHD_Result faults_add_route(struct exchange *exchange)
{
    struct trouble why;
    struct server *s = exchange->server;
    if (s->faults == NULL) {
        return reply_detail(exchange, 404, "Not Found");
    }
    json_t *wanted =
        json_loadb(exchange->body != NULL ? exchange->body : "", exchange->body_bytes, 0, NULL);
    bool added = faults_add(s->faults, wanted, s->ranks, &why);
    json_decref(wanted);
    return added ? reply_json(exchange, 200, faults_list(s->faults))
                 : reply_error(exchange, 400, NULL, "%s", why.message);
}

static enum MHD_Result faults_list_route(struct exchange *exchange)
{
    struct server *s = exchange->server;
    return s->faults != NULL ? reply_json(exchange, 200, faults_list(s->faults))
                             : reply_detail(exchange, 404, "Not Found");
}

static enum MHD_Result faults_clear_route(struct exchange *exchange)
{
    if (exchange->server->faults != NULL) {
        faults_clear(exchange->server->faults);
    }
    return faults_list_route(exchange);
}

const struct server_route server_control_routes[] = {
    { "POST", "/pause", pause_route },
    { "POST", "/resume", resume_route },
    { "GET", "/is_paused", is_paused_route },
    { "GET", "/is_sleeping", is_sleeping_route },
    { "POST", "/sleep", sleep_route },
    { "POST", "/wake_up", wake_route },
    { "POST", "/reset_mm_cache", no_cache_route },
    { "POST", "/reset_encoder_cache", no_cache_route },
    { "POST", "/abort_requests", abort_route },
    { "POST", "/reset_prefix_cache", reset_route },
    { "POST", "/init_weight_transfer_engine", init_route },
    { "POST", "/start_weight_update", start_route },
    { "POST", "/update_weights", update_route },
    { "POST", "/finish_weight_update", finish_route },
    { "POST", "/update_weight_version", label_route },
    { "GET", "/weight_info", weight_info_route },
    { "POST", "/collective_rpc", rpc_route },
    { "POST", "/weight_checker", checker_route },
    { "GET", "/get_world_size", world_size_route },
    { "GET", "/server_info", server_info_route },
    { "POST", "/miniengine/faults", faults_add_route },
    { "GET", "/miniengine/faults", faults_list_route },
    { "DELETE", "/miniengine/faults", faults_clear_route },
    { NULL, NULL, NULL },
};
