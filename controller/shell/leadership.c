/* leadership.c -- see leadership.h. */
#include "controller/shell/leadership.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/base/random.h"
#include "controller/shell/election.h"

enum { POLL_MS = 50, POLLS_OF_RENEW = 4 };

struct leadership {
    struct leader_store *store;
    void (*changed)(void *context);
    void *context;
    pthread_t thread;
    bool started;
    bool reached; /* The last call to the store was answered; the thread's. */
    pthread_mutex_t mutex;
    pthread_cond_t poked;
    /* Under the mutex. */
    struct election election;
    struct leadership_view view;
    uint64_t until_ns;
    bool stop;
    bool step_down;
};

/* --- what the loop sees --- */

/* Under the mutex; true if a look is worth it. */
static bool publish(struct leadership *l, uint64_t now_ns)
{
    const struct election *e = &l->election;
    struct leadership_view next = { .term = e->term };
    next.leads = e->state == ELECTION_LEADING && !l->stop && !l->step_down;
    (void)snprintf(next.leader, sizeof(next.leader), "%s",
                   next.leads ? "" : election_leader(e, now_ns));
    bool changed = next.leads != l->view.leads || next.term != l->view.term ||
                   strcmp(next.leader, l->view.leader) != 0;
    l->view = next;
    l->until_ns = next.leads ? e->until_ns : 0;
    return changed;
}

static void say(const struct leadership_view *before, const struct leadership_view *now)
{
    struct baton_log_field leader = BATON_LOG_TEXT("leader", now->leader);
    if (now->leads && (!before->leads || before->term != now->term)) {
        baton_log(BATON_LOG_INFO, "leadership", "this controller leads");
    } else if (before->leads && !now->leads) {
        baton_log(BATON_LOG_WARN, "leadership", "this controller leads no longer");
    }
    if (strcmp(before->leader, now->leader) != 0) {
        baton_log_fields(BATON_LOG_INFO, "leadership",
                         now->leader[0] != '\0' ? "another controller leads"
                                                : "no other controller leads",
                         &leader, now->leader[0] != '\0');
    }
}

void leadership_look(struct leadership *l, struct leadership_view *out)
{
    pthread_mutex_lock(&l->mutex);
    *out = l->view;
    out->leads = out->leads && baton_clock_monotonic_ns() < l->until_ns;
    pthread_mutex_unlock(&l->mutex);
}

bool leadership_holds(struct leadership *l, uint64_t term)
{
    pthread_mutex_lock(&l->mutex);
    bool holds = l->view.leads && l->view.term == term && baton_clock_monotonic_ns() < l->until_ns;
    pthread_mutex_unlock(&l->mutex);
    return holds;
}

/* --- the thread --- */

/* Until then, or until poked. */
static void wait_until(struct leadership *l, uint64_t wake_ns)
{
    struct timespec wake = { .tv_sec = (time_t)(wake_ns / BATON_NS_PER_S),
                             .tv_nsec = (long)(wake_ns % BATON_NS_PER_S) };
    pthread_mutex_lock(&l->mutex);
    if (!l->step_down && (!l->stop || l->election.state == ELECTION_STOPPED)) {
        (void)pthread_cond_timedwait(&l->poked, &l->mutex, &wake);
    }
    pthread_mutex_unlock(&l->mutex);
}

static void note_reach(struct leadership *l, const struct baton_status *st)
{
    bool reached = baton_ok(st) || st->code == BATON_ABORTED;
    if (l->reached && !reached) {
        baton_log_status(BATON_LOG_WARN, "leadership", "the leader's record is out of reach", st);
    } else if (!l->reached && reached) {
        baton_log(BATON_LOG_INFO, "leadership", "the leader's record is in reach");
    }
    l->reached = reached;
}

/* Under the mutex: takes what others asked for, and says what is next. */
static struct election_order decide(struct leadership *l, uint64_t now_ns)
{
    if (l->step_down) {
        election_step_down(&l->election, now_ns);
        l->step_down = false;
    }
    if (l->stop && l->election.state != ELECTION_STOPPED) {
        election_stop(&l->election);
    }
    return election_next(&l->election, now_ns);
}

static void tell(struct leadership *l, const struct leadership_view *before, bool changed)
{
    if (changed) {
        say(before, &l->view); /* Only this thread writes it. */
        l->changed(l->context);
    }
}

