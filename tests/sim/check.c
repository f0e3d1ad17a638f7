/* check.c -- the truth about agents, their journals and their engines; see check.h. */
#include "tests/sim/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cover.h"

static const char *const names[CHECK_COUNT] = {
    [CHECK_ASSERT] = "assertion",
    [CHECK_MIXED] = "1 mixed",
    [CHECK_ALL_RANKS] = "2 all ranks",
    [CHECK_COMMIT] = "3 commit",
    [CHECK_BUDGET] = "4 budget",
    [CHECK_VERIFIED] = "5 verified",
    [CHECK_RETENTION] = "6 retention",
    [CHECK_OLD_OR_NEW] = "7 old or new",
    [CHECK_MONOTONE] = "8 monotone",
    [CHECK_FENCING] = "9 fencing",
    [CHECK_INTENT] = "10 intent",
    [CHECK_PAUSE] = "11 pause",
    [CHECK_AIM] = "12 aim",
    [CHECK_KV] = "kv",
    [CHECK_ORDER] = "order",
    [CHECK_OUTCOME] = "outcome",
    [CHECK_REASON] = "reason",
    [CHECK_STALENESS] = "staleness",
    [CHECK_ADMISSION] = "admission",
    [CHECK_SLEEP] = "sleep",
    [CHECK_ROUTER] = "router",
    [CHECK_PROGRESS] = "progress",
    [CHECK_STORE] = "store",
    [CHECK_SAMPLES] = "samples",
    [CHECK_MODELS] = "models",
    [CHECK_TIME] = "time",
};

const char *check_name(int check)
{
    return names[check];
}

static int compare_epochs(struct agent_epoch a, struct agent_epoch b)
{
    if (a.generation != b.generation) {
        return a.generation < b.generation ? -1 : 1;
    }
    return (a.n > b.n) - (a.n < b.n);
}

static bool holds(const struct engine_model *engine, uint32_t content)
{
    for (uint32_t r = 0; r < SIM_RANKS; r++) {
        if (engine->rank[r] != content) {
            return false;
        }
    }
    return true;
}

static const char *name_of(const struct world *world, const struct group_model *group)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        const struct node *node = &world->nodes[i];
        if (group >= node->groups && group < node->groups + SIM_SLOTS) {
            return node->groups_config[group - node->groups].name;
        }
    }
    return "?";
}

/* --- engines --- */

static bool any_open(const struct world *world, const struct group_model *group)
{
    for (uint32_t e = 0; e < group->engines_count; e++) {
        if (group->engines[e].guarded && engine_is_open(world, &group->engines[e])) {
            return true;
        }
    }
    return false;
}

/* Read rather than written: this is asked in every step. */
static bool is_label(const char *label, uint64_t seq)
{
    char *end = NULL;
    return *label >= '0' && *label <= '9' && strtoull(label, &end, 10) == seq && *end == '\0';
}

static void check_open_engine(struct world *world, const struct group_model *group,
                              const struct engine_model *engine)
{
    const struct open_ticket *ticket = &group->ticket;
    /* One that ends with OUT is told before its gate is shut. */
    bool lasts = ticket->open || ticket->lost ||
                 (ticket->out_ns != 0 && world->now_ns < ticket->out_ns + 30 * S);
    bool window = lasts && ticket->live_intent && !ticket->committed;
    if (!holds(engine, group->committed) && !(window && holds(engine, ticket->to))) {
        world_break(world, CHECK_MIXED,
                    "%s: an open gate serves contents %u and %u; %u was committed",
                    name_of(world, group), engine->rank[0], engine->rank[1], group->committed);
    }
    /* Of a live swap both follow COMMIT, while the gate is open: until then they name the older one. */
    bool follows = lasts && ticket->live && ticket->committed;
    if (engine->gate_version != group->committed_seq &&
        !(follows && engine->gate_version == ticket->from_seq)) {
        world_break(world, CHECK_COMMIT, "%s: an open gate shows v%llu; v%llu was committed",
                    name_of(world, group), (unsigned long long)engine->gate_version,
                    (unsigned long long)group->committed_seq);
    }
    /* Labels decide nothing, and no plug-in fences them: one that got no answer may come late. */
    if (!is_label(engine->label, group->committed_seq) && engine->late_label != engine->life &&
        !(follows && is_label(engine->label, ticket->from_seq))) {
        world_break(world, CHECK_COMMIT, "%s: an engine that serves v%llu is labelled %s",
                    name_of(world, group), (unsigned long long)group->committed_seq, engine->label);
    }
    if (engine->kv != 0 && engine->kv != group->committed && !engine->kv_kept) {
        world_break(world, CHECK_KV, "%s: KV of content %u is served with content %u",
                    name_of(world, group), engine->kv, group->committed);
    }
}

