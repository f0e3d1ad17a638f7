/* daemon.h -- the agent's process: the core and everything that acts for it.
 *
 * One loop thread owns all of this. Workers (one an engine), landings, the session and local clients
 * have threads of their own and post work to the loop's mailbox.  A journal that cannot be written ends
 * the process at once: what follows would be an effect without its record (agent/core/action.h).
 *
 * Depends on: agent/core, agent/engine, transport, api.  Threads: the loop's, unless said otherwise.
 * Ownership: main creates and destroys. */
#ifndef AGENT_SHELL_DAEMON_H
#define AGENT_SHELL_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/agent.h"
#include "agent/shell/config.h"
#include "api/base/mailbox.h"
#include "api/base/status.h"

struct asker;
struct exchange;
struct hooks;
struct janitor;
struct journal_file;
struct lander;
struct link;
struct local_server;
struct peer_links;
struct peer_server;
struct rpc_client;
struct source;
struct worker;

/* What the shell itself must know of a group. */
struct group_facts {
    char committed[BATON_DIGEST_TEXT_BYTES]; /* By the journal. */
    char target[BATON_DIGEST_TEXT_BYTES];    /* By the last goals. */
    char stage[BATON_DIGEST_TEXT_BYTES];
    char compared[2][BATON_DIGEST_TEXT_BYTES]; /* Versions whose layouts were compared last. */
    struct baton_status fit;                   /* What came of it. */
};

enum { DAEMON_MAILBOX = 4096, DAEMON_NOTICES_MAX = 64 };

/* How long a JOURNAL action took; told to the core once the step's actions are done. */
struct journal_notice {
    enum journal_kind kind;
    char group[BATON_NAME_BYTES];
    uint64_t took_ns;
};

struct daemon {
    const struct shell_config *config;
    struct baton_mailbox *mailbox;
    struct agent *core;
    void *memory;
    struct journal_file *journal;
    bool committed;                 /* In the step that is under way. */
    enum agent_journal_space space; /* Last told. */
    uint64_t space_ns;              /* When to look again, while it is short. */
    struct rpc_client *client;
    struct link *link;
    struct peer_links *peer_links;   /* To followers of groups that it leads. */
    struct peer_server *peer_server; /* Null: it follows in no group. */
    struct exchange *exchange;       /* Null: it passes no versions on. */
    struct lander *lander;
    struct source *source; /* Null: this agent is none. */
    struct hooks *hooks;
    struct janitor *janitor;
    struct local_server *local;
    struct worker **workers[BATON_GROUPS_PER_AGENT_MAX]; /* Per group, per engine. */
    struct group_facts groups[BATON_GROUPS_PER_AGENT_MAX];
    struct journal_notice notices[DAEMON_NOTICES_MAX];
    unsigned notices_count;
    bool goals_refused;  /* By the last step. */
    struct asker *asker; /* Whose break-glass is being carried out. */
    bool done;           /* It was told to stop, and its swaps have ended. */
};

/* Opens everything, in an order in which nothing acts before the journal is recovered. */
BATON_MUST_USE struct baton_status daemon_create(const struct shell_config *config,
                                                 struct daemon **out);
/* Serves until daemon_stop() and the core's DONE. */
void daemon_run(struct daemon *daemon);
/* From any thread. */
void daemon_stop(struct daemon *daemon);
void daemon_destroy(struct daemon *daemon);

/* Gives the core an event and performs what it says. */
void daemon_step(struct daemon *daemon, struct agent_event *event);

/* Index of a group; false for an unknown name. */
bool daemon_find_group(const struct daemon *daemon, const char *name, uint32_t *out);

/* Work for the mailbox; arguments are struct worker_event, lander_event and hook_event. */
baton_mailbox_work_fn daemon_on_worker, daemon_on_lander, daemon_on_hook;
/* There are troubles with peers to be told of; its argument is null. */
baton_mailbox_work_fn daemon_on_exchange;

#endif /* daemon.h */
