/* store_wait.c -- see store_wait.h. */
#include "controller/shell/store_wait.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "api/base/clock.h"
#include "api/base/log.h"

enum { PAUSE_FIRST_MS = 100, PAUSE_MAX_MS = 1000 };

struct store_wait {
    struct store *store;
    void (*ended)(void *context);
    void *context;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex;
    pthread_cond_t poked;
    /* Under the mutex. */
    bool stop;
    bool over;
    struct baton_status status; /* How it ended. */
};

bool store_wait_helps(const struct baton_status *status)
{
    return status->code == BATON_UNAVAILABLE && status->reason == BATON_REASON_STORE_UNAVAILABLE;
}

/* False: told to stop. */
static bool pause_a_while(struct store_wait *wait, uint64_t pause_ms)
{
    uint64_t wake_ns = baton_clock_monotonic_ns() + pause_ms * BATON_NS_PER_MS;
    struct timespec wake = { .tv_sec = (time_t)(wake_ns / BATON_NS_PER_S),
                             .tv_nsec = (long)(wake_ns % BATON_NS_PER_S) };
    pthread_mutex_lock(&wait->mutex);
    while (!wait->stop && baton_clock_monotonic_ns() < wake_ns) {
        (void)pthread_cond_timedwait(&wait->poked, &wait->mutex, &wake);
    }
    bool goes_on = !wait->stop;
    pthread_mutex_unlock(&wait->mutex);
    return goes_on;
}

static void *run(void *argument)
{
    struct store_wait *wait = argument;
    struct baton_status st;
    uint64_t pause_ms = PAUSE_FIRST_MS;
    do {
        if (!pause_a_while(wait, pause_ms)) {
            return NULL;
        }
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
        st = store_reach(wait->store, baton_clock_wall_ns());
        if (store_wait_helps(&st)) {
            baton_log_status(BATON_LOG_DEBUG, "store", "still out of reach", &st);
        }
    } while (store_wait_helps(&st));
    pthread_mutex_lock(&wait->mutex);
    wait->over = !wait->stop;
    wait->status = st;
    bool tell = wait->over;
    pthread_mutex_unlock(&wait->mutex);
    if (tell) {
        wait->ended(wait->context);
    }
    return NULL;
}

struct store_wait *store_wait_open(struct store *store, void (*ended)(void *context), void *context)
{
    pthread_condattr_t attributes;
    struct store_wait *wait = calloc(1, sizeof(*wait));
    baton_assert(wait != NULL);
    wait->store = store;
    wait->ended = ended;
    wait->context = context;
    pthread_mutex_init(&wait->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&wait->poked, &attributes);
    pthread_condattr_destroy(&attributes);
    return wait;
}

struct baton_status store_wait_start(struct store_wait *wait)
{
    int error = pthread_create(&wait->thread, NULL, run, wait);
    wait->started = error == 0;
    return error == 0 ? baton_status_ok() : baton_status_errno(error, "pthread_create", "store");
}

bool store_wait_ended(struct store_wait *wait, struct baton_status *out)
{
    pthread_mutex_lock(&wait->mutex);
    bool over = wait->over && !wait->stop;
    *out = wait->status;
    pthread_mutex_unlock(&wait->mutex);
    return over;
}

void store_wait_stop(struct store_wait *wait)
{
    pthread_mutex_lock(&wait->mutex);
    wait->stop = true;
    pthread_cond_signal(&wait->poked);
    pthread_mutex_unlock(&wait->mutex);
}

void store_wait_close(struct store_wait *wait)
{
    if (wait == NULL) {
        return;
    }
    store_wait_stop(wait);
    if (wait->started) {
        (void)pthread_join(wait->thread, NULL);
    }
    pthread_cond_destroy(&wait->poked);
    pthread_mutex_destroy(&wait->mutex);
    free(wait);
}