/* While a gate is open, the other engines of the group that COMMIT named hold the same. */
static void check_group_open(struct world *world, const struct group_model *group)
{
    for (uint32_t e = 0; e < group->engines_count; e++) {
        const struct engine_model *engine = &group->engines[e];
        if (engine_is_open(world, engine) && engine->guarded) {
            check_open_engine(world, group, engine);
        }
        if (engine->guarded && engine_answers(world, engine) &&
            engine->life == group->committed_lives[e] && !holds(engine, group->committed) &&
            !group->ticket.live_intent) {
            world_break(
                world, CHECK_MIXED,
                "%s: a gate is open while another engine of the group holds %u and %u, not %u",
                name_of(world, group), engine->rank[0], engine->rank[1], group->committed);
        }
    }
}

static void check_pause(struct world *world, const struct node *node, struct group_model *group)
{
    const struct open_ticket *ticket = &group->ticket;
    /* A member that follows is in doubt until its leader says how it ended. */
    if (!ticket->open || ticket->rejoin || !group->engines[0].guarded || group->follows ||
        any_open(world, group)) {
        group->shut_ns = 0;
        return;
    }
    if (group->shut_ns == 0) {
        group->shut_ns = world->now_ns;
    }
    uint64_t since_ns = group->shut_ns > node->restarted_ns ? group->shut_ns : node->restarted_ns;
    uint64_t bound_ns =
        ticket->swap_ns + ticket->hooks_ns + 2 * node->config.times.restore_bound + 10 * S;
    if (node->up && world->now_ns > since_ns + bound_ns) {
        world_break(world, CHECK_PAUSE, "%s is shut by a swap for %llu s", name_of(world, group),
                    (unsigned long long)((world->now_ns - group->shut_ns) / S));
    }
}

/* Gates of one group, at whatever agent, are open for one version, which every member committed. */
static void check_members(struct world *world, const struct group_model *leader)
{
    bool open = any_open(world, leader);
    for (uint32_t i = 0; i < leader->members_count; i++) {
        open |= any_open(world, leader->members[i]);
    }
    for (uint32_t i = 0; open && i < leader->members_count; i++) {
        if (leader->members[i]->committed != leader->committed) {
            world_break(world, CHECK_MIXED,
                        "%s: a gate is open while its members committed contents %u and %u",
                        name_of(world, leader), leader->committed, leader->members[i]->committed);
        }
    }
}

void check_world(struct world *world)
{
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        struct node *node = &world->nodes[i];
        for (uint32_t g = 0; g < node->groups_count; g++) {
            struct group_model *group = &node->groups[g];
            if (any_open(world, group)) {
                check_group_open(world, group);
            }
            check_pause(world, node, group);
            check_members(world, group);
        }
        bool late = node->up && node->deadline_ns < world->now_ns &&
                    world->now_ns - node->deadline_ns > 60 * S;
        if (late && node->stopped_until_ns + 60 * S < world->now_ns) {
            world_break(world, CHECK_TIME, "%s waits for a time that has passed",
                        node->config.agent);
        }
    }
}

void check_opened(struct world *world, struct group_model *group, struct engine_model *engine)
{
    uint32_t place = (uint32_t)(engine - group->engines);
    const char *name = name_of(world, group);
    /* The COMMIT of a resolving ticket names no engine: a read-back in this life must have. */
    bool read_back = group->committed_lives[place] == 0 && engine->proved_life == engine->life &&
                     engine->proved_content == group->committed;
    if (engine->life != group->committed_lives[place] && !read_back) {
        world_break(world, CHECK_VERIFIED, "%s: e%u is opened in life %u; COMMIT named life %u",
                    name, place, engine->life, group->committed_lives[place]);
    }
    if (engine->plugin &&
        (engine->proved_life != engine->life || engine->proved_content != group->committed)) {
        world_break(world, CHECK_VERIFIED,
                    "%s: e%u is opened, and nobody read content %u back in this life", name, place,
                    group->committed);
    }
    if (group->ticket.open) {
        check_routers_told(world, group, name);
    }
    if (group->ticket.open && group->ticket.barrier && group->ticket.committed) {
        check_barrier(world, &group->ticket, name);
    }
    for (uint32_t e = 0; e < group->engines_count; e++) {
        const struct engine_model *other = &group->engines[e];
        if (engine_answers(world, other) && other->life == group->committed_lives[e] &&
            !holds(other, group->committed)) {
            world_break(world, CHECK_ALL_RANKS, "%s: e%u is opened before e%u holds content %u",
                        name, place, e, group->committed);
        }
    }
}

