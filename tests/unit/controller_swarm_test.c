/* controller_swarm_test.c -- random operators, agents and crashes around the controller's core.
 *
 * Each seed is one world: agents come and go, swaps fail, engines and journals are lost, the
 * controller dies, operators use every verb.  After every step the rules are checked from the
 * outside, by what the views say and what the agents were sent; in the end faults stop and
 * everything must converge.  The world also compares the store, the core and a rebuilt core after
 * every step. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/random.h"
#include "tests/unit/controller_world.h"

enum {
    AGENTS = 3,
    GROUPS_EACH = 2,
    GROUPS = AGENTS * GROUPS_EACH,
    STEPS = 120,
    SEEDS = 48,
    AWAY_MAX = 2
};

/* What was seen of a group's ticket after the last step. */
struct seen_ticket {
    char uid[BATON_UID_TEXT_BYTES];
    uint64_t to_seq;
    uint64_t number;
};

struct swarm {
    struct world *world;
    struct baton_random random;
    struct seen_ticket seen[GROUPS];
    uint64_t newest;
    uint32_t lives;
    bool barrier; /* All groups swap together. */
    uint64_t seed;
};

static uint32_t pick(struct swarm *swarm, uint32_t bound)
{
    return (uint32_t)baton_random_below(&swarm->random, bound);
}

