/* The election's state machine, against a record that stands in for the store: every transition, lost answers,
 * late ones, a process that stands still; and two of them with faults, of which never both lead. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/random.h"
#include "controller/shell/election.h"

enum { MS = 1000000, LEASE = 2000, RENEW = 600, SKEW = 200, POLL = 50 };

static const uint64_t ms = MS;

struct table {
    struct leader_record record;
    uint64_t place; /* Of the last write. */
};

static struct election one(const char *holder)
{
    struct election_options options = {
        .lease_ns = LEASE * ms, .renew_ns = RENEW * ms, .skew_ns = SKEW * ms, .poll_ns = POLL * ms
    };
    (void)snprintf(options.holder, sizeof(options.holder), "%s", holder);
    (void)snprintf(options.address, sizeof(options.address), "host-%s:7070", holder);
    return election_of(&options);
}

static struct baton_status lost(void)
{
    return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_STORE_UNAVAILABLE, "no answer");
}

static struct baton_status away(void)
{
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE, "not there");
}

/* What the store does with a write. */
static struct baton_status apply(struct table *table, const struct leader_record *record)
{
    if (record->place != table->record.place) {
        return baton_status_make(BATON_ABORTED, BATON_REASON_STALE_REVISION, "another one");
    }
    table->record = *record;
    table->record.place = ++table->place;
    return baton_status_ok();
}

/* Does one order at 'now', answered at once; gives what it was. */
static enum election_do turn(struct election *e, struct table *table, uint64_t now_ns)
{
    struct election_order order = election_next(e, now_ns);
    struct baton_status st = baton_status_ok();
    if (order.what == ELECTION_READ) {
        election_read(e, now_ns, &st, &table->record);
    } else if (order.what == ELECTION_WRITE) {
        st = apply(table, &order.record);
        election_written(e, now_ns, &st, &table->record);
    }
    return order.what;
}

/* Until it waits or is over; gives when it wants to be asked again. */
static uint64_t settle(struct election *e, struct table *table, uint64_t now_ns)
{
    for (int i = 0; i < 20; i++) {
        struct election_order order = election_next(e, now_ns);
        struct baton_status st = baton_status_ok();
        switch (order.what) {
        case ELECTION_READ: election_read(e, now_ns, &st, &table->record); break;
        case ELECTION_WRITE:
            st = apply(table, &order.record);
            election_written(e, now_ns, &st, &table->record);
            break;
        case ELECTION_WAIT: return order.wake_ns;
        case ELECTION_END: return UINT64_MAX;
        }
    }
    cr_assert_fail("it never waits");
    return 0;
}

static void run(struct election *e, struct table *table, uint64_t from_ms, uint64_t to_ms)
{
    uint64_t now = from_ms * ms;
    while (now < to_ms * ms) {
        uint64_t wake = settle(e, table, now);
        now = wake > now ? wake : now + 1;
    }
}

/* An empty store is led at once, and the leadership ends before a follower's could begin. */
Test(election, the_first_one_leads_at_once)
{
    struct table table = { .place = 7 };
    struct election e = one("aa");
    cr_assert_eq(turn(&e, &table, 10 * ms), ELECTION_READ);
    cr_assert_eq(turn(&e, &table, 10 * ms), ELECTION_WRITE);
    cr_assert_eq(e.state, ELECTION_LEADING);
    cr_assert_eq(e.term, 1);
    cr_assert_eq(e.until_ns, (10 + LEASE - SKEW) * ms);
    cr_assert_str_eq(table.record.holder, "aa");
    cr_assert_str_eq(table.record.address, "host-aa:7070");
    cr_assert_eq(table.record.lease_ms, LEASE);
}

/* A leader renews in time, for ever, as one leadership. */
Test(election, renewals_keep_one_leadership)
{
    struct table table = { .place = 0 };
    struct election e = one("aa");
    run(&e, &table, 0, 60000);
    cr_assert_eq(e.state, ELECTION_LEADING);
    cr_assert_eq(e.term, 1);
    cr_assert_geq(table.record.count, 60000 / RENEW - 1);
    cr_assert_leq(table.record.count, 60000 / RENEW + 2);
}

