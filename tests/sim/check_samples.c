/* check_samples.c -- the truth about samples: who may be trained on, and what was counted of them; see
 * check.h.
 *
 * Each call that is stored is counted once, whatever was lost, repeated or restarted; so the books lie
 * beside the store, and go back with it. */
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/verbs.h"

enum { BOUND_PUBLISHES = 2 }; /* Of every policy; see verbs.c. */

static uint32_t bit(enum sample_fault fault)
{
    return UINT32_C(1) << fault;
}

/* What the store has of a version; null: nothing. */
static const struct version_record *stored(const struct world *world, uint32_t model, uint64_t seq)
{
    uint32_t content = content_of_seq(world, model, seq);
    return content == 0 ? NULL
                        : disk_find(&world->disk, RECORD_VERSION, world->versions[content].uid);
}

static bool is_undone(const struct world *world, uint32_t model, uint64_t seq)
{
    const struct staleness_record *record =
        disk_find(&world->disk, RECORD_STALENESS, model_name(model));
    for (uint32_t i = 0; record != NULL && i < record->lineage.undone_count; i++) {
        if (record->lineage.undone[i].seq == seq) {
            return true;
        }
    }
    return false;
}

/* One span for a consumer; 'bounded': by the policy. */
static uint32_t fault_of_span(const struct world *world, uint32_t model, uint64_t seq,
                              uint64_t consumer, uint64_t *lag)
{
    const struct version_record *version = stored(world, model, seq);
    *lag = 0;
    if (version == NULL || stored(world, model, consumer) == NULL) {
        return bit(SAMPLE_VERSION_UNKNOWN);
    }
    uint32_t faults = (version->quarantined ? bit(SAMPLE_QUARANTINED) : 0) |
                      (is_undone(world, model, seq) ? bit(SAMPLE_UNDONE) : 0);
    if (seq > consumer) {
        return faults | bit(SAMPLE_LATER_THAN_CONSUMER);
    }
    if (!check_publishes(world, model, &(struct check_path){ consumer, seq }, lag)) {
        *lag = 0;
        return faults | bit(SAMPLE_UNRELATED);
    }
    return faults | (*lag > BOUND_PUBLISHES ? bit(SAMPLE_TOO_STALE) : 0);
}

static struct sample_verdict verdict_on(const struct world *world, uint32_t model,
                                        const struct sample *sample, uint64_t consumer_seq)
{
    const struct model_record *record = model_stored(&world->disk, model);
    struct sample_verdict verdict = { 0 };
    uint64_t consumer = sample->consumer_seq != 0 ? sample->consumer_seq
                        : consumer_seq != 0       ? consumer_seq
                                                  : record->newest_seq;
    for (size_t i = 0; i < sample->spans_count; i++) {
        const struct sample_span *span = &sample->spans[i];
        uint64_t lag = 0;
        if (span->tokens > 0) {
            verdict.faults |= fault_of_span(world, model, span->seq, consumer, &lag);
            verdict.tokens += span->tokens;
            verdict.max_lag = lag > verdict.max_lag ? lag : verdict.max_lag;
        }
    }
    verdict.faults |= verdict.tokens == 0 ? bit(SAMPLE_NO_SPANS) : 0;
    return verdict;
}

static void add(struct sample_book *book, const struct sample_verdict *verdict)
{
    uint32_t apart = bit(SAMPLE_UNRELATED) | bit(SAMPLE_VERSION_UNKNOWN) | bit(SAMPLE_NO_SPANS) |
                     bit(SAMPLE_LATER_THAN_CONSUMER);
    bool is_apart = (verdict->faults & apart) != 0;
    book->samples++;
    book->tokens += verdict->tokens;
    book->unrelated += is_apart;
    book->max_lag =
        !is_apart && verdict->max_lag > book->max_lag ? verdict->max_lag : book->max_lag;
}

