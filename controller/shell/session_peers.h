/* session_peers.h -- what agents tell of their peers: who was refused, who gave wrong bytes.
 *
 * Depends on: daemon.h.  Threads: the loop's.  Ownership: borrows for the call. */
#ifndef CONTROLLER_SHELL_SESSION_PEERS_H
#define CONTROLLER_SHELL_SESSION_PEERS_H

#include "baton/v1/agent_session.pb-c.h"
#include "controller/shell/daemon.h"

/* A refusal goes into the audit, and both into the event log, as told by this session's agent. */
void session_take_peer_trouble(struct daemon *daemon, struct session *session,
                               const Baton__V1__PeerTrouble *trouble);

#endif /* session_peers.h */