/* Worlds differ in what their policy asks for; 'plain': nothing that waits for people or time. */
static void apply(struct swarm *swarm, bool plain)
{
    static const char *const names[] = { "eval" };
    static const struct check_spec checks[] = { { .name = "eval", .kind = "Manual" } };
    static const struct canary_spec steps[] = {
        { .groups = "1", .soak_ms = 3000, .hold = true },
        { .groups = "50%", .checks = names, .checks_count = 1 },
    };
    static const char *const actions[] = { "report", "pause", "rollback" };
    uint64_t seed = swarm->seed;
    swarm->barrier = seed % 3 == 0;
    struct policy_spec spec = { .max_unavailable = "2",
                                .strategy = swarm->barrier ? "Barrier" : "Rolling",
                                .barrier_quorum = seed % 2 == 0 ? "60%" : NULL,
                                .barrier_deadline_ms = 5000 };
    if (!plain) {
        spec.roll.soak_ms = seed % 4 < 2 ? 2000 : 0;
        spec.roll.progress_action = actions[seed % 5 % 3];
        spec.progress_deadline_ms = seed % 5 == 0 ? 10000 : 0;
    }
    if (!plain && !swarm->barrier && seed % 2 == 0) {
        spec.roll.canary = steps;
        spec.roll.canary_count = 2;
        spec.roll.checks = checks;
        spec.roll.checks_count = 1;
    }
    struct baton_status st = world_apply(swarm->world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void setup(struct swarm *swarm, uint64_t seed)
{
    memset(swarm, 0, sizeof(*swarm));
    baton_random_seed(&swarm->random, seed);
    swarm->world = world_new();
    swarm->seed = seed;
    apply(swarm, false);
    for (uint32_t i = 0; i < AGENTS; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "a%u", i);
        struct played_agent *agent = world_agent(swarm->world, name);
        for (uint32_t k = 0; k < GROUPS_EACH; k++) {
            (void)snprintf(name, sizeof(name), "g%u", i * GROUPS_EACH + k);
            (void)world_add_group(agent, name, "m");
        }
    }
}

static bool is_away(const struct world *world, const struct group_record *group)
{
    struct group_status status;
    view_group_status(world->core, group, world->wall_ns, &status);
    bool never = group->committed_seq == 0 && status.state != GROUP_STATE_OUT;
    bool rolls = group->ticket_open && !group->ticket.rejoin;
    bool first = status.report != NULL && (never || group->as_new) && !rolls;
    bool serves = status.report != NULL && status.report->gate_open;
    return !first && !group->retired && (group->ticket_open || !serves);
}

static uint32_t count_away(const struct world *world)
{
    uint32_t away = 0;
    for (uint32_t i = 0; i < view_groups_count(world->core); i++) {
        away += is_away(world, view_group_at(world->core, i));
    }
    return away;
}

/* Invariants 4, 8 and 12 from the outside. */
static void check_tickets(struct swarm *swarm, const struct world *world)
{
    for (uint32_t i = 0; i < view_groups_count(world->core); i++) {
        const struct group_record *group = view_group_at(world->core, i);
        struct seen_ticket *seen = &swarm->seen[group->name[1] - '0'];
        if (!group->ticket_open) {
            continue;
        }
        if (strcmp(seen->uid, group->ticket.uid) == 0) {
            cr_assert_eq(seen->to_seq, group->ticket.to_seq, "%s was re-aimed", group->name);
            continue;
        }
        cr_assert_gt(group->ticket.number, seen->number, "%s: numbers rise", group->name);
        cr_assert(group->ticket.rejoin || group->ticket.barrier || count_away(world) <= AWAY_MAX,
                  "%s: ticket %s beyond the budget", group->name, group->ticket.uid);
        memcpy(seen->uid, group->ticket.uid, sizeof(seen->uid));
        seen->to_seq = group->ticket.to_seq;
        seen->number = group->ticket.number;
    }
}

/* Exactly one reason for a group that is not where its roll wants it and has no ticket. */
static void check_reasons(const struct world *world)
{
    const struct model_record *model = view_model_find(world->core, "m");
    for (uint32_t i = 0; i < view_groups_count(world->core); i++) {
        const struct group_record *group = view_group_at(world->core, i);
        enum blocked_reason reason = world_blocked(world, group->name);
        bool behind =
            model->active_roll != 0 && world_committed(world, group->name) !=
                                           world_roll(world, "m", model->active_roll)->to_seq;
        bool apart = group->retired || group->returning;
        cr_assert(reason != BLOCKED_NONE || group->ticket_open || !behind || apart,
                  "%s waits for nothing", group->name);
        cr_assert(!group->retired || (reason == BLOCKED_NONE && !group->ticket_open));
    }
}

/* The steps of seeds that have a canary: no more groups are on the roll's version, or on their way
 * to it by a ticket of the roll, than the present step lets go. */
static void check_canary(const struct world *world)
{
    const struct model_record *model = view_model_find(world->core, "m");
    const struct roll_record *roll = view_roll_find(world->core, "m", model->active_roll);
    if (model->active_roll == 0 || roll->canary_passed || model->policy.roll.canary_count == 0) {
        return;
    }
    uint32_t begun = 0;
    for (uint32_t i = 0; i < view_groups_count(world->core); i++) {
        const struct group_record *group = view_group_at(world->core, i);
        begun += group->ticket_open && group->ticket.roll_number == roll->number;
    }
    cr_assert_leq(begun, roll->canary_step == 0 ? 1 : GROUPS / 2, "beyond canary step %u",
                  roll->canary_step);
}

static void check(struct world *world, void *context)
{
    if (view_is_started(world->core)) {
        check_tickets(context, world);
        check_reasons(world);
        check_canary(world);
    }
}

static struct played_agent *some_agent(struct swarm *swarm)
{
    return &swarm->world->agents[pick(swarm, AGENTS)];
}

static void lose_journal(struct swarm *swarm, struct played_agent *agent)
{
    (void)snprintf(agent->incarnation, sizeof(agent->incarnation), "life-%u", ++swarm->lives + 1);
    agent->landed_count = 0;
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        struct played_group *group = &agent->groups[i];
        group->has_ticket = false;
        group->report.barrier = BARRIER_STAND_NONE;
        group->report.ticket_uid[0] = '\0';
        group->report.state = GROUP_STATE_JOINING;
        group->report.gate_open = false;
        group->report.committed_seq = 0;
        group->report.committed_digest[0] = '\0';
        group->report.highest_ticket = 0;
        group->report.owner_term = 0;
    }
    (void)world_connect(swarm->world, agent);
}

static void lose_engine(struct swarm *swarm, struct played_agent *agent)
{
    struct played_group *group = &agent->groups[pick(swarm, GROUPS_EACH)];
    if (agent->session == 0 || group->has_ticket) {
        return;
    }
    group->report.state = group->report.committed_seq == 0 ? GROUP_STATE_JOINING : GROUP_STATE_OUT;
    group->report.gate_open = false;
    world_report(swarm->world, agent, NULL, 0);
}

/* A group of a barrier takes its next step, mostly. */
static bool move_on(struct swarm *swarm, struct played_group *group)
{
    const char *name = group->report.group;
    enum barrier_stand stand = group->report.barrier;
    if (!group->ticket.barrier || pick(swarm, 10) == 0) {
        return false;
    }
    if (group->word == BARRIER_WORD_CANCEL) {
        world_finish(swarm->world, name, SWAP_OUTCOME_PAUSE_TIMEOUT);
    } else if (group->word == BARRIER_WORD_OPEN) {
        world_finish(swarm->world, name, SWAP_OUTCOME_COMMITTED);
    } else if (stand == BARRIER_STAND_NONE || group->word == BARRIER_WORD_GO) {
        world_stand(swarm->world, name,
                    stand < BARRIER_STAND_COMMITTED ? (enum barrier_stand)(stand + 1) : stand);
    }
    return true;
}

