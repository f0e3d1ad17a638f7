/* connection.h -- what the files of libbaton share: the connection, errors, structs that may grow.
 *
 * Private to api/client.  Depends on: api/base, baton.h, local_channel.h.
 * Threads: as in baton.h.  Ownership: as in baton.h. */
#ifndef BATON_CLIENT_CONNECTION_H
#define BATON_CLIENT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/base/status.h"
#include "api/client/baton.h"
#include "api/client/local_channel.h"
#include "api/client/local_protocol.h"

struct baton_agent {
    struct local_channel channel;
    pid_t owner; /* The process that connected; after a fork the child may only close. */
    struct local_welcome welcome;
    struct sockaddr_un address;
    struct baton_publish *publish; /* Under way, or null. */
    bool has_last;
    struct local_result last; /* The last success. */
};

/* Returns the status's code after filling 'error', which may be null. */
int connection_error(const struct baton_status *st, struct baton_error *error);

/* Copies as much of 'value' as the caller's struct has room for (its first member is its size). */
void connection_fill(void *out, const void *value, size_t value_bytes);
void connection_fill_published(struct baton_published *out, const struct local_result *result);

/* OK if this process may use the connection now; 'agent' may be null. */
BATON_MUST_USE struct baton_status connection_check(const struct baton_agent *agent);

/* Sends a message and reads the answer, which must be of kind 'wanted'. */
BATON_MUST_USE struct baton_status connection_ask(struct baton_agent *agent,
                                                  const struct local_message *question,
                                                  enum local_kind wanted, uint64_t timeout_ms,
                                                  struct local_message *out);

/* "python3 (pid 4711, uid 1000)": who asks, for the agent's log and the audit. */
void connection_describe_caller(char *out, size_t out_bytes);

/* Monotonic time in 'timeout_ms' from now, without overflow. */
uint64_t connection_deadline_ns(uint64_t timeout_ms);

#endif /* connection.h */
