/* world.h -- one simulated fleet on virtual time: its parts, and what they offer each other.
 *
 * Both production cores run inside models of everything around them: store, network, processes,
 * clocks, engines, landings, trainers, operators.  One seed is one world: it draws the fleet's shape
 * and a plan of disturbances (plan.h); all else follows.  Equal seed and equal mask give an equal
 * trace.  The truth (check.h) watches every step with code of its own.
 *
 * Depends on: cores.h, api/base/random.h.  Threads: one for each world.  Ownership: world_run() owns
 * all of it. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <setjmp.h>
#include <stdio.h>

#include "api/base/random.h"
#include "tests/sim/cores.h"
#include "tests/sim/disk.h"

#define MS UINT64_C(1000000)
#define S  UINT64_C(1000000000)

enum {
    SIM_AGENTS = 3,
    SIM_GROUPS = 2,  /* That one agent leads. */
    SIM_SLOTS = 4,   /* Groups of one agent, with those that it follows. */
    SIM_ENGINES = 2, /* Of one group. */
    SIM_RANKS = 2,   /* Of one engine. */
    SIM_HEADS = 2,   /* The controller that leads, and one that was deposed. */
    SIM_OPS = AGENT_OP_LIVE + 1,
    SIM_CONTENTS = 96, /* Different weights in one world; 0 is damage, 1 the boot checkpoint. */
    SIM_TICKETS = 256, /* Of all groups, for the truth's books. */
    SIM_WIRES = 512,
    SIM_CALLS = 512,
    SIM_FATES = 96,
    SIM_WHY = 400,
    SIM_SLOTS_PER_PUBLISH = 4, /* Of every policy. */
    SIM_SLOTS_HELD = 10,
    SIM_SESSIONS = 4,
    SIM_SESSION_MS = 3000,
    SIM_ROUTERS = 2,
    SIM_MODELS = 2,
    SIM_NOBODY = 255,
};

/* Misbehaviour of one call to an engine. */
enum engine_fault {
    EF_NONE,
    EF_FAIL,      /* Answers with an error; an update leaves torn ranks. */
    EF_FAIL_BACK, /* Update: error, and all ranks put their tensors back. */
    EF_HANG,      /* No answer by the deadline, and no effect, ever. */
    EF_LATE,      /* No answer by the deadline; it takes effect long afterwards. */
    EF_SILENT,    /* It takes effect at once, and the answer is lost. */
    EF_STUCK,     /* As HANG, and the worker does not come back either. */
    EF_LIE,       /* Says yes and does nothing; an update loses one rank. */
    EF_STRAY,     /* The answer belongs to another call. */
    EF_DIE,       /* The process ends while it works on this. */
    EF_SLOW,      /* It takes thirty times as long. */
    EF_KINDS
};

struct engine_model {
    bool up;
    bool plugin;
    bool guarded;
    bool starting;       /* Started; answers from 'ready_ns' on. */
    bool recreate_fails; /* The next attempt. */
    uint64_t ready_ns;
    uint32_t life; /* Rises with each start; also the guard's boots. */
    uint32_t boot_content;
    uint32_t rank[SIM_RANKS]; /* Content of each. */
    uint32_t kv;              /* Content that its cached KV was made with; 0: none. */
    bool
        kv_kept; /* A live swap kept it, as the policy says: of several contents until it is dropped. */
    uint32_t prepared; /* Content beside the one that serves; 0: none. */
    struct agent_fence prepared_fence;
    enum agent_gate gate;
    uint64_t opened_for;
    uint64_t gate_version;
    bool paused;
    bool asleep; /* It released its memory: its ranks hold nothing. */
    struct agent_fence fence;
    char label[BATON_NAME_BYTES];
    enum engine_fault fault[SIM_OPS]; /* Of the next calls of a kind. */
    uint32_t fault_left[SIM_OPS];
    bool lies_back; /* After the update that fails, the next one says yes and loses a rank. */
    uint64_t busy_until_ns; /* Of the worker: an abandoned call ends first. */
    uint32_t late_label;    /* Life in which a label came to work late; see check.c. */
    uint32_t foreign_life;  /* That somebody began who did not tell the agent. */
    /* The truth's books. */
    uint32_t proved_life; /* Life in which ... */
    uint32_t
        proved_content; /* ... this content was verified by a read-back, an update or COMMIT. */
    struct baton_random random;
};

