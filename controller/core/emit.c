/* emit.c -- turns what a step marked into actions, in the order that action.h promises.
 *
 * Stored and shown revisions: each changed object gets one of its own, so that a watch that resumes
 * after any of them misses nothing; the transaction gets the highest.  Unstored changes (an agent's
 * report) raise the revision too.  After a crash the core starts REVISION_GAP above the store's,
 * and the store is told at least every half gap: so no revision is ever shown twice. */
#include <stddef.h>
#include <string.h>

#include "controller/core/core.h"

static void give_back(struct controller *core, const struct touched *touched)
{
    switch (touched->kind) {
    case RECORD_VERSION: table_give(&core->versions_table, touched->object); return;
    case RECORD_ROLL: table_give(&core->rolls_table, touched->object); return;
    case RECORD_SESSION_LEASE: table_give(&core->session_leases_table, touched->object); return;
    case RECORD_SLOT_LEASE: table_give(&core->slot_leases_table, touched->object); return;
    case RECORD_REQUEST: table_give(&core->requests_table, touched->object); return;
    case RECORD_SWAP: table_give(&core->swaps_table, touched->object); return;
    case RECORD_GROUP: table_give(&core->groups_table, touched->object); return;
    case RECORD_CLUSTER:
    case RECORD_MODEL:
    case RECORD_AGENT:
    case RECORD_STALENESS:
    case RECORD_SERIES:
    case RECORD_KINDS_END: break;
    }
    baton_assert(false);
}

static struct marks *marks_at(struct controller *core, size_t i)
{
    void *object = core->touched[i].object;
    switch (core->touched[i].kind) {
    case RECORD_CLUSTER: return &core->cluster_marks;
    case RECORD_MODEL: return &((struct model *)object)->marks;
    case RECORD_VERSION: return &((struct version *)object)->marks;
    case RECORD_ROLL: return &((struct roll *)object)->marks;
    case RECORD_GROUP: return &((struct group *)object)->marks;
    case RECORD_AGENT: return &((struct agent *)object)->marks;
    case RECORD_REQUEST: return &((struct request_entry *)object)->marks;
    case RECORD_STALENESS: return &((struct staleness *)object)->marks;
    case RECORD_SWAP: return &((struct swap_entry *)object)->marks;
    case RECORD_SERIES: return &((struct series_chunk *)object)->marks;
    case RECORD_SESSION_LEASE: return &((struct session_lease *)object)->marks;
    case RECORD_SLOT_LEASE: return &((struct slot_lease *)object)->marks;
    case RECORD_KINDS_END: break;
    }
    baton_assert(false);
    return NULL;
}

void emit_begin(struct controller *core)
{
    for (size_t i = 0; i < core->touched_count; i++) {
        struct marks *marks = marks_at(core, i);
        bool removed = marks->removed;
        *marks = (struct marks){ 0 };
        if (removed) {
            give_back(core, &core->touched[i]);
        }
    }
    core->touched_count = 0;
    core->actions_count = 0;
    memset(&core->out, 0, offsetof(struct step_output, floors));
}

static struct action *add(struct controller *core, enum action_kind kind)
{
    baton_assert(core->actions_count < core->actions_capacity);
    struct action *action = &core->actions[core->actions_count];
    core->actions_count++;
    memset(action, 0, sizeof(*action));
    action->kind = kind;
    return action;
}

static bool is_object(enum record_kind kind)
{
    return kind > RECORD_CLUSTER && kind < RECORD_REQUEST; /* What watches can hear of. */
}

static void stamp(struct touched *touched, uint64_t revision)
{
    switch (touched->kind) {
    case RECORD_MODEL: ((struct model *)touched->object)->r.revision = revision; return;
    case RECORD_VERSION: ((struct version *)touched->object)->r.revision = revision; return;
    case RECORD_ROLL: ((struct roll *)touched->object)->r.revision = revision; return;
    case RECORD_GROUP: ((struct group *)touched->object)->r.revision = revision; return;
    case RECORD_AGENT: ((struct agent *)touched->object)->r.revision = revision; return;
    case RECORD_CLUSTER:
    case RECORD_REQUEST:
    case RECORD_STALENESS:
    case RECORD_SWAP:
    case RECORD_SERIES:
    case RECORD_SESSION_LEASE:
    case RECORD_SLOT_LEASE:
    case RECORD_KINDS_END: return;
    }
}

