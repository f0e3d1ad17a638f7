/* judge.c -- see judge.h. */
#include "controller/core/judge.h"

#include "api/base/mutant.h"
#include "controller/core/core.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

static uint32_t bit(enum sample_fault fault)
{
    return UINT32_C(1) << fault;
}

static uint32_t judge_lag(const struct judge_facts *facts, const struct judge_rule *rule)
{
    if (facts->later) {
        return bit(SAMPLE_LATER_THAN_CONSUMER);
    }
    if (facts->lag.relation != LAG_RELATION_CURRENT && facts->lag.relation != LAG_RELATION_BEHIND) {
        return bit(SAMPLE_UNRELATED);
    }
    if (!rule->bounded || facts->lag.relation == LAG_RELATION_CURRENT) {
        return 0;
    }
    if (!facts->lag.known[rule->unit]) {
        return bit(SAMPLE_UNIT_UNKNOWN);
    }
    uint64_t bound = rule->bound + MUTANT(SAMPLES_STALE);
    return facts->lag.units[rule->unit] > bound ? bit(SAMPLE_TOO_STALE) : 0;
}

uint32_t judge_span(const struct judge_facts *facts, const struct judge_rule *rule)
{
    if (!facts->known) {
        return bit(SAMPLE_VERSION_UNKNOWN);
    }
    return (facts->quarantined ? bit(SAMPLE_QUARANTINED) : 0) |
           (facts->undone ? bit(SAMPLE_UNDONE) : 0) | judge_lag(facts, rule);
}

struct judge_rule view_judge_rule(const struct model_record *model)
{
    const struct staleness_policy *policy = &model->policy.staleness;
    return (struct judge_rule){ policy->unit == 0 ? LAG_PUBLISHES : policy->unit, policy->bounded,
                                policy->bound };
}

static struct judge_facts facts_of(const struct controller *core, const struct model *model,
                                   uint64_t seq, const struct version *consumer)
{
    const struct lineage *lineage = &model->staleness->r.lineage;
    const struct version *version = version_find(core, model->r.name, seq);
    struct judge_facts facts = { .known = version != NULL };
    if (version == NULL) {
        return facts;
    }
    struct version_point served = lag_point_of(&version->r);
    struct version_point head = lag_point_of(&consumer->r);
    facts.quarantined = version->r.quarantined;
    facts.undone = lineage_is_undone(lineage, seq);
    facts.later = seq > consumer->r.seq;
    facts.lag = lag_between(lineage, &served, &head);
    return facts;
}

/* Sums over the spans whose lag can be told. */
struct sums {
    double weighted;
    uint64_t tokens;
};

static void add_span(struct sample_verdict *out, struct sums *sums, const struct judge_facts *facts,
                     const struct sample_span *span, enum lag_unit unit)
{
    bool told = facts->known && facts->lag.known[unit];
    uint64_t lag = facts->lag.units[unit];
    out->tokens += span->tokens;
    if (out->oldest_seq == 0 || span->seq < out->oldest_seq) {
        out->oldest_seq = span->seq;
    }
    if (told) {
        out->max_lag = lag > out->max_lag ? lag : out->max_lag;
        sums->weighted += (double)lag * (double)span->tokens;
        sums->tokens += span->tokens;
    }
}

struct sample_verdict view_judge_sample(const struct controller *core,
                                        const struct model_record *model,
                                        const struct sample *sample, uint64_t consumer_seq,
                                        const struct judge_rule *rule)
{
    struct sample_verdict out = { 0 };
    struct sums sums = { 0 };
    out.consumer_seq = sample->consumer_seq != 0 ? sample->consumer_seq
                       : consumer_seq != 0       ? consumer_seq
                                                 : model->newest_seq;
    const struct version *consumer = version_find(core, model->name, out.consumer_seq);
    for (size_t i = 0; i < sample->spans_count; i++) {
        const struct sample_span *span = &sample->spans[i];
        struct judge_facts facts = { 0 };
        if (span->tokens == 0) {
            continue;
        }
        if (consumer != NULL) {
            facts = facts_of(core, (const struct model *)model, span->seq, consumer);
        }
        out.faults |= judge_span(&facts, rule);
        add_span(&out, &sums, &facts, span, rule->unit);
    }
    out.faults |= out.tokens == 0 ? bit(SAMPLE_NO_SPANS) : 0;
    out.mean_lag = sums.tokens == 0 ? 0 : sums.weighted / (double)sums.tokens;
    return out;
}

void judge_explain(const struct sample_verdict *verdict, const struct judge_rule *rule,
                   char out[BATON_TEXT_BYTES])
{
    static const char *const sentences[SAMPLE_FAULTS_END] = {
        [SAMPLE_NO_SPANS] = "it has no span with tokens",
        [SAMPLE_VERSION_UNKNOWN] = "one of its versions, or the consumer's, is not known here",
        [SAMPLE_UNRELATED] = "the consumer's version does not descend from one of its versions",
        [SAMPLE_LATER_THAN_CONSUMER] = "one of its versions is later than the consumer's",
        [SAMPLE_QUARANTINED] = "one of its versions was quarantined",
        [SAMPLE_UNDONE] = "one of its versions was undone",
        [SAMPLE_UNIT_UNKNOWN] = "one of its versions does not tell the bound's unit",
    };
    text_copy(out, BATON_TEXT_BYTES, "");
    for (uint32_t fault = 1; fault < SAMPLE_FAULTS_END; fault++) {
        if ((verdict->faults & bit((enum sample_fault)fault)) == 0) {
            continue;
        }
        if (fault == SAMPLE_TOO_STALE) {
            text_format(out, BATON_TEXT_BYTES, "it lags up to %llu %s, and the bound is %llu",
                        (unsigned long long)verdict->max_lag,
                        words_get(&words_lag_unit, rule->unit), (unsigned long long)rule->bound);
        } else {
            text_copy(out, BATON_TEXT_BYTES, sentences[fault]);
        }
        return;
    }
}
