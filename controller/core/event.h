/* event.h -- all inputs of the controller's core.
 *
 * An event is read-only and borrowed for one controller_step(); what the core keeps, it copies.
 * Texts that are pointers may be null, which means the same as empty.  Texts come from outside: the
 * core checks names, words and numbers and refuses by field; the shell has only checked that they
 * are UTF-8 and fit the messages' limits.
 *
 * Depends on: record.h.  Threads: plain data.  Ownership: the caller's. */
#ifndef CONTROLLER_CORE_EVENT_H
#define CONTROLLER_CORE_EVENT_H

#include "controller/core/record.h"

/* State of a group as its leader reports it; UNKNOWN and RETIRED are the controller's own. */
enum group_state {
    GROUP_STATE_NONE,
    GROUP_STATE_JOINING,
    GROUP_STATE_SERVING,
    GROUP_STATE_STAGING,
    GROUP_STATE_STAGED,
    GROUP_STATE_PAUSING,
    GROUP_STATE_APPLYING,
    GROUP_STATE_RESUMING,
    GROUP_STATE_RESTORING,
    GROUP_STATE_OUT,
    GROUP_STATE_UNKNOWN,
    GROUP_STATE_STAGE_FAILED,
    GROUP_STATE_RETIRED, /* The controller's own. */
    GROUP_STATE_ASLEEP
};

/* One engine as its agent sees it; members as in api/proto Engine. */
struct engine_info {
    char name[BATON_NAME_BYTES];
    char kind[RECORD_WORD_BYTES];
    char endpoint[BATON_TEXT_BYTES];
    char software[BATON_NAME_BYTES];
    uint32_t world_size;
    char way_in[RECORD_WORD_BYTES];
    char way_in_reason[BATON_TEXT_BYTES];
    char incarnation[BATON_NAME_BYTES];
    char label[BATON_NAME_BYTES];
    char gate[RECORD_WORD_BYTES];
    char recreate[RECORD_WORD_BYTES];
    uint32_t recreates;
    bool reachable;
    char agent[BATON_NAME_BYTES]; /* That drives it, if it is not its group's leader; else empty. */
};

/* Where a group stands in its ticket's barrier; numbers as in api/proto BarrierStand. */
enum barrier_stand {
    BARRIER_STAND_NONE,
    BARRIER_STAND_SHUT,
    BARRIER_STAND_GOING,
    BARRIER_STAND_COMMITTED
};

/* What an agent knows of a version beside its seq and digest; for a store that was lost. */
struct version_told {
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t bytes;
    uint32_t sources_count;
    struct version_source sources[BATON_SOURCES_PER_VERSION_MAX];
};

/* One group as its leader sees it; members as in api/proto GroupReport. */
struct group_report {
    char group[BATON_NAME_BYTES];
    char model[BATON_NAME_BYTES];
    enum group_state state;
    char message[BATON_TEXT_BYTES];
    uint64_t committed_seq;
    char committed_digest[BATON_DIGEST_TEXT_BYTES];
    uint64_t staging_seq;
    uint64_t staged_bytes;
    bool gate_open;
    enum verify_level verify_level;
    char ticket_uid[BATON_UID_TEXT_BYTES];
    uint64_t highest_ticket;
    uint64_t owner_term;
    char blocked[RECORD_WORD_BYTES]; /* A word of words_blocked, or empty. */
    bool can_restore;
    bool advisory;
    bool can_swap_live;
    char live_reason[BATON_TEXT_BYTES]; /* Why it can or cannot. */
    enum barrier_stand barrier;
    char members[BATON_FOLLOWERS_PER_GROUP_MAX][BATON_NAME_BYTES]; /* Followers; empty: none. */
    uint32_t engines_count;
    const struct engine_info *engines;
    const struct version_told *told; /* Of the committed version; null: only seq and digest. */
};

/* How a ticket ended; members as in api/proto TicketOutcome. */
struct ticket_outcome {
    char group[BATON_NAME_BYTES];
    struct swap_record record;
    struct epoch epoch;
    uint64_t committed_seq;
    char committed_digest[BATON_DIGEST_TEXT_BYTES];
};

