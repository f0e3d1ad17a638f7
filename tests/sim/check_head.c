/* check_head.c -- the truth about controllers and their store; see check.h. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/verbs.h"

#define LEASE_NS (UINT64_C(10) * S)

enum { LOOK_EVERY = 4, COMPARE_EVERY = 16 };

static struct known_group *known_of(struct head *head, const char *group)
{
    uint32_t number = (uint32_t)(group[1] - '0');
    return &head->known[number / SIM_GROUPS % SIM_AGENTS][number % SIM_GROUPS];
}

/* --- what it was told --- */

static void hear_groups(struct head *head, const struct group_report *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct known_group *known = known_of(head, groups[i].group);
        known->known = true;
        known->serves = groups[i].gate_open && check_serves(groups[i].state);
        known->out = groups[i].state == GROUP_STATE_OUT;
        known->committed_seq = groups[i].committed_seq;
        memcpy(known->ticket_uid, groups[i].ticket_uid, sizeof(known->ticket_uid));
    }
}

void check_heard(struct head *head, uint32_t node, const struct event *event, uint64_t now_ns)
{
    if (event->kind == EVENT_SESSION_HELLO) {
        hear_groups(head, event->body.hello.groups, event->body.hello.groups_count);
    } else if (event->kind == EVENT_SESSION_REPORT) {
        hear_groups(head, event->body.report.groups, event->body.report.groups_count);
    }
    for (uint32_t g = 0; g < SIM_GROUPS; g++) {
        head->known[node][g].heard_ns = now_ns;
    }
}

/* --- the budget, by our own reckoning --- */

/* By its agent's word it swaps, of which the store knows nothing. */
static bool swaps_unknown(const struct head *head, const struct group_record *group)
{
    const char *told = known_of((struct head *)head, group->name)->ticket_uid;
    return told[0] != '\0' && !(group->ticket_open && strcmp(told, group->ticket.uid) == 0);
}

/* No part of the fleet for now: it is to sleep, and its ticket has ended. */
bool check_sleeps(const struct world *world, const struct head *head,
                  const struct group_record *group)
{
    const struct known_group *known = known_of((struct head *)head, group->name);
    bool heard = known->known && world->now_ns < known->heard_ns + LEASE_NS;
    return group->asleep && !group->ticket_open && !(heard && swaps_unknown(head, group));
}

static bool is_away(const struct world *world, const struct head *head,
                    const struct group_record *group)
{
    const struct known_group *known = known_of((struct head *)head, group->name);
    bool heard = known->known && world->now_ns < known->heard_ns + LEASE_NS;
    bool roll_ticket = group->ticket_open && !group->ticket.rejoin;
    bool never = group->committed_seq == 0 && !known->out;
    bool first = heard && (never || group->as_new) && !roll_ticket && !swaps_unknown(head, group);
    return !group->retired && !check_sleeps(world, head, group) && !first &&
           (group->ticket_open || group->soaking || !heard || !known->serves);
}

static uint32_t allowed_of(uint32_t count, bool is_percent, uint32_t groups)
{
    uint32_t allowed = is_percent ? groups * count / 100 : count;
    return is_percent && allowed == 0 ? 1 : allowed;
}

static bool is_group_of(const struct kept_record *kept, uint32_t model)
{
    return kept->kind == RECORD_GROUP && model_of_name(kept->body.group.model) == model;
}

/* What a ticket was issued under binds while it is open. */
static uint32_t strictest(const struct world *world, uint32_t model, uint32_t groups, uint32_t max)
{
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct kept_record *kept = &world->disk.kept[i];
        const struct ticket_record *ticket = &kept->body.group.ticket;
        if (is_group_of(kept, model) && kept->body.group.ticket_open) {
            uint32_t allowed =
                allowed_of(ticket->max_unavailable, ticket->max_unavailable_is_percent, groups);
            max = allowed < max ? allowed : max;
        }
    }
    return max;
}

uint32_t check_away(const struct world *world, const struct head *head, uint32_t model,
                    uint32_t *max)
{
    const struct model_record *record = model_stored(&world->disk, model);
    uint32_t away = 0;
    uint32_t groups = 0;
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct kept_record *kept = &world->disk.kept[i];
        if (is_group_of(kept, model)) {
            groups += !kept->body.group.retired && !check_sleeps(world, head, &kept->body.group);
            away += is_away(world, head, &kept->body.group);
        }
    }
    *max = record == NULL ? 0
                          : allowed_of(record->policy.max_unavailable,
                                       record->policy.max_unavailable_is_percent, groups);
    *max = strictest(world, model, groups, *max);
    return away;
}

