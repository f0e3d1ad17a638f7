/* invariants.c -- what must hold after every step, also in production: a core that broke a promise
 * stops before it does harm, and is built anew from the store.
 *
 * By the numbers of the design: 2 (a barrier's gates) in barrier.c; 4 (budget) is asserted where tickets are issued (tickets.c); here 8
 * (monotone), 9 (fencing: nothing carries another epoch than ours or an earlier one), 12 (a
 * ticketed group is not re-aimed), and the links between objects. */
#include "api/base/mutant.h"
#include "controller/core/core.h"
#include "controller/core/text.h"

enum {
    SWEPT_IN_A_STEP = 4,
    RECOUNTED_MAX = 16, /* Counts of models with more groups are not checked in each step. */
};

static bool is_reached(const struct controller *core, struct epoch epoch)
{
    return epoch.generation < core->epoch.generation ||
           (epoch.generation == core->epoch.generation && epoch.n <= core->epoch.n);
}

static void check_ticket(const struct controller *core, const struct group *group)
{
    const struct ticket_record *ticket = &group->r.ticket;
    if (!group->r.ticket_open) {
        baton_assert(group->ticket_print == 0);
        return;
    }
    baton_assert(group->ticket_print == ticket_fingerprint(ticket)); /* 12 */
    baton_assert(ticket->number <= group->r.ticket_number);
    baton_assert(is_reached(core, ticket->epoch)); /* 9 */
    baton_assert(ticket->owner_term <= group->r.owner_term);
    baton_assert(ticket->to_seq != 0);
    baton_assert(ticket->rejoin == (ticket->roll_number == 0));
    baton_assert(!ticket->rejoin || group->r.target_seq == ticket->to_seq);
}

static void check_group(const struct controller *core, struct group *group)
{
    baton_assert(group->r.ticket_number >= group->ticket_number_seen); /* 8 */
    baton_assert(group->r.owner_term >= group->owner_term_seen);
    group->ticket_number_seen = group->r.ticket_number;
    group->owner_term_seen = group->r.owner_term;
    check_ticket(core, group);
    barrier_check_group(core, group); /* 2 */
}

static void check_model(const struct controller *core, const struct model *model)
{
    const struct model_record *r = &model->r;
    baton_assert(r->newest_seq <= r->seq_floor); /* 8 */
    baton_assert(r->promoted_seq <= r->newest_seq);
    baton_assert((model->active == NULL) == (r->active_roll == 0));
    barrier_check(model); /* 2 */
    baton_assert(model->groups_count > RECOUNTED_MAX || MUTANT(BUDGET_STALE) ||
                 budget_is_right(core, model));
    if (model->active == NULL) {
        return;
    }
    const struct roll_record *roll = &model->active->r;
    bool runs = roll->state == ROLL_STATE_PROGRESSING || roll->state == ROLL_STATE_PAUSED;
    baton_assert(roll->number == r->active_roll && runs && roll->ended_wall_ns == 0);
    baton_assert(version_find(core, r->name, roll->to_seq) != NULL);
}

/* What nobody touched cannot have changed; still each group gets its turn. */
static void sweep(struct controller *core)
{
    for (uint32_t i = 0; i < SWEPT_IN_A_STEP && core->groups.count > 0; i++) {
        core->sweep = (core->sweep + 1) % core->groups.count;
        check_group(core, core->groups.objects[core->sweep]);
    }
}

void invariants_check(struct controller *core)
{
    if (core->touched_count == 0) {
        return;
    }
    for (uint32_t i = 0; i < core->models.count; i++) {
        check_model(core, core->models.objects[i]);
    }
    for (size_t i = 0; i < core->touched_count; i++) {
        if (core->touched[i].kind == RECORD_GROUP) {
            check_group(core, core->touched[i].object);
        }
    }
    sweep(core);
}
