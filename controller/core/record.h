/* record.h -- everything that the controller stores, as plain structs with texts of fixed size.
 *
 * A record is what must survive a crash; nothing else does.  The core owns the records that it
 * works on; the store encodes and decodes them field by field (controller/store/record_codec.c), so
 * a new member needs a row there.  Enum members that also exist in api/proto have the proto's
 * numbers (the shell converts by copying); in the store they are words (words.h).
 *
 * Not here: what is known only while a session lives (view.h), requests (event.h).
 *
 * Depends on: api/base/limits.h.  Threads: plain data.  Ownership: none. */
#ifndef CONTROLLER_CORE_RECORD_H
#define CONTROLLER_CORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/limits.h"

enum {
    RECORD_KEY_BYTES = 160,
    RECORD_WORD_BYTES = 48, /* Backends, kinds, reasons in CamelCase. */
};

/* The controller's leadership; compared generation first. */
struct epoch {
    uint64_t generation;
    uint64_t n;
};

/* How a group's swap is to be done; copied into each ticket, so that a later policy leaves it
 * alone. */
enum policy_trigger {
    POLICY_TRIGGER_ON_PUBLISH = 1,
    POLICY_TRIGGER_MANUAL,
    POLICY_TRIGGER_INTERVAL,
    POLICY_TRIGGER_MAX_LAG
};
enum policy_unit {
    POLICY_UNIT_PUBLISHES = 1,
    POLICY_UNIT_OPTIMIZER_STEPS,
    POLICY_UNIT_ROLLOUT_ITERATIONS,
    POLICY_UNIT_SECONDS
};
enum policy_order { POLICY_ORDER_MOST_STALE = 1, POLICY_ORDER_NAME };
enum policy_progress_action {
    POLICY_PROGRESS_REPORT = 1,
    POLICY_PROGRESS_PAUSE,
    POLICY_PROGRESS_ROLLBACK
};
enum check_kind { CHECK_KIND_MANUAL = 1, CHECK_KIND_METRIC, CHECK_KIND_PROBE, CHECK_KIND_CHANGE };
enum check_compare {
    CHECK_COMPARE_BELOW = 1,
    CHECK_COMPARE_AT_MOST,
    CHECK_COMPARE_ABOVE,
    CHECK_COMPARE_AT_LEAST
};
enum policy_strategy { POLICY_STRATEGY_ROLLING = 1, POLICY_STRATEGY_BARRIER };
enum policy_in_flight { POLICY_IN_FLIGHT_KEEP = 1, POLICY_IN_FLIGHT_WAIT, POLICY_IN_FLIGHT_ABORT };
enum policy_kv { POLICY_KV_FLUSH = 1, POLICY_KV_SALT, POLICY_KV_KEEP };
enum policy_mode { POLICY_MODE_PAUSE = 1, POLICY_MODE_LIVE };
enum policy_drain_expiry {
    POLICY_DRAIN_EXPIRY_GIVE_UP = 1,
    POLICY_DRAIN_EXPIRY_ABORT,
    POLICY_DRAIN_EXPIRY_KEEP
};
enum policy_non_finite { POLICY_NON_FINITE_REFUSE = 1, POLICY_NON_FINITE_ALLOW };
enum policy_arrivals { POLICY_ARRIVALS_HOLD = 1, POLICY_ARRIVALS_REFUSE };

enum policy_hook_when { POLICY_HOOK_BEFORE_PAUSE = 1, POLICY_HOOK_AFTER_PROBE };

struct hook_policy {
    enum policy_hook_when when;
    char url[BATON_HOOK_URL_BYTES];
    uint64_t deadline_ms;
};

struct swap_policy {
    enum policy_in_flight in_flight;
    enum policy_kv kv;
    enum policy_arrivals arrivals;
    uint64_t swap_deadline_ms;
    uint64_t drain_deadline_ms;
    bool allow_recreate;
    uint32_t hooks_count;
    struct hook_policy hooks[BATON_HOOKS_MAX];
    enum policy_drain_expiry drain_expiry; /* 0: of an older store, GIVE_UP. */
    uint64_t barrier_deadline_ms;          /* Of strategy Barrier: to be shut. */
    enum policy_mode mode;                 /* 0: of an older store, PAUSE. */
};

