/* fleet.h -- what operators do to groups, agents and versions.
 *
 * fleet.c: cordon, drain, pin.  retire.c: retire, and what happens when a retired group comes back,
 * vanishes from its agent's configuration, changes its engines or moves to another agent.
 * sleep.c: groups that sleep for a while.  quarantine.c: versions that are no target any more, and versions that are kept.  loss.c: massLoss.
 * told.c: what agents are believed.
 *
 * Depends on: core.h.  Threads: one.  Ownership: everything is the core's. */
#ifndef CONTROLLER_CORE_FLEET_H
#define CONTROLLER_CORE_FLEET_H

#include "controller/core/core.h"

/* The groups that a call names, by itself or by their agent. */
struct selection {
    struct group *groups[BATON_GROUPS_PER_AGENT_MAX];
    uint32_t count;
    struct agent *agent; /* Null: the call names a group. */
};

/* --- fleet.c --- */
/* Fills in the call's answer too; NOT_FOUND. */
struct baton_status fleet_select(const struct controller *core, struct call *call,
                                 struct selection *out);
/* Stores the group, and looks anew at its model and its leader's goals. */
void fleet_changed(struct controller *core, struct group *group);
struct baton_status fleet_cordon(struct controller *core, struct call *call);
struct baton_status fleet_uncordon(struct controller *core, struct call *call);
struct baton_status fleet_drain(struct controller *core, struct call *call);
struct baton_status fleet_pin(struct controller *core, struct call *call);
struct baton_status fleet_unpin(struct controller *core, struct call *call);

/* --- retire.c --- */
struct baton_status fleet_retire(struct controller *core, struct call *call);
/* A retired group is there again: its gate is to be shut, and it joins as new. */
void retire_return(struct controller *core, struct group *group);
/* After each report: how far a group that returned has come. */
void retire_settle(struct controller *core, struct group *group);
/* Whether its leader is to shut its gate and keep it so. */
bool retire_wants_shut(const struct group *group);
/* Whether 'agent' may name a group that another agent leads by our records. */
bool retire_may_move(const struct controller *core, const struct group *group);
/* 'agent' leads the group from now on, under a higher owner term. */
void retire_move(struct controller *core, struct group *group, struct agent *agent);
/* Its leader came back without it. */
void retire_vanished(struct controller *core, struct group *group);
/* Its leader came back with other engines; an open ticket that nobody began is asked back. */
void retire_note_members(struct controller *core, struct group *group);
/* Makes room for new groups by forgetting retired ones, the longest retired first. */
bool retire_make_room(struct controller *core, uint32_t needed);

/* --- late.c --- */
/* The group was just added: whether its model's last roll went by without it. */
void late_note(const struct controller *core, struct group *group);
/* It is still to be brought to what that roll promoted. */
bool late_is_behind(const struct controller *core, const struct model *model,
                    const struct group *group);
/* It is, and does not serve: it joins there. */
bool late_joins(const struct controller *core, const struct model *model,
                const struct group *group);
/* Starts a roll for those that serve. */
void late_settle(struct controller *core, struct model *model);

/* --- sleep.c --- */
struct baton_status fleet_sleep(struct controller *core, struct call *call);
struct baton_status fleet_wake(struct controller *core, struct call *call);
/* How long requests in progress may go on before a sleep. */
uint64_t sleep_drain_ms(const struct model *model);
/* How far a group that is to sleep is, and what ends that. */
void sleep_explain(const struct group *group, char out[BATON_TEXT_BYTES]);
/* By its leader's word it is to sleep, or does. */
bool sleep_is_told(const struct group_report *report);
/* It sleeps, if it is to. */
bool sleep_is_reached(const struct controller *core, const struct group *group);

/* --- quarantine.c --- */
struct baton_status versions_pin(struct controller *core, struct call *call);
struct baton_status versions_unpin(struct controller *core, struct call *call);
struct baton_status versions_quarantine(struct controller *core, struct call *call);
struct baton_status versions_unquarantine(struct controller *core, struct call *call);
/* Whether the store knows this version as quarantined. */
bool quarantine_holds(const struct controller *core, const char *model, uint64_t seq);
/* FAILED_PRECONDITION with the reason, or OK. */
struct baton_status quarantine_refusal(const struct controller *core, const struct model *model,
                                       uint64_t seq);
/* The version to go to when nothing else is asked: promoted, else promoted before; 0: neither may
 * be. */
uint64_t quarantine_fallback(const struct controller *core, const struct model *model);

/* --- rebuild.c --- */
/* Keeps what a report tells of a version that the store does not have. */
void rebuild_note(struct controller *core, const struct group_report *report);
/* Versions that agents restated and the store does not have. */
uint32_t rebuild_missing(const struct controller *core);
struct baton_status rebuild(struct controller *core, struct call *call);

/* --- what these files need of others: models.c, floors.c, groups.c, agents.c, policy.c --- */
/* Creates the call's model, which must not exist. */
struct baton_status model_create(struct controller *core, struct call *call,
                                 const struct update_policy *policy);
/* floors_given() as a call with an audit. */
struct baton_status floors_attest(struct controller *core, struct call *call);
void group_remove(struct controller *core, struct group *group);
void agent_unlink(struct agent *agent, struct group *group);
/* 'count' groups, or percent of 'groups_count' rounded down, but at least 1. */
uint32_t policy_allowed(uint32_t count, bool is_percent, uint32_t groups_count);

/* --- told.c: what agents tell --- */
enum { TOLD_EVENTS_MAX = 32 }; /* Of one report; agents keep 16. */
/* OK, or which member is wrong. */
struct baton_status told_check_group(const struct controller *core,
                                     const struct group_report *report);
struct baton_status told_check_outcome(const struct controller *core,
                                       const struct ticket_outcome *outcome);
/* Epoch and floors; the groups are checked one by one. */
struct baton_status told_check_hello(const struct controller *core,
                                     const struct session_hello *hello);
/* Whether a group of the agent, by our records or its Hello, is of the model. */
bool told_has_model(const struct controller *core, const struct session_hello *hello,
                    const char *model);
/* Logs the events of a report; of objects that are not the agent's as the agent's own. */
void told_log(struct controller *core, const struct agent *agent,
              const struct session_report *report);

/* --- loss.c --- */
/* Whether so many groups are lost that no roll ticket is issued. */
bool loss_is_mass(const struct model *model);

#endif /* fleet.h */
