/* election.c -- see election.h. */
#include "controller/shell/election.h"

#include <string.h>

/* What a record says that is not to be believed. */
static const uint64_t LEASE_NS_MAX = UINT64_C(60000000000);

struct election election_of(const struct election_options *options)
{
    return (struct election){ .options = *options };
}

static bool is_ours(const struct election *e)
{
    return e->seen.holder[0] != '\0' && strcmp(e->seen.holder, e->options.holder) == 0;
}

/* How long after the record's last change nobody else may lead. */
static uint64_t lease_of(const struct leader_record *record)
{
    bool huge = record->lease_ms > LEASE_NS_MAX / 1000000;
    return huge ? LEASE_NS_MAX : record->lease_ms * 1000000;
}

/* Nobody leads by this record: there is none, it was released, or it is of a leadership of ours that ended. */
static bool is_vacant(const struct election *e)
{
    return e->seen.holder[0] == '\0' || is_ours(e);
}

static uint64_t take_over_ns(const struct election *e)
{
    return is_vacant(e) ? 0 : e->seen_ns + lease_of(&e->seen);
}

static void follow(struct election *e, uint64_t now_ns)
{
    e->state = ELECTION_FOLLOWING;
    e->until_ns = 0;
    e->next_ns = now_ns;
}

/* --- orders --- */

static struct election_order write(struct election *e, uint64_t now_ns, uint64_t call_ns)
{
    struct election_order order = { .what = ELECTION_WRITE, .call_ns = call_ns };
    memcpy(order.record.holder, e->options.holder, sizeof(order.record.holder));
    memcpy(order.record.address, e->options.address, sizeof(order.record.address));
    order.record.count = ++e->count;
    order.record.lease_ms = e->options.lease_ns / 1000000;
    order.record.place = e->seen.place;
    e->sent_ns = now_ns;
    return order;
}

static struct election_order wait(uint64_t wake_ns)
{
    return (struct election_order){ .what = ELECTION_WAIT, .wake_ns = wake_ns };
}

static struct election_order read(uint64_t call_ns)
{
    return (struct election_order){ .what = ELECTION_READ, .call_ns = call_ns };
}

static struct election_order next_leading(struct election *e, uint64_t now_ns)
{
    if (now_ns < e->next_ns) {
        return wait(e->next_ns < e->until_ns ? e->next_ns : e->until_ns);
    }
    return e->doubt ? read(e->until_ns) : write(e, now_ns, e->until_ns);
}

static struct election_order next_following(struct election *e, uint64_t now_ns)
{
    uint64_t call_ns = now_ns + e->options.lease_ns;
    if (now_ns < e->next_ns) {
        return wait(e->next_ns);
    }
    e->next_ns = now_ns + e->options.poll_ns;
    bool may = e->known && !e->doubt && now_ns >= take_over_ns(e);
    return may ? write(e, now_ns, call_ns) : read(call_ns);
}

/* One try: if it fails, the lease runs out by itself. */
static struct election_order next_stopped(struct election *e, uint64_t now_ns)
{
    if (e->release_tried || !e->known || !is_ours(e)) {
        return (struct election_order){ .what = ELECTION_END };
    }
    if (e->doubt) {
        return read(now_ns + e->options.renew_ns);
    }
    e->release_tried = true;
    struct election_order order = write(e, now_ns, now_ns + e->options.renew_ns);
    order.record.holder[0] = '\0';
    order.record.address[0] = '\0';
    return order;
}

struct election_order election_next(struct election *e, uint64_t now_ns)
{
    if (e->state == ELECTION_LEADING && now_ns >= e->until_ns) {
        follow(e, now_ns);
    }
    switch (e->state) {
    case ELECTION_LEADING: return next_leading(e, now_ns);
    case ELECTION_FOLLOWING: return next_following(e, now_ns);
    case ELECTION_STOPPED: break;
    }
    return next_stopped(e, now_ns);
}

/* --- answers --- */

static void see(struct election *e, uint64_t now_ns, const struct leader_record *record)
{
    if (!e->known || record->place != e->seen.place) {
        e->seen_ns = now_ns;
    }
    e->seen = *record;
    e->known = true;
    e->doubt = false;
}

/* The last write of ours is there: the leadership lasts from when it was sent. */
static void lead(struct election *e, uint64_t now_ns)
{
    uint64_t until_ns = e->sent_ns + e->options.lease_ns - e->options.skew_ns;
    if (now_ns >= until_ns) { /* We learn of it too late. */
        follow(e, now_ns);
        return;
    }
    e->term += e->state != ELECTION_LEADING;
    e->state = ELECTION_LEADING;
    e->until_ns = until_ns;
    e->next_ns = e->sent_ns + e->options.renew_ns;
}

/* What is there, when it is not known to be our last write. */
static void judge(struct election *e, uint64_t now_ns)
{
    if (e->state == ELECTION_STOPPED) {
        return;
    }
    if (is_ours(e) && e->seen.count == e->count) {
        lead(e, now_ns);
    } else if (e->state == ELECTION_LEADING && is_ours(e)) {
        e->next_ns = now_ns; /* An earlier write: its time is not kept, so it is renewed at once. */
    } else if (e->state == ELECTION_LEADING) {
        follow(e, now_ns + e->options.poll_ns);
    }
}

/* Nothing was heard: tried again soon, by a leader as long as it is one. */
static void failed(struct election *e, uint64_t now_ns)
{
    e->next_ns = now_ns + e->options.poll_ns;
    e->release_tried = e->release_tried || e->state == ELECTION_STOPPED;
}

static void expire(struct election *e, uint64_t now_ns)
{
    if (e->state == ELECTION_LEADING && now_ns >= e->until_ns) {
        follow(e, now_ns);
    }
}

void election_read(struct election *e, uint64_t now_ns, const struct baton_status *status,
                   const struct leader_record *record)
{
    bool asked = e->doubt;
    expire(e, now_ns);
    if (!baton_ok(status)) {
        failed(e, now_ns);
        return;
    }
    see(e, now_ns, record);
    if (asked || e->state == ELECTION_LEADING) {
        judge(e, now_ns);
    }
    if (e->state == ELECTION_FOLLOWING && now_ns >= take_over_ns(e)) {
        e->next_ns = now_ns;
    }
}

void election_written(struct election *e, uint64_t now_ns, const struct baton_status *status,
                      const struct leader_record *record)
{
    expire(e, now_ns);
    if (baton_ok(status) || status->code == BATON_ABORTED) {
        see(e, now_ns, record);
        judge(e, now_ns);
    } else {
        e->doubt = e->doubt || status->code == BATON_DEADLINE_EXCEEDED;
        failed(e, now_ns);
    }
}

void election_stop(struct election *e)
{
    e->state = ELECTION_STOPPED;
    e->until_ns = 0;
}

void election_step_down(struct election *e, uint64_t now_ns)
{
    if (e->state == ELECTION_LEADING) {
        follow(e, now_ns);
    }
    e->doubt = e->state == ELECTION_FOLLOWING;
}

const char *election_leader(const struct election *e, uint64_t now_ns)
{
    bool is_self = strcmp(e->seen.address, e->options.address) == 0;
    return !e->known || is_self || now_ns >= take_over_ns(e) ? "" : e->seen.address;
}
