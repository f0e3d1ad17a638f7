/* agent_fleet_swarm_test.c -- random fleets of one group: any fault of any agent at any time, then peace.
 *
 * BATON_SWARM_SEEDS says how many seeds (default 60), BATON_SWARM_FIRST the first.  A failing seed is
 * printed. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "api/base/random.h"
#include "tests/unit/agent_fleet.h"

struct storm {
    struct fleet *fleet;
    struct baton_random random;
    uint64_t newest;
};

static uint64_t below(struct storm *storm, uint64_t bound)
{
    return baton_random_below(&storm->random, bound);
}

static struct world *any_agent(struct storm *storm)
{
    return storm->fleet->worlds[below(storm, storm->fleet->count)];
}

static void break_something(struct storm *storm)
{
    static const enum agent_op_kind kinds[] = {
        AGENT_OP_ATTACH, AGENT_OP_SET_GATE, AGENT_OP_RAISE_FENCE, AGENT_OP_PAUSE,
        AGENT_OP_UPDATE, AGENT_OP_UPDATE,   AGENT_OP_LABEL,       AGENT_OP_INVALIDATE,
        AGENT_OP_PROBE,  AGENT_OP_RESUME,   AGENT_OP_SLEEP,       AGENT_OP_WAKE,
    };
    static const enum fault faults[] = { FAULT_FAIL,   FAULT_FAIL_BACK, FAULT_HANG, FAULT_LATE,
                                         FAULT_SILENT, FAULT_STUCK,     FAULT_DIE };
    struct world *world = any_agent(storm);
    struct world_engine *engine =
        &world->engines[0][below(storm, world->groups_config[0].engines_count)];
    enum agent_op_kind kind = kinds[below(storm, sizeof kinds / sizeof kinds[0])];
    enum fault fault = faults[below(storm, sizeof faults / sizeof faults[0])];
    if (kind != AGENT_OP_UPDATE && fault == FAULT_FAIL_BACK) {
        fault = FAULT_FAIL;
    }
    if (kind == AGENT_OP_SET_GATE && fault == FAULT_LATE) {
        fault = FAULT_SILENT; /* The agent writes the page itself: at once, or never. */
    }
    engine->late_ns = below(storm, 40) * S + MS;
    world_fault(engine, kind, fault, 1 + (uint32_t)below(storm, 3));
}

static void swap(struct storm *storm)
{
    struct world *leader = storm->fleet->worlds[0];
    struct world_group *group = &leader->groups[0];
    if (storm->newest < 14 && below(storm, 3) == 0) {
        storm->newest++;
    }
    world_goals(leader, 0, group->target_seq, storm->newest);
    if (!group->ticket_open && group->stage_seq > group->report.committed.seq &&
        group->report.state == AGENT_GROUP_STAGED) {
        world_ticket(leader, 0, group->stage_seq, false);
    }
}

/* A trainer wants the devices, or gives them back. */
static void sleep_or_wake(struct storm *storm)
{
    struct world *leader = storm->fleet->worlds[0];
    leader->groups[0].sleep = !leader->groups[0].sleep;
    world_goals(leader, 0, leader->groups[0].target_seq, leader->groups[0].stage_seq);
}

static void crash_soon(struct storm *storm)
{
    struct world *world = any_agent(storm);
    world->crash_mode = (enum crash_mode)(CRASH_BEFORE + below(storm, 3));
    world->counting = true;
    world->boundaries = 0;
    world->crash_at = 1 + (uint32_t)below(storm, 20);
}

static void lose_disk(struct storm *storm)
{
    uint32_t agent = (uint32_t)below(storm, storm->fleet->count);
    fleet_crash(storm->fleet, agent);
    if (below(storm, 2) == 0) {
        fleet_lose_disk(storm->fleet, agent);
    }
}

