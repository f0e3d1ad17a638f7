/* core.h -- the inside of the controller's core: its objects, and what its modules offer each
 * other.
 *
 * Included by the files of this folder only.  Each object wraps a stored record (always the first
 * member) and adds what is known only while the process lives.
 *
 * One step: controller.c dispatches the event to a handler; handlers check everything first, then
 * change objects and mark them (marks_put, marks_change) and their model ('touched'); settle.c
 * brings each touched model to rest (targets, roll, tickets, waits); emit.c turns the marks into
 * actions.
 *
 * Depends on: the folder's other headers.  Threads: one.  Ownership: everything is the core's. */
#ifndef CONTROLLER_CORE_CORE_H
#define CONTROLLER_CORE_CORE_H

#include "api/base/random.h"
#include "api/base/status.h"
#include "controller/core/action.h"
#include "controller/core/controller.h"
#include "controller/core/stale.h"
#include "controller/core/table.h"
#include "controller/core/text.h"
#include "controller/core/view.h"
#include "controller/core/words.h"

#define MS_NS UINT64_C(1000000)
#define S_NS  UINT64_C(1000000000)

enum {
    ORDER_KEY_BYTES = 160,
    STEP_REQUESTS_EXPIRED_MAX = 256,
    REVISION_GAP = 1 << 20, /* See emit.c. */
    CONDITIONS_COUNT = 3,
    REBUILD_VERSIONS_MAX = 256, /* Restated versions that the store does not have. */
};

/* Last seen status of each condition and when it changed, for last_transition. */
struct condition_memory {
    const char *status[CONDITIONS_COUNT];
    uint64_t changed_wall_ns[CONDITIONS_COUNT];
};

/* What was measured of a model's last swaps; 0: nothing yet. */
struct measure {
    bool dirty;
    uint64_t slot_ns; /* Medians: of the time that a slot was taken, */
    uint64_t pause_ns;
    uint64_t stage_ns;
};

/* What a group is to a barrier (0 or 1), or the sums over a model's groups; see barrier.c. */
struct barrier_count {
    uint32_t total;     /* Groups that take part. */
    uint32_t done;      /* They serve the version already. */
    uint32_t ready;     /* They wait for their ticket only. */
    uint32_t preparing; /* They will be ready. */
    uint32_t tickets;   /* Any open ticket. */
    uint32_t shut;      /* They promised. */
    uint32_t closing;   /* They have the ticket and did not promise yet. */
    uint32_t going;     /* They went and did not commit yet. */
};

/* What a group adds to the counts of its model; see budget.c. */
struct tally {
    bool present;
    bool counted;   /* Against the budget. */
    bool out;       /* OUT or UNKNOWN. */
    bool lost;      /* That, and not by an operator's drain. */
    bool converged; /* Gate open at the version that is wanted. */
    bool done;      /* On the active roll's version, without a ticket. */
    bool swapping;  /* Its ticket is open. */
    bool soaking;
    bool serving; /* Done, and its gate is open. */
    bool begun;   /* On the roll's version, or on its way to it. */
    bool apart;   /* The roll does not wait for it: cordoned or pinned, and not done. */
    bool
        under_another; /* Its ticket was issued under another maxUnavailable than the present one. */
    struct barrier_count together;
};

