/* answer.c -- answers, whole or in pieces; see web.h and web_server.h. */
#include <stdlib.h>
#include <string.h>

#include "api/web/web_server.h"

enum { BLOCK_BYTES = 16 << 10, ROOM_BYTES = 64 << 10 };

/* --- references --- */

struct web_request *web_request_ref(struct web_request *request)
{
    atomic_fetch_add_explicit(&request->references, 1, memory_order_relaxed);
    return request;
}

void web_request_unref(struct web_request *request)
{
    if (request == NULL ||
        atomic_fetch_sub_explicit(&request->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (request->response != NULL) {
        MHD_destroy_response(request->response);
    }
    pthread_mutex_destroy(&request->mutex);
    free(request->body);
    free(request->queue);
    free(request);
}

/* --- whole answers --- */

void web_wake(struct web_request *request)
{
    if (request->is_suspended && request->connection != NULL) {
        request->is_suspended = false;
        MHD_resume_connection(request->connection);
    }
}

static void add_fields(struct MHD_Response *response, const struct web_answer *answer)
{
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer->type);
    for (size_t i = 0; i < answer->fields_count; i++) {
        (void)MHD_add_response_header(response, answer->fields[i].name, answer->fields[i].value);
    }
}

/* With the request's mutex; false: it has an answer already, or nobody waits for one. */
static bool take_answer(struct web_request *request, struct MHD_Response *response, unsigned code)
{
    if (request->is_answered || request->connection == NULL) {
        MHD_destroy_response(response);
        return false;
    }
    request->is_answered = true;
    request->response = response;
    request->code = code;
    web_wake(request);
    return true;
}

bool web_answer(struct web_request *request, const struct web_answer *answer)
{
    /* It is copied: the cast is libmicrohttpd's want of const. */
    struct MHD_Response *response = MHD_create_response_from_buffer(
        answer->body.size, (void *)(uintptr_t)answer->body.data, MHD_RESPMEM_MUST_COPY);
    baton_assert(response != NULL);
    add_fields(response, answer);
    pthread_mutex_lock(&request->mutex);
    bool is_first = take_answer(request, response, answer->code);
    struct MHD_Response *offered = is_first ? request->offered : NULL;
    if (is_first) {
        request->offered = NULL;
        request->is_finished = true; /* There will be no stream. */
    }
    pthread_mutex_unlock(&request->mutex);
    if (offered != NULL) {
        MHD_destroy_response(offered);
    }
    return is_first;
}

void web_answer_text(struct web_request *request, unsigned code, const char *text)
{
    const struct web_answer answer = { .code = code,
                                       .type = "text/plain; charset=utf-8",
                                       .body = { (const uint8_t *)text, strlen(text) } };
    (void)web_answer(request, &answer);
}

/* --- streams --- */

/* Takes what waits; with the mutex. */
static size_t take(struct web_request *request, char *out, size_t most)
{
    size_t waiting = request->queued - request->taken;
    size_t size = waiting < most ? waiting : most;
    memcpy(out, request->queue + request->taken, size);
    request->taken += size;
    if (request->taken == request->queued) {
        request->taken = 0;
        request->queued = 0;
    }
    return size;
}

/* libmicrohttpd's reader.  When nothing is left it tells the owner, who may push at once, before it stands still. */
static ssize_t read_pieces(void *context, uint64_t at, char *out, size_t most)
{
    struct web_request *request = context;
    (void)at;
    pthread_mutex_lock(&request->mutex);
    if (request->queued == 0 && request->events.drained != NULL && !request->is_finished) {
        pthread_mutex_unlock(&request->mutex);
        request->events.drained(request->context);
        pthread_mutex_lock(&request->mutex);
    }
    ssize_t size = 0;
    if (request->queued > 0) {
        size = (ssize_t)take(request, out, most);
    } else if (request->is_finished || request->is_stopping) {
        size = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        request->is_suspended = true;
        MHD_suspend_connection(request->connection);
    }
    pthread_mutex_unlock(&request->mutex);
    return size;
}

static void release(void *context)
{
    web_request_unref(context);
}

void web_stream_offer(struct web_request *request, const struct web_answer *head,
                      const struct web_stream_events *events, void *context)
{
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_pieces, web_request_ref(request), release);
    baton_assert(response != NULL);
    add_fields(response, head);
    pthread_mutex_lock(&request->mutex);
    request->offered = response;
    request->is_stream = true;
    request->events = *events;
    request->context = context;
    pthread_mutex_unlock(&request->mutex);
}

/* With the mutex: the stream that was offered becomes the answer, if there is none yet. */
static void begin(struct web_request *request)
{
    struct MHD_Response *offered = request->offered;
    request->offered = NULL;
    if (offered != NULL) {
        (void)take_answer(request, offered, MHD_HTTP_OK);
    }
}

static void add_piece(struct web_request *request, struct baton_bytes piece)
{
    /* Only where that makes much room, so that no byte is moved often. */
    if (request->queued + piece.size > request->room && request->taken >= request->room / 2 &&
        request->taken > 0) {
        request->queued -= request->taken;
        memmove(request->queue, request->queue + request->taken, request->queued);
        request->taken = 0;
    }
    if (request->queued + piece.size > request->room) {
        request->room = 2 * (request->queued + piece.size);
        request->queue = realloc(request->queue, request->room);
        baton_assert(request->queue != NULL);
    }
    memcpy(request->queue + request->queued, piece.data, piece.size);
    request->queued += piece.size;
    request->was_quiet = false;
}

bool web_stream_push(struct web_request *request, struct baton_bytes piece)
{
    pthread_mutex_lock(&request->mutex);
    bool is_open = request->connection != NULL && !request->is_finished && !request->is_stopping;
    /* The server is there as long as the connection is. */
    bool fits = is_open && request->queued - request->taken + piece.size <=
                               request->server->options.stream_bytes_max;
    if (fits) {
        add_piece(request, piece);
    } else {
        request->is_finished = true;
    }
    begin(request);
    web_wake(request);
    pthread_mutex_unlock(&request->mutex);
    return fits;
}

bool web_stream_has_room(struct web_request *request)
{
    pthread_mutex_lock(&request->mutex);
    bool has = request->queued - request->taken < ROOM_BYTES;
    pthread_mutex_unlock(&request->mutex);
    return has;
}

void web_stream_finish(struct web_request *request)
{
    pthread_mutex_lock(&request->mutex);
    request->is_finished = true;
    begin(request);
    web_wake(request);
    pthread_mutex_unlock(&request->mutex);
}

void web_tick(struct web_request *request)
{
    const char *alive = request->server->options.alive; /* The ticker ends before the server. */
    pthread_mutex_lock(&request->mutex);
    bool is_due = request->is_stream && request->was_quiet && !request->is_finished;
    request->was_quiet = request->is_stream;
    pthread_mutex_unlock(&request->mutex);
    if (is_due) {
        struct baton_bytes piece = { (const uint8_t *)alive, strlen(alive) };
        (void)web_stream_push(request, piece);
        pthread_mutex_lock(&request->mutex);
        request->was_quiet = true; /* Nothing was said by that. */
        pthread_mutex_unlock(&request->mutex);
    }
}
