/* agent_swarm_test.c -- random worlds: any fault at any time, then peace; everything must converge.
 *
 * BATON_SWARM_SEEDS says how many seeds (default 100).  A failing seed is printed. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "api/base/random.h"
#include "tests/unit/agent_world.h"

struct storm {
    struct world *world;
    struct baton_random random;
    uint64_t newest; /* Highest version published. */
};

static uint64_t below(struct storm *storm, uint64_t bound)
{
    return baton_random_below(&storm->random, bound);
}

static struct world_engine *any_engine(struct storm *storm, uint32_t *group, uint32_t *engine)
{
    *group = (uint32_t)below(storm, storm->world->config.groups_count);
    *engine = (uint32_t)below(storm, storm->world->groups_config[*group].engines_count);
    return &storm->world->engines[*group][*engine];
}

static void break_something(struct storm *storm)
{
    static const enum agent_op_kind kinds[] = {
        AGENT_OP_ATTACH, AGENT_OP_HEALTH,     AGENT_OP_SET_GATE, AGENT_OP_RAISE_FENCE,
        AGENT_OP_PAUSE,  AGENT_OP_UPDATE,     AGENT_OP_UPDATE,   AGENT_OP_UPDATE,
        AGENT_OP_LABEL,  AGENT_OP_INVALIDATE, AGENT_OP_RESUME,   AGENT_OP_PROBE,
        AGENT_OP_SLEEP,  AGENT_OP_WAKE,
    };
    static const enum fault faults[] = { FAULT_FAIL,   FAULT_FAIL_BACK, FAULT_HANG,  FAULT_LATE,
                                         FAULT_SILENT, FAULT_STUCK,     FAULT_STRAY, FAULT_DIE };
    uint32_t group;
    uint32_t index;
    struct world_engine *engine = any_engine(storm, &group, &index);
    enum agent_op_kind kind = kinds[below(storm, sizeof kinds / sizeof kinds[0])];
    enum fault fault = faults[below(storm, sizeof faults / sizeof faults[0])];
    bool update = kind == AGENT_OP_UPDATE;
    if (!update && (fault == FAULT_FAIL_BACK || fault == FAULT_STRAY)) {
        fault = FAULT_FAIL;
    }
    if (kind == AGENT_OP_SET_GATE && fault == FAULT_LATE) {
        fault = FAULT_SILENT; /* The agent writes the page itself: at once, or never. */
    }
    engine->late_ns = below(storm, 40) * S + MS;
    world_fault(engine, kind, fault, 1 + (uint32_t)below(storm, 3));
    if (update && below(storm, 4) == 0) {
        world_fault(engine, kind, FAULT_LIE, 1);
    }
}

static void publish(struct storm *storm)
{
    if (storm->newest < 14) {
        storm->newest++;
    }
    for (uint32_t i = 0; i < storm->world->config.groups_count; i++) {
        world_goals(storm->world, i, storm->world->groups[i].target_seq, storm->newest);
    }
}

static void swap(struct storm *storm)
{
    uint32_t group = (uint32_t)below(storm, storm->world->config.groups_count);
    const struct world_group *of = &storm->world->groups[group];
    if (!of->ticket_open && of->stage_seq > of->report.committed.seq &&
        of->report.state == AGENT_GROUP_STAGED) {
        world_ticket(storm->world, group, of->stage_seq, false);
    }
}

static void restart_agent(struct storm *storm)
{
    struct world *world = storm->world;
    world->crash_mode = (enum crash_mode)(CRASH_BEFORE + below(storm, 3));
    world->counting = true;
    world->boundaries = 0;
    world->crash_at = 1 + (uint32_t)below(storm, 12);
}

/* A trainer wants a device, or gives it back. */
static void sleep_or_wake(struct storm *storm)
{
    uint32_t index = (uint32_t)below(storm, storm->world->config.groups_count);
    struct world_group *group = &storm->world->groups[index];
    group->sleep = !group->sleep;
    world_goals(storm->world, index, group->target_seq, group->stage_seq);
}

