/* hook.h -- calls of routers' hooks: each a POST on a thread of its own.
 *
 * The core decides when; here a call is made, bounded by its deadline, and its end is posted to the
 * loop's mailbox.  The body is JSON: event ("beforePause", "afterProbe"), model, group, endpoints,
 * from, to, serves (seqs; 0: none), ticket.  Acknowledged is a call that is answered 2xx.
 *
 * Depends on: agent/core, api/http/http.h, api/base/mailbox.h.  Threads: functions from the
 * loop's.  Ownership: the loop creates and destroys; hooks_destroy() ends what is under way. */
#ifndef AGENT_SHELL_HOOK_H
#define AGENT_SHELL_HOOK_H

#include "agent/core/action.h"
#include "api/base/mailbox.h"
#include "api/http/http.h"

struct hooks;

/* What the mailbox gets: argument of the work, to be freed by it. */
struct hook_event {
    uint64_t id;
    struct baton_status status;
};

/* 'tls' (borrowed) is for hooks of https. */
struct hooks *hooks_create(struct baton_mailbox *mailbox, baton_mailbox_work_fn *on_ended,
                           const struct http_tls *tls);
void hooks_destroy(struct hooks *hooks);
/* Begins a call; exactly one hook_event follows, unless hooks_destroy() comes before. */
void hooks_call(struct hooks *hooks, const struct agent_hook_call *call);

#endif /* hook.h */
