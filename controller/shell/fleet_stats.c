/* fleet_stats.c -- see fleet_stats.h. */
#include "controller/shell/fleet_stats.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/core/view.h"
#include "controller/core/words.h"

enum {
    LOOK_S = 5,
    AGAIN_MS = 100,
    STATES = GROUP_STATE_ASLEEP + 1,
    OUTCOMES = SWAP_OUTCOME_LOST + 1
};

/* Of one model. */
struct model_numbers {
    char name[BATON_NAME_BYTES];
    uint32_t states[STATES];
    uint32_t blocked[BLOCKED_REASONS_END];
    uint32_t groups; /* That are not retired. */
    uint64_t lag_max;
    uint64_t lag_sum;
    uint64_t lag_seconds_max;
    uint32_t unavailable; /* Against the budget: */
    uint32_t max_unavailable;
    bool will_not_converge;
    uint64_t newest_seq;
    uint64_t newest_published_wall_ns;
    bool held;
    bool suspended;
    bool degraded; /* Its roll. */
    uint32_t roll_groups;
    uint32_t roll_done;
};

struct numbers {
    uint32_t models_count;
    struct model_numbers models[BATON_MODELS_MAX];
    uint32_t agents;
    uint32_t agents_connected;
    bool floors_pending;
};

struct phase {
    const char *name;
    size_t offset; /* In struct swap_phases. */
};

#define PHASE(name)                                                                                \
    {                                                                                              \
#name, offsetof(struct swap_phases, name##_ns)                                             \
    }

static const struct phase phases[] = {
    PHASE(queue),    PHASE(stage),  PHASE(barrier),    PHASE(pause),  PHASE(apply),
    PHASE(finalize), PHASE(verify), PHASE(invalidate), PHASE(commit), PHASE(label),
    PHASE(probe),    PHASE(open),   PHASE(shut),
};
enum { PHASES = sizeof(phases) / sizeof(phases[0]) };

struct fleet_stats {
    uint64_t due_ns;
    struct numbers next; /* The loop's. */
    bool has_cursor;     /* The last swap that was counted, or was there before: */
    uint64_t cursor_wall_ns;
    char cursor_uid[BATON_UID_TEXT_BYTES];
    struct metrics_histogram phases[PHASES];
    atomic_uint_fast64_t outcomes[OUTCOMES];
    atomic_uint_fast64_t bytes;
    pthread_mutex_t mutex;
    struct numbers shown; /* Under the mutex. */
};

struct fleet_stats *fleet_stats_create(void)
{
    struct fleet_stats *stats = calloc(1, sizeof(*stats));
    baton_assert(stats != NULL);
    pthread_mutex_init(&stats->mutex, NULL);
    return stats;
}

void fleet_stats_destroy(struct fleet_stats *stats)
{
    if (stats != NULL) {
        pthread_mutex_destroy(&stats->mutex);
        free(stats);
    }
}

uint64_t fleet_stats_deadline_ns(const struct fleet_stats *stats)
{
    return stats->due_ns;
}

/* --- looking --- */

static void look_at_model(const struct controller *core, const struct model_record *model,
                          struct model_numbers *out)
{
    const struct roll_record *roll = view_roll_find(core, model->name, model->active_roll);
    struct model_status status;
    memcpy(out->name, model->name, sizeof(out->name));
    out->newest_seq = model->newest_seq;
    out->newest_published_wall_ns = model->newest_published_wall_ns;
    out->held = model->held;
    out->suspended = model->suspended;
    view_model_status(core, model, view_wall_ns(core), &status);
    out->unavailable = status.groups_unavailable;
    out->max_unavailable = status.max_unavailable;
    out->will_not_converge = status.convergence.will_not;
    if (model->active_roll != 0 && roll != NULL) {
        struct roll_status now;
        view_roll_status(core, roll, &now);
        out->degraded = roll->degraded;
        out->roll_groups = now.groups_total;
        out->roll_done = now.groups_done;
    }
}

static void look_at_group(const struct controller *core, const struct group_record *group,
                          struct model_numbers *out)
{
    struct group_status status;
    view_group_status(core, group, view_wall_ns(core), &status);
    out->states[group->retired ? GROUP_STATE_RETIRED : status.state]++;
    if (group->retired) {
        return;
    }
    out->groups++;
    out->blocked[status.blocked_reason]++;
    out->lag_sum += status.lag_publishes;
    out->lag_max = status.lag_publishes > out->lag_max ? status.lag_publishes : out->lag_max;
    out->lag_seconds_max =
        status.lag_seconds > out->lag_seconds_max ? status.lag_seconds : out->lag_seconds_max;
}