/* --- transactions --- */

/* The transaction says that this agent's journal is another one: what it knew is lost. */
static bool is_new_life(const struct world *world, const struct transaction *transaction,
                        const char *agent)
{
    for (size_t i = 0; i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        if (op->record.kind != RECORD_AGENT || op->remove || strcmp(op->key, agent) != 0) {
            continue;
        }
        const struct agent_record *new = op->record.body;
        const struct agent_record *old = disk_find(&world->disk, RECORD_AGENT, agent);
        return old != NULL && strcmp(old->journal_incarnation, new->journal_incarnation) != 0;
    }
    return false;
}

static void check_closing(struct world *world, const struct transaction *transaction,
                          const struct group_record *old, const struct group_record *new)
{
    const struct ticket_book *book = check_ticket_book(world, old->ticket.uid);
    bool told = strcmp(new->last_swap.ticket_uid, old->ticket.uid) == 0;
    if (new->retired) {
        return; /* Nobody hears of its agent any more: LOST. */
    }
    if (!told) {
        world_break(world, CHECK_OUTCOME, "%s: a ticket is closed without its outcome", new->name);
    } else if ((uint32_t) new->last_swap.outcome != (uint32_t)book->outcome &&
               !is_new_life(world, transaction, new->agent)) {
        world_break(world, CHECK_OUTCOME, "%s: a ticket is closed with %u; its agent says %u",
                    new->name, (uint32_t) new->last_swap.outcome, (uint32_t)book->outcome);
    }
}

static bool is_new_ticket(const struct group_record *old, const struct group_record *new)
{
    return new->ticket_open &&
           (old == NULL || !old->ticket_open || strcmp(old->ticket.uid, new->ticket.uid) != 0);
}

static void check_new_ticket(struct world *world, struct head *head, const struct group_record *old,
                             const struct group_record *new)
{
    const struct known_group *known = known_of(head, new->name);
    bool ended = old != NULL && strcmp(new->last_swap.ticket_uid, old->ticket.uid) == 0;
    if (old != NULL && old->ticket_open && !ended) {
        world_break(world, CHECK_AIM, "%s gets a ticket while another one is open", new->name);
    }
    if (old != NULL && new->ticket.number <= old->ticket_number) {
        world_break(world, CHECK_MONOTONE, "%s: ticket %llu follows %llu", new->name,
                    (unsigned long long)new->ticket.number, (unsigned long long)old->ticket_number);
    }
    bool roll = !new->ticket.rejoin;
    if ((new->cordoned && !new->ticket.resolve) || new->retired || new->asleep ||
        (new->pinned &&roll)) {
        world_break(world, CHECK_INTENT, "%s gets a ticket and is %s", new->name,
                    new->cordoned  ? "cordoned"
                    : new->retired ? "retired"
                    : new->asleep  ? "asleep"
                                   : "pinned");
    }
    if (new->ticket.from_seq != known->committed_seq) {
        world_break(world, CHECK_AIM, "%s gets a ticket from v%llu; it reported v%llu", new->name,
                    (unsigned long long)new->ticket.from_seq,
                    (unsigned long long)known->committed_seq);
    }
    if (new->ticket.epoch.generation != head->epoch.generation ||
        new->ticket.epoch.n != head->epoch.n) {
        world_break(world, CHECK_FENCING, "%s gets a ticket of another epoch", new->name);
    }
}

static void check_group_op(struct world *world, struct head *head,
                           const struct transaction *transaction, const struct group_record *old,
                           const struct group_record *new)
{
    if (is_new_ticket(old, new)) {
        check_new_ticket(world, head, old, new);
    }
    if (old == NULL) {
        return;
    }
    bool woken = old->asleep && !new->asleep && !old->retired;
    if (woken && new->as_new && !old->as_new && !check_sleeps(world, head, old)) {
        world_break(world, CHECK_BUDGET, "%s is woken within a swap, and counts as one that joins",
                    new->name);
    }
    bool same =
        old->ticket_open && new->ticket_open &&strcmp(old->ticket.uid, new->ticket.uid) == 0;
    if (same &&
        (old->ticket.to_seq != new->ticket.to_seq || old->ticket.from_seq != new->ticket.from_seq ||
         old->ticket.number != new->ticket.number)) {
        world_break(world, CHECK_AIM, "%s: its open ticket is aimed anew", new->name);
    }
    if (new->ticket_number < old->ticket_number || new->owner_term < old->owner_term) {
        world_break(world, CHECK_MONOTONE, "%s: ticket number or owner term goes back", new->name);
    }
    if (old->ticket_open && !new->ticket_open) {
        check_closing(world, transaction, old, new);
    }
}

