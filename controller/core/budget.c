/* budget.c -- who counts against maxUnavailable (invariant 4).
 *
 * Distinct groups: one that is ticketed, soaking (soak.c), OUT, UNKNOWN, or for any other reason not serving with an
 * open gate counts once, whatever reasons it has.  Not counted is a group that never committed
 * anything and joins: it serves nobody yet, so bringing the first fleet up is not serialised.
 * Unstored knowledge is not trusted: after an epoch change every group counts until it restated
 * (shared counterexample: a stored SERVING may have died since).  A retired group is no part of the
 * fleet, nor is one that sleeps; one that returned joins as for the first time.
 *
 * The budget is the strictest of the model's policy and of those under which open tickets were
 * issued: a policy that is widened or narrowed meanwhile never lets more go than either allows. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/fleet.h"

static bool joins_for_the_first_time(const struct group *group)
{
    bool swaps = (group->r.ticket_open && !group->r.ticket.rejoin) || group_swaps_unknown(group);
    bool never = group->r.committed_seq == 0 && group->live.state != GROUP_STATE_OUT;
    return group->known && (never || group->r.as_new) && !swaps;
}

bool budget_counts(const struct group *group)
{
    bool sleeps = group_sleeps(group) && !MUTANT(SLEEPER_COUNTED);
    if (group->r.retired || sleeps || joins_for_the_first_time(group)) {
        return false;
    }
    if (MUTANT(UNKNOWN_FREE) && !group->known) {
        return false;
    }
    return group->r.ticket_open || group->r.soaking || !group_is_available(group);
}

static uint64_t wanted_seq(const struct model *model)
{
    return model->active != NULL ? model->active->r.to_seq : model->r.promoted_seq;
}

/* Its ticket was issued under another policy than the present one. */
static bool is_under_another(const struct model *model, const struct group *group)
{
    const struct ticket_record *ticket = &group->r.ticket;
    const struct update_policy *policy = &model->r.policy;
    return group->r.ticket_open && ticket->max_unavailable != 0 &&
           (ticket->max_unavailable != policy->max_unavailable ||
            ticket->max_unavailable_is_percent != policy->max_unavailable_is_percent);
}

uint32_t budget_limit(const struct controller *core, const struct model *model)
{
    uint32_t groups = MUTANT(BUDGET_OF_ALL) ? core->groups.count : model->groups_count;
    uint32_t least = policy_max_unavailable(&model->r.policy, groups);
    uint32_t left = model->groups_under_another;
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; left > 0 && (group = groups_at(core, place, model->r.name)) != NULL;
         place++) {
        if (!is_under_another(model, group)) {
            continue;
        }
        uint32_t allowed =
            policy_allowed(group->r.ticket.max_unavailable,
                           group->r.ticket.max_unavailable_is_percent, model->groups_count);
        least = allowed < least ? allowed : least;
        left--;
    }
    return least;
}

static struct tally tally_of(const struct controller *core, const struct model *model,
                             const struct group *group)
{
    bool sleeps = group_sleeps(group) && !MUTANT(SLEEPER_COUNTED) && !MUTANT(SLEEPER_PRESENT);
    if (group->r.retired || sleeps) {
        return (struct tally){ .present = false };
    }
    bool on_wanted = group_is_on(core, group, wanted_seq(model));
    bool out = !group->known || group->live.state == GROUP_STATE_OUT;
    bool done = model->active != NULL && roll_group_done(core, model->active, group);
    bool told_apart = (group->r.cordoned || group->r.pinned) && !group->r.ticket_open;
    bool available = group_is_available(group);
    bool sent = group->r.ticket_open && model->active != NULL &&
                group->r.ticket.to_seq == model->active->r.to_seq;
    return (struct tally){ .present = true,
                           .counted = budget_counts(group),
                           .out = out,
                           .lost = out && !group->r.drained && !joins_for_the_first_time(group),
                           .converged = on_wanted && available,
                           .serving = done && available,
                           .begun = sent || (model->active != NULL && on_wanted),
                           .together = barrier_part_of(core, model, group),
                           .done = done,
                           .apart = told_apart && !done,
                           .swapping = group->r.ticket_open,
                           .soaking = group->r.soaking,
                           .under_another = is_under_another(model, group) };
}

static uint32_t moved(uint32_t sum, bool before, bool now)
{
    return sum - before + now;
}

/* A sum of numbers that are 0 or 1 for each group. */
static void move_together(struct barrier_count *sum, const struct barrier_count *before,
                          const struct barrier_count *now)
{
    sum->total += now->total - before->total;
    sum->done += now->done - before->done;
    sum->ready += now->ready - before->ready;
    sum->preparing += now->preparing - before->preparing;
    sum->tickets += now->tickets - before->tickets;
    sum->shut += now->shut - before->shut;
    sum->closing += now->closing - before->closing;
    sum->going += now->going - before->going;
}

void budget_recount(const struct controller *core, struct model *model, struct group *group)
{
    struct tally before = group->tally;
    struct tally now = tally_of(core, model, group);
    group->tally = now;
    model->groups_count = moved(model->groups_count, before.present, now.present);
    model->groups_counted = moved(model->groups_counted, before.counted, now.counted);
    model->groups_out = moved(model->groups_out, before.out, now.out);
    model->groups_lost = moved(model->groups_lost, before.lost, now.lost);
    model->groups_apart = moved(model->groups_apart, before.apart, now.apart);
    model->groups_under_another =
        moved(model->groups_under_another, before.under_another, now.under_another);
    model->groups_converged = moved(model->groups_converged, before.converged, now.converged);
    model->groups_done = moved(model->groups_done, before.done, now.done);
    model->groups_swapping = moved(model->groups_swapping, before.swapping, now.swapping);
    model->groups_soaking = moved(model->groups_soaking, before.soaking, now.soaking);
    model->groups_serving = moved(model->groups_serving, before.serving, now.serving);
    model->groups_begun = moved(model->groups_begun, before.begun, now.begun);
    move_together(&model->together, &before.together, &now.together);
}

bool budget_is_right(const struct controller *core, const struct model *model)
{
    struct model counted = { .r = model->r, .active = model->active, .barrier = model->barrier };
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        struct group copy = {
            .r = group->r, .known = group->known, .live = group->live, .retry_ns = group->retry_ns
        };
        budget_recount(core, &counted, &copy);
        if (group->ready != ticket_is_ready(core, model, group)) {
            return false;
        }
    }
    return counted.groups_count == model->groups_count &&
           counted.groups_counted == model->groups_counted &&
           counted.groups_out == model->groups_out && counted.groups_lost == model->groups_lost &&
           counted.groups_apart == model->groups_apart &&
           counted.groups_under_another == model->groups_under_another &&
           counted.groups_converged == model->groups_converged &&
           counted.groups_done == model->groups_done &&
           counted.groups_swapping == model->groups_swapping &&
           counted.groups_soaking == model->groups_soaking &&
           counted.groups_serving == model->groups_serving &&
           counted.groups_begun == model->groups_begun &&
           memcmp(&counted.together, &model->together, sizeof(counted.together)) == 0;
}

bool budget_has_room(const struct model *model)
{
    return model->groups_counted < model->max_unavailable;
}
