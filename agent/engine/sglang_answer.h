/* sglang_answer.h -- reads what an SGLang server answered, as answer.h does for vLLM.
 *
 * Pure: text in, values out.  Fields that it does not know are left alone.  Fuzzed by
 * tests/fuzz/sglang_answer_fuzz.c.
 *
 * Depends on: api/base, jansson.  Threads: values only.  Ownership: the caller's. */
#ifndef AGENT_ENGINE_SGLANG_ANSWER_H
#define AGENT_ENGINE_SGLANG_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"
#include "api/base/status.h"

/* GET /server_info. */
struct sglang_server {
    char software[BATON_NAME_BYTES];
    char incarnation[BATON_UID_TEXT_BYTES]; /* Of how long its start took, and its seed. */
    uint32_t tp;
    uint32_t dp;
    uint32_t pp;
    uint32_t nodes;
    uint32_t frontends; /* Tokenizer workers: processes that serve HTTP. */
    bool cpu;
    bool quantized;
    bool draft;         /* A speculative draft model is beside the model. */
    bool disaggregated; /* Prefill and decode are apart. */
    bool external_kv;   /* KV is kept in a storage outside of the process. */
    bool memory_saver;  /* It can release its memory. */
};

BATON_MUST_USE struct baton_status sglang_answer_server(struct baton_bytes body,
                                                        struct sglang_server *out);

/* Does GET /openapi.json name this path? */
bool sglang_answer_has_route(struct baton_bytes body, const char *path);

/* Called for each tensor of the one rank; false ends. */
typedef bool (*sglang_sum_fn)(void *context, const char *name, const char *sum);
/* POST /weights_checker with action "checksum", of an engine of one rank.  Another number of ranks, and
 * a sum that has not 16 hexadecimal digits, is malformed. */
BATON_MUST_USE struct baton_status sglang_answer_sums(struct baton_bytes body, sglang_sum_fn each,
                                                      void *context);

/* Copies 'text' without the words that look like paths. */
void sglang_answer_hide_paths(const char *text, char *out, size_t out_bytes);

#endif /* sglang_answer.h */
