/* election.h -- who leads, by the leader's record: pure.
 *
 * Who leads renews its record (controller/store/leader.h); the others watch it.  Nobody compares clocks:
 * a follower takes over when it has not seen the record change for the whole lease by its own clock, and
 * at once when the record says that nobody leads.  A leader counts its lease from before it sent the
 * write that was answered, and stops short of it by 'skew': so it has stopped, by its own clock, before a
 * follower's may begin, as long as two clocks run apart by less than skew in a lease.  A process that
 * stood still notices by its clock.
 *
 *   FOLLOWING   reads the record now and then; writes itself in when it may
 *   LEADING     until 'until_ns'; renews well before
 *   STOPPED     was told to stop; releases the record if it is its own
 *
 * A write without an answer may have been done, now or later.  So it is followed by a read; 'count'
 * tells which of our writes is there.  The record's place makes sure that a late one changes nothing once
 * somebody else wrote.
 *
 * The shell asks what to do (election_next), does it, and tells how it went (election_read,
 * election_written): one call at a time.  It fences nothing: who begins to lead acquires an epoch.
 *
 * Depends on: controller/store/leader.h for the record.  Threads: an object belongs to one thread.
 * Ownership: plain data. */
#ifndef CONTROLLER_SHELL_ELECTION_H
#define CONTROLLER_SHELL_ELECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/store/leader.h"

struct election_options {
    char holder[LEADER_HOLDER_BYTES];   /* Of this life: random. */
    char address[LEADER_ADDRESS_BYTES]; /* Where callers reach this controller. */
    uint64_t lease_ns;
    uint64_t renew_ns; /* Between renewals; less than half of what 'lease' leaves after 'skew'. */
    uint64_t skew_ns;
    uint64_t poll_ns; /* Between reads of a follower. */
};

enum election_state { ELECTION_FOLLOWING, ELECTION_LEADING, ELECTION_STOPPED };

struct election {
    struct election_options options;
    enum election_state state;
    struct leader_record seen; /* The record as last seen. */
    uint64_t seen_ns;          /* When it was first seen so. */
    bool known;                /* It was read at all. */
    bool doubt;                /* A write has no answer: read before anything else. */
    bool release_tried;
    uint64_t count;    /* Of our writes. */
    uint64_t sent_ns;  /* When the last of them was sent. */
    uint64_t until_ns; /* Of the leadership. */
    uint64_t next_ns;  /* When to renew or to read again. */
    uint64_t term;     /* Leaderships so far. */
};

enum election_do {
    ELECTION_WAIT,  /* Until wake_ns, or until told to stop. */
    ELECTION_READ,  /* Until call_ns at most. */
    ELECTION_WRITE, /* 'record', until call_ns at most. */
    ELECTION_END,   /* It is over. */
};

struct election_order {
    enum election_do what;
    uint64_t wake_ns;
    uint64_t call_ns;
    struct leader_record record;
};

struct election election_of(const struct election_options *options);

struct election_order election_next(struct election *election, uint64_t now_ns);

/* How the read went; 'record' is meaningful with OK. */
void election_read(struct election *election, uint64_t now_ns, const struct baton_status *status,
                   const struct leader_record *record);
/* How the write went; 'record' with OK, and with ABORTED: what is there. */
void election_written(struct election *election, uint64_t now_ns, const struct baton_status *status,
                      const struct leader_record *record);

/* Releases the record, then ends. */
void election_stop(struct election *election);
/* The store refused a write of ours, for somebody else leads: steps down, and reads who. */
void election_step_down(struct election *election, uint64_t now_ns);

/* Address of whoever leads as far as is known, never our own; empty: nobody does. */
const char *election_leader(const struct election *election, uint64_t now_ns);

#endif /* election.h */
