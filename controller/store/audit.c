/* audit.c -- see audit.h: one pass gathers names and models, a second one asks. */
#include "controller/store/audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "controller/store/audit_names.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"

enum { TEXT_BYTES = 256 };

/* Of a model, what its other records are compared with. */
struct facts {
    char name[BATON_NAME_BYTES];
    uint64_t newest_seq;
    uint64_t active_roll;
    uint64_t last_roll_number;
};

struct audit {
    const struct store_start *start;
    audit_finding_fn finding;
    void *context;
    struct audit_report report;
    struct names names;
    struct facts models[BATON_MODELS_MAX];
    size_t models_count;
    uint64_t counts[RECORD_KINDS_END];
    uint64_t last_event;
    char object[RECORD_WORD_BYTES + RECORD_KEY_BYTES]; /* At hand. */
};

BATON_PRINTF(3, 4)
static void found(struct audit *audit, const char *field, const char *fmt, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    audit->report.findings++;
    audit->finding(audit->context, audit->object, field, text);
}

typedef unsigned long long big;

/* --- the first pass --- */

static void gather_model(struct audit *audit, const struct model_record *model)
{
    names_add(&audit->names, "model", model->name);
    if (audit->models_count < BATON_MODELS_MAX) {
        struct facts *facts = &audit->models[audit->models_count++];
        memcpy(facts->name, model->name, sizeof(facts->name));
        facts->newest_seq = model->newest_seq;
        facts->active_roll = model->active_roll;
        facts->last_roll_number = model->last_roll_number;
    }
}

static struct baton_status gather(void *context, const char *word, const char *key,
                                  const char *text)
{
    struct audit *audit = context;
    enum record_kind kind = RECORD_KINDS_END;
    union record_body body;
    audit->report.records++;
    if (!record_kind_find(word, &kind)) {
        return baton_status_ok();
    }
    audit->counts[kind]++;
    struct baton_status st = record_decode(kind, key, text, &body);
    if (!baton_ok(&st)) {
        return baton_status_ok(); /* The second pass says so. */
    }
    if (kind == RECORD_MODEL) {
        gather_model(audit, &body.model);
    } else if (kind == RECORD_VERSION && body.version.seq != 0) {
        names_add_number(&audit->names, "version", body.version.model, body.version.seq);
    } else if (kind == RECORD_ROLL) {
        names_add_number(&audit->names, "roll", body.roll.model, body.roll.number);
    } else if (kind == RECORD_AGENT) {
        names_add(&audit->names, "agent", body.agent.name);
    }
    return baton_status_ok();
}

/* --- the second pass --- */

static const struct facts *facts_of(const struct audit *audit, const char *model)
{
    for (size_t i = 0; i < audit->models_count; i++) {
        if (strcmp(audit->models[i].name, model) == 0) {
            return &audit->models[i];
        }
    }
    return NULL;
}

/* The model, which must be there. */
static const struct facts *need_model(struct audit *audit, const char *name)
{
    const struct facts *facts = facts_of(audit, name);
    if (facts == NULL && names_count(&audit->names, "model", name) == 0) {
        found(audit, "model", "there is no model %s", name);
    }
    return facts;
}

/* The version, if one is named. */
static void need_version(struct audit *audit, const char *field, const char *model, uint64_t seq)
{
    if (seq != 0 && names_count_number(&audit->names, "version", model, seq) == 0) {
        found(audit, field, "there is no version %llu of model %s", (big)seq, model);
    }
}

static void not_above(struct audit *audit, const char *field, uint64_t value, uint64_t limit,
                      const char *whose)
{
    if (value > limit) {
        found(audit, field, "%llu is above %s, %llu", (big)value, whose, (big)limit);
    }
}

static void check_revision(struct audit *audit, uint64_t revision)
{
    not_above(audit, "revision", revision, audit->start->revision, "the store's");
}

static void check_epoch(struct audit *audit, const char *field, const struct epoch *epoch)
{
    const struct epoch *now = &audit->start->epoch;
    bool later = epoch->generation > now->generation ||
                 (epoch->generation == now->generation && epoch->n > now->n);
    if (later) {
        found(audit, field, "%llu/%llu is above the store's, %llu/%llu", (big)epoch->generation,
              (big)epoch->n, (big)now->generation, (big)now->n);
    }
}

static void check_cluster(struct audit *audit, const struct cluster_record *cluster)
{
    not_above(audit, "generation", cluster->generation, audit->start->epoch.generation,
              "the store's");
    if (cluster->importing[0] != '\0') {
        found(audit, "importing", "the import of archive %s was cut off; import it again",
              cluster->importing);
    }
}

