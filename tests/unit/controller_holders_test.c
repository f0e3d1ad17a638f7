/* controller_holders_test.c -- whom agents are told to pull versions from, on virtual time. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/controller_world.h"

enum { AGENTS = 5 };

/* Agents a0 to a4 with a group each, all on version 1; those whose bit is set serve peers. */
static struct world *serving(unsigned peers)
{
    struct world *world = world_new();
    struct policy_spec spec = { .trigger = NULL };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish(world, "m"), 1);
    for (unsigned i = 0; i < AGENTS; i++) {
        char name[BATON_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "a%u", i);
        struct played_agent *agent = world_agent(world, name);
        if ((peers & 1U << i) != 0) {
            (void)snprintf(agent->peer_address, sizeof(agent->peer_address), "a%u:7072", i);
        }
        (void)snprintf(name, sizeof(name), "g%u", i);
        (void)world_add_group(agent, name, "m");
        cr_assert(world_connect(world, agent), "%s", agent->closed.message);
    }
    world_play(world);
    return world;
}

static void expect_holders(struct world *world, const char *const expected[AGENTS])
{
    for (unsigned i = 0; i < AGENTS; i++) {
        char name[BATON_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "a%u", i);
        cr_assert_str_eq(world_agent(world, name)->holders, expected[i], "%s: '%s'", name,
                         world_agent(world, name)->holders);
    }
}

/* Each pulls from the two before it: the first reads the source, and nobody waits for himself in a circle. */
Test(controller_holders, the_fleet_is_a_line)
{
    struct world *world = serving(0x1F);
    cr_assert_eq(world_publish(world, "m"), 2);
    expect_holders(world, (const char *const[]){ "", "a0", "a1 a0", "a2 a1", "a3 a2" });
    world_play(world);
    /* What has landed needs nobody. */
    expect_holders(world, (const char *const[]){ "", "", "", "", "" });
    world_free(world);
}

/* Who serves no peers is not named, and is told of none. */
Test(controller_holders, agents_without_peers_stay_outside)
{
    struct world *world = serving(0x1D);
    cr_assert_eq(world_publish(world, "m"), 2);
    expect_holders(world, (const char *const[]){ "", "", "a0", "a2 a0", "a3 a2" });
    world_free(world);
}

/* Who comes late gets it also from those behind it that have it; who is away is not named. */
Test(controller_holders, late_joiners)
{
    struct world *world = serving(0x1F);
    world_disconnect(world, world_agent(world, "a0"));
    world_disconnect(world, world_agent(world, "a3"));
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_str_eq(world_agent(world, "a1")->holders, "", "nobody is before it");
    cr_assert_str_eq(world_agent(world, "a4")->holders, "a2 a1");
    world_play(world);
    cr_assert(world_hello(world, world_agent(world, "a0"))); /* It did not land it yet. */
    cr_assert_str_eq(world_agent(world, "a0")->holders, "a1 a2 a4");
    cr_assert(world_hello(world, world_agent(world, "a3")));
    cr_assert_str_eq(world_agent(world, "a3")->holders, "a2 a1 a4");
    world_free(world);
}

/* The leader's next Hello names the agent as one that follows in its first group; null: nobody. */
static void name_member(struct played_agent *leader, const char *member)
{
    struct group_report *report = &leader->groups[0].report;
    (void)snprintf(report->members[1], sizeof(report->members[1]), "%s",
                   member == NULL ? "" : member);
}

/* An agent that serves peers and follows in two groups, and g1's leader says so; a5, which leads none, is last in the
 * line. */
static struct played_agent *add_follower(struct world *world, const char *first, const char *second)
{
    name_member(world_agent(world, "a1"), "a5");
    cr_assert(world_connect(world, world_agent(world, "a1")));
    struct played_agent *follower = world_agent(world, "a5");
    (void)snprintf(follower->peer_address, sizeof(follower->peer_address), "a5:7072");
    follower->follows[0] = first;
    follower->follows[1] = second;
    cr_assert(world_connect(world, follower), "%s", follower->closed.message);
    return follower;
}

/* What a leader tells its followers to land they pull as the others do, and they pass it on; each version is named
 * once, and nothing is of a group that does not exist. */
