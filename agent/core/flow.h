/* flow.h -- what happens in the phases and at their ends; see the table in phase.c.
 *
 * flow_join.c: from a started agent or a recreated engine to SERVING.  flow_swap.c: an accepted
 * ticket, to COMMIT and open gates.  flow_live.c: the same without shutting.  flow_restore.c: back to the old version.  flow_out.c: out of
 * service and recreation.  flow_drain.c: shut by an operator's will.  flow_sleep.c: asleep, and back.
 *
 * Depends on: state.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_FLOW_H
#define AGENT_CORE_FLOW_H

#include "agent/core/state.h"

/* flow_join.c */
phase_fn flow_attach_wait;   /* All engines attached: decide by the journal. */
phase_fn flow_join;          /* Gates are shut: compare with the target, or wait for it. */
phase_fn flow_compare_ended; /* Return to service, or wait for a rejoin ticket. */
phase_fn flow_ticket_wait;
phase_fn flow_serving_wait;
/* All engines' incarnations are those of 'members'. */
bool flow_same_incarnations(const struct group *group, const struct journal_members *members);
/* All engines hold this version, verified. */
bool flow_all_resident(const struct group *group, const char *digest);
/* Residents are what the journal says, until they are read back. */
void flow_trust(struct group *group, const struct agent_version *version);
bool flow_all_gates_open(const struct group *group);
/* The group serves; ends recovery. */
void flow_serve(struct agent *agent, struct group *group);

/* flow_drain.c */
/* Shuts the gates of a serving group because its goal says so. */
void flow_drain(struct agent *agent, struct group *group);
phase_fn flow_drain_shut;
phase_fn flow_drained_wait;

/* flow_sleep.c */
/* The goal says so; without one, the journal does. */
bool flow_wants_sleep(const struct group *group);
/* Shuts the gates of a group and puts its engines to sleep; of one whose gates are shut: at once. */
void flow_sleep(struct agent *agent, struct group *group);
phase_fn flow_sleep_shut;
phase_fn flow_slept, flow_sleep_failed;
phase_fn flow_asleep_wait, flow_sleepless_wait;
/* Gives the engines their memory back; the group then joins. */
void flow_wake(struct agent *agent, struct group *group);
phase_fn flow_woken;
/* Makes durable how far it is; residents count for nothing from then on. */
void flow_sleep_mark(struct agent *agent, struct group *group, enum journal_sleep mark);
/* A call of an earlier life may be under way: took the group out. */
bool flow_sleep_doubted(struct agent *agent, struct group *group);
/* Engines of this agent may be asleep. */
bool flow_may_sleep(const struct group *group);
/* Gates are shut: it goes to sleep, or wakes up first; false: it joins as any other. */
bool flow_join_asleep(struct agent *agent, struct group *group);

/* flow_swap.c */
/* Takes a ticket that has passed all objections: ACCEPT is journaled. */
void flow_accept(struct agent *agent, struct group *group, const struct agent_ticket *ticket);
/* Journals how the open ticket ended. */
void flow_end_ticket(struct agent *agent, struct group *group, enum agent_outcome outcome);
phase_fn flow_settle_wait;
phase_fn flow_warmed;
phase_fn flow_closed;
phase_fn flow_paused;
phase_fn flow_fenced;
phase_fn flow_known;
phase_fn flow_updated;
phase_fn flow_verified;
phase_fn flow_invalidated;
phase_fn flow_confirmed; /* COMMIT. */
phase_fn flow_committed; /* All followers have it on their disks. */
phase_fn flow_labelled, flow_marked, flow_live_marked;
phase_fn flow_resumed;
phase_fn flow_probed;
phase_fn flow_opened_rest;
phase_fn flow_opened;
phase_fn flow_apply_failed;
/* The incarnations that the engines have now. */
struct journal_members flow_members(const struct group *group);
/* After COMMIT, or with verified residents: label, resume, probe, open. */
void flow_resume(struct agent *agent, struct group *group);

/* What becomes of requests in progress, the drain's expiry considered. */
enum agent_in_flight flow_in_flight(const struct group *group);
/* INTENT: before the first mutating call of a step is begun. */
void flow_intend(struct agent *agent, struct group *group);

/* Writes COMMIT and begins what follows it. */
void flow_commit(struct agent *agent, struct group *group);

