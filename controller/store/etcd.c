/* etcd.c -- a store in etcd, through its JSON gateway; how it is laid out: etcd_store.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/base/random.h"
#include "controller/store/etcd_batch.h"
#include "controller/store/etcd_store.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"

enum {
    PAGE_PAIRS = 256,
    CHUNK_ENTRIES = 64,
    CHUNK_BYTES = 48 << 10,
    REQUEST_BYTES_REST = 4096, /* Comparisons and the revision. */
    TXN_OPS_REST = 2,
    SNAPSHOT_PAUSE_MS = 20,
    REACH_MS = 2000,
};

static struct etcd_store *of(struct store *store)
{
    return (struct etcd_store *)store;
}

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                             "store: out of memory");
}

static void etcd_close(struct store *base)
{
    struct etcd_store *store = of(base);
    etcd_client_close(store->client);
    free(store);
}

/* --- epochs --- */

/* Writes the epoch key, which is as 'found'; OK and *out 0: somebody was faster, or it is not known. */
static struct baton_status put_epoch(struct etcd_store *store, const struct etcd_found *found,
                                     struct etcd_epoch *next, uint64_t deadline_ns, uint64_t *out)
{
    char key[ETCD_KEY_BYTES];
    char value[ETCD_STATE_BYTES];
    struct etcd_text body = { 0 };
    struct etcd_answer answer;
    memcpy(next->writer, store->writer, sizeof(next->writer));
    next->fence = ++store->count;
    etcd_epoch_format(next, value);
    etcd_key(store, "epoch", key);
    etcd_text_add(&body, "{\"compare\":[{\"target\":\"MOD\",\"key\":");
    etcd_text_base64(&body, key, strlen(key));
    etcd_text_format(&body, ",\"mod_revision\":\"%llu\"}", (unsigned long long)found->epoch_mod);
    if (store->holder[0] != '\0') { /* A renewal meanwhile: it is read and tried again. */
        char leader[ETCD_KEY_BYTES];
        etcd_key(store, "leader", leader);
        etcd_text_add(&body, ",{\"target\":\"MOD\",\"key\":");
        etcd_text_base64(&body, leader, strlen(leader));
        etcd_text_format(&body, ",\"mod_revision\":\"%llu\"}",
                         (unsigned long long)found->leader_mod);
    }
    etcd_text_add(&body, "],\"success\":[");
    etcd_op_put(&body, key, value);
    if (!found->exists) {
        char revision[ETCD_STATE_BYTES];
        etcd_revision_format(&(struct etcd_revision){ .revision = 0 }, revision);
        etcd_key(store, "revision", key);
        etcd_text_add(&body, ",");
        etcd_op_put(&body, key, revision);
    }
    etcd_text_add(&body, "]}");
    struct baton_status st = etcd_txn(store, ETCD_CALL_WRITE, &body, deadline_ns, &answer);
    *out = baton_ok(&st) && answer.succeeded ? answer.revision : 0;
    etcd_answer_free(&answer);
    return st.code == BATON_DEADLINE_EXCEEDED ? baton_status_ok() : st;
}

/* What a change of the epoch makes of it; 'floor' is the change's argument. */
typedef struct baton_status (*epoch_change_fn)(const struct etcd_store *store,
                                               struct etcd_found *found, uint64_t floor);

/* The leadership may have gone to another one since the caller looked, while this waited for etcd. */
static struct baton_status check_holder(const struct etcd_store *store,
                                        const struct etcd_found *found)
{
    bool ours = store->holder[0] == '\0' || strcmp(store->holder, found->holder) == 0;
    return ours ? baton_status_ok()
                : baton_status_make(BATON_ABORTED, BATON_REASON_NOT_LEADER,
                                    "the leader's record names another controller, or none: the "
                                    "epoch is not this one's to take");
}

/* Reads, changes and writes the epoch key until that was done by us, for sure: the answer of a write
 * may be lost, so what is read next may be ours already, and then rises once more. */
