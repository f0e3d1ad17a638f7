/* publish_wait.c -- the listening half of a publish: progress, results, time, cancellation. */
#include <string.h>

#include "api/base/clock.h"
#include "api/client/publish.h"

/* The callback runs this often. */
static const uint64_t report_ns = 200 * BATON_NS_PER_MS;
/* An agent that works says so more often than this, but for one fsync of a slow disk. */
static const uint64_t silence_ns = 300 * BATON_NS_PER_S;
/* How long the answer to a CANCEL may take. */
static const uint64_t cancel_ns = 30 * BATON_NS_PER_S;
/* How long the rest of a message may take that has begun. */
static const uint64_t message_ns = 30 * BATON_NS_PER_S;

struct baton_status publish_send_cancel(struct baton_publish *publish)
{
    if (publish->cancelled_ns != 0) {
        return baton_status_ok();
    }
    uint64_t now_ns = baton_clock_monotonic_ns();
    publish->cancelled_ns = now_ns;
    publish->state = PUBLISH_STATE_SENT;
    struct local_message cancel = { .kind = LOCAL_KIND_CANCEL };
    return local_channel_send(&publish->agent->channel, &cancel, -1, now_ns + message_ns);
}

/* --- progress --- */

static uint64_t remaining_ms(const struct local_progress *last)
{
    if (last->bytes_per_s == 0 || last->bytes_total == 0 || last->bytes_done > last->bytes_total) {
        return UINT64_MAX;
    }
    uint64_t left = last->bytes_total - last->bytes_done;
    return (uint64_t)((double)left * 1000.0 / (double)last->bytes_per_s);
}

void baton_publish_get_progress(const struct baton_publish *publish, struct baton_progress *out)
{
    const struct local_progress *last = &publish->last;
    struct baton_progress full = {
        .size = sizeof(full),
        .phase = last->phase,
        .bytes_done = last->bytes_done,
        .bytes_total = last->bytes_total,
        .bytes_per_s = last->bytes_per_s,
        .remaining_ms = remaining_ms(last),
        .elapsed_ms = (baton_clock_monotonic_ns() - publish->started_ns) / BATON_NS_PER_MS,
        .phase_name = local_phase_name(last->phase),
        .detail = last->detail,
    };
    connection_fill(out, &full, sizeof(full));
}

static bool wants_to_stop(struct baton_publish *publish, uint64_t now_ns)
{
    if (publish->progress == NULL || now_ns - publish->reported_ns < report_ns) {
        return false;
    }
    publish->reported_ns = now_ns;
    struct baton_progress told = { .size = sizeof(told) };
    baton_publish_get_progress(publish, &told);
    return publish->progress(&told, publish->context) != 0;
}

struct baton_status publish_report(struct baton_publish *publish)
{
    if (publish->cancelled_ns != 0 || !wants_to_stop(publish, baton_clock_monotonic_ns())) {
        return baton_status_ok();
    }
    struct baton_status st = publish_send_cancel(publish);
    if (baton_ok(&st)) {
        st = baton_status_make(BATON_CANCELLED, BATON_REASON_NONE,
                               "publish to model '%s' was cancelled",
                               publish->spec.as.publish.model);
    }
    return st;
}

/* --- listening --- */

static struct baton_status unexpected(struct baton_publish *publish, enum local_kind kind)
{
    publish->agent->channel.is_broken = true;
    publish->state = PUBLISH_STATE_BROKEN;
    return baton_status_make(BATON_INTERNAL, BATON_REASON_MALFORMED,
                             "the agent sent %s in the middle of a publish", local_kind_name(kind));
}

/* The connection broke: say how to find out what became of the publish. */
static struct baton_status lost(struct baton_publish *publish, struct baton_status st)
{
    publish->state = PUBLISH_STATE_BROKEN;
    st = baton_status_in(st, "agent at %s", publish->agent->address.sun_path);
    return baton_status_hint(st, "Publish again with request id %s: it gives one version",
                             publish->spec.as.publish.request_id);
}