/* --- operations --- */

static void check_update(struct world *world, const struct group_model *group,
                         const struct engine_model *engine, const struct agent_op *op)
{
    const struct open_ticket *ticket = &group->ticket;
    const char *name = name_of(world, group);
    uint32_t content = content_of(op->digest);
    if (!ticket->open || ticket->step == 0 || ticket->committed) {
        world_break(world, CHECK_ORDER, "%s: weights change without INTENT", name);
        return;
    }
    if (content != ticket->to && content != ticket->from) {
        world_break(world, CHECK_AIM, "%s: content %u is applied; the ticket goes from %u to %u",
                    name, content, ticket->from, ticket->to);
    }
    if (op->fence.ticket != ticket->number || op->fence.step != ticket->step ||
        compare_epochs(op->fence.epoch, ticket->epoch) != 0 ||
        op->fence.owner_term != ticket->owner_term) {
        world_break(world, CHECK_FENCING, "%s: an update carries another fence than its ticket's",
                    name);
    }
    if (engine->guarded && any_open(world, group)) {
        world_break(world, CHECK_ALL_RANKS, "%s: weights change while a gate is open", name);
    }
}

/* The one call of a live swap: LIVE_INTENT is on the disk, and it goes to the version that it names. */
static void check_live(struct world *world, const struct group_model *group,
                       const struct agent_op *op)
{
    const struct open_ticket *ticket = &group->ticket;
    const char *name = name_of(world, group);
    if (!ticket->open || !ticket->live || !ticket->live_intent || ticket->committed) {
        world_break(world, CHECK_ORDER,
                    "%s: weights change behind an open gate without LIVE_INTENT", name);
        return;
    }
    if (content_of(op->digest) != ticket->to) {
        world_break(world, CHECK_AIM, "%s: content %u is swapped to; the ticket goes from %u to %u",
                    name, content_of(op->digest), ticket->from, ticket->to);
    }
    if (op->fence.ticket != ticket->number || op->fence.step != ticket->step) {
        world_break(world, CHECK_FENCING, "%s: a live swap carries another fence than its ticket's",
                    name);
    }
    if (group->engines_count != 1 || group->members_count > 0) {
        world_break(world, CHECK_MIXED, "%s: a live swap of several engines", name);
    }
}

void check_op(struct world *world, struct node *node, const struct agent_op *op)
{
    struct group_model *group = &node->groups[op->engine.group];
    const struct engine_model *engine = &group->engines[op->engine.engine];
    char label[BATON_NAME_BYTES];
    (void)snprintf(label, sizeof(label), "%llu", (unsigned long long)group->journal_seq);
    check_models_op(world, &node->groups_config[op->engine.group], op);
    if (op->kind == AGENT_OP_PAUSE) {
        check_drained(world, group, name_of(world, group));
    } else if (op->kind == AGENT_OP_UPDATE) {
        check_update(world, group, engine, op);
    } else if (op->kind == AGENT_OP_LIVE) {
        check_live(world, group, op);
    } else if (op->kind == AGENT_OP_LABEL && strcmp(op->label, label) != 0) {
        world_break(world, CHECK_COMMIT, "%s: label %s is written; v%s was committed",
                    name_of(world, group), op->label, label);
    } else if (op->kind == AGENT_OP_INVALIDATE &&
               (!group->ticket.open || group->ticket.step == 0)) {
        world_break(world, CHECK_ORDER, "%s: KV is dropped without INTENT", name_of(world, group));
    } else if (op->kind == AGENT_OP_SET_GATE && op->gate == AGENT_GATE_OPEN &&
               op->gate_version != group->journal_seq) {
        world_break(world, CHECK_COMMIT, "%s: a gate is opened for v%llu; v%s was committed",
                    name_of(world, group), (unsigned long long)op->gate_version, label);
    }
}

