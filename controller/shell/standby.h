/* standby.h -- a daemon that is one of several: whether it may act now, and what it says while another one leads.
 *
 * Without the section 'leadership' all of it says yes.  A daemon that does not lead has no core that acts: it refuses
 * each call with NOT_LEADER and the leader's address.  But for a read of what is stored (standby_reads.h) by a caller
 * that asks for that ("x-baton-read: stored"): it shows that from its copy of the store, marked with the revision and
 * the age (shown.h).
 *
 * One that starts while the store is out of reach stands by all the same, and knows of no leader; it begins to seek the
 * leadership when the store is reached (store_wait.h).
 *
 * Depends on: daemon.h, leadership.h, store_wait.h.  Threads: the loop's. */
#ifndef CONTROLLER_SHELL_STANDBY_H
#define CONTROLLER_SHELL_STANDBY_H

#include <stdbool.h>

#include "api/base/status.h"

struct daemon;
struct rpc_call;

/* Opens the store.  With 'leadership', one that is out of reach is no failure: it is waited for. */
BATON_MUST_USE struct baton_status standby_open_store(struct daemon *daemon);
/* Begins to seek the leadership, at once or when the store is reached. */
BATON_MUST_USE struct baton_status standby_create(struct daemon *daemon);
BATON_MUST_USE struct baton_status standby_start(struct daemon *daemon);
/* Gives the leadership away, seeks none; returns at once. */
void standby_stop(struct daemon *daemon);
/* The same, and waits for the threads that seek it. */
void standby_close(struct daemon *daemon);

/* Looks whether this daemon leads.  True: the core may be built, and acts for this leadership only. */
bool standby_look(struct daemon *daemon);
/* Whether the leadership that the core acts for holds; if not, sees to it that the loop stands by. */
bool standby_may_act(struct daemon *daemon);
/* The store says that somebody else leads; gives what callers are told. */
struct baton_status standby_deposed(struct daemon *daemon);

/* Whether to follow the store, so that something can be shown. */
void standby_show(struct daemon *daemon, bool on);
/* True: daemon->core is what is shown, until daemon_answered().  False: the call was finished. */
bool standby_answers(struct daemon *daemon, struct rpc_call *call);
void standby_destroy(struct daemon *daemon);

#endif /* standby.h */
