/* accounts.h -- tokens of Kubernetes service accounts as a source of identities: JWTs that the cluster's keys verify.
 *
 * The keys are a file (a JWKS, as the API server gives it at /openid/v1/jwks), read again when it changes; a file that is wrong
 * is refused at the start, and leaves the last good keys in use later.  A token counts if one of them has signed it, its
 * issuer and audience are the ones asked for, and it holds now, with 10 s for clocks that differ.  Who it is says its subject:
 * "system:serviceaccount:NAMESPACE:NAME".  Nothing here writes a token down, and nobody is asked over the network.
 *
 * Depends on: api/base, jwt.h, rpc.h.  Threads: any.  Ownership: the owner opens and closes. */
#ifndef BATON_RPC_ACCOUNTS_H
#define BATON_RPC_ACCOUNTS_H

#include "api/rpc/rpc.h"

struct rpc_accounts;

struct rpc_accounts_options {
    const char *keys_file;
    const char *issuer;
    const char *audience;
};

BATON_MUST_USE struct baton_status rpc_accounts_open(const struct rpc_accounts_options *options,
                                                     struct rpc_accounts **out);
void rpc_accounts_close(struct rpc_accounts *accounts); /* Null is fine. */

/* Whose token it is at 'now_s' (wall seconds).  UNAUTHENTICATED NOT_ALLOWED says why it is nobody's, and no word of it. */
BATON_MUST_USE struct baton_status rpc_accounts_find(struct rpc_accounts *accounts,
                                                     struct baton_bytes token, int64_t now_s,
                                                     struct rpc_peer_name *out);

#endif /* accounts.h */
