/* peer_link.h -- a leader's streams to its followers: one for each agent that it dials.
 *
 * Each is kept open: when it ends, or says nothing for too long, it is opened anew after a backoff.
 * Messages come as work in the loop's mailbox.  The core hears PEER_UP, PEER_DOWN and PEER_RESULT.
 *
 * Depends on: agent/core, api/rpc, api/base/mailbox.h.  Threads: functions from the loop's; rpc threads
 * only post.  Ownership: the loop creates and destroys. */
#ifndef AGENT_SHELL_PEER_LINK_H
#define AGENT_SHELL_PEER_LINK_H

#include "agent/core/action.h"
#include "agent/shell/config.h"
#include "api/base/mailbox.h"

struct peer_links;

struct peer_links_options {
    const struct shell_config *config; /* Whom to dial, and how. */
    struct baton_mailbox *mailbox;
    void (*deliver)(void *context, struct agent_event *event); /* On the loop's thread. */
    void *context;
};

BATON_MUST_USE struct baton_status peer_links_create(const struct peer_links_options *options,
                                                     struct peer_links **out);
/* Null is fine; peer_links_discard() what the mailbox still has of it. */
void peer_links_destroy(struct peer_links *links);

/* Opens what is to be opened. */
void peer_links_run(struct peer_links *links, uint64_t now_ns);
/* When peer_links_run() wants to be called; UINT64_MAX: not. */
uint64_t peer_links_deadline_ns(const struct peer_links *links);

/* Lost if the link is down. */
void peer_links_send(struct peer_links *links, const char *agent,
                     const struct agent_peer_command *command);

/* Work of the mailbox, and how to free its argument without running it. */
baton_mailbox_work_fn peer_links_news;
void peer_links_discard(void *argument);

#endif /* peer_link.h */