/* Misbehaviour of a router. */
enum router_fault {
    RF_NONE,
    RF_REFUSES,
    RF_LATE,   /* It does as asked, and its answer comes too late. */
    RF_SILENT, /* It does nothing and says nothing. */
    RF_GONE,
    RF_KINDS
};

struct router {
    enum router_fault fault; /* Of the next calls. */
    uint32_t fault_left;
    uint64_t down_until_ns;
};

/* A ticket that an agent accepted, as its journal's bytes say. */
struct open_ticket {
    bool open;
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t number;
    struct agent_epoch epoch;
    uint64_t owner_term;
    uint64_t from_seq;
    uint64_t to_seq;
    uint32_t from;
    uint32_t to;
    bool rejoin;
    bool barrier;
    bool bound; /* It shut, and waits for the others. */
    bool live;  /* The gate stays open. */
    bool lost;  /* Of a live swap: the journal that knew of it is gone; until another ticket. */
    uint64_t out_ns;  /* It ended with OUT then; its gate is being shut. */
    bool live_intent; /* LIVE_INTENT is the last of its intents: 'from' or 'to' is resident. */
    bool committed;
    uint64_t step;
    uint64_t swap_ns; /* Its deadline, with the waits of a barrier. */
    /* Routers and when, as bits; see check_router.c. */
    uint32_t hooks; /* Of its policy. */
    uint64_t hooks_ns;
    uint32_t asked;
    uint32_t acked;
    uint32_t told; /* Since one was last asked to send nobody. */
    uint64_t hook_id;
    uint32_t hook_bit;
};

/* One agent's part of a group: what its journal says of it, decoded by code of our own. */
struct group_model {
    bool follows;         /* Another agent leads it: this is that agent's part. */
    uint32_t obeyed_life; /* Of the agent in which it ... */
    uint64_t obeyed_step; /* ... last carried out a command of its leader, of this step. */
    const struct group_model *members[SIM_AGENTS]; /* Of one that is led here: the others' parts. */
    uint32_t members_count;
    uint32_t engines_count;
    struct engine_model engines[SIM_ENGINES];
    uint64_t journal_seq; /* Of the last COMMIT in the journal, as long as its disk lives. */
    uint32_t journal_content;
    uint64_t committed_seq; /* Of the last COMMIT that was ever written. */
    uint32_t committed;     /* Content; 0: none. */
    uint32_t committed_lives[SIM_ENGINES];
    bool needs_ticket;
    struct open_ticket ticket;
    char lost_uid[BATON_UID_TEXT_BYTES]; /* Of a ticket that was open when its journal was lost. */
    bool detached;                       /* By an operator at its node ... */
    uint64_t resumed_ns;                 /* ... who asked at that time to drive it again. */
    uint64_t operated_ns;                /* An operator at its node asked for anything. */
    bool gave_up; /* It was to sleep, and COMMIT has not told of weights since then. */
    bool asks;    /* A resolving ticket was sent to it, and has no outcome yet. */
    uint64_t highest_ticket;
    uint64_t owner_term;
    uint64_t accepted_ns; /* Of the open ticket. */
    uint64_t shut_ns;     /* Its gates were last seen closed since; 0: they are open. */
    uint32_t goal_target; /* Contents of the last goals. */
    uint32_t goal_stage;
    enum agent_group_state state; /* As last reported. */
    uint64_t unfit_told;
    uint64_t unfit_with;
    /* What its leader told last, whether or not it arrived. */
    char told_blocked[BATON_NAME_BYTES];
};

enum landing_model { LANDING_ABSENT, LANDING_COMING, LANDING_LANDED };

