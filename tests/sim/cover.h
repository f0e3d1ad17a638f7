/* cover.h -- which states, reasons, verbs and faults the worlds reached.
 *
 * Counters over all worlds of a process; main.c adds those of its workers together.
 *
 * Depends on: nothing.  Threads: one.  Ownership: static memory. */
#ifndef TESTS_SIM_COVER_H
#define TESTS_SIM_COVER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum cover_kind {
    COVER_GROUP_STATE, /* As reported to a controller. */
    COVER_PHASE,       /* Of an agent's group, and from which it was entered. */
    COVER_BLOCKED,
    COVER_VERB,
    COVER_OUTCOME,
    COVER_FATE,
    COVER_ENGINE_FAULT, /* Operation and fault. */
    COVER_ROLL_STATE,
    COVER_JOURNAL,
    COVER_PACKET_LOST,
    COVER_PEER,       /* Verbs that arrived at a follower. */
    COVER_OPERATE,    /* Break-glass. */
    COVER_TOGETHER,   /* Messages that waited for the next one, in a row. */
    COVER_ROUTER,     /* Fault, and which of a swap's two calls. */
    COVER_SAMPLE,     /* Faults of samples that were judged. */
    COVER_MODELS,     /* Two models, where they meet. */
    COVER_DELIVERY,   /* Of commits, to the store. */
    COVER_TRANSITION, /* Of groups' states, as a controller logs them: COVER_STATES times the one before, and the one after. */
    COVER_KINDS
};

enum cover_delivery {
    DELIVERY_DONE_UNANSWERED,
    DELIVERY_UNDONE_UNANSWERED,
    DELIVERY_SLOW,
    DELIVERY_SLOW_LEASE,
    DELIVERY_DEPOSED_MEANWHILE,
    DELIVERY_LATE_DONE,
    DELIVERY_LATE_REFUSED,
    DELIVERY_TWICE,
    DELIVERY_AWAY,
    DELIVERY_START_AWAY,
    DELIVERY_SLOW_LOAD,
    DELIVERY_DIED,
    DELIVERY_TOLD,
    DELIVERY_DEPOSED_LEARNS,
    DELIVERY_DEPOSED_SENDS,
    DELIVERY_DEPOSED_CUT,
    DELIVERY_TAKEN_BACK,
    DELIVERY_LOAD_OVERTAKEN,
    DELIVERY_TORN,
    DELIVERY_TORN_RESUMED,
    DELIVERY_TORN_INHERITED,
    DELIVERY_TORN_DROPPED,
    DELIVERY_KINDS
};

enum { COVER_VALUES = 4096, COVER_STATES = 32 };

enum { COVER_MODELS_ONE_AGENT, COVER_MODELS_TICKETS, COVER_MODELS_LEASE };

void cover(enum cover_kind kind, uint32_t value);
uint64_t *cover_counters(void);
/* Prints all that was never reached and has no excuse; how many. */
uint32_t cover_missing(FILE *out, bool all);

#endif /* cover.h */