/* Units of lag, all counted along the lineage (lag.h). */
enum lag_unit { LAG_PUBLISHES = 1, LAG_OPTIMIZER_STEPS, LAG_SAMPLES, LAG_SECONDS, LAG_UNITS_END };

struct staleness_policy {
    enum lag_unit unit; /* Of both limits. */
    bool bounded;
    uint64_t bound; /* Meaningful while 'bounded'. */
    bool warned;
    uint64_t warn; /* Meaningful while 'warned'. */
};

struct session_policy {
    uint64_t max_hold_ms; /* How long leases on a version may hold a roll back. */
    uint64_t ttl_ms;      /* Of a lease that does not ask for another one. */
};

struct slot_policy {
    uint32_t samples_per_publish; /* That the trainer consumes between publishes; 0: no slots. */
    uint32_t max_held;            /* 0: no limit but the formula's. */
    uint64_t ttl_ms;
};

/* A quality condition that canary steps name. */
struct check_policy {
    char name[BATON_NAME_BYTES];
    enum check_kind kind;
    enum check_compare compare; /* METRIC: what the number must be, seen from 'threshold'. */
    double threshold;
    uint64_t window_ms; /* METRIC: so long no report may break it; 0: the first good one passes. */
    double tolerance;   /* PROBE: of the log-probability, in nats. */
    double max_change;  /* CHANGE: of each tensor; 0: no bound. */
    char query[BATON_QUERY_BYTES]; /* METRIC: asked of Prometheus; empty: reported. */
    uint64_t min_changed;          /* CHANGE: tensors that must differ; 0: none need. */
};

/* One step of a roll's canary: so many groups in all, then soak, then checks, then a hold. */
struct canary_step {
    uint32_t groups; /* Or percent of the model's groups. */
    bool groups_is_percent;
    uint64_t soak_ms;
    uint32_t checks; /* Bit i: the policy's check i. */
    bool hold;
};

/* When a version starts a roll, who goes first, and what must be shown on the way. */
struct roll_policy {
    uint64_t every_n; /* INTERVAL and MAX_LAG. */
    enum policy_unit every_unit;
    enum policy_order order;
    char order_list[BATON_PATH_BYTES]; /* Names with commas between: these go first. */
    enum policy_progress_action progress_action;
    uint64_t soak_ms; /* A swapped group keeps its slot for so long. */
    uint32_t checks_count;
    struct check_policy checks[BATON_CHECKS_MAX];
    uint32_t canary_count;
    struct canary_step canary[BATON_CANARY_STEPS_MAX];
};

struct update_policy {
    enum policy_trigger trigger;
    enum policy_strategy strategy;
    uint32_t max_unavailable;        /* Groups, or percent of the model's groups. */
    bool max_unavailable_is_percent; /* Rounded down, at least 1. */
    uint64_t progress_deadline_ms;
    uint32_t barrier_quorum; /* Groups that must be shut, or percent of the model's; 0: all. */
    bool barrier_quorum_is_percent; /* Rounded up. */
    uint32_t mass_loss; /* Lost groups beyond which no roll ticket is issued; 0: the default. */
    bool mass_loss_is_percent;
    enum policy_non_finite non_finite; /* Of published weights; 0: of an older store, REFUSE. */
    struct swap_policy swap;
    struct staleness_policy staleness;
    struct session_policy sessions;
    struct slot_policy slots;
    struct roll_policy roll;
};

