/* verbs.h -- what operators, routers and data pipelines ask for: the table of verbs.
 *
 * Depends on: world.h.  Ownership: none. */
#ifndef TESTS_SIM_VERBS_H
#define TESTS_SIM_VERBS_H

#include "tests/sim/world.h"

/* What the store holds just after a verb was carried out. */
struct shown {
    const struct world *world;
    const struct call *call;
    const struct model_record *model;
    const struct roll_record *roll;   /* The active one; null: none. */
    const struct group_record *group; /* That was named; null: none. */
};

struct verb {
    const char *name;
    enum request_kind kind;
    /* Decides what it is about, and when it is asked. */
    uint64_t (*fill)(struct world *world, struct call *call, uint32_t random);
    /* Writes the request's body; null: it has none. */
    void (*ask)(const struct world *world, const struct call *call, struct request *request);
    /* Whether the store shows it just after it was carried out; null: any state will do. */
    bool (*shows)(const struct shown *shown);
};

/* Places of what the calm needs. */
enum {
    VERB_APPLY = 0,
    VERB_RESUME = 2,
    VERB_ROLL_RESUME = 5,
    VERB_ROLL_PROMOTE = 10,
    VERB_UNCORDON = 14,
    VERB_UNPIN = 15,
    VERB_RELEASE = 16,
    VERB_WAKE = 17,
    VERB_WAIT_ASLEEP = 18,
    VERB_SLEEP = 19
};

/* What a pipeline reports in one call. */
enum { SIM_SAMPLES = 3, SIM_SPANS = 3 };
struct sample_set {
    uint32_t stage;
    uint32_t count;
    uint64_t consumer_seq;
    struct sample samples[SIM_SAMPLES];
    struct sample_span spans[SIM_SAMPLES][SIM_SPANS];
};

const struct verb *verbs_at(uint32_t place);
uint32_t verbs_count(void);
/* Writes the body of a verb's request. */
void verbs_ask(const struct world *world, const struct call *call, struct request *request);
/* The session's holder takes another version if its lease is over. */
bool verbs_restarts(const struct call *call);
/* Half of them name no version; the others any that was published. */
uint64_t verbs_to_any(struct world *world, struct call *call, uint32_t random);

/* --- samples.c --- */
void verbs_samples(const struct call *call, struct sample_set *out);
/* Samples that a release of slots says were consumed. */
uint32_t verbs_consumed(const struct call *call);

/* Its model's name; empty, if it asks for groups that it names. */
const char *verbs_model(const struct call *call);

#endif /* verbs.h */