static void check_model(struct audit *audit, const struct model_record *model)
{
    check_revision(audit, model->revision);
    not_above(audit, "newestSeq", model->newest_seq, model->seq_floor, "seqFloor");
    not_above(audit, "promotedSeq", model->promoted_seq, model->newest_seq, "newestSeq");
    not_above(audit, "activeRoll", model->active_roll, model->last_roll_number, "lastRollNumber");
    need_version(audit, "newestSeq", model->name, model->newest_seq);
    need_version(audit, "promotedSeq", model->name, model->promoted_seq);
    need_version(audit, "previousPromotedSeq", model->name, model->previous_promoted_seq);
    if (model->active_roll != 0 &&
        names_count_number(&audit->names, "roll", model->name, model->active_roll) == 0) {
        found(audit, "activeRoll", "there is no roll %llu", (big)model->active_roll);
    }
}

static void check_version(struct audit *audit, const struct version_record *version)
{
    const struct facts *model = need_model(audit, version->model);
    bool published = version->state == VERSION_STATE_PUBLISHED;
    check_revision(audit, version->revision);
    if (published != (version->seq != 0)) {
        found(audit, "seq", "%llu, and it is %s", (big)version->seq,
              published ? "published" : "not published");
    }
    if (published && version->digest[0] == '\0') {
        found(audit, "digest", "published without one");
    }
    if (model != NULL) {
        not_above(audit, "seq", version->seq, model->newest_seq, "its model's newestSeq");
    }
    if (version->seq != 0 &&
        names_count_number(&audit->names, "version", version->model, version->seq) > 1) {
        found(audit, "seq", "model %s has another version %llu", version->model, (big)version->seq);
    }
    if (version->seq != 0 && version->parent_seq >= version->seq) {
        found(audit, "parentSeq", "%llu is not before it", (big)version->parent_seq);
    }
}

static void check_roll(struct audit *audit, const struct roll_record *roll)
{
    const struct facts *model = need_model(audit, roll->model);
    bool runs = roll->ended_wall_ns == 0;
    check_revision(audit, roll->revision);
    if (model != NULL) {
        not_above(audit, "number", roll->number, model->last_roll_number,
                  "its model's lastRollNumber");
    }
    if (model != NULL && runs && model->active_roll != roll->number) {
        found(audit, "endedWallNs", "it has not ended, and its model's active roll is %llu",
              (big)model->active_roll);
    }
    if (runs) {
        need_version(audit, "toSeq", roll->model, roll->to_seq);
    }
}

static void check_ticket(struct audit *audit, const struct group_record *group)
{
    const struct ticket_record *ticket = &group->ticket;
    if (ticket->number != group->ticket_number) {
        found(audit, "ticket.number", "%llu, and the group's last one is %llu", (big)ticket->number,
              (big)group->ticket_number);
    }
    check_epoch(audit, "ticket.epoch", &ticket->epoch);
    need_version(audit, "ticket.fromSeq", group->model, ticket->from_seq);
    need_version(audit, "ticket.toSeq", group->model, ticket->to_seq);
}

/* A group may come before its model; it has no target then. */
static void check_group(struct audit *audit, const struct group_record *group)
{
    check_revision(audit, group->revision);
    if (group->retired) {
        return;
    }
    if (group->target_seq != 0 || group->ticket_open) {
        (void)need_model(audit, group->model);
    }
    if (names_count(&audit->names, "agent", group->agent) == 0) {
        found(audit, "agent", "there is no agent %s", group->agent);
    }
    need_version(audit, "targetSeq", group->model, group->target_seq);
    if (!group->returning && !group->as_new) { /* What it committed before may have been dropped. */
        need_version(audit, "committedSeq", group->model, group->committed_seq);
    }
    if (group->ticket_open) {
        check_ticket(audit, group);
    }
}

static void check_staleness(struct audit *audit, const struct staleness_record *staleness)
{
    (void)need_model(audit, staleness->model);
    for (uint32_t i = 0; i < staleness->lineage.jumps_count; i++) {
        const struct lineage_jump *jump = &staleness->lineage.jumps[i];
        if (jump->parent >= jump->seq) {
            found(audit, "lineage.jumps", "%llu is not before %llu", (big)jump->parent,
                  (big)jump->seq);
        }
    }
}

static void check_lease(struct audit *audit, const char *model, uint64_t seq)
{
    const struct facts *facts = need_model(audit, model);
    if (facts != NULL) {
        not_above(audit, "seq", seq, facts->newest_seq, "its model's newestSeq");
    }
}

static void check_body(struct audit *audit, enum record_kind kind, const union record_body *body)
{
    switch (kind) {
    case RECORD_CLUSTER: check_cluster(audit, &body->cluster); return;
    case RECORD_MODEL: check_model(audit, &body->model); return;
    case RECORD_VERSION: check_version(audit, &body->version); return;
    case RECORD_ROLL: check_roll(audit, &body->roll); return;
    case RECORD_GROUP: check_group(audit, &body->group); return;
    case RECORD_AGENT: check_revision(audit, body->agent.revision); return;
    case RECORD_STALENESS: check_staleness(audit, &body->staleness); return;
    case RECORD_SWAP: (void)need_model(audit, body->swap.model); return;
    case RECORD_SERIES: (void)need_model(audit, body->series.model); return;
    case RECORD_SESSION_LEASE:
        check_lease(audit, body->session_lease.model, body->session_lease.seq);
        return;
    case RECORD_SLOT_LEASE:
        check_lease(audit, body->slot_lease.model, body->slot_lease.seq);
        return;
    case RECORD_REQUEST:
    case RECORD_KINDS_END: return;
    }
}