void check_obeyed(struct world *world, const struct node *node, struct group_model *group,
                  uint64_t step)
{
    if (group->obeyed_life == node->life && step < group->obeyed_step) {
        world_break(world, CHECK_MONOTONE, "%s: %s carries out step %llu.%llu after %llu.%llu",
                    name_of(world, group), node->config.agent, (unsigned long long)(step >> 32),
                    (unsigned long long)(step & UINT32_MAX),
                    (unsigned long long)(group->obeyed_step >> 32),
                    (unsigned long long)(group->obeyed_step & UINT32_MAX));
    }
    group->obeyed_life = node->life;
    group->obeyed_step = step;
}

/* --- the journal --- */

struct ticket_book *check_ticket_book(struct world *world, const char *uid)
{
    for (uint32_t i = world->tickets_count; i > 0; i--) {
        struct ticket_book *book = &world->tickets[(i - 1) % SIM_TICKETS];
        if (strcmp(book->uid, uid) == 0) {
            return book;
        }
        if (world->tickets_count - i >= SIM_TICKETS - 1) {
            break;
        }
    }
    struct ticket_book *book = &world->tickets[world->tickets_count++ % SIM_TICKETS];
    memset(book, 0, sizeof(*book));
    (void)snprintf(book->uid, sizeof(book->uid), "%s", uid);
    return book;
}

static bool can_restore(const struct node *node, const struct group_model *group, uint32_t content)
{
    if (node->landing[content] == LANDING_LANDED) {
        return true;
    }
    for (uint32_t e = 0; e < group->engines_count; e++) {
        const char *digest = node->engines_config[group - node->groups][e].boot_digest;
        if (digest[0] == '\0' || content_of(digest) != content) {
            return false;
        }
    }
    return true;
}

/* Of one model. */
static uint32_t open_swaps(const struct world *world, uint32_t model)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        for (uint32_t g = 0; g < world->nodes[i].groups_count; g++) {
            const struct open_ticket *ticket = &world->nodes[i].groups[g].ticket;
            const struct group_record *record =
                disk_find(&world->disk, RECORD_GROUP, world->nodes[i].groups_config[g].name);
            bool counts = g < world->nodes[i].led_count && (record == NULL || !record->retired) &&
                          model_of_name(world->nodes[i].groups_config[g].model) == model;
            open += counts && ticket->open && !ticket->rejoin && !ticket->barrier;
        }
    }
    return open;
}

static void check_accept(struct world *world, const struct node *node,
                         const struct group_model *group, const struct agent_ticket *ticket)
{
    const char *name = name_of(world, group);
    if (compare_epochs(ticket->epoch, node->epoch) < 0) {
        world_break(world, CHECK_FENCING, "%s accepts a ticket of epoch %llu.%llu after %llu.%llu",
                    name, (unsigned long long)ticket->epoch.generation,
                    (unsigned long long)ticket->epoch.n, (unsigned long long)node->epoch.generation,
                    (unsigned long long)node->epoch.n);
    }
    if (ticket->number <= group->highest_ticket || ticket->owner_term < group->owner_term) {
        world_break(
            world, CHECK_MONOTONE, "%s accepts ticket %llu of term %llu after %llu of %llu", name,
            (unsigned long long)ticket->number, (unsigned long long)ticket->owner_term,
            (unsigned long long)group->highest_ticket, (unsigned long long)group->owner_term);
    }
    if (group->ticket.open) {
        world_break(world, CHECK_AIM, "%s accepts a ticket while another one is open", name);
    }
    if (!ticket->rejoin && content_of(ticket->from.digest) != group->journal_content) {
        world_break(world, CHECK_AIM, "%s accepts a ticket from v%llu; it committed v%llu", name,
                    (unsigned long long)ticket->from.seq, (unsigned long long)group->journal_seq);
    }
    bool back = ticket->rejoin || ticket->policy.allow_recreate ||
                can_restore(node, group, content_of(ticket->from.digest));
    if (!back || node->landing[content_of(ticket->to.digest)] != LANDING_LANDED) {
        world_break(world, CHECK_RETENTION, "%s accepts a ticket without the bytes for %s", name,
                    back ? "it" : "the way back");
    }
}

