/* rates.h -- how often one identity may call, and how many streams it may have open, in each of its roles.
 *
 * A bucket of tokens for each identity and role: it fills at the role's rate up to the role's burst, and each call takes
 * one.  A call counts in that role, of those that let the identity make it, which allows the most; so the reads
 * of an agent's certificate do not use up its sessions.  Identities without a role have the viewer's limits.  The table
 * has a fixed size: whose bucket is full and who has no stream open is forgotten.
 *
 * Depends on: rules.h.  Threads: any.  Ownership: the daemon's. */
#ifndef CONTROLLER_SHELL_RATES_H
#define CONTROLLER_SHELL_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/status.h"
#include "controller/shell/rules.h"

enum { RATES_CALLS_MAX = 1000000, RATES_STREAMS_MAX = 65536 };

/* Of one identity in one role. */
struct rate {
    unsigned calls;   /* A second. */
    unsigned burst;   /* At once, after a pause. */
    unsigned streams; /* Open at one time. */
};

/* Members of 0: the default. */
struct rates_options {
    struct rate roles[ROLES_COUNT];
};

/* Of the server's connections. */
struct connection_limits {
    uint64_t handshake_ns;    /* To be ready for calls. */
    uint64_t idle_ns;         /* Without a call. */
    uint32_t per_address_max; /* 0: not bounded. */
};

struct rates;

/* Null options: the defaults. */
struct rates *rates_create(const struct rates_options *options);
void rates_destroy(struct rates *rates); /* Null is fine. */

/* The limits in use. */
struct rate rates_of(const struct rates *rates, enum role role);

/* One call that comes in. */
struct rates_call {
    const char *identity;
    unsigned roles; /* ROLE_BIT()s of the identity that let it make this call. */
    bool is_stream;
    uint64_t now_ns; /* Monotonic. */
};

/* Takes a token, and for a stream a place, which '*mark' names (else it is 0).  RESOURCE_EXHAUSTED LIMIT says which key
 * of the controller's file to raise; '*retry_ns' then is when there will be a token, 0 for a stream. */
BATON_MUST_USE struct baton_status rates_take(struct rates *rates, const struct rates_call *call,
                                              uint32_t *mark, uint64_t *retry_ns);
/* The stream is over; a mark of 0 is fine. */
void rates_give_back(struct rates *rates, uint32_t mark);

/* Calls refused since the start. */
uint64_t rates_refused(const struct rates *rates);

#endif /* rates.h */