static void disturb(struct storm *storm)
{
    struct fleet *fleet = storm->fleet;
    struct world *world = any_agent(storm);
    uint32_t follower = 1 + (uint32_t)below(storm, fleet->count - 1);
    uint32_t engine = (uint32_t)below(storm, world->groups_config[0].engines_count);
    switch (below(storm, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: swap(storm); break;
    case 5:
    case 6: break_something(storm); break;
    case 7:
    case 8: crash_soon(storm); break;
    case 9: world_kill(world, 0, engine, below(storm, 2) == 0); break;
    case 10: world_boot(world, 0, engine); break;
    case 11: fleet_break(fleet, follower, below(storm, 3) == 0); break;
    case 12: lose_disk(storm); break;
    case 13:
    case 14: sleep_or_wake(storm); break;
    default: fleet_mend(fleet, follower); break;
    }
}

/* Agents stay down for a while. */
static void keep_running(struct storm *storm)
{
    for (uint32_t i = 0; i < storm->fleet->count; i++) {
        if (!storm->fleet->worlds[i]->running && below(storm, 3) != 0) {
            fleet_start(storm->fleet, i);
        }
    }
}

static void calm(struct fleet *fleet)
{
    fleet->worlds[0]->groups[0].sleep = false;
    world_goals(fleet->worlds[0], 0, fleet->worlds[0]->groups[0].target_seq,
                fleet->worlds[0]->groups[0].stage_seq);
    for (uint32_t i = 0; i < fleet->count; i++) {
        struct world *world = fleet->worlds[i];
        world->counting = false;
        for (uint32_t k = 0; k < world->groups_config[0].engines_count; k++) {
            memset(world->engines[0][k].faults_left, 0, sizeof world->engines[0][k].faults_left);
        }
        fleet_start(fleet, i);
        fleet_mend(fleet, i);
    }
}

static void expect_peace(const struct fleet *fleet, uint64_t seed)
{
    const struct world_group *group = &fleet->worlds[0]->groups[0];
    cr_assert(fleet->violation[0] == '\0', "seed %llu: %s", (unsigned long long)seed,
              fleet->violation);
    cr_assert(fleet_serves(fleet, world_committed(fleet->worlds[0], 0)),
              "seed %llu: does not serve %llu: %s, %s: %s", (unsigned long long)seed,
              (unsigned long long)world_committed(fleet->worlds[0], 0),
              agent_group_state_name(group->report.state), group->blocked, group->message);
    cr_assert(!group->ticket_open, "seed %llu: a ticket has no outcome", (unsigned long long)seed);
}

static void run(uint64_t seed)
{
    struct storm storm = { .newest = 1 };
    baton_random_seed(&storm.random, seed);
    struct fleet *fleet = fleet_create(2 + (uint32_t)below(&storm, 2),
                                       1 + (uint32_t)below(&storm, 2), 1 + below(&storm, 2));
    storm.fleet = fleet;
    for (uint32_t i = 0; i < fleet->count; i++) {
        fleet->worlds[i]->config.recreate_attempts =
            1000; /* Peace must come without an operator. */
    }
    if (below(&storm, 4) == 0) {
        struct world_engine *engine = &any_agent(&storm)->engines[0][0];
        engine->plugin = false;
        engine->level = AGENT_LEVEL_LANDED;
    }
    fleet_serve(fleet, 1);
    for (int i = 0; i < 60 && fleet->violation[0] == '\0'; i++) {
        disturb(&storm);
        fleet_run(fleet, below(&storm, 5) == 0 ? below(&storm, 20 * S) : below(&storm, 300 * MS));
        keep_running(&storm);
    }
    calm(fleet);
    fleet_run(fleet, 1500 * S); /* An engine that is lost unseen has its boot bound of 600 s. */
    expect_peace(fleet, seed);
    fleet_destroy(fleet);
}

Test(fleet_swarm, converges)
{
    const char *wanted = getenv("BATON_SWARM_SEEDS");
    const char *first = getenv("BATON_SWARM_FIRST");
    uint64_t start = first != NULL ? strtoull(first, NULL, 10) : 1;
    uint64_t count = wanted != NULL ? strtoull(wanted, NULL, 10) : 60;
    for (uint64_t seed = start; seed < start + count; seed++) {
        run(seed);
    }
}