static struct baton_status change_epoch(struct etcd_store *store, epoch_change_fn change,
                                        uint64_t floor, struct etcd_found *out)
{
    uint64_t deadline_ns = etcd_deadline_ns(store);
    uint64_t mod = 0;
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && mod == 0) {
        st = etcd_find(store, deadline_ns, out);
        if (baton_ok(&st)) {
            st = check_holder(store, out);
        }
        if (baton_ok(&st)) {
            st = change(store, out, floor);
        }
        if (baton_ok(&st)) {
            out->epoch.cluster = etcd_client_cluster(store->client);
            st = put_epoch(store, out, &out->epoch, deadline_ns, &mod);
        }
    }
    if (baton_ok(&st)) {
        store->epoch = out->epoch;
        store->epoch_mod = mod;
        store->revision = out->revision.revision;
        store->revision_mod = out->revision_mod;
        store->redo = out->redo || out->parts;
        store->log_next_number = out->log_last + 1;
    }
    return st;
}

struct baton_status etcd_gone(const struct etcd_store *store)
{
    return baton_status_hint(baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                               "store: the keys under %s are gone from etcd",
                                               store->address.prefix),
                             "restore etcd from a backup; a controller that is started again "
                             "begins with an empty store");
}

/* Design 3 rule 5: what was restored into another cluster may have gone back. */
static void follow_cluster(const struct etcd_store *store, struct etcd_epoch *epoch)
{
    uint64_t now = etcd_client_cluster(store->client);
    uint64_t above = store_first_generation(store->wall_ns);
    if (epoch->cluster != now) {
        baton_log(BATON_LOG_WARN, "store",
                  "the store was written in another etcd cluster; a new generation begins");
        uint64_t next = epoch->epoch.generation + 1;
        epoch->epoch = (struct epoch){ next > above ? next : above, 0 };
    }
}

static struct baton_status next_leader(const struct etcd_store *store, struct etcd_found *found,
                                       uint64_t floor)
{
    (void)floor;
    if (!found->exists) {
        return etcd_gone(store);
    }
    follow_cluster(store, &found->epoch);
    found->epoch.epoch.n++;
    return baton_status_ok();
}

static struct baton_status etcd_acquire_epoch(struct store *base, struct store_start *out)
{
    struct etcd_store *store = of(base);
    struct etcd_found found;
    etcd_begin(store);
    store->leads = false;
    struct baton_status st = change_epoch(store, next_leader, 0, &found);
    if (baton_ok(&st)) {
        store->leads = true;
        st = etcd_redo_finish(store);
    }
    if (!baton_ok(&st)) {
        store->leads = false;
        return st;
    }
    *out = (struct store_start){ store->epoch.epoch, store->revision, store->log_next_number };
    return st;
}

static struct baton_status next_generation(const struct etcd_store *store, struct etcd_found *found,
                                           uint64_t floor)
{
    uint64_t generation = found->epoch.epoch.generation;
    if (!found->exists) {
        return etcd_gone(store);
    }
    if (store->leads && found->epoch_mod != store->epoch_mod) {
        return baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                                 "another controller leads now: the generation is its to raise");
    }
    found->epoch.epoch = (struct epoch){ (floor > generation ? floor : generation) + 1, 0 };
    return baton_status_ok();
}

static struct baton_status etcd_raise_generation(struct store *base, uint64_t floor)
{
    struct etcd_store *store = of(base);
    struct etcd_found found;
    etcd_begin(store);
    struct baton_status st = change_epoch(store, next_generation, floor, &found);
    store->leads = store->leads && !baton_ok(&st);
    return st;
}

/* --- commit --- */

static void add_record(const struct etcd_store *store, const struct record_op *op,
                       struct etcd_batch *batch)
{
    char name[ETCD_KEY_BYTES / 2];
    char key[ETCD_KEY_BYTES];
    (void)snprintf(name, sizeof(name), "records/%s/%s", record_kind_word(op->record.kind), op->key);
    etcd_key(store, name, key);
    if (op->remove) {
        etcd_batch_remove(batch, key, NULL);
        return;
    }
    char *text = record_encode(op->record);
    if (text == NULL) {
        batch->status = no_memory();
        return;
    }
    etcd_batch_put(batch, key, text);
    free(text);
}

