/* barrier.c -- strategy Barrier: all groups of a model shut, all commit, then all open.
 *
 * For synchronous RL: no answer of the new version is given while another group could still give
 * one of the old.  Stages, a record of the roll, stored before any word is sent:
 *
 *   SHUTTING   every group that takes part has a ticket of the barrier, whatever maxUnavailable
 *              says.  Enough of them shut (the quorum), all or by the deadline: GO; else CANCELLED.
 *   GO         those that are shut swap; a group that is not hears CANCEL.  Ends when each that
 *              went committed or is out, at the latest at the deadline: stragglers are out.
 *   OPEN       those that committed open.
 *   CANCELLED  all serve the old version again; the next try follows when the groups are ready.
 *
 * A word is repeated with each session and report of a group whose stand asks for it, so a new
 * controller goes on where the store says.  While a barrier is under way no rejoin ticket is
 * issued: it would open a gate.  Once it is decided, a group that is away joins at its version. */
#include <string.h>

#include "controller/core/core.h"
#include "controller/core/text.h"

static struct roll *roll_of(const struct controller *core, const struct group *group)
{
    if (!group->r.ticket_open || !group->r.ticket.barrier) {
        return NULL;
    }
    return roll_find(core, group->r.model, group->r.ticket.roll_number);
}

/* What the group says about its open ticket. */
static enum barrier_stand stand_of(const struct group *group)
{
    bool about = group->known && text_equal(group->live.ticket_uid, group->r.ticket.uid);
    return about ? group->live.barrier : BARRIER_STAND_NONE;
}

/* A group that never served joins by itself; one that an operator took out is not waited for. */
static bool takes_part(const struct group *group)
{
    const struct group_record *r = &group->r;
    bool apart = r->retired || r->cordoned || r->pinned || r->as_new || r->asleep;
    return r->committed_seq != 0 && (!apart || r->ticket_open);
}

/* It lands, or waits after a failure; nothing else keeps it from being ready. */
static bool is_preparing(const struct group *group)
{
    return group_is_available(group) && group->live.blocked[0] == '\0' &&
           group->live.state != GROUP_STATE_STAGE_FAILED;
}

static void count_ticket(const struct roll *roll, const struct group *group,
                         struct barrier_count *count)
{
    count->tickets = 1;
    if (!group->r.ticket.barrier || group->r.ticket.roll_number != roll->r.number) {
        return;
    }
    switch (stand_of(group)) {
    case BARRIER_STAND_NONE: count->closing = 1; break;
    case BARRIER_STAND_SHUT: count->shut = 1; break;
    case BARRIER_STAND_GOING: count->going = 1; break;
    case BARRIER_STAND_COMMITTED: break;
    }
}

struct barrier_count barrier_part_of(const struct controller *core, const struct model *model,
                                     const struct group *group)
{
    struct barrier_count count = { 0 };
    const struct roll *roll = model->barrier != NULL ? model->barrier : model->active;
    bool together = model->barrier != NULL || model->r.policy.strategy == POLICY_STRATEGY_BARRIER;
    if (roll == NULL || !together) {
        return count;
    }
    count.total = takes_part(group);
    if (group->r.ticket_open) {
        count_ticket(roll, group, &count);
    } else if (!takes_part(group)) {
        return count;
    } else if (group_is_available(group) && group_is_on(core, group, roll->r.to_seq)) {
        count.done = 1;
    } else if (ticket_is_ready(core, model, group)) {
        count.ready = 1;
    } else {
        count.preparing = is_preparing(group);
    }
    return count;
}

static uint32_t needed(const struct model *model, const struct barrier_count *count)
{
    return policy_barrier_quorum(&model->r.policy, count->total);
}

static enum barrier_word word_for(const struct roll *roll, enum barrier_stand stand)
{
    switch (roll->r.barrier_stage) {
    case BARRIER_STAGE_NONE:
    case BARRIER_STAGE_SHUTTING: break;
    case BARRIER_STAGE_CANCELLED:
        return stand <= BARRIER_STAND_SHUT ? BARRIER_WORD_CANCEL : BARRIER_WORD_NONE;
    case BARRIER_STAGE_OPEN:
        if (stand == BARRIER_STAND_COMMITTED) {
            return BARRIER_WORD_OPEN;
        }
        /* Fall through. */
    case BARRIER_STAGE_GO:
        if (stand == BARRIER_STAND_SHUT) {
            return BARRIER_WORD_GO;
        }
        return stand == BARRIER_STAND_NONE ? BARRIER_WORD_CANCEL : BARRIER_WORD_NONE;
    }
    return BARRIER_WORD_NONE;
}

