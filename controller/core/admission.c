/* admission.c -- see admission.h. */
#include "controller/core/admission.h"

#include "api/base/mutant.h"
#include "controller/core/core.h"
#include "controller/core/staleness.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

static bool engines_are_reachable(const struct group *group)
{
    for (uint32_t i = 0; i < group->live.engines_count; i++) {
        if (!group->engines[i].reachable) {
            return false;
        }
    }
    return group->live.engines_count > 0;
}

bool admission_group_is_ready(const struct controller *core, const struct group *group)
{
    (void)core;
    return group_is_available(group) && !group->live.advisory &&
           (!group->r.ticket_open || MUTANT(READY_WITH_TICKET)) && !group->r.cordoned &&
           !group->r.retired && (!group->r.asleep || MUTANT(SLEEPER_ROUTED)) &&
           group->live.committed_seq != 0 && group->live.verify_level != VERIFY_LEVEL_NONE &&
           engines_are_reachable(group);
}

static struct baton_status bad(const char **field, const char *name, const char *why)
{
    *field = name;
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s: %s", name, why);
}

struct baton_status view_admission_check(const struct controller *core,
                                         const struct admission_query *query, const char **field)
{
    *field = NULL;
    if (!text_is_name(query->model)) {
        return bad(field, "model", "not a name (1 to 63 characters of a-z, 0-9, '-', '.')");
    }
    if (model_find(core, query->model) == NULL) {
        return baton_status_hint(baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                                   "there is no model %s", query->model),
                                 "`batonctl get models` lists them");
    }
    if (query->exact_seq != 0 && (query->min_seq != 0 || query->has_max_lag)) {
        return bad(field, "exact_seq", "not together with min_seq or max_lag");
    }
    if (query->has_max_lag && (query->unit < LAG_PUBLISHES || query->unit >= LAG_UNITS_END)) {
        return bad(field, "max_lag.unit", "not a unit of lag");
    }
    return baton_status_ok();
}

bool view_admission_meets(const struct controller *core, const struct admission_query *query,
                          const struct version_record *version)
{
    if (query->exact_seq != 0) {
        return version->seq == query->exact_seq;
    }
    if (version->seq < query->min_seq) {
        return false;
    }
    if (!query->has_max_lag) {
        return true;
    }
    struct lag lag = view_version_lag(core, version);
    return !lag_is_above(&lag, query->unit, query->max_lag);
}

bool view_admission_group(const struct controller *core, const struct admission_query *query,
                          const struct group_record *group, const struct version_record **version)
{
    const struct group *object = (const struct group *)group;
    bool asked = text_equal(group->model, query->model) || MUTANT(READY_FOR_ANY);
    if (!asked || !object->counted_ready) {
        return false;
    }
    const struct version *serves = version_find(core, group->model, object->counted_seq);
    if (serves == NULL || !view_admission_meets(core, query, &serves->r)) {
        return false;
    }
    *version = &serves->r;
    return true;
}

uint64_t view_admission_next(const struct controller *core, const struct admission_query *query,
                             uint64_t below)
{
    uint32_t place = versions_place(core, query->model, 0, "");
    for (const struct version *version;
         (version = versions_at(core, place, query->model)) != NULL && version->r.seq != 0;
         place++) {
        if (version->r.seq < below && version->groups_ready > 0 &&
            view_admission_meets(core, query, &version->r)) {
            return version->r.seq;
        }
    }
    return 0;
}

uint32_t view_admission_count(const struct controller *core, const struct admission_query *query)
{
    uint32_t place = versions_place(core, query->model, 0, "");
    uint32_t ready = 0;
    for (const struct version *version;
         (version = versions_at(core, place, query->model)) != NULL && version->r.seq != 0;
         place++) {
        bool meets = version->groups_ready > 0 && view_admission_meets(core, query, &version->r);
        ready += meets ? version->groups_ready : 0;
    }
    return ready;
}

/* How long a swap takes here, by the last one of each group; 0: there was none. */
static uint64_t estimate_swap_ns(const struct controller *core, const struct model *model)
{
    uint64_t sum_ns = 0;
    uint64_t swaps = 0;
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        const struct swap_record *swap = &group->r.last_swap;
        if (group->r.swapped && swap->outcome == SWAP_OUTCOME_COMMITTED) {
            sum_ns += swap->phases.queue_ns + swap->phases.shut_ns;
            swaps++;
        }
    }
    return swaps == 0 ? 0 : sum_ns / swaps;
}

static void write_wish(const struct admission_query *query, char out[BATON_TEXT_BYTES])
{
    if (query->exact_seq != 0) {
        text_format(out, BATON_TEXT_BYTES, "version %llu", (unsigned long long)query->exact_seq);
    } else if (query->has_max_lag) {
        text_format(out, BATON_TEXT_BYTES, "a version at most %llu %s behind%s",
                    (unsigned long long)query->max_lag, words_get(&words_lag_unit, query->unit),
                    query->min_seq != 0 ? ", and not below the least one" : "");
    } else if (query->min_seq != 0) {
        text_format(out, BATON_TEXT_BYTES, "version %llu or a later one",
                    (unsigned long long)query->min_seq);
    } else {
        text_copy(out, BATON_TEXT_BYTES, "any version");
    }
}

struct baton_status view_admission_refusal(const struct controller *core,
                                           const struct admission_query *query, uint64_t *retry_ns)
{
    char wish[BATON_TEXT_BYTES];
    const struct model *model = model_find(core, query->model);
    const struct roll *roll = model->active;
    bool helps = false;
    if (roll != NULL && roll->r.state == ROLL_STATE_PROGRESSING) {
        const struct version *to = version_find(core, query->model, roll->r.to_seq);
        helps = to != NULL && view_admission_meets(core, query, &to->r);
    }
    *retry_ns = helps ? estimate_swap_ns(core, model) : 0;
    write_wish(query, wish);
    struct baton_status st =
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_VERSION_NOT_READY,
                          "no group of model %s is ready with %s (newest: %llu)", query->model,
                          wish, (unsigned long long)model->r.newest_seq);
    return baton_status_hint(st, "%s",
                             helps ? "a roll to such a version is under way; try again, or watch "
                                     "with WatchEndpoints"
                                   : "no roll to such a version is under way; `batonctl staleness` "
                                     "shows what is served");
}
