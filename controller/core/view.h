/* view.h -- what can be read from the controller's core, for rendering answers and watches.
 *
 * Const queries over the state after the last step.  Records come back as borrowed pointers, valid
 * until the next controller_step(); computed parts are filled into the caller's struct.  Lists are
 * ordered as the API promises (models and agents by name; groups by model, then name; versions and
 * rolls by model, then newest first), so an index is a place in that order and *_lower_bound()
 * finds the place for a page token.
 *
 * Of a core that only shows what is stored (controller_show()) the status of models, versions, rolls and groups has
 * what follows from the records alone; the rest of it is zero.
 *
 * Depends on: record.h, event.h.  Threads: that of controller_step().  Ownership: the core's. */
#ifndef CONTROLLER_CORE_VIEW_H
#define CONTROLLER_CORE_VIEW_H

#include "controller/core/event.h"
#include "controller/core/lag.h"

struct controller;

/* Numbers as in api/proto BlockedReason. */
enum blocked_reason {
    BLOCKED_NONE,
    BLOCKED_BUDGET_FULL,
    BLOCKED_ROLL_PAUSED,
    BLOCKED_STAGING,
    BLOCKED_STAGE_FAILED,
    BLOCKED_RANK_MISSING,
    BLOCKED_AGENT_UNKNOWN,
    BLOCKED_MODEL_HELD,
    BLOCKED_MODEL_SUSPENDED,
    BLOCKED_NO_RESTORE_SOURCE,
    BLOCKED_NO_MEMORY,
    BLOCKED_NO_TRANSPORT,
    BLOCKED_INCOMPATIBLE_LAYOUT,
    BLOCKED_STORE_UNAVAILABLE,
    BLOCKED_ENGINE_UNREACHABLE,
    BLOCKED_ENGINE_NEEDS_RECREATE,
    BLOCKED_ENGINE_UNGUARDED,
    BLOCKED_NO_VERSION,
    BLOCKED_STORE_FLOORS_UNKNOWN,
    BLOCKED_SWAP_FAILED,
    BLOCKED_GROUP_CORDONED = 20,
    BLOCKED_GROUP_PINNED = 21,
    BLOCKED_MASS_LOSS = 22,
    BLOCKED_CANARY_HOLD = 23,
    BLOCKED_CHECK_PENDING = 24,
    BLOCKED_CHECK_FAILED = 25,
    BLOCKED_SOAKING = 26,
    BLOCKED_SESSION_LEASES = 27,
    BLOCKED_ROUTER_NOT_DRAINED = 28,
    BLOCKED_IN_DOUBT = 29,
    BLOCKED_VERSION_QUARANTINED = 30,
    BLOCKED_BARRIER_WAITING = 31,
    BLOCKED_GROUP_ASLEEP = 32,
    BLOCKED_LIVE_IMPOSSIBLE,
    BLOCKED_REASONS_END
};

/* Numbers as in api/proto RollGroupState. */
enum roll_group_state {
    ROLL_GROUP_STATE_WAITING = 1,
    ROLL_GROUP_STATE_STAGING,
    ROLL_GROUP_STATE_STAGED,
    ROLL_GROUP_STATE_SWAPPING,
    ROLL_GROUP_STATE_DONE,
    ROLL_GROUP_STATE_FAILED,
    ROLL_GROUP_STATE_OUT
};

/* As api/proto Condition; the type is the name of the member that holds it. */
struct condition {
    const char *status; /* "True", "False" or "Unknown". */
    const char *reason; /* One word. */
    char message[BATON_TEXT_BYTES];
    uint64_t last_transition_wall_ns; /* 0: since the core started. */
};

struct conditions {
    struct condition ready;
    struct condition progressing;
    struct condition degraded;
};

/* Whether a model's rolls keep up with its publishes; see converge.c. */
struct convergence {
    bool known;           /* There are measures, and the trigger is one that keeps coming. */
    bool will_not;        /* The fleet will never be on the newest version. */
    uint64_t interval_ns; /* Between rolls; 0: not known. */
    uint64_t swap_ns;     /* That a swap takes a slot, soak included; 0: not known. */
    uint64_t pause_ns;
    uint64_t stage_ns;
    uint64_t pass_ns;               /* That all groups take. */
    uint64_t steady_lag;            /* Publishes that a group gets behind, about. */
    uint32_t needs_max_unavailable; /* That would keep up; 0: no number would. */
    char message[BATON_TEXT_BYTES]; /* "WillNotConverge: ..."; empty: it converges, or not known. */
};