/* Who waits names the leader, and takes over only when the record did not change for the whole lease. */
Test(election, a_follower_waits_for_the_whole_lease)
{
    struct table table = { .place = 0 };
    struct election a = one("aa");
    struct election b = one("bb");
    (void)settle(&a, &table, 0);
    (void)settle(&b, &table, 100 * ms);
    cr_assert_eq(b.state, ELECTION_FOLLOWING);
    cr_assert_str_eq(election_leader(&b, 100 * ms), "host-aa:7070");
    cr_assert_str_eq(election_leader(&a, 100 * ms), "");
    run(&b, &table, 100, RENEW);
    (void)settle(&a, &table, RENEW * ms);
    run(&b, &table, RENEW, RENEW + LEASE);
    cr_assert_eq(b.state, ELECTION_FOLLOWING);
    (void)election_next(&a, (RENEW + LEASE - SKEW) * ms);
    cr_assert_eq(a.state, ELECTION_FOLLOWING, "it stopped before that");
    run(&b, &table, RENEW + LEASE, RENEW + LEASE + 4 * POLL);
    cr_assert_eq(b.state, ELECTION_LEADING);
    cr_assert_str_eq(table.record.holder, "bb");
}

/* One that is told to stop gives the leadership away; the next one has it at its next look. */
Test(election, a_release_is_taken_at_once)
{
    struct table table = { .place = 0 };
    struct election a = one("aa");
    struct election b = one("bb");
    (void)settle(&a, &table, 0);
    uint64_t look = settle(&b, &table, ms);
    election_stop(&a);
    cr_assert_eq(a.until_ns, 0);
    cr_assert_eq(turn(&a, &table, 2 * ms), ELECTION_WRITE);
    cr_assert_eq(turn(&a, &table, 2 * ms), ELECTION_END);
    cr_assert_eq(table.record.holder[0], '\0');
    cr_assert_leq(look, (1 + POLL) * ms);
    (void)settle(&b, &table, look);
    cr_assert_eq(b.state, ELECTION_LEADING);
}

/* A follower that stops has nothing to release; a release that fails is not tried again. */
Test(election, stopping_ends)
{
    struct table table = { .place = 0 };
    struct election a = one("aa");
    struct election b = one("bb");
    struct baton_status st = away();
    (void)settle(&a, &table, 0);
    (void)settle(&b, &table, 0);
    election_stop(&b);
    cr_assert_eq(election_next(&b, ms).what, ELECTION_END);
    election_stop(&a);
    cr_assert_eq(election_next(&a, ms).what, ELECTION_WRITE);
    election_written(&a, ms, &st, NULL);
    cr_assert_eq(election_next(&a, ms).what, ELECTION_END);
    struct election c = one("cc");
    election_stop(&c);
    cr_assert_eq(election_next(&c, 0).what, ELECTION_END);
}

/* A renewal's answer is lost, but it was done: found by reading, it counts from when it was sent. */
Test(election, a_lost_answer_is_found)
{
    struct table table = { .place = 0 };
    struct election e = one("aa");
    (void)settle(&e, &table, 0);
    uint64_t sent = RENEW * ms;
    struct election_order order = election_next(&e, sent);
    cr_assert_eq(order.what, ELECTION_WRITE);
    cr_assert_eq(order.call_ns, e.until_ns);
    struct baton_status st = apply(&table, &order.record);
    cr_assert(baton_ok(&st));
    st = lost();
    election_written(&e, sent + 500 * ms, &st, NULL);
    cr_assert_eq(e.until_ns, (LEASE - SKEW) * ms);
    uint64_t now = sent + (500 + POLL) * ms;
    cr_assert_eq(turn(&e, &table, now), ELECTION_READ);
    cr_assert_eq(e.state, ELECTION_LEADING);
    cr_assert_eq(e.until_ns, sent + (LEASE - SKEW) * ms);
    cr_assert_eq(e.term, 1);
}

/* A renewal that was given up arrives late: the next one meets it, adopts its place, and goes on. */
Test(election, a_late_write_of_ours_is_met)
{
    struct table table = { .place = 0 };
    struct election e = one("aa");
    (void)settle(&e, &table, 0);
    struct election_order late = election_next(&e, RENEW * ms);
    struct baton_status st = lost();
    election_written(&e, 700 * ms, &st, NULL);
    cr_assert_eq(turn(&e, &table, 750 * ms), ELECTION_READ);
    struct election_order next = election_next(&e, 750 * ms);
    cr_assert_eq(next.what, ELECTION_WRITE);
    st = apply(&table, &late.record);
    cr_assert(baton_ok(&st));
    st = apply(&table, &next.record);
    cr_assert_eq(st.code, BATON_ABORTED);
    election_written(&e, 760 * ms, &st, &table.record);
    cr_assert_eq(e.until_ns, (LEASE - SKEW) * ms, "what is not known to be new counts for nothing");
    (void)settle(&e, &table, 760 * ms);
    cr_assert_eq(e.until_ns, (760 + LEASE - SKEW) * ms);
    cr_assert_eq(e.term, 1);
}