/* The policy's progressAction takes a late roll back, and holds the model. */
static bool rolls_back(const struct transaction *transaction)
{
    for (size_t i = 0; i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        if (op->record.kind == RECORD_ROLL && !op->remove &&
            ((const struct roll_record *)op->record.body)->state == ROLL_STATE_ROLLED_BACK) {
            return true;
        }
    }
    return false;
}

static void check_model_op(struct world *world, const struct head *head,
                           const struct model_record *old, const struct model_record *new,
                           bool by_policy)
{
    if (old == NULL) {
        return;
    }
    if (new->newest_seq < old->newest_seq || new->seq_floor < old->seq_floor ||
        new->last_roll_number < old->last_roll_number || new->generation < old->generation) {
        world_break(world, CHECK_MONOTONE, "a number of the model goes back");
    }
    bool verb = old->suspended != new->suspended || old->held != new->held ||
                old->generation != new->generation;
    if (verb && !head->in_request && !by_policy) {
        world_break(world, CHECK_INTENT, "a verb's effect changes without a verb");
    }
}

static bool is_needed(const struct world *world, const struct version_record *version)
{
    uint32_t of = model_of_name(version->model);
    const struct model_record *model = model_stored(&world->disk, of);
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct group_record *group = &world->disk.kept[i].body.group;
        if (is_group_of(&world->disk.kept[i], of) && !group->retired &&
            (group->committed_seq == version->seq ||
             (group->ticket_open &&
              (group->ticket.to_seq == version->seq || group->ticket.from_seq == version->seq)))) {
            return true;
        }
    }
    return model->promoted_seq == version->seq || model->newest_seq == version->seq;
}

static void check_version_op(struct world *world, const struct version_record *old,
                             const struct version_record *new)
{
    if (new->state != VERSION_STATE_PUBLISHED ||
        (old != NULL && old->state == VERSION_STATE_PUBLISHED)) {
        return;
    }
    /* What only a lost store knew may be given again; what an agent has seen may not (rule 5). */
    uint32_t of = model_of_name(new->model);
    uint64_t top = world->went_back ? 0 : world->models[of].top_seq;
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        const struct node *node = &world->nodes[i];
        bool known = disk_find(&world->disk, RECORD_AGENT, node->config.agent) != NULL;
        top = known && node->top_seq[of] > top ? node->top_seq[of] : top;
    }
    const struct model_record *model = model_stored(&world->disk, of);
    if (new->seq <= top || (model != NULL && new->seq <= model->newest_seq)) {
        world_break(world, CHECK_MONOTONE, "seq %llu is given again; %llu was seen",
                    (unsigned long long)new->seq, (unsigned long long)top);
    }
    check_consumed(world, of);
    uint32_t content = content_of(new->digest);
    world->versions[content].seq = new->seq;
    world->versions[content].parent = new->parent_seq;
    world->versions[content].published_ns = new->published_wall_ns;
    (void)snprintf(world->versions[content].uid, sizeof(world->versions[content].uid), "%s",
                   new->uid);
}

static bool is_on(struct head *head, const struct group_record *group, uint64_t seq)
{
    bool swaps = group->ticket_open && !group->ticket.rejoin;
    return !swaps && known_of(head, group->name)->committed_seq == seq;
}

/* What a roll says of itself when it ends, and that nobody but a verb lets it go on. */
static void check_roll_op(struct world *world, struct head *head, const struct roll_record *old,
                          const struct roll_record *new)
{
    cover(COVER_ROLL_STATE, (uint32_t) new->state);
    head->completes |=
        new->state == ROLL_STATE_COMPLETED && (old == NULL || old->state != ROLL_STATE_COMPLETED);
    bool goes_on =
        old != NULL && old->state == ROLL_STATE_PAUSED && new->state == ROLL_STATE_PROGRESSING;
    if (goes_on && !head->in_request) {
        world_break(world, CHECK_INTENT, "a paused roll goes on without a verb");
    }
    const struct roll_record *active = model_roll(&world->disk, model_of_name(new->model));
    if (old == NULL && new->cause == ROLL_CAUSE_PUBLISH && active != NULL &&
        active->state == ROLL_STATE_PAUSED &&new->state != ROLL_STATE_PAUSED) {
        world_break(world, CHECK_INTENT, "a publish lifts the operator's pause");
    }
}

