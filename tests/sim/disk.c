/* disk.c -- the controller's durable store: transactions, epochs, a backup. */
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "controller/store/backend.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"
#include "tests/sim/check.h"

void disk_free(struct disk *disk)
{
    free(disk->kept);
    disk->kept = NULL;
    disk->count = 0;
    disk->capacity = 0;
}

static void reserve(struct disk *disk, size_t count)
{
    if (count > disk->capacity) {
        disk->capacity = 2 * count + 32;
        disk->kept = realloc(disk->kept, disk->capacity * sizeof(struct kept_record));
        baton_assert(disk->kept != NULL);
    }
}

void disk_copy(struct disk *to, const struct disk *from)
{
    struct kept_record *kept = to->kept;
    size_t capacity = to->capacity;
    *to = *from;
    to->kept = kept;
    to->capacity = capacity;
    reserve(to, from->count);
    if (from->count > 0) {
        memcpy(to->kept, from->kept, from->count * sizeof(struct kept_record));
    }
}

static struct kept_record *find(const struct disk *disk, enum record_kind kind, const char *key)
{
    for (size_t i = 0; i < disk->count; i++) {
        if (disk->kept[i].kind == kind && strcmp(disk->kept[i].key, key) == 0) {
            return &disk->kept[i];
        }
    }
    return NULL;
}

const void *disk_find(const struct disk *disk, enum record_kind kind, const char *key)
{
    const struct kept_record *kept = find(disk, kind, key);
    return kept != NULL ? &kept->body : NULL;
}

static void apply(struct world *world, struct disk *disk, const struct record_op *op)
{
    struct kept_record *kept = find(disk, op->record.kind, op->key);
    if (op->remove) {
        if (kept == NULL) {
            world_break(world, CHECK_STORE, "%s is removed and was not stored", op->key);
            return;
        }
        disk->count--;
        *kept = disk->kept[disk->count];
        return;
    }
    if (kept == NULL) {
        reserve(disk, disk->count + 1);
        kept = &disk->kept[disk->count++];
        kept->kind = op->record.kind;
        (void)baton_text_copy(kept->key, sizeof(kept->key), op->key);
    }
    memcpy(&kept->body, op->record.body, record_fields(op->record.kind)->struct_bytes);
}

bool disk_is_at(const struct disk *disk, struct epoch epoch)
{
    return epoch.generation == disk->epoch.generation && epoch.n == disk->epoch.n;
}

struct baton_status disk_commit(struct world *world, struct disk *disk,
                                const struct transaction *transaction)
{
    struct baton_status st = store_check(disk->epoch, disk->revision, transaction);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!disk_is_at(disk, transaction->epoch)) {
        world_break(world, CHECK_FENCING, "a commit of epoch %llu.%llu is applied; %llu.%llu leads",
                    (unsigned long long)transaction->epoch.generation,
                    (unsigned long long)transaction->epoch.n,
                    (unsigned long long)disk->epoch.generation, (unsigned long long)disk->epoch.n);
    } else if (transaction->revision <= disk->revision) {
        world_break(world, CHECK_STORE, "a commit is applied twice");
    }
    if (!transaction->sync && transaction->ops_count > 0) {
        world_break(world, CHECK_STORE, "records are changed without being made durable");
    }
    for (size_t i = 0; i < transaction->ops_count; i++) {
        apply(world, disk, &transaction->ops[i]);
    }
    for (size_t i = 0; i < transaction->entries_count; i++) {
        if (transaction->entries[i].number != disk->log_next) {
            world_break(world, CHECK_STORE, "log entry %llu follows %llu",
                        (unsigned long long)transaction->entries[i].number,
                        (unsigned long long)disk->log_next - 1);
        }
        disk->log_next = transaction->entries[i].number + 1;
    }
    disk->revision = transaction->revision;
    disk->commits++;
    return baton_status_ok();
}

/* Through text and back, as in the real store: a member without a row in its tables shows. */
static bool recode(struct world *world, struct kept_record *kept)
{
    union record_body body;
    char *text = record_encode((struct record_ref){ kept->kind, &kept->body });
    struct baton_status st = record_decode(kept->kind, kept->key, text, &body);
    free(text);
    if (!baton_ok(&st)) {
        world_break(world, CHECK_STORE, "%s", st.message);
        return false;
    }
    if (memcmp(&body, &kept->body, record_fields(kept->kind)->struct_bytes) != 0) {
        world_break(world, CHECK_STORE, "record %s is not the same after the store's codec",
                    kept->key);
        return false;
    }
    return true;
}

bool disk_load(struct world *world, struct head *head)
{
    struct disk *disk = &world->disk;
    for (size_t i = 0; i < disk->count; i++) {
        if (world->use_codec && !recode(world, &disk->kept[i])) {
            return false;
        }
        struct event event = { .kind = EVENT_LOAD,
                               .now_ns = world->now_ns,
                               .wall_ns = world_wall_ns(world, head->skew_ns) };
        event.body.load.kind = disk->kept[i].kind;
        event.body.load.body = torn_read(world, &disk->kept[i]);
        if (event.body.load.body == NULL) {
            continue;
        }
        (void)controller_step(head->core, &event);
        struct baton_status st = controller_load_status(head->core);
        if (!baton_ok(&st)) {
            world_break(world, CHECK_STORE, "load of %s: %s", disk->kept[i].key, st.message);
            return false;
        }
    }
    return true;
}
