/* ledger.c -- see ledger.h. */
#include "agent/core/ledger.h"

#include <string.h>

struct ledger_group *ledger_find(const struct ledger *ledger, const char *group)
{
    for (uint32_t i = 0; i < ledger->groups_count; i++) {
        if (strcmp(ledger->groups[i].config->name, group) == 0) {
            return &ledger->groups[i];
        }
    }
    return NULL;
}

struct ledger_outcome *ledger_outcome_find(struct ledger_group *group, const char *ticket_uid)
{
    for (uint32_t i = group->outcomes_count; i > 0; i--) {
        if (strcmp(group->outcomes[i - 1].record.ticket_uid, ticket_uid) == 0) {
            return &group->outcomes[i - 1];
        }
    }
    return NULL;
}

const struct ledger_seq *ledger_seq_find(const struct ledger *ledger, const char *model)
{
    for (uint32_t i = 0; i < ledger->seqs_count; i++) {
        if (strcmp(ledger->seqs[i].model, model) == 0) {
            return &ledger->seqs[i];
        }
    }
    return NULL;
}

static bool apply_seq(struct ledger *ledger, const struct journal_record *record)
{
    for (uint32_t i = 0; i < ledger->seqs_count; i++) {
        if (strcmp(ledger->seqs[i].model, record->seq.model) == 0) {
            ledger->seqs[i].version = record->seq.version;
            return true;
        }
    }
    if (ledger->seqs_count == BATON_GROUPS_PER_AGENT_MAX) {
        return false;
    }
    struct ledger_seq *seq = &ledger->seqs[ledger->seqs_count++];
    memcpy(seq->model, record->seq.model, sizeof seq->model);
    seq->version = record->seq.version;
    return true;
}

static void raise_to(uint64_t *value, uint64_t to)
{
    if (to > *value) {
        *value = to;
    }
}

static void apply_accept(struct ledger_group *group, const struct journal_record *record)
{
    group->open = true;
    group->ticket = record->accept.ticket;
    group->ticket_members = record->accept.members;
    group->step = 0;
    group->live = false;
    group->ticket_committed = false;
    group->barrier = JOURNAL_BARRIER_NONE;
    raise_to(&group->highest_ticket, group->ticket.number);
    raise_to(&group->owner_term, group->ticket.owner_term);
}

static void apply_commit(struct ledger_group *group, const struct journal_record *record)
{
    group->committed = record->commit.version;
    group->level = record->commit.level;
    group->members = record->commit.members;
    group->salted = record->commit.salted;
    group->needs_ticket = false;
    group->sleep = JOURNAL_SLEEP_NONE;
    if (group->open && strcmp(group->ticket.uid, record->commit.ticket_uid) == 0) {
        group->ticket_committed = true;
    }
}

/* Keeps the newest; an outcome that the controller has stored goes before one that it has not. */
static void remember_outcome(struct ledger_group *group, const struct agent_swap_record *record)
{
    if (group->outcomes_count == LEDGER_OUTCOMES_MAX) {
        uint32_t gone = 0;
        while (gone < LEDGER_OUTCOMES_MAX && !group->outcomes[gone].stored) {
            gone++;
        }
        gone = gone == LEDGER_OUTCOMES_MAX ? 0 : gone;
        memmove(&group->outcomes[gone], &group->outcomes[gone + 1],
                (LEDGER_OUTCOMES_MAX - 1 - gone) * sizeof group->outcomes[0]);
        group->outcomes_count--;
    }
    group->outcomes[group->outcomes_count++] = (struct ledger_outcome){ *record, false, false };
}

static void apply_outcome(struct ledger_group *group, const struct journal_record *record)
{
    const struct agent_swap_record *ended = &record->outcome.record;
    if (record->outcome.needs_ticket) {
        group->needs_ticket = true;
    }
    if (group->open && strcmp(group->ticket.uid, ended->ticket_uid) == 0) {
        group->open = false;
    }
    raise_to(&group->highest_ticket, ended->ticket_number);
    remember_outcome(group, ended);
}

static bool apply_taint(struct ledger_group *group, const struct journal_record *record)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (strcmp(group->config->engines[i].name, record->taint.engine) == 0) {
            memcpy(group->taints[i], record->taint.incarnation, sizeof group->taints[i]);
            return true;
        }
    }
    return false;
}

