/* controller_plan_test.c -- swap history, whether rolls keep up with publishes, and plans, on virtual
 * time: what is foretold is then compared with what happens. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/controller_world.h"

enum { GROUPS = 4 };

static struct world *serving(const struct policy_spec *spec)
{
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", GROUPS);
    world_play(world);
    return world;
}

static struct convergence convergence(const struct world *world)
{
    struct model_status status;
    view_model_status(world->core, view_model_find(world->core, "m"), world->wall_ns, &status);
    return status.convergence;
}

static uint64_t max_lag(const struct world *world)
{
    struct model_status status;
    view_model_status(world->core, view_model_find(world->core, "m"), world->wall_ns, &status);
    return status.max_lag_publishes;
}

static void step(struct world *world)
{
    world_pass(world, 1 * SEC);
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct played_agent *agent = &world->agents[i];
        bool busy = agent->groups[0].has_ticket;
        if (!busy) {
            world_report(world, agent, NULL, 0); /* Lands what the goals say. */
        }
    }
}

/* Second by second: a publish every 'every' seconds, and each swap takes 'swap' seconds.  The
 * largest lag of the second half of the time. */
static uint64_t run(struct world *world, uint64_t seconds, uint64_t every, uint64_t swap)
{
    uint64_t since[GROUPS] = { 0 };
    uint64_t most = 0;
    world->check_every = 97;
    for (uint64_t now = 1; now <= seconds; now++) {
        step(world);
        if (now % every == 0) {
            (void)world_publish(world, "m");
        }
        most = now > seconds / 2 && max_lag(world) > most ? max_lag(world) : most;
        for (uint32_t i = 0; i < GROUPS; i++) {
            struct played_group *group = &world->agents[i].groups[0];
            since[i] = group->has_ticket && since[i] == 0 ? now : since[i];
            if (group->has_ticket && now - since[i] >= swap) {
                since[i] = 0;
                world_finish(world, group->report.group, SWAP_OUTCOME_COMMITTED);
            }
        }
    }
    return most;
}

static struct policy_spec slots(const char *max_unavailable)
{
    return (struct policy_spec){ .max_unavailable = max_unavailable };
}

/* Four groups one after another, 9 to 10 s each, and a version every 20 s: never all on the newest.  The
 * lag that is foretold is about the one that is seen, and the budget that is asked for ends it. */
Test(plan, will_not_converge)
{
    struct policy_spec spec = slots("1");
    struct world *world = serving(&spec);
    uint64_t seen = run(world, 600, 20, 9);
    struct convergence verdict = convergence(world);
    cr_assert(verdict.known);
    cr_assert(verdict.will_not, "interval %llu, swap %llu", (unsigned long long)verdict.interval_ns,
              (unsigned long long)verdict.swap_ns);
    /* One more or less: swaps and publishes do not fall together in the same way each time. */
    cr_assert(verdict.steady_lag <= seen + 1 && seen <= verdict.steady_lag + 1,
              "foretold %llu, seen %llu", (unsigned long long)verdict.steady_lag,
              (unsigned long long)seen);
    cr_assert_geq(verdict.needs_max_unavailable, 2);
    cr_assert_not_null(strstr(verdict.message, "WillNotConverge: steady lag"));
    struct model_status status;
    view_model_status(world->core, view_model_find(world->core, "m"), world->wall_ns, &status);
    cr_assert_str_eq(status.conditions.progressing.reason, "WillNotConverge");

    char budget[16];
    (void)snprintf(budget, sizeof(budget), "%u", verdict.needs_max_unavailable);
    spec = slots(budget);
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    (void)run(world, 600, 20, 9);
    verdict = convergence(world);
    cr_assert_not(verdict.will_not, "%s", verdict.message);
    cr_assert_eq(verdict.message[0], '\0');
    world_free(world);
}

/* A swap that takes longer than the publishes' interval: no budget keeps up. */
Test(plan, no_budget_is_enough)
{
    struct policy_spec spec = slots("100%");
    struct world *world = serving(&spec);
    (void)run(world, 300, 5, 10);
    struct convergence verdict = convergence(world);
    cr_assert(verdict.will_not);
    cr_assert_eq(verdict.needs_max_unavailable, 0);
    cr_assert_not_null(strstr(verdict.message, "roll less often"));
    world_free(world);
}

