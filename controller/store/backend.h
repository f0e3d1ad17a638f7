/* backend.h -- what a store backend offers to store.c; the contracts are those of store.h.
 *
 * Depends on: store.h.  Threads: as store.h.  Ownership: a backend embeds struct store first. */
#ifndef CONTROLLER_STORE_BACKEND_H
#define CONTROLLER_STORE_BACKEND_H

#include "controller/store/store.h"

struct store_backend {
    void (*close)(struct store *store);
    /* Null: there is nothing to reach. */
    struct baton_status (*reach)(struct store *store, uint64_t wall_ns);
    struct baton_status (*acquire_epoch)(struct store *store, struct store_start *out);
    struct baton_status (*raise_generation)(struct store *store, uint64_t floor);
    /* Before a load: OK once no commit is applied by half.  Null: none ever is. */
    struct baton_status (*settle)(struct store *store);
    struct baton_status (*scan)(struct store *store, store_visit_text_fn visit, void *context);
    struct baton_status (*commit)(struct store *store, const struct transaction *transaction);
    struct baton_status (*list_log)(struct store *store, uint64_t after, uint32_t limit,
                                    store_visit_log_fn visit, void *context);
    uint64_t (*revision)(const struct store *store);
    /* Null: one controller has it anyway, or none does. */
    void (*set_holder)(struct store *store, const char *holder);
    uint64_t (*cluster)(const struct store *store);
};

struct store {
    const struct store_backend *backend;
    bool reader; /* store.c refuses what would write. */
};

/* 'path' is what follows "sqlite:" in the address. */
BATON_MUST_USE struct baton_status sqlite_store_open(const char *path, uint64_t wall_ns,
                                                     struct store **out);
BATON_MUST_USE struct baton_status sqlite_store_open_reader(const char *path, struct store **out,
                                                            struct store_start *out_start);
/* 'address' is what follows "etcd:"; see etcd_address.h. */
BATON_MUST_USE struct baton_status etcd_store_open(const char *address, uint64_t wall_ns,
                                                   struct store **out);
BATON_MUST_USE struct baton_status etcd_store_open_unreached(const char *address, uint64_t wall_ns,
                                                             struct store **out);
BATON_MUST_USE struct baton_status etcd_store_open_reader(const char *address, struct store **out,
                                                          struct store_start *out_start);
BATON_MUST_USE struct baton_status memory_store_open(uint64_t wall_ns, struct store **out);

/* Gives the record to 'visit' that a kind's word, a key and a text make; as store_load() otherwise. */
BATON_MUST_USE struct baton_status store_decode(const char *word, const char *key, const char *text,
                                                store_visit_fn visit, void *context);

/* The generation of a store that is made at 'wall_ns': its second, so that it is above that of a
 * store that was made before it and lost. */
uint64_t store_first_generation(uint64_t wall_ns);

/* OK, or why a transaction may not be committed now. */
BATON_MUST_USE struct baton_status store_check(struct epoch stored, uint64_t revision,
                                               const struct transaction *transaction);

#endif /* backend.h */