static void apply_operate(struct ledger_group *group, const struct journal_record *record)
{
    group->operated = record->operate.verb;
    group->operated_wall_ns = record->operate.wall_ns;
    memcpy(group->operated_by, record->operate.by, sizeof group->operated_by);
    if (record->operate.verb != AGENT_VERB_RESTORE) {
        group->detached = record->operate.verb == AGENT_VERB_DETACH;
    }
}

static bool apply_group(struct ledger_group *group, const struct journal_record *record)
{
    if (record->kind == JOURNAL_FLOORS) {
        group->detached &= record->floors.owner_term <= group->owner_term;
        raise_to(&group->highest_ticket, record->floors.ticket_number);
        raise_to(&group->owner_term, record->floors.owner_term);
    } else if (record->kind == JOURNAL_ACCEPT) {
        apply_accept(group, record);
    } else if (record->kind == JOURNAL_INTENT || record->kind == JOURNAL_LIVE_INTENT) {
        group->step = record->intent.step;
        group->live = record->kind == JOURNAL_LIVE_INTENT;
    } else if (record->kind == JOURNAL_COMMIT) {
        apply_commit(group, record);
    } else if (record->kind == JOURNAL_OUTCOME || record->kind == JOURNAL_REFUSE) {
        apply_outcome(group, record);
    } else if (record->kind == JOURNAL_BARRIER) {
        group->barrier = record->barrier.mark;
    } else if (record->kind == JOURNAL_OUTCOME_STORED) {
        struct ledger_outcome *outcome = ledger_outcome_find(group, record->ticket_uid);
        if (outcome != NULL) {
            outcome->stored = true;
            outcome->told = true;
        }
    } else if (record->kind == JOURNAL_OPERATE) {
        apply_operate(group, record);
    } else if (record->kind == JOURNAL_SLEEP) {
        group->sleep = record->sleep.mark;
        group->sleep_members = record->sleep.members;
        group->needs_ticket = true;
    } else {
        return apply_taint(group, record);
    }
    return true;
}

bool ledger_apply(struct ledger *ledger, const struct journal_record *record)
{
    if (record->kind == JOURNAL_INCARNATION) {
        memcpy(ledger->incarnation, record->incarnation, sizeof ledger->incarnation);
        return true;
    }
    if (record->kind == JOURNAL_EPOCH) {
        ledger->epoch = record->epoch;
        return true;
    }
    if (record->kind == JOURNAL_LIFE) {
        raise_to(&ledger->life, record->life);
        return true;
    }
    if (record->kind == JOURNAL_SEQ) {
        return apply_seq(ledger, record);
    }
    struct ledger_group *group = ledger_find(ledger, record->group);
    return group != NULL && apply_group(group, record);
}

/* Walks the records of a snapshot: each want() is one record, the index-th one is written. */
struct walk {
    uint32_t index;
    uint32_t at;
    struct journal_record *out;
};

static bool want(struct walk *walk, enum journal_kind kind, const char *group)
{
    if (walk->at++ != walk->index) {
        return false;
    }
    memset(walk->out, 0, sizeof *walk->out);
    walk->out->kind = kind;
    return baton_text_copy(walk->out->group, sizeof walk->out->group, group);
}

static bool snapshot_outcomes(const struct ledger_group *group, struct walk *walk)
{
    const char *name = group->config->name;
    for (uint32_t i = 0; i < group->outcomes_count; i++) {
        const struct ledger_outcome *outcome = &group->outcomes[i];
        if (want(walk, JOURNAL_OUTCOME, name)) {
            walk->out->outcome.record = outcome->record;
            walk->out->outcome.needs_ticket = group->needs_ticket && i + 1 == group->outcomes_count;
            return true;
        }
        if (outcome->stored && want(walk, JOURNAL_OUTCOME_STORED, name)) {
            memcpy(walk->out->ticket_uid, outcome->record.ticket_uid, sizeof walk->out->ticket_uid);
            return true;
        }
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (group->taints[i][0] != '\0' && want(walk, JOURNAL_TAINT, name)) {
            memcpy(walk->out->taint.engine, group->config->engines[i].name,
                   sizeof walk->out->taint.engine);
            memcpy(walk->out->taint.incarnation, group->taints[i],
                   sizeof walk->out->taint.incarnation);
            return true;
        }
    }
    return false;
}