/* One agent's process, its disk, and its engines. */
struct node {
    uint32_t index;
    bool up;
    bool ending; /* SHUTDOWN was delivered. */
    uint32_t life;
    struct agent *agent;
    void *memory;
    size_t memory_bytes;
    struct agent_config config;
    struct agent_group_config groups_config[SIM_SLOTS];
    struct agent_engine_config engines_config[SIM_SLOTS][SIM_ENGINES];
    struct agent_member_config members[SIM_GROUPS][SIM_AGENTS];
    uint32_t led_count; /* Groups that it leads come first. */
    uint32_t groups_count;
    struct group_model groups[SIM_SLOTS];

    uint8_t *journal;
    size_t journal_size;
    uint64_t journal_index;
    uint32_t disks;               /* Journals so far. */
    uint64_t disk_ns;             /* Begin of the present one. */
    struct agent_epoch epoch;     /* Highest in the journal. */
    uint64_t top_seq[SIM_MODELS]; /* Highest SEQ or COMMIT of each model in the journal. */
    enum agent_journal_space space;
    uint32_t snapshots;

    enum landing_model landing[SIM_CONTENTS];
    uint32_t landing_life[SIM_CONTENTS]; /* Of the present try. */
    bool droppable[SIM_CONTENTS];        /* By the last goals that it took over. */
    uint32_t landing_fails;              /* The next so many. */
    bool no_room;

    bool session_wanted;
    uint32_t wire;   /* 0: none. */
    uint64_t try_ns; /* Next connection. */
    uint64_t stopped_until_ns;
    uint64_t blocked_up_ns; /* Partition until then. */
    uint64_t blocked_down_ns;
    int64_t skew_ns; /* Of its wall clock. */
    uint64_t deadline_ns;
    uint64_t started_ns;
    uint64_t restarted_ns; /* Last start, or end of a stop. */
    uint32_t crash_in;     /* At the n-th boundary from now; 0: not armed. */
    uint32_t boundaries;
    bool crashed; /* In this step. */
    struct baton_random random;
};

/* What a controller's process was told of a group in its own life; our own books. */
struct known_group {
    bool known;
    bool serves; /* Gate open and in a state that serves. */
    bool out;
    uint64_t committed_seq;
    char ticket_uid[BATON_UID_TEXT_BYTES]; /* That its agent says is open. */
    uint64_t heard_ns;                     /* Its agent was last heard. */
};

struct head {
    uint32_t index;
    bool up;
    bool deposed; /* Another one leads; it does not know. */
    uint32_t life;
    struct controller *core;
    void *memory;
    struct epoch epoch;
    uint64_t stopped_until_ns;
    uint64_t cut_until_ns;  /* From its store. */
    bool returns;           /* Deposed, it does not know it and asks for an epoch once more. */
    bool waits;             /* Its loop is blocked in a commit ... */
    uint64_t busy_until_ns; /* ... until then; what follows comes later. */
    enum commit_outcome outcome;
    struct actions actions; /* Of the step in work ... */
    size_t next_action;     /* ... of which those from here on are left. */
    bool more;              /* That step's effects wait for the next one. */
    bool loading;           /* It has its epoch, and reads the store. */
    uint64_t load_ns;       /* How long the next load takes. */
    int64_t skew_ns;
    uint64_t deadline_ns;
    uint32_t crash_in;
    uint32_t boundaries;
    struct way way;            /* Of its next commit ... */
    bool dies_waiting;         /* ... during which it is killed. */
    bool completes;            /* The transaction in work completes a roll. */
    bool in_request;           /* The step in work is that of a request ... */
    enum request_kind request; /* ... of this kind. */
    uint32_t about;            /* ... about this model; SIM_MODELS: none alone. */
    struct known_group known[SIM_AGENTS][SIM_GROUPS];
};

/* Samples of a model at one stage, as those who reported them know. */
struct sample_book {
    uint64_t samples;
    uint64_t tokens;
    uint64_t unrelated;
    uint64_t max_lag;
};

/* The durable store. */
struct disk {
    struct epoch epoch;
    uint64_t revision;
    uint64_t log_next;
    struct kept_record *kept;
    size_t count;
    size_t capacity;
    uint32_t commits;
    /* The truth's books of what is counted: they go back with the store. */
    struct sample_book samples[SIM_MODELS][SAMPLE_STAGES_END];
    uint64_t consumed[SIM_MODELS]; /* Since the last publish. */
};