void check_judged(struct world *world, const struct head *head, const struct call *call)
{
    const struct model_record *stored_model = model_stored(&world->disk, call->model);
    const struct model_record *model =
        view_is_started(head->core) ? view_model_find(head->core, model_name(call->model)) : NULL;
    struct sample_set set;
    memset(&world->asked, 0, sizeof(world->asked));
    if (model == NULL || stored_model == NULL || head->deposed) {
        return;
    }
    struct judge_rule rule = view_judge_rule(model);
    verbs_samples(call, &set);
    for (uint32_t i = 0; i < set.count; i++) {
        struct sample_verdict told =
            view_judge_sample(head->core, model, &set.samples[i], set.consumer_seq, &rule);
        struct sample_verdict truth =
            verdict_on(world, call->model, &set.samples[i], set.consumer_seq);
        for (uint32_t fault = SAMPLE_NO_SPANS; fault < SAMPLE_FAULTS_END; fault++) {
            if ((told.faults & bit((enum sample_fault)fault)) != 0) {
                cover(COVER_SAMPLE, fault);
            }
        }
        if (!world->went_back && (told.faults != truth.faults || told.tokens != truth.tokens ||
                                  told.max_lag != truth.max_lag)) {
            world_break(
                world, CHECK_SAMPLES,
                "a sample of %s has faults %x, %llu tokens, lag %llu; it has %x, %llu, %llu",
                model_name(call->model), told.faults, (unsigned long long)told.tokens,
                (unsigned long long)told.max_lag, truth.faults, (unsigned long long)truth.tokens,
                (unsigned long long)truth.max_lag);
        }
        add(&world->asked, world->went_back ? &told : &truth);
    }
}

/* A call of these was stored: from now on it counts. */
void check_counted(struct world *world, const struct call *call)
{
    struct disk *disk = &world->disk;
    if (call->kind == REQUEST_SLOTS_RELEASE) {
        disk->consumed[call->model] += verbs_consumed(call);
    } else if (call->kind == REQUEST_SAMPLES_REPORT) {
        struct sample_set set;
        verbs_samples(call, &set);
        struct sample_book *book = &disk->samples[call->model][set.stage];
        book->samples += world->asked.samples;
        book->tokens += world->asked.tokens;
        book->unrelated += world->asked.unrelated;
        book->max_lag = world->asked.max_lag > book->max_lag ? world->asked.max_lag : book->max_lag;
    }
}

/* What was consumed beyond a publish belongs to the next one. */
void check_consumed(struct world *world, uint32_t model)
{
    uint64_t *consumed = &world->disk.consumed[model];
    *consumed = *consumed > SIM_SLOTS_PER_PUBLISH ? *consumed - SIM_SLOTS_PER_PUBLISH : 0;
}

static void check_record(struct world *world, const struct staleness_record *record)
{
    uint32_t model = model_of_name(record->model);
    for (uint32_t stage = SAMPLE_STAGE_DISPATCH; stage <= SAMPLE_STAGE_CONSUMPTION; stage++) {
        const struct sample_counter *told = &record->samples[stage];
        const struct sample_book *book = &world->disk.samples[model][stage];
        uint64_t sum = told->unrelated;
        for (uint32_t i = 0; i < SAMPLE_BUCKETS; i++) {
            sum += told->buckets[i];
        }
        if (told->samples != book->samples || told->tokens != book->tokens ||
            told->unrelated != book->unrelated || told->max_lag != book->max_lag ||
            sum != book->samples) {
            world_break(world, CHECK_SAMPLES,
                        "%llu samples of %s are counted at stage %u, %llu tokens; there were %llu, "
                        "%llu",
                        (unsigned long long)told->samples, record->model, stage,
                        (unsigned long long)told->tokens, (unsigned long long)book->samples,
                        (unsigned long long)book->tokens);
        }
    }
    if (!world->went_back && record->consumed != world->disk.consumed[model]) {
        world_break(world, CHECK_SAMPLES, "%llu samples of %s count as consumed; %llu were",
                    (unsigned long long)record->consumed, record->model,
                    (unsigned long long)world->disk.consumed[model]);
    }
}

void check_counts(struct world *world, const struct transaction *transaction)
{
    for (size_t i = 0; i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        if (op->record.kind == RECORD_STALENESS && !op->remove) {
            check_record(world, op->record.body);
        }
    }
}
