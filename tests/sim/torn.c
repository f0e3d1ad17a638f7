/* torn.c -- commits that the store takes in parts, as controller/store/etcd_redo.c does; see world.h.
 *
 * One mark decides such a commit; its parts are applied afterwards.  The disk shows it as decided: what
 * is not applied yet is kept here, for whoever would read it.  The next leader finishes it first. */
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "api/base/mutant.h"
#include "controller/store/record_fields.h"
#include "tests/sim/check.h"
#include "tests/sim/cover.h"

/* What one operation of it changes. */
struct was {
    enum record_kind kind;
    char key[RECORD_KEY_BYTES];
    bool existed;
    union record_body body;
};

struct torn {
    struct epoch epoch; /* Of the leader that applies it ... */
    uint32_t head;
    uint64_t began_ns;
    uint64_t step_ns;    /* ... one part each. */
    uint64_t stopped_ns; /* It is gone. */
    size_t parts;
    size_t count;
    struct was was[];
};

void torn_forget(struct world *world)
{
    free(world->torn);
    world->torn = NULL;
}

void torn_begin(struct world *world, const struct head *head, const struct transaction *transaction,
                uint64_t span_ns)
{
    torn_forget(world);
    struct torn *torn = calloc(1, sizeof(*torn) + transaction->ops_count * sizeof(struct was));
    baton_assert(torn != NULL);
    torn->epoch = head->epoch;
    torn->head = head->index;
    torn->parts = 2 + world_below(&world->random, transaction->ops_count - 1);
    torn->began_ns = world->now_ns;
    torn->step_ns = span_ns / torn->parts + 1;
    torn->stopped_ns = UINT64_MAX;
    torn->count = transaction->ops_count;
    for (size_t i = 0; i < torn->count; i++) {
        const struct record_op *op = &transaction->ops[i];
        const void *body = disk_find(&world->disk, op->record.kind, op->key);
        struct was *was = &torn->was[i];
        was->kind = op->record.kind;
        (void)baton_text_copy(was->key, sizeof(was->key), op->key);
        was->existed = body != NULL;
        if (body != NULL) {
            memcpy(&was->body, body, record_fields(was->kind)->struct_bytes);
        }
    }
    world->torn = torn;
}

/* Operations that are applied by now. */
static size_t applied(const struct world *world, const struct torn *torn)
{
    uint64_t now_ns = torn->stopped_ns < world->now_ns ? torn->stopped_ns : world->now_ns;
    uint64_t steps = (now_ns - torn->began_ns) / torn->step_ns;
    return steps >= torn->parts ? torn->count : torn->count * (size_t)steps / torn->parts;
}

void torn_stop(struct world *world, const struct head *head)
{
    struct torn *torn = world->torn;
    bool ours = torn != NULL && torn->head == head->index &&
                torn->epoch.generation == head->epoch.generation && torn->epoch.n == head->epoch.n;
    if (ours && torn->stopped_ns > world->now_ns) {
        torn->stopped_ns = world->now_ns;
    }
}

void torn_finish(struct world *world, bool next_leader)
{
    struct torn *torn = world->torn;
    if (torn == NULL || (next_leader && MUTANT(TORN_READ))) {
        return;
    }
    if (applied(world, torn) < torn->count) {
        cover(COVER_DELIVERY, next_leader ? DELIVERY_TORN_INHERITED : DELIVERY_TORN_RESUMED);
        tell(world, "a decided commit is finished: %zu of %zu records were applied",
             applied(world, torn), torn->count);
    } else {
        cover(COVER_DELIVERY, DELIVERY_TORN);
    }
    torn_forget(world);
}

const void *torn_read(const struct world *world, const struct kept_record *kept)
{
    const struct torn *torn = world->torn;
    for (size_t i = torn != NULL ? applied(world, torn) : 0; torn != NULL && i < torn->count; i++) {
        const struct was *was = &torn->was[i];
        if (was->kind == kept->kind && strcmp(was->key, kept->key) == 0) {
            return was->existed ? &was->body : NULL;
        }
    }
    return &kept->body;
}
