/* watch.h -- watches of objects and followers of the event log.
 *
 * A watch first gets every object as ADDED (from_revision 0) or the changes since its revision, then a
 * bookmark, then each change, and a bookmark when nothing happened for a while.  It may be resumed from
 * the revision of any message: objects at its start carry 0, since what follows them would be missed.  A
 * change is rendered and encoded once for all watches.  Changes of a roll that runs, which come with each
 * report of a group, are gathered (watch_rolls.c).  A slow one is cut by rpc_send() with RESOURCE_EXHAUSTED.
 *
 * Depends on: daemon.h.  Threads: the loop's.  Ownership: watches hold their calls. */
#ifndef CONTROLLER_SHELL_WATCH_H
#define CONTROLLER_SHELL_WATCH_H

#include <stdint.h>

#include "controller/core/action.h"

struct daemon;
struct rpc_call;

/* What a watch asks for. */
struct watch_request {
    enum object_kind kind;
    uint64_t from_revision;
    const char *filter; /* Model (for models: the name); empty: all. */
};

/* Starts a watch or refuses it; takes the reference of 'call'. */
void watch_start(struct daemon *daemon, struct rpc_call *call, const struct watch_request *request);
/* Forgets a call that ended, watch or follower. */
void watch_end(struct daemon *daemon, struct rpc_call *call);
/* Finishes all of them: the daemon stops or starts anew. */
void watch_end_all(struct daemon *daemon, const struct baton_status *status);

/* Whether all changes after 'revision' are still in daemon->past. */
bool watch_covers(const struct daemon *daemon, uint64_t revision);

void watch_changed(struct daemon *daemon, const struct action_changed *changed);
/* After a step: what changed with other objects is shown once. */
void watch_step_ended(struct daemon *daemon);
/* Sends an object as it is to all watches of it; gives the bytes that went out. */
size_t watch_show(struct daemon *daemon, const struct object_ref *object, const char *model,
                  uint64_t revision);
bool watch_has(const struct daemon *daemon, enum object_kind kind, const char *model);

/* --- watch_rolls.c --- */

/* A roll that runs changed, with its record or a group's, at 'revision'. */
void watch_rolls_note(struct daemon *daemon, const struct object_ref *roll, const char *model,
                      uint64_t revision);
/* It was shown all the same. */
void watch_rolls_forget(struct daemon *daemon, const char *model);
/* The highest revision that a message to watches of rolls may name: what is above was not shown yet. */
uint64_t watch_rolls_shown(const struct daemon *daemon);
uint64_t watch_rolls_deadline_ns(const struct daemon *daemon);
/* Shows what is due. */
void watch_rolls_run(struct daemon *daemon);

void watch_send_bookmarks(struct daemon *daemon, uint64_t now_ns, uint64_t silence_ns);

/* Follows the event log after what was sent already; takes the reference of 'call'.  'object' fits
 * FOLLOWER_OBJECT_BYTES. */
void watch_follow(struct daemon *daemon, struct rpc_call *call, const char *object);
void watch_log(struct daemon *daemon, const struct log_entry *entry);

#endif /* watch.h */
