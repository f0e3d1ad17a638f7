/* etcd_redo.c -- commits that are too large for one request; see etcd_store.h. */
#include <stdio.h>
#include <string.h>

#include "api/base/log.h"
#include "controller/store/etcd_batch.h"
#include "controller/store/etcd_store.h"

enum { NAME_BYTES = 64, MARK_BYTES = NAME_BYTES + 48, PARTS_MAX = 100000 };

static void part_key(const struct etcd_store *store, const char *name, size_t place,
                     char out[ETCD_KEY_BYTES])
{
    char tail[NAME_BYTES + 32];
    (void)snprintf(tail, sizeof(tail), "parts/%s/%06zu", name, place);
    etcd_key(store, tail, out);
}

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                             "store: out of memory");
}

/* Takes over 'ops'; 'redo' as etcd_write_again(). */
static struct baton_status write_ops(struct etcd_store *store, struct etcd_text *ops,
                                     const char *redo)
{
    struct baton_status st = ops->failed ? no_memory() : etcd_write_again(store, ops->data, redo);
    etcd_text_free(ops);
    return st;
}

/* Takes over 'ranges', a list of operations. */
static struct baton_status read_ranges(struct etcd_store *store, struct etcd_text *ranges,
                                       struct etcd_answer *out)
{
    struct etcd_text body = { .failed = ranges->failed };
    etcd_text_add(&body, "{\"success\":[");
    etcd_text_add(&body, ranges->failed ? "" : ranges->data);
    etcd_text_add(&body, "]}");
    etcd_text_free(ranges);
    return etcd_txn(store, ETCD_CALL_READ, &body, etcd_deadline_ns(store), out);
}

/* --- what 'redo' holds --- */

struct mark {
    char name[NAME_BYTES];
    size_t count;
    size_t next; /* The part to apply next. */
};

static void format_mark(const struct mark *mark, char out[MARK_BYTES])
{
    (void)snprintf(out, MARK_BYTES, "%s %zu %zu", mark->name, mark->count, mark->next);
}

static bool parse_mark(const char *text, struct mark *out)
{
    unsigned long count = 0;
    unsigned long next = 0;
    char end = '\0';
    /* "NAME COUNT" was all of it once. */
    int found = sscanf(text, "%63[0-9a-f-] %lu %lu%c", out->name, &count, &next, &end);
    out->count = count;
    out->next = next;
    return (found == 2 || found == 3) && next < count && count <= PARTS_MAX;
}

/* --- applying --- */

/* Ends the commit: its mark and its parts go, and none of another's. */
static void add_end(const struct etcd_store *store, const char *name, struct etcd_text *ops)
{
    char tail[NAME_BYTES + 32];
    char key[ETCD_KEY_BYTES];
    char end[ETCD_KEY_BYTES];
    etcd_key(store, "redo", key);
    etcd_op_remove(ops, key, NULL);
    etcd_text_add(ops, ",");
    (void)snprintf(tail, sizeof(tail), "parts/%s/", name);
    etcd_key(store, tail, key);
    (void)snprintf(tail, sizeof(tail), "parts/%s0", name);
    etcd_key(store, tail, end);
    etcd_op_remove(ops, key, end);
}

static void add_mark(const struct etcd_store *store, const struct mark *mark, struct etcd_text *ops)
{
    char key[ETCD_KEY_BYTES];
    char value[MARK_BYTES];
    format_mark(mark, value);
    etcd_key(store, "redo", key);
    etcd_op_put(ops, key, value);
}

/* The part and the step of the mark are one transaction that compares the mark: so a part is applied
 * once, before the next one, however late its duplicates arrive. */
static struct baton_status apply_next(struct etcd_store *store, struct mark *mark,
                                      const char *value, const char *part)
{
    struct etcd_text ops = { 0 };
    etcd_text_add(&ops, part);
    etcd_text_add(&ops, ",");
    mark->next++;
    if (mark->next == mark->count) {
        add_end(store, mark->name, &ops);
    } else {
        add_mark(store, mark, &ops);
    }
    return write_ops(store, &ops, value);
}

/* 'value' is what 'redo' holds; 'mark' is made from it, and goes on by one. */
static struct baton_status apply_part(struct etcd_store *store, struct mark *mark,
                                      const char *value)
{
    char key[ETCD_KEY_BYTES];
    struct etcd_text ranges = { 0 };
    struct etcd_answer answer;
    part_key(store, mark->name, mark->next, key);
    etcd_op_range(&ranges, key, NULL, "");
    struct baton_status st = read_ranges(store, &ranges, &answer);
    const struct etcd_pair *part = baton_ok(&st) ? etcd_answer_find(&answer, key) : NULL;
    if (part != NULL) {
        st = apply_next(store, mark, value, part->value);
    } else if (baton_ok(&st)) {
        st = baton_status_hint(baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                                 "store: etcd lacks %s of a decided change", key),
                               "restore etcd from a backup");
    }
    etcd_answer_free(&answer);
    return st;
}

static struct baton_status apply_all(struct etcd_store *store, const char *text)
{
    struct mark mark = { .next = 0 };
    char value[MARK_BYTES];
    if (!parse_mark(text, &mark)) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                 "store: etcd's key redo is damaged");
    }
    struct baton_status st = apply_part(store, &mark, text);
    while (baton_ok(&st) && mark.next < mark.count) {
        format_mark(&mark, value);
        st = apply_part(store, &mark, value);
    }
    return st;
}

