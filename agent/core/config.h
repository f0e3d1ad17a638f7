/* config.h -- what an agent's core is told once, at init: its groups, their engines, its patience.
 *
 * Depends on: api/base.  Threads: values only.
 * Ownership: arrays are the caller's and are copied by agent_init(). */
#ifndef AGENT_CORE_CONFIG_H
#define AGENT_CORE_CONFIG_H

#include <stdint.h>

#include "api/base/limits.h"
#include "api/base/status.h"

enum agent_recreate {
    AGENT_RECREATE_NONE, /* Somebody else does; the report names the command. */
    AGENT_RECREATE_EXEC, /* The shell owns the process. */
};

struct agent_engine_config {
    char name[BATON_NAME_BYTES]; /* Unique in its group. */
    char kind[BATON_NAME_BYTES]; /* Of the adapter. */
    char endpoint[BATON_PATH_BYTES];
    enum agent_recreate recreate;
    char recreate_command[BATON_PATH_BYTES]; /* EXEC: what runs; NONE: shown to people. */
    bool boots_from_landing; /* EXEC: it starts on the landed target, so it waits for one. */
    char boot_digest[BATON_DIGEST_TEXT_BYTES]; /* Its boot checkpoint's version; may be empty. */
};

/* Another agent of a group (rule 4). */
struct agent_member_config {
    char agent[BATON_NAME_BYTES];
    char address[BATON_PATH_BYTES]; /* Where it listens. */
};

struct agent_group_config {
    char name[BATON_NAME_BYTES];
    char model[BATON_NAME_BYTES];
    char leader[BATON_NAME_BYTES]; /* Another agent leads it, this one follows; empty: it leads. */
    const struct agent_member_config *followers; /* Of a group that it leads; else none. */
    uint32_t followers_count;
    const struct agent_engine_config *engines; /* The first one's gate opens last. */
    uint32_t engines_count; /* Own ones only; a follower may have none: it stages. */
    uint32_t hold_max;      /* Requests of one engine that may wait during a swap. */
};

/* Durations in nanoseconds. */
struct agent_times {
    uint64_t health_interval;   /* Between two health checks of an engine. */
    uint64_t engine_lost;       /* Unreachable for so long: OUT. */
    uint64_t recreate_after;    /* OUT and unreachable for so long: recreate. */
    uint64_t boot;              /* A recreated engine must answer within. */
    uint64_t recreate_deadline; /* The recreate action itself. */
    uint64_t retry_first;       /* First wait of landings, attaches, recreations; doubles. */
    uint64_t retry_max;
    uint64_t restore_bound;   /* Longest RESTORING, RESUMING, and recovery of an open ticket. */
    uint64_t op_short;        /* Health, gate, fence, label, resume: one try. */
    uint64_t op_long;         /* Invalidate, probe, attach: one try. */
    uint64_t readback;        /* Read-back outside of a swap. */
    uint64_t op_grace;        /* After an operation's deadline, before it is abandoned. */
    uint64_t report_interval; /* Between two reports that carry progress only. */
    uint64_t steady;          /* Served for so long: earlier recreations no longer count. */
};

struct agent_config {
    char agent[BATON_NAME_BYTES];
    char software[BATON_NAME_BYTES];
    char address[BATON_PATH_BYTES];
    char peer_address
        [BATON_ADDRESS_BYTES];        /* Where it serves versions to peers; empty: it does not. */
    char peer_zone[BATON_NAME_BYTES]; /* What it shares fast links with; empty: none. */
    uint64_t landing_budget_bytes;
    uint32_t recreate_attempts; /* In a row; then ENGINE_NEEDS_RECREATE. */
    const struct agent_group_config *groups;
    uint32_t groups_count; /* 0: it leads none, and keeps a session all the same. */
    struct agent_times times;
};

/* The times that an agent ships with. */
struct agent_times agent_times_default(void);

/* Says which key of which group or engine is wrong: an empty or repeated name, a group without engine,
 * too many groups or engines, a time of 0. */
BATON_MUST_USE struct baton_status agent_config_check(const struct agent_config *config);

#endif /* config.h */
