/* tokens.h -- bearer tokens as a second source of identities: a file of their digests, read again when it changes.
 *
 * A row is "sha256:HEX IDENTITY": the SHA-256 of a token's bytes, and a SPIFFE id or a DNS name.  Empty lines and those that
 * begin with '#' are passed over.  A file that is wrong is refused at the start, and leaves the last good rows in use later.
 * Tokens are digested before they are compared, and nothing here writes one down.
 *
 * Depends on: api/base, rpc.h, OpenSSL.  Threads: any.  Ownership: the owner opens and closes. */
#ifndef BATON_RPC_TOKENS_H
#define BATON_RPC_TOKENS_H

#include <stdbool.h>

#include "api/rpc/rpc.h"

struct rpc_tokens;

enum { RPC_TOKENS_MAX = 4096, RPC_TOKEN_BYTES_MIN = 16, RPC_TOKEN_BYTES_MAX = 4096 };

BATON_MUST_USE struct baton_status rpc_tokens_open(const char *file, struct rpc_tokens **out);
void rpc_tokens_close(struct rpc_tokens *tokens); /* Null is fine. */

/* Whose token it is; false: nobody's. */
bool rpc_tokens_find(struct rpc_tokens *tokens, struct baton_bytes token,
                     struct rpc_peer_name *out);

/* The token of a file (its first line) for a client; 'out' has RPC_TOKEN_BYTES_MAX + 1 bytes. */
BATON_MUST_USE struct baton_status rpc_token_read(const char *file, char out[]);

#endif /* tokens.h */
