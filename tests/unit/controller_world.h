/* controller_world.h -- a small world around the controller's core, for its unit tests.
 *
 * Virtual time, a store that is a list of records (as its codec gives them back), and agents that
 * can be told what to do or play along by themselves (land what the goals say, carry out tickets).
 * After every step the store's records are compared with the core's, and a core that is rebuilt
 * from them with both: so each test also shows that a crash at that moment loses nothing.
 *
 * A broken promise ends the test program through cr_assert.
 *
 * Depends on: controller/core, controller/store/record_codec.h, Criterion.  Ownership: world_new()
 * / world_free(). */
#ifndef TESTS_UNIT_CONTROLLER_WORLD_H
#define TESTS_UNIT_CONTROLLER_WORLD_H

#include "controller/core/action.h"
#include "controller/core/controller.h"
#include "controller/core/view.h"

#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

enum { WORLD_AGENTS_MAX = 8, WORLD_GROUPS_MAX = 16, WORLD_DONE_MAX = 64, WORLD_LANDED_MAX = 64 };

/* One group as a leader agent plays it. */
struct played_group {
    struct group_report report;
    struct engine_info engine;
    struct group_goal goal; /* Last received; its versions are not kept. */
    uint64_t goal_target_seq;
    uint64_t goal_stage_seq;
    uint64_t goal_restore_seq;
    bool has_ticket;
    struct ticket_record ticket;
    uint32_t tickets_seen; /* Sends, repeats included. */
    bool revoked;
    enum barrier_word word; /* Last heard about the ticket. */
};

struct played_agent {
    char name[BATON_NAME_BYTES];
    char incarnation[BATON_NAME_BYTES];
    char peer_address[BATON_ADDRESS_BYTES]; /* Empty: it serves no peers. */
    char holders[BATON_TEXT_BYTES];         /* Of what its last goal stages: "a1 a0". */
    const char *peer_zone;                  /* Null: none. */
    const char *follows[2];                 /* Groups that others lead; null: none. */
    char followed[BATON_TEXT_BYTES];        /* Of what they land, by its last goals: "2: a1 a0". */
    uint64_t session;                       /* 0: none. */
    struct epoch highest_epoch;
    struct seq_floor floors[4];
    uint32_t floors_count;
    struct played_group groups[WORLD_GROUPS_MAX];
    uint32_t groups_count;
    char landed[WORLD_LANDED_MAX][BATON_DIGEST_TEXT_BYTES];
    uint32_t landed_count;
    char droppable[WORLD_LANDED_MAX][BATON_DIGEST_TEXT_BYTES]; /* Of the last goals. */
    uint32_t droppable_count;
    uint64_t goals_revision;
    uint64_t goals_acked;
    uint32_t goals_seen;
    bool by_hand;      /* Does nothing by itself. */
    int protocol_away; /* From the controller's. */
    bool was_welcomed;
    struct group_floor floors_told[WORLD_GROUPS_MAX];
    uint32_t floors_told_count;
    struct baton_status closed; /* Of the session that was closed last. */
    uint32_t outcomes_stored;
    bool dirty; /* Has something to report. */
};

struct kept_record {
    enum record_kind kind;
    char key[RECORD_KEY_BYTES];
    union record_body body;
};

struct world {
    struct controller *core;
    void *memory;
    void *spare; /* For the cores that are rebuilt to compare with. */
    struct controller_limits limits;
    uint64_t now_ns;
    uint64_t wall_ns;
    struct epoch epoch;
    uint64_t revision;
    uint64_t log_next;
    uint64_t handle;
    uint64_t session;
    uint8_t seed;
    struct kept_record *kept;
    size_t kept_count;
    size_t kept_capacity;
    struct played_agent agents[WORLD_AGENTS_MAX];
    uint32_t agents_count;
    struct action_reply reply; /* Last one. */
    bool replied;
    bool in_batch; /* Many replies are to come. */
    bool together; /* Reports are given with 'more'; world_apart() ends it. */
    uint32_t batch_replies;
    uint32_t batch_ok;
    struct action_wait_done waits[WORLD_DONE_MAX];
    uint32_t waits_count;
    uint32_t persists;         /* Transactions so far. */
    uint32_t changes;          /* CHANGED actions so far. */
    char last_log[512];        /* "reason object: message" of the last line. */
    uint32_t logs;             /* Lines so far. */
    uint64_t generation_floor; /* Of the last NEW_GENERATION; 0: none. */
    uint32_t most_away;        /* Most groups that were away of any model after any step. */
    bool check_off;            /* Skip the comparison with the store (long runs). */
    uint32_t check_every; /* Compare with a rebuilt core in every n-th step only; 0: in each. */
    uint32_t steps;
    uint64_t next_step; /* What the next version says that it was trained to. */
    uint64_t next_iteration;
    void (*after_step)(struct world *world, void *context);
    void *after_step_context;
};

