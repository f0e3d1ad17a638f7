/* controller_shell_fixture.h -- a real controller on the loopback, in a thread, on a store in memory.
 *
 * Threads: one test.  Ownership: stop() frees all; it fails the process if a reference to a call was kept. */
#ifndef BATON_TESTS_CONTROLLER_SHELL_FIXTURE_H
#define BATON_TESTS_CONTROLLER_SHELL_FIXTURE_H

#include <pthread.h>

#include "api/rpc/rpc.h"
#include "baton/v1/agent_session.pb-c.h"
#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/rolls.pb-c.h"
#include "baton/v1/versions.pb-c.h"
#include "controller/shell/daemon.h"

struct controller_fixture {
    struct daemon *daemon;
    pthread_t thread;
    struct rpc_client *client;
    char address[32];
    struct rpc_listener listener;
};

/* Store, listeners are its own; the other options as given. */
void controller_fixture_start_with(struct controller_fixture *fixture,
                                   struct daemon_options options);
void controller_fixture_start(struct controller_fixture *fixture);
/* As SIGTERM does. */
void controller_fixture_stop(struct controller_fixture *fixture);

/* The reply, which must be OK; frees the request. */
void *controller_fixture_call(struct controller_fixture *fixture, const char *method,
                              void *request);
/* The code of a call that may fail; frees the request. */
struct baton_status controller_fixture_try(struct controller_fixture *fixture, const char *method,
                                           void *request);
/* Opens a server stream; frees the request. */
struct rpc_stream *controller_fixture_open(struct controller_fixture *fixture, const char *method,
                                           void *request);
/* The stream's next message (the caller's), within 20 s. */
void *controller_fixture_next(struct rpc_stream *stream);
/* The status with which the stream ends; messages before it are dropped. */
struct baton_status controller_fixture_end(struct rpc_stream *stream);

void controller_fixture_apply(struct controller_fixture *fixture, const char *model);
/* Publishes a version of one tensor; gives its seq. */
uint64_t controller_fixture_publish(struct controller_fixture *fixture, const char *model);

/* A session that said hello: as the leader of 'groups' groups ("<agent>-0", ...) of model "m", which are in
 * this state. */
struct rpc_stream *controller_fixture_hello(struct controller_fixture *fixture, const char *agent,
                                            unsigned groups, Baton__V1__GroupState state);
/* One report of the agent's first group. */
void controller_fixture_report(struct rpc_stream *session, const char *agent,
                               Baton__V1__GroupState state);

#endif /* controller_shell_fixture.h */