/* The store is away: the leader steps down by its own clock, tries on, and leads again when it is back. */
Test(election, a_leader_that_cannot_renew_steps_down)
{
    struct table table = { .place = 0 };
    struct election e = one("aa");
    struct baton_status st = away();
    (void)settle(&e, &table, 0);
    uint64_t now = RENEW * ms;
    while (now < 3000 * ms) {
        struct election_order order = election_next(&e, now);
        cr_assert_eq(e.state == ELECTION_LEADING, now < (LEASE - SKEW) * ms);
        if (order.what == ELECTION_WRITE) {
            election_written(&e, now, &st, NULL);
        } else if (order.what == ELECTION_READ) {
            election_read(&e, now, &st, NULL);
        } else {
            cr_assert_gt(order.wake_ns, now);
            now = order.wake_ns;
        }
    }
    cr_assert_eq(e.until_ns, 0);
    (void)settle(&e, &table, 3100 * ms);
    cr_assert_eq(e.state, ELECTION_LEADING);
    cr_assert_eq(e.term, 2, "a leadership of its own, with an epoch of its own");
}

/* A process that stood still between sending and hearing does not believe an old answer. */
Test(election, an_answer_that_comes_too_late_is_not_believed)
{
    struct table table = { .place = 0 };
    struct election e = one("aa");
    struct baton_status ok = baton_status_ok();
    struct baton_status st = baton_status_ok();
    election_read(&e, 0, &st, &table.record);
    struct election_order order = election_next(&e, 0);
    cr_assert_eq(order.what, ELECTION_WRITE);
    st = apply(&table, &order.record);
    cr_assert(baton_ok(&st));
    election_written(&e, (LEASE - SKEW) * ms, &ok, &table.record);
    cr_assert_eq(e.state, ELECTION_FOLLOWING);
    cr_assert_eq(e.term, 0);
}

/* A leader stands still beyond its lease, another one takes over: it is no leader when it wakes, and the first answer
 * tells it who is. */
Test(election, a_frozen_leader_wakes_as_a_follower)
{
    struct table table = { .place = 0 };
    struct election a = one("aa");
    struct election b = one("bb");
    (void)settle(&a, &table, 0);
    run(&b, &table, 1, LEASE + 200);
    cr_assert_eq(b.state, ELECTION_LEADING);
    uint64_t now = (LEASE + 300) * ms;
    struct election_order order = election_next(&a, now);
    cr_assert_eq(a.state, ELECTION_FOLLOWING);
    cr_assert_eq(a.until_ns, 0);
    cr_assert_eq(order.what, ELECTION_WRITE, "its own record is vacant to it; the place refuses");
    struct baton_status st = apply(&table, &order.record);
    election_written(&a, now, &st, &table.record);
    cr_assert_eq(a.state, ELECTION_FOLLOWING);
    cr_assert_str_eq(election_leader(&a, now), "host-bb:7070");
    (void)settle(&a, &table, now);
    cr_assert_eq(a.state, ELECTION_FOLLOWING);
}

/* The store said that somebody else leads: down at once, and what is there decides. */
Test(election, stepping_down_reads_who_leads)
{
    struct table table = { .place = 0 };
    struct election e = one("aa");
    (void)settle(&e, &table, 0);
    election_step_down(&e, 100 * ms);
    cr_assert_eq(e.state, ELECTION_FOLLOWING);
    cr_assert_eq(e.until_ns, 0);
    table.record = (struct leader_record){ .holder = "bb", .address = "b:1", .lease_ms = LEASE };
    table.record.place = ++table.place;
    cr_assert_eq(turn(&e, &table, 100 * ms), ELECTION_READ);
    cr_assert_eq(e.state, ELECTION_FOLLOWING);
    cr_assert_str_eq(election_leader(&e, 100 * ms), "b:1");
    cr_assert_str_eq(election_leader(&e, (100 + LEASE) * ms), "", "that one is late");
}

