/* words.h -- the words of each enum that people, YAML files and the store read.
 *
 * A word table maps numbers to words: the word of number i is words[i]; a null is a number that
 * means nothing.  The policy words are those of api/proto and of model files ("OnPublish", "keep").
 *
 * Depends on: nothing.  Threads: constant.  Ownership: static. */
#ifndef CONTROLLER_CORE_WORDS_H
#define CONTROLLER_CORE_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct word_table {
    const char *const *words;
    uint32_t count;
};

extern const struct word_table words_trigger;         /* enum policy_trigger */
extern const struct word_table words_unit;            /* enum policy_unit */
extern const struct word_table words_order;           /* enum policy_order */
extern const struct word_table words_progress_action; /* enum policy_progress_action */
extern const struct word_table words_check_kind;      /* enum check_kind */
extern const struct word_table words_compare;         /* enum check_compare: "<", ... */
extern const struct word_table words_check_state;     /* enum check_state */
extern const struct word_table words_strategy;        /* enum policy_strategy */
extern const struct word_table words_in_flight;       /* enum policy_in_flight */
extern const struct word_table words_kv;              /* enum policy_kv */
extern const struct word_table words_arrivals;        /* enum policy_arrivals */
extern const struct word_table words_non_finite;      /* enum policy_non_finite */
extern const struct word_table words_version_state;   /* enum version_state */
extern const struct word_table words_roll_state;      /* enum roll_state */
extern const struct word_table words_barrier_stage;   /* enum barrier_stage */
extern const struct word_table words_lag_unit;        /* enum lag_unit: "Publishes", ... */
extern const struct word_table words_swap_mode;       /* enum policy_mode */
extern const struct word_table words_drain_expiry;    /* enum policy_drain_expiry */
extern const struct word_table words_hook_when;       /* enum policy_hook_when */
extern const struct word_table words_roll_cause;   /* enum roll_cause: "publish", "start", "undo" */
extern const struct word_table words_swap_outcome; /* enum swap_outcome */
extern const struct word_table words_verify_level; /* enum verify_level */
extern const struct word_table words_object_kind;  /* enum object_kind: "model", ... */
extern const struct word_table words_group_state;  /* enum group_state */
extern const struct word_table words_canary_wait;  /* enum canary_wait */
extern const struct word_table words_blocked;      /* enum blocked_reason: "BUDGET_FULL", ... */

/* The word of a number; empty for a number without one. */
const char *words_get(const struct word_table *table, uint32_t number);
/* The number of a word, compared exactly; false (and '*out' untouched) for an unknown one. */
bool words_find(const struct word_table *table, const char *word, uint32_t *out);
/* All words of a table as `"a", "b" or "c"`, for messages. */
void words_list(const struct word_table *table, char *out, size_t out_bytes);

#endif /* words.h */
