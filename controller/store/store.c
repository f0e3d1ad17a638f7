/* store.c -- see store.h: addresses, and what all backends check alike. */
#include "controller/store/store.h"

#include <string.h>

#include "api/base/mutant.h"
#include "controller/store/backend.h"
#include "controller/store/record_codec.h"
#include "controller/store/record_fields.h"

static const char sqlite_prefix[] = "sqlite:";
static const char etcd_prefix[] = "etcd:";

static struct baton_status bad_address(const char *address)
{
    return baton_status_hint(
        baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                          "store: \"%.200s\" is not an address of a store", address),
        "use sqlite:PATH, etcd:URL,...[/PREFIX], or memory: for a store that lives "
        "with the process");
}

typedef struct baton_status (*etcd_open_fn)(const char *address, uint64_t wall_ns,
                                            struct store **out);

static struct baton_status open_as(const char *address, uint64_t wall_ns, etcd_open_fn etcd_open,
                                   struct store **out)
{
    size_t prefix = sizeof(sqlite_prefix) - 1;
    if (strcmp(address, "memory:") == 0) {
        return memory_store_open(wall_ns, out);
    }
    if (strncmp(address, sqlite_prefix, prefix) == 0 && address[prefix] != '\0') {
        return sqlite_store_open(address + prefix, wall_ns, out);
    }
    if (strncmp(address, etcd_prefix, sizeof(etcd_prefix) - 1) == 0) {
        return etcd_open(address + sizeof(etcd_prefix) - 1, wall_ns, out);
    }
    return bad_address(address);
}

struct baton_status store_open(const char *address, uint64_t wall_ns, struct store **out)
{
    return open_as(address, wall_ns, etcd_store_open, out);
}

struct baton_status store_open_unreached(const char *address, uint64_t wall_ns, struct store **out)
{
    return open_as(address, wall_ns, etcd_store_open_unreached, out);
}

struct baton_status store_reach(struct store *store, uint64_t wall_ns)
{
    return store->backend->reach == NULL ? baton_status_ok()
                                         : store->backend->reach(store, wall_ns);
}

struct baton_status store_open_reader(const char *address, struct store **out,
                                      struct store_start *out_start)
{
    size_t prefix = sizeof(sqlite_prefix) - 1;
    struct baton_status st = bad_address(address);
    if (strcmp(address, "memory:") == 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "store: memory: lives with its process; nobody else can read it");
    }
    if (strncmp(address, sqlite_prefix, prefix) == 0 && address[prefix] != '\0') {
        st = sqlite_store_open_reader(address + prefix, out, out_start);
    } else if (strncmp(address, etcd_prefix, sizeof(etcd_prefix) - 1) == 0) {
        st = etcd_store_open_reader(address + sizeof(etcd_prefix) - 1, out, out_start);
    }
    if (baton_ok(&st)) {
        (*out)->reader = true;
    }
    return st;
}

void store_close(struct store *store)
{
    if (store != NULL) {
        store->backend->close(store);
    }
}

static struct baton_status read_only(void)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                             "store: it was opened for reading");
}

struct baton_status store_acquire_epoch(struct store *store, struct store_start *out)
{
    return store->reader ? read_only() : store->backend->acquire_epoch(store, out);
}

void store_set_holder(struct store *store, const char *holder)
{
    if (store->backend->set_holder != NULL) {
        store->backend->set_holder(store, holder);
    }
}

uint64_t store_cluster(const struct store *store)
{
    return store->backend->cluster == NULL ? 0 : store->backend->cluster(store);
}

struct baton_status store_raise_generation(struct store *store, uint64_t floor)
{
    return store->reader ? read_only() : store->backend->raise_generation(store, floor);
}

struct baton_status store_scan(struct store *store, store_visit_text_fn visit, void *context)
{
    return store->backend->scan(store, visit, context);
}

struct loading {
    store_visit_fn visit;
    void *context;
};

static struct baton_status unfinished(const char *archive)
{
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_TRUNCATED,
                          "store: the import of archive %s was cut off, the store is not whole",
                          archive),
        "finish it: batonctl store import with the same archive");
}

struct baton_status store_decode(const char *word, const char *key, const char *text,
                                 store_visit_fn visit, void *context)
{
    enum record_kind kind = RECORD_KINDS_END;
    union record_body body;
    if (!record_kind_find(word, &kind)) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                 "store: record \"%.60s\" of kind \"%.30s\" is not known to this "
                                 "build",
                                 key, word);
    }
    struct baton_status st = record_decode(kind, key, text, &body);
    if (baton_ok(&st) && kind == RECORD_CLUSTER && body.cluster.importing[0] != '\0') {
        st = unfinished(body.cluster.importing);
    }
    return baton_ok(&st) ? visit(context, (struct record_ref){ kind, &body }) : st;
}

static struct baton_status load_text(void *context, const char *word, const char *key,
                                     const char *text)
{
    const struct loading *loading = context;
    return store_decode(word, key, text, loading->visit, loading->context);
}

struct baton_status store_load(struct store *store, store_visit_fn visit, void *context)
{
    struct loading loading = { visit, context };
    struct baton_status st =
        store->backend->settle == NULL ? baton_status_ok() : store->backend->settle(store);
    return baton_ok(&st) ? store->backend->scan(store, load_text, &loading) : st;
}

struct baton_status store_commit(struct store *store, const struct transaction *transaction)
{
    return store->reader ? read_only() : store->backend->commit(store, transaction);
}

struct baton_status store_list_log(struct store *store, uint64_t after, uint32_t limit,
                                   store_visit_log_fn visit, void *context)
{
    return store->backend->list_log(store, after, limit, visit, context);
}

uint64_t store_revision(const struct store *store)
{
    return store->backend->revision(store);
}

uint64_t store_first_generation(uint64_t wall_ns)
{
    uint64_t seconds = wall_ns / UINT64_C(1000000000);
    return seconds == 0 ? 1 : seconds;
}

struct baton_status store_check(struct epoch stored, uint64_t revision,
                                const struct transaction *transaction)
{
    struct epoch asked = transaction->epoch;
    bool leads = asked.generation == stored.generation && asked.n == stored.n;
    if (!leads && !MUTANT(STORE_EPOCH_FREE)) {
        return baton_status_hint(
            baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                              "the store is at epoch %llu/%llu, the write at %llu/%llu",
                              (unsigned long long)stored.generation, (unsigned long long)stored.n,
                              (unsigned long long)asked.generation, (unsigned long long)asked.n),
            "another controller leads now; this one must start again");
    }
    if (transaction->revision <= revision && !MUTANT(STORE_REVISION_FREE)) {
        return baton_status_make(BATON_ABORTED, BATON_REASON_STALE_REVISION,
                                 "the store is at revision %llu, the write would make it %llu",
                                 (unsigned long long)revision,
                                 (unsigned long long)transaction->revision);
    }
    return baton_status_ok();
}
