/* perform.h -- carrying out the core's actions.
 *
 * Depends on: daemon.h.  Threads: the loop's.  Ownership: actions are borrowed for the call. */
#ifndef CONTROLLER_SHELL_PERFORM_H
#define CONTROLLER_SHELL_PERFORM_H

#include <stdbool.h>

struct action;
struct baton_status;
struct daemon;

/* Performs one action; sets daemon->rebuild when the store refused. */
void perform(struct daemon *daemon, const struct action *action);

/* Whether the store's refusal says that somebody else leads. */
bool perform_is_deposed(const struct baton_status *status);

/* The store says that somebody else leads: one of several controllers stands by, another one ends; whoever
 * asks is told. */
void perform_deposed(struct daemon *daemon, const struct baton_status *status);

/* Answers every pending call with this failure and closes every session. */
void perform_fail_all(struct daemon *daemon, const struct baton_status *status);

/* Answers the calls that would wait for ever: the daemon stops. */
void perform_end_waits(struct daemon *daemon);

#endif /* perform.h */
