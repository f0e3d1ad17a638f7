/* archive.c -- see archive.h. */
#include "controller/store/archive.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"

/* Of one transaction: below what one request of etcd takes. */
enum { BATCH_RECORDS = 96, BATCH_EVENTS = 256 };

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NONE, "archive: out of memory");
}

/* --- export --- */

static struct baton_status export_record(void *context, struct record_ref record)
{
    return archive_write_record(context, record);
}

static void export_event(void *context, const struct log_entry *entry)
{
    struct baton_status st = archive_write_event(context, entry);
    (void)st; /* It stays in the writer; archive_write_end() gives it. */
}

struct baton_status store_export(struct store *reader, const struct archive_note *note, FILE *file,
                                 struct archive_report *out)
{
    struct archive_writer writer;
    struct archive_head head = { .archive_format = ARCHIVE_FORMAT,
                                 .epoch = note->start.epoch,
                                 .revision = note->start.revision,
                                 .log_next_number = note->start.log_next_number,
                                 .written_wall_ns = note->wall_ns };
    (void)baton_text_copy(head.software, sizeof(head.software), note->software);
    struct baton_status st = archive_write_head(&writer, file, &head);
    if (baton_ok(&st)) {
        st = store_load(reader, export_record, &writer);
    }
    if (baton_ok(&st)) {
        st = store_list_log(reader, 0, UINT32_MAX, export_event, &writer);
    }
    if (baton_ok(&st)) {
        st = archive_write_end(&writer);
    }
    if (baton_ok(&st)) {
        *out = (struct archive_report){ writer.end, head.epoch.generation };
    }
    return st;
}

/* --- import: what the archive holds --- */

struct found {
    struct archive_head head;
    struct archive_end end;
    uint64_t generation; /* The highest that anything in it names. */
    bool has_cluster;
    struct cluster_record cluster;
};

static void raise_to(uint64_t *number, uint64_t other)
{
    *number = other > *number ? other : *number;
}

static void look_at_record(struct found *found, const struct archive_line *line)
{
    if (line->record_kind == RECORD_CLUSTER) {
        found->has_cluster = true;
        found->cluster = line->body.record.cluster;
        raise_to(&found->generation, found->cluster.generation);
    } else if (line->record_kind == RECORD_GROUP && line->body.record.group.ticket_open) {
        raise_to(&found->generation, line->body.record.group.ticket.epoch.generation);
    }
}

/* Without it a controller would not see that the store went back. */
static struct baton_status check_cluster(const struct found *found)
{
    bool named = found->has_cluster && found->cluster.generation != 0;
    if (found->cluster.importing[0] != '\0') {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED,
                                 "archive: it is of a store whose own import was cut off");
    }
    if (found->end.records > 0 && !named) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                 "archive: it has records, but none of the cluster with its "
                                 "generation");
    }
    return baton_status_ok();
}

/* Reads all of it; nothing is believed before. */
static struct baton_status look_at(struct archive_reader *reader, struct found *out)
{
    const struct archive_line *line = NULL;
    struct baton_status st;
    *out = (struct found){ 0 };
    do {
        st = archive_read(reader, &line);
        if (!baton_ok(&st)) {
            return st;
        }
        if (line->kind == ARCHIVE_HEAD) {
            out->head = line->body.head;
            out->generation = out->head.epoch.generation;
        } else if (line->kind == ARCHIVE_RECORD) {
            look_at_record(out, line);
        }
    } while (line->kind != ARCHIVE_END);
    out->end = line->body.end;
    return check_cluster(out);
}

/* --- import: whether the store may be filled --- */

struct content {
    uint64_t records;
    char first[RECORD_WORD_BYTES + RECORD_KEY_BYTES];
    struct cluster_record cluster;
    uint64_t events;
};

static struct baton_status count_record(void *context, const char *kind, const char *key,
                                        const char *text)
{
    struct content *content = context;
    union record_body body;
    if (content->records++ == 0) {
        (void)snprintf(content->first, sizeof(content->first), "%.40s %.150s", kind, key);
    }
    if (strcmp(kind, record_kind_word(RECORD_CLUSTER)) == 0) {
        struct baton_status st = record_decode(RECORD_CLUSTER, key, text, &body);
        content->cluster = body.cluster;
        return st;
    }
    return baton_status_ok();
}

static void count_event(void *context, const struct log_entry *entry)
{
    struct content *content = context;
    content->events++;
    (void)entry;
}

static struct baton_status check_room(struct store *store, const char *digest)
{
    struct content content = { .records = 0 };
    struct baton_status st = store_scan(store, count_record, &content);
    if (baton_ok(&st)) {
        st = store_list_log(store, 0, UINT32_MAX, count_event, &content);
    }
    if (!baton_ok(&st) || (content.records == 0 && content.events == 0)) {
        return st;
    }
    if (strcmp(content.cluster.importing, digest) == 0) {
        return st; /* Ours, cut off: it is written over. */
    }
    if (content.cluster.importing[0] != '\0') {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_TRUNCATED,
                              "store: the import of another archive, %s, was cut off in it",
                              content.cluster.importing),
            "finish that import, or give another address");
    }
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                          "store: it is not empty: %llu records (%.80s, ...), %llu events",
                          (unsigned long long)content.records, content.first,
                          (unsigned long long)content.events),
        "import into a new store: another path, another prefix");
}

