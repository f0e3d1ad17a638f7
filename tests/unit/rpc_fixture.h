/* rpc_fixture.h -- a server with one method of each shape, and a client of it, for the RPC tests.
 *
 * Routes are real ones of baton.v1 with test behaviour, chosen by words in the requests:
 *   Models/Get             unary; replies with the name; see rpc_fixture.c for the special names
 *   Models/Suspend         unary, one at a time; kept for rpc_fixture_take_held()
 *   Fleet/Events           server stream; 'after' events, then OK; "flood": until the queue is full;
 *                          "quiet": nothing until cancelled
 *   Versions/AddManifestPart  client stream; counts parts
 *   AgentSession/Session   bidi; answers each Hello with a Welcome; a Report ends it with ABORTED
 *
 * Threads: the counters are atomic.  Ownership: rpc_fixture_stop frees all. */
#ifndef BATON_TESTS_RPC_FIXTURE_H
#define BATON_TESTS_RPC_FIXTURE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/rpc/rpc.h"

struct rpc_fixture {
    struct rpc_server *server;
    struct rpc_client *client;
    char address[32];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    struct rpc_call *held; /* A Models/Suspend that waits. */
    unsigned dones;        /* on_done callbacks of all streams. */
    unsigned cancels;      /* ... with 'cancelled'. */
    unsigned half_closes;
    unsigned quiets;   /* Quiet streams that began. */
    unsigned requests; /* Models/Get handlers that ran. */
};

/* Starts server (port 0 of the loopback) and client; changed options are for the test to say. */
void rpc_fixture_start(struct rpc_fixture *fixture);
void rpc_fixture_start_with(struct rpc_fixture *fixture, struct rpc_server_options options,
                            struct rpc_client_options client_options);
void rpc_fixture_stop(struct rpc_fixture *fixture);

extern const struct rpc_route rpc_fixture_routes[];
extern const size_t rpc_fixture_routes_count;

/* Waits until '*counter' is at least 'wanted'; false after 20 s. */
bool rpc_fixture_wait(struct rpc_fixture *fixture, const unsigned *counter, unsigned wanted);
/* The call that Models/Suspend holds, when there is one; the caller's. Null after 20 s. */
struct rpc_call *rpc_fixture_take_held(struct rpc_fixture *fixture);

/* Models/Get of 'name'. */
struct rpc_result rpc_fixture_get(struct rpc_fixture *fixture, const char *name,
                                  const struct rpc_call_options *options);
/* Opens Fleet/Events. */
struct rpc_stream *rpc_fixture_events(struct rpc_fixture *fixture, const char *object,
                                      uint64_t count, const struct rpc_stream_events *events,
                                      void *context);

#endif /* rpc_fixture.h */
