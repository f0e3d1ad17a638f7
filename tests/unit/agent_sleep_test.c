/* agent_sleep_test.c -- stories of groups whose device somebody else uses for a while. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_world.h"

static void told(struct world *world, bool sleep)
{
    world->groups[0].sleep = sleep;
    world_goals(world, 0, world->groups[0].target_seq, world->groups[0].stage_seq);
    world_run(world, 5 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
}

static void expect_asleep(const struct world *world)
{
    cr_assert(world_is_shut(world, 0));
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_ASLEEP, "%s", world->groups[0].message);
    cr_assert_str_eq(world->groups[0].blocked, "GROUP_ASLEEP");
    cr_assert_not(world->groups[0].report.gate_open);
    for (uint32_t i = 0; i < world->config.groups[0].engines_count; i++) {
        cr_assert(world->engines[0][i].asleep);
    }
}

/* Asleep nothing is left of the weights; awake they are brought by a rejoin ticket before a gate opens. */
Test(agent_sleep, gives_memory_away_and_gets_weights_before_it_opens)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    uint32_t updates = world->engines[0][1].calls[AGENT_OP_UPDATE];
    told(world, true);
    expect_asleep(world);
    world_run(world, 60 * S);
    expect_asleep(world);
    cr_assert_eq(world->engines[0][1].calls[AGENT_OP_SLEEP], 1);
    world->groups[0].auto_rejoin = false;
    told(world, false);
    cr_assert_not(world->engines[0][1].asleep);
    cr_assert(world_is_shut(world, 0), "awake is not verified");
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_JOINING);
    world->groups[0].auto_rejoin = true;
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][1].calls[AGENT_OP_UPDATE], updates + 1);
    world_destroy(world);
}

/* The trainer published meanwhile: it wakes up at what it should serve now. */
Test(agent_sleep, wakes_at_its_new_target)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world->groups[0].as_new = true;
    told(world, true);
    world_goals(world, 0, 2, 0);
    world_run(world, 10 * S);
    expect_asleep(world);
    told(world, false);
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 2));
    cr_assert_eq(world_committed(world, 0), 2);
    world_destroy(world);
}

/* A sleep never cuts a swap, and a ticket for a sleeper is refused for good. */
Test(agent_sleep, waits_for_the_swap_and_refuses_the_next)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 5 * S);
    world_ticket(world, 0, 2, false);
    world_run(world, MS);
    told(world, true);
    cr_assert_eq(world_committed(world, 0), 2);
    expect_asleep(world);
    world_ticket(world, 0, 2, true);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert_str_eq(world->groups[0].outcome.message, "the group is asleep");
    expect_asleep(world);
    world_destroy(world);
}

/* The journal knows: no engine is called anew, also while no controller answers. */
Test(agent_sleep, survives_a_restart_of_the_agent)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    told(world, true);
    world_crash(world);
    world->controller_up = false;
    world_start(world);
    world_run(world, 30 * S);
    cr_assert(world->engines[0][0].asleep);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_SLEEP], 1);
    world->controller_up = true;
    world_run(world, 30 * S);
    expect_asleep(world);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_SLEEP], 1);
    told(world, false);
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* An engine that was restarted by somebody else holds weights and memory again: it is put to sleep. */
Test(agent_sleep, restarted_engine_sleeps_again)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    told(world, true);
    world_boot(world, 0, 1);
    cr_assert_not(world->engines[0][1].asleep);
    world_run(world, 60 * S);
    expect_asleep(world);
    cr_assert_eq(world->engines[0][1].calls[AGENT_OP_SLEEP], 2);
    world_destroy(world);
}

/* Memory of a process that ended is free: the rest sleeps, and so does the group. */
static void expect_asleep_without(const struct world *world, uint32_t dead)
{
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_ASLEEP, "%s", world->groups[0].message);
    cr_assert_str_eq(world->groups[0].blocked, "GROUP_ASLEEP");
    cr_assert(strstr(world->groups[0].message, "has ended") != NULL, "%s",
              world->groups[0].message);
    cr_assert_not(world->engines[0][dead].up);
    cr_assert(world->engines[0][1 - dead].asleep);
}