/* What a group of a barrier may do by itself: before it is shut give up, then only be out. */
static enum swap_outcome some_outcome(struct swarm *swarm, const struct played_group *group)
{
    if (group->ticket.barrier) {
        return group->report.barrier == BARRIER_STAND_NONE ? SWAP_OUTCOME_PAUSE_TIMEOUT
                                                           : SWAP_OUTCOME_OUT;
    }
    return pick(swarm, 10) < 6 ? SWAP_OUTCOME_COMMITTED
                               : (enum swap_outcome)(SWAP_OUTCOME_REFUSED + pick(swarm, 4));
}

static void end_ticket(struct swarm *swarm, struct played_agent *agent)
{
    for (uint32_t i = 0; agent->session != 0 && i < agent->groups_count; i++) {
        struct played_group *group = &agent->groups[i];
        if (group->has_ticket) {
            if (!move_on(swarm, group)) {
                world_finish(swarm->world, group->report.group, some_outcome(swarm, group));
            }
            return;
        }
    }
}

static void come_between(struct swarm *swarm);

/* All agents speak at once: what follows from their reports comes in one step, with whatever comes next. */
static void speak_together(struct swarm *swarm)
{
    struct world *world = swarm->world;
    world->together = true;
    for (uint32_t i = 0; i < AGENTS; i++) {
        end_ticket(swarm, &world->agents[i]);
        if (world->agents[i].session != 0) {
            world_report(world, &world->agents[i], NULL, 0);
        }
    }
    world->together = false;
    come_between(swarm);
    world_apart(world);
}

static void operate(struct swarm *swarm)
{
    static const enum request_kind verbs[] = {
        REQUEST_ROLL_PAUSE,   REQUEST_ROLL_RESUME,       REQUEST_ROLL_UNDO,
        REQUEST_ROLL_START,   REQUEST_MODEL_SUSPEND,     REQUEST_MODEL_RESUME,
        REQUEST_MODEL_RESUME, REQUEST_ROLL_ADVANCE,      REQUEST_ROLL_ADVANCE,
        REQUEST_ROLL_PROMOTE, REQUEST_ROLL_ABORT,        REQUEST_ROLL_RETRY,
        REQUEST_MODEL_HOLD,   REQUEST_ROLL_REPORT_CHECK,
    };
    uint32_t verb = pick(swarm, sizeof(verbs) / sizeof(verbs[0]));
    struct request request = { .kind = verbs[verb], .model = "m", .options.reason = "chance" };
    if (request.kind == REQUEST_ROLL_REPORT_CHECK) {
        request.body.check.check = "eval";
        request.body.check.verdict = pick(swarm, 3) == 0 ? CHECK_STATE_FAILED : CHECK_STATE_PASSED;
    }
    (void)world_call(swarm->world, &request);
}

/* A verb about one group, or about one version. */
static void operate_on_one(struct swarm *swarm)
{
    static const enum request_kind verbs[] = {
        REQUEST_GROUP_CORDON,  REQUEST_GROUP_UNCORDON,     REQUEST_GROUP_DRAIN,
        REQUEST_GROUP_PIN,     REQUEST_GROUP_UNPIN,        REQUEST_GROUP_UNCORDON,
        REQUEST_GROUP_RETIRE,  REQUEST_GROUP_RETIRE,       REQUEST_VERSION_PIN,
        REQUEST_VERSION_UNPIN, REQUEST_VERSION_QUARANTINE, REQUEST_VERSION_UNQUARANTINE,
    };
    char name[8];
    (void)snprintf(name, sizeof(name), "g%u", pick(swarm, GROUPS));
    struct request request = { .kind = verbs[pick(swarm, sizeof(verbs) / sizeof(verbs[0]))] };
    if (request.kind >= REQUEST_VERSION_PIN) {
        request.model = "m";
        request.to_seq = 1 + pick(swarm, (uint32_t)swarm->newest);
        request.body.quarantine.evict = pick(swarm, 2) == 0;
    } else {
        request.group = name;
        request.body.retire.attest_dead =
            request.kind == REQUEST_GROUP_RETIRE && pick(swarm, 2) == 0;
    }
    (void)world_call(swarm->world, &request);
}

