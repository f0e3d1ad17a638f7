/* routes_public.c -- generation and the routes that are open to everybody. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/miniengine/answer.h"
#include "tests/miniengine/reply.h"

enum { STREAM_BLOCK_BYTES = 16 << 10 };

/* A streaming answer between two calls of the HTTP library. */
struct stream {
    struct exchange *exchange; /* Gone before the stream's own end. */
    struct engine *engine;
    struct request *request;
    struct answer answer;
    bool include_usage;
    bool ended; /* The last event is in 'text'. */
    char *text; /* Events not yet handed over. */
    size_t text_bytes;
    size_t text_used;
};

/* What can be told of a request now. */
struct progress {
    uint32_t generated;
    enum request_state state;
};

static struct progress progress_of(struct engine *engine, const struct request *request)
{
    (void)pthread_mutex_lock(&engine->lock);
    struct progress progress = { .generated = request_generated(request), .state = request->state };
    (void)pthread_mutex_unlock(&engine->lock);
    return progress;
}

static bool add_text(struct stream *stream, const char *text)
{
    size_t bytes = strlen(text);
    char *more = realloc(stream->text, stream->text_bytes + bytes + 1);
    if (more == NULL) {
        return false;
    }
    memcpy(more + stream->text_bytes, text, bytes + 1);
    stream->text = more;
    stream->text_bytes += bytes;
    return true;
}

static bool add_event(struct stream *stream, json_t *body_taken)
{
    char *text = json_dumps(body_taken, JSON_COMPACT);
    json_decref(body_taken);
    bool ok = text != NULL && add_text(stream, "data: ") && add_text(stream, text) &&
              add_text(stream, "\n\n");
    free(text);
    return ok;
}

static json_t *dead_json(void)
{
    return json_pack("{s:{s:s, s:s, s:n, s:i}}", "error", "message", engine_dead_message, "type",
                     "InternalServerError", "param", "code", 500);
}

/* A head cannot tell under which version a stream will end; a comment at its end can. */
static bool add_end_version(struct stream *stream)
{
    char text[64];
    if (!stream->exchange->ticket.entered) {
        return true;
    }
    (void)snprintf(text, sizeof text, ": x-baton-version-end %" PRIu64 "\n\n",
                   guard_read(stream->exchange->server->guard).version);
    return add_text(stream, text);
}

/* Puts what is new into 'text'.  False: out of memory. */
static bool collect(struct stream *stream, struct progress progress)
{
    bool ended = progress.state != REQUEST_GOES;
    bool ok = true;
    stream->text_bytes = 0;
    stream->text_used = 0;
    if (progress.state == REQUEST_FAILED) {
        ok = add_event(stream, dead_json());
    } else if (ended || progress.generated > stream->answer.told) {
        ok = add_event(stream,
                       answer_body(&stream->answer, progress.generated, progress.state, false));
    }
    if (ok && ended && stream->include_usage) {
        ok = add_event(stream, answer_usage(&stream->answer, progress.generated));
    }
    if (ok && ended) {
        stream->ended = true;
        ok = add_text(stream, "data: [DONE]\n\n") && add_end_version(stream);
    }
    return ok;
}

static ssize_t on_stream(void *self, uint64_t position, char *out, size_t room)
{
    (void)position;
    struct stream *stream = self;
    while (stream->text_used == stream->text_bytes) {
        if (stream->ended) {
            return MHD_CONTENT_READER_END_OF_STREAM;
        }
        if (reply_client_gone(stream->exchange) ||
            !collect(stream, progress_of(stream->engine, stream->request))) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (stream->text_bytes == 0) {
            reply_wait(stream->exchange, stream->request->event_fd, -1);
        }
    }
    size_t bytes = stream->text_bytes - stream->text_used;
    bytes = bytes < room ? bytes : room;
    memcpy(out, stream->text + stream->text_used, bytes);
    stream->text_used += bytes;
    return (ssize_t)bytes;
}

static void on_stream_end(void *self)
{
    struct stream *stream = self;
    engine_cancel(stream->engine, stream->request);
    request_release(stream->request);
    answer_deinit(&stream->answer);
    free(stream->text);
    free(stream);
}

static struct answer answer_for(struct exchange *exchange, const struct request *request,
                                const struct completion *completion)
{
    return (struct answer){ .server = exchange->server,
                            .request = request,
                            .return_token_ids = completion->return_token_ids,
                            .tokens_as_ids = completion->tokens_as_ids,
                            .created = (int64_t)time(NULL) };
}

/* Takes the request. */
static enum MHD_Result answer_stream(struct exchange *exchange, struct request *request,
                                     const struct completion *completion)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        request_release(request);
        return MHD_NO;
    }
    stream->exchange = exchange;
    stream->engine = exchange->server->engine;
    stream->request = request;
    stream->answer = answer_for(exchange, request, completion);
    stream->include_usage = completion->include_usage;
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, on_stream, stream, on_stream_end);
    if (response == NULL) {
        on_stream_end(stream);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                  "text/event-stream; charset=utf-8");
    reply_add_versions(exchange, response, false);
    enum MHD_Result queued = MHD_queue_response(exchange->connection, 200, response);
    MHD_destroy_response(response);
    return queued;
}