static void on_accept(struct world *world, struct node *node, struct group_model *group,
                      const struct agent_ticket *ticket)
{
    check_accept(world, node, group, ticket);
    struct open_ticket *open = &group->ticket;
    memset(open, 0, sizeof(*open));
    open->open = true;
    memcpy(open->uid, ticket->uid, sizeof(open->uid));
    open->number = ticket->number;
    open->epoch = ticket->epoch;
    open->owner_term = ticket->owner_term;
    open->from_seq = ticket->from.seq;
    open->to_seq = ticket->to.seq;
    open->from = content_of(ticket->from.digest);
    open->to = content_of(ticket->to.digest);
    open->rejoin = ticket->rejoin;
    open->barrier = ticket->barrier;
    open->live = ticket->policy.live && !ticket->rejoin;
    open->swap_ns = ticket->policy.swap_deadline_ns;
    if (ticket->barrier) { /* Shut, go, open: each wait has its bound. */
        open->swap_ns = 3 * open->swap_ns + 6 * ticket->policy.barrier_deadline_ns;
    }
    check_hooks_accepted(open, ticket);
    group->accepted_ns = world->now_ns;
    group->highest_ticket = ticket->number;
    group->owner_term =
        ticket->owner_term > group->owner_term ? ticket->owner_term : group->owner_term;
    if (group->follows) {
        return; /* The books are of what leaders say. */
    }
    struct ticket_book *book = check_ticket_book(world, ticket->uid);
    book->accepted = true;
    uint32_t model = model_of_group(world, name_of(world, group));
    uint32_t most = world->models[model].max_unavailable_ever;
    if (!ticket->barrier && open_swaps(world, model) > most) {
        world_break(world, CHECK_BUDGET, "%s swaps as one of %u at the same time; %u may be away",
                    name_of(world, group), open_swaps(world, model), most);
    }
}

/* Engines that are alive in the life that COMMIT names hold what it says, proved, gates shut. */
static void check_commit_engines(struct world *world, const struct group_model *group)
{
    const char *name = name_of(world, group);
    for (uint32_t e = 0; e < group->engines_count; e++) {
        const struct engine_model *engine = &group->engines[e];
        if (!engine_answers(world, engine) || engine->life != group->committed_lives[e]) {
            continue;
        }
        if (!holds(engine, group->committed) && engine->plugin) {
            world_break(world, CHECK_OLD_OR_NEW, "%s commits content %u; e%u holds %u and %u", name,
                        group->committed, e, engine->rank[0], engine->rank[1]);
        }
        if (engine->plugin &&
            (engine->proved_life != engine->life || engine->proved_content != group->committed)) {
            world_break(world, CHECK_COMMIT, "%s commits content %u before e%u was verified", name,
                        group->committed, e);
        }
        if (engine->guarded && engine_is_open(world, engine) && !group->ticket.live_intent) {
            world_break(world, CHECK_ALL_RANKS, "%s commits while the gate of e%u is open", name,
                        e);
        }
        /* (A resume that came late may have let an unguarded one work with what it holds now.) */
        if (engine->kv != 0 && engine->kv != group->committed && !engine->kv_kept) {
            world_break(world, CHECK_KV, "%s commits while e%u keeps KV of content %u", name, e,
                        engine->kv);
        }
    }
}

/* A member's COMMIT of the lost ticket wins, since gates may have opened after it; else what was
 * decided is something that a member had committed. */
static void on_resolved(struct world *world, struct group_model *group,
                        const struct journal_record *record)
{
    uint32_t content = content_of(record->commit.version.digest);
    bool is_known = content == group->committed;
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        const struct group_model *part = node_part(&world->nodes[i], record->group);
        if (part == NULL || part == group) {
            continue;
        }
        is_known |= part->committed == content || part->ticket.from == content;
        if (part->ticket.open && part->ticket.committed && part->ticket.to != content &&
            strcmp(part->ticket.uid, group->lost_uid) == 0) {
            world_break(world, CHECK_OLD_OR_NEW,
                        "%s is resolved to content %u; a member committed %u in the lost ticket",
                        record->group, content, part->ticket.to);
        }
    }
    if (!is_known) {
        world_break(world, CHECK_OLD_OR_NEW, "%s is resolved to content %u, which nobody had",
                    record->group, content);
    }
    group->committed = content;
    group->committed_seq = record->commit.version.seq;
    group->journal_content = content;
    group->journal_seq = group->committed_seq;
    memset(group->committed_lives, 0, sizeof(group->committed_lives));
}