static void disturb(struct storm *storm)
{
    uint32_t group;
    uint32_t engine;
    switch (below(storm, 14)) {
    case 0: publish(storm); break;
    case 1:
    case 2:
    case 3: swap(storm); break;
    case 4:
    case 5:
    case 6: break_something(storm); break;
    case 7: restart_agent(storm); break;
    case 8:
        (void)any_engine(storm, &group, &engine);
        world_kill(storm->world, group, engine, below(storm, 2) == 0);
        break;
    case 9:
        (void)any_engine(storm, &group, &engine);
        world_boot(storm->world, group, engine);
        break;
    case 10:
    case 11: sleep_or_wake(storm); break;
    case 12: storm->world->controller_up = below(storm, 3) != 0; break;
    default: storm->world->landing_fails[below(storm, 15) + 1] = 1; break;
    }
}

static void keep_running(struct world *world)
{
    if (!world->running) {
        world->crashed = false;
        world->counting = false;
        world_start(world);
    }
}

static void calm(struct world *world)
{
    world->controller_up = true;
    world->counting = false;
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        world->groups[i].sleep = false;
        world_goals(world, i, world->groups[i].target_seq, world->groups[i].stage_seq);
        for (uint32_t k = 0; k < world->groups_config[i].engines_count; k++) {
            memset(world->engines[i][k].faults_left, 0, sizeof world->engines[i][k].faults_left);
        }
    }
    memset(world->landing_fails, 0, sizeof world->landing_fails);
}

static void expect_peace(struct world *world, uint64_t seed)
{
    cr_assert(world->violation[0] == '\0', "seed %llu: %s", (unsigned long long)seed,
              world->violation);
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        const struct world_group *group = &world->groups[i];
        cr_assert(world_serves(world, i, world_committed(world, i)),
                  "seed %llu: group %u does not serve %llu: %s, %s: %s", (unsigned long long)seed,
                  i, (unsigned long long)world_committed(world, i),
                  agent_group_state_name(group->report.state), group->blocked, group->message);
        cr_assert(!group->ticket_open, "seed %llu: group %u: a ticket has no outcome",
                  (unsigned long long)seed, i);
    }
}

static void run(uint64_t seed)
{
    struct storm storm = { .newest = 1 };
    baton_random_seed(&storm.random, seed);
    struct world *world = world_create(1 + (uint32_t)below(&storm, 2),
                                       1 + (uint32_t)below(&storm, 3), 1 + below(&storm, 2));
    storm.world = world;
    world->config.recreate_attempts = 1000; /* Peace must come without an operator. */
    for (uint32_t i = 0; i < world->config.groups_count && below(&storm, 4) == 0; i++) {
        world->engines[i][0].plugin = false;
        world->engines[i][0].level = AGENT_LEVEL_LANDED;
    }
    world_serve(world, 1);
    for (int i = 0; i < 60 && world->violation[0] == '\0'; i++) {
        disturb(&storm);
        world_run(world, below(&storm, 5) == 0 ? below(&storm, 20 * S) : below(&storm, 300 * MS));
        keep_running(world);
    }
    calm(world);
    world_run(world, 1500 * S); /* An engine that is lost unseen has its boot bound of 600 s. */
    expect_peace(world, seed);
    world_destroy(world);
}

Test(agent_swarm, converges)
{
    const char *wanted = getenv("BATON_SWARM_SEEDS");
    const char *first = getenv("BATON_SWARM_FIRST");
    uint64_t start = first != NULL ? strtoull(first, NULL, 10) : 1;
    uint64_t count = wanted != NULL ? strtoull(wanted, NULL, 10) : 100;
    for (uint64_t seed = start; seed < start + count; seed++) {
        run(seed);
    }
}