/* One stream between an agent and a controller. */
struct wire {
    uint32_t id; /* 0: free. */
    uint32_t node;
    uint32_t node_life;
    uint32_t head;
    uint32_t head_life;
    bool node_open;
    bool head_open;
    bool cut;
    bool hello_seen;
    uint64_t blocked_up_ns; /* Partition until then, from this controller only. */
    uint64_t blocked_down_ns;
    uint64_t up_ns; /* Last arrival so far, for the order. */
    uint64_t down_ns;
};

/* The stream of a group's leader to an agent that follows it; see mesh.c. */
struct mesh_link {
    bool wanted;
    bool up;
    uint32_t stream;  /* Rises with each new one. */
    uint64_t down_ns; /* Last arrival so far, for the order. */
    uint64_t up_ns;
    uint64_t blocked_ns; /* Partition until then. */
};

struct packet;

enum item_kind {
    ITEM_FATE,
    ITEM_CALM,
    ITEM_PACKET_UP,
    ITEM_PACKET_DOWN,
    ITEM_NEWS_NODE, /* The wire's end is noticed. */
    ITEM_NEWS_HEAD,
    ITEM_CUT,
    ITEM_OP_WORK, /* An engine works on a call ... */
    ITEM_OP_END,  /* ... and its answer arrives. */
    ITEM_LANDING,
    ITEM_RECREATED,
    ITEM_NODE_START,
    ITEM_NODE_SPACE,
    ITEM_HEAD_START,
    ITEM_HEAD_LOAD,
    ITEM_HEAD_KILLED,
    ITEM_COMMIT_ARRIVES, /* At the store. */
    ITEM_COMMIT_ENDS,    /* For the controller that waits for its answer. */
    ITEM_CALL_TRY,
    ITEM_CALL_ARRIVES,
    ITEM_CALL_TIMEOUT,
    ITEM_SYNCED,
    ITEM_MESH_TRY,  /* 'who' leads; 'a' is the other end's agent, 'b' the stream. */
    ITEM_MESH_NEWS, /* The leader notices that it ended. */
    ITEM_MESH_UP,   /* A result arrives at 'who', of agent 'a'. */
    ITEM_MESH_DOWN, /* A command arrives at 'who', of agent 'a'. */
    ITEM_ROUTER,    /* A call of 'who' to a router ends. */
    ITEM_KINDS
};

/* A call to an engine that is under way. */
struct work {
    struct agent_op op;
    enum engine_fault fault;
    uint32_t engine_life;
    uint32_t disks; /* Of the agent, when it was sent. */
    bool done;
    struct agent_op_result result;
};

struct item {
    uint64_t due_ns;
    uint64_t order;
    enum item_kind kind;
    uint32_t who;  /* Node, head or call. */
    uint32_t life; /* Of 'who'; another one: void. */
    uint32_t a;
    uint32_t b;
    void *payload; /* Owned by the item. */
    bool waited;   /* For a stopped process: its order is that of its arrival. */
};

/* A disturbance of the plan; what a, b and c mean is the kind's business. */
struct fate {
    uint64_t at_ns;
    uint32_t kind;
    uint32_t a;
    uint32_t b;
    uint32_t c;
    bool masked;
};

/* A client's call, repeated until it is answered. */
struct call {
    uint32_t kind;    /* enum request_kind. */
    uint32_t model;   /* That it is about; of a group's verb the group's. */
    uint32_t verb;    /* Row of the table of verbs; SIM_NOBODY: a step of a publish. */
    uint32_t publish; /* Content that it publishes. */
    uint64_t to_seq;
    char request_id[BATON_REQUEST_ID_BYTES];
    char group[BATON_NAME_BYTES];
    char agent[BATON_NAME_BYTES];   /* Instead: all groups of it. */
    char uid[BATON_UID_TEXT_BYTES]; /* Of the version, or the lease. */
    uint32_t tries;
    uint32_t tries_max;
    bool ended;
    bool answered_ok;
    bool lose_answer; /* Of the next try. */
    uint32_t word;    /* Which policy an apply gives. */
    uint32_t chain;   /* Of the calm's script: what comes after it; 0: none. */
    uint32_t chain_model;
    uint32_t asked; /* Controller that has it, from 1; 0: none ... */
    uint32_t asked_life;
    uint32_t asked_try; /* ... since this try. */
};