static void do_call(struct leadership *l, const struct election_order *order)
{
    struct leader_record record = { .place = 0 };
    struct leadership_view before;
    bool is_read = order->what == ELECTION_READ;
    struct baton_status st =
        is_read ? leader_store_read(l->store, order->call_ns, &record)
                : leader_store_write(l->store, &order->record, order->call_ns, &record);
    note_reach(l, &st);
    pthread_mutex_lock(&l->mutex);
    uint64_t now_ns = baton_clock_monotonic_ns();
    before = l->view;
    (is_read ? election_read : election_written)(&l->election, now_ns, &st, &record);
    bool changed = publish(l, now_ns);
    pthread_mutex_unlock(&l->mutex);
    tell(l, &before, changed);
}

static void *run(void *argument)
{
    struct leadership *l = argument;
    for (;;) {
        pthread_mutex_lock(&l->mutex);
        uint64_t now_ns = baton_clock_monotonic_ns();
        struct leadership_view before = l->view;
        struct election_order order = decide(l, now_ns);
        bool changed = publish(l, now_ns);
        pthread_mutex_unlock(&l->mutex);
        tell(l, &before, changed);
        switch (order.what) {
        case ELECTION_READ:
        case ELECTION_WRITE: do_call(l, &order); break;
        case ELECTION_WAIT: wait_until(l, order.wake_ns); break;
        case ELECTION_END: return NULL;
        }
    }
}

/* --- life --- */

static void make_options(const struct leadership_options *from, struct election_options *out)
{
    uint8_t holder[(LEADER_HOLDER_BYTES - 1) / 2];
    uint64_t poll_ns = from->renew_ns / POLLS_OF_RENEW;
    *out = (struct election_options){ .lease_ns = from->lease_ns,
                                      .renew_ns = from->renew_ns,
                                      .skew_ns = from->skew_ns };
    out->poll_ns = poll_ns < POLL_MS * BATON_NS_PER_MS ? poll_ns : POLL_MS * BATON_NS_PER_MS;
    baton_random_secure(holder, sizeof(holder));
    baton_hex_encode(holder, sizeof(holder), out->holder);
    (void)snprintf(out->address, sizeof(out->address), "%s", from->advertise);
}

struct baton_status leadership_open(const struct leadership_options *options,
                                    const char *store_address, void (*changed)(void *context),
                                    void *context, struct leadership **out)
{
    struct election_options election;
    pthread_condattr_t attributes;
    struct leadership *l = calloc(1, sizeof(*l));
    baton_assert(l != NULL);
    struct baton_status st = leader_store_open(
        store_address, (uint32_t)(options->renew_ns / BATON_NS_PER_MS), &l->store);
    if (!baton_ok(&st)) {
        free(l);
        return st;
    }
    make_options(options, &election);
    l->election = election_of(&election);
    l->changed = changed;
    l->context = context;
    l->reached = true;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&l->poked, &attributes);
    pthread_condattr_destroy(&attributes);
    *out = l;
    return st;
}

void leadership_pin(struct leadership *l, uint64_t cluster)
{
    leader_store_pin(l->store, cluster);
}

const char *leadership_holder(const struct leadership *l)
{
    return l->election.options.holder;
}

struct baton_status leadership_start(struct leadership *l)
{
    int error = pthread_create(&l->thread, NULL, run, l);
    l->started = error == 0;
    return error == 0 ? baton_status_ok()
                      : baton_status_errno(error, "pthread_create", "leadership");
}

static void poke(struct leadership *l, bool *flag)
{
    pthread_mutex_lock(&l->mutex);
    *flag = true;
    l->until_ns = 0;
    pthread_cond_signal(&l->poked);
    pthread_mutex_unlock(&l->mutex);
}

void leadership_step_down(struct leadership *l)
{
    poke(l, &l->step_down);
}

void leadership_stop(struct leadership *l)
{
    poke(l, &l->stop);
}

void leadership_close(struct leadership *l)
{
    if (l == NULL) {
        return;
    }
    if (l->started) {
        leadership_stop(l);
        (void)pthread_join(l->thread, NULL);
    }
    leader_store_close(l->store);
    pthread_cond_destroy(&l->poked);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}