struct controller_limits world_limits(void);
struct world *world_new(void);
struct world *world_new_limited(const struct controller_limits *limits);
void world_free(struct world *world);

/* Gives the core one event and performs its actions. */
void world_step(struct world *world, struct event *event);
/* Ends 'together': what follows from the reports comes now. */
void world_apart(struct world *world);
/* Lets time pass and delivers TIMER at each deadline on the way; agents renew their leases. */
void world_pass(struct world *world, uint64_t duration_ns);
/* The same, and the agents stay silent. */
void world_pass_silent(struct world *world, uint64_t duration_ns);
/* The agent at this place does one thing, if it has any. */
bool world_play_once(struct world *world, uint32_t agent);
/* Agents report and play until nothing happens any more. */
void world_play(struct world *world);

/* A core that shows what is stored (controller_show()), until the next step. */
struct controller *world_shown(struct world *world);

/* The controller dies; a new one leads from the same store.  Sessions are gone. */
void world_restart(struct world *world);
/* The same under a new generation, as after NEW_GENERATION or an import. */
void world_restart_generation(struct world *world);

/* Calls.  Each returns the status of the reply; the object is in world->reply. */
struct baton_status world_call(struct world *world, struct request *request);
struct baton_status world_apply(struct world *world, const char *model,
                                const struct policy_spec *spec);
struct baton_status world_verb(struct world *world, enum request_kind kind, const char *model,
                               uint64_t to_seq);
/* Opens, fills, seals and publishes; returns the seq (0: refused, see world->reply). */
uint64_t world_publish(struct world *world, const char *model);
/* The same, of that optimizer step and rollout iteration. */
uint64_t world_publish_at(struct world *world, const char *model, uint64_t step,
                          uint64_t iteration);
/* Opens, fills and seals; the uid goes to 'uid'. */
void world_seal(struct world *world, const char *model, char uid[BATON_UID_TEXT_BYTES]);
/* The same of a version with these values (null: not told); what came of the seal. */
struct baton_status world_seal_values(struct world *world, const char *model,
                                      const struct version_values *values,
                                      char uid[BATON_UID_TEXT_BYTES]);
struct baton_status world_publish_uid(struct world *world, const char *uid, const char *request_id);
/* Registers a wait; its handle. */
uint64_t world_wait(struct world *world, const char *model, uint64_t seq);
/* How that wait ended; null: it goes on. */
const struct action_wait_done *world_wait_end(const struct world *world, uint64_t handle);

/* Agents. */
struct played_agent *world_agent(struct world *world, const char *name);
struct played_group *world_add_group(struct played_agent *agent, const char *name,
                                     const char *model);
struct played_group *world_group(struct world *world, const char *name);
/* Opens a session and says no more; true if it was welcomed. */
bool world_hello(struct world *world, struct played_agent *agent);
/* As world_hello(); one that is welcomed reports. */
bool world_connect(struct world *world, struct played_agent *agent);
void world_disconnect(struct world *world, struct played_agent *agent);
/* Reports all groups of an agent, and 'outcomes' if not null. */
void world_report(struct world *world, struct played_agent *agent,
                  const struct ticket_outcome *outcomes, size_t count);
/* The open ticket of a group ends so; the group's state follows. */
void world_finish(struct world *world, const char *group, enum swap_outcome outcome);
/* A group with a ticket of a barrier reports that it stands there. */
void world_stand(struct world *world, const char *group, enum barrier_stand stand);
/* The outcome that world_finish() would report. */
struct ticket_outcome world_outcome(const struct played_group *group, enum swap_outcome outcome);

/* Agents a0.. with 'groups' groups g0.. of 'model' in all, one agent for each, connected. */
void world_fleet(struct world *world, const char *model, uint32_t groups);

/* Views. */
enum blocked_reason world_blocked(const struct world *world, const char *group);
uint64_t world_committed(const struct world *world, const char *group);
const struct group_record *world_record(const struct world *world, const char *group);
const struct roll_record *world_roll(const struct world *world, const char *model, uint64_t number);
uint32_t world_tickets(const struct world *world);

#endif /* controller_world.h */
