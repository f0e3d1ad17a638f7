/* bridge.c -- requests of the JSON API; see bridge.h. */
#include "controller/dashboard/bridge.h"

#include <stdio.h>
#include <string.h>

static const char PREFIX[] = "/api/v1/";
static const char PACKAGE[] = "baton.v1.";

/* --- what is asked --- */

bool bridge_method_of(const char *path, char out[BRIDGE_METHOD_BYTES])
{
    static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    if (strncmp(path, PREFIX, sizeof(PREFIX) - 1) != 0) {
        return false;
    }
    const char *service = path + sizeof(PREFIX) - 1;
    size_t service_size = strspn(service, LETTERS);
    const char *name = service + service_size;
    size_t name_size = name[0] == '/' ? strspn(name + 1, LETTERS) : 0;
    if (service_size == 0 || name_size == 0 || name[1 + name_size] != '\0' ||
        sizeof(PACKAGE) + service_size + 1 + name_size > BRIDGE_METHOD_BYTES) {
        return false;
    }
    (void)snprintf(out, BRIDGE_METHOD_BYTES, "%s%s", PACKAGE, service);
    return true;
}

struct baton_status bridge_read_body(struct baton_bytes body,
                                     const ProtobufCMessageDescriptor *type, ProtobufCMessage **out)
{
    json_error_t error;
    json_t *json = body.size == 0 ? json_object()
                                  : json_loadb((const char *)body.data, body.size,
                                               JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(json)) {
        bool is_other = json != NULL;
        json_decref(json);
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "the body is no JSON object: %.100s, line %d",
                                 is_other ? "another value" : error.text,
                                 is_other ? 1 : error.line);
    }
    struct baton_status st = baton_wire_from_json(type, json, out);
    json_decref(json);
    return st;
}

/* A method that is there, and can be asked for over HTTP/1.1. */
static struct baton_status find_method(const struct dashboard_options *options, const char *path,
                                       struct bridge_call *out)
{
    bool found = bridge_method_of(path, out->method) && rpc_shape_find(out->method, &out->shape);
    bool has_route = false;
    for (size_t i = 0; i < options->routes_count && found && !has_route; i++) {
        has_route = strcmp(options->routes[i].method, out->method) == 0;
    }
    if (!has_route) {
        return baton_status_hint(baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_NONE,
                                                   "%.80s: there is no such method", path),
                                 "GET /api/v1 lists them");
    }
    if (out->shape.client_streams) {
        return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_NONE,
                                 "%.80s takes a stream of messages: it is for gRPC alone",
                                 out->method);
    }
    return baton_status_ok();
}

static struct baton_status check_request(const struct dashboard *dashboard,
                                         const struct web_request *request)
{
    static const char JSON[] = "application/json";
    struct baton_status st = bridge_check_origin(
        web_header(request, "Host"), web_header(request, "Origin"), dashboard->is_local);
    if (!baton_ok(&st)) {
        return st;
    }
    /* What a form of another page can send does not get so far. */
    const char *type = web_header(request, "Content-Type");
    if (type == NULL || strncmp(type, JSON, sizeof(JSON) - 1) != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "Content-Type: write application/json");
    }
    return baton_status_ok();
}

static void read_caller(const struct web_request *request, struct bridge_call *out)
{
    const char *authorization = web_header(request, "Authorization");
    bool is_passed_on = web_header(request, "X-Forwarded-For") != NULL ||
                        web_header(request, "Forwarded") != NULL ||
                        web_header(request, "Via") != NULL;
    bridge_caller(web_peer(request), is_passed_on, out->caller);
    out->pairs[out->pairs_count++] = (struct rpc_metadata){ RPC_CALLER_KEY, out->caller };
    if (authorization != NULL) {
        out->pairs[out->pairs_count++] = (struct rpc_metadata){ "authorization", authorization };
    }
}

/* --- single calls --- */

static void on_done(const struct rpc_result *result, void *context)
{
    struct web_request *request = context;
    if (baton_ok(&result->status)) {
        bridge_answer_message(request, result->message);
    } else {
        (void)bridge_answer_failure(request, &result->status);
    }
    web_request_unref(request);
}

static void call_once(struct dashboard *dashboard, struct web_request *request,
                      struct bridge_call *call)
{
    const struct rpc_call_options options = { .metadata = call->pairs,
                                              .metadata_count = call->pairs_count };
    rpc_unary_start(dashboard->client, call->method, call->message, &options, on_done,
                    web_request_ref(request));
    baton_wire_free(call->message);
}

static void call_method(struct dashboard *dashboard, struct web_request *request)
{
    struct bridge_call call = { .pairs_count = 0 };
    struct baton_status st = find_method(&dashboard->options, web_path(request), &call);
    if (baton_ok(&st)) {
        st = check_request(dashboard, request);
    }
    if (baton_ok(&st)) {
        st = bridge_read_body(web_body(request), call.shape.input, &call.message);
    }
    if (!baton_ok(&st)) {
        (void)bridge_answer_failure(request, &st);
        return;
    }
    read_caller(request, &call);
    if (call.shape.server_streams) {
        bridge_stream(dashboard, request, &call);
    } else {
        call_once(dashboard, request, &call);
    }
}

void bridge_handle(struct web_request *request, void *context)
{
    struct dashboard *dashboard = context;
    bool is_get = strcmp(web_method(request), "GET") == 0;
    bool is_call = strncmp(web_path(request), PREFIX, sizeof(PREFIX) - 1) == 0;
    if (is_get && strcmp(web_path(request), "/api/v1") == 0) {
        bridge_answer_methods(request, &dashboard->options);
    } else if (is_get && !is_call) {
        bridge_answer_file(request);
    } else if (is_call && strcmp(web_method(request), "POST") == 0) {
        call_method(dashboard, request);
    } else {
        web_answer_text(request, 405, "POST /api/v1/SERVICE/METHOD, or GET the page\n");
    }
}
