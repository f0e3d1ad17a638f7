/* lander.h -- brings versions to this node: one thread a landing, a few at a time.
 *
 * Asks the peers that a goal names, then tries the version's sources in order; what came from one is kept for the next.  After a landing it also
 * compares the version's layout with those that the loop names, so that a version which does not fit an
 * engine's model is known before anything is paused.
 *
 * Depends on: agent/core/event.h, transport/landing, api/base/mailbox.h.
 * Threads: all functions from the loop's.  Ownership: the loop creates and destroys; the root is the
 * lander's. */
#ifndef AGENT_SHELL_LANDER_H
#define AGENT_SHELL_LANDER_H

#include "agent/core/event.h"
#include "api/base/mailbox.h"

struct exchange;
struct lander;
struct landing_root;

/* What a lander tells the loop, as the argument of 'tell'; the receiver frees it. */
struct lander_event {
    struct agent_landing_event landing;
};

struct lander_options {
    const char *directory;
    uint64_t budget_bytes;
    struct baton_mailbox *mailbox;
    baton_mailbox_work_fn *tell;
    struct exchange *exchange; /* Null: versions come from their sources only. */
};

BATON_MUST_USE struct baton_status lander_create(const struct lander_options *options,
                                                 struct lander **out);
/* Cancels what is under way; interrupted landings go on in the next life. */
void lander_destroy(struct lander *lander);

/* Starts a landing; its end comes as DONE or FAILED.  A second one of the same digest is ignored. */
void lander_land(struct lander *lander, const struct agent_version_goal *goal);
/* What peers are served from; the lander's. */
struct landing_root *lander_root(struct lander *lander);

void lander_cancel(struct lander *lander, const char *digest);
/* Deletes a landed version, on a thread: large ones take a while.  A landing of it waits for that. */
void lander_drop(struct lander *lander, const char *digest);

/* Bytes so far of every landing under way, by 'visit'; for progress. */
void lander_progress(struct lander *lander,
                     void (*visit)(void *context, const struct agent_landing_event *event),
                     void *context);
bool lander_is_busy(const struct lander *lander);

/* The landed versions, by 'visit', as DONE events; at start. */
void lander_list(struct lander *lander,
                 void (*visit)(void *context, const struct agent_landing_event *event),
                 void *context);

/* Directory of a landed version; false if it is not landed. */
bool lander_path(struct lander *lander, const char *digest, char out[BATON_PATH_BYTES]);

/* Fails, naming the first difference, if an engine that serves 'from' cannot take 'to'.  OK also when
 * one of them is not landed: nothing can be said then. */
BATON_MUST_USE struct baton_status lander_compare(struct lander *lander, const char *from,
                                                  const char *to);

#endif /* lander.h */