static void log_key(const struct etcd_store *store, uint64_t number, char out[ETCD_KEY_BYTES])
{
    char name[32];
    (void)snprintf(name, sizeof(name), "log/%020llu", (unsigned long long)number);
    etcd_key(store, name, out);
}

/* The next entries as one key; returns how many. */
static size_t add_chunk(const struct etcd_store *store, const struct log_entry *entries,
                        size_t count, struct etcd_batch *batch)
{
    char key[ETCD_KEY_BYTES];
    struct etcd_text lines = { 0 };
    size_t taken = 0;
    while (taken < count && taken < CHUNK_ENTRIES && lines.size < CHUNK_BYTES) {
        char *text = log_entry_encode(&entries[taken]);
        lines.failed = lines.failed || text == NULL;
        etcd_text_add(&lines, taken == 0 ? "" : "\n");
        etcd_text_add(&lines, text == NULL ? "" : text);
        free(text);
        taken++;
    }
    log_key(store, entries[taken - 1].number, key);
    if (lines.failed) {
        batch->status = no_memory();
    } else {
        etcd_batch_put(batch, key, lines.data);
    }
    etcd_text_free(&lines);
    return taken;
}

/* Entries, and the end of those that are no longer kept. */
static void add_entries(const struct etcd_store *store, const struct transaction *transaction,
                        struct etcd_batch *batch)
{
    char first[ETCD_KEY_BYTES];
    char end[ETCD_KEY_BYTES];
    size_t count = transaction->entries_count;
    size_t at = count > BATON_EVENTS_KEPT_MAX ? count - BATON_EVENTS_KEPT_MAX : 0;
    while (at < count) {
        at += add_chunk(store, transaction->entries + at, count - at, batch);
    }
    uint64_t last = count == 0 ? 0 : transaction->entries[count - 1].number;
    if (last > BATON_EVENTS_KEPT_MAX) {
        etcd_key(store, "log/", first);
        log_key(store, last - BATON_EVENTS_KEPT_MAX + 1, end);
        etcd_batch_remove(batch, first, end);
    }
}

static struct baton_status commit_batch(struct etcd_store *store, const struct etcd_batch *batch,
                                        uint64_t revision)
{
    if (!baton_ok(&batch->status)) {
        return batch->status;
    }
    if (batch->parts_count > 1) {
        return etcd_redo_commit(store, batch, revision);
    }
    return etcd_write_revision(store, batch->parts_count == 0 ? "" : batch->parts[0].data,
                               revision);
}

static struct baton_status check_leads(const struct etcd_store *store,
                                       const struct transaction *transaction)
{
    struct baton_status st = store_check(store->epoch.epoch, store->revision, transaction);
    if (baton_ok(&st) && !store->leads) {
        st = baton_status_hint(baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                                                 "this epoch's leadership has ended"),
                               "acquire an epoch again");
    }
    return st;
}