static void fill_commit(const struct ledger_group *group, struct journal_record *out)
{
    out->commit.version = group->committed;
    out->commit.level = group->level;
    out->commit.members = group->members;
    out->commit.salted = group->salted;
}

static bool snapshot_open_ticket(const struct ledger_group *group, struct walk *walk)
{
    if (!group->open) {
        return false;
    }
    if (want(walk, JOURNAL_ACCEPT, group->config->name)) {
        walk->out->accept.ticket = group->ticket;
        walk->out->accept.members = group->ticket_members;
        return true;
    }
    if (group->barrier != JOURNAL_BARRIER_NONE &&
        want(walk, JOURNAL_BARRIER, group->config->name)) {
        memcpy(walk->out->barrier.ticket_uid, group->ticket.uid,
               sizeof walk->out->barrier.ticket_uid);
        walk->out->barrier.mark = group->barrier;
        return true;
    }
    if (group->step > 0 &&
        want(walk, group->live ? JOURNAL_LIVE_INTENT : JOURNAL_INTENT, group->config->name)) {
        memcpy(walk->out->intent.ticket_uid, group->ticket.uid,
               sizeof walk->out->intent.ticket_uid);
        walk->out->intent.step = group->step;
        walk->out->intent.from = group->ticket.from;
        walk->out->intent.to = group->ticket.to;
        return true;
    }
    if (group->ticket_committed && want(walk, JOURNAL_COMMIT, group->config->name)) {
        fill_commit(group, walk->out);
        memcpy(walk->out->commit.ticket_uid, group->ticket.uid,
               sizeof walk->out->commit.ticket_uid);
        return true;
    }
    return false;
}

/* COMMIT comes before OUTCOME, which may take the trust in it away again (needs_ticket). */
static bool snapshot_group(const struct ledger_group *group, struct walk *walk)
{
    if (want(walk, JOURNAL_FLOORS, group->config->name)) {
        walk->out->floors.ticket_number = group->highest_ticket;
        walk->out->floors.owner_term = group->owner_term;
        return true;
    }
    if (group->operated != AGENT_VERB_STATUS && want(walk, JOURNAL_OPERATE, group->config->name)) {
        /* A detach that was lifted by a higher owner term must not come back. */
        bool lifted = group->operated == AGENT_VERB_DETACH && !group->detached;
        walk->out->operate.verb = lifted ? AGENT_VERB_RESUME : group->operated;
        walk->out->operate.wall_ns = group->operated_wall_ns;
        memcpy(walk->out->operate.by, group->operated_by, sizeof group->operated_by);
        return true;
    }
    if (group->committed.seq != 0 && want(walk, JOURNAL_COMMIT, group->config->name)) {
        fill_commit(group, walk->out);
        return true;
    }
    if (snapshot_outcomes(group, walk)) {
        return true;
    }
    if (group->sleep != JOURNAL_SLEEP_NONE && want(walk, JOURNAL_SLEEP, group->config->name)) {
        walk->out->sleep.mark = group->sleep;
        walk->out->sleep.members = group->sleep_members;
        return true;
    }
    return snapshot_open_ticket(group, walk);
}

bool ledger_snapshot(const struct ledger *ledger, uint32_t index, struct journal_record *out)
{
    struct walk walk = { index, 0, out };
    if (want(&walk, JOURNAL_INCARNATION, "")) {
        memcpy(out->incarnation, ledger->incarnation, sizeof out->incarnation);
        return true;
    }
    if (want(&walk, JOURNAL_EPOCH, "")) {
        out->epoch = ledger->epoch;
        return true;
    }
    if (ledger->life != 0 && want(&walk, JOURNAL_LIFE, "")) {
        out->life = ledger->life;
        return true;
    }
    for (uint32_t i = 0; i < ledger->seqs_count; i++) {
        if (want(&walk, JOURNAL_SEQ, "")) {
            memcpy(out->seq.model, ledger->seqs[i].model, sizeof out->seq.model);
            out->seq.version = ledger->seqs[i].version;
            return true;
        }
    }
    for (uint32_t i = 0; i < ledger->groups_count; i++) {
        if (snapshot_group(&ledger->groups[i], &walk)) {
            return true;
        }
    }
    return false;
}