void barrier_tell(struct controller *core, struct group *group)
{
    const struct roll *roll = roll_of(core, group);
    enum barrier_word word = roll == NULL ? BARRIER_WORD_NONE : word_for(roll, stand_of(group));
    if (word != BARRIER_WORD_NONE) {
        group->send_barrier = word;
        marks_change(core, RECORD_GROUP, group);
    }
}

static void tell_all(struct controller *core, const struct model *model)
{
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        barrier_tell(core, group);
    }
}

static void enter(struct controller *core, struct model *model, struct roll *roll,
                  enum barrier_stage stage)
{
    roll->r.barrier_stage = stage;
    bool ended = stage == BARRIER_STAGE_OPEN || stage == BARRIER_STAGE_CANCELLED;
    model->barrier = ended ? NULL : roll;
    model->goals_dirty = true;
    marks_put(core, RECORD_ROLL, roll);
    tell_all(core, model);
    roll_note_progress(core, model);
    model_touch(model);
}

/* Groups wait twice as long for each word, so that a decision reaches them in time. */
static uint64_t stage_ms(const struct model *model, enum barrier_stage stage)
{
    const struct swap_policy *swap = &model->r.policy.swap;
    return swap->barrier_deadline_ms + (stage == BARRIER_STAGE_GO ? swap->swap_deadline_ms : 0);
}

static void set_due(struct controller *core, const struct model *model, struct roll *roll,
                    enum barrier_stage stage)
{
    roll->barrier_due_ns = core->now_ns + stage_ms(model, stage) * MS_NS;
    wake_at(core, roll->barrier_due_ns);
}

static void issue(struct controller *core, struct model *model)
{
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        if (ticket_is_ready(core, model, group)) {
            ticket_issue_barrier(core, model, group);
        }
    }
}

void barrier_begin(struct controller *core, struct model *model)
{
    struct roll *roll = model->active;
    if (model->barrier != NULL) {
        return;
    }
    const struct barrier_count count = model->together;
    if (count.ready == 0 || count.tickets > 0 || count.preparing > 0 ||
        count.ready + count.done < needed(model, &count)) {
        return;
    }
    roll->r.barrier_tries++;
    roll->r.barrier_decided_wall_ns = 0;
    set_due(core, model, roll, BARRIER_STAGE_SHUTTING);
    enter(core, model, roll, BARRIER_STAGE_SHUTTING);
    issue(core, model);
    struct object_ref ref = ref_roll(roll);
    log_add(core, &ref, "BarrierBegun", NULL, "try %u: %u groups shut together",
            roll->r.barrier_tries, count.ready);
}

static void go(struct controller *core, struct model *model, struct roll *roll,
               const struct barrier_count *count)
{
    struct object_ref ref = ref_roll(roll);
    log_add(core, &ref, "BarrierGo", NULL, "%u of %u groups are shut; they swap",
            count->shut + count->done, count->total);
    roll->r.barrier_decided_wall_ns = core->wall_ns;
    set_due(core, model, roll, BARRIER_STAGE_GO);
    enter(core, model, roll, BARRIER_STAGE_GO);
}

static void cancel(struct controller *core, struct model *model, struct roll *roll,
                   const struct barrier_count *count, const char *why)
{
    struct object_ref ref = ref_roll(roll);
    log_warn(core, &ref, "BarrierCancelled", "%s: %u of %u groups are shut, %u are needed", why,
             count->shut + count->done, count->total, needed(model, count));
    enter(core, model, roll, BARRIER_STAGE_CANCELLED);
}

/* The roll was taken back; one that a newer publish superseded ends its barrier first. */
static bool is_taken_back(const struct roll *roll)
{
    return roll->r.ended_wall_ns != 0 && roll->r.state != ROLL_STATE_SUPERSEDED;
}

static void settle_shutting(struct controller *core, struct model *model, struct roll *roll)
{
    const struct barrier_count count = model->together;
    bool due = core->now_ns >= roll->barrier_due_ns;
    if (is_taken_back(roll)) {
        cancel(core, model, roll, &count, "its roll was taken back");
    } else if (count.closing > 0 && !due) {
        wake_at(core, roll->barrier_due_ns);
    } else if (count.shut > 0 && count.shut + count.done >= needed(model, &count)) {
        go(core, model, roll, &count);
    } else {
        cancel(core, model, roll, &count, due ? "its deadline passed" : "groups gave up");
    }
}

static void settle_going(struct controller *core, struct model *model, struct roll *roll)
{
    const struct barrier_count count = model->together;
    uint32_t left = count.shut + count.going;
    bool due = core->now_ns >= roll->barrier_due_ns;
    if ((left > 0 || count.closing > 0) && !due) {
        wake_at(core, roll->barrier_due_ns);
        return;
    }
    struct object_ref ref = ref_roll(roll);
    if (left > 0) {
        log_warn(core, &ref, "BarrierStragglers",
                 "%u groups did not commit in time; the others open", left);
    }
    log_add(core, &ref, "BarrierOpen", NULL, "all groups that went committed, or are out");
    enter(core, model, roll, BARRIER_STAGE_OPEN);
}

