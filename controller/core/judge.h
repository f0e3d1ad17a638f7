/* judge.h -- whether a sample may be trained on, and how stale it was.
 *
 * A sample is a list of spans: so many tokens by that version.  It is compared with the version
 * that its consumer starts from.  The verdict is a pure function of the spans, the rule and what is
 * known of the versions at that revision; nothing is kept.
 *
 * Depends on: event.h, lag.h, view.h.  Threads: that of controller_step().  Ownership: the caller's. */
#ifndef CONTROLLER_CORE_JUDGE_H
#define CONTROLLER_CORE_JUDGE_H

#include "controller/core/lag.h"
#include "controller/core/view.h"

/* Numbers as in api/proto SampleFault. */
enum sample_fault {
    SAMPLE_NO_SPANS = 1,
    SAMPLE_VERSION_UNKNOWN,
    SAMPLE_UNRELATED,
    SAMPLE_LATER_THAN_CONSUMER,
    SAMPLE_TOO_STALE,
    SAMPLE_QUARANTINED,
    SAMPLE_UNDONE,
    SAMPLE_UNIT_UNKNOWN,
    SAMPLE_FAULTS_END
};

struct judge_rule {
    enum lag_unit unit;
    bool bounded;
    uint64_t bound;
};

/* What is known of one span's version. */
struct judge_facts {
    bool known;
    bool quarantined;
    bool undone;
    bool later;     /* Its seq is above the consumer's. */
    struct lag lag; /* Behind the consumer's version. */
};

/* Faults of one span, bit (1 << fault) each.  Pure. */
uint32_t judge_span(const struct judge_facts *facts, const struct judge_rule *rule);

struct sample_verdict {
    uint32_t faults; /* Bits; 0: accepted. */
    uint64_t oldest_seq;
    uint64_t consumer_seq;
    uint64_t max_lag; /* In the rule's unit, over spans whose lag is known. */
    double mean_lag;  /* Over their tokens. */
    uint64_t tokens;
};

/* The rule that the model's policy makes. */
struct judge_rule view_judge_rule(const struct model_record *model);

/* 'consumer_seq' 0: the newest version; the sample's own goes first. */
struct sample_verdict view_judge_sample(const struct controller *core,
                                        const struct model_record *model,
                                        const struct sample *sample, uint64_t consumer_seq,
                                        const struct judge_rule *rule);

/* A sentence for the first fault of a verdict; empty when it was accepted. */
void judge_explain(const struct sample_verdict *verdict, const struct judge_rule *rule,
                   char out[BATON_TEXT_BYTES]);

#endif /* judge.h */