/* flow_live.c */
/* The open ticket is to be swapped with open gates. */
bool flow_is_live(const struct group *group);
/* Why the group cannot swap so; null: it can. */
const char *flow_live_obstacle(const struct group *group);
/* Its gates are open, as far as the flow of a live swap is concerned. */
bool flow_live_is_open(const struct group *group);
void flow_live_begin(struct agent *agent, struct group *group);
phase_fn flow_live_prepared, flow_live_unready;
phase_fn flow_live_swapped, flow_live_verified, flow_live_confirmed;
phase_fn flow_live_doubted; /* Nobody knows which version is resident: fence, and read back. */
phase_fn flow_live_fenced, flow_live_not_to, flow_live_kept, flow_live_unknown;
/* The agent died between LIVE_INTENT and COMMIT. */
void flow_live_recover(struct agent *agent, struct group *group);

/* flow_barrier.c */
/* The open ticket is one of a barrier. */
bool flow_barrier_takes_part(const struct group *group);
/* It was promised that only a word of the controller opens a gate, and none came yet. */
bool flow_barrier_binds(const struct group *group);
enum agent_barrier_stand flow_barrier_stand(const struct group *group);
/* Paused: promises to stay shut.  Committed: waits for the others. */
void flow_barrier_shut(struct agent *agent, struct group *group);
void flow_barrier_committed(struct agent *agent, struct group *group);
/* Before the promise: a CANCEL was heard, and the ticket ends at once. */
bool flow_barrier_gave_up(struct agent *agent, struct group *group);
phase_fn flow_barrier_shut_wait, flow_barrier_open_wait;
void flow_on_barrier(struct agent *agent, const struct agent_event *event);

/* flow_hooks.c */
/* Where an accepted ticket begins: with the routers, if there are any to ask. */
enum phase flow_hooks_first(const struct group *group);
/* Enters a phase in which the hooks of a kind are called, one after another. */
void flow_hooks_enter(struct agent *agent, struct group *group, enum phase phase);
phase_fn flow_drain_wait, flow_tell_wait, flow_back_tell_wait;
void flow_on_hook(struct agent *agent, const struct agent_event *event);
/* The swap ends with its gates open still: routers that were asked to send nobody are told first. */
void flow_stay_open(struct agent *agent, struct group *group, enum agent_outcome verdict);
/* When a hook counts as failed, or is called again. */
uint64_t flow_hooks_deadline_ns(const struct group *group);

/* flow_restore.c */
phase_fn flow_pause_failed; /* No weight was touched: reopen the old version. */
void flow_reopen(struct agent *agent, struct group *group, enum agent_outcome verdict);
void flow_restore(struct agent *agent, struct group *group);
phase_fn flow_back_shut, flow_back_paused;
phase_fn flow_back_fenced;
phase_fn flow_back_updated;
phase_fn flow_back_verified;
phase_fn flow_back_failed;
phase_fn flow_reopen_resumed;
phase_fn flow_back_probed;
phase_fn flow_reopened_rest;
phase_fn flow_reopened;

/* flow_out.c */
/* Out of service: gates shut, an open ticket ends as OUT; the reason is the group's message. */
void flow_out(struct agent *agent, struct group *group);
/* This incarnation may never serve again; durable. */
void flow_taint(struct agent *agent, struct group *group, struct engine *engine);
/* As flow_out(); engines that failed must be recreated. */
phase_fn flow_out_recreate;
phase_fn flow_out_shut;
phase_fn flow_out_wait;
/* Its process ended while its group is to sleep: its memory is free, it is not started before it is
 * woken, and the sleep goes on without it. */
bool flow_is_left_dead(const struct group *group, const struct engine *engine);
/* Attaches and recreates until all engines are known or left dead; true once they are. */
bool flow_gather(struct agent *agent, struct group *group);
/* Health checks of engines that have nothing else to do. */
void flow_look(struct agent *agent, struct group *group);
void flow_on_exited(struct agent *agent, struct group *group, struct engine *engine);
void flow_on_recreated(struct agent *agent, struct group *group, struct engine *engine,
                       const struct baton_status *status);
/* When flow_gather() or flow_look() has something to do for this engine. */
uint64_t flow_look_deadline_ns(const struct agent *agent, const struct group *group,
                               const struct engine *engine);

#endif /* flow.h */
