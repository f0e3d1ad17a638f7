/* load_agent.h -- a played agent: the session protocol of a real one over a real gRPC stream, with one group that does what it is
 * told in a fixed time, and no engine.
 *
 * It answers as a real agent would: hello with all it knows, acknowledgements, a report for each change and at least each third of
 * the lease, outcomes until they are stored, a new session with a backoff when the old one ended.
 *
 * Depends on: api/rpc, api/wire.  Threads: callbacks run on RPC threads, load_agent_tick() on the fleet's; the mutex guards all but
 * the atomics.  Ownership: the fleet owns its agents. */
#ifndef TESTS_BENCH_LOAD_AGENT_H
#define TESTS_BENCH_LOAD_AGENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/base/backoff.h"
#include "api/base/limits.h"
#include "api/base/random.h"
#include "api/rpc/rpc.h"
#include "baton/v1/agent_session.pb-c.h"

/* What all agents have in common. */
struct load_shape {
    uint32_t engines; /* Of a group. */
    uint32_t ranks;   /* Of an engine. */
    uint32_t land_ms; /* A version lands within so long; when, differs from agent to agent. */
    uint32_t swap_ms; /* From ticket to outcome. */
};

struct load_version {
    uint64_t seq; /* 0: none. */
    char digest[BATON_DIGEST_TEXT_BYTES];
    uint64_t bytes;
};

/* Times of the present version, monotonic; 0: not yet. */
struct load_times {
    atomic_uint_fast64_t goal_ns;   /* The goal to land it came. */
    atomic_uint_fast64_t staged_ns; /* STAGED was sent. */
    atomic_uint_fast64_t ticket_ns; /* The ticket came. */
};

struct load_agent {
    const struct load_shape *shape;
    struct rpc_client *client;
    char name[BATON_NAME_BYTES];
    char group[BATON_NAME_BYTES];
    struct load_times times;
    atomic_uint_fast64_t serving_seq; /* 0: its gate is shut. */
    atomic_uint_fast64_t welcomes;    /* Sessions that were greeted. */
    atomic_uint_fast64_t due_ns;      /* When load_agent_tick() has something to do. */
    atomic_bool stopping;

    pthread_mutex_t mutex;
    struct rpc_stream *stream; /* Null: none. */
    struct baton_backoff backoff;
    struct baton_random random;
    bool welcomed; /* In this session. */
    uint64_t lease_ns;
    uint64_t open_ns;   /* When to open a session; UINT64_MAX: it has one. */
    uint64_t report_ns; /* When to renew the lease. */
    uint64_t step_ns;   /* When the group's state changes by itself; UINT64_MAX: never. */
    Baton__V1__GroupState state;
    Baton__V1__Epoch epoch; /* Highest seen. */
    uint64_t owner_term;
    struct load_version committed;
    struct load_version target;
    struct load_version stage;             /* As told. */
    struct load_version landed;            /* Lands or has landed beside the committed one. */
    char ticket_uid[BATON_UID_TEXT_BYTES]; /* Last one that was accepted. */
    uint64_t ticket_number;
    uint64_t ticket_from;
    Baton__V1__Epoch ticket_epoch;
    struct load_version ticket_to;
    bool outcome_due; /* Of that ticket, until it is stored. */
};

/* It opens its session at the next tick. */
void load_agent_init(struct load_agent *agent, const struct load_shape *shape,
                     struct rpc_client *client, uint32_t place);
/* After its client was destroyed. */
void load_agent_deinit(struct load_agent *agent);
void load_agent_tick(struct load_agent *agent, uint64_t now_ns);

/* --- load_message.c; with the mutex --- */

void *load_message_hello(const struct load_agent *agent);
/* 'group' says whether the group changed. */
void *load_message_report(const struct load_agent *agent, bool group);
void *load_message_ack(uint64_t revision);

#endif /* load_agent.h */