Test(controller_holders, followers_are_in_the_line)
{
    struct world *world = serving(0x1F);
    struct played_agent *follower = add_follower(world, "g1", "g9");
    cr_assert_str_eq(follower->followed, "1: a4 a3", "what its group serves already: '%s'",
                     follower->followed);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_str_eq(follower->followed, "1: a4 a3, 2: a4 a3", "'%s'", follower->followed);
    struct played_agent *next = world_agent(world, "a6");
    (void)snprintf(next->peer_address, sizeof(next->peer_address), "a6:7072");
    (void)world_add_group(next, "g9", "m");
    name_member(next, "a5");
    cr_assert(world_hello(world, next), "%s", next->closed.message); /* It landed nothing yet. */
    cr_assert_str_eq(next->holders, "a5 a4", "'%s'", next->holders);
    world_disconnect(world, world_agent(world, "a4"));
    cr_assert_eq(world_publish(world, "m"), 3);
    cr_assert_neq(strstr(follower->followed, "3: a3 a2"), NULL, "'%s'", follower->followed);
    follower->follows[0] = NULL;
    follower->follows[1] = NULL;
    cr_assert(world_hello(world, follower));
    cr_assert_str_eq(follower->followed, "", "it follows nobody any more: '%s'",
                     follower->followed);
    world_free(world);
}

/* A group that is first heard of after its follower, and what happens to it then. */
Test(controller_holders, a_follower_may_come_before_its_leader)
{
    struct world *world = serving(0x1F);
    struct played_agent *follower = add_follower(world, "g7", NULL);
    cr_assert_str_eq(follower->followed, "");
    struct played_agent *leader = world_agent(world, "a7");
    (void)world_add_group(leader, "g7", "m");
    name_member(leader, "a5");
    cr_assert(world_connect(world, leader), "%s", leader->closed.message);
    cr_assert_str_eq(follower->followed, "1: a4 a3", "'%s'", follower->followed);
    world_free(world);
}

/* Its own word gives an agent no version of a group that others lead, and no place in the line of its model. */
Test(controller_holders, who_is_not_named_follows_nobody)
{
    struct world *world = serving(0x1F);
    struct played_agent *leader = world_agent(world, "a1");
    struct played_agent *follower = add_follower(world, "g0", "g2");
    struct played_agent *next = world_agent(world, "a6");
    (void)snprintf(next->peer_address, sizeof(next->peer_address), "a6:7072");
    (void)world_add_group(next, "g6", "m");
    cr_assert(world_connect(world, next), "%s", next->closed.message);
    world_play(world);
    cr_assert_eq(world_publish(world, "m"), 2);
    cr_assert_str_eq(follower->followed, "", "'%s'", follower->followed);
    cr_assert_str_eq(next->holders, "a4 a3", "'%s'", next->holders);
    follower->follows[0] = "g1";
    cr_assert(world_hello(world, follower));
    cr_assert_neq(strstr(follower->followed, "2: a4 a3"), NULL, "'%s'", follower->followed);
    name_member(leader, NULL);
    cr_assert(world_hello(world, leader));
    cr_assert_str_eq(follower->followed, "", "no longer: '%s'", follower->followed);
    cr_assert_str_eq(next->holders, "a4 a3", "'%s'", next->holders);
    world_free(world);
}

/* Between zones a version goes once: from the last of one to the first of the next, though names are in another order. */
Test(controller_holders, zones_are_stretches_of_the_line)
{
    static const char *const zones[AGENTS] = { "b", "a", "b", "a", "b" };
    struct world *world = serving(0x1F);
    for (unsigned i = 0; i < AGENTS; i++) {
        char name[BATON_NAME_BYTES];
        (void)snprintf(name, sizeof(name), "a%u", i);
        world_agent(world, name)->peer_zone = zones[i];
        cr_assert(world_connect(world, world_agent(world, name)));
    }
    cr_assert_eq(world_publish(world, "m"), 2);
    /* The line: a1 a3 | a0 a2 a4. */
    expect_holders(world, (const char *const[]){ "a3 a1", "", "a0 a3!", "a1", "a2 a0" });
    world_free(world);
}

/* The plan says so in words before anything is rolled. */
Test(controller_holders, the_plan_says_why)
{
    struct world *world = serving(0x1D);
    struct plan plan;
    struct plan_group items[AGENTS];
    struct policy_spec spec = { .trigger = "Manual" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(world_publish(world, "m"), 2);
    struct plan_request request = { 0, "" };
    view_plan(world->core, view_model_find(world->core, "m"), &request, &plan, items, AGENTS);
    cr_assert_eq(plan.groups, AGENTS);
    const char *const expected[AGENTS] = {
        "from the source's directory: no peer has it or gets it first",
        "from the source's directory: its agent has no peers.listen",
        "from peers: a0; else the source's directory",
        "from peers: a2, then a0; else the source's directory",
        "from peers: a3, then a2; else the source's directory",
    };
    for (uint32_t i = 0; i < AGENTS; i++) {
        unsigned number = (unsigned)(items[i].group->name[1] - '0');
        cr_assert_str_eq(items[i].route, expected[number]);
    }
    world_free(world);
}