struct model {
    struct model_record r;
    struct marks marks;
    bool touched;                /* settle.c must look at it. */
    bool all_touched;            /* And at all its groups. */
    struct group *touched_first; /* Else at these, through touched_next. */
    bool goals_dirty;            /* The goals of all its agents may have changed. */
    enum wait_outcome undone_as; /* 0, or how a roll of it was taken back in this step. */
    uint64_t due_ns;             /* settle.c must look at it then; 0: never. */
    uint64_t trigger_ns;         /* Monotonic time of the last roll's beginning. */
    struct measure measure;
    bool late_shown; /* As last logged: it will not converge. */
    struct roll *active;
    struct roll *barrier;        /* The roll whose barrier is under way: SHUTTING or GO. */
    struct staleness *staleness; /* Never null once STARTED. */
    uint32_t groups_count;       /* Sums of the tallies, kept as groups change. */
    uint32_t groups_counted;
    uint32_t groups_converged;
    uint32_t groups_out;
    uint32_t groups_lost; /* Of them: not by an operator's drain. */
    uint32_t groups_done;
    uint32_t groups_swapping;
    uint32_t groups_soaking;
    uint32_t groups_apart; /* Cordoned or pinned, and the roll does not wait for them. */
    uint32_t groups_under_another;
    uint32_t groups_serving;
    uint32_t groups_begun;
    struct barrier_count together;
    uint32_t
        gate_shown; /* What holds groups of the active roll back, as they were last told; see order.c. */
    const struct group *first_shown;
    bool mass_lost; /* As all its groups were last told. */
    uint32_t max_unavailable;
    uint64_t counts_shown; /* Of the counts above, as watches last heard. */
    struct condition_memory conditions;
};

struct version {
    struct version_record r;
    struct marks marks;
    uint32_t groups_on;               /* Groups that committed it (staleness.c). */
    uint32_t groups_ready;            /* Of them: may take requests (admission.h). */
    uint32_t sessions;                /* Leases that live on it (sessions.c). */
    uint64_t hold_since_ns;           /* They hold a roll back since, in this life, */
    uint64_t hold_gone_ns;            /* and so long before it. */
    char order_key[ORDER_KEY_BYTES];  /* Model, then newest first, then uid. */
    char digest_key[ORDER_KEY_BYTES]; /* Digest, then uid; empty before it was sealed. */
    uint64_t bytes_ready;
};

struct roll {
    struct roll_record r;
    struct marks marks;
    char order_key[ORDER_KEY_BYTES];          /* Model, then newest first. */
    uint64_t progress_ns;                     /* Monotonic time of the last progress. */
    uint64_t paused_elapsed_ns;               /* Of the progress clock when it was paused. */
    uint32_t done_last;                       /* Groups done when it was last looked at. */
    enum canary_wait wait;                    /* Of its present canary step. */
    uint32_t room;                            /* Groups that may begin before that step is over. */
    uint64_t soak_since_ns;                   /* Of that step; 0: not begun in this life. */
    uint64_t good_since_ns[BATON_CHECKS_MAX]; /* First good report of a metric's window. */
    uint64_t barrier_due_ns;                  /* Of the barrier's stage. */
};

/* An agent that follows in a group: a member of the group's list, or of those of groups that are not known. */
struct follow {
    char group[BATON_NAME_BYTES];
    struct agent *agent;
    struct follow *next;
};

struct group {
    struct group_record r;
    struct marks marks;
    struct follow *followers;
    struct model *model; /* Where it was found last; ask group_model(). */
    struct agent *agent; /* Likewise; ask group_agent(). */
    bool touched;        /* settle.c must look at it. */
    struct group *touched_next;
    struct tally tally;
    bool ready; /* In core->ready. */
    char ready_key[ORDER_KEY_BYTES];
    char named_key[ORDER_KEY_BYTES]; /* In core->named; else empty. */
    char soak_key[ORDER_KEY_BYTES];  /* In core->soaking; else empty. */
    bool send_ticket;
    bool send_revoke;
    enum barrier_word send_barrier;
    char order_key[ORDER_KEY_BYTES]; /* Model, then name. */
    bool known;                      /* Restated in this epoch, and its agent's lease holds. */
    struct group_report live;        /* Meaningful while 'known'. */
    struct engine_info *engines;     /* BATON_ENGINES_PER_GROUP_MAX of them. */
    uint64_t retry_ns;               /* No ticket before this time. */
    uint64_t sleep_revision;         /* Of the first goals that say sleep; 0: not sent yet. */
    uint64_t issued_ns;              /* Of the open ticket; 0: of an earlier life. */
    uint64_t soak_since_ns;          /* It serves since, while it soaks; 0: not yet. */
    uint64_t ticket_print;           /* Of the open ticket, for invariant 12. */
    uint64_t ticket_number_seen;     /* For invariant 8. */
    uint64_t owner_term_seen;
    bool counted; /* The members below are of staleness.c. */
    bool counted_ready;
    bool counted_foreign; /* It committed something that is not one of our versions. */
    bool counted_unknown;
    uint64_t counted_seq;
    enum blocked_reason blocked; /* As last shown. */
    struct condition_memory conditions;
};

