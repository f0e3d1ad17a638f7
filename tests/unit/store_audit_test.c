/* store_audit_test.c -- each thing that may not hold is found, with record and field; a sound store has none. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "controller/store/audit.h"

enum { LINES_BYTES = 4096, OPS_MAX = 16 };

/* A model with two versions, a roll that runs, a group with an open ticket, and what belongs to them. */
struct world {
    struct cluster_record cluster;
    struct model_record model;
    struct version_record versions[2];
    struct roll_record roll;
    struct agent_record agent;
    struct group_record group;
    struct staleness_record staleness;
    struct history_record swap;
    struct session_lease_record lease;
    struct log_entry events[2];
    struct store_start start;
};

static struct world world_of_one(void)
{
    struct world w = {
        .cluster = { .generation = 5 },
        .model = { .name = "m",
                   .revision = 9,
                   .newest_seq = 2,
                   .seq_floor = 2,
                   .promoted_seq = 1,
                   .active_roll = 4,
                   .last_roll_number = 4 },
        .versions = { { .uid = "u1", .model = "m", .seq = 1, .digest = "d1" },
                      { .uid = "u2", .model = "m", .seq = 2, .digest = "d2", .parent_seq = 1 } },
        .roll = { .model = "m", .number = 4, .to_seq = 2, .state = ROLL_STATE_PROGRESSING },
        .agent = { .name = "a" },
        .group = { .name = "g",
                   .model = "m",
                   .agent = "a",
                   .committed_seq = 1,
                   .target_seq = 2,
                   .ticket_number = 3,
                   .ticket_open = true,
                   .ticket = { .number = 3, .epoch = { 5, 1 }, .from_seq = 1, .to_seq = 2 } },
        .staleness = { .model = "m",
                       .lineage = { .base_seq = 1, .jumps_count = 1, .jumps = { { 2, 1 } } } },
        .swap = { .group = "g", .model = "m" },
        .lease = { .model = "m", .name = "s", .seq = 2 },
        .events = { { .number = 1 }, { .number = 2 } },
        .start = { .epoch = { 5, 1 }, .revision = 10, .log_next_number = 3 },
    };
    w.versions[0].state = VERSION_STATE_PUBLISHED;
    w.versions[1].state = VERSION_STATE_PUBLISHED;
    return w;
}

static struct record_op put(enum record_kind kind, const void *body)
{
    struct record_op op = { .record = { kind, body } };
    record_key(op.record, op.key);
    return op;
}

struct findings {
    char lines[LINES_BYTES];
    struct audit_report report;
};

static void note(void *context, const char *object, const char *field, const char *text)
{
    struct findings *findings = context;
    size_t used = strlen(findings->lines);
    (void)snprintf(findings->lines + used, LINES_BYTES - used, "%s: %s: %s\n", object, field, text);
}

static struct findings audit_ops(const struct world *w, const struct record_op *ops, size_t count)
{
    struct findings findings = { .lines = "" };
    struct store *store = NULL;
    struct store_start start;
    struct baton_status st = store_open("memory:", 0, &store);
    cr_assert(baton_ok(&st));
    st = store_acquire_epoch(store, &start);
    cr_assert(baton_ok(&st));
    struct transaction transaction = { .epoch = start.epoch,
                                       .revision = 1,
                                       .ops = ops,
                                       .ops_count = count,
                                       .entries = w->events,
                                       .entries_count = 2 };
    st = store_commit(store, &transaction);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = store_audit(store, &w->start, note, &findings, &findings.report);
    cr_assert(baton_ok(&st), "%s", st.message);
    store_close(store);
    return findings;
}

static struct findings audit(const struct world *w)
{
    const struct record_op ops[] = {
        put(RECORD_CLUSTER, &w->cluster),     put(RECORD_MODEL, &w->model),
        put(RECORD_VERSION, &w->versions[0]), put(RECORD_VERSION, &w->versions[1]),
        put(RECORD_ROLL, &w->roll),           put(RECORD_AGENT, &w->agent),
        put(RECORD_GROUP, &w->group),         put(RECORD_STALENESS, &w->staleness),
        put(RECORD_SWAP, &w->swap),           put(RECORD_SESSION_LEASE, &w->lease),
    };
    return audit_ops(w, ops, sizeof(ops) / sizeof(ops[0]));
}

Test(audit, a_sound_store_has_no_findings)
{
    struct world w = world_of_one();
    struct findings findings = audit(&w);
    cr_assert_str_empty(findings.lines);
    cr_assert_eq(findings.report.records, 10);
    cr_assert_eq(findings.report.events, 2);
}