/* What is rolled less often keeps up; what only a person rolls has no verdict. */
Test(plan, the_trigger_counts)
{
    struct policy_spec spec = slots("1");
    struct world *world = serving(&spec);
    (void)run(world, 300, 20, 10);
    cr_assert(convergence(world).will_not);
    spec.trigger = "Interval";
    spec.roll.every_n = 3;
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_not(convergence(world).will_not);
    spec.roll.every_n = 2;
    spec.roll.every_unit = "Seconds";
    st = world_apply(world, "m", &spec);
    cr_assert(convergence(world).will_not);
    spec = (struct policy_spec){ .trigger = "Manual", .max_unavailable = "1" };
    st = world_apply(world, "m", &spec);
    cr_assert_not(convergence(world).known);
    world_free(world);
}

/* Nothing was measured: nothing is said. */
Test(plan, unknown_is_unknown)
{
    struct policy_spec spec = slots("1");
    struct world *world = serving(&spec);
    cr_assert_not(convergence(world).known);
    cr_assert_eq(convergence(world).message[0], '\0');
    world_free(world);
}

/* Each swap that ended is kept, over restarts, oldest first, and no more than the limit. */
Test(plan, history_is_bounded)
{
    struct controller_limits limits = world_limits();
    limits.swaps_kept = 10;
    struct world *world = world_new_limited(&limits);
    struct policy_spec spec = slots("2");
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    world_fleet(world, "m", 2);
    for (uint64_t seq = 1; seq <= 9; seq++) {
        cr_assert_eq(world_publish(world, "m"), seq);
        world_play(world);
        world_pass(world, 1 * SEC);
    }
    cr_assert_eq(view_swaps_count(world->core), 10);
    world_restart(world);
    cr_assert_eq(view_swaps_count(world->core), 10);
    const struct history_record *last = view_swap_at(world->core, 9);
    cr_assert_eq(last->swap.to_seq, 9);
    cr_assert_eq(last->roll_number, view_model_find(world->core, "m")->last_roll_number);
    for (uint32_t i = 1; i < 10; i++) {
        cr_assert_leq(view_swap_at(world->core, i - 1)->closed_wall_ns,
                      view_swap_at(world->core, i)->closed_wall_ns);
    }
    world_free(world);
}

static struct plan plan_of(struct world *world, const char *order, struct plan_group *items)
{
    struct plan plan;
    struct plan_request request = { .order_list = order };
    uint32_t logs = world->logs;
    view_plan(world->core, view_model_find(world->core, "m"), &request, &plan, items, GROUPS);
    cr_assert_eq(logs, world->logs);
    return plan;
}

/* Order, waves and steps that are foretold are those that happen. */
Test(plan, order_and_waves)
{
    static const struct canary_spec steps[] = { { .groups = "1", .soak_ms = 1000 } };
    struct policy_spec spec = { .trigger = "Manual", .max_unavailable = "2" };
    spec.roll.canary = steps;
    spec.roll.canary_count = 1;
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    world_fleet(world, "m", GROUPS);
    cr_assert_eq(world_publish(world, "m"), 1);
    st = world_verb(world, REQUEST_ROLL_START, "m", 0);
    world_play(world);
    struct plan_group items[GROUPS];
    struct plan plan = plan_of(world, "", items);
    cr_assert_eq(plan.waves, 0, "all serve it");
    cr_assert_eq(world_publish(world, "m"), 2);
    plan = plan_of(world, "g2", items);
    cr_assert_eq(plan.groups, GROUPS);
    cr_assert_eq(plan.waves, 3);
    cr_assert_eq(plan.total_ns, 0, "never swapped: unknown");
    static const char *const names[] = { "g2", "g0", "g1", "g3" };
    static const uint32_t waves[] = { 1, 2, 2, 3 };
    for (uint32_t i = 0; i < GROUPS; i++) {
        cr_assert_str_eq(items[i].group->name, names[i]);
        cr_assert_eq(items[i].wave, waves[i], "%s", names[i]);
        cr_assert_eq(items[i].step, i == 0 ? 1 : 0);
        cr_assert_eq(items[i].pause_ns, 0);
        cr_assert_eq(items[i].blocked_reason, BLOCKED_NONE, "%s", items[i].blocked_message);
        cr_assert_eq(items[i].restore, PLAN_RESTORE_LANDED);
    }
    st = world_verb(world, REQUEST_ROLL_START, "m", 0);
    for (uint32_t i = 0; i < 10; i++) {
        world_play(world);
        world_pass(world, 1 * SEC);
    }
    plan = plan_of(world, "", items);
    cr_assert_eq(plan.waves, 0);
    cr_assert_eq(world_publish(world, "m"), 3);
    plan = plan_of(world, "", items);
    cr_assert_eq(world_roll(world, "m", 0)->to_seq, 2, "a plan starts nothing");
    world_free(world);
}