struct agent {
    struct agent_record r;
    struct marks marks;
    uint64_t session; /* 0: none. */
    bool restated;    /* Since STARTED; and it knows of our epoch. */
    uint64_t heard_ns;
    uint64_t seen_wall_ns;
    uint64_t landing_used_bytes;
    uint64_t landing_budget_bytes;
    char peer_address[BATON_ADDRESS_BYTES]; /* Of this session; empty: it serves no peers. */
    char peer_zone[BATON_NAME_BYTES];       /* Likewise; agents of one zone are near each other. */
    char line_key[ORDER_KEY_BYTES];         /* Zone, then name. */
    uint32_t landed_count;
    char (*landed)[BATON_DIGEST_TEXT_BYTES];
    /* Since when each of them is of no version of ours, in this session; 0: it is. */
    uint64_t *landed_unknown_ns;
    uint64_t landed_due_ns;   /* When one of them has been so for long enough; 0: never. */
    struct seq_floor *floors; /* As its Hello told; limits.models of them at most. */
    uint32_t floors_count;
    struct group **groups; /* Those that it leads, by name; BATON_GROUPS_PER_AGENT_MAX at most. */
    uint32_t groups_count;
    struct follow *follows; /* As its Hello told; BATON_GROUPS_PER_AGENT_MAX at most. */
    uint32_t follows_count;
    bool goals_touched; /* In the list of those whose goals may have changed. */
    struct agent *goals_next;
    uint64_t goals_revision;
    uint64_t goals_acked;
    uint64_t goals_print; /* Of the last goals sent; 0: none in this session. */
    char goals_refusal[BATON_TEXT_BYTES];
};

struct session {
    uint64_t id;
    struct agent *agent;
};

/* An outcome that is stored, and whom to tell. */
struct stored_for {
    uint64_t session;
    struct outcome_stored outcome;
};

enum { STEP_STORED_MAX = 256 };

struct request_entry {
    struct request_record r;
    struct marks marks;
};

struct swap_entry {
    struct history_record r;
    struct marks marks;
    char order_key[ORDER_KEY_BYTES]; /* When it was closed, then its ticket. */
};

struct wait {
    uint64_t handle; /* 0: free. */
    char model[BATON_NAME_BYTES];
    uint64_t seq;
    bool asleep;     /* All groups that are to sleep do; else converged. */
    uint32_t behind; /* Place among the model's groups of the one that was not there yet. */
};

struct touched {
    enum record_kind kind;
    void *object;
};

/* What a step has decided so far, besides marks; emptied when the next one begins. */
struct step_output {
    size_t replies_count;
    struct agent *welcome; /* Its session gets a Welcome. */
    size_t floors_count;
    size_t stored_count;
    size_t closes_count;
    size_t waits_count;
    size_t entries_count;
    size_t goals_groups_count;
    size_t goals_follows_count;
    size_t goals_droppable_count;
    bool new_generation;
    uint64_t generation_floor;
    /* Arrays last: emit_begin() clears what is above. */
    struct group_floor floors[BATON_GROUPS_PER_AGENT_MAX];
    struct stored_for stored[STEP_STORED_MAX];
};

enum core_phase {
    CORE_LOADING, /* Before STARTED. */
    CORE_SHOWN,   /* What is stored is looked at, elsewhere another one leads. */
    CORE_RUNNING,
    CORE_FENCED, /* An agent knows a higher epoch: nothing is done any more. */
};

