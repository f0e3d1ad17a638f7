/* cost.c -- what keeping up costs: swaps, publishes and tokens of the last hour; see staleness.h.
 *
 * Sums in buckets of COST_BUCKET_S, the oldest of which is overwritten.  Only swaps of a roll count:
 * a group that comes back from elsewhere was shut anyway. */
#include <string.h>

#include "controller/core/core.h"
#include "controller/core/staleness.h"

static struct cost_bucket *bucket_now(const struct controller *core, struct model *model)
{
    uint64_t slot = core->wall_ns / (COST_BUCKET_S * S_NS);
    struct cost_bucket *bucket = &model->staleness->cost[slot % COST_BUCKETS];
    if (bucket->slot != slot) {
        memset(bucket, 0, sizeof(*bucket));
        bucket->slot = slot;
    }
    model->staleness->dirty = true;
    return bucket;
}

static void list_phases(const struct swap_phases *phases, uint64_t out[COST_PHASES])
{
    const uint64_t all[COST_PHASES] = { phases->pause_ns,      phases->apply_ns,
                                        phases->finalize_ns,   phases->verify_ns,
                                        phases->invalidate_ns, phases->commit_ns,
                                        phases->label_ns,      phases->probe_ns,
                                        phases->open_ns };
    memcpy(out, all, sizeof(all));
}

static uint64_t ranks_of(const struct group *group)
{
    uint64_t ranks = 0;
    for (uint32_t i = 0; group->known && i < group->live.engines_count; i++) {
        ranks += group->engines[i].world_size;
    }
    return ranks;
}

void cost_note_swap(struct controller *core, struct group *group, const struct swap_record *swap)
{
    struct model *model = model_find(core, group->r.model);
    if (model == NULL || swap->outcome != SWAP_OUTCOME_COMMITTED || group->r.ticket.rejoin) {
        return;
    }
    struct cost_bucket *bucket = bucket_now(core, model);
    const struct version *to = version_find(core, model->r.name, swap->to_seq);
    uint64_t phases[COST_PHASES];
    uint64_t ranks = ranks_of(group);
    list_phases(&swap->phases, phases);
    bucket->swaps++;
    bucket->shut_ns += swap->phases.shut_ns;
    bucket->rank_shut_ns += ranks * swap->phases.shut_ns;
    for (uint32_t i = 0; i < COST_PHASES; i++) {
        bucket->phases[i].ns += phases[i];
        bucket->phases[i].rank_ns += ranks * phases[i];
    }
    if (to != NULL && core->wall_ns > to->r.published_wall_ns) {
        bucket->delays++;
        bucket->delay_ns += core->wall_ns - to->r.published_wall_ns;
    }
}

void cost_note_publish(struct controller *core, struct model *model)
{
    bucket_now(core, model)->publishes++;
}

void cost_note_tokens(struct controller *core, struct model *model, uint64_t tokens)
{
    bucket_now(core, model)->tokens += tokens;
}

/* --- numbers --- */

static void add(struct cost_bucket *sum, const struct cost_bucket *bucket)
{
    sum->swaps += bucket->swaps;
    sum->publishes += bucket->publishes;
    sum->delays += bucket->delays;
    sum->shut_ns += bucket->shut_ns;
    sum->rank_shut_ns += bucket->rank_shut_ns;
    sum->delay_ns += bucket->delay_ns;
    sum->tokens += bucket->tokens;
    for (uint32_t i = 0; i < COST_PHASES; i++) {
        sum->phases[i].ns += bucket->phases[i].ns;
        sum->phases[i].rank_ns += bucket->phases[i].rank_ns;
    }
}

/* Sums what is not older than an hour; '*window_s': since the oldest of it began. */
static struct cost_bucket sum_up(const struct controller *core, const struct model *model,
                                 uint64_t wall_ns, double *window_s)
{
    struct cost_bucket sum = { 0 };
    uint64_t slot = wall_ns / (COST_BUCKET_S * S_NS);
    uint64_t first = slot;
    for (uint32_t i = 0; i < COST_BUCKETS; i++) {
        const struct cost_bucket *bucket = &model->staleness->cost[i];
        if (bucket->slot != 0 && bucket->slot <= slot && slot - bucket->slot < COST_BUCKETS) {
            add(&sum, bucket);
            first = bucket->slot < first ? bucket->slot : first;
        }
    }
    uint64_t start_ns = first * COST_BUCKET_S * S_NS;
    uint64_t created_ns = model->r.created_wall_ns;
    start_ns = created_ns > start_ns && created_ns < wall_ns ? created_ns : start_ns;
    *window_s = (double)(wall_ns - start_ns) / 1e9;
    *window_s = *window_s < 1 ? 1 : *window_s;
    (void)core;
    return sum;
}

struct cost_forecast cost_forecast_of(const struct sync_cost *cost, double factor)
{
    struct cost_forecast out = { .interval_s = cost->publish_interval_s * factor };
    out.gpu_s_per_hour = cost->gpu_s_per_hour / factor;
    out.sync_share = cost->mean_shut_s / out.interval_s;
    out.mean_age_s = cost->mean_delay_s + out.interval_s / 2;
    out.mean_lag_publishes = cost->mean_delay_s / out.interval_s;
    return out;
}

bool view_sync_cost(const struct controller *core, const struct model_record *record,
                    uint64_t wall_ns, struct sync_cost *out)
{
    const struct model *model = (const struct model *)record;
    memset(out, 0, sizeof(*out));
    struct cost_bucket sum = sum_up(core, model, wall_ns, &out->window_s);
    if (sum.swaps == 0) {
        return false;
    }
    double per_hour = 3600 / out->window_s / 1e9;
    double open_s = (double)model->staleness->groups * out->window_s - (double)sum.shut_ns / 1e9;
    double tokens_per_s = open_s > 0 ? (double)sum.tokens / open_s : 0;
    out->swaps = sum.swaps;
    out->publishes = sum.publishes;
    out->mean_shut_s = (double)sum.shut_ns / 1e9 / sum.swaps;
    out->gpu_s_per_hour = (double)sum.rank_shut_ns * per_hour;
    out->tokens_lost_per_hour = (double)sum.shut_ns * per_hour * tokens_per_s;
    out->mean_delay_s = sum.delays == 0 ? 0 : (double)sum.delay_ns / 1e9 / sum.delays;
    out->publish_interval_s = sum.publishes < 2 ? 0 : out->window_s / sum.publishes;
    out->sync_share = out->publish_interval_s > 0 ? out->mean_shut_s / out->publish_interval_s : 0;
    for (uint32_t i = 0; i < COST_PHASES; i++) {
        out->phases[i].mean_s = (double)sum.phases[i].ns / 1e9 / sum.swaps;
        out->phases[i].gpu_s_per_hour = (double)sum.phases[i].rank_ns * per_hour;
        out->phases[i].tokens_lost_per_hour = (double)sum.phases[i].ns * per_hour * tokens_per_s;
    }
    return true;
}

const char *cost_phase_word(uint32_t phase)
{
    static const char *const words[COST_PHASES] = { "pause",  "apply",      "finalize",
                                                    "verify", "invalidate", "commit",
                                                    "label",  "probe",      "open" };
    return words[phase];
}