struct version_model {
    bool used;
    uint32_t model;
    bool unfit;
    uint64_t step;         /* Optimizer steps. */
    uint64_t samples;      /* That it was trained on. */
    uint64_t parent;       /* Seq, as the store has it. */
    uint64_t published_ns; /* By the controller's wall clock. */
    uint64_t seq;          /* As acknowledged or seen in the store; 0: not published. */
    bool acked;
    bool lost; /* The store went back behind it. */
    char uid[BATON_UID_TEXT_BYTES];
};

/* What a session was told last. */
struct session_book {
    uint64_t seq;
    uint64_t until_ns;
};

/* One model of the fleet: what its trainer does, and the truth's books of it. */
struct model_book {
    uint64_t optimizer_step;
    uint64_t top_seq;                 /* Highest seq that was acknowledged. */
    char lease[BATON_UID_TEXT_BYTES]; /* Of slots, granted last; empty: none. */
    struct session_book sessions[SIM_SESSIONS];
    uint32_t max_unavailable_ever;
    uint32_t final; /* Content of the last publish, in the calm. */
    bool promoted_late;
    uint64_t woken_ns; /* In the calm, whoever still slept. */
};

struct ticket_book {
    char uid[BATON_UID_TEXT_BYTES];
    enum agent_outcome outcome; /* As an agent's journal says; NONE: open. */
    bool accepted;
    bool stored;   /* By the controller. */
    bool resolves; /* It asks the members of a group in doubt. */
    bool router_failed;
};

struct world {
    uint64_t seed;
    uint64_t now_ns;
    uint64_t storm_end_ns;
    uint64_t end_ns;
    struct baton_random random;
    uint64_t orders;
    uint64_t steps;
    bool calm;
    bool use_codec;
    bool together; /* Messages that come close together share a transaction. */
    FILE *story;   /* Null: silent. */

    struct item *heap;
    uint32_t heap_count;
    uint32_t heap_capacity;

    struct node nodes[SIM_AGENTS];
    uint32_t nodes_count;
    struct head heads[SIM_HEADS];
    uint32_t lead; /* Head that leads, or leads next. */
    struct disk disk;
    struct disk backup;
    bool has_backup;
    bool went_back;         /* The store was rolled back at least once. */
    uint64_t away_until_ns; /* Nobody reaches the store. */
    struct torn *torn;      /* A decided commit that may not be applied everywhere; owned. */
    bool parts_left;        /* Of a commit that was not decided. */
    struct wire wires[SIM_WIRES];
    uint32_t wires_last;
    struct mesh_link links[SIM_AGENTS][SIM_AGENTS]; /* By leader and follower. */
    struct router routers[SIM_ROUTERS];
    uint64_t noisy_ns; /* Until then commands between agents come twice, or late. */

    struct fate fates[SIM_FATES];
    uint32_t fates_count;

    struct call calls[SIM_CALLS];
    uint32_t calls_count;
    struct version_model versions[SIM_CONTENTS];
    uint32_t contents; /* Highest used. */
    struct model_book models[SIM_MODELS];
    uint32_t models_count;
    struct sample_book asked; /* By the report of samples in work. */
    struct baton_random
        models_random; /* So that one model's worlds do not depend on a second one. */
    bool calm_verbs;   /* Operators act in the calm at once, not only after a while. */
    uint64_t calm_ns;

    struct ticket_book tickets[SIM_TICKETS];
    uint32_t tickets_count;

    const struct script *script; /* Null: a random world. */
    bool struck;                 /* Its harm was done. */
    uint32_t outcomes;           /* Bits of the outcomes of swaps that a controller logged. */
    uint32_t packets;            /* Sent so far. */
    uint32_t writes;             /* To the store, so far. */