void check_transaction(struct world *world, struct head *head,
                       const struct transaction *transaction)
{
    head->completes = false;
    for (size_t i = 0; i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        const void *old = disk_find(&world->disk, op->record.kind, op->key);
        if (op->remove) {
            if (op->record.kind == RECORD_VERSION && old != NULL && is_needed(world, old)) {
                world_break(world, CHECK_RETENTION, "the record of a version in use is removed");
            }
            continue;
        }
        if (op->record.kind == RECORD_GROUP) {
            check_group_op(world, head, transaction, old, op->record.body);
        } else if (op->record.kind == RECORD_MODEL) {
            check_model_op(world, head, old, op->record.body, rolls_back(transaction));
        } else if (op->record.kind == RECORD_VERSION) {
            check_version_op(world, old, op->record.body);
        } else if (op->record.kind == RECORD_ROLL) {
            check_roll_op(world, head, old, op->record.body);
        }
    }
    check_models_stored(world, head, transaction);
}

static void check_completed(struct world *world, struct head *head, const struct roll_record *roll)
{
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct kept_record *kept = &world->disk.kept[i];
        const struct group_record *group = &kept->body.group;
        bool swaps = group->ticket_open && !group->ticket.rejoin;
        bool apart = group->retired || check_sleeps(world, head, group) ||
                     ((group->cordoned || group->pinned) && !swaps);
        if (is_group_of(kept, model_of_name(roll->model)) && !apart &&
            !is_on(head, group, roll->to_seq) && known_of(head, kept->body.group.name)->known &&
            world->now_ns < known_of(head, kept->body.group.name)->heard_ns + LEASE_NS) {
            world_break(world, CHECK_REASON, "a roll to v%llu is completed; %s reported v%llu%s",
                        (unsigned long long)roll->to_seq, kept->body.group.name,
                        (unsigned long long)known_of(head, kept->body.group.name)->committed_seq,
                        kept->body.group.ticket_open ? " and has a ticket" : "");
        }
    }
}

/* A verb was carried out and is stored with its request id: so is its effect, and it counts once. */
static void check_verb(struct world *world, const char *request_id, bool shows)
{
    for (uint32_t i = 0; i < world->calls_count; i++) {
        const struct call *call = &world->calls[i];
        if (strcmp(call->request_id, request_id) != 0) {
            continue;
        }
        check_counted(world, call);
        if (shows && !people_shows(world, call)) {
            world_break(world, CHECK_INTENT, "%s was carried out, and the store does not show it",
                        verbs_at(call->verb)->name);
        }
    }
}

/* Slots that are held, by the store: a client that died gives its own back when its lease is over. */
static void check_slots(struct world *world, const char *model)
{
    uint64_t held = 0;
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct kept_record *kept = &world->disk.kept[i];
        const struct slot_lease_record *lease = &kept->body.slot_lease;
        held +=
            kept->kind == RECORD_SLOT_LEASE && strcmp(lease->model, model) == 0 ? lease->held : 0;
    }
    if (held > SIM_SLOTS_HELD) {
        world_break(world, CHECK_ADMISSION, "%llu slots are held; at most %d may be",
                    (unsigned long long)held, SIM_SLOTS_HELD);
    }
    /* By the bound of every policy, of two publishes. */
    uint64_t consumed = world->disk.consumed[model_of_name(model)];
    if (held + consumed > UINT64_C(3) * SIM_SLOTS_PER_PUBLISH) {
        world_break(world, CHECK_ADMISSION, "%llu slots are held after %llu that were consumed",
                    (unsigned long long)held, (unsigned long long)consumed);
    }
}

/* Groups of one model that are away, and how many may be. */
struct room {
    uint32_t away;
    uint32_t max;
};

/* The first time that a ticket is stored: with it, so many of its model are away. */
static void check_ticket_stored(struct world *world, const struct group_record *group,
                                const struct room *room)
{
    uint32_t away = room->away, max = room->max;
    if (!group->ticket_open) {
        return;
    }
    struct ticket_book *book = check_ticket_book(world, group->ticket.uid);
    bool counts = !group->ticket.rejoin && !group->ticket.barrier;
    if (!book->stored && !book->accepted && counts && away > max) {
        world_break(world, CHECK_BUDGET, "%s gets a ticket as one of %u; %u may be away",
                    group->name, away, max);
    }
    book->stored = true;
}

