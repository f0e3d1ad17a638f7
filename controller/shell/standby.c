/* standby.c -- see standby.h. */
#include "controller/shell/standby.h"

#include <stdio.h>
#include <string.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "controller/shell/daemon.h"
#include "controller/shell/leadership.h"
#include "controller/shell/rules.h"
#include "controller/shell/service.h"
#include "controller/shell/shown.h"
#include "controller/shell/standby_reads.h"
#include "controller/shell/store_wait.h"

static struct baton_status not_leader(const struct daemon *daemon)
{
    if (daemon->store_wait != NULL) {
        return baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NOT_LEADER,
                                                   "this controller does not lead, and it knows "
                                                   "of none that does: since it started, the store "
                                                   "is out of reach"),
                                 "its log says why; ask another controller, or start etcd");
    }
    if (daemon->leader[0] == '\0') {
        return baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NOT_LEADER,
                                                   "this controller does not lead, and it knows "
                                                   "of none that does"),
                                 "try again within the lease, or name all controllers: "
                                 "a:7070,b:7070");
    }
    return baton_status_hint(baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NOT_LEADER,
                                               "this controller stands by; %s leads",
                                               daemon->leader),
                             "ask %.100s", daemon->leader);
}

static void look_again(struct daemon *daemon)
{
    daemon->store_status = not_leader(daemon);
    daemon->rebuild = true;
    daemon->retry_ns = 0;
}

static void changed_work(void *target, void *argument)
{
    struct daemon *daemon = target;
    (void)argument;
    bool acts = daemon->core != NULL && !daemon->rebuild;
    if (!acts || !leadership_holds(daemon->leadership, daemon->term)) {
        struct leadership_view view;
        leadership_look(daemon->leadership, &view);
        memcpy(daemon->leader, view.leader, sizeof(daemon->leader));
        look_again(daemon);
    }
}

static void changed(void *context)
{
    struct daemon *daemon = context;
    baton_mailbox_post_sure(daemon->mailbox, changed_work, NULL);
}

/* --- life --- */

static struct baton_status seek(struct daemon *daemon)
{
    const struct leadership_options *options = daemon->options.leadership;
    struct baton_status st = leadership_open(options, daemon->options.store_address, changed,
                                             daemon, &daemon->leadership);
    if (baton_ok(&st)) {
        leadership_pin(daemon->leadership, store_cluster(daemon->store));
        store_set_holder(daemon->store, leadership_holder(daemon->leadership));
    }
    if (baton_ok(&st) && options->last_known_ns > 0) {
        struct shown_options shown = { .store_address = daemon->options.store_address,
                                       .cluster = store_cluster(daemon->store),
                                       .oldest_ns = options->last_known_ns,
                                       .limits = daemon_limits(&daemon->options) };
        st = shown_open(&shown, &daemon->shown);
    }
    return st;
}

static struct baton_status start(struct daemon *daemon)
{
    struct baton_status st = leadership_start(daemon->leadership);
    return baton_ok(&st) && daemon->shown != NULL ? shown_start(daemon->shown) : st;
}

static void give_up(struct daemon *daemon, const struct baton_status *st)
{
    daemon->start_status = *st;
    daemon->stopping = true;
}

static void reached(struct daemon *daemon)
{
    store_wait_close(daemon->store_wait);
    daemon->store_wait = NULL;
    baton_log(BATON_LOG_INFO, "store", "the store is reached");
    struct baton_status st = seek(daemon);
    if (baton_ok(&st)) {
        st = start(daemon);
    }
    if (!baton_ok(&st)) {
        give_up(daemon, &st);
        return;
    }
    standby_show(daemon, daemon->stands_by);
    look_again(daemon);
}

static void wait_ended_work(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct baton_status st;
    (void)argument;
    if (daemon->store_wait == NULL || !store_wait_ended(daemon->store_wait, &st)) {
        return; /* It stops. */
    }
    if (baton_ok(&st)) {
        reached(daemon);
        return;
    }
    give_up(daemon, &st);
}

static void wait_ended(void *context)
{
    struct daemon *daemon = context;
    baton_mailbox_post_sure(daemon->mailbox, wait_ended_work, NULL);
}