static struct baton_status etcd_commit(struct store *base, const struct transaction *transaction)
{
    struct etcd_store *store = of(base);
    etcd_begin(store);
    struct baton_status st = check_leads(store, transaction);
    if (baton_ok(&st)) {
        st = etcd_redo_finish(store);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct etcd_batch batch = etcd_batch_of(store->address.max_txn_ops - TXN_OPS_REST,
                                            store->address.max_request_bytes - REQUEST_BYTES_REST);
    for (size_t i = 0; i < transaction->ops_count; i++) {
        add_record(store, &transaction->ops[i], &batch);
    }
    add_entries(store, transaction, &batch);
    st = commit_batch(store, &batch, transaction->revision);
    etcd_batch_free(&batch);
    size_t entries = transaction->entries_count;
    if (baton_ok(&st) && entries > 0) {
        store->log_next_number = transaction->entries[entries - 1].number + 1;
    }
    return st;
}

/* --- reading --- */

/* A range that is read page by page at one revision of etcd. */
struct pages {
    char next[ETCD_KEY_BYTES]; /* First key of the next page. */
    char end[ETCD_KEY_BYTES];
    uint64_t revision; /* 0: the present one. */
    uint32_t limit;
    bool more;
    bool all; /* Of however many pages: each is an operation of its own. */
};

/* Reads one page; a page that is too long is asked again with half the pairs. */
static struct baton_status next_page(struct etcd_store *store, struct pages *pages,
                                     struct etcd_answer *out)
{
    for (;;) {
        struct etcd_text body = { 0 };
        etcd_text_add(&body, "{\"key\":");
        etcd_text_base64(&body, pages->next, strlen(pages->next));
        etcd_text_add(&body, ",\"range_end\":");
        etcd_text_base64(&body, pages->end, strlen(pages->end));
        etcd_text_format(&body, ",\"limit\":\"%u\",\"revision\":\"%llu\"}", pages->limit,
                         (unsigned long long)pages->revision);
        *out = (struct etcd_answer){ 0 };
        struct baton_bytes bytes = { (const uint8_t *)body.data, body.size };
        struct baton_status st = body.failed
                                     ? no_memory()
                                     : etcd_client_call(store->client, "kv/range", ETCD_CALL_READ,
                                                        bytes, etcd_deadline_ns(store), out);
        etcd_text_free(&body);
        if (st.reason != BATON_REASON_LIMIT || pages->limit == 1) {
            return st;
        }
        etcd_answer_free(out);
        pages->limit /= 2;
    }
}

/* Where the next page begins: right behind the last key of this one. */
static void go_on(struct pages *pages, const struct etcd_answer *page)
{
    pages->more = page->more && page->pairs_count > 0;
    pages->revision = pages->revision == 0 ? page->revision : pages->revision;
    if (pages->more) {
        int length = snprintf(pages->next, sizeof(pages->next), "%s\x01",
                              page->pairs[page->pairs_count - 1].key);
        pages->more = length > 0 && (size_t)length < sizeof(pages->next);
    }
}

typedef struct baton_status (*pair_fn)(void *context, const struct etcd_pair *pair);

static struct baton_status visit_pages(struct etcd_store *store, struct pages *pages, pair_fn visit,
                                       void *context)
{
    struct baton_status st = baton_status_ok();
    pages->limit = PAGE_PAIRS;
    pages->more = true;
    while (baton_ok(&st) && pages->more) {
        struct etcd_answer page;
        if (pages->all) {
            etcd_begin(store);
        }
        st = next_page(store, pages, &page);
        pages->more = false;
        if (baton_ok(&st)) {
            go_on(pages, &page);
        }
        for (size_t i = 0; baton_ok(&st) && i < page.pairs_count; i++) {
            st = visit(context, &page.pairs[i]);
        }
        etcd_answer_free(&page);
    }
    return st;
}

struct scanning {
    size_t prefix_bytes; /* Of "PREFIX/records/". */
    store_visit_text_fn visit;
    void *context;
};

static struct baton_status scan_pair(void *context, const struct etcd_pair *pair)
{
    const struct scanning *scanning = context;
    char *word = pair->key + scanning->prefix_bytes;
    char *slash = strchr(word, '/');
    if (slash == NULL) {
        return scanning->visit(scanning->context, word, "", pair->value);
    }
    *slash = '\0';
    struct baton_status st = scanning->visit(scanning->context, word, slash + 1, pair->value);
    *slash = '/';
    return st;
}

/* What was read may be another leader's, in part, if one came meanwhile; else 'read' stands. */
static struct baton_status still_leads(struct etcd_store *store, struct baton_status read)
{
    struct etcd_found found;
    struct epoch ours = store->epoch.epoch;
    struct baton_status st = etcd_find(store, etcd_deadline_ns(store), &found);
    if (!baton_ok(&st) || found.epoch_mod == store->epoch_mod) {
        return baton_ok(&read) ? st : read;
    }
    return baton_status_hint(
        baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                          "the store is at epoch %llu/%llu, and was read under %llu/%llu",
                          (unsigned long long)found.epoch.epoch.generation,
                          (unsigned long long)found.epoch.epoch.n,
                          (unsigned long long)ours.generation, (unsigned long long)ours.n),
        "another controller leads now; this one must start again");
}

