/* daemon.h -- the controller's process: the core, its store, its server, and what ties them.
 *
 * One loop thread owns everything here.  RPC handlers run on RPC threads and only post work
 * (daemon_post); the work runs on the loop thread, steps the core and performs its actions in order.
 * What follows a transaction is performed only once it is durable; when the store refuses one, the
 * core is thrown away and rebuilt from the store (controller/core/action.h).
 *
 * One of several controllers has a core only while it leads (standby.h).
 *
 * Depends on: controller/core, controller/store, all of api.  Threads: the loop's, unless said otherwise.
 * Ownership: main creates and destroys the daemon; calls in tables hold a reference. */
#ifndef CONTROLLER_SHELL_DAEMON_H
#define CONTROLLER_SHELL_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/mailbox.h"
#include "api/base/status.h"
#include "api/rpc/accounts.h"
#include "api/rpc/rpc.h"
#include "api/rpc/tokens.h"
#include "controller/core/action.h"
#include "controller/core/controller.h"
#include "controller/core/view.h"
#include "controller/shell/access.h"
#include "controller/shell/audit.h"
#include "controller/shell/core_room.h"
#include "controller/shell/leadership.h"
#include "controller/shell/rates.h"
#include "controller/shell/stats.h"
#include "controller/store/store.h"

struct daemon;
struct dashboard;
struct fleet_stats;
struct grants;
struct pending;
struct session_grants;

/* Turns the core's answer into the call's reply; null members of the routes take the default, which
 * renders the object. */
typedef void pending_answer_fn(struct daemon *daemon, struct pending *pending,
                               const struct action_reply *reply);

/* A call that waits for the core. */
struct pending {
    struct pending *next;
    uint64_t handle;
    struct rpc_call *call; /* Referenced. */
    pending_answer_fn *answer;
    void *data;              /* Of 'answer'; freed with free() after it. */
    struct audit_note *note; /* Of an audited change, until it is written; else null. */
};

/* One agent's stream, in a place of the daemon's table; see session.c. */
struct session {
    uint64_t id;           /* 0: the place is free. */
    struct rpc_call *call; /* Referenced. */
    bool open;             /* Nothing is sent to a closed one. */
    char agent[BATON_NAME_BYTES];
    bool serves_peers;             /* It said where; only then it is told of peers. */
    struct session_grants *grants; /* grants.c; null: none. */
    int64_t certificate_ends;      /* Wall seconds; 0: not asked yet, negative: there is none. */
    uint32_t next_free;            /* Of a free place: the next one. */
};

/* One watch: of a kind, perhaps of one name. */
struct watcher {
    struct watcher *next;
    struct rpc_call *call; /* Referenced. */
    enum object_kind kind;
    char filter[BATON_NAME_BYTES]; /* Model (for models: the name); empty: all. */
    uint64_t last_sent_ns;
};

enum { FOLLOWER_OBJECT_BYTES = RECORD_WORD_BYTES + BATON_NAME_BYTES };

/* One follower of the event log. */
struct follower {
    struct follower *next;
    struct rpc_call *call; /* Referenced. */
    char object[FOLLOWER_OBJECT_BYTES];
};

/* A change that a watch may still ask for. */
struct past_change {
    uint64_t revision;
    enum change_kind change;
    struct object_ref object;
    char model[BATON_NAME_BYTES];
};

enum { DAEMON_PAST_CHANGES = 4096, DAEMON_MAILBOX = 8192 };

struct daemon_options {
    const char *store_address;
    const struct rpc_listener *listeners;
    size_t listeners_count;
    uint32_t swaps_kept;                    /* 0: the default. */
    const struct controller_limits *limits; /* Null: the defaults; members of 0: the default. */
    const struct prometheus_options *prometheus; /* Null: there is none. */
    const struct access *access;                 /* Null: access_default(). */
    const struct rates_options *rates;           /* Null: the defaults. */
    struct connection_limits connections;        /* Members of 0: the default. */
    const char *tokens_file;                     /* Null: there are no tokens. */
    const struct rpc_accounts_options *accounts; /* Null: there are no service accounts. */
    const char *metrics_listen;                  /* Null: there are no metrics. */
    const char *dashboard_listen;                /* Null: there is no dashboard. */
    bool insecure; /* Of the dashboard: other machines may reach it without TLS. */
    const struct audit_options *audit;           /* Null: none is kept. */
    const struct leadership_options *leadership; /* Null: it is the only controller of its store. */
};