static void saw_seq(struct node *node, const char *model, uint64_t seq)
{
    uint64_t *top = &node->top_seq[model_of_name(model)];
    *top = seq > *top ? seq : *top;
}

static void on_commit(struct world *world, struct node *node, struct group_model *group,
                      const struct journal_record *record)
{
    struct open_ticket *ticket = &group->ticket;
    uint32_t content = content_of(record->commit.version.digest);
    if (check_ticket_book(world, record->commit.ticket_uid)->resolves && !group->follows) {
        on_resolved(world, group, record);
        return;
    }
    if (!ticket->open || ticket->committed || ticket->step == 0 ||
        strcmp(ticket->uid, record->commit.ticket_uid) != 0 || content != ticket->to) {
        world_break(world, CHECK_COMMIT, "%s commits content %u without an open ticket for it",
                    name_of(world, group), content);
    }
    ticket->committed = true;
    group->needs_ticket = false;
    group->gave_up = false;
    group->committed = content;
    group->committed_seq = record->commit.version.seq;
    group->journal_content = content;
    group->journal_seq = group->committed_seq;
    for (uint32_t e = 0; e < group->engines_count && e < record->commit.members.count; e++) {
        group->committed_lives[e] = check_life(record->commit.members.incarnations[e]);
    }
    saw_seq(node, node->groups_config[group - node->groups].model, group->committed_seq);
    check_commit_engines(world, group);
}

/* A swap that ended well or was undone left every living engine on one version. */
static void check_ended(struct world *world, const struct group_model *group,
                        enum agent_outcome outcome)
{
    if (outcome != AGENT_OUTCOME_COMMITTED && outcome != AGENT_OUTCOME_APPLY_FAILED &&
        outcome != AGENT_OUTCOME_PAUSE_TIMEOUT) {
        return;
    }
    for (uint32_t e = 0; e < group->engines_count; e++) {
        const struct engine_model *engine = &group->engines[e];
        if (engine_answers(world, engine) && engine->life == group->committed_lives[e] &&
            engine->plugin && !holds(engine, group->committed)) {
            world_break(world, CHECK_OLD_OR_NEW,
                        "%s ends a ticket with %s; e%u holds %u and %u, not %u",
                        name_of(world, group), agent_outcome_name(outcome), e, engine->rank[0],
                        engine->rank[1], group->committed);
        }
    }
}

/* It asks members, and moves nothing; or it tells how the ticket ended that they were asked about. */
static bool is_of_doubt(const struct group_model *group, const struct ticket_book *book,
                        const struct agent_swap_record *swap)
{
    bool asked = swap->outcome == AGENT_OUTCOME_OUT && group->asks;
    return !group->ticket.open && !group->follows && (book->resolves || asked);
}

static void on_outcome(struct world *world, struct group_model *group,
                       const struct journal_record *record)
{
    const struct agent_swap_record *swap = &record->outcome.record;
    struct open_ticket *ticket = &group->ticket;
    const char *name = name_of(world, group);
    struct ticket_book nobodys = { .accepted = false };
    struct ticket_book *book =
        group->follows ? &nobodys : check_ticket_book(world, swap->ticket_uid);
    cover(COVER_OUTCOME, (uint32_t)swap->outcome);
    if (record->kind == JOURNAL_OUTCOME && is_of_doubt(group, book, swap)) {
        group->needs_ticket |= record->outcome.needs_ticket;
        group->asks &= !book->resolves;
    } else if (record->kind == JOURNAL_OUTCOME) {
        if (!ticket->open || strcmp(ticket->uid, swap->ticket_uid) != 0) {
            world_break(world, CHECK_ORDER, "%s ends a ticket that is not open", name);
        }
        bool committed = swap->outcome == AGENT_OUTCOME_COMMITTED;
        if (committed != ticket->committed && swap->outcome != AGENT_OUTCOME_OUT) {
            world_break(world, CHECK_OUTCOME, "%s ends a ticket with %s; COMMIT was%s written",
                        name, agent_outcome_name(swap->outcome), ticket->committed ? "" : " not");
        }
        check_ended(world, group, swap->outcome);
        if (ticket->asked != 0 && swap->outcome != AGENT_OUTCOME_OUT) {
            check_routers_told(world, group, name);
        }
        group->needs_ticket |= record->outcome.needs_ticket;
        ticket->open = false;
        ticket->out_ns = swap->outcome == AGENT_OUTCOME_OUT ? world->now_ns : 0;
    } else if (book->accepted && (!world->went_back || book->outcome == AGENT_OUTCOME_NONE)) {
        /* (A store that went back may ask for one that ended long ago and was forgotten.) */
        world_break(world, CHECK_OUTCOME, "%s refuses a ticket that it accepted before", name);
    }
    if (swap->committed.seq != group->journal_seq) {
        world_break(world, CHECK_OUTCOME, "%s says v%llu of an outcome; v%llu was committed", name,
                    (unsigned long long)swap->committed.seq,
                    (unsigned long long)group->journal_seq);
    }
    if (swap->ticket_number > group->highest_ticket) {
        group->highest_ticket = swap->ticket_number;
    }
    book->outcome = swap->outcome;
}

