/* agent_crash_test.c -- the agent dies at every journal record and at every engine operation.
 *
 * Each scenario is run once without a crash to count its boundaries, then once for each boundary
 * and mode: the action is not performed; it is performed and takes effect at once; an operation
 * takes effect long after the restart.  After it the group must be wholly old or wholly new and
 * serve, the ticket must have an outcome that says which, and at no instant may an open gate have
 * been mixed. */
#include <criterion/criterion.h>

#include "tests/unit/agent_world.h"

struct scenario {
    const char *name;
    void (*prepare)(struct world *world); /* Before the group serves. */
    void (*spoil)(struct world *world);   /* Before the ticket. */
    uint32_t engines;
    uint32_t boundaries_min; /* At least so many, or the scenario does not show what it should. */
};

static void nothing(struct world *world)
{
    (void)world;
}

static void without_plugin(struct world *world)
{
    for (uint32_t i = 0; i < world->groups_config[0].engines_count; i++) {
        world->engines[0][i].plugin = false;
        world->engines[0][i].level = AGENT_LEVEL_LANDED;
    }
}

static void update_fails(struct world *world)
{
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_FAIL, 1);
}

static void update_hangs(struct world *world)
{
    world_fault(&world->engines[0][0], AGENT_OP_UPDATE, FAULT_LATE, 1);
}

static void flush_fails(struct world *world)
{
    world_fault(&world->engines[0][0], AGENT_OP_INVALIDATE, FAULT_FAIL, 2);
}

static void pause_fails(struct world *world)
{
    world_fault(&world->engines[0][1], AGENT_OP_PAUSE, FAULT_FAIL, 1);
}

static void restore_fails(struct world *world)
{
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_FAIL, 2);
}

static void probe_fails(struct world *world)
{
    world_fault(&world->engines[0][1], AGENT_OP_PROBE, FAULT_FAIL, 3);
}

static void engine_dies(struct world *world)
{
    world_fault(&world->engines[0][1], AGENT_OP_UPDATE, FAULT_DIE, 1);
}

static void with_hooks(struct world *world)
{
    struct agent_policy *policy = &world->groups[0].ticket.policy;
    policy->hooks_count = 2;
    policy->hooks[0] = (struct agent_hook){ AGENT_HOOK_BEFORE_PAUSE, "http://router/drain", S };
    policy->hooks[1] = (struct agent_hook){ AGENT_HOOK_AFTER_PROBE, "http://router/open", S };
}

static void salted(struct world *world)
{
    struct agent_policy *policy = &world->groups[0].ticket.policy;
    policy->in_flight = AGENT_IN_FLIGHT_WAIT;
    policy->drain_expiry = AGENT_DRAIN_ABORT;
    policy->kv = AGENT_KV_SALT;
    world->engines[0][0].active = 2;
}

static void live(struct world *world)
{
    struct agent_policy *policy = &world->groups[0].ticket.policy;
    policy->live = true;
    policy->kv = AGENT_KV_KEEP;
    world->kv_kept = true;
}

static void live_goes_back(struct world *world)
{
    live(world);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_FAIL_BACK, 1);
}

static void live_is_silent(struct world *world)
{
    live(world);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_SILENT, 1);
}

static void live_comes_late(struct world *world)
{
    live(world);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_LATE, 1);
    world->engines[0][0].late_ns = 70 * S;
}

static void live_lies(struct world *world)
{
    live(world);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_LIE, 1);
}

static void live_dies(struct world *world)
{
    live(world);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_FAIL, 1);
}

/* Nobody can say what is resident: the gate shuts after all. */
static void live_is_unread(struct world *world)
{
    live(world);
    world_fault(&world->engines[0][0], AGENT_OP_READBACK, FAULT_FAIL, 3);
}

static const struct scenario SCENARIOS[] = {
    { "swap of one engine", nothing, nothing, 1, 12 },
    { "swap of two engines", nothing, nothing, 2, 20 },
    { "swap without plug-in", without_plugin, nothing, 2, 18 },
    { "an update fails", nothing, update_fails, 2, 20 },
    { "an update hangs and wakes up late", nothing, update_hangs, 2, 20 },
    { "the flush fails", nothing, flush_fails, 2, 20 },
    { "a pause fails", nothing, pause_fails, 2, 10 },
    { "update and restore fail", nothing, restore_fails, 2, 20 },
    { "the probe fails", nothing, probe_fails, 2, 20 },
    { "an engine dies in the update", nothing, engine_dies, 2, 20 },
    { "an update fails without plug-in", without_plugin, update_fails, 2, 18 },
    { "with hooks", nothing, with_hooks, 2, 20 },
    { "salted, the drain expires", nothing, salted, 2, 20 },
    { "live", nothing, live, 1, 12 },
    { "live, and all ranks go back", nothing, live_goes_back, 1, 12 },
    { "live, without an answer", nothing, live_is_silent, 1, 12 },
    { "live, and the call comes to work late", nothing, live_comes_late, 1, 12 },
    { "live, and it says yes and did nothing", nothing, live_lies, 1, 12 },
    { "live, and the engine ends itself", nothing, live_dies, 1, 12 },
    { "live, and nothing can be read back", nothing, live_is_unread, 1, 16 },
};
enum { SCENARIOS_COUNT = sizeof SCENARIOS / sizeof SCENARIOS[0], LIVE_FIRST = SCENARIOS_COUNT - 7 };

