/* faults.h -- misbehaviour on demand: what to break, where, and how often.
 *
 * The table lies in memory that all ranks share, so a fault that is set or cleared takes effect at
 * once, even while the engine's own thread hangs in one.  README.md says which behaviour of a real
 * server each kind imitates.  Nothing happens unless the table is enabled (--faults).
 *
 * Depends on: jansson.  Threads: any; the table's writers are serialised inside.
 * Ownership: faults_create/destroy; a rank process maps the parent's table with faults_attach. */
#ifndef TESTS_MINIENGINE_FAULTS_H
#define TESTS_MINIENGINE_FAULTS_H

#include <jansson.h>
#include <stdint.h>

#include "tests/miniengine/trouble.h"

enum { FAULTS_MAX = 32, FAULTS_ANY = -1 };

enum fault_kind {
    FAULT_FAIL,   /* Loading a tensor fails (phase apply) or checking it does (phase stage). */
    FAULT_HANG,   /* The rank stops in a phase, for 'ms' or until cleared. */
    FAULT_DIE,    /* The rank dies in a phase. */
    FAULT_LIE,    /* The phase answers as if it had been done. */
    FAULT_LOSE,   /* Half of the tensors are not loaded, and nobody says so. */
    FAULT_POISON, /* A failed apply is not rolled back, and its error stays. */
    FAULT_RAISE,  /* The rank raises; with several ranks the replies after it stay unread. */
    FAULT_LATE,   /* One reply too many: every later answer of the rank is one call late. */
    FAULT_SLOW,   /* A phase takes 'ms' longer. */
    FAULT_KINDS,
};

enum fault_phase {
    FAULT_PAUSE,
    FAULT_START,
    FAULT_STAGE,
    FAULT_APPLY,
    FAULT_READBACK,
    FAULT_RESET,
    FAULT_LABEL,
    FAULT_RESUME,
    FAULT_PROBE,
    FAULT_SLEEP,
    FAULT_STEP,
    FAULT_PHASES,
};

/* Where execution is, when it asks. */
struct fault_place {
    enum fault_phase phase;
    int32_t rank;
    int32_t tensor; /* Index in loading order; FAULTS_ANY at the entry of the phase. */
};

/* What was found; values, because the table may change meanwhile. */
struct fault_hit {
    uint32_t id;
    uint64_t ms;
    bool serves; /* FAULT_POISON: the mixed engine goes on serving. */
};

struct faults_table;

struct faults {
    struct faults_table *table; /* Null: never any fault. */
    int fd;                     /* Of the shared memory; for rank processes. */
    void (*die)(void *self);    /* How this rank dies; must not return. */
    void *die_self;
};

bool faults_create(struct faults *faults);
bool faults_attach(struct faults *faults, int fd);
void faults_destroy(struct faults *faults);

/* Adds one fault object or an array of them; all or none.
 * {"kind":"hang","phase":"apply","rank":1,"tensor":3,"seconds":5,"ms":0,"sticky":false,
 *  "serves":false}: 'rank' defaults to all ranks, 'tensor' to the entry of the phase, a hang without
 * 'seconds' lasts until cleared.  'ranks' is the engine's count. */
bool faults_add(struct faults *faults, const json_t *wanted, uint32_t ranks, struct trouble *why);

/* {"faults":[{"id":..,"kind":..,"phase":..,"rank":..,"sticky":..,"fired":[ranks]}]} */
json_t *faults_list(const struct faults *faults);

/* Removes all; a rank that hangs in one goes on. */
void faults_clear(struct faults *faults);

/* True, and uses up a one-shot fault for this rank, if one of this kind is set for the place. */
bool faults_take(struct faults *faults, enum fault_kind kind, struct fault_place place,
                 struct fault_hit *hit);

/* Passes a place: slow, hang and die happen here, in this order. */
void faults_pass(struct faults *faults, struct fault_place place);

#endif /* faults.h */