/* While a large change is applied, records are partly of before and partly of after it. */
static struct baton_status etcd_settle(struct store *base)
{
    struct etcd_store *store = of(base);
    struct etcd_found found;
    etcd_begin(store);
    if (store->leads || store->snapshot != 0) {
        return store->leads ? etcd_redo_finish(store) : baton_status_ok();
    }
    struct baton_status st = etcd_find(store, etcd_deadline_ns(store), &found);
    if (baton_ok(&st) && found.redo) {
        st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                               "store: a large change is being applied; read again");
    }
    return st;
}

static struct baton_status etcd_scan(struct store *base, store_visit_text_fn visit, void *context)
{
    struct etcd_store *store = of(base);
    struct pages pages = { .revision = store->snapshot, .all = true };
    etcd_key(store, "records/", pages.next);
    etcd_key(store, "records0", pages.end);
    struct scanning scanning = { strlen(pages.next), visit, context };
    struct baton_status st = visit_pages(store, &pages, scan_pair, &scanning);
    return store->leads ? still_leads(store, st) : st;
}

struct listing {
    uint64_t first; /* Number of the first entry that is wanted. */
    uint32_t left;
    store_visit_log_fn visit;
    void *context;
};

static struct baton_status list_line(struct listing *listing, const char *line)
{
    struct log_entry entry;
    struct baton_status st = log_entry_decode(line, &entry);
    if (baton_ok(&st) && entry.number >= listing->first && listing->left > 0) {
        listing->visit(listing->context, &entry);
        listing->left--;
    }
    return st;
}

static struct baton_status list_pair(void *context, const struct etcd_pair *pair)
{
    struct listing *listing = context;
    struct baton_status st = baton_status_ok();
    char *line = pair->value;
    while (baton_ok(&st) && line != NULL && listing->left > 0) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        st = list_line(listing, line);
        line = end == NULL ? NULL : end + 1;
    }
    if (baton_ok(&st) && listing->left == 0) {
        return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "enough");
    }
    return st;
}

static struct baton_status etcd_list_log(struct store *base, uint64_t after, uint32_t limit,
                                         store_visit_log_fn visit, void *context)
{
    struct etcd_store *store = of(base);
    struct pages pages = { .revision = store->snapshot };
    uint64_t next = store->log_next_number;
    uint64_t oldest = next > BATON_EVENTS_KEPT_MAX ? next - BATON_EVENTS_KEPT_MAX : 1;
    if (after == UINT64_MAX || limit == 0) {
        return baton_status_ok();
    }
    etcd_begin(store);
    struct baton_status st = store->leads ? etcd_redo_finish(store) : baton_status_ok();
    if (!baton_ok(&st)) {
        return st;
    }
    struct listing listing = { after + 1 > oldest ? after + 1 : oldest, limit, visit, context };
    log_key(store, listing.first, pages.next);
    etcd_key(store, "log0", pages.end);
    st = visit_pages(store, &pages, list_pair, &listing);
    return st.code == BATON_CANCELLED ? baton_status_ok() : st;
}

static void etcd_set_holder(struct store *base, const char *holder)
{
    struct etcd_store *store = of(base);
    baton_assert(baton_text_copy(store->holder, sizeof(store->holder), holder));
}

static uint64_t etcd_cluster(const struct store *base)
{
    return etcd_client_cluster(((const struct etcd_store *)base)->client);
}

static uint64_t etcd_revision(const struct store *base)
{
    return ((const struct etcd_store *)base)->revision;
}

/* --- open --- */

/* A store that is not there yet is made; one that is there is left as it is. */
static struct baton_status find_or_make(struct etcd_store *store, uint64_t deadline_ns)
{
    struct etcd_found found;
    struct baton_status st = etcd_find(store, deadline_ns, &found);
    while (baton_ok(&st) && !found.exists) {
        uint64_t mod = 0;
        struct etcd_epoch first = { .epoch = { store_first_generation(store->wall_ns), 0 },
                                    .cluster = etcd_client_cluster(store->client) };
        st = put_epoch(store, &found, &first, deadline_ns, &mod);
        if (baton_ok(&st)) {
            st = etcd_find(store, deadline_ns, &found);
        }
    }
    if (baton_ok(&st)) {
        store->epoch = found.epoch;
        store->revision = found.revision.revision;
        store->log_next_number = found.log_last + 1;
    }
    return st;
}