struct controller {
    struct controller_limits limits;
    enum core_phase phase;
    struct baton_status load_status;
    struct epoch epoch;
    uint64_t revision;        /* Of the last change, stored or not. */
    uint64_t revision_stored; /* In the last PERSIST. */
    uint64_t log_next_number;
    uint64_t now_ns; /* Of the event in work. */
    uint64_t wall_ns;
    uint64_t wake_ns; /* Earliest time at which anything may be due; may be early, never late. */
    uint64_t housekeep_ns;
    struct baton_random uid_random[2];
    struct baton_random jitter;
    struct cluster_record cluster;
    struct marks cluster_marks;

    struct version_record *restated; /* REBUILD_VERSIONS_MAX of them; see rebuild.c. */
    uint32_t restated_count;

    struct table models_table;
    struct table versions_table;
    struct table rolls_table;
    struct table groups_table;
    struct table agents_table;
    struct table requests_table;
    struct table staleness_table;
    struct table session_leases_table;
    struct table slot_leases_table;
    struct table series_table;
    struct table swaps_table;
    struct index models;                /* By name. */
    struct index versions;              /* By order_key. */
    struct index versions_uid;          /* By uid. */
    struct index versions_digest;       /* By digest_key; those that have one. */
    struct index rolls;                 /* By order_key. */
    struct index groups;                /* By name. */
    struct index groups_ordered;        /* By order_key. */
    struct index ready;                 /* Groups that wait for the budget alone, by ready_key. */
    struct index named;                 /* Groups that were named to go first, and will. */
    struct index soaking;               /* Groups that serve while they soak, by since when. */
    struct index agents;                /* By name. */
    struct index line;                  /* Agents by zone, then by name. */
    struct index requests;              /* By id. */
    struct index staleness;             /* By model. */
    struct index session_leases;        /* By model and name. */
    struct index slot_leases;           /* By id. */
    struct index series;                /* By model. */
    struct index swaps;                 /* Oldest first. */
    struct series_chunk *series_chunks; /* SERIES_CHUNKS for each slot of series. */
    uint64_t leases_due_ns;             /* Earliest time at which a lease may be over, */
    uint64_t agents_due_ns;             /* an agent's silence too long, */
    uint64_t retry_due_ns;              /* a group's wait after a failure over, */
    uint64_t strays_due_ns;             /* a landed digest unknown for long enough. */
    uint64_t series_due_ns;
    uint32_t series_unflushed;   /* Points since they were stored. */
    struct engine_info *engines; /* BATON_ENGINES_PER_GROUP_MAX for each slot of groups. */
    char (*landed)[BATON_DIGEST_TEXT_BYTES]; /* limits.landed for each slot of agents. */
    uint64_t *landed_unknown_ns;             /* Likewise. */
    struct group **agent_groups; /* BATON_GROUPS_PER_AGENT_MAX for each slot of agents. */
    struct seq_floor *floors;    /* limits.models for each slot of agents. */
    struct session *sessions;    /* The open ones, by id. */
    uint32_t sessions_count;
    struct wait *waits;
    uint32_t waits_count; /* Places in use, with gaps. */

    struct touched *touched;
    size_t touched_count;
    size_t touched_capacity;
    bool deferred; /* Reports were taken whose consequences are still to come. */
    struct agent *goals_touched_first; /* Agents whose goals may have changed. */
    uint32_t sweep;                    /* Next group that invariants.c looks at unasked. */
    struct group **candidates;         /* Scratch of plan.c, one for each group. */
    struct step_output out;
    struct action_reply *replies; /* EVENT_REQUESTS_MAX of them. */
    struct action_close *closes;
    struct action_wait_done *wait_dones;
    struct log_entry *entries;
    size_t entries_capacity;
    struct record_op *ops;
    struct group_goal *goals_groups;
    struct follow_goal *goals_follows;
    struct follow *follows;         /* Of all agents. */
    struct follow *follows_unknown; /* Of groups that are not known. */
    char (*goals_droppable)[BATON_DIGEST_TEXT_BYTES];
    struct action *actions;
    size_t actions_count;
    size_t actions_capacity;
};

