/* etcd_leadership.c -- three leaderships over a real etcd: one leads, it is handed over, cut off, deposed; and at no
 * instant do two hold.
 *
 * Each reaches etcd through a relay of its own.  A plain program: prints one line a case and exits 0 when all hold. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/shell/leadership.h"
#include "tests/conformance/etcd_bench.h"
#include "tests/conformance/etcd_parts.h"
#include "tests/conformance/etcd_rig.h"

enum { SEATS = 3, WAIT_MS = 120000 };

/* One controller's part. */
struct seat {
    struct leadership_options options;
    char advertise[32];
    char address[ADDRESS_BYTES];
    struct etcd_relay *relay;
    struct leadership *leadership;
    atomic_uint changes;
};

static struct seat seats[SEATS];
static atomic_bool watching;
static atomic_uint looks;

static void on_change(void *context)
{
    struct seat *seat = context;
    (void)atomic_fetch_add(&seat->changes, 1);
}

static void take_seat(struct seat *seat)
{
    must(leadership_open(&seat->options, seat->address, on_change, seat, &seat->leadership));
    must(leadership_start(seat->leadership));
}

static void begin(struct etcd_rig *rig, const char *prefix)
{
    for (int i = 0; i < SEATS; i++) {
        struct seat *seat = &seats[i];
        (void)snprintf(seat->advertise, sizeof(seat->advertise), "controller-%d:7070", i);
        seat->relay = etcd_relay_start(rig->members[0].port);
        (void)snprintf(seat->address, sizeof(seat->address), "etcd:http://127.0.0.1:%d/%s",
                       etcd_relay_port(seat->relay), prefix);
        seat->options = (struct leadership_options){ .advertise = seat->advertise,
                                                     .lease_ns = 2000 * BATON_NS_PER_MS,
                                                     .renew_ns = 600 * BATON_NS_PER_MS,
                                                     .skew_ns = 200 * BATON_NS_PER_MS };
        take_seat(seat);
    }
}

static void end(void)
{
    for (int i = 0; i < SEATS; i++) {
        etcd_relay_set(seats[i].relay, RELAY_PASS);
        leadership_close(seats[i].leadership);
        etcd_relay_stop(seats[i].relay);
    }
}

static struct leadership_view view_of(int seat)
{
    struct leadership_view view;
    leadership_look(seats[seat].leadership, &view);
    return view;
}

/* The seat that leads, other than 'but'. */
static int wait_leader(int but)
{
    uint64_t give_up = now_ms() + WAIT_MS;
    for (;;) {
        for (int i = 0; i < SEATS; i++) {
            if (i != but && seats[i].leadership != NULL && view_of(i).leads) {
                return i;
            }
        }
        CHECK(now_ms() < give_up);
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
}

/* Until the seat names that one as the leader; null: none. */
static void wait_named(int seat, const char *leader)
{
    uint64_t give_up = now_ms() + WAIT_MS;
    while (strcmp(view_of(seat).leader, leader) != 0) {
        CHECK(now_ms() < give_up);
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
}

/* What held before and after another one was seen to hold, held at that instant. */
static bool both_hold(int a, int b)
{
    struct leadership_view first = view_of(a);
    return first.leads && view_of(b).leads && leadership_holds(seats[a].leadership, first.term);
}

static void *watch(void *argument)
{
    (void)argument;
    while (atomic_load(&watching)) {
        CHECK(!both_hold(0, 1) && !both_hold(1, 2) && !both_hold(2, 0));
        (void)atomic_fetch_add(&looks, 1);
        baton_clock_sleep_ns(BATON_NS_PER_MS / 4);
    }
    return NULL;
}

/* A leader that is closed releases: another one leads; a new one in its seat follows. */
static void handed_over(struct etcd_rig *rig)
{
    begin(rig, "handed");
    int first = wait_leader(-1);
    CHECK(leadership_holds(seats[first].leadership, view_of(first).term));
    CHECK(!leadership_holds(seats[first].leadership, view_of(first).term + 1));
    wait_named((first + 1) % SEATS, seats[first].advertise);
    leadership_stop(seats[first].leadership);
    CHECK(!view_of(first).leads);
    leadership_close(seats[first].leadership);
    seats[first].leadership = NULL;
    int next = wait_leader(first);
    take_seat(&seats[first]);
    wait_named(first, seats[next].advertise);
    CHECK(!view_of(first).leads && atomic_load(&seats[first].changes) > 0);
    end();
}

/* A leader whose messages are held back stops by its own clock, while nobody tells it anything; another one leads;
 * what was held back arrives late and changes nothing. */
static void cut_off(struct etcd_rig *rig)
{
    pthread_t thread;
    begin(rig, "cut");
    int former = wait_leader(-1);
    atomic_store(&watching, true);
    CHECK(pthread_create(&thread, NULL, watch, NULL) == 0);
    for (int round = 0; round < 3; round++) {
        etcd_relay_set(seats[former].relay, round % 2 == 0 ? RELAY_HOLD : RELAY_DEAF);
        int next = wait_leader(former);
        CHECK(!view_of(former).leads);
        etcd_relay_set(seats[former].relay, RELAY_PASS);
        wait_named(former, seats[next].advertise);
        former = next;
    }
    atomic_store(&watching, false);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(atomic_load(&looks) > 100);
    end();
}

/* The store refused one's write: it holds no more from that moment; its record still stands, so it leads again, as
 * another leadership. */
static void deposed(struct etcd_rig *rig)
{
    begin(rig, "deposed");
    int leader = wait_leader(-1);
    uint64_t term = view_of(leader).term;
    leadership_step_down(seats[leader].leadership);
    CHECK(!leadership_holds(seats[leader].leadership, term));
    int next = wait_leader(-1);
    CHECK(next != leader || view_of(next).term == term + 1);
    end();
}

static const struct etcd_part parts[] = {
    { "handed_over", handed_over, NULL },
    { "cut_off", cut_off, NULL },
    { "deposed", deposed, NULL },
};

int main(int argc, char **argv)
{
    return etcd_parts_run("etcd_leadership", parts, sizeof(parts) / sizeof(parts[0]), argc, argv);
}