static struct baton_status etcd_reach(struct store *base, uint64_t wall_ns)
{
    struct etcd_store *store = of(base);
    store->wall_ns = wall_ns;
    etcd_client_try_once(store->client, true);
    struct baton_status st =
        find_or_make(store, baton_clock_monotonic_ns() + REACH_MS * BATON_NS_PER_MS);
    etcd_client_try_once(store->client, false);
    return st;
}

static const struct store_backend backend = {
    .close = etcd_close,
    .reach = etcd_reach,
    .acquire_epoch = etcd_acquire_epoch,
    .raise_generation = etcd_raise_generation,
    .settle = etcd_settle,
    .scan = etcd_scan,
    .commit = etcd_commit,
    .list_log = etcd_list_log,
    .revision = etcd_revision,
    .set_holder = etcd_set_holder,
    .cluster = etcd_cluster,
};

/* A large change is applied within moments, unless its controller died over it. */
struct baton_status etcd_take_snapshot(struct etcd_store *store, struct store_start *out)
{
    etcd_begin(store);
    uint64_t deadline_ns = etcd_deadline_ns(store);
    struct etcd_found found;
    struct baton_status st = etcd_find(store, deadline_ns, &found);
    while (baton_ok(&st) && found.redo && baton_clock_monotonic_ns() < deadline_ns) {
        baton_clock_sleep_ns(SNAPSHOT_PAUSE_MS * BATON_NS_PER_MS);
        st = etcd_find(store, deadline_ns, &found);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (!found.exists) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                 "store: there is none under %s in this etcd",
                                 store->address.prefix);
    }
    if (found.redo) {
        return baton_status_hint(
            baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                              "store: a large change is not wholly applied"),
            "try again; if its controller is gone, start one: it applies the rest");
    }
    store->snapshot = found.at;
    store->revision_mod = found.revision_mod;
    store->revision = found.revision.revision;
    store->log_next_number = found.log_last + 1;
    *out = (struct store_start){ found.epoch.epoch, store->revision, store->log_next_number };
    return st;
}

struct baton_status etcd_open_client(const char *address, struct etcd_store **out)
{
    uint8_t writer[(ETCD_WRITER_BYTES - 1) / 2];
    struct etcd_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return no_memory();
    }
    *out = store;
    store->base.backend = &backend;
    baton_random_secure(writer, sizeof(writer));
    baton_hex_encode(writer, sizeof(writer), store->writer);
    struct baton_status st = etcd_address_parse(address, &store->address);
    return baton_ok(&st) ? etcd_client_open(&store->address, &store->client) : st;
}

static struct baton_status opened(struct etcd_store *store, struct baton_status st,
                                  struct store **out)
{
    if (baton_ok(&st)) {
        *out = &store->base;
    } else if (store != NULL) {
        etcd_close(&store->base);
    }
    return st;
}

struct baton_status etcd_store_open(const char *address, uint64_t wall_ns, struct store **out)
{
    struct etcd_store *store = NULL;
    struct baton_status st = etcd_open_client(address, &store);
    if (baton_ok(&st)) {
        store->wall_ns = wall_ns;
        etcd_begin(store);
        st = find_or_make(store, etcd_deadline_ns(store));
    }
    return opened(store, st, out);
}

struct baton_status etcd_store_open_unreached(const char *address, uint64_t wall_ns,
                                              struct store **out)
{
    struct etcd_store *store = NULL;
    struct baton_status st = etcd_open_client(address, &store);
    (void)wall_ns; /* store_reach() has one. */
    return opened(store, st, out);
}

struct baton_status etcd_store_open_reader(const char *address, struct store **out,
                                           struct store_start *out_start)
{
    struct etcd_store *store = NULL;
    struct baton_status st = etcd_open_client(address, &store);
    if (baton_ok(&st)) {
        st = etcd_take_snapshot(store, out_start);
    }
    return opened(store, st, out);
}
