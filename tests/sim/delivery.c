/* delivery.c -- a commit on its way to the store: at once, slowly, late, twice, never; its answer lost.
 *
 * The store is synchronous for the core, and far away in truth: between a commit and its answer time
 * passes, the controller may die or be deposed, and the request is still on its way. */
#include <stdlib.h>
#include <string.h>

#include "controller/store/record_fields.h"
#include "tests/sim/check.h"
#include "tests/sim/cover.h"

/* One block of memory with all that it points to. */
struct commit {
    struct head writer; /* As it was when it wrote. */
    uint64_t sent_ns;
    bool answers; /* Its writer hears of it. */
    bool again;   /* It came before. */
    struct transaction transaction;
};

struct way delivery_way(struct world *world, struct head *head)
{
    struct way way = head->way;
    const struct script *script = world->script;
    head->way = (struct way){ .fault = SF_NONE };
    world->writes++;
    if (script != NULL && script->at == world->writes) {
        way.fault = script->harm == HARM_STORE_FAILS  ? SF_REFUSED
                    : script->harm == HARM_STORE_LOST ? SF_LOST
                                                      : way.fault;
        world->struck |= way.fault == SF_REFUSED || way.fault == SF_LOST;
    }
    if (head_is_cut(world, head)) { /* It is told so, or its request goes nowhere. */
        cover(COVER_DELIVERY, head->deposed ? DELIVERY_DEPOSED_CUT : DELIVERY_AWAY);
        bool told = world_below(&world->random, 2) == 0;
        way = (struct way){ .fault = told ? SF_REFUSED : SF_UNDONE,
                            .ends_ns = told ? 0 : (1 + world_below(&world->random, 8)) * S };
    }
    return way;
}

/* The block that a request is kept in until it arrives. */
static struct commit *keep(const struct head *head, const struct transaction *from)
{
    size_t ops = from->ops_count * sizeof(struct record_op);
    size_t bodies = from->ops_count * sizeof(union record_body);
    size_t entries = from->entries_count * sizeof(struct log_entry);
    struct commit *commit = malloc(sizeof(*commit) + bodies + ops + entries);
    baton_assert(commit != NULL);
    union record_body *body = (union record_body *)(commit + 1);
    struct record_op *op = (struct record_op *)(body + from->ops_count);
    struct log_entry *entry = (struct log_entry *)(op + from->ops_count);
    *commit = (struct commit){ .writer = *head, .transaction = *from };
    commit->transaction.ops = op;
    commit->transaction.entries = entry;
    if (entries > 0) {
        memcpy(entry, from->entries, entries);
    }
    for (size_t i = 0; i < from->ops_count; i++) {
        op[i] = from->ops[i];
        if (!op[i].remove) {
            memcpy(&body[i], op[i].record.body, record_fields(op[i].record.kind)->struct_bytes);
            op[i].record.body = &body[i];
        }
    }
    return commit;
}

static void post(struct world *world, const struct head *head,
                 const struct transaction *transaction, const struct way *way)
{
    struct item *item = world_post(world, world->now_ns + way->arrives_ns, ITEM_COMMIT_ARRIVES, 0);
    struct commit *commit = keep(head, transaction);
    commit->sent_ns = world->now_ns;
    commit->answers = way->fault == SF_SLOW;
    commit->again = way->fault == SF_TWICE;
    item->payload = commit;
}

/* The request is at the store; 'writer' knows what it knew when it sent it. */
static enum commit_outcome arrive(struct world *world, struct head *writer,
                                  const struct transaction *transaction)
{
    bool counts = disk_is_at(&world->disk, transaction->epoch) &&
                  transaction->revision > world->disk.revision;
    if (counts) { /* Else nothing of it comes to be. */
        check_transaction(world, writer, transaction);
    }
    struct baton_status st = disk_commit(world, &world->disk, transaction);
    if (baton_ok(&st)) {
        check_committed(world, writer, transaction);
        return COMMIT_DONE;
    }
    return st.reason == BATON_REASON_STALE_EPOCH ? COMMIT_STALE : COMMIT_UNANSWERED;
}

/* In parts: those that are left are applied meanwhile, or by whoever comes next. */
static enum commit_outcome arrive_torn(struct world *world, struct head *head,
                                       const struct transaction *transaction, const struct way *way)
{
    if (!disk_is_at(&world->disk, transaction->epoch)) {
        return arrive(world, head, transaction);
    }
    torn_begin(world, head, transaction, way->arrives_ns);
    return arrive(world, head, transaction);
}