static void no_target(struct world *w)
{
    w->group.target_seq = 7;
}
static void no_committed(struct world *w)
{
    w->group.committed_seq = 8;
}
static void no_ticket_version(struct world *w)
{
    w->group.ticket.to_seq = 9;
}
static void other_ticket(struct world *w)
{
    w->group.ticket.number = 2;
}
static void later_epoch(struct world *w)
{
    w->group.ticket.epoch.n = 2;
}
static void no_agent(struct world *w)
{
    strcpy(w->group.agent, "b");
}
static void no_model(struct world *w)
{
    strcpy(w->group.model, "x");
}
static void same_seq(struct world *w)
{
    w->versions[0].seq = 2;
}
static void later_parent(struct world *w)
{
    w->versions[1].parent_seq = 2;
}
static void seq_of_open(struct world *w)
{
    w->versions[0].state = VERSION_STATE_OPEN;
}
static void above_newest(struct world *w)
{
    w->versions[1].seq = 3;
}
static void above_floor(struct world *w)
{
    w->model.seq_floor = 1;
}
static void no_promoted(struct world *w)
{
    w->versions[0].seq = 0;
}
static void later_revision(struct world *w)
{
    w->model.revision = 11;
}
static void no_roll(struct world *w)
{
    w->model.active_roll = 3;
}
static void roll_above(struct world *w)
{
    w->model.last_roll_number = 3;
}
static void old_generation(struct world *w)
{
    w->start.epoch.generation = 4;
}
static void unfinished(struct world *w)
{
    strcpy(w->cluster.importing, "abc");
}
static void lineage(struct world *w)
{
    w->staleness.lineage.jumps[0].parent = 2;
}
static void lease_above(struct world *w)
{
    w->lease.seq = 5;
}
static void no_swap_model(struct world *w)
{
    strcpy(w->swap.model, "y");
}
static void event_behind(struct world *w)
{
    w->start.log_next_number = 2;
}

Test(audit, each_fault_is_found)
{
    static const struct {
        void (*harm)(struct world *);
        const char *says;
    } rows[] = {
        { no_target, "group/g: targetSeq: there is no version 7 of model m\n" },
        { no_committed, "group/g: committedSeq: there is no version 8" },
        { no_ticket_version, "group/g: ticket.toSeq: there is no version 9" },
        { other_ticket, "group/g: ticket.number: 2, and the group's last one is 3" },
        { later_epoch, "group/g: ticket.epoch: 5/2 is above the store's, 5/1" },
        { no_agent, "group/g: agent: there is no agent b" },
        { no_model, "group/g: model: there is no model x" },
        { same_seq, "version/u1: seq: model m has another version 2" },
        { later_parent, "version/u2: parentSeq: 2 is not before it" },
        { seq_of_open, "version/u1: seq: 1, and it is not published" },
        { above_newest, "version/u2: seq: 3 is above its model's newestSeq, 2" },
        { above_floor, "model/m: newestSeq: 2 is above seqFloor, 1" },
        { no_promoted, "model/m: promotedSeq: there is no version 1" },
        { later_revision, "model/m: revision: 11 is above the store's, 10" },
        { no_roll, "model/m: activeRoll: there is no roll 3" },
        { roll_above, "roll/m/4: number: 4 is above its model's lastRollNumber, 3" },
        { old_generation, "cluster/cluster: generation: 5 is above the store's, 4" },
        { unfinished, "cluster/cluster: importing: the import of archive abc was cut off" },
        { lineage, "staleness/m: lineage.jumps: 2 is not before 2" },
        { lease_above, "sessionLease/m/s: seq: 5 is above its model's newestSeq, 2" },
        { no_swap_model, "swap/g/0: model: there is no model y" },
        { event_behind, "event/2: number: the next one is to be 2" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct world w = world_of_one();
        rows[i].harm(&w);
        struct findings findings = audit(&w);
        cr_assert_not_null(strstr(findings.lines, rows[i].says), "row %zu: %s\n%s", i, rows[i].says,
                           findings.lines);
        cr_assert_gt(findings.report.findings, 0);
    }
}

/* What the record itself says may be gone is not missed. */
Test(audit, what_may_be_gone_is_no_finding)
{
    struct world w = world_of_one();
    w.group.retired = true;
    w.group.committed_seq = 70;
    w.group.target_seq = 70;
    strcpy(w.group.agent, "gone");
    w.model.active_roll = 0;
    w.roll.ended_wall_ns = 1;
    w.roll.to_seq = 70;
    w.versions[0].parent_seq = 0;
    struct findings findings = audit(&w);
    cr_assert_str_empty(findings.lines);
    w = world_of_one();
    w.group.as_new = true;
    w.group.committed_seq = 70;
    findings = audit(&w);
    cr_assert_str_empty(findings.lines);
}

/* A group may be there before its model. */
Test(audit, a_group_without_its_model)
{
    struct world w = world_of_one();
    struct group_record group = { .name = "g", .model = "later", .agent = "a" };
    const struct record_op ops[] = { put(RECORD_CLUSTER, &w.cluster), put(RECORD_AGENT, &w.agent),
                                     put(RECORD_GROUP, &group) };
    struct findings findings = audit_ops(&w, ops, 3);
    cr_assert_str_empty(findings.lines);
}

Test(audit, a_wrong_key_and_no_cluster)
{
    struct world w = world_of_one();
    struct record_op op = put(RECORD_AGENT, &w.agent);
    strcpy(op.key, "b");
    struct findings findings = audit_ops(&w, &op, 1);
    cr_assert_not_null(strstr(findings.lines, "agent/b: key: the record is a\n"));
    cr_assert_not_null(strstr(findings.lines, "store: cluster: there are records"));
}

Test(audit, more_than_a_controller_takes)
{
    enum { MODELS = BATON_MODELS_MAX + 1 };
    static struct model_record models[MODELS];
    static struct record_op ops[MODELS];
    struct world w = world_of_one();
    for (int i = 0; i < MODELS; i++) {
        (void)snprintf(models[i].name, sizeof(models[i].name), "m%d", i);
        ops[i] = put(RECORD_MODEL, &models[i]);
    }
    struct findings findings = audit_ops(&w, ops, MODELS);
    cr_assert_not_null(strstr(findings.lines, "store: model: 65 of them, and the limit is 64"),
                       "%s", findings.lines);
}