/* A request in work. */
struct call {
    const struct request *request;
    struct object_ref answer;
    char field[RECORD_WORD_BYTES];
    uint64_t retry_ns;
    bool deferred; /* A wait that was registered: its answer comes later. */
};

/* --- marks.c: what changed, and what is to be told --- */
void marks_put(struct controller *core, enum record_kind kind, void *object);
void marks_change(struct controller *core, enum record_kind kind, void *object);
void marks_remove(struct controller *core, enum record_kind kind, void *object);
/* Adds a line to the event log; 'by' may be null. */
BATON_PRINTF(5, 6)
void log_add(struct controller *core, const struct object_ref *object, const char *reason,
             const char *by, const char *fmt, ...);
BATON_PRINTF(4, 5)
void log_warn(struct controller *core, const struct object_ref *object, const char *reason,
              const char *fmt, ...);
/* A line that an agent asked for. */
void log_foreign(struct controller *core, const struct agent_event *event, const char *by);
void session_close(struct controller *core, uint64_t session, struct baton_status status);
void uid_make(struct controller *core, char out[BATON_UID_TEXT_BYTES]);
/* Something is due at 'at_ns'. */
void wake_at(struct controller *core, uint64_t at_ns);
/* The same, and '*due_ns' is the earliest of its kind. */
void wake_first(struct controller *core, uint64_t *due_ns, uint64_t at_ns);
/* Whether '*due_ns' has come; then it is to be found anew.  Else wakes at it. */
bool wake_is_due(struct controller *core, uint64_t *due_ns);
struct object_ref ref_model(const struct model *model);
struct object_ref ref_version(const struct version *version);
struct object_ref ref_roll(const struct roll *roll);
struct object_ref ref_group(const struct group *group);
struct object_ref ref_agent(const struct agent *agent);

/* --- emit.c --- */
void emit_begin(struct controller *core);
struct actions emit_end(struct controller *core);

/* --- load.c --- */
struct baton_status load_record(struct controller *core, struct record_ref record);
void load_started(struct controller *core, const struct started *started);
/* See controller_show(). */
void load_shown(struct controller *core, const struct started *started);

/* --- requests.c --- */
void requests_handle(struct controller *core, const struct request *request);
void requests_handle_batch(struct controller *core, const struct request_batch *batch);
/* Answers a call. */
struct action_reply *requests_reply(struct controller *core, uint64_t handle,
                                    struct baton_status status);
/* Deletes ids that are old enough; a few at a time. */
void requests_expire(struct controller *core);
struct request_entry *requests_add(struct controller *core, const struct request_record *record);
/* Refusal of a field of the call. */
BATON_PRINTF(3, 4)
struct baton_status call_bad_field(struct call *call, const char *field, const char *fmt, ...);
/* OK, or ABORTED when the call expects another revision than 'revision' of 'what'. */
struct baton_status call_expects(const struct call *call, uint64_t revision, const char *what);
/* Who asks, for logs and records. */
const char *call_by(const struct call *call);

/* --- policy.c --- */
struct baton_status policy_parse(struct call *call, struct update_policy *out);
/* Bytes of 'text' that are decimal digits, as a number; false for none, others, or above 999999. */
bool policy_read_count(const char *text, size_t length, uint32_t *out);
/* "3" or "25%". */
bool policy_read_groups(const char *text, uint32_t *out, bool *out_is_percent);
struct baton_status policy_parse_word(struct call *call, const char *field,
                                      const struct word_table *table, const char *word,
                                      uint32_t *inout);
bool policy_equal(const struct update_policy *a, const struct update_policy *b);
/* Groups that may be away at once, of 'groups_count'. */
uint32_t policy_max_unavailable(const struct update_policy *policy, uint32_t groups_count);

/* Groups that must be shut of 'groups_count' before a barrier goes. */
uint32_t policy_barrier_quorum(const struct update_policy *policy, uint32_t groups_count);

