/* disk.h -- the controller's durable store, and what becomes of commits on their way there.
 *
 * Depends on: cores.h.  Ownership: a world owns its disks, and what is on its way to them. */
#ifndef TESTS_SIM_DISK_H
#define TESTS_SIM_DISK_H

#include "tests/sim/cores.h"

struct disk;
struct head;
struct item;
struct world;

/* What becomes of a commit. */
enum store_fault {
    SF_NONE,
    SF_REFUSED, /* STORE_UNAVAILABLE: nothing was changed. */
    SF_FULL,
    SF_LOST,   /* It is applied, and its answer lost. */
    SF_UNDONE, /* No answer, and it is not applied. */
    SF_SLOW,   /* It takes long to arrive, and its answer to come back. */
    SF_LATE,   /* The controller gives up on it; it arrives later. */
    SF_TWICE,  /* Once more, later. */
    SF_TORN,   /* In parts, decided by one mark. */
    SF_PARTS,  /* Its parts are written; it dies before the mark, or gives up. */
};

/* How the next commit goes; times are from when it is sent. */
struct way {
    enum store_fault fault;
    uint64_t arrives_ns; /* SLOW, LATE, and the second time of TWICE. */
    uint64_t ends_ns;    /* Its answer, or the end of the controller's patience. */
};

enum commit_outcome {
    COMMIT_UNANSWERED, /* It is not known whether it was done. */
    COMMIT_DONE,
    COMMIT_STALE, /* Somebody else leads. */
};

struct kept_record {
    enum record_kind kind;
    char key[RECORD_KEY_BYTES];
    union record_body body;
};

/* --- disk.c --- */
void disk_free(struct disk *disk);
void disk_copy(struct disk *to, const struct disk *from);
bool disk_is_at(const struct disk *disk, struct epoch epoch);
struct baton_status disk_commit(struct world *world, struct disk *disk,
                                const struct transaction *transaction);
const void *disk_find(const struct disk *disk, enum record_kind kind, const char *key);
/* Gives every record to the core; through the store's codec if the world says so. */
bool disk_load(struct world *world, struct head *head);

/* --- delivery.c --- */
/* How this controller's next commit goes. */
struct way delivery_way(struct world *world, struct head *head);
/* Sends it.  True: head->outcome is known; else head->waits. */
bool delivery_send(struct world *world, struct head *head, const struct transaction *transaction,
                   const struct way *way);
void delivery_arrives(struct world *world, struct item *item);

/* --- torn.c --- */
/* This transaction is decided now, and will be applied within that time; before it is committed. */
void torn_begin(struct world *world, const struct head *head, const struct transaction *transaction,
                uint64_t span_ns);
/* Who applies it is gone. */
void torn_stop(struct world *world, const struct head *head);
/* All that was decided is applied, by the next leader or by the one that decided it. */
void torn_finish(struct world *world, bool next_leader);
void torn_forget(struct world *world);
/* What a reader finds of this record now; null: nothing. */
const void *torn_read(const struct world *world, const struct kept_record *kept);

#endif /* disk.h */