/* Models are by name, groups by model and name. */
static void look_at_fleet(const struct controller *core, struct numbers *out)
{
    memset(out, 0, sizeof(*out));
    out->floors_pending = view_floors_pending(core);
    out->models_count = view_models_count(core);
    for (uint32_t i = 0; i < out->models_count; i++) {
        struct model_numbers *model = &out->models[i];
        look_at_model(core, view_model_at(core, i), model);
        uint32_t first = view_groups_lower_bound(core, model->name, "");
        uint32_t count = view_groups_of_model(core, model->name);
        for (uint32_t k = 0; k < count; k++) {
            look_at_group(core, view_group_at(core, first + k), model);
        }
    }
    for (uint32_t i = 0; i < view_agents_count(core); i++) {
        const struct agent_record *agent = view_agent_at(core, i);
        struct agent_status status;
        view_agent_status(core, agent, &status);
        out->agents += !agent->retired; /* Those are silent for ever. */
        out->agents_connected += status.connected;
    }
}

static void count_swap(struct fleet_stats *stats, const struct swap_record *swap)
{
    atomic_fetch_add(&stats->outcomes[(unsigned)swap->outcome < OUTCOMES ? swap->outcome : 0], 1);
    atomic_fetch_add(&stats->bytes, swap->bytes);
    for (size_t i = 0; i < PHASES; i++) {
        uint64_t ns = 0;
        memcpy(&ns, (const char *)&swap->phases + phases[i].offset, sizeof(ns));
        if (ns > 0) { /* It was reached. */
            metrics_observe(&stats->phases[i], ns);
        }
    }
}

/* Those that ended since the last look; of the first one none. */
static void count_swaps(struct fleet_stats *stats, const struct controller *core)
{
    uint32_t count = view_swaps_count(core);
    uint32_t at = stats->has_cursor
                      ? view_swaps_lower_bound(core, stats->cursor_wall_ns, stats->cursor_uid)
                      : count;
    for (; at < count; at++) {
        count_swap(stats, &view_swap_at(core, at)->swap);
    }
    stats->has_cursor = true;
    if (count > 0) {
        const struct history_record *last = view_swap_at(core, count - 1);
        stats->cursor_wall_ns = last->closed_wall_ns;
        memcpy(stats->cursor_uid, last->swap.ticket_uid, sizeof(stats->cursor_uid));
    }
}

/* What ends from now on, until it leads again, is its leader's to count. */
static void forget(struct fleet_stats *stats)
{
    memset(&stats->next, 0, sizeof(stats->next));
    stats->has_cursor = true;
    stats->cursor_wall_ns = baton_clock_wall_ns();
    stats->cursor_uid[0] = '\0';
}

void fleet_stats_run(struct fleet_stats *stats, const struct controller *core, uint64_t now_ns)
{
    if (now_ns < stats->due_ns) {
        return;
    }
    stats->due_ns = now_ns + LOOK_S * BATON_NS_PER_S;
    if (core != NULL) {
        look_at_fleet(core, &stats->next);
        count_swaps(stats, core);
    } else {
        forget(stats);
    }
    if (pthread_mutex_trylock(&stats->mutex) == 0) {
        memcpy(&stats->shown, &stats->next, sizeof(stats->shown));
        pthread_mutex_unlock(&stats->mutex);
    } else { /* The page is being written: the loop does not wait for it. */
        stats->due_ns = now_ns + AGAIN_MS * BATON_NS_PER_MS;
    }
}

/* --- showing --- */

/* A gauge with one sample a model. */
struct gauge {
    const char *name;
    const char *help;
    double (*value)(const struct model_numbers *model);
};

static double newest(const struct model_numbers *model)
{
    return (double)model->newest_seq;
}

static double published(const struct model_numbers *model)
{
    return (double)model->newest_published_wall_ns / BATON_NS_PER_S;
}

static double lag_max(const struct model_numbers *model)
{
    return (double)model->lag_max;
}

static double lag_mean(const struct model_numbers *model)
{
    return model->groups > 0 ? (double)model->lag_sum / model->groups : 0;
}

static double lag_seconds(const struct model_numbers *model)
{
    return (double)model->lag_seconds_max;
}

static double unavailable(const struct model_numbers *model)
{
    return model->unavailable;
}

static double budget(const struct model_numbers *model)
{
    return model->max_unavailable;
}

static double held(const struct model_numbers *model)
{
    return model->held ? 1 : 0;
}

static double suspended(const struct model_numbers *model)
{
    return model->suspended ? 1 : 0;
}

static double roll_groups(const struct model_numbers *model)
{
    return model->roll_groups;
}

static double roll_done(const struct model_numbers *model)
{
    return model->roll_done;
}

static double roll_degraded(const struct model_numbers *model)
{
    return model->degraded ? 1 : 0;
}

static double will_not_converge(const struct model_numbers *model)
{
    return model->will_not_converge ? 1 : 0;
}