void check_committed(struct world *world, struct head *head, const struct transaction *transaction)
{
    struct room rooms[SIM_MODELS];
    for (uint32_t model = 0; model < world->models_count; model++) {
        struct room *room = &rooms[model];
        uint32_t *ever = &world->models[model].max_unavailable_ever;
        room->away = check_away(world, head, model, &room->max);
        *ever = room->max > *ever ? room->max : *ever;
    }
    for (size_t i = 0; i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        if (op->remove) {
            continue;
        }
        if (op->record.kind == RECORD_SLOT_LEASE) {
            check_slots(world, ((const struct slot_lease_record *)op->record.body)->model);
        } else if (op->record.kind == RECORD_GROUP) {
            const struct group_record *group = op->record.body;
            check_ticket_stored(world, group, &rooms[model_of_name(group->model)]);
        } else if (op->record.kind == RECORD_ROLL) {
            const struct roll_record *roll = op->record.body;
            if (head->completes && roll->state == ROLL_STATE_COMPLETED) {
                check_completed(world, head, roll);
            }
        } else if (op->record.kind == RECORD_REQUEST) {
            const struct request_record *request = op->record.body;
            check_verb(world, request->id, !rolls_back(transaction));
        }
    }
    check_counts(world, transaction);
}

/* --- what it answers --- */

void check_answer(struct world *world, const struct call *call, const struct action_reply *reply)
{
    bool lease = call->kind == REQUEST_SESSION_RESOLVE || call->kind == REQUEST_SLOTS_ACQUIRE;
    bool keeps = !lease && call->kind != REQUEST_VERSION_MANIFEST && call->kind != REQUEST_WAIT &&
                 call->kind != REQUEST_VERSION_PROGRESS;
    if (keeps && disk_find(&world->disk, RECORD_REQUEST, call->request_id) == NULL) {
        world_break(world, CHECK_INTENT, "a call is answered, and nothing of it is stored");
    }
    check_models_answer(world, call, &reply->object);
    if (call->kind == REQUEST_SESSION_RESOLVE) {
        check_session(world, call, reply->object.number);
    }
    if (call->kind != REQUEST_VERSION_PUBLISH || world->went_back) {
        return;
    }
    const struct version_record *version =
        disk_find(&world->disk, RECORD_VERSION, reply->object.uid);
    struct version_model *model = &world->versions[call->publish];
    if (model->seq == 0 || (version != NULL && version->seq != model->seq)) {
        world_break(world, CHECK_INTENT, "a publish is answered and is not stored");
    }
    model->acked = true;
    uint64_t *top = &world->models[call->model].top_seq;
    *top = model->seq > *top ? model->seq : *top;
}

/* --- what it shows --- */

static void compare(struct world *world, enum record_kind kind, const void *body, size_t bytes)
{
    char key[RECORD_KEY_BYTES];
    record_key((struct record_ref){ kind, body }, key);
    const void *kept = disk_find(&world->disk, kind, key);
    if (kept == NULL || memcmp(kept, body, bytes) != 0) {
        world_break(world, CHECK_STORE, "record %s of the core %s", key,
                    kept == NULL ? "is not stored" : "differs from the stored one");
    }
}

static void compare_records(struct world *world, const struct controller *core, bool all)
{
    for (uint32_t i = 0; i < view_models_count(core); i++) {
        compare(world, RECORD_MODEL, view_model_at(core, i), sizeof(struct model_record));
    }
    for (uint32_t i = 0; i < view_groups_count(core); i++) {
        compare(world, RECORD_GROUP, view_group_at(core, i), sizeof(struct group_record));
    }
    for (uint32_t i = 0; all && i < view_versions_count(core); i++) {
        compare(world, RECORD_VERSION, view_version_at(core, i), sizeof(struct version_record));
    }
    for (uint32_t i = 0; all && i < view_rolls_count(core); i++) {
        compare(world, RECORD_ROLL, view_roll_at(core, i), sizeof(struct roll_record));
    }
}

void check_head(struct world *world, struct head *head)
{
    if (head->deposed || !view_is_started(head->core)) {
        return;
    }
    for (uint32_t i = 0; i < world->models_count && !world->went_back; i++) {
        const struct model_record *model = model_stored(&world->disk, i);
        uint64_t top = world->models[i].top_seq;
        if (model != NULL && model->newest_seq < top) {
            world_break(world, CHECK_INTENT, "v%llu was acknowledged; the store ends with v%llu",
                        (unsigned long long)top, (unsigned long long)model->newest_seq);
        }
    }
    if (world->steps % LOOK_EVERY != 0) {
        return;
    }
    compare_records(world, head->core, world->steps % COMPARE_EVERY == 0);
    for (uint32_t i = 0; i < view_groups_count(head->core); i++) {
        const struct group_record *group = view_group_at(head->core, i);
        struct group_status status;
        view_group_status(head->core, group, world_wall_ns(world, head->skew_ns), &status);
        check_reason(world, head, group, &status);
        check_lag(world, group, &status);
        check_admission(world, head, group);
    }
    for (uint32_t i = 0; i < world->models_count; i++) {
        check_summary(world, head, i);
    }
    check_models_shown(world, head);
}
