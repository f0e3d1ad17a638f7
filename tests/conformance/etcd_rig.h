/* etcd_rig.h -- real etcd members on loopback, for tests: start, kill, stop, wait, ask.
 *
 * Members live in a folder of their own and die with the test (PDEATHSIG).  A failure of the rig ends
 * the program with a line.
 *
 * Depends on: libcurl.  Threads: one; the relay has threads of its own.
 * Ownership: etcd_rig_start/stop; etcd_relay_start/stop. */
#ifndef TESTS_CONFORMANCE_ETCD_RIG_H
#define TESTS_CONFORMANCE_ETCD_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { RIG_MEMBERS_MAX = 4, RIG_ARGS_MAX = 12, RIG_PATH_BYTES = 160 };

struct etcd_rig_member {
    pid_t pid; /* 0: does not run. */
    int port;
    int peer_port;
};

struct etcd_rig {
    char folder[RIG_PATH_BYTES];
    int count;
    bool
        tls; /* folder/{ca,server,server.key,client,client.key}.pem; see etcd_rig_certificates(). */
    const char *args[RIG_ARGS_MAX]; /* More arguments of each member. */
    struct etcd_rig_member members[RIG_MEMBERS_MAX];
};

/* False: there is no etcd on this machine. */
bool etcd_rig_there(void);

/* Makes the folder.  Then start 'count' members, and wait until each serves. */
void etcd_rig_init(struct etcd_rig *rig, int count);
void etcd_rig_start(struct etcd_rig *rig);
/* Kills all, removes the folder. */
void etcd_rig_stop(struct etcd_rig *rig);

/* One member; 'state' is "new" or "existing". */
void etcd_rig_start_member(struct etcd_rig *rig, int i, const char *state);
void etcd_rig_wait_member(struct etcd_rig *rig, int i);
void etcd_rig_kill(struct etcd_rig *rig, int i);
void etcd_rig_signal(struct etcd_rig *rig, int i, int signal_number);
void etcd_rig_wipe(struct etcd_rig *rig, int i);
/* The member that leads. */
int etcd_rig_leader(struct etcd_rig *rig);

/* "etcd:URL,...<tail>" of members 0..count-1. */
void etcd_rig_address(const struct etcd_rig *rig, const char *tail, char out[1024]);

/* Posts to a member's gateway; gives the answer's text (at most 64 KiB), empty when there is none. */
const char *etcd_rig_post(struct etcd_rig *rig, int i, const char *path, const char *body);

/* A CA with a server's and a client's certificate, by the openssl tool. */
void etcd_rig_certificates(struct etcd_rig *rig);

/* Nobody else gets it until this process ends. */
int etcd_rig_free_port(void);

/* A relay between a client and one member.  HOLD keeps what clients send, also after they hung up,
 * until the relay passes again: a request that arrives late.  DEAF passes requests and drops answers.
 * SLOW passes each request RELAY_SLOW_MS later.  STALL passes nothing and hangs up on nobody: a connection
 * that says no more. */
enum etcd_relay_mode { RELAY_PASS, RELAY_HOLD, RELAY_DEAF, RELAY_SLOW, RELAY_STALL };
enum { RELAY_SLOW_MS = 100 };
struct etcd_relay;
struct etcd_relay *etcd_relay_start(int target_port);
int etcd_relay_port(const struct etcd_relay *relay);
void etcd_relay_set(struct etcd_relay *relay, enum etcd_relay_mode mode);
/* HOLD, but only of requests that have 'text' in them; borrowed until the relay is stopped. */
void etcd_relay_hold(struct etcd_relay *relay, const char *text);
/* Requests that were held, that were delivered late, answers that were dropped, requests that were slowed. */
int etcd_relay_held(const struct etcd_relay *relay);
int etcd_relay_late(const struct etcd_relay *relay);
int etcd_relay_dropped(const struct etcd_relay *relay);
int etcd_relay_slowed(const struct etcd_relay *relay);
void etcd_relay_stop(struct etcd_relay *relay);

#endif /* etcd_rig.h */
