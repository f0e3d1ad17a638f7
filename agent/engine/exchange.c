#include "agent/engine/exchange.h"

#include <string.h>

#include "agent/engine/answer.h"
#include "agent/engine/guard.h"

struct baton_status exchange_open(const struct engine_options *options, bool bearer,
                                  struct exchange *out)
{
    char token[ENGINE_TOKEN_BYTES_MAX] = "";
    if (options->token_file[0] != '\0') {
        struct baton_status st = engine_token_load(options->token_file, token);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    struct http_options http = { .url = options->url, .token = token, .bearer = bearer };
    struct baton_status st = http_open(&http, &out->http);
    explicit_bzero(token, sizeof token);
    return st;
}

void exchange_close(struct exchange *exchange)
{
    http_close(exchange->http);
    exchange->http = NULL;
}

static struct baton_status call(struct exchange *exchange, const struct http_request *request,
                                uint64_t deadline_ns)
{
    struct baton_status st = http_call(exchange->http, request, deadline_ns, &exchange->answer);
    if (!baton_ok(&st)) {
        return st;
    }
    if (exchange->answer.code < 200 || exchange->answer.code > 299) {
        return baton_status_in(answer_error(exchange->answer.code, exchange_body(exchange)),
                               "%s %s", request->method, request->path);
    }
    return st;
}

struct baton_status exchange_get(struct exchange *exchange, const char *path, uint64_t deadline_ns)
{
    struct http_request request = { "GET", path, NULL, .repeatable = true };
    return call(exchange, &request, deadline_ns);
}

struct baton_status exchange_post(struct exchange *exchange, const char *path, const char *body,
                                  uint64_t deadline_ns)
{
    struct http_request request = { "POST", path, body, .repeatable = false };
    return call(exchange, &request, deadline_ns);
}

struct baton_status exchange_post_plain(struct exchange *exchange, const char *path,
                                        const char *body, uint64_t deadline_ns)
{
    struct http_request request = { "POST", path, body, .plain = true };
    return call(exchange, &request, deadline_ns);
}

struct baton_status exchange_ask(struct exchange *exchange, const char *path, const char *body,
                                 uint64_t deadline_ns)
{
    struct http_request request = { "POST", path, body, .repeatable = true };
    return call(exchange, &request, deadline_ns);
}

struct baton_bytes exchange_body(const struct exchange *exchange)
{
    return (struct baton_bytes){ (const uint8_t *)exchange->answer.body,
                                 exchange->answer.body_bytes };
}
