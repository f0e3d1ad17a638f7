/* answer.h -- reads what an engine answered; nothing of it is believed before it was checked here.
 *
 * Pure: text in, values out.  Bodies are bounded by http.h; this module bounds depth and counts, and
 * names the field that is missing or wrong.  Fields that it does not know are left alone.
 *
 * Depends on: api/base, engine.h, jansson.
 * Threads: values only.  Ownership: the caller's. */
#ifndef AGENT_ENGINE_ANSWER_H
#define AGENT_ENGINE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/engine/engine.h"
#include "api/base/bytes.h"
#include "api/base/limits.h"
#include "api/base/status.h"

/* Ranks of one engine (TP x PP). */
enum { ANSWER_RANKS_MAX = 64, ANSWER_PROTOCOL = 1 };

/* The outcome of one phase on one rank: 'staged', 'applied' or 'readback'. */
struct answer_part {
    bool present; /* False: null, none of its kind happened. */
    bool ok;
    bool restored;
    char digest[BATON_DIGEST_TEXT_BYTES];
    struct engine_fence fence; /* Zeroes in 'readback'. */
    enum engine_level level;   /* Of 'readback'. */
    uint32_t mismatched; /* Of 'readback': tensors that it names as different; the first of them: */
    char mismatched_first[BATON_TENSOR_NAME_BYTES];
    char error_code[BATON_NAME_BYTES];
    char error_message[BATON_TEXT_BYTES];
    char error_tensor[BATON_TENSOR_NAME_BYTES];
    int32_t error_rank; /* -1: none. */
};

/* baton_report of one rank. */
struct answer_rank {
    bool session;
    struct engine_fence fence;
    struct answer_part staged;
    struct answer_part applied;
    struct answer_part readback;
    char resident_digest[BATON_DIGEST_TEXT_BYTES]; /* Empty: null. */
    enum engine_level resident_level;
    bool live; /* It takes baton_prepare and baton_live; one that does not tell does not. */
    char live_why[BATON_TEXT_BYTES];
    double stage_s;
    double load_s;
    double finalize_s;
    double verify_s;
};

struct answer_report {
    uint32_t ranks_count;
    struct answer_rank ranks[ANSWER_RANKS_MAX];
};

/* GET /baton/guard. */
struct answer_guard {
    enum guard_gate gate;
    uint64_t boots;
    char incarnation[BATON_UID_TEXT_BYTES];
    uint64_t version;
    bool salt; /* A guard that does not tell adds none. */
    uint32_t held;
    uint32_t active;
};

/* GET /server_info. */
struct answer_server {
    char backend[BATON_NAME_BYTES]; /* Of weight transfer; empty: none. */
    char instance[BATON_UID_TEXT_BYTES];
    bool external_kv;     /* A KV connector is configured. */
    bool sleep_mode;      /* It can release its memory. */
    bool compiled_on_cpu; /* Compiled code on a CPU, which may hold packed weights of its own. */
    bool named_by_path;   /* Clients call its model by the directory that it was started on. */
};

/* The sentence of an error answer, in any of the three shapes that vLLM uses, cut to fit; the start of
 * the body for any other shape. */
void answer_error_text(struct baton_bytes body, char *out, size_t out_bytes);

/* The failure that an answer of 'code' outside of 200..299 means. */
BATON_MUST_USE struct baton_status answer_error(uint32_t code, struct baton_bytes body);

/* A member of an object at top level. */
BATON_MUST_USE struct baton_status answer_bool(struct baton_bytes body, const char *key, bool *out);
BATON_MUST_USE struct baton_status answer_count(struct baton_bytes body, const char *key,
                                                uint32_t *out);
BATON_MUST_USE struct baton_status answer_text(struct baton_bytes body, const char *key, char *out,
                                               size_t out_bytes);

BATON_MUST_USE struct baton_status answer_guard(struct baton_bytes body, struct answer_guard *out);
BATON_MUST_USE struct baton_status answer_server(struct baton_bytes body,
                                                 struct answer_server *out);
/* The first name of /v1/models. */
BATON_MUST_USE struct baton_status answer_model(struct baton_bytes body, char *out,
                                                size_t out_bytes);
/* The log-probabilities of a completion's first 'count' tokens; fewer is malformed. */
BATON_MUST_USE struct baton_status answer_logprobs(struct baton_bytes body, size_t count,
                                                   double *out);
/* A completion with log-probabilities: each is a number <= 0. */
BATON_MUST_USE struct baton_status answer_probe(struct baton_bytes body, struct engine_probe *out);

/* {"results":[...]} of baton_report or baton_readback from 'ranks' ranks.  An entry that is no report,
 * or another rank's, fails as ENGINE_LIED: the reply channel is out of step. */
BATON_MUST_USE struct baton_status answer_report(struct baton_bytes body, uint32_t ranks,
                                                 struct answer_report *out);
/* {"results":[null, ...]}: 'ranks' entries, all null.  Another entry fails as ENGINE_LIED. */
BATON_MUST_USE struct baton_status answer_nulls(struct baton_bytes body, uint32_t ranks);

enum answer_phase { ANSWER_STAGED, ANSWER_APPLIED, ANSWER_READBACK };

/* Sums a phase up over all ranks into 'ok', 'restored', 'level', error and times of 'out'.  A rank
 * counts only if it reports this digest and, but for READBACK, this fence; what it reports of another
 * call means that this call did nothing there.  OK if 'ok'; else the failure of the rank that began
 * it.  'fence' may be null for READBACK. */
BATON_MUST_USE struct baton_status answer_sum(const struct answer_report *report,
                                              enum answer_phase phase, const char *digest,
                                              const struct engine_fence *fence,
                                              struct engine_update *out);

#endif /* answer.h */
