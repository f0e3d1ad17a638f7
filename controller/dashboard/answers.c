/* answers.c -- messages and failures as JSON; see bridge.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/dashboard/bridge.h"

static const struct web_field NO_STORE = { "Cache-Control", "no-store" };

unsigned bridge_http_code(enum baton_code code)
{
    switch (code) {
    case BATON_OK: return 200;
    case BATON_INVALID_ARGUMENT:
    case BATON_OUT_OF_RANGE: return 400;
    case BATON_UNAUTHENTICATED: return 401;
    case BATON_PERMISSION_DENIED: return 403;
    case BATON_NOT_FOUND: return 404;
    case BATON_ALREADY_EXISTS:
    case BATON_ABORTED: return 409;
    case BATON_FAILED_PRECONDITION: return 412;
    case BATON_RESOURCE_EXHAUSTED: return 429;
    case BATON_CANCELLED: return 499;
    case BATON_UNIMPLEMENTED: return 501;
    case BATON_UNAVAILABLE: return 503;
    case BATON_DEADLINE_EXCEEDED: return 504;
    case BATON_UNKNOWN:
    case BATON_INTERNAL:
    case BATON_DATA_LOSS: break;
    }
    return 500;
}

/* Texts may come from anywhere; what is not UTF-8 is left out. */
static json_t *text_of(const char *text)
{
    json_t *json = json_string(text);
    return json != NULL ? json : json_string("");
}

static char *dump(json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    baton_assert(text != NULL);
    return text;
}

char *bridge_failure_text(const struct baton_status *status)
{
    json_t *error = json_object();
    (void)json_object_set_new(error, "code", text_of(baton_code_name(status->code)));
    (void)json_object_set_new(error, "reason", text_of(baton_reason_name(status->reason)));
    (void)json_object_set_new(error, "message", text_of(status->message));
    if (status->hint[0] != '\0') {
        (void)json_object_set_new(error, "hint", text_of(status->hint));
    }
    json_t *root = json_object();
    (void)json_object_set_new(root, "error", error);
    return dump(root);
}

static bool answer_json(struct web_request *request, unsigned code, char *text)
{
    const struct web_answer answer = { .code = code,
                                       .type = "application/json",
                                       .body = { (const uint8_t *)text, strlen(text) },
                                       .fields = &NO_STORE,
                                       .fields_count = 1 };
    bool is_first = web_answer(request, &answer);
    free(text);
    return is_first;
}

bool bridge_answer_failure(struct web_request *request, const struct baton_status *status)
{
    return answer_json(request, bridge_http_code(status->code), bridge_failure_text(status));
}

void bridge_answer_message(struct web_request *request, void *message)
{
    json_t *json = NULL;
    struct baton_status st = baton_wire_to_json(message, &json);
    baton_wire_free(message);
    if (baton_ok(&st)) {
        (void)answer_json(request, 200, dump(json));
    } else {
        (void)bridge_answer_failure(request, &st);
    }
}

static json_t *method_of(const struct rpc_route *route, const struct rpc_shape *shape)
{
    static const char PACKAGE[] = "baton.v1.";
    char path[BRIDGE_METHOD_BYTES];
    (void)snprintf(path, sizeof(path), "/api/v1/%s", route->method + sizeof(PACKAGE) - 1);
    json_t *json = json_object();
    (void)json_object_set_new(json, "path", json_string(path));
    (void)json_object_set_new(json, "request", json_string(shape->input->name));
    (void)json_object_set_new(json, "streams", json_boolean(shape->server_streams));
    return json;
}

void bridge_answer_methods(struct web_request *request, const struct dashboard_options *options)
{
    json_t *methods = json_array();
    for (size_t i = 0; i < options->routes_count; i++) {
        struct rpc_shape shape;
        if (rpc_shape_find(options->routes[i].method, &shape) && !shape.client_streams) {
            (void)json_array_append_new(methods, method_of(&options->routes[i], &shape));
        }
    }
    json_t *root = json_object();
    (void)json_object_set_new(root, "version", json_string("v1"));
    (void)json_object_set_new(root, "baton", json_string(BATON_VERSION));
    (void)json_object_set_new(root, "methods", methods);
    (void)answer_json(request, 200, dump(root));
}

/* --- events --- */

/* "id: ID\nevent: NAME\ndata: TEXT\n\n" without what is null; frees 'data'. */
static char *event_of(const char *id, const char *name, char *data)
{
    size_t bytes = strlen(data) + 96;
    char *text = malloc(bytes);
    baton_assert(text != NULL);
    (void)snprintf(text, bytes, "%s%.40s%s%s%.20s%sdata: %s\n\n", id != NULL ? "id: " : "",
                   id != NULL ? id : "", id != NULL ? "\n" : "", name != NULL ? "event: " : "",
                   name != NULL ? name : "", name != NULL ? "\n" : "", data);
    free(data);
    return text;
}

char *bridge_event_text(const void *message)
{
    json_t *json = NULL;
    struct baton_status st = baton_wire_to_json(message, &json);
    if (!baton_ok(&st)) {
        return bridge_end_text(&st);
    }
    char id[32] = "";
    const char *revision = json_string_value(json_object_get(json, "revision"));
    (void)snprintf(id, sizeof(id), "%.24s", revision != NULL ? revision : "");
    return event_of(id[0] != '\0' ? id : NULL, NULL, dump(json));
}

char *bridge_end_text(const struct baton_status *status)
{
    return baton_ok(status) ? event_of(NULL, "end", strdup("{}"))
                            : event_of(NULL, "error", bridge_failure_text(status));
}