struct model_record {
    char name[BATON_NAME_BYTES];
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t revision;   /* Store revision of the last change of this record. */
    uint64_t generation; /* Rises with each change of 'policy'. */
    uint64_t created_wall_ns;
    struct update_policy policy;
    uint64_t newest_seq; /* 0: nothing was published. */
    uint64_t newest_published_wall_ns;
    uint64_t seq_floor;             /* Highest seq that anybody has seen; the next one is above. */
    uint64_t promoted_seq;          /* 0: none. */
    uint64_t previous_promoted_seq; /* Promoted before it; 0: none. */
    bool held;
    char hold_reason[BATON_TEXT_BYTES];
    bool suspended;
    bool roll_pending; /* A publish was stored but not rolled: Resume starts a roll. */
    /* What INTERVAL counts from: the newest version when the last roll began, and then. */
    uint64_t trigger_seq;
    uint64_t trigger_step;
    uint64_t trigger_iteration;
    uint64_t trigger_wall_ns;
    uint64_t active_roll;      /* Number; 0: none. */
    uint64_t last_roll_number; /* Numbers are never reused. */
};

enum version_state { VERSION_STATE_OPEN = 1, VERSION_STATE_SEALED, VERSION_STATE_PUBLISHED };

struct version_source {
    char backend[RECORD_WORD_BYTES];
    char location[BATON_PATH_BYTES];
    char agent[BATON_NAME_BYTES];
};

struct tensor_change {
    char name[BATON_TENSOR_LABEL_BYTES]; /* May lack its end. */
    double change;                       /* transport/model/values.h. */
};

/* What the source saw in the values while it digested them. */
struct version_values {
    bool scanned; /* False: by an agent that does not look. */
    uint64_t nans;
    uint64_t infs;
    uint64_t bad_tensors; /* That hold one of them. */
    char first_bad[BATON_TENSOR_LABEL_BYTES];
    bool compared; /* With 'base_seq', the parent when it was copied. */
    uint64_t base_seq;
    uint64_t changed; /* Tensors. */
    uint64_t unchanged;
    uint64_t added;
    uint32_t largest_count; /* Largest first. */
    struct tensor_change largest[BATON_LARGEST_CHANGES_MAX];
};

struct version_record {
    char uid[BATON_UID_TEXT_BYTES];
    char model[BATON_NAME_BYTES];
    uint64_t seq; /* 0 before it was published. */
    uint64_t revision;
    enum version_state state;
    char digest[BATON_DIGEST_TEXT_BYTES]; /* Empty before it was sealed. */
    uint64_t bytes;                       /* Before it was sealed: expected; 0: not told. */
    uint64_t tensors;
    uint64_t files;
    bool manifest_read; /* The parts were read whole; they gave 'manifest_digest'. */
    char manifest_digest[BATON_DIGEST_TEXT_BYTES];
    uint64_t optimizer_step;
    uint64_t rollout_iteration;
    uint64_t samples_trained;
    uint64_t created_wall_ns;
    uint64_t published_wall_ns;
    uint64_t parent_seq; /* 0: the first, or not decided before the publish. */
    bool partial;
    char requested_by[BATON_NAME_BYTES];
    char reason[BATON_TEXT_BYTES];
    bool quarantined; /* Never a target; see fleet_versions.c. */
    char quarantine_reason[BATON_TEXT_BYTES];
    bool pinned; /* Retention keeps it. */
    struct version_values values;
    uint64_t hold_roll; /* Roll that sessions on it hold back; 0: none yet.  See leases.h. */
    uint64_t hold_since_wall_ns;
    uint32_t sources_count;
    struct version_source sources[BATON_SOURCES_PER_VERSION_MAX];
};

enum roll_state {
    ROLL_STATE_PROGRESSING = 1,
    ROLL_STATE_PAUSED,
    ROLL_STATE_COMPLETED,
    ROLL_STATE_SUPERSEDED,
    ROLL_STATE_UNDONE,
    ROLL_STATE_ABORTED,
    ROLL_STATE_ROLLED_BACK /* By the policy's progressAction. */
};
enum roll_cause {
    ROLL_CAUSE_PUBLISH = 1,
    ROLL_CAUSE_START,
    ROLL_CAUSE_UNDO,
    ROLL_CAUSE_ABORT,
    ROLL_CAUSE_ROLLBACK,
    ROLL_CAUSE_TRIGGER
};
enum check_state { CHECK_STATE_PENDING = 1, CHECK_STATE_PASSED, CHECK_STATE_FAILED };

