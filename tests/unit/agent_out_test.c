/* agent_out_test.c -- stories of engines that are lost, recreated, or not to be had back. */
#include <criterion/criterion.h>

#include "tests/unit/agent_world.h"

static struct world *serving(uint32_t engines)
{
    struct world *world = world_create(1, engines, 1);
    world_serve(world, 1);
    cr_assert(world_serves(world, 0, 1));
    return world;
}

static void expect_state(const struct world *world, enum agent_group_state state)
{
    const struct world_group *group = &world->groups[0];
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert_eq(group->report.state, state, "%s: %s", agent_group_state_name(group->report.state),
                 group->message);
}

/* A dead engine takes its group out at once; it is recreated and joins at its target. */
Test(agent_out, dead_process_is_recreated)
{
    struct world *world = serving(2);
    world_kill(world, 0, 1, true);
    world_run(world, 100 * MS);
    expect_state(world, AGENT_GROUP_OUT);
    cr_assert(world_is_shut(world, 0), "all ranks serve, or none");
    world_run(world, 10 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->engines[0][1].lives, 2);
    cr_assert_eq(world->engines[0][0].lives, 1, "the other engine is left alone");
    world_destroy(world);
}

/* One that dies again soon after it was recreated waits for its backoff, and no longer. */
Test(agent_out, second_death_waits_for_the_backoff_only)
{
    struct world *world = serving(1);
    for (uint64_t lives = 2; lives <= 4; lives++) {
        world_kill(world, 0, 0, true);
        world_run(world, 12 * S);
        expect_state(world, AGENT_GROUP_SERVING);
        cr_assert_eq(world->engines[0][0].lives, lives);
    }
    world_destroy(world);
}

/* An engine that does not answer is out within the bound, and recreated if it stays so. */
Test(agent_out, silent_engine_is_out_within_the_bound)
{
    struct world *world = serving(2);
    world_fault(&world->engines[0][1], AGENT_OP_HEALTH, FAULT_HANG, 1000);
    world_fault(&world->engines[0][1], AGENT_OP_ATTACH, FAULT_HANG, 1000);
    world_run(world, 8 * S);
    expect_state(world, AGENT_GROUP_OUT);
    cr_assert_str_eq(world->groups[0].blocked, "ENGINE_UNREACHABLE");
    cr_assert(world_is_shut(world, 0));
    world_destroy(world);
}

/* The agent itself was stopped for longer than an engine may be silent, and a health check waited
 * for its answer: nobody was looked at, so nobody is lost. */
