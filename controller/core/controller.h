/* controller.h -- the decision core of the controller daemon.
 *
 * What happened goes in as an event (event.h); what to do comes out as a list of actions
 * (action.h). The core performs no I/O, reads no clock, starts no thread and allocates nothing
 * after controller_init(): time comes with the events and randomness from the seed, so equal events
 * give equal actions.
 *
 * Life: controller_init(); one EVENT_LOAD for each stored record, in any order; EVENT_STARTED once
 * the new epoch is durable; then anything.  Whatever it knows beyond its records it learns again
 * from the agents, so it can be thrown away and rebuilt from the store at any moment.
 *
 * Depends on: api/base.  Called by: controller/shell, tests.  Threads: one caller at a time.
 * Ownership: the caller owns the arena and every event; the core lives inside the arena. */
#ifndef CONTROLLER_CORE_CONTROLLER_H
#define CONTROLLER_CORE_CONTROLLER_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/limits.h"
#include "api/base/status.h"

struct action;
struct baton_arena;
struct controller;
struct event;
struct started;

/* Sizes of the core's tables; a full one refuses with RESOURCE_EXHAUSTED and its name. */
struct controller_limits {
    uint32_t models;
    uint32_t versions;
    uint32_t versions_kept; /* Newest of each model that are kept besides those in use. */
    uint32_t rolls;
    uint32_t rolls_kept; /* Of each model. */
    uint32_t groups;
    uint32_t agents;
    uint32_t landed; /* Digests remembered for each agent; CONTROLLER_LANDED_MAX at most. */
    uint32_t request_ids;
    uint32_t waits;
    uint64_t open_kept_ms; /* A version that is not published within this time is dropped. */
    /* Bytes on an agent that are of no version of ours may go after so long. */
    uint64_t unknown_kept_ms;
    uint32_t swaps;      /* Of the swap history, with some that go. */
    uint32_t swaps_kept; /* At least SWAPS_PER_STEP_MAX fewer. */
    uint32_t sessions;   /* Half of them of one model at most; so with slot leases. */
    uint32_t slot_leases;
};

enum {
    CONTROLLER_SEED_BYTES = 16,
    CONTROLLER_LANDED_MAX = 64,
    CONTROLLER_SWAPS_KEPT = 8192,   /* Unless configured. */
    CONTROLLER_SWAPS_A_STEP = 128,  /* Added, or removed, at most. */
    CONTROLLER_LEASE_MS = 10000,    /* An agent must be heard within this time. */
    CONTROLLER_PROTOCOL = 1,        /* Of AgentSession. */
    CONTROLLER_PROTOCOL_OLDEST = 1, /* Agents are upgraded after their controller. */
};

struct actions {
    const struct action *items; /* In the order in which they must be performed. */
    size_t count;
};

/* The limits of limits.h. */
struct controller_limits controller_limits_default(void);

/* Bytes that controller_init() takes from the arena.  Most of them are not touched before they are
 * needed, so an arena of fresh pages costs memory only as the fleet grows. */
size_t controller_bytes(const struct controller_limits *limits);

/* Builds a core inside 'arena'; null if it does not fit.  'seed' must be secret random bytes: the
 * uids of tickets and versions come from it. */
struct controller *controller_init(struct baton_arena *arena,
                                   const struct controller_limits *limits,
                                   const uint8_t seed[CONTROLLER_SEED_BYTES]);

/* Applies one event and returns what must now be done.  It cannot fail: a request that is refused
 * comes back as a REPLY, a session that is refused as a CLOSE_SESSION, and neither changes
 * anything. 'event' is read only during the call; the actions are valid until the next one. */
struct actions controller_step(struct controller *core, const struct event *event);

/* Why the last EVENT_LOAD could not be taken over (table full, a record that breaks its own rules);
 * OK otherwise.  The shell must not go on to EVENT_STARTED after a failure. */
struct baton_status controller_load_status(const struct controller *core);

/* Instead of EVENT_STARTED, after the loads: a core that is only looked at (view.h), as of that revision of the store.
 * It decides nothing, and its view has nothing of what only a leader knows.  No event may follow. */
void controller_show(struct controller *core, const struct started *started);

/* When to deliver EVENT_TIMER if nothing else happens before; UINT64_MAX: never. */
uint64_t controller_deadline_ns(const struct controller *core);

#endif /* controller.h */