/* --- policy_roll.c: the keys about when, in which order, and what is shown on the way --- */
struct baton_status policy_parse_roll(struct call *call, struct update_policy *out);
bool policy_roll_equal(const struct roll_policy *a, const struct roll_policy *b);
void policy_roll_print(struct fingerprint *print, const struct roll_spec *spec);
/* OK, or why 'list' is no list of group names with commas between. */
struct baton_status policy_check_order(struct call *call, const char *field, const char *list);

/* --- models.c --- */
struct model *model_find(const struct controller *core, const char *name);
struct model *model_add(struct controller *core, const struct model_record *record);
/* The call's model; NOT_FOUND. */
struct baton_status model_of_call(const struct controller *core, struct call *call,
                                  struct model **out);
/* The same, at 'at_ns'. */
void model_wake_at(struct controller *core, struct model *model, uint64_t at_ns);
/* Publishes are stored, not rolled, from now on. */
void model_hold(struct controller *core, struct model *model, const char *by, const char *reason);
/* Somebody has seen 'seq'. */
void model_raise_floor(struct controller *core, struct model *model, uint64_t seq);
struct baton_status models_apply(struct controller *core, struct call *call);
struct baton_status models_suspend(struct controller *core, struct call *call);
struct baton_status models_resume(struct controller *core, struct call *call);
struct baton_status models_hold(struct controller *core, struct call *call);

/* --- versions.c --- */
struct version *version_add(struct controller *core, const struct version_record *record);
/* Sets the digest of a version that had none. */
void version_set_digest(struct controller *core, struct version *version, const char *digest);
void version_remove(struct controller *core, struct version *version);
/* Place in core->versions of the first one after (model, seq, uid); see view.h. */
uint32_t versions_place(const struct controller *core, const char *model, uint64_t seq,
                        const char *uid);
/* The 'place'-th in the order of the list, if it is of 'model'; else null. */
struct version *versions_at(const struct controller *core, uint32_t place, const char *model);
/* A published one; null: none, or no longer kept. */
struct version *version_find(const struct controller *core, const char *model, uint64_t seq);
struct baton_status versions_open(struct controller *core, struct call *call);
struct baton_status versions_manifest(struct controller *core, struct call *call);
struct baton_status versions_seal(struct controller *core, struct call *call);
struct baton_status versions_publish(struct controller *core, struct call *call);
struct baton_status versions_progress(struct controller *core, struct call *call);
struct baton_status versions_abandon(struct controller *core, struct call *call);

/* --- retention.c --- */
/* Deletes version records of 'model' that nothing needs any more. */
void versions_prune(struct controller *core, struct model *model);
/* Deletes ended rolls of 'model' beyond the kept number. */
void rolls_prune(struct controller *core, struct model *model);
/* Makes room for one more; false if all are in use. */
bool rolls_make_room(struct controller *core);
/* Deletes versions that were announced long ago (limits.open_kept_ms) and never published. */
void versions_expire(struct controller *core);

/* --- rolls.c --- */
struct roll *roll_add(struct controller *core, const struct roll_record *record);
struct roll *roll_find(const struct controller *core, const char *model, uint64_t number);
uint32_t rolls_place(const struct controller *core, const char *model, uint64_t number);
struct roll *rolls_at(const struct controller *core, uint32_t place, const char *model);
/* Why and for whom a roll starts. */
struct roll_request {
    enum roll_cause cause;
    const char *by;
    const char *reason;
    const char *order_list; /* Null: the policy's. */
};
/* Starts a roll, ending the active one as the cause says.  There must be room. */
struct roll *roll_begin(struct controller *core, struct model *model, uint64_t to_seq,
                        const struct roll_request *request);
