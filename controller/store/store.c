/* store.c -- see store.h: addresses, and what all backends check alike. */
#include "controller/store/store.h"

#include <string.h>

#include "api/base/mutant.h"
#include "controller/store/backend.h"

static const char sqlite_prefix[] = "sqlite:";
static const char etcd_prefix[] = "etcd:";

struct baton_status store_open(const char *address, uint64_t wall_ns, struct store **out)
{
    size_t prefix = sizeof(sqlite_prefix) - 1;
    if (strcmp(address, "memory:") == 0) {
        return memory_store_open(wall_ns, out);
    }
    if (strncmp(address, sqlite_prefix, prefix) == 0 && address[prefix] != '\0') {
        return sqlite_store_open(address + prefix, wall_ns, out);
    }
    if (strncmp(address, etcd_prefix, sizeof(etcd_prefix) - 1) == 0) {
        return etcd_store_open(address + sizeof(etcd_prefix) - 1, wall_ns, out);
    }
    return baton_status_hint(
        baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                          "store: \"%.200s\" is not an address of a store", address),
        "use sqlite:PATH, etcd:URL,...[/PREFIX], or memory: for a store that lives "
        "with the process");
}

void store_close(struct store *store)
{
    if (store != NULL) {
        store->backend->close(store);
    }
}

struct baton_status store_acquire_epoch(struct store *store, struct store_start *out)
{
    return store->backend->acquire_epoch(store, out);
}

struct baton_status store_raise_generation(struct store *store, uint64_t floor)
{
    return store->backend->raise_generation(store, floor);
}

struct baton_status store_load(struct store *store, store_visit_fn visit, void *context)
{
    return store->backend->load(store, visit, context);
}

struct baton_status store_commit(struct store *store, const struct transaction *transaction)
{
    return store->backend->commit(store, transaction);
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
