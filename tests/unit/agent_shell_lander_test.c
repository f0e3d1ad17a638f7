/* agent_shell_lander_test.c -- landings and deletions of one version, one after the other and at once. */
#include "agent/shell/lander.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

struct world {
    char *dir;
    char *checkpoint;
    char *source_dir;
    char *landing_dir;
    struct landing_root *source;
    struct baton_mailbox *mailbox;
    struct lander *lander;
    struct agent_source from;
    struct agent_version_goal goal;
};

static void on_lander(void *target, void *argument)
{
    (void)target;
    free(argument);
}

/* A version in a source directory, and a lander that has nothing yet. */
static void open_world(struct world *world)
{
    struct manifest *manifest = NULL;
    memset(world, 0, sizeof(*world));
    world->dir = maker_directory();
    world->checkpoint = maker_join(world->dir, "checkpoint");
    world->source_dir = maker_join(world->dir, "source");
    world->landing_dir = maker_join(world->dir, "landing");
    cr_assert_eq(mkdir(world->checkpoint, 0755), 0);
    maker_checkpoint(world->checkpoint, 0);
    struct landing_root_options root = { world->source_dir, 0 };
    struct baton_status st = landing_root_open(&root, &world->source);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = landing_import_directory(world->source, world->checkpoint, NULL, NULL, &manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    (void)snprintf(world->from.backend, sizeof(world->from.backend), "file");
    landing_path(world->source, manifest->digest, world->from.location);
    world->goal.version.seq = 1;
    baton_hex_encode(manifest->digest.bytes, sizeof(manifest->digest.bytes),
                     world->goal.version.digest);
    world->goal.sources = &world->from;
    world->goal.sources_count = 1;
    manifest_destroy(manifest);
    st = baton_mailbox_create(16, &world->mailbox);
    cr_assert(baton_ok(&st));
    struct lander_options options = { world->landing_dir, 0, world->mailbox, on_lander, NULL };
    st = lander_create(&options, &world->lander);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void close_world(struct world *world)
{
    struct baton_mailbox_item item;
    lander_destroy(world->lander);
    while (baton_mailbox_take(world->mailbox, 0, &item)) {
        item.run(NULL, item.argument);
    }
    baton_mailbox_destroy(world->mailbox);
    landing_root_close(world->source);
    free(world->checkpoint);
    free(world->source_dir);
    free(world->landing_dir);
    maker_remove(world->dir);
}

static void expect(struct world *world, enum agent_landing_state state)
{
    struct baton_mailbox_item item;
    uint64_t deadline_ns = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S;
    cr_assert(baton_mailbox_take(world->mailbox, deadline_ns, &item));
    struct lander_event *event = item.argument;
    cr_assert_eq(event->landing.state, state, "%s", event->landing.status.message);
    cr_assert_str_eq(event->landing.digest, world->goal.version.digest);
    free(event);
}

/* Deleting goes on beside the loop; what is wanted again meanwhile must be there in the end. */
Test(agent_shell_lander, wanted_again_while_it_is_deleted)
{
    struct world world;
    char path[BATON_PATH_BYTES];
    open_world(&world);
    lander_land(world.lander, &world.goal);
    expect(&world, AGENT_LANDING_DONE);
    for (int i = 0; i < 20; i++) {
        cr_assert(lander_path(world.lander, world.goal.version.digest, path));
        lander_drop(world.lander, world.goal.version.digest);
        lander_drop(world.lander, world.goal.version.digest);
        lander_land(world.lander, &world.goal);
        expect(&world, AGENT_LANDING_DONE);
        cr_assert(lander_path(world.lander, world.goal.version.digest, path));
    }
    close_world(&world);
}

/* The loop itself tells of a landing that cannot begin; with a full mailbox it would wait for itself. */
Test(agent_shell_lander, bad_goal_fails_without_waiting)
{
    struct world world;
    open_world(&world);
    for (int i = 0; i < 16; i++) {
        baton_mailbox_post_sure(world.mailbox, on_lander, NULL);
    }
    (void)snprintf(world.goal.version.digest, sizeof(world.goal.version.digest), "no digest");
    lander_land(world.lander, &world.goal);
    cr_assert_not(lander_is_busy(world.lander));
    expect(&world, AGENT_LANDING_FAILED);
    close_world(&world);
}

static void land_again(void *context, const struct agent_landing_event *event)
{
    struct world *world = context;
    cr_assert_eq(event->state, AGENT_LANDING_PROGRESS);
    lander_land(world->lander, &world->goal);
    lander_cancel(world->lander, world->goal.version.digest);
}

/* Who hears of progress may start and cancel landings. */
Test(agent_shell_lander, progress_may_lead_to_landings)
{
    struct world world;
    open_world(&world);
    lander_land(world.lander, &world.goal);
    while (lander_is_busy(world.lander)) {
        lander_progress(world.lander, land_again, &world);
    }
    lander_land(world.lander, &world.goal);
    close_world(&world);
}
