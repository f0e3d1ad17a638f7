/* peer_server.h -- where the leaders of groups that this agent follows dial in: SwapPeer on 'listen'.
 *
 * A leader's commands become PEER_COMMAND events; its answers go to its newest stream, and a newer one
 * ends the older.  Who may dial is a matter of 'listenTls': with clientCa only those whose certificate
 * it signed, and each command only of the leader that the certificate names (peer_identity.h).
 *
 * Depends on: agent/core, api/rpc, api/base/mailbox.h.  Threads: functions from the loop's; rpc threads
 * only post.  Ownership: the loop creates and destroys. */
#ifndef AGENT_SHELL_PEER_SERVER_H
#define AGENT_SHELL_PEER_SERVER_H

#include "agent/core/action.h"
#include "agent/shell/config.h"
#include "api/base/mailbox.h"

struct peer_server;

struct peer_server_options {
    const struct shell_config *config;
    struct baton_mailbox *mailbox;
    void (*deliver)(void *context, struct agent_event *event); /* On the loop's thread. */
    void *context;
};

/* Binds and serves. */
BATON_MUST_USE struct baton_status peer_server_create(const struct peer_server_options *options,
                                                      struct peer_server **out);
/* Ends all streams; null is fine.  Then peer_server_discard() what the mailbox has of it, then
 * destroy. */
void peer_server_drain(struct peer_server *server);
void peer_server_destroy(struct peer_server *server);

/* Lost if the leader has no stream. */
void peer_server_answer(struct peer_server *server, const char *leader,
                        const struct agent_peer_result *result);
/* Commands refused since the start, as of somebody else than the leader that they name; null: none. */
uint64_t peer_server_refused(const struct peer_server *server);
/* Port that it listens on; 0: a Unix socket. */
uint16_t peer_server_port(const struct peer_server *server);

/* Work of the mailbox, and how to free its argument without running it. */
baton_mailbox_work_fn peer_server_news;
void peer_server_discard(void *argument);

#endif /* peer_server.h */
