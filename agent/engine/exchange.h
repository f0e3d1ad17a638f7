/* exchange.h -- one call to an engine, and its answer: what all adapters share.
 *
 * OK means an answer of 200 to 299; every other code is a failure, read by answer.h.  The answer of the
 * last call stays with the exchange, whose 'outcome' tells whether the call may have taken effect.
 *
 * Depends on: api/base, api/http, answer.h.
 * Threads: one caller at a time; http_abort() from any thread.
 * Ownership: exchange_open/close; an answer's body lives until the next call. */
#ifndef AGENT_ENGINE_EXCHANGE_H
#define AGENT_ENGINE_EXCHANGE_H

#include <stdint.h>

#include "agent/engine/engine.h"
#include "api/base/bytes.h"
#include "api/base/status.h"
#include "api/http/http.h"

struct exchange {
    struct http *http;
    struct http_answer answer; /* Of the last call. */
};

/* With the token of the options' token file, which is made where it is missing.  'bearer': it is sent as
 * an API key, too. */
BATON_MUST_USE struct baton_status exchange_open(const struct engine_options *options, bool bearer,
                                                 struct exchange *out);
void exchange_close(struct exchange *exchange);

/* Changes nothing at the engine: may be sent twice. */
BATON_MUST_USE struct baton_status exchange_get(struct exchange *exchange, const char *path,
                                                uint64_t deadline_ns);
/* Sent once; 'body' may be null. */
BATON_MUST_USE struct baton_status exchange_post(struct exchange *exchange, const char *path,
                                                 const char *body, uint64_t deadline_ns);
/* As a client without the token. */
BATON_MUST_USE struct baton_status exchange_post_plain(struct exchange *exchange, const char *path,
                                                       const char *body, uint64_t deadline_ns);
/* A post that only asks. */
BATON_MUST_USE struct baton_status exchange_ask(struct exchange *exchange, const char *path,
                                                const char *body, uint64_t deadline_ns);

/* The last answer's body. */
struct baton_bytes exchange_body(const struct exchange *exchange);

#endif /* exchange.h */
