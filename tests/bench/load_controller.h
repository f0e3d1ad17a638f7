/* load_controller.h -- the real controller as a process, with a SQLite store on a disk or a store that is given, and the calls that the load generator makes.
 *
 * Depends on: api/rpc.  Threads: one.  Ends the generator where something fails (load_must.h). */
#ifndef TESTS_BENCH_LOAD_CONTROLLER_H
#define TESTS_BENCH_LOAD_CONTROLLER_H

#include <stdint.h>

#include "api/rpc/rpc.h"

/* Starts it in a new folder, on a free port of the loopback.  At most one at a time.  'store': an
 * address in etcd (borrowed), where it takes part in the election of a leader; null: a file in the
 * folder, its own. */
void load_controller_start(const char *store);
/* SIGKILL, and again with the same store and port. */
void load_controller_kill(void);
void load_controller_restart(void);
/* Ends it and removes the folder. */
void load_controller_end(void);

const char *load_controller_target(void);
const char *load_controller_folder(void);
/* Seconds of CPU so far; resident memory in MiB. */
double load_controller_cpu_s(void);
double load_controller_rss_mib(void);

/* --- calls --- */

/* Waits until it answers. */
void load_call_wait(struct rpc_client *client);
void load_call_apply(struct rpc_client *client, const char *max_unavailable);
/* Opens, fills and seals a version of model "m"; its uid into 'uid'. */
void load_call_prepare(struct rpc_client *client, uint64_t number, char *uid);
/* Publishes it; the seq. */
uint64_t load_call_publish(struct rpc_client *client, const char *uid);
/* Groups whose agent is silent. */
uint32_t load_call_summary(struct rpc_client *client);
/* The cheapest call that the loop thread answers. */
void load_call_get(struct rpc_client *client);

#endif /* load_controller.h */
