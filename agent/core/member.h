/* member.h -- several agents of one group (rule 4), inside the core: both sides, and who is in doubt.
 *
 * peer.c is the leader's side: one command a row of the table to each follower, heartbeats, ends of
 * tickets that a follower still has open, resolving.  flow_member.c is the follower's: what a command
 * needs to be begun, what is durable before it; member_state.c what is answered.  In a group of one agent all of
 * this does nothing.
 *
 * Depends on: state.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_MEMBER_H
#define AGENT_CORE_MEMBER_H

#include "agent/core/state.h"

/* --- leader: peer.c --- */

/* Names this life, if it leads other agents; at the start. */
void peers_start(struct agent *agent);
/* Applies PEER_UP, PEER_DOWN, PEER_RESULT. */
void peers_on_link(struct agent *agent, const char *name, bool up);
void peers_on_result(struct agent *agent, const char *name, const struct agent_peer_result *result);
/* Parts of the phase, as those of engines. */
void peers_enter(const struct agent *agent, struct group *group, enum phase phase);
bool peers_run(struct agent *agent, struct group *group); /* True: all have ended. */
void peers_judge(const struct group *group, bool *failed, bool *out);
/* Heartbeats, and ends that were not heard; each step. */
void peers_advance(struct agent *agent, struct group *group);
uint64_t peers_deadline_ns(const struct agent *agent, const struct group *group);

/* All are there with all their engines, and none has a ticket open but the leader's. */
bool peers_are_gathered(const struct group *group);
/* None has failed in the phase that ends. */
bool peers_agree(const struct group *group);
/* All serve what the leader's journal committed. */
bool peers_serve(const struct group *group);
/* Engines of a follower may be asleep. */
bool peers_may_sleep(const struct group *group);
/* A read-back of some is under way. */
bool peers_are_busy(const struct group *group);
/* In a wait: one is not what the group needs; says which, in the group's message. */
bool peers_lost(struct agent *agent, struct group *group);
/* Names one that is missing as the group's message. */
void peers_name_missing(struct group *group);
/* All have landed it. */
bool peers_have(const struct group *group, const char *digest);
/* One that cannot land what it should; null: none. */
const struct peer *peers_cannot_land(const struct group *group);
/* A member with an engine that somebody else must start anew; null: none. */
const struct peer *peers_need_recreate(const struct group *group);
bool peers_can_restore(const struct group *group);
/* What speaks against a ticket; null: nothing. */
const char *peers_objection(const struct group *group, const struct agent_ticket *ticket);

/* --- leader: resolve.c --- */

/* A follower has something open or committed of which this journal knows nothing. */
bool resolve_is_needed(const struct group *group);
/* Takes the offered resolving ticket: asks all. */
void resolve_begin(struct agent *agent, struct group *group);
phase_fn resolve_answered, resolve_failed;

/* --- follower: flow_member.c --- */

/* Another agent leads it. */
bool member_follows(const struct group *group);
/* Applies PEER_COMMAND. */
void member_on_command(struct agent *agent, const struct agent_peer_command *command);
/* All engines are attached: serve on, or wait for the leader with shut gates. */
void member_decide(struct agent *agent, struct group *group);
/* A command's row has ended. */
void member_ended(struct agent *agent, struct group *group, bool failed, bool out);
/* Tells what changed; each step. */
void member_advance(struct agent *agent, struct group *group);
uint64_t member_deadline_ns(const struct agent *agent, const struct group *group);
/* The leader was heard within the bound. */
bool member_hears_leader(const struct agent *agent, const struct group *group);
phase_fn flow_member_wait;
/* In doubt: PREPARED, without an outcome. */
bool member_is_in_doubt(const struct group *group);

/* --- follower: member_state.c --- */

/* It obeys: a command's row runs, or it waits for the next one. */
bool member_is_ready(const struct group *group);
bool member_is_out(const struct group *group);
/* A new answer to 'leader', zeroed. */
struct agent_peer_result *member_push_answer(struct agent *agent, const char *leader);
/* Tells the state; with the last command's answer if 'last'. */
void member_tell(struct agent *agent, struct group *group, bool last);
/* Answers the last command. */
void member_answer(struct agent *agent, struct group *group, bool ok, bool gone, const char *why);

#endif /* member.h */
