/* leadership.h -- the thread that seeks and keeps the leadership among several controllers.
 *
 * It runs the election (election.h) against the leader's record, over a connection of its own: neither a
 * commit nor the loop delays a renewal.  The loop looks at what became of it and asks, before whatever
 * only a leader may do, whether this leadership still holds.  That ends by the clock, also while this
 * thread waits for the store.
 *
 * Depends on: election.h, controller/store/leader.h.  Threads: functions from any thread.
 * Ownership: leadership_open/close; the options are borrowed and outlive it. */
#ifndef CONTROLLER_SHELL_LEADERSHIP_H
#define CONTROLLER_SHELL_LEADERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/status.h"
#include "controller/store/leader.h"

struct leadership;

struct leadership_options {
    const char *advertise; /* Where callers reach this controller: "host:port". */
    uint64_t lease_ns;
    uint64_t renew_ns;
    uint64_t skew_ns;       /* How far two controllers' clocks may run apart in a lease. */
    uint64_t last_known_ns; /* How old what a standby tells may be; 0: it tells nothing. */
};

/* What the loop sees. */
struct leadership_view {
    bool leads;
    uint64_t term;                     /* Of the leadership, while it leads. */
    char leader[LEADER_ADDRESS_BYTES]; /* Who else leads; empty: nobody, as far as is known. */
};

/* 'changed' is told, on the leadership's thread, that a look is worth it. */
BATON_MUST_USE struct baton_status leadership_open(const struct leadership_options *options,
                                                   const char *store_address,
                                                   void (*changed)(void *context), void *context,
                                                   struct leadership **out);
/* Before the start: the record is believed only in this cluster (leader_store_pin()). */
void leadership_pin(struct leadership *leadership, uint64_t cluster);
/* The name in the record while this controller leads: of its life. */
const char *leadership_holder(const struct leadership *leadership);
BATON_MUST_USE struct baton_status leadership_start(struct leadership *leadership);

void leadership_look(struct leadership *leadership, struct leadership_view *out);
/* Whether the leadership of 'term' holds now. */
bool leadership_holds(struct leadership *leadership, uint64_t term);

/* The store refused a write, for somebody else began to lead.  Holds no more from here on. */
void leadership_step_down(struct leadership *leadership);
/* Gives the leadership away and ends; returns at once.  Holds no more from here on. */
void leadership_stop(struct leadership *leadership);
/* Stops, waits for the thread, frees; null is fine. */
void leadership_close(struct leadership *leadership);

#endif /* leadership.h */