/* Completes the active roll if all groups are done; keeps its progress clock. */
void roll_settle(struct controller *core, struct model *model);
void roll_note_progress(struct controller *core, struct model *model);
void roll_check_deadline(struct controller *core, struct model *model);
/* Ends the active roll. */
void roll_end(struct controller *core, struct model *model, enum roll_state state);
void roll_promote(struct controller *core, struct model *model, uint64_t seq);
/* The active roll of the call's model, at the revision that the call expects. */
struct baton_status roll_active_of_call(struct controller *core, struct call *call,
                                        struct model **out);
/* Whether it takes a version back: no canary, no second rollback. */
bool roll_goes_back(const struct roll *roll);
bool roll_group_done(const struct controller *core, const struct roll *roll,
                     const struct group *group);
struct baton_status rolls_start(struct controller *core, struct call *call);
struct baton_status rolls_pause(struct controller *core, struct call *call);
struct baton_status rolls_resume(struct controller *core, struct call *call);

/* --- verbs.c --- */
/* Notes in the roll's history who did what to it, and why. */
void roll_note_verb(struct controller *core, struct roll *roll, const char *verb, const char *by,
                    const char *reason);
struct baton_status rolls_advance(struct controller *core, struct call *call);
struct baton_status rolls_promote(struct controller *core, struct call *call);
struct baton_status rolls_retry(struct controller *core, struct call *call);

/* --- history.c: swaps that ended --- */
struct swap_entry *history_load(struct controller *core, const struct history_record *record);
/* Keeps what the group's open ticket came to. */
void history_add(struct controller *core, const struct group *group,
                 const struct swap_record *swap);
/* Forgets the oldest beyond the kept number. */
void history_settle(struct controller *core);
/* The measures of a model, taken anew if it had swaps since. */
void history_measure(struct controller *core, struct model *model);

/* --- converge.c: whether rolls keep up with publishes --- */
void converge_of(const struct controller *core, const struct model *model, uint64_t wall_ns,
                 struct convergence *out);
/* Logs a verdict that is new. */
void converge_settle(struct controller *core, struct model *model);

/* --- trigger.c: when published versions start a roll --- */
/* Notes that the triggers count from now on. */
void trigger_note(struct controller *core, struct model *model);
void trigger_load(const struct controller *core, struct model *model);
/* Starts a roll if one is due (Interval, MaxLag). */
void trigger_settle(struct controller *core, struct model *model);

/* --- undo.c --- */
struct go_back {
    enum roll_cause cause; /* UNDO, ABORT or ROLLBACK. */
    uint64_t to_seq;
    const char *by;
    const char *reason;
};
/* Version to which the active roll can be taken back; 0: none. */
uint64_t undo_target(const struct controller *core, const struct model *model);
/* Takes the version back with a new roll, and holds the model.  There must be room. */
struct roll *undo_go_back(struct controller *core, struct model *model, const struct go_back *how);
void undo_revoke_tickets(struct controller *core, const struct model *model, uint64_t to_seq);
struct baton_status rolls_abort(struct controller *core, struct call *call);

struct baton_status rolls_undo(struct controller *core, struct call *call);
/* Asks tickets to 'to_seq' back that are not rejoins. */
void undo_revoke_tickets(struct controller *core, const struct model *model, uint64_t to_seq);

/* --- groups.c --- */
struct group *group_add(struct controller *core, const struct group_record *record);
struct group *group_find(const struct controller *core, const char *name);
/* First group of a model in groups_ordered; go on while group_is_of(). */
uint32_t groups_first(const struct controller *core, const char *model);
struct group *groups_at(const struct controller *core, uint32_t place, const char *model);
/* Takes a checked report over. */
void group_take_report(struct controller *core, struct group *group,
                       const struct group_report *report);
/* Takes over what the leader's journal says it committed. */
void group_take_committed(struct controller *core, struct group *group, uint64_t seq,
                          const char *digest);