/* --- import: filling it --- */

struct import {
    struct store *store;
    const struct found *found;
    struct store_start start;
    struct record_op ops[BATCH_RECORDS];
    size_t ops_count;
    union record_body bodies[BATCH_RECORDS];
    struct log_entry events[BATCH_EVENTS];
    size_t events_count;
};

/* What was gathered; 'revision' 0: the next one. */
static struct baton_status flush(struct import *import, uint64_t revision)
{
    uint64_t next = store_revision(import->store) + 1;
    struct transaction transaction = { .epoch = import->start.epoch,
                                       .revision = revision > next ? revision : next,
                                       .sync = true,
                                       .ops = import->ops,
                                       .ops_count = import->ops_count,
                                       .entries = import->events,
                                       .entries_count = import->events_count };
    import->ops_count = 0;
    import->events_count = 0;
    return store_commit(import->store, &transaction);
}

static void gather(struct import *import, struct record_ref record)
{
    struct record_op *op = &import->ops[import->ops_count++];
    *op = (struct record_op){ .record = record };
    record_key(record, op->key);
}

static struct baton_status add_record(struct import *import, const struct archive_line *line)
{
    if (line->record_kind == RECORD_CLUSTER) {
        return baton_status_ok(); /* It is the last one: finish(). */
    }
    union record_body *body = &import->bodies[import->ops_count];
    memcpy(body, &line->body.record, sizeof(*body));
    gather(import, (struct record_ref){ line->record_kind, body });
    return import->ops_count == BATCH_RECORDS ? flush(import, 0) : baton_status_ok();
}

static struct baton_status add_event(struct import *import, const struct archive_line *line)
{
    if (line->body.event.number < import->start.log_next_number) {
        return baton_status_ok(); /* There already, by an import that was cut off. */
    }
    import->events[import->events_count++] = line->body.event;
    return import->events_count == BATCH_EVENTS ? flush(import, 0) : baton_status_ok();
}

static struct baton_status begin(struct import *import)
{
    struct cluster_record mark = { .generation = import->found->generation };
    memcpy(mark.importing, import->found->end.digest, sizeof(mark.importing));
    gather(import, (struct record_ref){ RECORD_CLUSTER, &mark });
    return flush(import, 0);
}

/* From here on it is whole; the revision is above that of each record. */
static struct baton_status finish(struct import *import)
{
    struct record_op *op =
        &import->ops[import->ops_count]; /* There is room: full ones are written. */
    gather(import, (struct record_ref){ RECORD_CLUSTER, &import->found->cluster });
    if (!import->found->has_cluster) {
        op->remove = true;
        op->record.body = NULL;
    }
    return flush(import, import->found->head.revision);
}

/* The second reading; it must come to the same end as the first. */
static struct baton_status fill(struct import *import, struct archive_reader *reader)
{
    const struct archive_line *line = NULL;
    struct baton_status st = begin(import);
    while (baton_ok(&st)) {
        st = archive_read(reader, &line);
        if (baton_ok(&st) && line->kind == ARCHIVE_RECORD) {
            st = add_record(import, line);
        } else if (baton_ok(&st) && line->kind == ARCHIVE_EVENT) {
            st = add_event(import, line);
        } else if (baton_ok(&st) && line->kind == ARCHIVE_END) {
            break;
        }
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (strcmp(line->body.end.digest, import->found->end.digest) != 0) {
        return baton_status_make(BATON_ABORTED, BATON_REASON_DIGEST_MISMATCH,
                                 "archive: the file was changed while it was imported");
    }
    return finish(import);
}

/* Nothing is written, and no controller deposed, before it is known that the store is free. */
static struct baton_status take_store(struct import *import)
{
    const struct found *found = import->found;
    struct baton_status st = check_room(import->store, found->end.digest);
    if (baton_ok(&st)) {
        st = store_raise_generation(import->store, found->generation);
    }
    if (baton_ok(&st)) {
        st = store_acquire_epoch(import->store, &import->start);
    }
    return baton_ok(&st) ? check_room(import->store, found->end.digest) : st;
}

static struct baton_status look_twice(FILE *file, struct found *found,
                                      struct archive_reader **out_second)
{
    struct archive_reader *first = archive_reader_create(file);
    struct baton_status st = first == NULL ? no_memory() : look_at(first, found);
    archive_reader_destroy(first);
    if (!baton_ok(&st)) {
        return st;
    }
    rewind(file);
    *out_second = archive_reader_create(file);
    return *out_second == NULL ? no_memory() : st;
}

struct baton_status store_import(FILE *file, const char *address, uint64_t wall_ns,
                                 struct archive_report *out)
{
    struct found found;
    struct archive_reader *reader = NULL;
    struct baton_status st = look_twice(file, &found, &reader);
    if (!baton_ok(&st)) {
        return st;
    }
    struct import *import = calloc(1, sizeof(*import));
    st = import == NULL ? no_memory() : store_open(address, wall_ns, &import->store);
    if (baton_ok(&st)) {
        import->found = &found;
        st = take_store(import);
    }
    if (baton_ok(&st)) {
        st = fill(import, reader);
    }
    if (baton_ok(&st)) {
        *out = (struct archive_report){ found.end, import->start.epoch.generation };
    }
    store_close(import == NULL ? NULL : import->store);
    free(import);
    archive_reader_destroy(reader);
    return st;
}
