/* link.h -- the agent's stream to the controller: messages down become events, actions become messages up.
 *
 * Keeps one session open from link_open() on: when it ends, or no controller answers, it is opened anew
 * after a backoff.  Messages come as work in the loop's mailbox; that a session opened or ended is told
 * by link_run().  So no function but link_run() delivers an event, and all others may be called while the
 * core's actions are performed.
 *
 * Depends on: agent/core, api/rpc, api/base/mailbox.h.  Threads: functions from the loop's; rpc threads
 * only post.  Ownership: the loop creates and destroys; the client is the caller's. */
#ifndef AGENT_SHELL_LINK_H
#define AGENT_SHELL_LINK_H

#include "agent/core/action.h"
#include "api/base/mailbox.h"

struct exchange_trouble;
struct link;
struct rpc_client;

struct link_options {
    struct rpc_client *client;
    struct baton_mailbox *mailbox;
    void (*deliver)(void *context, struct agent_event *event); /* On the loop's thread. */
    /* Takes a baton.v1.PeerAccess; null: it means nothing here. */
    void (*peer_access)(void *context, const void *message);
    void *context;
};

struct link *link_create(const struct link_options *options);
void link_destroy(struct link *link);
/* Frees news that the loop will not run any more: the argument of an item of its mailbox. */
void link_discard(void *argument);

/* From now on keeps a session. */
void link_open(struct link *link);
/* Ends the present one, for a reason; it is opened anew after a backoff. */
void link_reset(struct link *link, const char *why);

/* When link_run() wants to be called; UINT64_MAX: not. */
uint64_t link_deadline_ns(const struct link *link);
void link_run(struct link *link, uint64_t now_ns);
bool link_is_connected(const struct link *link);

void link_send_hello(struct link *link, const struct agent_hello *hello);
void link_send_ack(struct link *link, uint64_t revision);
void link_send_nack(struct link *link, uint64_t revision, const char *message);
void link_send_report(struct link *link, const struct agent_report *report);
void link_send_peer_trouble(struct link *link, const struct exchange_trouble *trouble);

#endif /* link.h */