/* Takes the request. */
static enum MHD_Result answer_whole(struct exchange *exchange, struct request *request,
                                    const struct completion *completion)
{
    struct engine *engine = exchange->server->engine;
    struct progress progress = progress_of(engine, request);
    bool gone = false;
    while (progress.state == REQUEST_GOES && !gone) {
        reply_wait(exchange, request->event_fd, -1);
        gone = reply_client_gone(exchange);
        progress = progress_of(engine, request);
    }
    enum MHD_Result queued = MHD_NO;
    if (progress.state == REQUEST_FAILED) {
        queued = reply_json(exchange, 500, dead_json());
    } else if (!gone || progress.state != REQUEST_GOES) {
        struct answer answer = answer_for(exchange, request, completion);
        queued = reply_json(exchange, 200,
                            answer_body(&answer, progress.generated, progress.state, true));
        answer_deinit(&answer);
    }
    engine_cancel(engine, request);
    request_release(request);
    return queued;
}

static void name_request(struct exchange *exchange, struct request *request)
{
    const char *given =
        MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, "X-Request-Id");
    uint32_t number = atomic_fetch_add(&exchange->server->requests, 1);
    if (given != NULL) {
        (void)snprintf(request->id, sizeof request->id, "cmpl-%.80s", given);
    } else {
        (void)snprintf(request->id, sizeof request->id, "cmpl-%s-%08x",
                       exchange->server->instance_id, number);
    }
}

static enum MHD_Result generate(struct exchange *exchange, struct completion *completion)
{
    completion->params.probe = exchange->ticket.trusted;
    struct request *request = request_create(&completion->params, completion->prompt,
                                             completion->prompt_count, completion->salt);
    if (request == NULL) {
        return reply_error(exchange, 500, NULL, "out of memory");
    }
    name_request(exchange, request);
    if (!engine_submit(exchange->server->engine, request)) {
        bool dead = engine_count(exchange->server->engine).dead;
        request_release(request);
        return reply_error(exchange, dead ? 500 : 503, NULL, "%s",
                           dead ? engine_dead_message : "too many requests wait; try again");
    }
    return completion->stream ? answer_stream(exchange, request, completion)
                              : answer_whole(exchange, request, completion);
}

static enum MHD_Result completions_route(struct exchange *exchange)
{
    enum MHD_Result queued = MHD_NO;
    struct completion completion;
    struct completion_error error;
    json_t *body = reply_body(exchange, &queued);
    if (body == NULL) {
        return queued;
    }
    bool parsed = completion_parse(exchange->server, body, &completion, &error);
    if (parsed && exchange->ticket.salted &&
        !completion_salt(&completion, exchange->ticket.version)) {
        queued = reply_error(exchange, 500, NULL, "out of memory");
    } else if (parsed) {
        queued = generate(exchange, &completion);
    } else {
        queued = reply_error(exchange, error.status, error.param, "%s", error.message);
    }
    completion_deinit(&completion);
    json_decref(body);
    return queued;
}

static enum MHD_Result health_route(struct exchange *exchange)
{
    bool dead = engine_count(exchange->server->engine).dead;
    return reply_text(exchange, dead ? 503 : 200, "text/plain", "");
}

static enum MHD_Result version_route(struct exchange *exchange)
{
    return reply_json(exchange, 200, json_pack("{s:s}", "version", "0.32.0"));
}

static enum MHD_Result models_route(struct exchange *exchange)
{
    const struct server *s = exchange->server;
    json_t *model =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:n, s:i, s:[]}", "id", s->model, "object", "model",
                  "created", (json_int_t)s->created, "owned_by", "miniengine", "root", s->dir,
                  "parent", "max_model_len", (int)s->length_max, "permission");
    return reply_json(exchange, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model));
}

static enum MHD_Result load_route(struct exchange *exchange)
{
    struct engine_counts counts = engine_count(exchange->server->engine);
    return reply_json(exchange, 200,
                      json_pack("{s:i}", "server_load", (int)(counts.running + counts.waiting)));
}

static enum MHD_Result metrics_route(struct exchange *exchange)
{
    struct engine_counts counts = engine_count(exchange->server->engine);
    const struct {
        const char *name, *kind;
        uint64_t value;
    } rows[] = {
        { "vllm:num_requests_running", "gauge", counts.running },
        { "vllm:num_requests_waiting", "gauge", counts.waiting },
        { "vllm:prefix_cache_queries_total", "counter", counts.prefix_queries },
        { "vllm:prefix_cache_hits_total", "counter", counts.prefix_hits },
        { "vllm:prompt_tokens_total", "counter", counts.prompt_tokens },
        { "vllm:generation_tokens_total", "counter", counts.generated_tokens },
    };
    char text[4096];
    size_t used = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int more = snprintf(text + used, sizeof text - used,
                            "# TYPE %s %s\n%s{engine=\"0\",model_name=\"%.200s\"} %" PRIu64 ".0\n",
                            rows[i].name, rows[i].kind, rows[i].name, exchange->server->model,
                            rows[i].value);
        used += more > 0 ? (size_t)more : 0;
    }
    return reply_text(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", text);
}

const struct server_route server_public_routes[] = {
    { "POST", "/v1/completions", completions_route },
    { "GET", "/v1/models", models_route },
    { "GET", "/health", health_route },
    { "GET", "/ping", health_route },
    { "GET", "/version", version_route },
    { "GET", "/load", load_route },
    { "GET", "/metrics", metrics_route },
    { NULL, NULL, NULL },
};