struct seq_floor {
    char model[BATON_NAME_BYTES];
    uint64_t seq;
    char digest[BATON_DIGEST_TEXT_BYTES];
};

struct agent_event {
    const char *object;
    bool warning;
    const char *reason;
    const char *message;
};

/* First message of a session.  'session' is the shell's name for it, never 0, never reused. */
struct session_hello {
    uint64_t session;
    const char *agent;
    uint32_t protocol;
    const char *software;
    const char *journal_incarnation;
    struct epoch highest_epoch;
    const char *address;
    uint64_t landing_budget_bytes;
    const char *peer_address; /* Where it serves versions to other agents; empty: it does not. */
    const char *peer_zone;    /* Agents of one zone are near each other; null or empty: none. */
    const struct group_report *groups;
    size_t groups_count;
    const struct seq_floor *floors;
    size_t floors_count;
    const char *const *follows; /* Groups that other agents lead, and it is a member of. */
    size_t follows_count;       /* Those beyond BATON_GROUPS_PER_AGENT_MAX are left out. */
};

/* A later one; an empty one renews the lease. */
struct session_report {
    uint64_t session;
    const struct group_report *groups;
    size_t groups_count;
    const struct ticket_outcome *outcomes;
    size_t outcomes_count;
    bool landing_told; /* The two members below were told (a lease renewal need not). */
    const char *const *landed_digests;
    size_t landed_count;
    uint64_t landing_used_bytes;
    const struct agent_event *events;
    size_t events_count;
};

/* Answer to goals. */
struct session_ack {
    uint64_t session;
    uint64_t revision;
    bool refused;        /* A Nack. */
    const char *message; /* Why, of a Nack. */
};

/* What a caller of Admission asks for; see admission.h. */
/* Members that are not given do not restrict. */
struct admission_query {
    const char *model;
    uint64_t min_seq;   /* Published no earlier than it, as the engines' guards compare. */
    uint64_t exact_seq; /* Not together with the others. */
    bool has_max_lag;
    enum lag_unit unit;
    uint64_t max_lag;
};

#define SAMPLE_TOKENS_MAX                                                                          \
    (UINT64_C(1) << 32) /* Of a span: sums of a call stay far from the end of numbers. */

/* Tokens of a sample by one version. */
struct sample_span {
    uint64_t seq;
    uint64_t tokens;
};

struct sample {
    const struct sample_span *spans; /* In the order of generation. */
    size_t spans_count;
    uint64_t consumer_seq; /* 0: that of the call. */
};

enum request_kind {
    REQUEST_MODEL_APPLY = 1,
    REQUEST_MODEL_SUSPEND,
    REQUEST_MODEL_RESUME,
    REQUEST_VERSION_OPEN,
    REQUEST_VERSION_MANIFEST, /* The shell read all parts. */
    REQUEST_VERSION_SEAL,
    REQUEST_VERSION_PUBLISH,
    REQUEST_VERSION_PROGRESS,
    REQUEST_VERSION_ABANDON,
    REQUEST_ROLL_START,
    REQUEST_ROLL_PAUSE,
    REQUEST_ROLL_RESUME,
    REQUEST_ROLL_UNDO,
    REQUEST_ROLL_ADVANCE,
    REQUEST_ROLL_PROMOTE,
    REQUEST_ROLL_ABORT,
    REQUEST_ROLL_RETRY,
    REQUEST_ROLL_REPORT_CHECK,
    REQUEST_MODEL_HOLD,
    REQUEST_WAIT,
    REQUEST_STORE_FLOORS,  /* An operator attests that no agent knows more than the store. */
    REQUEST_STORE_REBUILD, /* What the agents restated becomes records. */
    REQUEST_GROUP_CORDON,
    REQUEST_GROUP_UNCORDON,
    REQUEST_GROUP_DRAIN,
    REQUEST_GROUP_RETIRE,
    REQUEST_GROUP_PIN,
    REQUEST_GROUP_UNPIN,
    REQUEST_GROUP_SLEEP,
    REQUEST_GROUP_WAKE,
    REQUEST_VERSION_PIN,
    REQUEST_VERSION_UNPIN,
    REQUEST_VERSION_QUARANTINE,
    REQUEST_VERSION_UNQUARANTINE,
    REQUEST_SESSION_RESOLVE,
    REQUEST_SLOTS_ACQUIRE,
    REQUEST_SLOTS_RELEASE,
    REQUEST_SAMPLES_REPORT,
    REQUEST_KINDS_END
};