/* What is known of one check in a roll's present step; the place is the policy's. */
struct check_record {
    char name[BATON_NAME_BYTES]; /* Empty: nothing was reported. */
    enum check_state state;
    double value;
    char message[BATON_TEXT_BYTES];
    char by[BATON_NAME_BYTES];
    uint64_t reported_wall_ns;
    bool unanswered; /* METRIC: the last query gave no number; 'message' says why. */
};

/* Something that somebody did to a roll. */
struct verb_record {
    char verb[RECORD_WORD_BYTES];
    char by[BATON_NAME_BYTES];
    char reason[BATON_TEXT_BYTES];
    uint64_t at_wall_ns;
};

/* Where a roll's barrier stands; numbers as in api/proto BarrierStage. */
enum barrier_stage {
    BARRIER_STAGE_NONE,
    BARRIER_STAGE_SHUTTING, /* Tickets are out; groups shut their gates. */
    BARRIER_STAGE_GO,       /* Decided: those that are shut swap; the old version is over. */
    BARRIER_STAGE_OPEN,     /* All that went committed, or are out. */
    BARRIER_STAGE_CANCELLED /* Too few were shut in time; the next try follows. */
};

struct roll_record {
    char model[BATON_NAME_BYTES];
    uint64_t number;
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t revision;
    uint64_t to_seq;
    uint64_t promoted_seq; /* Of the model when the roll started; 0: none. */
    enum roll_state state;
    bool degraded;
    bool catches_up; /* To what was promoted already: it ends without taking anything back. */
    enum roll_cause cause;
    char requested_by[BATON_NAME_BYTES];
    char reason[BATON_TEXT_BYTES];
    uint64_t started_wall_ns;
    uint64_t ended_wall_ns; /* 0: it runs. */
    uint32_t groups_total;  /* As it ended; while it runs, ask view.h. */
    uint32_t groups_done;
    enum barrier_stage barrier_stage;
    uint32_t barrier_tries;
    uint64_t barrier_decided_wall_ns;  /* Of GO; 0: not decided. */
    char order_list[BATON_PATH_BYTES]; /* Given to Start; empty: the policy's. */
    bool promoted;                     /* Promote made its version current before its end. */
    bool canary_passed;                /* No step is left, or none applies. */
    uint32_t canary_step;              /* The present one, from 0. */
    bool canary_soaked;                /* Its groups serve, and its soak is over. */
    uint32_t checks_count;
    struct check_record checks[BATON_CHECKS_MAX]; /* Of the present step. */
    uint32_t verbs_count;
    struct verb_record verbs[BATON_ROLL_VERBS_MAX]; /* The newest, oldest first. */
};

struct ticket_record {
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t number;
    struct epoch epoch;
    uint64_t owner_term;
    uint64_t from_seq; /* 0: none (a join). */
    char from_digest[BATON_DIGEST_TEXT_BYTES];
    uint64_t to_seq;
    char to_digest[BATON_DIGEST_TEXT_BYTES];
    struct swap_policy policy;
    uint64_t issued_wall_ns;
    uint64_t roll_number; /* 0: a rejoin. */
    bool rejoin;
    bool revoked; /* It was asked back; its outcome is still awaited. */
    /* Of the policy under which it was issued: while it is open, the budget is no wider. */
    uint32_t max_unavailable; /* 0: not known (an older store). */
    bool max_unavailable_is_percent;
    bool barrier; /* Of the roll's barrier: it moves on by the controller's words. */
    bool resolve; /* Of a rejoin: it asks the members of a group in doubt, and moves no weights. */
};

enum swap_outcome {
    SWAP_OUTCOME_COMMITTED = 1,
    SWAP_OUTCOME_REFUSED,
    SWAP_OUTCOME_PAUSE_TIMEOUT,
    SWAP_OUTCOME_APPLY_FAILED,
    SWAP_OUTCOME_OUT,
    SWAP_OUTCOME_LOST /* The group was retired. */
};
enum verify_level {
    VERIFY_LEVEL_NONE,
    VERIFY_LEVEL_LANDED,
    VERIFY_LEVEL_COPIED,
    VERIFY_LEVEL_RESIDENT
};

