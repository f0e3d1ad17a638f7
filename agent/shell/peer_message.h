/* peer_message.h -- the words of SwapPeer from and to the core's plain structs.
 *
 * Depends on: agent/core/peer.h, link_message.h, api/wire.  Threads: any.
 * Ownership: messages are new wire roots of the caller; structs borrow from the message and from
 * 'memory', which the caller frees. */
#ifndef AGENT_SHELL_PEER_MESSAGE_H
#define AGENT_SHELL_PEER_MESSAGE_H

#include "agent/core/action.h"
#include "agent/shell/link_message.h"

/* Of SwapPeer, sent with each command; a member takes it and all before it. */
enum { PEER_PROTOCOL = 1 };

/* A LinkRequest; peer_send.c. */
void *peer_command_message(const struct agent_peer_command *command);
/* A LinkResponse; peer_send.c. */
void *peer_result_message(const struct agent_peer_result *result);

/* Of a LinkRequest; peer_take.c.  INVALID_ARGUMENT BAD_FIELD names the field; FAILED_PRECONDITION
 * INCOMPATIBLE: of a later protocol. */
BATON_MUST_USE struct baton_status peer_command_from(const void *request,
                                                     struct agent_peer_command *out,
                                                     struct link_memory *memory);
/* Of a LinkResponse; peer_take.c. */
BATON_MUST_USE struct baton_status peer_result_from(const void *response,
                                                    struct agent_peer_result *out,
                                                    struct link_memory *memory);

#endif /* peer_message.h */
