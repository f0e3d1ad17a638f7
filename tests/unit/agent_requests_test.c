/* agent_requests_test.c -- stories of requests in progress and of KV: what a swap does to them, and what
 * its record says of it. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_world.h"

static struct world *staged(uint32_t active)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    world->engines[0][0].active = active;
    return world;
}

static struct agent_policy *policy(struct world *world)
{
    return &world->groups[0].ticket.policy;
}

static const struct agent_swap_record *swap(struct world *world, uint64_t for_ns)
{
    world_ticket(world, 0, 2, false);
    world_run(world, for_ns);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(!world->groups[0].ticket_open, "the ticket has no outcome");
    return &world->groups[0].outcome;
}

static void expect(const struct agent_swap_record *record, uint32_t inside, uint32_t kept,
                   uint32_t aborted)
{
    cr_assert_eq(record->outcome, AGENT_OUTCOME_COMMITTED, "%s", record->message);
    cr_assert_eq(record->requests_inside, inside);
    cr_assert_eq(record->requests_kept, kept);
    cr_assert_eq(record->requests_aborted, aborted);
}

/* keep: they are frozen and go on. */
Test(agent_requests, kept)
{
    struct world *world = staged(5);
    expect(swap(world, 3 * S), 5, 5, 0);
    cr_assert_not(world->groups[0].outcome.drain_expired);
    world_destroy(world);
}

/* abort: they end with what they have. */
Test(agent_requests, aborted)
{
    struct world *world = staged(5);
    policy(world)->in_flight = AGENT_IN_FLIGHT_ABORT;
    expect(swap(world, 3 * S), 5, 0, 5);
    cr_assert_eq(world->engines[0][0].aborted, 5);
    world_destroy(world);
}

/* wait, and nobody is inside: no expiry. */
Test(agent_requests, drained_in_time)
{
    struct world *world = staged(0);
    policy(world)->in_flight = AGENT_IN_FLIGHT_WAIT;
    policy(world)->drain_expiry = AGENT_DRAIN_ABORT;
    expect(swap(world, 3 * S), 0, 0, 0);
    cr_assert_not(world->groups[0].outcome.drain_expired);
    world_destroy(world);
}

/* wait, and the drain takes too long: the policy's action, once, and recorded. */
Test(agent_requests, drain_expires)
{
    for (int keep = 0; keep < 2; keep++) {
        struct world *world = staged(3);
        policy(world)->in_flight = AGENT_IN_FLIGHT_WAIT;
        policy(world)->drain_expiry = keep ? AGENT_DRAIN_KEEP : AGENT_DRAIN_ABORT;
        expect(swap(world, 3 * S), 3, keep ? 3 : 0, keep ? 0 : 3);
        cr_assert(world->groups[0].outcome.drain_expired);
        cr_assert(world_noted(world, "DrainExpired"));
        cr_assert(world_serves(world, 0, 2));
        world_destroy(world);
    }
}

/* giveUp: the old version serves on, no weight was touched, nobody was ended. */
Test(agent_requests, drain_gives_up)
{
    struct world *world = staged(3);
    policy(world)->in_flight = AGENT_IN_FLIGHT_WAIT;
    uint32_t updates = world->engines[0][0].calls[AGENT_OP_UPDATE];
    cr_assert_eq(swap(world, 3 * S)->outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][0].active, 3);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], updates);
    world_destroy(world);
}

/* A pause that fails twice is a failed pause, expiry or not. */
Test(agent_requests, expiry_that_fails_gives_up)
{
    struct world *world = staged(3);
    policy(world)->in_flight = AGENT_IN_FLIGHT_WAIT;
    policy(world)->drain_expiry = AGENT_DRAIN_ABORT;
    world_fault(&world->engines[0][1], AGENT_OP_PAUSE, FAULT_FAIL, 2);
    cr_assert_eq(swap(world, 3 * S)->outcome, AGENT_OUTCOME_PAUSE_TIMEOUT);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A reset that says yes and does nothing: found before a gate opens, however often it is tried. */
Test(agent_requests, reset_that_lies_is_caught)
{
    struct world *world = staged(0);
    world_fault(&world->engines[0][1], AGENT_OP_INVALIDATE, FAULT_LIE, 1);
    const struct agent_swap_record *record = swap(world, 900 * MS);
    cr_assert_eq(record->outcome, AGENT_OUTCOME_OUT);
    cr_assert(world_is_shut(world, 0));
    world_run(world, 30 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 2), "%s", world->groups[0].message);
    world_destroy(world);
}

