/* memory.c -- a store that lives with the process, for tests and for trying things out.
 *
 * It keeps the same text as the durable one, so both go through the codec. */
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "controller/store/backend.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"

struct row {
    enum record_kind kind;
    char key[RECORD_KEY_BYTES];
    char *text;
};

struct memory_store {
    struct store base;
    struct epoch epoch;
    uint64_t revision;
    struct row *rows;
    size_t rows_count;
    size_t rows_capacity;
    char *log[BATON_EVENTS_KEPT_MAX]; /* Entry n is at n % BATON_EVENTS_KEPT_MAX. */
    uint64_t log_next_number;
};

static struct memory_store *of(struct store *store)
{
    return (struct memory_store *)store;
}

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                             "store memory: out of memory");
}

static void memory_close(struct store *store)
{
    struct memory_store *memory = of(store);
    for (size_t i = 0; i < memory->rows_count; i++) {
        free(memory->rows[i].text);
    }
    for (size_t i = 0; i < BATON_EVENTS_KEPT_MAX; i++) {
        free(memory->log[i]);
    }
    free(memory->rows);
    free(memory);
}

static struct baton_status memory_acquire_epoch(struct store *store, struct store_start *out)
{
    struct memory_store *memory = of(store);
    memory->epoch.n++;
    *out = (struct store_start){ memory->epoch, memory->revision, memory->log_next_number };
    return baton_status_ok();
}

static struct baton_status memory_raise_generation(struct store *store, uint64_t floor)
{
    struct memory_store *memory = of(store);
    uint64_t generation = memory->epoch.generation;
    memory->epoch.generation = (floor > generation ? floor : generation) + 1;
    memory->epoch.n = 0;
    return baton_status_ok();
}

static struct baton_status memory_scan(struct store *store, store_visit_text_fn visit,
                                       void *context)
{
    struct memory_store *memory = of(store);
    for (size_t i = 0; i < memory->rows_count; i++) {
        const struct row *row = &memory->rows[i];
        struct baton_status st = visit(context, record_kind_word(row->kind), row->key, row->text);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static bool reserve(struct memory_store *memory, size_t more)
{
    size_t needed = memory->rows_count + more;
    if (needed <= memory->rows_capacity) {
        return true;
    }
    size_t capacity = 2 * needed + 64;
    struct row *rows = realloc(memory->rows, capacity * sizeof(struct row));
    if (rows == NULL) {
        return false;
    }
    memory->rows = rows;
    memory->rows_capacity = capacity;
    return true;
}

static struct row *find(struct memory_store *memory, enum record_kind kind, const char *key)
{
    for (size_t i = 0; i < memory->rows_count; i++) {
        if (memory->rows[i].kind == kind && strcmp(memory->rows[i].key, key) == 0) {
            return &memory->rows[i];
        }
    }
    return NULL;
}

static void apply(struct memory_store *memory, const struct record_op *op, char *text)
{
    struct row *row = find(memory, op->record.kind, op->key);
    if (row != NULL) {
        free(row->text);
    }
    if (op->remove) {
        if (row != NULL) {
            memory->rows_count--;
            *row = memory->rows[memory->rows_count];
        }
        return;
    }
    if (row == NULL) {
        row = &memory->rows[memory->rows_count++];
        row->kind = op->record.kind;
        (void)baton_text_copy(row->key, sizeof(row->key), op->key);
    }
    row->text = text;
}

static void apply_entry(struct memory_store *memory, const struct log_entry *entry, char *text)
{
    char **place = &memory->log[entry->number % BATON_EVENTS_KEPT_MAX];
    free(*place);
    *place = text;
    memory->log_next_number = entry->number + 1;
}

static void free_texts(char **texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(texts[i]);
    }
    free(texts);
}

/* Everything that can fail, before anything is changed; null: out of memory. */
static char **encode_all(const struct transaction *transaction)
{
    size_t count = transaction->ops_count + transaction->entries_count;
    char **texts = calloc(count + 1, sizeof(char *));
    bool ok = texts != NULL;
    for (size_t i = 0; ok && i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        texts[i] = op->remove ? NULL : record_encode(op->record);
        ok = op->remove || texts[i] != NULL;
    }
    for (size_t i = 0; ok && i < transaction->entries_count; i++) {
        size_t place = transaction->ops_count + i;
        texts[place] = log_entry_encode(&transaction->entries[i]);
        ok = texts[place] != NULL;
    }
    if (!ok && texts != NULL) {
        free_texts(texts, count);
        texts = NULL;
    }
    return texts;
}

static struct baton_status memory_commit(struct store *store, const struct transaction *transaction)
{
    struct memory_store *memory = of(store);
    struct baton_status st = store_check(memory->epoch, memory->revision, transaction);
    if (!baton_ok(&st)) {
        return st;
    }
    char **texts = encode_all(transaction);
    if (texts == NULL) {
        return no_memory();
    }
    if (!reserve(memory, transaction->ops_count)) {
        free_texts(texts, transaction->ops_count + transaction->entries_count);
        return no_memory();
    }
    for (size_t i = 0; i < transaction->ops_count; i++) {
        apply(memory, &transaction->ops[i], texts[i]);
    }
    for (size_t i = 0; i < transaction->entries_count; i++) {
        apply_entry(memory, &transaction->entries[i], texts[transaction->ops_count + i]);
    }
    free(texts);
    memory->revision = transaction->revision;
    return st;
}

static struct baton_status memory_list_log(struct store *store, uint64_t after, uint32_t limit,
                                           store_visit_log_fn visit, void *context)
{
    struct memory_store *memory = of(store);
    uint64_t next = memory->log_next_number;
    uint64_t oldest = next > BATON_EVENTS_KEPT_MAX ? next - BATON_EVENTS_KEPT_MAX : 1;
    uint64_t number = after >= next ? next : (after < oldest ? oldest : after + 1);
    for (uint32_t i = 0; i < limit && number < next; number++) {
        const char *text = memory->log[number % BATON_EVENTS_KEPT_MAX];
        struct log_entry entry;
        struct baton_status st = text == NULL ? baton_status_ok() : log_entry_decode(text, &entry);
        if (!baton_ok(&st)) {
            return st;
        }
        if (text != NULL) {
            visit(context, &entry);
            i++;
        }
    }
    return baton_status_ok();
}

static uint64_t memory_revision(const struct store *store)
{
    return ((const struct memory_store *)store)->revision;
}

static const struct store_backend backend = {
    .close = memory_close,
    .acquire_epoch = memory_acquire_epoch,
    .raise_generation = memory_raise_generation,
    .scan = memory_scan,
    .commit = memory_commit,
    .list_log = memory_list_log,
    .revision = memory_revision,
};

struct baton_status memory_store_open(uint64_t wall_ns, struct store **out)
{
    struct memory_store *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return no_memory();
    }
    memory->base.backend = &backend;
    memory->epoch.generation = store_first_generation(wall_ns);
    memory->log_next_number = 1;
    *out = &memory->base;
    return baton_status_ok();
}