static void stop_in_a_look(uint32_t engines, bool connected)
{
    struct world *world = serving(engines);
    if (!connected) {
        world->controller_up = false;
        world->session_open = false;
        world_event(world, (struct agent_event){ .kind = AGENT_EVENT_SESSION_CLOSED });
    }
    struct world_engine *last = &world->engines[0][engines - 1];
    world_fault(last, AGENT_OP_HEALTH, FAULT_HANG, 1);
    while (last->faults_left[AGENT_OP_HEALTH] != 0) {
        world_run(world, 100 * MS);
    }
    world->now_ns += 12 * S;
    world_run(world, 3 * S);
    cr_assert(!world_noted(world, "GroupOut"), "%s", world->groups[0].message);
    cr_assert_eq(world->violation[0], '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 1));
    world_fault(last, AGENT_OP_HEALTH, FAULT_HANG, 1000);
    world_fault(last, AGENT_OP_ATTACH, FAULT_HANG, 1000);
    world_run(world, 8 * S);
    cr_assert(world_noted(world, "GroupOut"));
    cr_assert(world_is_shut(world, 0));
    world_destroy(world);
}

Test(agent_out, own_absence_loses_nobody)
{
    stop_in_a_look(2, true);
}

/* Nothing else was to be done meanwhile, no other engine and no session: the absence is seen all the
 * same. */
Test(agent_out, own_absence_with_nothing_else_to_do_loses_nobody)
{
    stop_in_a_look(1, false);
}

/* A short absence of the same incarnation: it is compared and serves again, without a ticket. */
Test(agent_out, short_absence_needs_no_ticket)
{
    struct world *world = serving(2);
    uint32_t outcomes = world->groups[0].outcomes;
    world_kill(world, 0, 1, false);
    world_run(world, 7 * S);
    expect_state(world, AGENT_GROUP_OUT);
    world->engines[0][1].up = true; /* A partition that healed. */
    world_run(world, 5 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world_serves(world, 0, 1));
    cr_assert_eq(world->groups[0].outcomes, outcomes);
    world_destroy(world);
}

/* Another incarnation answers under the same address: its gate was shut by itself. */
Test(agent_out, replaced_incarnation_rejoins)
{
    struct world *world = serving(2);
    world->engines[0][0].boot_seq = 6;
    world_boot(world, 0, 0);
    world_run(world, 1500 * MS);
    cr_assert(world_noted(world, "GroupOut"));
    world_run(world, 10 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* recreate: none. Somebody must act, and is told the command; when he did, the group comes back. */
Test(agent_out, none_names_the_command)
{
    struct world *world = world_create(1, 1, 1);
    world->engines_config[0][0].recreate = AGENT_RECREATE_NONE;
    strcpy(world->engines_config[0][0].recreate_command, "systemctl restart vllm@0");
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_FAIL, 2);
    world_ticket(world, 0, 2, false);
    world_run(world, 5 * S);
    expect_state(world, AGENT_GROUP_OUT);
    cr_assert_str_eq(world->groups[0].blocked, "ENGINE_NEEDS_RECREATE");
    cr_assert(strstr(world->groups[0].message, "systemctl restart vllm@0") != NULL, "%s",
              world->groups[0].message);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    world_run(world, 60 * S);
    expect_state(world, AGENT_GROUP_OUT);
    world_boot(world, 0, 0);
    world_run(world, 10 * S);
    expect_state(world, AGENT_GROUP_STAGED);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* A tainted incarnation stays out across a restart of the agent. */
Test(agent_out, taint_survives_the_agent)
{
    struct world *world = world_create(1, 1, 1);
    world->engines_config[0][0].recreate = AGENT_RECREATE_NONE;
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_FAIL, 2);
    world_ticket(world, 0, 2, false);
    world_run(world, 5 * S);
    memcpy(world->engines[0][0].resident, world_version(1).digest, BATON_DIGEST_TEXT_BYTES);
    for (int i = 0; i < 2; i++) {
        world_crash(world);
        world_start(world);
        world_run(world, 30 * S);
        expect_state(world, AGENT_GROUP_OUT);
        cr_assert(world_is_shut(world, 0));
    }
    world_destroy(world);
}

/* The agent dies while weights change, and one engine is another one or dead when it comes back: the call may
 * still be under way in the other, which nothing fences. */
Test(agent_out, call_of_before_is_feared_beside_an_engine_that_was_restarted)
{
    for (int dead = 0; dead < 2; dead++) {
        struct world *world = world_create(1, 2, 1);
        for (uint32_t i = 0; i < 2; i++) {
            world->engines[0][i].plugin = false;
            world->engines[0][i].level = AGENT_LEVEL_LANDED;
        }
        world->engines_config[0][1].recreate = AGENT_RECREATE_NONE;
        world_serve(world, 1);
        world_goals(world, 0, 1, 2);
        world_run(world, S);
        world->engines[0][0].late_ns = 90 * S;
        world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_LATE, 1);
        uint32_t updates = world->engines[0][0].calls[AGENT_OP_UPDATE];
        world_ticket(world, 0, 2, false);
        for (int i = 0; i < 1000 && world->engines[0][0].calls[AGENT_OP_UPDATE] == updates; i++) {
            world_run(world, MS);
        }
        cr_assert_eq(world->engines[0][0].calls[AGENT_OP_UPDATE], updates + 1);
        world_crash(world);
        if (dead == 1) {
            world_kill(world, 0, 1, false);
            world_start(world);
            world_run(world, 60 * S); /* Nobody waits for it any more. */
        }
        world_boot(world, 0, 1);
        if (dead == 0) {
            world_start(world);
        }
        world_run(world, 200 * S);
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        cr_assert(world_noted(world, "EngineTainted"));
        cr_assert_eq(world->engines[0][0].lives, 2);
        cr_assert(world_serves(world, 0, 1));
        world_destroy(world);
    }
}

/* Recreation that keeps failing ends after its attempts, spaced by backoff. */
Test(agent_out, recreation_is_bounded)
{
    struct world *world = serving(1);
    world->engines[0][0].recreate_fails = true;
    world_kill(world, 0, 0, true);
    world_run(world, 20 * S);
    cr_assert_str_neq(world->groups[0].blocked, "ENGINE_NEEDS_RECREATE");
    world_run(world, 100 * S);
    cr_assert_str_eq(world->groups[0].blocked, "ENGINE_NEEDS_RECREATE");
    world->engines[0][0].recreate_fails = false;
    world_boot(world, 0, 0);
    world_run(world, 10 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    world_destroy(world);
}

/* A recreated engine that never answers counts as one more failed attempt. */
Test(agent_out, recreated_engine_must_answer_in_time)
{
    struct world *world = world_create(1, 1, 1);
    world->config.times.boot = 20 * S;
    world_serve(world, 1);
    world_fault(&world->engines[0][0], AGENT_OP_ATTACH, FAULT_FAIL, 30);
    world_kill(world, 0, 0, true);
    world_run(world, 60 * S);
    cr_assert(world_noted(world, "RecreateFailed"));
    world_run(world, 60 * S);
    expect_state(world, AGENT_GROUP_SERVING);
    cr_assert_geq(world->engines[0][0].lives, 3);
    world_destroy(world);
}

/* An engine's death at any moment of a swap ends the ticket as OUT or as what was committed, and
 * the group comes back whole. */
Test(agent_out, death_at_any_moment_of_a_swap)
{
    for (uint64_t at = 0; at <= 80; at++) {
        struct world *world = serving(2);
        world_goals(world, 0, 1, 2);
        world_run(world, S);
        world_ticket(world, 0, 2, false);
        world_run(world, at * MS);
        world_kill(world, 0, at % 2, at % 3 != 0);
        world_run(world, 60 * S);
        uint64_t committed = world_committed(world, 0);
        cr_assert(world->violation[0] == '\0', "at %llu: %s", (unsigned long long)at,
                  world->violation);
        cr_assert(!world->groups[0].ticket_open);
        cr_assert(world_serves(world, 0, committed), "at %llu: %s", (unsigned long long)at,
                  world->groups[0].message);
        world_destroy(world);
    }
}

/* allowRecreate: without a restore source a failed update costs a recreation. */
Test(agent_out, allow_recreate_recreates_on_failure)
{
    struct world *world = serving(1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    struct agent_landing_event gone = { .state = AGENT_LANDING_GONE };
    memcpy(gone.digest, world_version(1).digest, sizeof gone.digest);
    world->landing_fails[1] = 2;
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_LANDING, .landing = &gone });
    world_ticket(world, 0, 2, false);
    world_run(world, 50 * MS);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_REFUSED);
    cr_assert(strstr(world->groups[0].outcome.message, "allowRecreate") != NULL);
    world->groups[0].ticket.policy.allow_recreate = true;
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_FAIL, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 30 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED, "the rejoin's");
    cr_assert_eq(world->engines[0][0].lives, 2);
    expect_state(world, AGENT_GROUP_STAGED);
    cr_assert(world_serves(world, 0, 1));
    world_destroy(world);
}

/* The engines' boot checkpoint is a restore source too. */
Test(agent_out, boot_checkpoint_is_a_restore_source)
{
    struct world *world = world_create(1, 1, 1);
    memcpy(world->engines_config[0][0].boot_digest, world_version(1).digest,
           BATON_DIGEST_TEXT_BYTES);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, S);
    struct agent_landing_event gone = { .state = AGENT_LANDING_GONE };
    memcpy(gone.digest, world_version(1).digest, sizeof gone.digest);
    world->landing_fails[1] = 3;
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_LANDING, .landing = &gone });
    cr_assert_eq(world->groups[0].report.can_restore, true);
    world_ticket(world, 0, 2, false);
    world_run(world, S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_COMMITTED, "%s",
                 world->groups[0].outcome.message);
    world_destroy(world);
}
