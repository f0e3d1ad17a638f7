/* peer_identity.h -- whether who dials in is the leader that it says to be.
 *
 * Pure.  Depends on: api/rpc/rpc.h (struct rpc_peer).  Threads: any.  Ownership: borrows for the call. */
#ifndef AGENT_SHELL_PEER_IDENTITY_H
#define AGENT_SHELL_PEER_IDENTITY_H

#include <stdbool.h>

#include "api/base/status.h"
#include "api/rpc/rpc.h"

/* A certificate must have the leader's name: as 'pattern' says, in which "{leader}" stands for it ("spiffe://..." is
 * held against SPIFFE ids, anything else against DNS names); with an empty pattern as a SPIFFE id
 * spiffe://<any trust domain>/agent/<leader> and not as a DNS name, which the certificates of other roles on its node
 * have too.  Who shows none is believed on this machine, and from elsewhere only if 'insecure'. */
bool peer_identity_is_leader(const struct rpc_peer *peer, const char *pattern, const char *leader,
                             bool insecure);
/* "{leader}" must be in it, once. */
bool peer_identity_is_pattern(const char *pattern);
/* The refusal, for the leader's log. */
BATON_MUST_USE struct baton_status peer_identity_refusal(const struct rpc_peer *peer,
                                                         const char *leader);

#endif /* peer_identity.h */