void barrier_settle(struct controller *core, struct model *model)
{
    struct roll *roll = model->barrier;
    if (roll == NULL) {
        return;
    }
    if (roll->r.barrier_stage == BARRIER_STAGE_SHUTTING) {
        settle_shutting(core, model, roll);
    } else {
        settle_going(core, model, roll);
    }
}

/* Its clock begins anew: nobody knows how long there was no controller. */
void barrier_load(struct controller *core, struct model *model)
{
    uint32_t place = rolls_place(core, model->r.name, 0);
    model->barrier = NULL;
    for (struct roll *roll; (roll = rolls_at(core, place, model->r.name)) != NULL; place++) {
        enum barrier_stage stage = roll->r.barrier_stage;
        if (stage == BARRIER_STAGE_SHUTTING || stage == BARRIER_STAGE_GO) {
            model->barrier = roll;
            set_due(core, model, roll, stage);
        }
    }
}

/* What is away; of a group that nobody heard of yet, what was stored. */
static bool joins_there(const struct group *group, uint64_t seq)
{
    return group->known ? !group_is_available(group) : group->r.target_seq == seq;
}

uint64_t barrier_target(const struct controller *core, const struct model *model,
                        const struct group *group)
{
    const struct roll *roll = model->barrier != NULL ? model->barrier : model->active;
    if (roll == NULL || group->r.ticket_open || !takes_part(group)) {
        return 0;
    }
    enum barrier_stage stage = roll->r.barrier_stage;
    bool decided = stage == BARRIER_STAGE_GO || stage == BARRIER_STAGE_OPEN;
    bool kept = decided && version_find(core, model->r.name, roll->r.to_seq) != NULL;
    return kept && joins_there(group, roll->r.to_seq) ? roll->r.to_seq : 0;
}

bool barrier_is_shut(const struct controller *core, const struct roll *roll,
                     const struct group *group)
{
    return roll_of(core, group) == roll && stand_of(group) != BARRIER_STAND_NONE;
}

bool barrier_needs(const struct controller *core, const struct roll *roll)
{
    const struct model *model = model_find(core, roll->r.model);
    if (roll->r.barrier_stage == BARRIER_STAGE_NONE || model == NULL) {
        return false;
    }
    uint32_t place = groups_first(core, roll->r.model);
    for (struct group *group; (group = groups_at(core, place, roll->r.model)) != NULL; place++) {
        if (roll_of(core, group) == roll) {
            return true;
        }
    }
    return model->barrier == roll;
}

void barrier_explain(const struct controller *core, const struct model *model,
                     char out[BATON_TEXT_BYTES])
{
    const struct roll *roll = model->barrier != NULL ? model->barrier : model->active;
    const struct barrier_count count = model->together;
    (void)core;
    if (model->barrier != NULL) {
        text_format(out, BATON_TEXT_BYTES,
                    "the barrier of roll %s-%llu is under way (%s); it joins when the others open",
                    model->r.name, (unsigned long long)roll->r.number,
                    roll->r.barrier_stage == BARRIER_STAGE_GO ? "they swap" : "they shut");
        return;
    }
    text_format(out, BATON_TEXT_BYTES,
                "all groups swap together: %u of %u are ready, %u must be; describe those that are "
                "not",
                count.ready + count.done, count.total, needed(model, &count));
}

/* Invariant 2: one barrier at a time; while it is under way no other ticket can open a gate; each
 * of its tickets has the roll that its words come from. */
void barrier_check(const struct model *model)
{
    const struct roll *barrier = model->barrier;
    if (barrier != NULL) {
        enum barrier_stage stage = barrier->r.barrier_stage;
        baton_assert(stage == BARRIER_STAGE_SHUTTING || stage == BARRIER_STAGE_GO);
        baton_assert((stage == BARRIER_STAGE_GO) == (barrier->r.barrier_decided_wall_ns != 0));
    }
}

void barrier_check_group(const struct controller *core, const struct group *group)
{
    const struct model *model = model_find(core, group->r.model);
    const struct roll *roll = roll_of(core, group);
    if (model == NULL || !group->r.ticket_open) {
        return;
    }
    baton_assert(!group->r.ticket.barrier ||
                 (roll != NULL && roll->r.barrier_stage != BARRIER_STAGE_NONE));
    baton_assert(model->barrier == NULL || roll == model->barrier);
    baton_assert(group->send_barrier != BARRIER_WORD_OPEN ||
                 roll->r.barrier_stage == BARRIER_STAGE_OPEN);
}