/* Nanoseconds of the leader agent's clock; members as in api/proto SwapPhases. */
struct swap_phases {
    uint64_t queue_ns;
    uint64_t stage_ns;
    uint64_t pause_ns;
    uint64_t apply_ns;
    uint64_t finalize_ns;
    uint64_t verify_ns;
    uint64_t invalidate_ns;
    uint64_t commit_ns;
    uint64_t label_ns;
    uint64_t probe_ns;
    uint64_t open_ns;
    uint64_t shut_ns;
    uint64_t engine_ns;
    uint64_t journal_ns;
    uint64_t barrier_ns;
};

struct swap_record {
    char ticket_uid[BATON_UID_TEXT_BYTES];
    uint64_t ticket_number;
    uint64_t from_seq;
    uint64_t to_seq;
    enum swap_outcome outcome;
    char message[BATON_TEXT_BYTES];
    struct swap_phases phases;
    uint64_t bytes;
    enum verify_level verify_level;
    uint64_t ended_wall_ns;
    uint32_t requests_held;
    char probe_text[BATON_TEXT_BYTES];
    double probe_logprob;
    uint32_t references; /* Of the trainer, asked; 0: the version has none. */
    uint32_t references_missed;
    double reference_away;
    char reference_message[BATON_TEXT_BYTES]; /* Of one that was missed. */
    uint32_t requests_inside;                 /* When the gates closed; of them: */
    uint32_t requests_kept;
    uint32_t requests_aborted;
    bool drain_expired;
    bool router_not_drained;
    enum policy_in_flight in_flight; /* Of the ticket; 0: of an older store. */
    enum policy_kv kv;
    enum policy_mode mode;
};

struct group_record {
    char name[BATON_NAME_BYTES];
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t revision;
    uint64_t created_wall_ns;
    char model[BATON_NAME_BYTES];
    char agent[BATON_NAME_BYTES]; /* Its leader. */
    uint64_t committed_seq; /* Last version that its leader's journal committed; 0: never any. */
    char committed_digest[BATON_DIGEST_TEXT_BYTES];
    uint64_t target_seq; /* 0: none yet. */
    uint64_t owner_term;
    uint64_t ticket_number; /* Highest issued. */
    bool ticket_open;
    struct ticket_record ticket; /* Meaningful while 'ticket_open'. */
    bool swapped;
    struct swap_record last_swap; /* Meaningful once 'swapped'. */
    uint64_t attempts_roll;       /* Roll that 'attempts' belongs to. */
    uint32_t attempts;
    uint32_t failures; /* Tickets in a row that did not commit. */
    bool cordoned;     /* No ticket. */
    char cordon_reason[BATON_TEXT_BYTES];
    bool drained; /* Cordoned, and its gate is to be shut. */
    bool pinned;  /* No roll ticket. */
    char pin_reason[BATON_TEXT_BYTES];
    bool retired; /* Out of denominator and routing (rule 9). */
    char retire_reason[BATON_TEXT_BYTES];
    uint64_t retired_wall_ns;
    bool returning; /* It was retired and came back: its gate is to be shut once. */
    bool as_new;    /* It joins at the model's promoted version, whatever it committed before. */
    bool late;      /* It is new since its model's last roll; see late.c. */
    char members[BATON_DIGEST_TEXT_BYTES]; /* Fingerprint of its engines' names. */
    bool soaking; /* Swapped by a roll and not yet served for the policy's soak. */
    bool asleep;  /* Its engines are to give their memory away (sleep.c). */
    char sleep_reason[BATON_TEXT_BYTES];
};

/* A swap that ended, for traces and estimates; bounded (history.c). */
struct history_record {
    char group[BATON_NAME_BYTES];
    char model[BATON_NAME_BYTES];
    uint64_t roll_number; /* 0: a rejoin. */
    uint64_t issued_wall_ns;
    uint64_t closed_wall_ns;
    uint64_t slot_ns; /* From the ticket to its end. */
    struct swap_record swap;
};

