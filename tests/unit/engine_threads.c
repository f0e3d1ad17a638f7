/* engine_threads.c -- what of agent/engine more than one thread touches, for the thread sanitizer: a call
 * that is aborted from elsewhere, again and again, and a guard page that is read while it is written.
 * Exit 0 if nothing is torn and every abort ends its call. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/engine/guard.h"
#include "api/base/clock.h"
#include "api/http/http.h"
#include "tests/unit/engine_server.h"

enum { ABORTS = 20, WRITES = 20000 };

static struct http *http;
static struct script *script;
static _Atomic unsigned called; /* Calls that were begun. */

static void *abort_each(void *self)
{
    (void)self;
    for (unsigned i = 1; i <= ABORTS; i++) {
        while (script_count(script, "GET /hang") < i) {
            (void)sched_yield();
        }
        http_abort(http);
        while (atomic_load(&called) == i && i < ABORTS) {
            (void)sched_yield();
        }
    }
    return NULL;
}

static int abort_calls(void)
{
    static const struct script_row ROW = { "GET /hang", 0, "", SCRIPT_HANG, NULL };
    pthread_t thread;
    int wrong = 0;
    script = script_start(&ROW, 1);
    struct baton_status st = http_open(&(struct http_options){ .url = script_url(script) }, &http);
    if (!baton_ok(&st) || pthread_create(&thread, NULL, abort_each, NULL) != 0) {
        return 1;
    }
    for (unsigned i = 0; i < ABORTS; i++) {
        struct http_answer answer;
        http_begin(http);
        atomic_fetch_add(&called, 1);
        st = http_call(http, &(struct http_request){ "GET", "/hang", NULL, .repeatable = false },
                       baton_clock_monotonic_ns() + 60 * BATON_NS_PER_S, &answer);
        wrong += st.code != BATON_CANCELLED || answer.outcome != HTTP_NO_ANSWER;
    }
    (void)pthread_join(thread, NULL);
    http_close(http);
    script_stop(script);
    return wrong;
}

static struct engine_guard *guard;
static _Atomic bool done;

/* Every field of a write has the same number; a reader that sees two different ones saw half a write. */
static void *write_page(void *self)
{
    (void)self;
    for (uint64_t i = 1; i <= WRITES; i++) {
        struct engine_gate_order order = {
            .gate = GUARD_GATE_OPEN, .version = i, .boots = i, .hold_max = (uint32_t)i, .hold_ms = i
        };
        engine_guard_write(guard, &order);
    }
    atomic_store(&done, true);
    return NULL;
}

/* Reads as a guard does: the sequence before and after must be the same even number. */
static int read_once(const struct guard_page *page)
{
    uint64_t before = atomic_load_explicit(&page->sequence, memory_order_acquire);
    uint64_t version = __atomic_load_n(&page->version, __ATOMIC_ACQUIRE);
    uint64_t boots = __atomic_load_n(&page->opened_for, __ATOMIC_ACQUIRE);
    uint64_t hold_ms = __atomic_load_n(&page->hold_ms, __ATOMIC_ACQUIRE);
    uint32_t hold_max = __atomic_load_n(&page->hold_max, __ATOMIC_ACQUIRE);
    uint64_t after = atomic_load_explicit(&page->sequence, memory_order_acquire);
    bool whole = version == boots && boots == hold_ms && hold_ms == hold_max;
    return before == after && before % 2 == 0 && !whole;
}

static int read_page(const char *path)
{
    /* The second mapping is the guard's. */
    struct engine_guard *other = NULL;
    pthread_t thread;
    int torn = 0;
    struct baton_status st = engine_guard_open(path, &guard);
    if (baton_ok(&st)) {
        st = engine_guard_open(path, &other);
    }
    if (!baton_ok(&st) || pthread_create(&thread, NULL, write_page, NULL) != 0) {
        return 1;
    }
    while (!atomic_load(&done)) {
        torn += read_once(engine_guard_page(other));
    }
    (void)pthread_join(thread, NULL);
    engine_guard_close(guard);
    engine_guard_close(other);
    return torn;
}

int main(void)
{
    char folder[] = "/tmp/engine_threads_XXXXXX";
    char path[64];
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/page", folder);
    int wrong = abort_calls();
    int torn = read_page(path);
    (void)unlink(path);
    (void)rmdir(folder);
    (void)printf("%d calls not aborted, %d torn reads\n", wrong, torn);
    return wrong == 0 && torn == 0 ? 0 : 1;
}
