/* details.h -- a status with all that it says, as google.rpc.Status and back; private to api/rpc.
 *
 * What travels in the trailer grpc-status-details-bin:
 *   ErrorInfo            reason: the name of our reason; domain: "baton"
 *   BadRequest           for BAD_FIELD: the field that the message begins with, and what is wrong
 *   PreconditionFailure  for FAILED_PRECONDITION: reason, subject, message
 *   RetryInfo            if the caller said when
 *   Help                 the hint, as the description of a link without address
 *   baton.v1.NotLeader   for NOT_LEADER: where the leader is, if that is known
 *
 * Depends on: api/wire, gRPC's slices.  Threads: any.  Ownership: stated per function. */
#ifndef BATON_RPC_DETAILS_H
#define BATON_RPC_DETAILS_H

#include <grpc/slice.h>

#include "api/base/status.h"

struct rpc_error_details;

#define RPC_DETAILS_KEY "grpc-status-details-bin"

/* The encoded google.rpc.Status; a new reference. 'details' may be null. */
grpc_slice rpc_details_encode(const struct baton_status *status,
                              const struct rpc_error_details *details);

/* Reads reason and hint out of such bytes into 'status', whose code and message are already there, and
 * the leader's address, where one is named, into 'leader'.  Bytes that are not such a message change
 * nothing. */
void rpc_details_decode(grpc_slice bytes, struct baton_status *status, char *leader,
                        size_t leader_bytes);

#endif /* details.h */