/* A record of an absurd lease holds nobody up for ever. */
Test(election, an_absurd_lease_is_cut)
{
    struct table table = { .record = { .holder = "bb", .lease_ms = UINT64_MAX, .place = 3 },
                           .place = 3 };
    struct election e = one("aa");
    (void)settle(&e, &table, 0);
    (void)settle(&e, &table, 59000 * ms);
    cr_assert_eq(e.state, ELECTION_FOLLOWING);
    (void)settle(&e, &table, 60001 * ms);
    cr_assert_eq(e.state, ELECTION_LEADING);
}

/* --- three of them, and everything that befalls calls --- */

enum { PEERS = 3 };

struct peer {
    struct election election;
    uint64_t asleep_until_ns; /* Stands still. */
    bool busy;                /* A call is under way, answered at: */
    uint64_t answer_ns;
    uint64_t lands_ns; /* When the store does it; 0: it did. */
    uint64_t ghost_ns; /* When a write arrives that was given up; 0: there is none. */
    struct leader_record ghost;
    struct election_order order;
    struct baton_status status;
    struct leader_record answer;
};

static void begin(struct peer *peer, uint64_t now, struct baton_random *random)
{
    peer->order = election_next(&peer->election, now);
    peer->busy = peer->order.what == ELECTION_READ || peer->order.what == ELECTION_WRITE;
    if (!peer->busy) {
        return;
    }
    uint64_t kind = baton_random_below(random, 10);
    uint64_t span = (1 + baton_random_below(random, kind < 8 ? 20 : 1500)) * ms;
    peer->answer_ns = now + span;
    peer->status = kind == 9 ? lost() : baton_status_ok();
    if (peer->order.what == ELECTION_READ && kind == 9) {
        peer->status = away();
    }
    peer->lands_ns = now + 1 + baton_random_below(random, span * (kind == 9 ? 4 : 1));
}

/* The store meets the call, and one that was given up long ago. */
static void land(struct peer *peer, struct table *table, uint64_t now)
{
    if (peer->ghost_ns != 0 && now >= peer->ghost_ns) {
        struct baton_status late = apply(table, &peer->ghost);
        (void)late;
        peer->ghost_ns = 0;
    }
    if (peer->lands_ns == 0 || now < peer->lands_ns) {
        return;
    }
    peer->lands_ns = 0;
    struct baton_status st = baton_status_ok();
    if (peer->order.what == ELECTION_WRITE) {
        st = apply(table, &peer->order.record);
    }
    peer->answer = table->record;
    peer->status = baton_ok(&peer->status) ? st : peer->status;
}

static void hear(struct peer *peer, uint64_t now)
{
    if (peer->order.what == ELECTION_READ) {
        election_read(&peer->election, now, &peer->status, &peer->answer);
    } else {
        election_written(&peer->election, now, &peer->status, &peer->answer);
        if (peer->lands_ns != 0) {
            peer->ghost = peer->order.record;
            peer->ghost_ns = peer->lands_ns;
        }
    }
    peer->lands_ns = 0;
    peer->busy = false;
}

/* However calls are late and lost and processes stand still: never do two believe to lead, and with faults over one does. */
Test(election, never_two_leaders)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct table table = { .place = 0 };
        struct peer peers[PEERS] = { { .election = one("aa") },
                                     { .election = one("bb") },
                                     { .election = one("cc") } };
        struct baton_random random;
        uint64_t leaderships = 0;
        baton_random_seed(&random, seed);
        for (uint64_t now = 1; now < 60000 * ms; now += ms) {
            uint32_t leaders = 0;
            for (int i = 0; i < PEERS; i++) {
                struct peer *peer = &peers[i];
                land(peer, &table, now);
                if (now < peer->asleep_until_ns) {
                    continue;
                }
                if (baton_random_below(&random, 3000) == 0) {
                    peer->asleep_until_ns = now + baton_random_below(&random, 5000) * ms;
                } else if (peer->busy && now >= peer->answer_ns) {
                    hear(peer, now);
                } else if (!peer->busy) {
                    begin(peer, now, &random);
                }
            }
            for (int i = 0; i < PEERS; i++) { /* What the loop asks before it sends. */
                leaders += now < peers[i].election.until_ns;
            }
            cr_assert_leq(leaders, 1, "seed %llu, %llu ms", (unsigned long long)seed,
                          (unsigned long long)(now / ms));
        }
        for (int i = 0; i < PEERS; i++) {
            leaderships += peers[i].election.term;
        }
        cr_assert_geq(leaderships, 3, "seed %llu", (unsigned long long)seed);
    }
}
