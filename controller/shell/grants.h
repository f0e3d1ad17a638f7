/* grants.h -- what agents need to pull versions from each other: keys to check with, capabilities to show.
 *
 * The key pair is made when the controller starts and lives in its memory only: no store, backup or export holds a
 * private key, and each life of a controller, and each day of a long one, has a new one.  Agents keep the public keys that they
 * were told, so what an earlier leader signed is good until it ends.  A capability lasts GRANT_TTL_S and is renewed with
 * the agent's reports from half of that on, for as long as its goals name peers.
 *
 * Depends on: daemon.h, transport/capability.  Threads: the loop's.  Ownership: the daemon's. */
#ifndef CONTROLLER_SHELL_GRANTS_H
#define CONTROLLER_SHELL_GRANTS_H

#include "controller/core/action.h"
#include "controller/shell/daemon.h"

struct grants;

enum { GRANT_TTL_S = 600 };

struct grants *grants_create(void);
/* Null is fine. */
void grants_destroy(struct grants *grants);

/* The keys, after a Welcome. */
void grants_send_keys(struct daemon *daemon, struct session *session);
/* Capabilities for what these goals let it pull; before they are sent. */
void grants_send(struct daemon *daemon, struct session *session, const struct goals *goals);
/* Sends again what is half over, and a new key. */
void grants_renew(struct daemon *daemon, struct session *session);
/* The session ends. */
void grants_forget(struct session *session);

#endif /* grants.h */