static size_t collect_ops(struct controller *core)
{
    size_t count = 0;
    for (size_t i = 0; i < core->touched_count; i++) {
        struct touched *touched = &core->touched[i];
        const struct marks *marks = marks_at(core, i);
        if (is_object(touched->kind)) {
            core->revision++;
        }
        if (!marks->put && !marks->removed) {
            continue;
        }
        stamp(touched, core->revision);
        struct record_op *op = &core->ops[count++];
        *op = (struct record_op){ .remove = marks->removed };
        struct record_ref record = { touched->kind, touched->object };
        record_key(record, op->key);
        op->record = record;
        if (op->remove) {
            op->record.body = NULL;
        }
    }
    return count;
}

static void emit_persist(struct controller *core)
{
    size_t ops = collect_ops(core);
    bool late = core->revision - core->revision_stored > REVISION_GAP / 2;
    if (core->phase == CORE_LOADING || (ops == 0 && core->out.entries_count == 0 && !late)) {
        return;
    }
    core->revision++;
    struct transaction *persist = &add(core, ACTION_PERSIST)->body.persist;
    persist->epoch = core->epoch;
    persist->revision = core->revision;
    persist->sync = ops > 0 || late;
    persist->ops = core->ops;
    persist->ops_count = ops;
    persist->entries = core->entries;
    persist->entries_count = core->out.entries_count;
    core->revision_stored = persist->sync ? core->revision : core->revision_stored;
}

static struct action_send *add_send(struct controller *core, uint64_t session, enum send_kind kind)
{
    struct action_send *send = &add(core, ACTION_SEND)->body.send;
    send->session = session;
    send->kind = kind;
    return send;
}

static void emit_welcome(struct controller *core)
{
    const struct agent *agent = core->out.welcome;
    if (agent == NULL || agent->session == 0) {
        return;
    }
    struct welcome *welcome = &add_send(core, agent->session, SEND_WELCOME)->message.welcome;
    welcome->epoch = core->epoch;
    welcome->lease_ms = CONTROLLER_LEASE_MS;
    welcome->floors = core->out.floors;
    welcome->floors_count = core->out.floors_count;
}

static void touch_goals_of_all(struct controller *core)
{
    bool all = false;
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        all = all || model->goals_dirty;
        model->goals_dirty = false;
    }
    for (uint32_t i = 0; all && i < core->agents.count; i++) {
        goals_touch(core, core->agents.objects[i]);
    }
}

static void emit_goals(struct controller *core)
{
    touch_goals_of_all(core);
    struct agent *next;
    for (struct agent *agent = core->goals_touched_first; agent != NULL; agent = next) {
        struct goals goals;
        next = agent->goals_next;
        agent->goals_touched = false;
        agent->goals_next = NULL;
        if (agent->session != 0 && goals_render(core, agent, &goals)) {
            add_send(core, agent->session, SEND_GOALS)->message.goals = goals;
        }
    }
    core->goals_touched_first = NULL;
}

static void emit_stored(struct controller *core)
{
    for (size_t i = 0; i < core->out.stored_count; i++) {
        const struct stored_for *stored = &core->out.stored[i];
        if (agent_of_session(core, stored->session) == NULL) {
            continue; /* It ended since its report was taken: the agent tells the outcome again. */
        }
        add_send(core, stored->session, SEND_OUTCOME_STORED)->message.stored = stored->outcome;
    }
}

