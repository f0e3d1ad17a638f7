/* rpc_bare.h -- the anchor of rpc_bench: the least that a unary call takes on gRPC C core.
 *
 * One completion queue and thread on each side, calls as generic calls, raw bytes both ways: no
 * messages, no deadlines, no cancellation, no limits, no details of errors.
 *
 * Depends on: gRPC C core.  Threads: run by one thread.  Ownership: destroy frees all. */
#ifndef TESTS_BENCH_RPC_BARE_H
#define TESTS_BENCH_RPC_BARE_H

#include <stddef.h>
#include <stdint.h>

struct bare;

/* Someone else's thread that gets the calls, for the hop; null: the server's thread answers. */
typedef void bare_hand_over_fn(void *call, void *context);

/* A server on the loopback and a client of it that sends 'request' and gets 'reply'. */
struct bare *bare_create(const uint8_t *request, size_t request_bytes, const uint8_t *reply,
                         size_t reply_bytes);
/* From now on calls go through 'hand_over'; null: answered at once. */
void bare_set_hop(struct bare *bare, bare_hand_over_fn *hand_over, void *context);
/* Answers a call that was handed over. */
void bare_answer(void *call);
/* Keeps 'outstanding' calls open for 'seconds'; calls a second. */
double bare_run(struct bare *bare, unsigned outstanding, double seconds);
void bare_destroy(struct bare *bare);

#endif /* rpc_bare.h */