static const struct gauge gauges[] = {
    { "baton_controller_newest_version", "Newest published version of a model; 0: none.", newest },
    { "baton_controller_newest_version_published_timestamp_seconds",
      "When the newest version of a model was published.", published },
    { "baton_controller_lag_max_publishes", "Publishes that the most stale group is behind.",
      lag_max },
    { "baton_controller_lag_mean_publishes", "Publishes that a group is behind, on average.",
      lag_mean },
    { "baton_controller_lag_max_seconds",
      "Time between the publish of the newest version and of what the most stale group serves.",
      lag_seconds },
    { "baton_controller_groups_unavailable", "Groups that count against the budget.", unavailable },
    { "baton_controller_groups_unavailable_limit", "The budget: groups that may be away at a time.",
      budget },
    { "baton_controller_model_held", "1 where publishes are stored and not rolled, else 0.", held },
    { "baton_controller_model_suspended", "1 where no tickets are given, else 0.", suspended },
    { "baton_controller_roll_groups", "Groups of the roll that runs; 0: none runs.", roll_groups },
    { "baton_controller_roll_groups_done", "Of them: on its version.", roll_done },
    { "baton_controller_roll_degraded",
      "1 where the roll made no progress for longer than its deadline, else 0.", roll_degraded },
    { "baton_controller_will_not_converge",
      "1 where rolls do not keep up with the publishes, else 0.", will_not_converge },
};

static void show_gauges(const struct numbers *numbers, struct metrics_page *page)
{
    for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
        metrics_family(page, gauges[i].name, METRICS_GAUGE, gauges[i].help);
        for (uint32_t k = 0; k < numbers->models_count; k++) {
            const struct metrics_label label = { "model", numbers->models[k].name };
            metrics_sample(page, &label, 1, gauges[i].value(&numbers->models[k]));
        }
    }
}

/* Counts of groups by the words of a table; what is zero is left out. */
static void show_counts(const struct model_numbers *model, const struct word_table *table,
                        const uint32_t *counts, struct metrics_page *page)
{
    for (uint32_t i = 1; i < table->count; i++) {
        const struct metrics_label labels[] = { { "model", model->name },
                                                { table == &words_blocked ? "reason" : "state",
                                                  words_get(table, i) } };
        if (counts[i] > 0) {
            metrics_sample(page, labels, 2, counts[i]);
        }
    }
}

static void show_groups(const struct numbers *numbers, struct metrics_page *page)
{
    metrics_family(page, "baton_controller_groups", METRICS_GAUGE, "Groups by state.");
    for (uint32_t i = 0; i < numbers->models_count; i++) {
        const struct model_numbers *model = &numbers->models[i];
        show_counts(model, &words_group_state, model->states, page);
    }
    metrics_family(page, "baton_controller_groups_blocked", METRICS_GAUGE,
                   "Groups that wait, by why; deploy/docs/blocked-reasons.md.");
    for (uint32_t i = 0; i < numbers->models_count; i++) {
        const struct model_numbers *model = &numbers->models[i];
        show_counts(model, &words_blocked, model->blocked, page);
    }
}

static void show_one(struct metrics_page *page, const char *name, const char *help, double value)
{
    metrics_family(page, name, METRICS_GAUGE, help);
    metrics_sample(page, NULL, 0, value);
}

static void show_swaps(const struct fleet_stats *stats, struct metrics_page *page)
{
    metrics_family(page, "baton_controller_swaps", METRICS_COUNTER, "Swaps that ended, by how.");
    for (uint32_t i = 1; i < OUTCOMES; i++) {
        const struct metrics_label label = { "outcome", words_get(&words_swap_outcome, i) };
        metrics_sample(page, &label, 1, (double)atomic_load(&stats->outcomes[i]));
    }
    metrics_family(page, "baton_controller_swap_landed_bytes", METRICS_COUNTER,
                   "Bytes that were landed for swaps that ended.");
    metrics_sample(page, NULL, 0, (double)atomic_load(&stats->bytes));
    metrics_family(page, "baton_controller_swap_phase_duration_seconds", METRICS_HISTOGRAM,
                   "Time of each phase that a swap reached; 'shut' is what a request can notice.");
    for (size_t i = 0; i < PHASES; i++) {
        const struct metrics_label label = { "phase", phases[i].name };
        metrics_histogram(page, &label, 1, &stats->phases[i]);
    }
}

void fleet_stats_collect(struct metrics_page *page, void *context)
{
    struct fleet_stats *stats = context;
    pthread_mutex_lock(&stats->mutex);
    const struct numbers *numbers = &stats->shown;
    show_groups(numbers, page);
    show_gauges(numbers, page);
    show_one(page, "baton_controller_agents", "Agents that are known and not retired.",
             numbers->agents);
    show_one(page, "baton_controller_agents_connected", "Of them: with a session.",
             numbers->agents_connected);
    show_one(page, "baton_controller_store_went_back",
             "1 while the store is older than what agents have seen, and not all told, else 0.",
             numbers->floors_pending ? 1 : 0);
    pthread_mutex_unlock(&stats->mutex);
    show_swaps(stats, page);
}