/* What each mutation carries; as in api/proto MutationOptions. */
struct request_options {
    const char *request_id;
    uint64_t expected_revision;
    const char *reason;
    const char *requested_by;
};

/* One check and one canary step in words. */
struct check_spec {
    const char *name;
    const char *kind;
    const char *compare;
    double threshold;
    int64_t window_ms;
    double tolerance;
    double max_change;
    uint64_t min_changed;
    const char *query;
};

struct canary_spec {
    const char *groups;
    int64_t soak_ms;
    const char *const *checks;
    size_t checks_count;
    bool hold;
};

/* When rolls start, who goes first, what is shown on the way. */
struct roll_spec {
    uint64_t every_n;
    const char *every_unit;
    const char *order; /* A word, or names with commas between. */
    const char *progress_action;
    int64_t soak_ms;
    const struct check_spec *checks;
    size_t checks_count;
    const struct canary_spec *canary;
    size_t canary_count;
};

struct policy_hook_spec {
    const char *when;
    const char *url;
    int64_t deadline_ms; /* 0: not given. */
};

/* The operator's policy in words; what is not given takes its default. */
struct policy_spec {
    const char *trigger;
    const char *strategy;
    const char *max_unavailable;
    const char *mass_loss;
    const char *non_finite;
    int64_t progress_deadline_ms; /* 0: not given; below: refused. */
    const char *in_flight;
    const char *kv;
    const char *arrivals;
    int64_t swap_deadline_ms;
    int64_t drain_deadline_ms;
    bool allow_recreate;
    const char *barrier_quorum;
    int64_t barrier_deadline_ms;
    const char *staleness_unit; /* A word of words_lag_unit. */
    bool staleness_bounded;     /* 'staleness_bound' was given: 0 is one. */
    uint64_t staleness_bound;
    bool staleness_warned;
    uint64_t staleness_warn;
    int64_t sessions_max_hold_ms;
    int64_t sessions_ttl_ms;
    uint32_t slots_samples_per_publish;
    uint32_t slots_max_held;
    int64_t slots_ttl_ms;
    struct roll_spec roll;
    const char *drain_expiry;
    const char *swap_mode;
    const struct policy_hook_spec *hooks; /* BATON_HOOKS_MAX of them at most; a higher */
    size_t hooks_count;                   /* count is refused. */
};

struct request_version_open {
    uint64_t optimizer_step;
    uint64_t rollout_iteration;
    uint64_t samples_trained;
    uint64_t parent_seq;
    bool partial;
    uint64_t bytes;
};

struct request_version_manifest {
    const char *digest;
    uint64_t tensors;
    uint64_t files;
    uint64_t bytes; /* Of all tensors and files by the manifest; 0: not computed. */
};

struct request_version_seal {
    const char *digest;
    uint64_t bytes;
    const struct version_values *values; /* Null: the agent does not look. */
};

struct request_version_publish {
    const struct version_source *sources;
    size_t sources_count;
};

struct request_version_progress {
    uint64_t bytes_ready;
    uint64_t bytes;
};

struct request_session {
    struct admission_query query;
    const char *name;
    uint64_t ttl_ms; /* 0: the policy's. */
    bool restart;    /* Also if its lease is over. */
};

struct request_acquire {
    uint32_t count;
    bool partial;
    const char *lease; /* Empty: a new one. */
    const char *holder;
    uint64_t ttl_ms; /* 0: the policy's. */
};

struct request_release {
    const char *lease;
    uint32_t consumed;
    uint32_t dropped;
};

struct request_samples {
    uint32_t stage; /* enum sample_stage */
    const struct sample *samples;
    size_t samples_count;
    uint64_t consumer_seq;
};

struct request_wait {
    const char *condition;
    uint64_t seq;
};

struct request_roll_start {
    const char *order; /* Names with commas between. */
};

struct request_roll_retry {
    const char *group; /* Empty: all of the model. */
};