struct baton_status standby_open_store(struct daemon *daemon)
{
    const char *address = daemon->options.store_address;
    uint64_t wall_ns = baton_clock_wall_ns();
    if (daemon->options.leadership == NULL) {
        return store_open(address, wall_ns, &daemon->store);
    }
    struct baton_status st = store_open_unreached(address, wall_ns, &daemon->store);
    if (baton_ok(&st)) {
        st = store_reach(daemon->store, wall_ns);
    }
    if (daemon->store == NULL || !store_wait_helps(&st)) {
        return st;
    }
    baton_log_status(BATON_LOG_WARN, "store",
                     "the store is out of reach; this controller stands by until it is reached",
                     &st);
    daemon->store_wait = store_wait_open(daemon->store, wait_ended, daemon);
    return baton_status_ok();
}

struct baton_status standby_create(struct daemon *daemon)
{
    bool seeks = daemon->options.leadership != NULL && daemon->store_wait == NULL;
    return seeks ? seek(daemon) : baton_status_ok();
}

struct baton_status standby_start(struct daemon *daemon)
{
    if (daemon->store_wait != NULL) {
        return store_wait_start(daemon->store_wait);
    }
    return daemon->leadership == NULL ? baton_status_ok() : start(daemon);
}

void standby_stop(struct daemon *daemon)
{
    if (daemon->store_wait != NULL) {
        store_wait_stop(daemon->store_wait);
    }
    if (daemon->leadership != NULL) {
        leadership_stop(daemon->leadership);
    }
}

void standby_close(struct daemon *daemon)
{
    store_wait_close(daemon->store_wait);
    daemon->store_wait = NULL;
    leadership_close(daemon->leadership);
}

/* --- whether it leads --- */

bool standby_look(struct daemon *daemon)
{
    struct leadership_view view;
    if (daemon->options.leadership == NULL) {
        return true;
    }
    if (daemon->leadership == NULL) { /* The store was not reached yet. */
        daemon->store_status = not_leader(daemon);
        return false;
    }
    leadership_look(daemon->leadership, &view);
    memcpy(daemon->leader, view.leader, sizeof(daemon->leader));
    daemon->term = view.term;
    if (!view.leads) {
        daemon->store_status = not_leader(daemon);
    }
    return view.leads;
}

bool standby_may_act(struct daemon *daemon)
{
    bool alone = daemon->options.leadership == NULL;
    if (alone ||
        (daemon->leadership != NULL && leadership_holds(daemon->leadership, daemon->term))) {
        return true;
    }
    look_again(daemon);
    return false;
}

struct baton_status standby_deposed(struct daemon *daemon)
{
    leadership_step_down(daemon->leadership);
    daemon->leader[0] = '\0';
    return not_leader(daemon);
}

/* --- what callers are told --- */

static void refuse(struct daemon *daemon, struct rpc_call *call, const struct baton_status *status)
{
    bool named = status->reason == BATON_REASON_NOT_LEADER && daemon->leader[0] != '\0';
    const struct rule *rule = rules_find(rpc_call_method(call));
    if (rule != NULL && rule->audited) {
        service_audit_refused(daemon, call, NULL, status);
    }
    struct rpc_error_details details = { .leader = named ? daemon->leader : NULL };
    rpc_finish_with(call, status, &details);
}

/* --- what is shown --- */

void standby_show(struct daemon *daemon, bool on)
{
    if (daemon->shown != NULL) {
        shown_set(daemon->shown, on);
    }
}

void standby_destroy(struct daemon *daemon)
{
    shown_close(daemon->shown);
    daemon->shown = NULL;
}

static bool asks_for_stored(const struct rpc_call *call)
{
    return baton_bytes_equal(rpc_call_metadata(call, "x-baton-read"), baton_bytes_of("stored"));
}

/* The answer to a read is not stored, or is there nobody to follow the store. */
static struct baton_status not_stored(const struct daemon *daemon, const struct standby_read *read)
{
    struct baton_status st = daemon->store_status;
    if (read == NULL || daemon->store_wait != NULL) {
        return st;
    }
    return baton_status_hint(st, "only the leader answers this: %s",
                             read->stored ? "leadership.lastKnown is 0s here" : read->why);
}

bool standby_answers(struct daemon *daemon, struct rpc_call *call)
{
    const struct standby_read *read = daemon->stands_by && asks_for_stored(call)
                                          ? standby_reads_find(rpc_call_method(call))
                                          : NULL;
    struct baton_status st = not_stored(daemon, read);
    struct rpc_stored mark = { .is_stored = false };
    if (read != NULL && read->stored && daemon->shown != NULL) {
        st = shown_look(daemon->shown, &daemon->core, &mark);
        st.reason = BATON_REASON_NOT_LEADER; /* Whoever asked goes on to another one. */
    }
    if (mark.is_stored) {
        rpc_call_mark_stored(call, &mark);
        return true;
    }
    refuse(daemon, call, &st);
    return false;
}