static struct world *begin(const struct scenario *scenario)
{
    struct world *world = world_create(1, scenario->engines, 1);
    scenario->prepare(world);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 2 * S);
    cr_assert(world_serves(world, 0, 1), "%s: does not start", scenario->name);
    scenario->spoil(world);
    return world;
}

/* Everything that must hold once the faults are over. */
static void expect_converged(struct world *world, const struct scenario *scenario, uint32_t at,
                             enum crash_mode mode)
{
    const struct world_group *group = &world->groups[0];
    uint64_t committed = world_committed(world, 0);
    const char *name = scenario->name;
    cr_assert(world->violation[0] == '\0', "%s, crash %u of mode %d: %s", name, at, mode,
              world->violation);
    cr_assert(committed == 1 || committed == 2);
    cr_assert(world_serves(world, 0, committed),
              "%s, crash %u of mode %d: does not serve %llu: %s: %s", name, at, mode,
              (unsigned long long)committed, agent_group_state_name(group->report.state),
              group->message);
    cr_assert(!group->ticket_open, "%s, crash %u of mode %d: no outcome", name, at, mode);
    cr_assert_eq(world->hello_open_tickets, 0, "%s, crash %u of mode %d: session before outcome",
                 name, at, mode);
}

/* Runs with up to two crashes, at boundaries 'first' and 'second' (0: none); returns how many
 * boundaries there were after the last crash. */
static uint32_t run(const struct scenario *scenario, uint32_t first, uint32_t second,
                    enum crash_mode mode)
{
    const uint32_t crashes[] = { first, second };
    struct world *world = begin(scenario);
    uint64_t swap_number = world->groups[0].number + 1;
    world->counting = true;
    world->crash_mode = mode;
    world->crash_at = first;
    world_ticket(world, 0, 2, false);
    for (int i = 0; i < 2; i++) {
        world_run(world, 30 * S);
        if (!world->crashed) {
            break;
        }
        world->crashed = false;
        world->boundaries = 0;
        world->crash_at = i == 0 ? crashes[1] : 0;
        world_run(world, S);
        world_start(world);
    }
    world_run(world, 150 * S);
    uint32_t boundaries = world->boundaries;
    expect_converged(world, scenario, first, mode);
    const struct agent_swap_record *outcome = &world->groups[0].outcome;
    if (outcome->ticket_number == swap_number && outcome->outcome == AGENT_OUTCOME_COMMITTED) {
        cr_assert_eq(world_committed(world, 0), 2);
    }
    world_destroy(world);
    return boundaries;
}

static void crash_everywhere(const struct scenario *scenario)
{
    uint32_t boundaries = run(scenario, 0, 0, CRASH_NEVER);
    cr_assert_geq(boundaries, scenario->boundaries_min, "%s: only %u boundaries", scenario->name,
                  boundaries);
    /* Health checks go on for ever: only those around the swap matter. */
    uint32_t last = boundaries < 60 ? boundaries : 60;
    for (uint32_t at = 1; at <= last; at++) {
        run(scenario, at, 0, CRASH_BEFORE);
        run(scenario, at, 0, CRASH_AFTER);
        run(scenario, at, 0, CRASH_AFTER_LATE);
    }
}

Test(agent_crash, anywhere_in_a_swap)
{
    for (int i = 0; i < 3; i++) {
        crash_everywhere(&SCENARIOS[i]);
    }
}

Test(agent_crash, anywhere_in_a_restore)
{
    for (int i = 3; i < 7; i++) {
        crash_everywhere(&SCENARIOS[i]);
    }
}

Test(agent_crash, anywhere_on_the_way_out)
{
    for (int i = 7; i < LIVE_FIRST; i++) {
        crash_everywhere(&SCENARIOS[i]);
    }
}

Test(agent_crash, anywhere_in_a_live_swap)
{
    for (int i = LIVE_FIRST; i < SCENARIOS_COUNT; i++) {
        crash_everywhere(&SCENARIOS[i]);
    }
}

/* Recovery itself dies too, at each of its own boundaries. */
Test(agent_crash, twice)
{
    const struct scenario *scenario = &SCENARIOS[3];
    for (uint32_t first = 2; first <= 34; first += 3) {
        for (uint32_t second = 1; second <= 24; second++) {
            run(scenario, first, second, CRASH_AFTER_LATE);
            run(scenario, first, second, CRASH_AFTER);
        }
    }
}
