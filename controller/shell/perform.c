/* perform.c -- one function an action; see perform.h. */
#include "controller/shell/perform.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/wire/wire.h"
#include "baton/v1/rolls.pb-c.h"
#include "controller/shell/daemon.h"
#include "controller/shell/render.h"
#include "controller/shell/service.h"
#include "controller/shell/session.h"
#include "controller/shell/standby.h"
#include "controller/shell/watch.h"

enum { SLOW_COMMIT_MS = 1000 };

static struct pending *take_pending(struct daemon *daemon, uint64_t handle)
{
    for (struct pending **at = &daemon->pendings; *at != NULL; at = &(*at)->next) {
        if ((*at)->handle == handle) {
            struct pending *found = *at;
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

static void free_pending(struct pending *pending)
{
    free(pending->note);
    rpc_call_unref(pending->call);
    free(pending->data);
    free(pending);
}

bool perform_is_deposed(const struct baton_status *status)
{
    return status->reason == BATON_REASON_STALE_EPOCH || status->reason == BATON_REASON_NOT_LEADER;
}

void perform_deposed(struct daemon *daemon, const struct baton_status *status)
{
    baton_log_status(BATON_LOG_ERROR, "store", "another controller has the store now", status);
    daemon->rebuild = true;
    daemon->retry_ns = 0;
    if (daemon->leadership != NULL) {
        daemon->store_status = standby_deposed(daemon);
        return;
    }
    daemon->deposed = true; /* Taking it back would begin a fight. */
    daemon->stopping = true;
    daemon->store_status = *status;
}

/* After a slow commit agents that renewed their leases meanwhile are heard before any is called silent. */
static struct baton_status commit(struct daemon *daemon, const struct transaction *transaction)
{
    uint64_t since_ns = baton_clock_monotonic_ns();
    struct baton_status st = store_commit(daemon->store, transaction);
    uint64_t took_ns = baton_clock_monotonic_ns() - since_ns;
    stats_stored(daemon->stats, took_ns, baton_ok(&st));
    if (took_ns >= SLOW_COMMIT_MS * BATON_NS_PER_MS) {
        daemon->behind_until = baton_mailbox_posted(daemon->mailbox);
    }
    return st;
}

static void perform_persist(struct daemon *daemon, const struct transaction *transaction)
{
    struct baton_status st = commit(daemon, transaction);
    if (baton_ok(&st)) {
        return;
    }
    bool known = st.code != BATON_DEADLINE_EXCEEDED;
    if (st.reason == BATON_REASON_STALE_EPOCH) {
        perform_deposed(daemon, &st);
        st = daemon->store_status;
    } else {
        baton_log_status(BATON_LOG_ERROR, "store",
                         "a change could not be stored; reading the store again", &st);
    }
    if (st.code != BATON_RESOURCE_EXHAUSTED && st.code != BATON_ABORTED &&
        st.reason != BATON_REASON_NOT_LEADER) {
        st.code = BATON_UNAVAILABLE;
        st.reason = BATON_REASON_STORE_UNAVAILABLE;
    }
    daemon->store_status =
        known ? baton_status_in(st, "nothing was changed")
              : baton_status_in(st, "it may have been changed; the same request id finds out");
    daemon->rebuild = true;
    daemon->retry_ns = 0;
}

/* A failed request: a bad field also as google.rpc.BadRequest. */
static void finish_refused(struct rpc_call *call, const struct action_reply *reply)
{
    struct baton_status st = reply->status;
    if (reply->field[0] != '\0') {
        size_t size = strlen(reply->field);
        const char *what = st.message;
        if (strncmp(what, reply->field, size) == 0 && strncmp(what + size, ": ", 2) == 0) {
            what += size + 2;
        }
        struct baton_status field = rpc_status_field(reply->field, "%s", what);
        memcpy(field.hint, st.hint, sizeof(field.hint));
        st = field;
    }
    struct rpc_error_details details = { .retry_after_ns = reply->retry_ns };
    rpc_finish_with(call, &st, &details);
}

static void answer_object(struct daemon *daemon, struct pending *pending,
                          const struct action_reply *reply)
{
    void *message = render_object(daemon->core, &reply->object);
    baton_assert(message != NULL);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void perform_reply(struct daemon *daemon, const struct action_reply *reply)
{
    struct pending *pending = take_pending(daemon, reply->handle);
    if (pending == NULL) {
        return;
    }
    service_audit_end(daemon, pending, &reply->status);
    if (!baton_ok(&reply->status)) {
        finish_refused(pending->call, reply);
    } else {
        (pending->answer != NULL ? pending->answer : answer_object)(daemon, pending, reply);
    }
    free_pending(pending);
}

static void perform_wait_done(struct daemon *daemon, const struct action_wait_done *done)
{
    struct pending *pending = take_pending(daemon, done->handle);
    if (pending == NULL) {
        return;
    }
    Baton__V1__WaitRollResponse *message =
        baton_wire_new(&baton__v1__wait_roll_response__descriptor);
    message->outcome = (Baton__V1__WaitOutcome)done->outcome;
    message->message = baton_wire_text(message, done->message);
    message->seq = done->seq;
    rpc_reply(pending->call, message);
    baton_wire_free(message);
    free_pending(pending);
}

static void perform_log(struct daemon *daemon, const struct log_entry *entry)
{
    struct baton_log_field fields[] = { BATON_LOG_TEXT("object", entry->object),
                                        BATON_LOG_TEXT("reason", entry->reason),
                                        BATON_LOG_TEXT("by", entry->by) };
    baton_log_fields(entry->warning ? BATON_LOG_WARN : BATON_LOG_INFO, "fleet", entry->message,
                     fields, entry->by[0] != '\0' ? 3 : 2);
    watch_log(daemon, entry);
}

static void perform_new_generation(struct daemon *daemon, uint64_t floor)
{
    struct baton_status st = store_raise_generation(daemon->store, floor);
    if (perform_is_deposed(&st)) {
        perform_deposed(daemon, &st);
        return;
    }
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_ERROR, "store", "cannot raise the generation", &st);
    }
    daemon->store_status = baton_status_make(
        BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
        "the store went back: an agent has seen generation %llu; starting a new one",
        (unsigned long long)floor);
    daemon->rebuild = true;
    daemon->retry_ns = 0;
}

void perform(struct daemon *daemon, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST: perform_persist(daemon, &action->body.persist); break;
    case ACTION_REPLY: perform_reply(daemon, action->body.reply); break;
    case ACTION_SEND: session_deliver(daemon, &action->body.send); break;
    case ACTION_CLOSE_SESSION:
        session_finish(daemon, action->body.close->session, &action->body.close->status);
        break;
    case ACTION_CHANGED: watch_changed(daemon, &action->body.changed); break;
    case ACTION_LOG: perform_log(daemon, action->body.log); break;
    case ACTION_WAIT_DONE: perform_wait_done(daemon, action->body.wait_done); break;
    case ACTION_NEW_GENERATION:
        perform_new_generation(daemon, action->body.generation_floor);
        break;
    }
}

void perform_fail_all(struct daemon *daemon, const struct baton_status *status)
{
    while (daemon->pendings != NULL) {
        struct pending *pending = daemon->pendings;
        daemon->pendings = pending->next;
        service_audit_end(daemon, pending, status);
        rpc_finish(pending->call, status);
        free_pending(pending);
    }
    session_finish_all(daemon, status);
}

void perform_end_waits(struct daemon *daemon)
{
    struct baton_status st =
        baton_status_make(BATON_UNAVAILABLE, BATON_REASON_SHUTTING_DOWN, "the controller stops");
    perform_fail_all(daemon, &st);
    watch_end_all(daemon, &st);
}