/* What will stop a group is said before, by its reason. */
Test(plan, what_will_block)
{
    struct policy_spec spec = { .trigger = "Manual", .max_unavailable = "1" };
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    world_fleet(world, "m", GROUPS);
    cr_assert_eq(world_publish(world, "m"), 1);
    st = world_verb(world, REQUEST_ROLL_START, "m", 0);
    world_play(world);
    world_group(world, "g0")->report.can_restore = false;
    world_report(world, world_agent(world, "a0"), NULL, 0);
    world_disconnect(world, world_agent(world, "a1"));
    world_pass_silent(world, 1 * SEC);
    cr_assert_eq(world_publish(world, "m"), 2);
    struct plan_group items[GROUPS];
    struct plan plan = plan_of(world, "g0,g1,g2", items);
    cr_assert_eq(plan.refusal[0], '\0');
    cr_assert_eq(items[0].blocked_reason, BLOCKED_NO_RESTORE_SOURCE);
    cr_assert_eq(items[0].restore, PLAN_RESTORE_NONE);
    cr_assert_neq(items[0].blocked_message[0], '\0');
    cr_assert_eq(items[1].blocked_reason, BLOCKED_AGENT_UNKNOWN);
    cr_assert_eq(items[2].blocked_reason, BLOCKED_NONE);
    st = world_verb(world, REQUEST_MODEL_SUSPEND, "m", 0);
    plan = plan_of(world, "", items);
    cr_assert_not_null(strstr(plan.refusal, "suspended"));
    world_free(world);
}

/* Live is what the policy says and the group can.  Who cannot waits with the agent's reason, gets no
 * ticket, and is paused only when the policy says so. */
Test(plan, live)
{
    static const char why[] = "it has several engines";
    struct policy_spec spec = { .max_unavailable = "2", .kv = "keep", .swap_mode = "live" };
    struct world *world = world_new();
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_fleet(world, "m", GROUPS);
    for (uint32_t i = 0; i < GROUPS; i++) {
        struct group_report *report = &world->agents[i].groups[0].report;
        report->can_swap_live = i != 1;
        (void)snprintf(report->live_reason, sizeof(report->live_reason), "%s", i == 1 ? why : "");
    }
    cr_assert_eq(world_publish(world, "m"), 1);
    world_play(world); /* All join, those that cannot swap live too. */
    struct plan_group items[GROUPS];
    (void)plan_of(world, "", items);
    cr_assert_eq(world_publish(world, "m"), 2);
    for (uint32_t i = 0; i < 6; i++) {
        world_play(world);
        world_pass(world, 1 * SEC);
    }
    struct plan plan = plan_of(world, "", items);
    cr_assert_eq(plan.groups, GROUPS);
    uint32_t blocked = 0;
    for (uint32_t i = 0; i < GROUPS; i++) {
        cr_assert_eq(items[i].mode, POLICY_MODE_LIVE);
        blocked += items[i].blocked_reason == BLOCKED_LIVE_IMPOSSIBLE;
        bool one = strcmp(items[i].group->name, "g1") == 0;
        cr_assert_eq(items[i].blocked_reason == BLOCKED_LIVE_IMPOSSIBLE, one, "%s",
                     items[i].group->name);
        cr_assert(!one || strstr(items[i].blocked_message, why) != NULL, "%s",
                  items[i].blocked_message);
        cr_assert_eq(items[i].from_seq, one ? 1 : 2);
        cr_assert(one || items[i].group->last_swap.mode == POLICY_MODE_LIVE);
    }
    cr_assert_eq(blocked, 1);
    cr_assert_eq(world_blocked(world, "g1"), BLOCKED_LIVE_IMPOSSIBLE);
    spec.swap_mode = "pause";
    st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    for (uint32_t i = 0; i < 3; i++) {
        world_play(world);
        world_pass(world, 1 * SEC);
    }
    const struct group_record *group = view_group_find(world->core, "g1");
    cr_assert_eq(group->last_swap.to_seq, 2);
    cr_assert_eq(group->last_swap.mode, POLICY_MODE_PAUSE);
    world_free(world);
}