struct agent_record {
    char name[BATON_NAME_BYTES];
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t revision;
    uint64_t created_wall_ns;
    char journal_incarnation[BATON_NAME_BYTES];
    char software[BATON_NAME_BYTES];
    char address[BATON_TEXT_BYTES];
    bool retired; /* Gone for good: what it has seen is not waited for. */
};

enum { LAG_JUMPS_MAX = 64, LAG_UNDONE_MAX = 64 };

/* A version whose parent is not the version before it. */
struct lineage_jump {
    uint64_t seq;
    uint64_t parent; /* 0: none. */
};

struct lineage_undone {
    uint64_t seq;
};

/* See lag.h. */
struct lineage {
    uint64_t base_seq;    /* First version that is remembered; 0: nothing was published. */
    uint32_t jumps_count; /* By seq. */
    struct lineage_jump jumps[LAG_JUMPS_MAX];
    uint32_t undone_count; /* Oldest first. */
    struct lineage_undone undone[LAG_UNDONE_MAX];
};

enum {
    COST_BUCKETS = 12, /* An hour. */
    COST_BUCKET_S = 300,
    COST_PHASES = 9, /* pause, apply, finalize, verify, invalidate, commit, label, probe, open */
    SAMPLE_STAGES_END = 4,
    SAMPLE_BUCKETS = 10, /* As those of groups, in publishes. */
};

struct cost_phase {
    uint64_t ns;      /* Sum over swaps. */
    uint64_t rank_ns; /* The same, each times its group's ranks. */
};

/* Swaps, publishes and reported tokens of five minutes. */
struct cost_bucket {
    uint64_t slot; /* Wall time divided by the width; 0: never used. */
    uint32_t swaps;
    uint32_t publishes;
    uint32_t delays;
    uint64_t delay_ns; /* From publish to commit, summed over 'delays'. */
    uint64_t shut_ns;
    uint64_t rank_shut_ns;
    uint64_t tokens;
    struct cost_phase phases[COST_PHASES];
    uint32_t phases_count; /* COST_PHASES once used. */
};

/* Numbers as in api/proto SampleStage. */
enum sample_stage { SAMPLE_STAGE_DISPATCH = 1, SAMPLE_STAGE_COMPLETION, SAMPLE_STAGE_CONSUMPTION };

struct sample_counter {
    uint64_t samples;
    uint64_t tokens;
    uint64_t max_lag; /* Publishes. */
    uint64_t unrelated;
    uint64_t buckets[SAMPLE_BUCKETS];
};

/* What is kept of a model's staleness: one of a model. */
struct staleness_record {
    char model[BATON_NAME_BYTES];
    struct lineage lineage;
    uint64_t consumed; /* Samples since the last publish, by released slots. */
    /* The two below are written now and then: see series.h. */
    uint32_t cost_count;
    struct cost_bucket cost[COST_BUCKETS];
    uint32_t samples_count;
    struct sample_counter samples[SAMPLE_STAGES_END]; /* By stage. */
};

enum { SERIES_CHUNK_POINTS = 60 };

/* One period of a series; see series.h. */
struct series_point {
    uint64_t slot; /* Wall time divided by the period. */
    uint32_t groups;
    uint32_t groups_over_bound;
    uint64_t newest_seq;
    uint64_t max_publishes;
    double mean_publishes;
    uint64_t max_optimizer_steps;
    uint64_t max_samples;
    uint64_t max_seconds;
    uint64_t max_age_seconds;
};

struct series_chunk_record {
    char model[BATON_NAME_BYTES];
    uint32_t tier;
    uint32_t place;  /* In the tier's ring; names the record. */
    uint64_t number; /* Of the chunk; its first slot divided by SERIES_CHUNK_POINTS. */
    uint32_t points_count;
    struct series_point points[SERIES_CHUNK_POINTS];
};

/* A session's lease on a version; see leases.h. */
struct session_lease_record {
    char model[BATON_NAME_BYTES];
    char name[BATON_REQUEST_ID_BYTES];
    uint64_t seq;
    uint64_t created_wall_ns;
    uint64_t expires_wall_ns;
    bool expired; /* Kept until 'expires_wall_ns' to tell its holder. */
};