static void lift_all(struct swarm *swarm)
{
    for (uint32_t i = 0; i < GROUPS; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "g%u", i);
        struct request request = { .kind = REQUEST_GROUP_UNCORDON, .group = name };
        (void)world_call(swarm->world, &request);
        request.kind = REQUEST_GROUP_UNPIN;
        (void)world_call(swarm->world, &request);
    }
    for (uint64_t seq = 1; seq <= swarm->newest; seq++) {
        struct request request = { .kind = REQUEST_VERSION_UNQUARANTINE,
                                   .model = "m",
                                   .to_seq = seq };
        (void)world_call(swarm->world, &request);
    }
}

static void publish(struct swarm *swarm)
{
    uint64_t seq = world_publish(swarm->world, "m");
    cr_assert(seq > swarm->newest, "seq %llu after %llu", (unsigned long long)seq,
              (unsigned long long)swarm->newest);
    swarm->newest = seq;
}

/* What may come right behind reports.  Not a restart: played agents tell an outcome once. */
static void come_between(struct swarm *swarm)
{
    struct played_agent *agent = some_agent(swarm);
    switch (pick(swarm, 6)) {
    case 0: publish(swarm); break;
    case 1: operate(swarm); break;
    case 2: operate_on_one(swarm); break;
    case 3: (void)world_connect(swarm->world, agent); break;
    case 4:
        if (agent->session != 0) {
            world_disconnect(swarm->world, agent);
        }
        break;
    default: break;
    }
}

static void fate(struct swarm *swarm)
{
    struct world *world = swarm->world;
    struct played_agent *agent = some_agent(swarm);
    uint32_t dice = pick(swarm, 100);
    if (dice < 10) {
        publish(swarm);
    } else if (dice < 16) {
        operate(swarm);
    } else if (dice < 22) {
        operate_on_one(swarm);
    } else if (dice < 45 && swarm->seed % 2 == 1) {
        speak_together(swarm);
    } else if (dice < 45) {
        end_ticket(swarm, agent);
    } else if (dice < 65) {
        if (agent->session != 0) {
            world_report(world, agent, NULL, 0);
        }
    } else if (dice < 75) {
        world_pass(world, baton_random_below(&swarm->random, 5 * SEC));
    } else if (dice < 83) {
        (void)world_connect(world, agent);
    } else if (dice < 87 && agent->session != 0) {
        world_disconnect(world, agent);
    } else if (dice < 90) {
        world_pass_silent(world, 11 * SEC);
    } else if (dice < 94) {
        lose_engine(swarm, agent);
    } else if (dice < 96) {
        lose_journal(swarm, agent);
    } else if (dice < 98) {
        world_restart(world);
    }
}

/* Faults stop, the operator resumes everything: all groups must reach the newest version. */
static void heal(struct swarm *swarm)
{
    struct world *world = swarm->world;
    lift_all(swarm);
    (void)world_verb(world, REQUEST_MODEL_RESUME, "m", 0);
    (void)world_verb(world, REQUEST_ROLL_START, "m", 0);
    (void)world_verb(world, REQUEST_ROLL_RESUME, "m", 0);
    for (uint32_t i = 0; i < AGENTS; i++) {
        cr_assert(world_connect(world, &world->agents[i]));
    }
    apply(swarm, true);
    publish(swarm);  /* The newest may be quarantined. */
    lift_all(swarm); /* Retired groups that were drained return now. */
    for (int minutes = 0; minutes < 20; minutes++) {
        world_play(world);
        world_pass(world, 30 * SEC);
    }
    world_play(world);
    for (uint32_t i = 0; i < GROUPS; i++) {
        const struct group_record *group = view_group_at(world->core, i);
        cr_assert_eq(world_committed(world, group->name), swarm->newest, "%s waits: %d",
                     group->name, (int)world_blocked(world, group->name));
    }
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, swarm->newest);
    cr_assert_eq(count_away(world), 0);
}

static void run(uint64_t seed)
{
    struct swarm swarm;
    setup(&swarm, seed);
    swarm.world->after_step = check;
    swarm.world->after_step_context = &swarm;
    swarm.world->check_every = 13;
    publish(&swarm);
    for (uint32_t i = 0; i < STEPS; i++) {
        fate(&swarm);
    }
    heal(&swarm);
    world_free(swarm.world);
}

/* The last seed that was printed is the failing one; run() replays it. */
Test(swarm, worlds_converge)
{
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        run(seed);
    }
}
