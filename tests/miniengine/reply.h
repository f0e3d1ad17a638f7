/* reply.h -- answers, in the shapes that vLLM 0.32 gives them.
 *
 * Three shapes of errors: {"error":{"message","type","param","code"}}, {"error":"text"} and
 * {"detail":"text"}.  Answers to generation carry the guard's version headers.
 *
 * Depends on: server.h.  Threads: the connection's.  Ownership: JSON values are taken. */
#ifndef TESTS_MINIENGINE_REPLY_H
#define TESTS_MINIENGINE_REPLY_H

#include "tests/miniengine/server.h"

/* Queues a JSON answer. */
enum MHD_Result reply_json(struct exchange *exchange, unsigned status, json_t *body_taken);

/* Queues a text of a given content type. */
enum MHD_Result reply_text(struct exchange *exchange, unsigned status, const char *type,
                           const char *text);

/* The first shape; 'param' may be null. */
__attribute__((format(printf, 4, 5))) enum MHD_Result reply_error(struct exchange *exchange,
                                                                  unsigned status,
                                                                  const char *param,
                                                                  const char *fmt, ...);

/* The third shape. */
enum MHD_Result reply_detail(struct exchange *exchange, unsigned status, const char *text);

/* A refusal of the guard. */
enum MHD_Result reply_refusal(struct exchange *exchange);

/* Adds x-baton-version and, at the end of the generation, x-baton-version-end. */
void reply_add_versions(const struct exchange *exchange, struct MHD_Response *response, bool ended);

/* Parses the body as a JSON object.  Null: an answer was queued, with its result in 'queued'. */
json_t *reply_body(struct exchange *exchange, enum MHD_Result *queued);

/* True if the client has closed the connection. */
bool reply_client_gone(const struct exchange *exchange);

/* Waits until 'event_fd' is readable, the client is gone, or 'timeout_ms' passed (-1: no bound). */
void reply_wait(const struct exchange *exchange, int event_fd, int timeout_ms);

#endif /* reply.h */
