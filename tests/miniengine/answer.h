/* answer.h -- a request's output as JSON: text, log-probabilities, usage, reasons.
 *
 * An answer walks over what was generated.  Each call of answer_body covers the tokens since the
 * last one; text that ends inside a character is kept back until the character is whole.
 *
 * Depends on: request.h, tokenizer.h, jansson.  Threads: one an answer; token arrays may be read
 * up to the count that was read under the engine's lock.  Ownership: answer_deinit frees. */
#ifndef TESTS_MINIENGINE_ANSWER_H
#define TESTS_MINIENGINE_ANSWER_H

#include <jansson.h>

#include "tests/miniengine/completion.h"

struct answer {
    const struct server *server;
    const struct request *request; /* Borrowed. */
    bool return_token_ids;
    bool tokens_as_ids;
    int64_t created;
    uint32_t told;        /* Generated tokens already covered. */
    uint32_t text_offset; /* Characters already covered. */
    char *pending;        /* Bytes of an unfinished character. */
    size_t pending_bytes;
};

/* One "text_completion" object over tokens told .. generated-1.  'state' tells the reason; 'usage'
 * adds the counts. */
json_t *answer_body(struct answer *answer, uint32_t generated, enum request_state state,
                    bool usage);

/* The closing object of a stream that was asked for the counts. */
json_t *answer_usage(const struct answer *answer, uint32_t generated);

void answer_deinit(struct answer *answer);

#endif /* answer.h */