/* What becomes of the request; the outcome as the store has it. */
static enum commit_outcome route(struct world *world, struct head *head,
                                 const struct transaction *transaction, const struct way *way)
{
    enum commit_outcome outcome = COMMIT_UNANSWERED;
    if (disk_is_at(&world->disk, head->epoch)) {
        torn_finish(world, false); /* Before anything else. */
    }
    switch (way->fault) {
    case SF_SLOW:
    case SF_LATE: post(world, head, transaction, way); break;
    case SF_TORN: outcome = arrive_torn(world, head, transaction, way); break;
    case SF_PARTS: world->parts_left |= disk_is_at(&world->disk, head->epoch); break;
    case SF_TWICE:
        outcome = arrive(world, head, transaction);
        post(world, head, transaction, way);
        break;
    case SF_NONE:
    case SF_LOST: outcome = arrive(world, head, transaction); break;
    case SF_REFUSED:
    case SF_FULL:
    case SF_UNDONE: break;
    }
    return outcome;
}

static void wait_for_it(struct world *world, struct head *head, const struct way *way)
{
    tell(world, "controller %llu.%llu waits for its store",
         (unsigned long long)head->epoch.generation, (unsigned long long)head->epoch.n);
    head->waits = true;
    head->busy_until_ns = world->now_ns + way->ends_ns;
    if (way->ends_ns > CONTROLLER_LEASE_MS * MS) {
        cover(COVER_DELIVERY, DELIVERY_SLOW_LEASE);
    }
    world_post(world, head->busy_until_ns, ITEM_COMMIT_ENDS, head->index)->life = head->life;
    bool armed = way->fault == SF_LATE || way->fault == SF_TORN || way->fault == SF_PARTS;
    if (head->dies_waiting && armed) {
        uint64_t dies_ns = world->now_ns + world_below(&world->random, way->ends_ns);
        world_post(world, dies_ns, ITEM_HEAD_KILLED, head->index)->life = head->life;
    }
    head->dies_waiting = false;
}

bool delivery_send(struct world *world, struct head *head, const struct transaction *transaction,
                   const struct way *way)
{
    static const struct way plain = { .fault = SF_NONE };
    if (way->fault == SF_TORN && transaction->ops_count < 2) {
        head->way = *way; /* The next one will be larger. */
        way = &plain;
    }
    enum commit_outcome outcome = route(world, head, transaction, way);
    head->outcome = way->fault == SF_LOST ? COMMIT_UNANSWERED : outcome;
    if (way->fault == SF_LOST || way->fault == SF_UNDONE) {
        cover(COVER_DELIVERY,
              outcome == COMMIT_DONE ? DELIVERY_DONE_UNANSWERED : DELIVERY_UNDONE_UNANSWERED);
    }
    if (way->ends_ns == 0) {
        return true;
    }
    wait_for_it(world, head, way);
    return false;
}

/* What was known then is as old now as it was then. */
static void shift(struct head *writer, uint64_t by_ns)
{
    for (uint32_t i = 0; i < SIM_AGENTS; i++) {
        for (uint32_t g = 0; g < SIM_GROUPS; g++) {
            writer->known[i][g].heard_ns += by_ns;
        }
    }
}

static void count(const struct commit *commit, bool waits, enum commit_outcome outcome)
{
    enum cover_delivery what = commit->again            ? DELIVERY_TWICE
                               : outcome == COMMIT_DONE ? DELIVERY_LATE_DONE
                                                        : DELIVERY_LATE_REFUSED;
    if (waits && outcome == COMMIT_STALE) {
        what = DELIVERY_DEPOSED_MEANWHILE;
    } else if (waits) {
        what = DELIVERY_SLOW;
    }
    cover(COVER_DELIVERY, what);
}

void delivery_arrives(struct world *world, struct item *item)
{
    struct commit *commit = item->payload;
    struct head *head = &world->heads[commit->writer.index];
    bool waits = commit->answers && head->up && head->waits && head->life == commit->writer.life;
    uint64_t revision = world->disk.revision;
    shift(&commit->writer, world->now_ns - commit->sent_ns);
    enum commit_outcome outcome = arrive(world, &commit->writer, &commit->transaction);
    tell(world, "a commit of controller %llu.%llu arrives%s: %s",
         (unsigned long long)commit->transaction.epoch.generation,
         (unsigned long long)commit->transaction.epoch.n, commit->again ? " once more" : "",
         outcome == COMMIT_DONE ? "done" : "refused");
    if (commit->again && world->disk.revision != revision) {
        world_break(world, CHECK_STORE, "a commit that came twice was done twice");
    }
    count(commit, waits, outcome);
    if (waits) {
        head->outcome = outcome;
    }
}