    uint32_t checks_off; /* Bits of checks that are not made. */
    const char *broken;  /* Name of the check that failed; null: none. */
    char why[SIM_WHY];
    jmp_buf out; /* An assertion of a core ends the world. */
};

/* What is done to a small world of exhaust.c, once. */
enum harm {
    HARM_NONE,
    HARM_NODE_DIES,    /* At the at-th boundary of its first agent. */
    HARM_HEAD_DIES,    /* At the at-th boundary of the controller. */
    HARM_PACKET_LOST,  /* The at-th message is lost, and with it its stream. */
    HARM_PACKET_TWICE, /* The at-th message arrives twice. */
    HARM_STORE_FAILS,  /* The at-th write to the store is refused. */
    HARM_STORE_LOST,   /* The at-th write is stored, and its answer lost. */
    HARM_KINDS
};

/* A small world: one agent, two groups of one engine with two ranks, two versions, one verb. */
struct script {
    uint32_t verb;   /* Row of the table of verbs. */
    uint32_t policy; /* Number of the policy; see people.c. */
    enum harm harm;
    uint32_t at; /* From 1. */
};

/* Runs one seed.  Fates whose place is in 'mask' (may be null) do not happen.  Returns null if all
 * held, else the name of the check that failed; world->why says more. */
const char *world_run(struct world *world, uint64_t seed, const bool *mask, FILE *story);
/* Runs a small world instead. */
const char *world_run_script(struct world *world, const struct script *script, FILE *story);
/* Frees what a world kept between runs. */
void world_release(struct world *world);
/* The one that runs now; null: none. */
extern struct world *volatile world_running;

/* --- world.c: time --- */
struct item *world_post(struct world *world, uint64_t due_ns, enum item_kind kind, uint32_t who);
uint32_t world_below(struct baton_random *random, uint64_t bound);
uint64_t world_wall_ns(const struct world *world, int64_t skew_ns);
/* One sentence of the story. */
BATON_PRINTF(2, 3) void tell(struct world *world, const char *fmt, ...);
/* A check failed: the world ends after this step. */
BATON_PRINTF(3, 4) void world_break(struct world *world, int check, const char *fmt, ...);
/* The part of the agent that leads it. */
struct group_model *world_group(struct world *world, const char *name, uint32_t *node);
/* Content of a digest; 0: not of this world. */
uint32_t content_of(const char *digest);
void content_digest(uint32_t content, char out[BATON_DIGEST_TEXT_BYTES]);
uint32_t content_of_seq(const struct world *world, uint32_t model, uint64_t seq);

/* --- models.c --- */
/* Whether this world has a second model, and which groups are of it. */
void models_draw(struct world *world, const bool *mask);
/* The model of a new group. */
uint32_t models_pick(struct world *world);
/* Which one a disturbance or a verb is about. */
uint32_t models_of_dice(const struct world *world, uint32_t random);
const char *model_name(uint32_t model);
/* SIM_MODELS: no model of this world. */
uint32_t model_of_name(const char *name);
/* As its leader's configuration says. */
uint32_t model_of_group(const struct world *world, const char *group);
const struct model_record *model_stored(const struct disk *disk, uint32_t model);
/* The active one; null: none. */
const struct roll_record *model_roll(const struct disk *disk, uint32_t model);

/* --- node.c --- */
void node_init(struct world *world, uint32_t index);
/* After all of them: some groups span agents. */
void node_span(struct world *world);
/* Its part of the group of this name. */
struct group_model *node_part(struct node *node, const char *group);
void node_start(struct world *world, struct node *node);
void node_crash(struct world *world, struct node *node, const char *how, uint64_t down_ns);
void node_event(struct world *world, struct node *node, struct agent_event *event);
void node_lose_disk(struct world *world, struct node *node, bool landings_too);
/* An operator at this node asks for something out of order. */
void node_operate(struct world *world, struct node *node, uint32_t g, enum agent_verb verb);
void node_landing(struct world *world, struct item *item);
void node_set_space(struct world *world, struct node *node, enum agent_journal_space space);
/* True, and the process is gone, if an armed crash is due at this boundary. */
bool node_boundary(struct world *world, struct node *node, const char *where);

