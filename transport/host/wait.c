/* wait.c -- one transfer from start to end, with a deadline of ours. */
#include <stdio.h>

#include "api/base/clock.h"
#include "transport/include/baton/transport.h"

/* The only operation in flight, so any number will do. */
enum { THE_OP = 1 };

static void name_range(struct baton_transport_range range, char out[64])
{
    int shown = (int)(range.key.size < 60 ? range.key.size : 60);
    snprintf(out, 64, "%.*s", shown, (const char *)range.key.data);
}

/* Pauses between fruitless polls: short at first, at most a millisecond. */
static void pause_between(uint32_t fruitless)
{
    if (fruitless > 16) {
        uint64_t doubled = UINT64_C(10000) << (fruitless / 16 < 7 ? fruitless / 16 : 7);
        baton_clock_sleep_ns(doubled < BATON_NS_PER_MS ? doubled : BATON_NS_PER_MS);
    }
}

/* After the deadline.  What was accepted must be reported or discarded before its memory is used
 * again: cancel and collect; if even that fails, only close() makes the memory safe. */
static struct baton_status give_up(struct baton_transport *transport, const char *what,
                                   uint64_t timeout_ns)
{
    struct baton_tp_completion done;
    struct baton_status st = baton_transport_cancel(transport, THE_OP);
    for (uint32_t i = 0; baton_ok(&st) && i < 1000; i++) {
        uint32_t count = 0;
        st = baton_transport_poll(transport, &done, 1, &count);
        if (count == 1) {
            break;
        }
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
    return baton_status_make(
        BATON_DEADLINE_EXCEEDED, BATON_REASON_IO, "transport '%s': %s: no progress for %llu ms",
        baton_transport_name(transport), what, (unsigned long long)(timeout_ns / BATON_NS_PER_MS));
}

static struct baton_status wait_done(struct baton_transport *transport, const char *what,
                                     uint64_t timeout_ns, struct baton_tp_completion *out)
{
    uint64_t deadline_ns = baton_clock_monotonic_ns() + timeout_ns;
    for (uint32_t fruitless = 0;; fruitless++) {
        uint32_t count = 0;
        struct baton_status st = baton_transport_poll(transport, out, 1, &count);
        if (!baton_ok(&st)) {
            return st;
        }
        if (count == 1) {
            return baton_transport_result(transport, out->result, what);
        }
        if (baton_clock_monotonic_ns() >= deadline_ns) {
            return give_up(transport, what, timeout_ns);
        }
        pause_between(fruitless);
    }
}

static struct baton_status no_slot(const char *what)
{
    return baton_status_make(BATON_INTERNAL, BATON_REASON_IO,
                             "transport: %s: no free slot although nothing is in flight", what);
}

struct baton_status baton_transport_get_wait(struct baton_transport *transport,
                                             struct baton_transport_range from,
                                             struct baton_transport_local to, uint64_t timeout_ns)
{
    char what[64];
    bool accepted = false;
    struct baton_tp_completion done;
    name_range(from, what);
    struct baton_status st = baton_transport_get(transport, from, to, THE_OP, &accepted);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!accepted) {
        return no_slot(what);
    }
    st = wait_done(transport, what, timeout_ns, &done);
    if (baton_ok(&st) && done.bytes != to.bytes) {
        return baton_transport_result(transport, BATON_TP_E_CORRUPT, what);
    }
    return st;
}

struct baton_status baton_transport_length_wait(struct baton_transport *transport,
                                                struct baton_transport_range of,
                                                uint64_t timeout_ns, uint64_t *out)
{
    char what[64];
    bool accepted = false;
    struct baton_tp_completion done;
    name_range(of, what);
    struct baton_status st = baton_transport_length(transport, of, THE_OP, &accepted);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!accepted) {
        return no_slot(what);
    }
    st = wait_done(transport, what, timeout_ns, &done);
    if (baton_ok(&st)) {
        *out = done.bytes;
    }
    return st;
}
