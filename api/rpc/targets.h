/* targets.h -- the addresses of one client, and which one the next call goes to; private to api/rpc.
 *
 * A client that was given a list speaks with one address at a time.  The end of a call may change
 * which: a server that does not lead names the one that does (baton.v1.NotLeader), one that cannot be
 * reached or stops is left for the next of the list.  Only calls that went to the present address
 * count, so that late news of an earlier one changes nothing.  A leader that is not in the list is
 * remembered beside it.
 *
 * Depends on: core.h.  Threads: one at a time: the client's mutex.  Ownership: channels and texts are
 * its own; a call keeps its channel by itself. */
#ifndef BATON_RPC_TARGETS_H
#define BATON_RPC_TARGETS_H

#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "api/base/status.h"

enum { TARGETS_LISTED_MAX = 8, TARGET_BYTES = 512 };

struct target {
    char address[TARGET_BYTES];
    grpc_channel *channel; /* Null: the place is free. */
};

struct targets {
    struct target listed[TARGETS_LISTED_MAX];
    uint32_t listed_count;
    struct target named; /* A leader that is not listed. */
    bool at_named;
    uint32_t at;   /* In 'listed', while not 'at_named'. */
    uint64_t turn; /* Rises whenever another address is taken. */
    bool
        local_only; /* Without certificates, and told of this machine alone: no other is followed. */
    /* Makes a channel; never null. */
    grpc_channel *(*open)(const char *address, void *context);
    void *context;
};

/* Takes "a:1,b:2" apart (unix: and gRPC's own lists, "ipv4:...", are one address), checks each,
 * opens nothing. */
BATON_MUST_USE struct baton_status targets_parse(const char *text, struct targets *out);
void targets_open(struct targets *targets);
void targets_close(struct targets *targets);

/* Where the next call goes. */
const struct target *targets_current(const struct targets *targets);

/* A call of 'turn' heard that 'leader' leads. */
void targets_follow(struct targets *targets, uint64_t turn, const char *leader);
/* A call of 'turn' found nobody there: the next one of the list. */
void targets_pass(struct targets *targets, uint64_t turn);

#endif /* targets.h */