static struct baton_status take_result(struct baton_publish *publish,
                                       const struct local_result *result)
{
    publish->has_result = true;
    publish->result = *result;
    if (result->code == BATON_OK) {
        publish->agent->last = *result;
        publish->agent->has_last = true;
    }
    return local_result_status(result);
}

/* Reads one message; '*ended' if it ends the wait. */
static struct baton_status listen_once(struct baton_publish *publish, bool accepts, bool *ended)
{
    struct local_message message;
    uint64_t now_ns = baton_clock_monotonic_ns();
    struct baton_status st =
        local_channel_receive(&publish->agent->channel, &message, now_ns + message_ns);
    if (!baton_ok(&st)) {
        return lost(publish, st);
    }
    publish->heard_ns = now_ns;
    if (message.kind == LOCAL_KIND_PROGRESS) {
        publish->last = message.as.progress;
        return st;
    }
    if (message.kind == LOCAL_KIND_RESULT) {
        *ended = true;
        return take_result(publish, &message.as.result);
    }
    if (message.kind == LOCAL_KIND_ACCEPTED && accepts) {
        *ended = true;
        return st;
    }
    return unexpected(publish, message.kind);
}

/* Fails if the agent has been silent for too long. */
static struct baton_status check_silence(struct baton_publish *publish, uint64_t now_ns)
{
    uint64_t limit_ns = publish->heard_ns + silence_ns;
    if (publish->cancelled_ns != 0 && publish->cancelled_ns + cancel_ns < limit_ns) {
        limit_ns = publish->cancelled_ns + cancel_ns;
    }
    if (now_ns < limit_ns) {
        return baton_status_ok();
    }
    publish->agent->channel.is_broken = true;
    return lost(publish, baton_status_make(
                             BATON_UNAVAILABLE, BATON_REASON_IO, "no word for %llu s",
                             (unsigned long long)((now_ns - publish->heard_ns) / BATON_NS_PER_S)));
}

/* One turn of waiting: a message, a look at the clock, the callback. */
static struct baton_status await_turn(struct baton_publish *publish, bool accepts,
                                      uint64_t until_ns, bool *ended)
{
    uint64_t now_ns = baton_clock_monotonic_ns();
    uint64_t slice_ns = until_ns - now_ns < report_ns ? until_ns : now_ns + report_ns;
    if (local_channel_wait(&publish->agent->channel, -1, slice_ns) == LOCAL_WAIT_READABLE) {
        struct baton_status st = listen_once(publish, accepts, ended);
        if (!baton_ok(&st) || *ended) {
            return st;
        }
    }
    now_ns = baton_clock_monotonic_ns();
    struct baton_status st = check_silence(publish, now_ns);
    if (baton_ok(&st) && publish->cancelled_ns == 0 && wants_to_stop(publish, now_ns)) {
        st = publish_send_cancel(publish); /* The result says whether it came in time. */
    }
    return st;
}

struct baton_status publish_await(struct baton_publish *publish, bool accepts, uint64_t until_ns)
{
    if (publish->has_result) {
        return local_result_status(&publish->result);
    }
    bool ended = false;
    publish->heard_ns = baton_clock_monotonic_ns();
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && !ended) {
        /* After a CANCEL its own bound counts: what became of the publish is worth the wait. */
        if (publish->cancelled_ns == 0 && baton_clock_monotonic_ns() >= until_ns) {
            return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_NONE,
                                     "no result yet (%s)", local_phase_name(publish->last.phase));
        }
        st = await_turn(publish, accepts, publish->cancelled_ns != 0 ? UINT64_MAX : until_ns,
                        &ended);
    }
    return st;
}

struct baton_status publish_poll(struct baton_publish *publish)
{
    if (publish->has_result) {
        return local_result_status(&publish->result);
    }
    bool ended = false;
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && !ended &&
           local_channel_wait(&publish->agent->channel, -1, 0) == LOCAL_WAIT_READABLE) {
        st = listen_once(publish, false, &ended);
    }
    if (baton_ok(&st) && ended) {
        st = unexpected(publish, LOCAL_KIND_RESULT); /* Success before the end of the entries. */
    }
    return st;
}