struct model_status {
    char active_roll[RECORD_KEY_BYTES]; /* "<model>-<number>"; empty: none. */
    uint32_t groups;
    uint32_t groups_converged;   /* Gate open at the newest target: see wait.c. */
    uint32_t groups_unavailable; /* Counted against the budget. */
    uint32_t max_unavailable;    /* What the policy allows with so many groups. */
    uint64_t max_lag_publishes;
    struct convergence convergence;
    struct conditions conditions;
};

struct version_status {
    uint64_t bytes_ready;
    uint32_t groups_serving;
};

/* What the present step of a roll's canary waits for. */
enum canary_wait {
    CANARY_WAIT_NONE,
    CANARY_WAIT_GROUPS, /* To be swapped. */
    CANARY_WAIT_SOAK,
    CANARY_WAIT_CHECK,
    CANARY_WAIT_FAILED, /* A check failed. */
    CANARY_WAIT_HOLD
};

struct roll_status {
    uint32_t groups_total;
    uint32_t groups_done;
    uint32_t groups_swapping;
    uint32_t groups_shut;  /* In its barrier. */
    uint32_t canary_steps; /* Of the policy; 0: none apply to this roll. */
    enum canary_wait canary_wait;
    char canary_message[BATON_TEXT_BYTES]; /* What it waits for, in words. */
    char convergence_message[BATON_TEXT_BYTES];
};

struct group_status {
    const struct group_report *report; /* Last one in this epoch; null: UNKNOWN. */
    enum group_state state;            /* The report's, or UNKNOWN. */
    uint64_t committed_seq;            /* As reported, else as stored. */
    const char *committed_digest;
    uint64_t staging_bytes; /* Size of the version that it lands. */
    uint64_t lag_publishes;
    uint64_t lag_optimizer_steps;
    uint64_t lag_samples;
    uint64_t lag_seconds;
    uint64_t age_seconds;
    enum lag_relation relation;
    bool counted; /* Against the budget. */
    enum blocked_reason blocked_reason;
    char blocked_message[BATON_TEXT_BYTES];
    struct conditions conditions;
};

/* A group's part in the active roll of its model. */
struct roll_group_status {
    enum roll_group_state state;
    uint64_t from_seq;
    enum blocked_reason blocked_reason;
    char blocked_message[BATON_TEXT_BYTES];
    uint32_t attempts;
    bool swapped_here; /* Its last swap was of this roll: 'last_swap' of the record has the phases.
                        */
    uint64_t staged_bytes;
};

/* A group's part in a roll that was not started. */
enum plan_restore {
    PLAN_RESTORE_UNKNOWN,
    PLAN_RESTORE_NONE,
    PLAN_RESTORE_LANDED,
    PLAN_RESTORE_RECREATE
};
enum plan_memory { PLAN_MEMORY_UNKNOWN, PLAN_MEMORY_FITS, PLAN_MEMORY_LACKS, PLAN_MEMORY_LANDED };

struct plan_group {
    const struct group_record *group;
    uint32_t wave; /* From 1; 0: it serves the version already. */
    uint32_t step; /* Canary step, from 1; 0: after all. */
    uint64_t from_seq;
    enum blocked_reason blocked_reason; /* What will stop it as things are now. */
    char blocked_message[BATON_TEXT_BYTES];
    enum plan_restore restore;
    enum plan_memory memory;
    uint64_t free_bytes;     /* Of its agent's landing. */
    uint64_t pause_ns;       /* 0: unknown. */
    uint64_t stage_ns;       /* 0: unknown. */
    bool estimated_by_model; /* It never swapped: the model's median. */
    enum policy_mode mode;
    char route[BATON_TEXT_BYTES]; /* How the bytes come to its agent, and why so. */
};

struct plan_request {
    uint64_t to_seq;        /* 0: the newest. */
    const char *order_list; /* Empty: the policy's. */
};

struct plan {
    const struct version_record *version; /* Null: there is none. */
    uint32_t groups;
    uint32_t waves;
    uint32_t max_unavailable;
    uint64_t total_ns;              /* 0: unknown. */
    char refusal[BATON_TEXT_BYTES]; /* Why Start would be refused; empty: it would not. */
    struct convergence convergence;
};

/* A metric that a step waits for; see event.h, metric_answer. */
struct metric_query {
    const char *model;
    uint64_t roll;
    uint32_t step; /* Of its canary. */
    uint64_t seq;  /* The roll's version. */
    const char *check;
    const char *query;
};

struct agent_status {
    bool connected;
    uint64_t session;           /* 0: none. */
    uint64_t last_seen_wall_ns; /* 0: not in this epoch. */
    uint32_t groups;
    uint64_t landing_used_bytes;
    uint64_t landing_budget_bytes;
    uint32_t landed_count;
    const char (*landed)[BATON_DIGEST_TEXT_BYTES];
    uint64_t goals_revision;   /* Last sent. */
    uint64_t goals_acked;      /* Last taken over. */
    const char *goals_refusal; /* Why the last were refused; empty: they were not. */
};

