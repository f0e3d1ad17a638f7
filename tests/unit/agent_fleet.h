/* agent_fleet.h -- several agents of one group on one virtual time, joined by links.
 *
 * Agent 0 leads group "g0", the others follow; each has a world of its own (agent_world.h): engines,
 * journal, landing, controller's session.  A link carries messages in order, after a delay; when it
 * breaks, all that was on its way is lost.  After each thing that happens the fleet checks across
 * agents what no world can see alone: open gates serve one version, and one that every journal has
 * committed. */
#ifndef TESTS_UNIT_AGENT_FLEET_H
#define TESTS_UNIT_AGENT_FLEET_H

#include "tests/unit/agent_world.h"

enum { FLEET_AGENTS = 4, FLEET_MESSAGES = 256 };

struct fleet_message; /* On its way. */

struct fleet_link {
    bool up;
    bool cut;       /* By the test: it does not come back. */
    uint64_t up_ns; /* When it comes back. */
};

struct fleet {
    struct world *worlds[FLEET_AGENTS];
    uint32_t count;
    struct agent_member_config members[FLEET_AGENTS];
    struct fleet_link links[FLEET_AGENTS]; /* To each follower; 0 is not used. */
    struct fleet_message *messages[FLEET_MESSAGES];
    uint32_t messages_count;
    uint64_t delay_ns;
    bool old_members; /* Of a release that takes BACK_PROBE for PROBE. */
    uint64_t now_ns;
    uint32_t sent[AGENT_PEER_VERBS];
    bool lost_disk[FLEET_AGENTS]; /* Its journal is a new one, and has committed nothing yet. */
    char violation[BATON_TEXT_BYTES];
};

/* 'agents' agents with 'engines' engines each. */
struct fleet *fleet_create(uint32_t agents, uint32_t engines, uint64_t boot_seq);
void fleet_destroy(struct fleet *fleet);
/* Lets time pass; agents that crash stay down. */
void fleet_run(struct fleet *fleet, uint64_t duration_ns);
/* Starts all, and brings the group to serve 'seq'. */
void fleet_serve(struct fleet *fleet, uint64_t seq);
/* Lands 'seq' everywhere and issues a ticket to it. */
void fleet_swap(struct fleet *fleet, uint64_t seq);
/* Breaks a link; it comes back after a while, unless it is cut. */
void fleet_break(struct fleet *fleet, uint32_t follower, bool cut);
void fleet_mend(struct fleet *fleet, uint32_t follower);
void fleet_crash(struct fleet *fleet, uint32_t agent);
void fleet_start(struct fleet *fleet, uint32_t agent);
/* The agent is down; its journal and landing are lost, its engines live on. */
void fleet_lose_disk(struct fleet *fleet, uint32_t agent);
/* All gates of all agents are open for 'seq', all hold it and have committed it. */
bool fleet_serves(const struct fleet *fleet, uint64_t seq);
bool fleet_is_shut(const struct fleet *fleet);

#endif /* agent_fleet.h */
