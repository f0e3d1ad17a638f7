/* root.h -- the state of a landing root; private to transport/landing.
 *
 * Threads: everything below 'lock' is guarded by it; the rest is constant after opening.
 * Ownership: landing_root_open() gives, landing_root_close() takes. */
#ifndef TRANSPORT_LANDING_ROOT_H
#define TRANSPORT_LANDING_ROOT_H

#include <pthread.h>

#include "transport/landing/landing.h"

/* Hidden names: a landing of a known digest, one of unknown digest, a version on its way out. */
#define ROOT_RESUMABLE_PREFIX ".landing-"
#define ROOT_IMPORT_PREFIX    ".import-"
#define ROOT_TRASH_PREFIX     ".trash-"

enum { ROOT_NAME_BYTES = 64, ROOT_ACTIVE_MAX = 16 };

struct landing_root {
    char dir[BATON_PATH_BYTES];
    int dir_fd;
    int lock_fd;
    uint64_t budget_bytes;

    pthread_mutex_t lock;
    struct landing_version *versions;
    size_t versions_count;
    size_t versions_capacity;
    uint64_t sealed_bytes;
    uint64_t reserved_bytes;                       /* By landings under way. */
    char active[ROOT_ACTIVE_MAX][ROOT_NAME_BYTES]; /* Their hidden names; empty: free. */
    struct holding *holdings;                      /* What peers are being served from. */
};

/* A landing under way: its hidden directory and its share of the budget. */
struct root_claim {
    char name[ROOT_NAME_BYTES];
    int dir_fd;
    uint64_t bytes;
};

/* Reserves 'bytes' and makes (or, for a known digest, finds) the hidden directory.  'digest' null:
 * not known yet.  RESOURCE_EXHAUSTED NO_SPACE names the directory, what is needed and what is free;
 * FAILED_PRECONDITION IN_USE: the same digest is being landed. */
BATON_MUST_USE struct baton_status root_claim(struct landing_root *root,
                                              const struct digest *digest, uint64_t bytes,
                                              struct root_claim *out);
/* Gives the reservation back; 'keep' leaves the directory for a later continuation. */
void root_unclaim(struct landing_root *root, struct root_claim *claim, bool keep);
/* Renames the hidden directory to its version's name, syncs, lists it, and ends the claim.  If the
 * version is there already, the hidden one is removed. */
BATON_MUST_USE struct baton_status root_publish(struct landing_root *root, struct root_claim *claim,
                                                struct digest digest);

/* "landing DIR: needs N bytes, M are free". */
BATON_MUST_USE struct baton_status root_no_space(struct landing_root *root, uint64_t bytes);

/* Adds a sealed version to the list (under no lock). */
BATON_MUST_USE struct baton_status root_list_version(struct landing_root *root,
                                                     struct digest digest, uint64_t bytes);

/* Removes a directory with its files (one level deep, as all of ours are). */
void root_delete_directory(const struct landing_root *root, const char *name);
/* Sum of the sizes of a directory's files. */
uint64_t root_measure_directory(const struct landing_root *root, const char *name);
/* Reads the directory: removes leftovers, lists sealed versions. */
BATON_MUST_USE struct baton_status root_restore(struct landing_root *root);

#endif /* root.h */