/* A verdict on a check, or its number. */
struct request_report_check {
    const char *check;
    uint64_t seq; /* Version that was looked at; 0: the active roll's. */
    double value;
    enum check_state verdict; /* 0: by the value. */
    const char *message;
};

struct request_retire {
    bool attest_dead; /* An operator made sure that the engines are dead. */
};

struct request_quarantine {
    bool evict; /* Groups that serve it are to go back. */
};

/* A call of the API.  Every request gets exactly one REPLY with its handle; a wait that was
 * accepted gets a WAIT_DONE instead. */
struct request {
    uint64_t handle; /* The shell's name for the call, never 0, unique among the open ones. */
    enum request_kind kind;
    struct request_options options;
    const char *model;       /* All but the VERSION kinds after OPEN. */
    const char *version_uid; /* The VERSION kinds after OPEN. */
    bool dry_run;            /* STORE_REBUILD. */
    const char *group;       /* The GROUP kinds, or ... */
    const char *agent;       /* ... all groups of this agent. */
    uint64_t to_seq; /* ROLL_START and ROLL_UNDO, 0: not given; VERSION verbs of operators. */
    union {
        struct policy_spec apply;
        struct request_version_open open;
        struct request_version_manifest manifest;
        struct request_version_seal seal;
        struct request_version_publish publish;
        struct request_version_progress progress;
        struct request_wait wait;
        struct request_roll_start start;
        struct request_roll_retry retry;
        struct request_report_check check;
        struct request_retire retire;
        struct request_quarantine quarantine;
        struct request_session session;
        struct request_acquire acquire;
        struct request_release release;
        struct request_samples samples;
    } body;
};

enum { EVENT_REQUESTS_MAX = 128 };

/* Calls that share a transaction; only SLOTS_ACQUIRE and SESSION_RESOLVE. */
struct request_batch {
    const struct request *items;
    size_t count;
};

/* What came of a metric that view_metric_queries() named. */
struct metric_answer {
    const char *model;
    uint64_t roll; /* Number. */
    uint32_t step; /* Of the canary. */
    const char *check;
    bool answered;
    double value;    /* Meaningful if 'answered'. */
    const char *why; /* Not 'answered': the reason. */
};

/* The store is loaded and 'epoch' is durable; the core begins to work. */
struct started {
    struct epoch epoch;
    uint64_t revision;        /* The store's. */
    uint64_t log_next_number; /* For the next log entry; at least 1. */
};

enum event_kind {
    EVENT_TIMER = 1,      /* controller_deadline_ns() has come. */
    EVENT_LOAD,           /* Before STARTED: one stored record. */
    EVENT_STARTED,        /* Once. */
    EVENT_REQUEST,        /* An API call. */
    EVENT_REQUESTS,       /* Several, at most EVENT_REQUESTS_MAX. */
    EVENT_WAIT_CANCEL,    /* The caller of a wait went away or ran out of time. */
    EVENT_SESSION_HELLO,  /* An agent opened a session. */
    EVENT_SESSION_REPORT, /* An agent's report. */
    EVENT_SESSION_ACK,    /* An agent took goals over, or refused them. */
    EVENT_SESSION_GONE,   /* The stream ended, by whomever. */
    EVENT_METRIC,         /* Prometheus answered, or did not. */
    EVENT_FLOORS_GIVEN,   /* An operator attests that no agent knows more than the store. */
};

struct event {
    enum event_kind kind;
    uint64_t now_ns;  /* Monotonic; never goes back. */
    uint64_t wall_ns; /* For records that people read, and for the age of stored ones. */
    /* SESSION_REPORT, SESSION_ACK: another event is at hand and comes at once.  What follows from this one may then come out
     * with that one's actions, so that many reports cost one transaction. */
    bool more;
    /* Agents may have said things that wait still, since the shell stood still: nobody is called silent. */
    bool behind;
    union {
        struct record_ref load;
        struct started started;
        struct request request;
        struct request_batch requests;
        uint64_t wait_handle;
        struct session_hello hello;
        struct session_report report;
        struct session_ack ack;
        uint64_t session_gone;
        struct metric_answer metric;
    } body;
};

#endif /* event.h */
