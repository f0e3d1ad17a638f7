/* link_message.h -- the session's messages from and to the core's plain structs.
 *
 * Depends on: agent/core, api/wire.  Threads: any.  Ownership: messages are new wire roots of the
 * caller; events borrow from the message and from 'memory', which the caller frees. */
#ifndef AGENT_SHELL_LINK_MESSAGE_H
#define AGENT_SHELL_LINK_MESSAGE_H

#include "agent/core/action.h"
#include "api/base/status.h"

enum {
    /* Sources and holders of target, stage and restore, and of what followed groups have. */
    LINK_BLOCKS_MAX = 6 * BATON_GROUPS_PER_AGENT_MAX + 2 * BATON_FOLLOWED_VERSIONS_MAX + 9,
    LINK_OUTCOMES_MAX = BATON_GROUPS_PER_AGENT_MAX, /* The controller takes so many at once. */
};

struct exchange_trouble;

struct link_memory {
    void *blocks[LINK_BLOCKS_MAX];
    size_t count;
};
void link_memory_free(struct link_memory *memory);
/* Zeroed memory that lives as long as 'memory'. */
void *link_memory_take(struct link_memory *memory, size_t count, size_t size);

/* A SessionResponse as an event (kind and body are set). */
BATON_MUST_USE struct baton_status link_event_from(const void *response, struct agent_event *out,
                                                   struct link_memory *memory);

/* Parts that the words of agents of one group have in common with the session's. */
BATON_MUST_USE struct baton_status link_ticket_from(const void *message, struct agent_ticket *out);
BATON_MUST_USE struct baton_status link_goal_from(const void *message,
                                                  struct agent_version_goal *out,
                                                  struct link_memory *memory);
void *link_engine_message(const char *group, const struct agent_engine_report *engine, void *root);
void *link_ticket_message(const struct agent_ticket *ticket, void *root);
void *link_goal_message(const struct agent_version_goal *goal, void *root);

/* What is for the shell alone, as a baton.v1.PeerAccess; null: the response is something else. */
const void *link_peer_access(const void *response);

/* SessionRequests. */
void *link_hello(const struct agent_hello *hello);
void *link_ack(uint64_t revision);
void *link_peer_trouble(const struct exchange_trouble *trouble);
void *link_nack(uint64_t revision, const char *message);
/* With the outcomes from 'first' on, at most LINK_OUTCOMES_MAX of them; the rest of the report goes with
 * the first ones. */
void *link_report(const struct agent_report *report, uint32_t first);

#endif /* link_message.h */
