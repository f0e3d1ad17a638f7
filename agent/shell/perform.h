/* perform.h -- carrying out the core's actions.
 *
 * Depends on: daemon.h.  Threads: the loop's.  Ownership: actions are borrowed for the call. */
#ifndef AGENT_SHELL_PERFORM_H
#define AGENT_SHELL_PERFORM_H

struct agent_action;
struct daemon;

/* Performs one action.  Does not return when the journal cannot be written. */
void perform(struct daemon *daemon, const struct agent_action *action);

#endif /* perform.h */