/* Removes the parts of the commit that 'key' is one of: there is no mark, so it was not decided and,
 * under this epoch, never will be.  Not all parts: a late duplicate of this must not take those of the
 * next commit. */
static struct baton_status drop_garbage(struct etcd_store *store, const char *key)
{
    char parts[ETCD_KEY_BYTES];
    char end[ETCD_KEY_BYTES];
    struct etcd_text ops = { 0 };
    etcd_key(store, "parts/", parts);
    size_t bytes = strlen(parts) + strcspn(key + strlen(parts), "/");
    if (bytes + 2 > sizeof(end)) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                 "store: etcd's key \"%.120s\" was not written by Baton", key);
    }
    memcpy(end, key, bytes);
    memcpy(end + bytes, "0", sizeof("0"));
    etcd_op_remove(&ops, key, end);
    return write_ops(store, &ops, NULL);
}

/* Reads what is left to do, and does it; *more: there may be more. */
static struct baton_status finish_one(struct etcd_store *store, bool *more)
{
    char key[ETCD_KEY_BYTES];
    char parts[ETCD_KEY_BYTES];
    char end[ETCD_KEY_BYTES];
    struct etcd_text ranges = { 0 };
    struct etcd_answer answer;
    etcd_key(store, "redo", key);
    etcd_op_range(&ranges, key, NULL, "");
    etcd_text_add(&ranges, ",");
    etcd_key(store, "parts/", parts);
    etcd_key(store, "parts0", end);
    etcd_op_range(&ranges, parts, end, ",\"limit\":\"1\",\"keys_only\":true");
    struct baton_status st = read_ranges(store, &ranges, &answer);
    *more = baton_ok(&st) && answer.pairs_count > 0;
    const struct etcd_pair *mark = *more ? etcd_answer_find(&answer, key) : NULL;
    if (mark != NULL) {
        st = apply_all(store, mark->value);
    } else if (*more) {
        st = drop_garbage(store, answer.pairs[0].key);
    }
    etcd_answer_free(&answer);
    return st;
}

struct baton_status etcd_redo_finish(struct etcd_store *store)
{
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && store->redo) {
        st = finish_one(store, &store->redo);
    }
    store->redo = !baton_ok(&st);
    return st;
}

/* --- committing --- */

/* Adds the parts from 'first' on that fit into one request; returns how many. */
static size_t add_parts(const struct etcd_store *store, const char *name,
                        const struct etcd_batch *batch, size_t first, struct etcd_text *ops)
{
    char key[ETCD_KEY_BYTES];
    size_t bytes = 0;
    size_t count = 0;
    while (first + count < batch->parts_count && count < batch->ops_max) {
        const struct etcd_text *part = &batch->parts[first + count];
        bytes += part->size + ETCD_KEY_BYTES; /* As etcd counts them. */
        if (count > 0 && bytes > batch->bytes_max) {
            break;
        }
        part_key(store, name, first + count, key);
        etcd_text_add(ops, count == 0 ? "" : ",");
        etcd_op_put(ops, key, part->data);
        count++;
    }
    return count;
}

static struct baton_status write_parts(struct etcd_store *store, const char *name,
                                       const struct etcd_batch *batch)
{
    struct baton_status st = baton_status_ok();
    size_t done = 0;
    while (baton_ok(&st) && done < batch->parts_count) {
        struct etcd_text ops = { 0 };
        size_t count = add_parts(store, name, batch, done, &ops);
        st = write_ops(store, &ops, NULL);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "%zu of %zu parts of a large change", done,
                                   batch->parts_count);
        }
        done += count;
    }
    return st;
}

/* The transaction that decides: 'redo' and the revision. */
static struct baton_status decide(struct etcd_store *store, const struct mark *mark,
                                  uint64_t revision)
{
    struct etcd_text ops = { 0 };
    add_mark(store, mark, &ops);
    struct baton_status st =
        ops.failed ? no_memory() : etcd_write_revision(store, ops.data, revision);
    etcd_text_free(&ops);
    return st;
}

/* What etcd_redo_finish() would do, without reading the parts again. */
static struct baton_status apply_own(struct etcd_store *store, struct mark *mark,
                                     const struct etcd_batch *batch)
{
    char value[MARK_BYTES];
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && mark->next < mark->count) {
        format_mark(mark, value);
        st = apply_next(store, mark, value, batch->parts[mark->next].data);
    }
    return st;
}

struct baton_status etcd_redo_commit(struct etcd_store *store, const struct etcd_batch *batch,
                                     uint64_t revision)
{
    struct mark mark = { .count = batch->parts_count };
    /* A name of its own: a part that arrives late must not become one of the next commit. */
    (void)snprintf(mark.name, sizeof(mark.name), "%s-%llu", store->writer,
                   (unsigned long long)++store->count);
    if (batch->parts_count > PARTS_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "store: a change of %zu parts", batch->parts_count);
    }
    store->redo = true; /* What is written of a change that is not decided is to be removed. */
    struct baton_status st = write_parts(store, mark.name, batch);
    if (baton_ok(&st)) {
        st = decide(store, &mark, revision);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct baton_status later = apply_own(store, &mark, batch);
    store->redo = !baton_ok(&later);
    if (store->redo) { /* It is decided; the next call goes on with it. */
        baton_log_status(BATON_LOG_WARN, "store", "a decided change is not applied yet", &later);
    }
    return st;
}