uint64_t view_revision(const struct controller *core);
/* Wall time of the last step. */
uint64_t view_wall_ns(const struct controller *core);
struct epoch view_epoch(const struct controller *core);
/* False until STARTED, after a NEW_GENERATION, and of a core that only shows. */
bool view_is_started(const struct controller *core);
/* True while the store went back and not all agents have restated. */
bool view_floors_pending(const struct controller *core);

uint32_t view_models_count(const struct controller *core);
const struct model_record *view_model_at(const struct controller *core, uint32_t index);
const struct model_record *view_model_find(const struct controller *core, const char *name);
/* Place of the first model whose name is above 'after'. */
uint32_t view_models_lower_bound(const struct controller *core, const char *after);
void view_model_status(const struct controller *core, const struct model_record *model,
                       uint64_t wall_ns, struct model_status *out);

uint32_t view_versions_count(const struct controller *core);
const struct version_record *view_version_at(const struct controller *core, uint32_t index);
/* By seq within a model; seq 0: its newest published one. */
const struct version_record *view_version_find(const struct controller *core, const char *model,
                                               uint64_t seq);
const struct version_record *view_version_find_uid(const struct controller *core, const char *uid);
/* Place of the first version after 'version' in the order of the list; that of the model's first
 * one when only 'model' is given ('uid' empty).  Give model, seq and uid of the last one of a page.
 */
uint32_t view_versions_lower_bound(const struct controller *core, const char *model, uint64_t seq,
                                   const char *uid);
void view_version_status(const struct controller *core, const struct version_record *version,
                         struct version_status *out);

uint32_t view_rolls_count(const struct controller *core);
const struct roll_record *view_roll_at(const struct controller *core, uint32_t index);
/* Number 0: the model's newest. */
const struct roll_record *view_roll_find(const struct controller *core, const char *model,
                                         uint64_t number);
/* Place of the first roll after (model, number); of the model's first one for number 0. */
uint32_t view_rolls_lower_bound(const struct controller *core, const char *model, uint64_t number);
void view_roll_status(const struct controller *core, const struct roll_record *roll,
                      struct roll_status *out);
/* What to ask Prometheus for now: the metrics that steps wait for.  Copies at most 'max'; texts are the
 * core's, until its next step. */
size_t view_metric_queries(const struct controller *core, struct metric_query *out, size_t max);
/* Part of 'group' in 'roll'; false if the roll ended (parts are not kept) or is another model's. */
bool view_roll_group_status(const struct controller *core, const struct roll_record *roll,
                            const struct group_record *group, struct roll_group_status *out);

uint32_t view_groups_count(const struct controller *core);
const struct group_record *view_group_at(const struct controller *core, uint32_t index);
const struct group_record *view_group_find(const struct controller *core, const char *name);
/* Place of the first group after (model, name); of the model's first one for an empty name. */
uint32_t view_groups_lower_bound(const struct controller *core, const char *model,
                                 const char *name);
/* How many groups 'model' has; its first one is at view_groups_lower_bound(model, ""). */
uint32_t view_groups_of_model(const struct controller *core, const char *model);
/* Its last report in this epoch; null: UNKNOWN. */
const struct group_report *view_group_report(const struct controller *core,
                                             const struct group_record *group);
void view_group_status(const struct controller *core, const struct group_record *group,
                       uint64_t wall_ns, struct group_status *out);

uint32_t view_agents_count(const struct controller *core);
const struct agent_record *view_agent_at(const struct controller *core, uint32_t index);
const struct agent_record *view_agent_find(const struct controller *core, const char *name);
uint32_t view_agents_lower_bound(const struct controller *core, const char *after);
void view_agent_status(const struct controller *core, const struct agent_record *agent,
                       struct agent_status *out);

/* The swap history, oldest first. */
uint32_t view_swaps_count(const struct controller *core);
const struct history_record *view_swap_at(const struct controller *core, uint32_t index);
/* Place of the first swap after the one that was closed then with that ticket. */
uint32_t view_swaps_lower_bound(const struct controller *core, uint64_t closed_wall_ns,
                                const char *ticket_uid);

/* What a roll would do now; changes nothing.  Fills at most 'items_max' of the model's groups, in
 * the order in which they would go. */
void view_plan(const struct controller *core, const struct model_record *model,
               const struct plan_request *request, struct plan *out, struct plan_group *items,
               uint32_t items_max);

/* Request ids in the table, and one of them by its place; for tests and diagnosis. */
uint32_t view_requests_count(const struct controller *core);
const struct request_record *view_request_at(const struct controller *core, uint32_t index);
const struct cluster_record *view_cluster(const struct controller *core);

#endif /* view.h */
