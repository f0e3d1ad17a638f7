/* reply.c -- see reply.h. */
#include "tests/miniengine/reply.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void reply_add_versions(const struct exchange *exchange, struct MHD_Response *response, bool ended)
{
    char text[24];
    if (!exchange->ticket.generation) {
        return;
    }
    (void)snprintf(text, sizeof text, "%" PRIu64, exchange->ticket.version);
    (void)MHD_add_response_header(response, "x-baton-version", text);
    if (ended && exchange->ticket.entered) {
        (void)snprintf(text, sizeof text, "%" PRIu64, guard_read(exchange->server->guard).version);
        (void)MHD_add_response_header(response, "x-baton-version-end", text);
    }
}

enum MHD_Result reply_text(struct exchange *exchange, unsigned status, const char *type,
                           const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL) {
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    reply_add_versions(exchange, response, true);
    if (exchange->ticket.code == 503 && status == 503) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    enum MHD_Result queued = MHD_queue_response(exchange->connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

enum MHD_Result reply_json(struct exchange *exchange, unsigned status, json_t *body_taken)
{
    char *text = json_dumps(body_taken, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(body_taken);
    enum MHD_Result queued =
        text != NULL ? reply_text(exchange, status, "application/json", text) : MHD_NO;
    free(text);
    return queued;
}

static const char *type_of(unsigned status)
{
    if (status == 404) {
        return "NotFoundError";
    }
    return status >= 500 ? "InternalServerError" : "BadRequestError";
}

enum MHD_Result reply_error(struct exchange *exchange, unsigned status, const char *param,
                            const char *fmt, ...)
{
    char message[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    return reply_json(exchange, status,
                      json_pack("{s:{s:s, s:s, s:s?, s:i}}", "error", "message", message, "type",
                                type_of(status), "param", param, "code", (int)status));
}

enum MHD_Result reply_detail(struct exchange *exchange, unsigned status, const char *text)
{
    return reply_json(exchange, status, json_pack("{s:s}", "detail", text));
}

enum MHD_Result reply_refusal(struct exchange *exchange)
{
    const struct guard_ticket *ticket = &exchange->ticket;
    return reply_json(exchange, (unsigned)ticket->code,
                      json_pack("{s:{s:s, s:s, s:i}}", "error", "message", ticket->message, "type",
                                "baton_guard", "code", ticket->code));
}

json_t *reply_body(struct exchange *exchange, enum MHD_Result *queued)
{
    json_error_t error;
    const char *text = exchange->body != NULL ? exchange->body : "";
    json_t *body = json_loadb(text, exchange->body_bytes, JSON_DECODE_ANY, &error);
    if (body == NULL) {
        *queued = reply_json(exchange, 400,
                             json_pack("{s:{s:s, s:s, s:s, s:i}}", "error", "message", error.text,
                                       "type", "json_invalid", "param", "body.1", "code", 400));
        return NULL;
    }
    if (!json_is_object(body)) {
        json_decref(body);
        *queued = reply_error(exchange, 400, "body", "the body must be a JSON object");
        return NULL;
    }
    return body;
}

static int socket_of(const struct exchange *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

bool reply_client_gone(const struct exchange *exchange)
{
    struct pollfd fd = { .fd = socket_of(exchange), .events = POLLRDHUP };
    return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void reply_wait(const struct exchange *exchange, int event_fd, int timeout_ms)
{
    struct pollfd fds[2] = { { .fd = event_fd, .events = POLLIN },
                             { .fd = socket_of(exchange), .events = POLLRDHUP } };
    uint64_t count;
    if (poll(fds, 2, timeout_ms) > 0 && (fds[0].revents & POLLIN) != 0) {
        ssize_t got = read(event_fd, &count, sizeof count);
        (void)got; /* Another reader may have been first; the caller looks again anyway. */
    }
}