static void emit_ticket(struct controller *core, struct group *group)
{
    const struct agent *agent = group_agent(core, group);
    bool ticket = group->send_ticket;
    bool revoke = group->send_revoke;
    enum barrier_word word = group->send_barrier;
    group->send_barrier = BARRIER_WORD_NONE;
    group->send_ticket = false;
    group->send_revoke = false;
    if (agent == NULL || agent->session == 0 || !group->r.ticket_open) {
        return;
    }
    if (ticket) {
        struct ticket_send *send = &add_send(core, agent->session, SEND_TICKET)->message.ticket;
        *send = (struct ticket_send){ group->r.name, &group->r.ticket };
    }
    if (revoke) {
        struct ticket_revoke *send = &add_send(core, agent->session, SEND_REVOKE)->message.revoke;
        send->group = group->r.name;
        send->epoch = core->epoch;
        memcpy(send->ticket_uid, group->r.ticket.uid, sizeof(send->ticket_uid));
    }
    if (word != BARRIER_WORD_NONE) {
        struct barrier_order *send = &add_send(core, agent->session, SEND_BARRIER)->message.barrier;
        *send =
            (struct barrier_order){ .group = group->r.name, .epoch = core->epoch, .word = word };
        memcpy(send->ticket_uid, group->r.ticket.uid, sizeof(send->ticket_uid));
    }
}

static void emit_tickets(struct controller *core)
{
    for (size_t i = 0; i < core->touched_count; i++) {
        if (core->touched[i].kind == RECORD_GROUP) {
            emit_ticket(core, core->touched[i].object);
        }
    }
}

static void emit_closes(struct controller *core)
{
    for (size_t i = 0; i < core->out.closes_count; i++) {
        add(core, ACTION_CLOSE_SESSION)->body.close = &core->closes[i];
    }
}

static struct object_ref ref_touched(const struct touched *touched)
{
    switch (touched->kind) {
    case RECORD_MODEL: return ref_model(touched->object);
    case RECORD_VERSION: return ref_version(touched->object);
    case RECORD_ROLL: return ref_roll(touched->object);
    case RECORD_GROUP: return ref_group(touched->object);
    case RECORD_AGENT: return ref_agent(touched->object);
    case RECORD_CLUSTER:
    case RECORD_REQUEST:
    case RECORD_STALENESS:
    case RECORD_SWAP:
    case RECORD_SERIES:
    case RECORD_SESSION_LEASE:
    case RECORD_SLOT_LEASE:
    case RECORD_KINDS_END: break;
    }
    baton_assert(false);
    return (struct object_ref){ 0 };
}

static void emit_changes(struct controller *core, uint64_t revision)
{
    for (size_t i = 0; i < core->touched_count; i++) {
        const struct touched *touched = &core->touched[i];
        if (!is_object(touched->kind)) {
            continue;
        }
        const struct marks *marks = marks_at(core, i);
        revision++;
        struct action_changed *changed = &add(core, ACTION_CHANGED)->body.changed;
        changed->change =
            marks->removed ? CHANGE_DELETED : (marks->added ? CHANGE_ADDED : CHANGE_MODIFIED);
        changed->object = ref_touched(touched);
        changed->revision = revision;
        changed->record = (struct record_ref){ touched->kind, touched->object };
    }
}

static void emit_rest(struct controller *core)
{
    for (size_t i = 0; i < core->out.entries_count; i++) {
        add(core, ACTION_LOG)->body.log = &core->entries[i];
    }
    for (size_t i = 0; i < core->out.waits_count; i++) {
        add(core, ACTION_WAIT_DONE)->body.wait_done = &core->wait_dones[i];
    }
    if (core->out.new_generation) {
        add(core, ACTION_NEW_GENERATION)->body.generation_floor = core->out.generation_floor;
    }
}

struct actions emit_end(struct controller *core)
{
    if (core->phase == CORE_LOADING) {
        core->touched_count = 0;
    }
    staleness_note(core);
    uint64_t revision = core->revision;
    emit_persist(core);
    for (size_t i = 0; i < core->out.replies_count; i++) {
        add(core, ACTION_REPLY)->body.reply = &core->replies[i];
    }
    emit_welcome(core);
    emit_goals(core);
    emit_stored(core);
    emit_tickets(core);
    emit_closes(core);
    emit_changes(core, revision);
    emit_rest(core);
    return (struct actions){ core->actions, core->actions_count };
}