struct daemon {
    struct daemon_options options;
    struct access access;          /* Constant. */
    struct rpc_tokens *tokens;     /* Null: there are none. */
    struct rpc_accounts *accounts; /* Null: there are none. */
    struct rates *rates;
    struct stats *stats;
    struct fleet_stats *fleet_stats; /* Null: there are no metrics. */
    struct metrics *metrics;         /* Null: nobody may ask. */
    struct dashboard *dashboard;     /* Null: there is none. */
    struct audit *audit;             /* Null: none is kept. */
    struct grants *grants;
    struct baton_mailbox *mailbox;
    struct rpc_server *server;
    struct store *store;
    struct controller *
        core; /* Null while it cannot be built.  Of a standby: what is shown, in daemon_is_ready(). */
    struct core_room room;
    struct shown *shown; /* Null: what a standby knows is not asked for.  standby.c */
    bool stopping;
    bool deposed; /* Another controller acquired the epoch: no more leadership here. */
    struct baton_status start_status; /* Not OK: the store, reached late, is of no use; it stops. */
    bool rebuild;                     /* The core ran ahead of a store that refused. */
    bool deferred;           /* The core took reports whose consequences come with its next step. */
    uint32_t deferred_count; /* Of them. */
    uint64_t
        behind_until; /* Items of the mailbox that waited while a commit was slow: up to this one. */
    uint64_t retry_ns; /* When to try to build the core again. */
    struct leadership
        *leadership; /* Null: it is alone, or did not reach the store yet.  standby.c */
    struct store_wait *store_wait;     /* Null: the store was reached. */
    uint64_t term;                     /* Of the leadership that the core acts for. */
    char leader[LEADER_ADDRESS_BYTES]; /* Who else leads; empty: not known. */
    bool stands_by;                    /* Another one leads, and callers were told. */
    struct baton_status store_status;

    uint64_t last_handle;
    uint64_t sessions_ever;
    struct pending *pendings;
    struct session *sessions; /* Places; a session's id names its own. */
    uint32_t sessions_places;
    uint32_t sessions_free; /* First free place; 'sessions_places': none. */
    struct watcher *watchers;
    struct follower *followers;
    struct endpoint_watcher *endpoint_watchers; /* endpoints.c */
    uint64_t endpoints_due_ns;                  /* 0: nothing changed. */
    uint64_t resolves;                          /* Calls of Resolve so far. */
    struct summary_watcher *summary_watchers;   /* summaries.c */
    struct prometheus *prometheus;
    struct batch *batch;                /* batch.c */
    struct past_change *past;           /* Ring of DAEMON_PAST_CHANGES. */
    uint64_t past_count;                /* Ever noted since the core was built. */
    uint64_t past_base;                 /* Revision when the core was built: older ones are gone. */
    char shown_again[BATON_NAME_BYTES]; /* Model whose roll changed with its groups in this step. */
    struct late_rolls *late_rolls;      /* watch_rolls.c */
};

/* Opens the store (one of several controllers: goes on without it as long as it is out of reach) and binds the listeners; nothing is served before daemon_run(). */
BATON_MUST_USE struct baton_status daemon_create(const struct daemon_options *options,
                                                 struct daemon **out);
void daemon_destroy(struct daemon *daemon);

/* Serves until daemon_stop(), until another controller leads ('deposed') or until the store that was waited for turns
 * out to be of no use ('start_status'); then drains. */
void daemon_run(struct daemon *daemon);
/* From any thread. */
void daemon_stop(struct daemon *daemon);

/* From an RPC thread: hands a referenced call over; refuses it where the mailbox is full. */
void daemon_post(struct daemon *daemon, struct rpc_call *call, baton_mailbox_work_fn *run);
/* From an RPC thread: hands anything over; false if the mailbox is full. */
BATON_MUST_USE bool daemon_post_any(struct daemon *daemon, baton_mailbox_work_fn *run,
                                    void *argument);

/* True if the core answers; else finishes the call with why not.  daemon_answered() follows a call's work. */
bool daemon_is_ready(struct daemon *daemon, struct rpc_call *call);
void daemon_answered(struct daemon *daemon);

/* Sizes of the core's tables. */
struct controller_limits daemon_limits(const struct daemon_options *options);

/* Steps the core and performs what it says.  After an event with 'more' the loop sees to it that another one follows before
 * anything else is done. */
void daemon_step(struct daemon *daemon, struct event *event);

/* Makes a pending call of 'call' (whose reference it takes), and sends the request to the core, unless the caller may
 * not change what it is about (service_may_change()).  The request's handle is filled in.  'answer' null: the object is rendered. */
void daemon_request(struct daemon *daemon, struct rpc_call *call, struct request *request,
                    pending_answer_fn *answer, void *data);

/* The first half of daemon_request(): a pending call that waits for an event with its handle. */
void daemon_pend(struct daemon *daemon, struct rpc_call *call, struct request *request,
                 pending_answer_fn *answer);

#endif /* daemon.h */