/* Puts its next ticket off, the longer the more failed in a row (r.failures, at least 1). */
void group_back_off(struct controller *core, struct group *group);
/* Nothing is known any more. */
void group_forget(struct controller *core, struct group *group);
/* Version that it committed: as reported, else as stored. */
uint64_t group_committed(const struct group *group);
/* Whether it committed this version: seq and, where the record is kept, digest. */
bool group_is_on(const struct controller *core, const struct group *group, uint64_t seq);
/* By its leader's word it has an open ticket, which is not ours: a store that went back forgot it. */
bool group_swaps_unknown(const struct group *group);
/* To sleep, without an open ticket: it is no part of the fleet for now (sleep.c). */
bool group_sleeps(const struct group *group);
/* Gate open, serving. */
bool group_is_available(const struct group *group);
/* The policy says live, and it cannot: it gets no ticket of a roll. */
bool group_lacks_live(const struct model *model, const struct group *group);
/* Target by design 3; 0: none. */
uint64_t group_target(const struct controller *core, const struct model *model,
                      const struct group *group);
/* Version to land for the next swap; null: none. */
struct version *group_stage(const struct controller *core, const struct model *model,
                            const struct group *group);

/* --- agents.c --- */
struct agent *agent_add(struct controller *core, const struct agent_record *record);
struct agent *agent_find(const struct controller *core, const char *name);
/* Adds 'group' to those that 'agent' leads; there must be room. */
void agent_link(struct agent *agent, struct group *group);
/* Ends the agent's session on our side; the shell closes the stream. */
void agent_drop_session(struct controller *core, struct agent *agent);
/* The agent must have none. */
void agent_add_session(struct controller *core, struct agent *agent, uint64_t session);
struct agent *agent_of_session(const struct controller *core, uint64_t session);
void agents_hello(struct controller *core, const struct session_hello *hello);
void agents_report(struct controller *core, const struct session_report *report);
void agents_ack(struct controller *core, const struct session_ack *ack);
void agents_gone(struct controller *core, uint64_t session);
/* Ends leases that ran out. */
void agents_expire(struct controller *core);
/* Those that it leads; null: not one of them. */
struct group *agent_group(const struct agent *agent, const char *name);
bool agent_has_landed(const struct agent *agent, const char *digest);

/* --- hello.c --- */
/* OK, or why the session cannot be. */
struct baton_status hello_check(const struct controller *core, const struct session_hello *hello);

/* --- floors.c --- */
/* Whether all agents that the store knows restated what they have seen, in this leadership. */
bool floors_are_restated(const struct controller *core);
/* Ends the time in which the store's floors are not known, when all agents restated. */
void floors_settle(struct controller *core);
void floors_given(struct controller *core);
/* What connected agents told about a model that was just created. */
void floors_of_new_model(struct controller *core, struct model *model);
struct baton_status floors_refusal(const struct controller *core);

/* --- order keys (marks.c) --- */
/* Model, then newest first; 'number' 0 comes last. */
void order_key_write(char out[ORDER_KEY_BYTES], const char *model, uint64_t number,
                     const char *uid);
/* Model, then 'place', then largest 'lag' first, then 'name'. */
void order_key_write_turn(char out[ORDER_KEY_BYTES], const char *model, uint32_t place,
                          uint64_t lag, const char *name);
/* Model, then 'name'. */
void order_key_write_name(char out[ORDER_KEY_BYTES], const char *model, const char *name);

/* --- conditions.c --- */
void conditions_of_model(const struct controller *core, const struct model *model,
                         struct conditions *out);
void conditions_of_group(const struct controller *core, const struct group *group,
                         struct conditions *out);
/* Notes changes for last_transition; true if anything changed. */
bool conditions_note(struct condition_memory *memory, const struct conditions *now,
                     uint64_t wall_ns);
void conditions_stamp(const struct condition_memory *memory, struct conditions *out);

/* --- settle.c --- */
/* Brings all touched models to rest. */
void settle(struct controller *core);
/* Whatever is due by now; agents are found silent only if all that they said was 'heard'. */
void settle_timers(struct controller *core, bool heard);

/* --- invariants.c --- */
void invariants_check(struct controller *core);

#include "controller/core/goals.h"
#include "controller/core/schedule.h"

#endif /* core.h */