static void on_node_record(struct world *world, struct node *node,
                           const struct journal_record *record)
{
    if (record->kind == JOURNAL_EPOCH) {
        if (compare_epochs(record->epoch, node->epoch) <= 0) {
            world_break(world, CHECK_MONOTONE, "%s: the epoch goes back", node->config.agent);
        }
        node->epoch = record->epoch;
    } else if (record->kind == JOURNAL_SEQ) {
        saw_seq(node, record->seq.model, record->seq.version.seq);
    }
}

static void on_intent(struct world *world, struct group_model *group,
                      const struct journal_record *record)
{
    /* A follower that was restarted may be told the same step of the way back again. */
    uint64_t least = group->ticket.step + (group->follows && group->ticket.step > 0 ? 0 : 1);
    if (!group->ticket.open || record->intent.step < least) {
        world_break(world, CHECK_MONOTONE, "%s: INTENT %llu does not rise", name_of(world, group),
                    (unsigned long long)record->intent.step);
    }
    group->ticket.step = record->intent.step;
    group->ticket.live_intent = record->kind == JOURNAL_LIVE_INTENT;
    if (group->ticket.live_intent &&
        (content_of(record->intent.from.digest) != group->ticket.from ||
         content_of(record->intent.to.digest) != group->ticket.to)) {
        world_break(world, CHECK_AIM, "%s: LIVE_INTENT names other versions than its ticket",
                    name_of(world, group));
    }
}

void check_journal(struct world *world, struct node *node, const struct journal_record *record)
{
    struct group_model *group = record->group[0] != '\0' ? node_part(node, record->group) : NULL;
    check_models_journal(world, node, record);
    if (group == NULL) {
        on_node_record(world, node, record);
    } else if (record->kind == JOURNAL_ACCEPT) {
        on_accept(world, node, group, &record->accept.ticket);
    } else if (record->kind == JOURNAL_INTENT || record->kind == JOURNAL_LIVE_INTENT) {
        on_intent(world, group, record);
    } else if (record->kind == JOURNAL_COMMIT) {
        on_commit(world, node, group, record);
    } else if (record->kind == JOURNAL_OUTCOME || record->kind == JOURNAL_REFUSE) {
        on_outcome(world, group, record);
    } else if (record->kind == JOURNAL_BARRIER) {
        group->ticket.bound = record->barrier.mark == JOURNAL_BARRIER_SHUT ||
                              record->barrier.mark == JOURNAL_BARRIER_GO;
    } else if (record->kind == JOURNAL_SLEEP) {
        check_slept(world, group, record);
    } else if (record->kind == JOURNAL_OPERATE) {
        group->detached = record->operate.verb == AGENT_VERB_DETACH;
    } else if (record->kind == JOURNAL_FLOORS) {
        uint64_t number = record->floors.ticket_number, term = record->floors.owner_term;
        group->highest_ticket = number > group->highest_ticket ? number : group->highest_ticket;
        group->owner_term = term > group->owner_term ? term : group->owner_term;
    }
}

void check_goals(struct world *world, struct node *node, const struct agent_goals *goals)
{
    if (compare_epochs(goals->epoch, node->epoch) < 0) {
        world_break(world, CHECK_FENCING, "%s takes goals of epoch %llu.%llu after %llu.%llu",
                    node->config.agent, (unsigned long long)goals->epoch.generation,
                    (unsigned long long)goals->epoch.n, (unsigned long long)node->epoch.generation,
                    (unsigned long long)node->epoch.n);
    }
}