/* Room for samples that a client holds; see leases.h. */
struct slot_lease_record {
    char id[BATON_UID_TEXT_BYTES];
    char model[BATON_NAME_BYTES];
    char holder[BATON_NAME_BYTES];
    uint64_t held;
    uint64_t seq; /* Newest version when it was granted last. */
    uint64_t created_wall_ns;
    uint64_t expires_wall_ns;
};

/* Kinds of objects, for answers and changes. */
enum object_kind {
    OBJECT_NONE,
    OBJECT_MODEL,
    OBJECT_VERSION,
    OBJECT_ROLL,
    OBJECT_GROUP,
    OBJECT_AGENT
};

/* Names one object: MODEL, GROUP and AGENT by 'name'; VERSION by 'uid' ('name': its model);
 * ROLL by 'name' (its model) and 'number'. */
struct object_ref {
    enum object_kind kind;
    char name[BATON_NAME_BYTES];
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t number;
};

/* A mutation that was carried out: the same id again gets the same answer. */
struct request_record {
    char id[BATON_REQUEST_ID_BYTES];
    char fingerprint[BATON_DIGEST_TEXT_BYTES]; /* Of method and content. */
    uint64_t stored_wall_ns;
    struct object_ref answer;
};

/* One of a kind: what concerns the whole store. */
struct cluster_record {
    uint64_t generation; /* The last one that the core worked under. */
    bool floors_pending; /* The store went back; not all agents restated what they saw. */
    /* Digest of an archive whose import is not finished (controller/store/archive.h): such a store is
     * not loaded, so the core finds it empty. */
    char importing[BATON_DIGEST_TEXT_BYTES];
};

enum record_kind {
    RECORD_CLUSTER = 1,
    RECORD_MODEL,
    RECORD_VERSION,
    RECORD_ROLL,
    RECORD_GROUP,
    RECORD_AGENT,
    RECORD_REQUEST,
    RECORD_STALENESS,
    RECORD_SWAP,
    RECORD_SERIES,
    RECORD_SESSION_LEASE,
    RECORD_SLOT_LEASE,
    RECORD_KINDS_END
};

/* A record of any kind, borrowed: 'body' points to the struct that 'kind' names. */
struct record_ref {
    enum record_kind kind;
    const void *body;
};

/* Room for a record of any kind. */
union record_body {
    struct cluster_record cluster;
    struct model_record model;
    struct version_record version;
    struct roll_record roll;
    struct group_record group;
    struct agent_record agent;
    struct request_record request;
    struct staleness_record staleness;
    struct history_record swap;
    struct series_chunk_record series;
    struct session_lease_record session_lease;
    struct slot_lease_record slot_lease;
};

/* The key under which a record is stored, unique within its kind: the cluster's is "cluster", a
 * version's its uid, a roll's "<model>/<number>", a swap's "<group>/<ticket number>", else its name or id. */
void record_key(struct record_ref record, char out[RECORD_KEY_BYTES]);

/* One line of the event log. */
struct log_entry {
    uint64_t number; /* Rises by 1. */
    uint64_t wall_ns;
    bool warning;
    char object[RECORD_WORD_BYTES + BATON_NAME_BYTES]; /* "kind/name" */
    char reason[RECORD_WORD_BYTES];
    char message[BATON_TEXT_BYTES];
    char by[BATON_NAME_BYTES]; /* Empty: the controller itself. */
};

/* One change of the store within a transaction. */
struct record_op {
    bool remove;
    char key[RECORD_KEY_BYTES];
    struct record_ref record; /* 'body' is null when 'remove'. */
};

/* All or nothing, and only while 'epoch' is the store's. */
struct transaction {
    struct epoch epoch;
    uint64_t revision; /* The store's revision afterwards; higher than before. */
    /* True: must be durable before commit returns.  False: log entries only; may be lost by a power
     * cut, not by a crash of the process. */
    bool sync;
    const struct record_op *ops;
    size_t ops_count;
    const struct log_entry *entries;
    size_t entries_count;
};

#endif /* record.h */
