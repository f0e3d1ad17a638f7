/* completion.h -- the body of a POST /v1/completions, understood.
 *
 * Depends on: server.h.  Threads: the connection's.  Ownership: completion_parse fills,
 * completion_deinit frees. */
#ifndef TESTS_MINIENGINE_COMPLETION_H
#define TESTS_MINIENGINE_COMPLETION_H

#include "tests/miniengine/server.h"

struct completion {
    struct request_params params;
    uint32_t *prompt;
    uint32_t prompt_count;
    char *salt;
    bool stream;
    bool include_usage;
    bool return_token_ids;
    bool tokens_as_ids; /* Tokens are named "token_id:N" in log-probabilities. */
};

/* What is wrong with a body. */
struct completion_error {
    unsigned status;
    const char *param;
    char message[256];
};

bool completion_parse(const struct server *server, const json_t *body, struct completion *out,
                      struct completion_error *error);
/* Puts "baton-<version>" before the request's own cache salt.  False: out of memory. */
bool completion_salt(struct completion *completion, uint64_t version);
void completion_deinit(struct completion *completion);

#endif /* completion.h */