/* A process that ended is not started again before its device is free. */
Test(agent_sleep, dead_engine_starts_when_woken)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    told(world, true);
    world_kill(world, 0, 1, true);
    world_run(world, 120 * S);
    expect_asleep_without(world, 1);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_SLEEP], 1, "it sleeps already");
    world_crash(world);
    world_start(world);
    world_run(world, 120 * S);
    expect_asleep_without(world, 1);
    told(world, false);
    world_run(world, 60 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* One that dies of the call is as good as asleep; the others are told again. */
Test(agent_sleep, engine_that_dies_of_it)
{
    for (uint32_t dead = 0; dead < 2; dead++) {
        struct world *world = world_create(1, 2, 1);
        world_serve(world, 1);
        world_fault(&world->engines[0][dead], AGENT_OP_SLEEP, FAULT_DIE, 1);
        world->groups[0].sleep = true;
        world_goals(world, 0, 1, 0);
        for (int i = 0; i < 10000 && world->engines[0][dead].up; i++) {
            world_run(world, MS);
        }
        world_kill(world, 0, dead, true);
        world_run(world, 120 * S);
        expect_asleep_without(world, dead);
        told(world, false);
        world_run(world, 60 * S);
        cr_assert(world_serves(world, 0, 1));
        world_destroy(world);
    }
}

/* Told to sleep again while its dead engine is being started, also where that takes longer than anybody waits:
 * memory is not free before the one that comes up sleeps. */
Test(agent_sleep, engine_that_is_being_started_holds_memory)
{
    static const uint64_t deadlines_ns[] = { 60 * S, S };
    for (size_t i = 0; i < sizeof deadlines_ns / sizeof deadlines_ns[0]; i++) {
        struct world *world = world_create(1, 2, 1);
        world->config.times.recreate_deadline = deadlines_ns[i];
        world_serve(world, 1);
        told(world, true);
        world_kill(world, 0, 1, true);
        world_run(world, 60 * S);
        expect_asleep_without(world, 1);
        world->groups[0].sleep = false;
        world_goals(world, 0, 1, 0);
        world_run(world, 500 * MS);
        cr_assert(world_noted(world, "Recreating"));
        world->groups[0].sleep = true;
        world_goals(world, 0, 1, 0);
        for (int k = 0; k < 600; k++) {
            world_run(world, 100 * MS);
            cr_assert(world->groups[0].report.state != AGENT_GROUP_ASLEEP ||
                          world->engines[0][1].asleep,
                      "it is said to sleep while an engine starts");
        }
        expect_asleep(world);
        world_destroy(world);
    }
}

/* Somebody else starts the one that died: it holds memory again and is put to sleep. */
Test(agent_sleep, dead_engine_that_is_started_sleeps)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    told(world, true);
    world_kill(world, 0, 1, true);
    world_run(world, 60 * S);
    expect_asleep_without(world, 1);
    world_boot(world, 0, 1);
    world_run(world, 60 * S);
    expect_asleep(world);
    told(world, false);
    world_run(world, 60 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* One that cannot sleep says so; the group stays shut, is asked again, and comes back by the verb. */
Test(agent_sleep, engine_without_sleep_mode)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    world->engines[0][1].sleepless = true;
    told(world, true);
    cr_assert(world_is_shut(world, 0));
    cr_assert_eq(world->groups[0].report.state, AGENT_GROUP_OUT);
    cr_assert(strstr(world->groups[0].message, "does not sleep") != NULL &&
                  strstr(world->groups[0].message, "without sleep mode") != NULL,
              "%s", world->groups[0].message);
    cr_assert_str_eq(world->groups[0].blocked, "GROUP_ASLEEP");
    world_run(world, 60 * S);
    cr_assert_gt(world->engines[0][1].calls[AGENT_OP_SLEEP], 1);
    cr_assert_eq(world->engines[0][1].lives, 1, "nobody is killed for it");
    told(world, false);
    world_run(world, 30 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A sleep without an answer may still come to work: that incarnation is done with. */
Test(agent_sleep, silent_sleep_costs_the_incarnation)
{
    static const enum fault faults[] = { FAULT_HANG, FAULT_LATE, FAULT_SILENT, FAULT_STUCK };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct world *world = world_create(1, 2, 1);
        world_serve(world, 1);
        world->engines[0][0].late_ns = 300 * S;
        world_fault(&world->engines[0][0], AGENT_OP_SLEEP, faults[i], 1);
        told(world, true);
        world_run(world, 200 * S);
        cr_assert(world_noted(world, "EngineTainted"));
        cr_assert_eq(world->engines[0][0].lives, 2);
        expect_asleep(world);
        told(world, false);
        world_run(world, 400 * S);
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        cr_assert(world_serves(world, 0, 1));
        world_destroy(world);
    }
}

/* A wake that was refused is tried again; one that stays so is no reason to open. */
Test(agent_sleep, failed_wake_opens_nothing)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    told(world, true);
    world_fault(&world->engines[0][0], AGENT_OP_WAKE, FAULT_FAIL, 2);
    world->groups[0].sleep = false;
    world_goals(world, 0, 1, 0);
    world_run(world, 500 * MS);
    cr_assert(world_is_shut(world, 0));
    world_run(world, 60 * S);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* An engine that hangs in it when the agent comes back: nobody waits for it as for one that boots. */
Test(agent_sleep, engine_that_hangs_in_it_is_recreated_after_a_restart)
{
    struct world *world = world_create(1, 1, 1);
    world_serve(world, 1);
    world_fault(&world->engines[0][0], AGENT_OP_SLEEP, FAULT_HANG, 1);
    world->groups[0].sleep = true;
    world_goals(world, 0, 1, 0);
    world_run(world, 500 * MS);
    world_crash(world);
    world_fault(&world->engines[0][0], AGENT_OP_ATTACH, FAULT_HANG, 100);
    world->groups[0].sleep = false;
    world_start(world);
    world_run(world, 120 * S);
    cr_assert_eq(world->engines[0][0].lives, 2);
    world_fault(&world->engines[0][0], AGENT_OP_ATTACH, FAULT_NONE, 0);
    world_run(world, 120 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* The agent's disk is lost: a new journal knows nothing of the sleep, and wakes what shows as paused. */
Test(agent_sleep, lost_journal_wakes_what_slept)
{
    struct world *world = world_create(1, 2, 1);
    world_serve(world, 1);
    told(world, true);
    world_crash(world);
    world_new_journal(world);
    world->groups[0].sleep = false;
    world_start(world);
    world_run(world, 60 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 1), "%s", world->groups[0].message);
    world_destroy(world);
}

/* Until it is where it is to be; a late call has come to work by then. */
static void settle(struct world *world)
{
    bool there = false;
    for (int i = 0; i < 10 && !there && !world->crashed; i++) {
        world_run(world, 20 * S);
        there = world->groups[0].sleep ? world->groups[0].report.state == AGENT_GROUP_ASLEEP
                                       : world_serves(world, 0, world_committed(world, 0));
    }
}

/* The story of one sleep and wake, with a crash of the agent at its n-th durable write or operation. */
static bool story(uint32_t at, enum crash_mode mode, bool plugin, bool woken)
{
    struct world *world = world_create(1, 2, 1);
    for (uint32_t i = 0; i < 2; i++) {
        world->engines[0][i].plugin = plugin;
        world->engines[0][i].level = plugin ? AGENT_LEVEL_RESIDENT : AGENT_LEVEL_LANDED;
        world->engines[0][i].late_ns = 20 * S;
    }
    world_serve(world, 1);
    world->groups[0].as_new = true;
    world->crash_mode = mode;
    world->crash_at = at;
    world->boundaries = 0;
    world->counting = true;
    bool crashed = false;
    for (uint32_t half = 0; half < 2; half++) {
        world->groups[0].sleep = half == 0;
        world_goals(world, 0, half == 0 ? 1 : 2, 0);
        settle(world);
        if (world->crashed) {
            crashed = true;
            world->crashed = false;
            world->counting = false;
            world->crash_mode = CRASH_NEVER;
            world->groups[0].sleep = half == 0 && !woken;
            world_start(world);
            settle(world);
        }
        cr_assert(world->violation[0] == '\0', "at %u: %s", at, world->violation);
        if (half == 0 && !(crashed && woken)) {
            expect_asleep(world);
        }
    }
    settle(world);
    /* One that was woken by then serves on what it woke up with. */
    uint64_t seq = woken ? world_committed(world, 0) : 2;
    cr_assert(world_serves(world, 0, seq), "crash %u at %u: %s", mode, at,
              world->groups[0].message);
    world_destroy(world);
    return crashed;
}

/* A call of the dead agent comes to work seconds later: also where the group is woken at once. */
Test(agent_sleep, crash_at_every_step)
{
    for (int kind = 0; kind < 4; kind++) {
        for (int mode = CRASH_BEFORE; mode <= CRASH_AFTER_LATE; mode++) {
            uint32_t at = 1;
            while (story(at, (enum crash_mode)mode, kind % 2 == 1, kind >= 2)) {
                at++;
            }
            cr_assert_gt(at, 10);
        }
    }
}