/* "stored group g0: held: neither true nor false": the field and what follows. */
static void found_damaged(struct audit *audit, const struct baton_status *st, const char *key)
{
    char field[64] = "";
    const char *at = strstr(st->message, key);
    at = at == NULL ? NULL : strstr(at + strlen(key), ": ");
    const char *colon = at == NULL ? NULL : strstr(at + 2, ": ");
    if (colon == NULL) {
        found(audit, "body", "%s", st->message);
        return;
    }
    (void)snprintf(field, sizeof(field), "%.*s", (int)(colon - at - 2), at + 2);
    found(audit, field, "%s", colon + 2);
}

static struct baton_status ask(void *context, const char *word, const char *key, const char *text)
{
    struct audit *audit = context;
    enum record_kind kind = RECORD_KINDS_END;
    union record_body body;
    char own[RECORD_KEY_BYTES];
    (void)snprintf(audit->object, sizeof(audit->object), "%.40s/%.150s", word, key);
    if (!record_kind_find(word, &kind)) {
        found(audit, "recordKind", "this build knows no such kind");
        return baton_status_ok();
    }
    struct baton_status st = record_decode(kind, key, text, &body);
    if (!baton_ok(&st)) {
        found_damaged(audit, &st, key);
        return baton_status_ok();
    }
    record_key((struct record_ref){ kind, &body }, own);
    if (strcmp(own, key) != 0) {
        found(audit, "key", "the record is %s", own);
    }
    check_body(audit, kind, &body);
    return baton_status_ok();
}

/* --- the whole --- */

static void event(void *context, const struct log_entry *entry)
{
    struct audit *audit = context;
    (void)snprintf(audit->object, sizeof(audit->object), "event/%llu", (big)entry->number);
    if (entry->number <= audit->last_event) {
        found(audit, "number", "behind number %llu", (big)audit->last_event);
    }
    if (entry->number >= audit->start->log_next_number) {
        found(audit, "number", "the next one is to be %llu", (big)audit->start->log_next_number);
    }
    audit->last_event = entry->number;
    audit->report.events++;
}

static void check_counts(struct audit *audit)
{
    static const struct {
        enum record_kind kind;
        uint64_t limit;
    } limits[] = {
        { RECORD_CLUSTER, 1 },
        { RECORD_MODEL, BATON_MODELS_MAX },
        { RECORD_VERSION, BATON_VERSIONS_MAX },
        { RECORD_ROLL, BATON_ROLLS_MAX },
        { RECORD_GROUP, BATON_GROUPS_MAX },
        { RECORD_AGENT, BATON_AGENTS_MAX },
        { RECORD_REQUEST, BATON_REQUEST_IDS_MAX },
        { RECORD_STALENESS, BATON_MODELS_MAX },
        { RECORD_SWAP, BATON_SWAPS_MAX },
        { RECORD_SESSION_LEASE, BATON_SESSIONS_MAX },
        { RECORD_SLOT_LEASE, BATON_SLOT_LEASES_MAX },
    };
    (void)snprintf(audit->object, sizeof(audit->object), "store");
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        uint64_t count = audit->counts[limits[i].kind];
        if (count > limits[i].limit) {
            found(audit, record_kind_word(limits[i].kind), "%llu of them, and the limit is %llu",
                  (big)count, (big)limits[i].limit);
        }
    }
    if (audit->report.records > 0 && audit->counts[RECORD_CLUSTER] == 0) {
        found(audit, "cluster", "there are records, but none of the cluster");
    }
}

static struct baton_status run(struct audit *audit, struct store *reader)
{
    struct baton_status st = store_scan(reader, gather, audit);
    if (baton_ok(&st) && audit->names.failed) {
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NONE, "out of memory");
    }
    if (!baton_ok(&st)) {
        return st;
    }
    names_sort(&audit->names);
    check_counts(audit);
    st = store_scan(reader, ask, audit);
    if (!baton_ok(&st)) {
        return st;
    }
    st = store_list_log(reader, 0, UINT32_MAX, event, audit);
    if (st.code == BATON_DATA_LOSS && st.reason == BATON_REASON_MALFORMED) {
        (void)snprintf(audit->object, sizeof(audit->object), "events behind %llu",
                       (big)audit->last_event);
        found(audit, "body", "%s", st.message);
        st = baton_status_ok();
    }
    return st;
}

struct baton_status store_audit(struct store *reader, const struct store_start *start,
                                audit_finding_fn finding, void *context, struct audit_report *out)
{
    struct audit audit = { .start = start, .finding = finding, .context = context };
    struct baton_status st = run(&audit, reader);
    names_free(&audit.names);
    *out = audit.report;
    return st;
}
