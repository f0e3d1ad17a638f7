/* controller_rebuild_test.c -- a store that was lost: what agents restate becomes records again, and
 * nothing is swapped because of it. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/controller_world.h"

/* A new, empty store under agents that serve version 7, and one that serves 6. */
static struct world *lost(void)
{
    static struct version_told told;
    struct world *world = world_new();
    told = (struct version_told){ .uid = "0123456789abcdef0123456789abcdef",
                                  .bytes = 1000,
                                  .sources_count = 1 };
    strcpy(told.sources[0].backend, "file");
    strcpy(told.sources[0].location, "/shared/v7");
    for (uint32_t i = 0; i < 3; i++) {
        char name[3] = { 'a', (char)('0' + i), '\0' };
        struct played_agent *agent = world_agent(world, name);
        char group[3] = { 'g', (char)('0' + i), '\0' };
        struct group_report *report = &world_add_group(agent, group, "m")->report;
        report->state = GROUP_STATE_SERVING;
        report->gate_open = true;
        report->committed_seq = i == 0 ? 6 : 7;
        memset(report->committed_digest, i == 0 ? '6' : '7', 32);
        report->highest_ticket = 40 + i;
        report->owner_term = 3;
        report->told = i == 1 ? &told : NULL;
        agent->floors[0] = (struct seq_floor){ "m", 8, "" };
        agent->floors_count = 1;
    }
    return world;
}

static struct baton_status ask(struct world *world, enum request_kind kind, bool dry_run)
{
    struct request request = { .kind = kind,
                               .dry_run = dry_run,
                               .options = { .reason = "the disk burnt" } };
    return world_call(world, &request);
}

static void connect(struct world *world, uint32_t i)
{
    cr_assert(world_connect(world, &world->agents[i]), "%s", world->agents[i].closed.message);
}

Test(rebuild, versions_come_back_and_nobody_is_swapped)
{
    struct world *world = lost();
    for (uint32_t i = 0; i < 3; i++) {
        connect(world, i);
    }
    struct baton_status st = ask(world, REQUEST_STORE_REBUILD, true);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world->reply.object.number, 2);
    cr_assert_null(view_model_find(world->core, "m"), "only counted");
    st = ask(world, REQUEST_STORE_REBUILD, false);
    cr_assert(baton_ok(&st), "%s", st.message);
    const struct model_record *model = view_model_find(world->core, "m");
    cr_assert_eq(model->newest_seq, 7);
    cr_assert_eq(model->promoted_seq, 7, "two of three serve it");
    cr_assert_eq(model->seq_floor, 8, "an agent has seen more than anybody serves");
    const struct version_record *version = view_version_find(world->core, "m", 7);
    cr_assert_str_eq(version->uid, "0123456789abcdef0123456789abcdef");
    cr_assert_str_eq(version->sources[0].location, "/shared/v7");
    cr_assert_eq(version->parent_seq, 6);
    cr_assert_eq(view_version_find(world->core, "m", 6)->sources_count, 0);
    world_play(world);
    cr_assert_eq(world_tickets(world), 0);
    cr_assert_eq(world_committed(world, "g0"), 6, "what serves goes on serving");
    st = ask(world, REQUEST_STORE_REBUILD, false);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world->reply.object.number, 0, "nothing is written twice");
    cr_assert_eq(world_publish(world, "m"), 9, "above all that anybody has seen");
    world_play(world);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(world_committed(world, world->agents[i].groups[0].report.group), 9);
        cr_assert_gt(world->agents[i].groups[0].report.highest_ticket, 40 + i);
    }
    world_free(world);
}

/* Who sleeps by its agent's word has given its device away: nobody wakes it because the verb was lost. */
Test(rebuild, sleeper_goes_on_sleeping)
{
    struct world *world = lost();
    struct group_report *asleep = &world->agents[1].groups[0].report;
    asleep->state = GROUP_STATE_ASLEEP;
    asleep->gate_open = false;
    strcpy(asleep->blocked, "GROUP_ASLEEP");
    struct group_report *dead = &world->agents[2].groups[0].report;
    dead->state = GROUP_STATE_OUT;
    dead->gate_open = false;
    strcpy(dead->blocked, "GROUP_ASLEEP");
    for (uint32_t i = 0; i < 3; i++) {
        connect(world, i);
    }
    struct baton_status st = ask(world, REQUEST_STORE_REBUILD, false);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_play(world);
    cr_assert_not(world_record(world, "g0")->asleep);
    cr_assert(world_record(world, "g1")->asleep);
    cr_assert(world_record(world, "g2")->asleep, "its engine's process ended in its sleep");
    cr_assert(world_group(world, "g1")->goal.sleep);
    cr_assert(world_group(world, "g2")->goal.sleep);
    cr_assert_str_eq(world_record(world, "g1")->sleep_reason, "as its agent restated");
    cr_assert_eq(world_tickets(world), 0);
    struct request wake = { .kind = REQUEST_GROUP_WAKE, .group = "g1" };
    st = world_call(world, &wake);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_play(world);
    cr_assert_not(world_group(world, "g1")->goal.sleep);
    world_free(world);
}

/* The rebuilt store is as good as any: a crash right after it loses nothing. */
Test(rebuild, survives_a_restart)
{
    struct world *world = lost();
    connect(world, 1);
    struct baton_status st = ask(world, REQUEST_STORE_REBUILD, false);
    cr_assert(baton_ok(&st));
    world_restart(world);
    cr_assert_eq(view_model_find(world->core, "m")->promoted_seq, 7);
    for (uint32_t i = 0; i < 3; i++) {
        connect(world, i);
    }
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 6);
    world_free(world);
}

/* An agent that is gone for good holds the floors; an operator attests, with a reason that is logged. */
Test(rebuild, floors_are_attested)
{
    struct world *world = lost();
    for (uint32_t i = 0; i < 3; i++) {
        connect(world, i);
    }
    struct baton_status st = ask(world, REQUEST_STORE_REBUILD, false);
    cr_assert(baton_ok(&st));
    world_restart_generation(world);
    connect(world, 0);
    connect(world, 1);
    cr_assert(view_floors_pending(world->core));
    struct request silent = { .kind = REQUEST_STORE_FLOORS };
    st = world_call(world, &silent);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "without a reason");
    cr_assert(view_floors_pending(world->core));
    st = ask(world, REQUEST_STORE_FLOORS, false);
    cr_assert(baton_ok(&st));
    cr_assert_not(view_floors_pending(world->core));
    cr_assert_eq(world_publish(world, "m"), 9);
    world_free(world);
}