/* --- engine.c --- */
void engine_boot(struct world *world, struct engine_model *engine, uint32_t content);
bool engine_is_open(const struct world *world, const struct engine_model *engine);
bool engine_answers(const struct world *world, const struct engine_model *engine);
void engine_submit(struct world *world, struct node *node, const struct agent_op *op);
void engine_abandon(struct world *world, struct node *node, struct agent_engine_id id, uint64_t op);
void engine_work(struct world *world, struct item *item);
void engine_end(struct world *world, struct item *item);
void engine_recreate(struct world *world, struct node *node, struct agent_engine_id id);
void engine_recreated(struct world *world, struct item *item);
void engine_die(struct world *world, struct node *node, struct agent_engine_id id, bool told);

/* --- head.c --- */
void head_start(struct world *world, struct head *head);
void head_crash(struct world *world, struct head *head, const char *how, uint64_t down_ns);
void head_event(struct world *world, struct head *head, struct event *event);
void head_load(struct world *world, const struct item *item);
/* The answer to its commit comes, or its patience ends. */
void head_goes_on(struct world *world, const struct item *item);
/* It reaches no store. */
bool head_is_cut(const struct world *world, const struct head *head);
struct head *world_lead(struct world *world);
/* --- net.c --- */
void net_connect(struct world *world, struct node *node);
void net_cut(struct world *world, struct wire *wire, uint64_t node_ns, uint64_t head_ns);
void net_send_up(struct world *world, struct node *node, struct packet *packet);
void net_send_down(struct world *world, struct head *head, uint64_t session, struct packet *packet);
void net_close_down(struct world *world, struct head *head, uint64_t session);
void net_node_gone(struct world *world, struct node *node);
void net_head_gone(struct world *world, struct head *head);
void net_packet_up(struct world *world, struct item *item);
void net_packet_down(struct world *world, struct item *item);
void net_news_node(struct world *world, struct item *item);
void net_news_head(struct world *world, struct item *item);
struct wire *net_wire(struct world *world, uint64_t id);

/* --- mesh.c --- */
void mesh_start(struct world *world, const struct node *node);
void mesh_gone(struct world *world, const struct node *node);
/* Both ways, for so long; the leader notices after a while. */
void mesh_break(struct world *world, uint32_t leader, uint32_t follower, uint64_t blocked_ns);
void mesh_calm(struct world *world);
void mesh_send(struct world *world, struct node *node, const struct agent_action *action);
void mesh_answer(struct world *world, struct node *node, const struct agent_action *action);
void mesh_try(struct world *world, const struct item *item);
void mesh_news(struct world *world, const struct item *item);
void mesh_up(struct world *world, struct item *item);
void mesh_down(struct world *world, struct item *item);

/* --- router.c --- */
void router_call(struct world *world, struct node *node, const struct agent_hook_call *call);
void router_answers(struct world *world, const struct item *item);
/* Which one is behind an address. */
uint32_t router_of(const char *url);

/* --- people.c --- */
/* Numbers of two policies that small worlds use. */
enum { PEOPLE_ROLLING = 0, PEOPLE_BARRIER = 432, PEOPLE_LIVE = 5 };
void people_init(struct world *world);
uint32_t people_publish(struct world *world, uint32_t model, bool unfit, uint32_t tries);
void people_verb(struct world *world, uint32_t verb, uint32_t random);
void people_try(struct world *world, struct item *item);
void people_arrive(struct world *world, struct item *item);
void people_timeout(struct world *world, struct item *item);
void people_reply(struct world *world, struct head *head, const struct action_reply *reply);
/* What this controller has not answered yet fails: it reads the store again. */
void people_failed(struct world *world, const struct head *head);
void people_calm(struct world *world);
/* An operator restarts engines that nobody else may. */
void people_walk(struct world *world);
void people_wait_done(struct world *world, struct head *head, const struct action_wait_done *done);
/* Whether the store shows what the call asked for, just after it was carried out. */
bool people_shows(const struct world *world, const struct call *call);

#endif /* world.h */