/* salt: nothing is dropped, the gates say the salt of the new version, also after a restart. */
Test(agent_requests, salted)
{
    struct world *world = staged(2);
    uint32_t resets = world->engines[0][0].calls[AGENT_OP_INVALIDATE];
    policy(world)->in_flight = AGENT_IN_FLIGHT_ABORT;
    policy(world)->kv = AGENT_KV_SALT;
    expect(swap(world, 3 * S), 2, 0, 2);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_INVALIDATE], resets);
    cr_assert(world->engines[0][0].gate_salt && world->engines[0][1].gate_salt);
    world_crash(world);
    world->engines[0][1].gate = AGENT_GATE_SHUT; /* Somebody shut it: it is opened anew. */
    world_start(world);
    world_run(world, 20 * S);
    cr_assert(world_serves(world, 0, 2));
    cr_assert(world->engines[0][1].gate_salt, "the journal knows that the version is salted");
    world_goals(world, 0, 2, 3);
    world_run(world, S);
    policy(world)->kv = AGENT_KV_FLUSH;
    world_ticket(world, 0, 3, false);
    world_run(world, 3 * S);
    cr_assert(world_serves(world, 0, 3));
    cr_assert_not(world->engines[0][0].gate_salt);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    world_destroy(world);
}

/* A guard that does not know salts: the swap does not end with an open gate under a promise that
 * nobody keeps. */
Test(agent_requests, guard_without_salts)
{
    struct world *world = staged(0);
    policy(world)->in_flight = AGENT_IN_FLIGHT_ABORT;
    policy(world)->kv = AGENT_KV_SALT;
    world->engines[0][1].no_salt = true;
    cr_assert_eq(swap(world, S)->outcome, AGENT_OUTCOME_OUT);
    cr_assert(world_is_shut(world, 0));
    world_destroy(world);
}

/* keep: old KV is used on, by explicit policy. */
Test(agent_requests, kv_kept)
{
    struct world *world = staged(1);
    uint32_t resets = world->engines[0][0].calls[AGENT_OP_INVALIDATE];
    uint32_t warmed = world->engines[0][0].calls[AGENT_OP_WARM];
    policy(world)->kv = AGENT_KV_KEEP;
    world->kv_kept = true;
    expect(swap(world, 3 * S), 1, 1, 0);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_INVALIDATE], resets);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_WARM], warmed);
    cr_assert(world_serves(world, 0, 2));
    world_destroy(world);
}

/* What cannot be is refused, by name, before anything is touched. */
Test(agent_requests, refusals)
{
    static const struct {
        struct agent_policy policy;
        bool external;
        const char *says;
    } rows[] = {
        { { .kv = AGENT_KV_KEEP, .in_flight = AGENT_IN_FLIGHT_ABORT }, false, "in_flight keep" },
        { { .kv = AGENT_KV_SALT }, false, "salt" },
        { { .kv = AGENT_KV_SALT,
            .in_flight = AGENT_IN_FLIGHT_WAIT,
            .drain_expiry = AGENT_DRAIN_KEEP },
          false,
          "salt" },
        { { .kv = AGENT_KV_KEEP }, true, "outside of itself" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world *world = staged(0);
        world->engines[0][0].external_kv = rows[i].external;
        world_crash(world);
        world_start(world);
        world_run(world, 2 * S);
        *policy(world) = rows[i].policy;
        policy(world)->swap_deadline_ns = 10 * S;
        policy(world)->drain_deadline_ns = 5 * S;
        const struct agent_swap_record *record = swap(world, 2 * S);
        cr_assert_eq(record->outcome, AGENT_OUTCOME_REFUSED, "row %zu", i);
        cr_assert_not_null(strstr(record->message, rows[i].says), "row %zu: %s", i,
                           record->message);
        world_destroy(world);
    }
}
