/* references.h -- what a trainer says that a version's engines should answer: baton.references.json.
 *
 *   {"references": [{"prompt": [464, 1212], "logprobs": [-0.23, -1.5], "tolerance": 0.05}]}
 *
 * "prompt" are token ids; "logprobs" those of the tokens that follow greedily, as the trainer's own
 * forward pass gives them; "tolerance" the largest difference of one of them, in nats.  The file is
 * one of the version's files, so it is digested and lands with the weights that it describes; it is
 * never inherited from a parent.
 *
 * Depends on: api/base, jansson.  Threads: any.  Ownership: references_parse() gives,
 * references_destroy() takes. */
#ifndef TRANSPORT_MODEL_REFERENCES_H
#define TRANSPORT_MODEL_REFERENCES_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

#define REFERENCES_FILE_NAME "baton.references.json"

enum {
    REFERENCES_MAX = 8,
    REFERENCE_PROMPT_MAX = 1024,
    REFERENCE_LOGPROBS_MAX = 64,
    REFERENCES_BYTES_MAX = 256 << 10
};

struct reference {
    uint32_t prompt_count; /* At least 1. */
    uint32_t prompt[REFERENCE_PROMPT_MAX];
    uint32_t logprobs_count; /* At least 1. */
    double logprobs[REFERENCE_LOGPROBS_MAX];
    double tolerance;
};

struct references {
    size_t count; /* At least 1. */
    struct reference items[REFERENCES_MAX];
};

/* INVALID_ARGUMENT names the item and the key that is wrong. */
BATON_MUST_USE struct baton_status references_parse(struct baton_bytes text,
                                                    struct references **out);
/* Null is fine. */
void references_destroy(struct references *references);

/* The same of the file in 'dir'.  NOT_FOUND: there is none. */
BATON_MUST_USE struct baton_status references_load(const char *dir, struct references **out);

#endif /* references.h */
