/* operate.h -- break-glass in the shell: a local client's wish, carried out on the loop thread.
 *
 * Depends on: daemon.h, local_server.h.  Threads: operate_ask() on a local client's thread; the rest
 * on the loop's.  Ownership: an asker is shared by both until each let go of it. */
#ifndef AGENT_SHELL_OPERATE_H
#define AGENT_SHELL_OPERATE_H

#include "agent/core/action.h"
#include "agent/shell/daemon.h"
#include "agent/shell/local_server.h"

struct asker;

/* The function for struct local_sink; its context is the daemon. */
struct baton_status operate_ask(void *context, const struct local_operate *request, const char *by,
                                void (*say)(void *listener, const char *line), void *listener);

/* The core answered. */
void operate_answered(struct daemon *daemon, const struct agent_operated *operated);
void operate_status(struct daemon *daemon, const struct agent_node_status *status);

/* Work of the mailbox; its argument is a struct asker. */
baton_mailbox_work_fn operate_work;
/* The loop has ended: nobody will answer. */
void operate_discard(struct asker *asker);

#endif /* operate.h */
