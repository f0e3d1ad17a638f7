/* agent_shell_janitor_test.c -- which versions a source deletes, by what its controller lists. */
#include "agent/shell/janitor.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/shell/source.h"
#include "api/base/clock.h"
#include "api/rpc/rpc.h"
#include "baton/v1/versions.pb-c.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

enum { VERSIONS = 3 };

/* A controller that lists what the test says, and a source with three old versions. */
struct world {
    char *dir;
    char *versions_dir;
    char digests[VERSIONS][BATON_DIGEST_TEXT_BYTES]; /* Oldest first. */
    char paths[VERSIONS][BATON_PATH_BYTES];
    struct rpc_server *server;
    struct rpc_client *client;
    struct source *source;
    struct janitor *janitor;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* Under the lock. */
    const char *listed; /* Null: none. */
    uint64_t revision;
    unsigned lists;
};

static void serve_list(struct rpc_call *call, const void *request, void *context)
{
    struct world *world = context;
    Baton__V1__ListVersionsResponse *reply =
        baton_wire_new(&baton__v1__list_versions_response__descriptor);
    (void)request;
    (void)pthread_mutex_lock(&world->lock);
    reply->revision = world->revision;
    if (world->listed != NULL) {
        reply->n_versions = 1;
        reply->versions = baton_wire_take(reply, 1, sizeof(*reply->versions));
        reply->versions[0] = baton_wire_part(reply, &baton__v1__version__descriptor);
        reply->versions[0]->digest = baton_wire_text(reply, world->listed);
    }
    world->lists++;
    (void)pthread_cond_broadcast(&world->changed);
    (void)pthread_mutex_unlock(&world->lock);
    rpc_reply(call, reply);
    baton_wire_free(reply);
}

static void make_version(struct world *world, struct landing_root *root, unsigned index)
{
    char name[16];
    struct manifest *manifest = NULL;
    (void)snprintf(name, sizeof(name), "checkpoint%u", index);
    char *checkpoint = maker_join(world->dir, name);
    cr_assert_eq(mkdir(checkpoint, 0755), 0);
    maker_checkpoint(checkpoint, index);
    struct baton_status st = landing_import_directory(root, checkpoint, NULL, NULL, &manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    baton_hex_encode(manifest->digest.bytes, sizeof(manifest->digest.bytes), world->digests[index]);
    landing_path(root, manifest->digest, world->paths[index]);
    struct timespec at = { .tv_sec = 1000 + index };
    struct timespec times[2] = { at, at };
    cr_assert_eq(utimensat(AT_FDCWD, world->paths[index], times, 0), 0);
    manifest_destroy(manifest);
    free(checkpoint);
}

static void make_versions(struct world *world)
{
    char *mine = maker_join(world->versions_dir, "a");
    struct landing_root *root = NULL;
    cr_assert_eq(mkdir(world->versions_dir, 0755), 0);
    struct landing_root_options options = { mine, 0 };
    struct baton_status st = landing_root_open(&options, &root);
    cr_assert(baton_ok(&st), "%s", st.message);
    for (unsigned i = 0; i < VERSIONS; i++) {
        make_version(world, root, i);
    }
    landing_root_close(root);
    free(mine);
}

static void start_server(struct world *world)
{
    static const struct rpc_route routes[] = { { "baton.v1.Versions/List", serve_list, 0 } };
    char address[32];
    struct rpc_listener listener = { "127.0.0.1:0", NULL };
    struct rpc_server_options options = { .routes = routes,
                                          .routes_count = 1,
                                          .context = world,
                                          .listeners = &listener,
                                          .listeners_count = 1 };
    struct baton_status st = rpc_server_create(&options, &world->server);
    cr_assert(baton_ok(&st), "%s", st.message);
    rpc_server_start(world->server);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", rpc_server_port(world->server, 0));
    struct rpc_client_options client = { .target = address };
    st = rpc_client_create(&client, &world->client);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void open_world(struct world *world, const char *listed_index, uint64_t revision)
{
    memset(world, 0, sizeof(*world));
    (void)pthread_mutex_init(&world->lock, NULL);
    (void)pthread_cond_init(&world->changed, NULL);
    world->dir = maker_directory();
    world->versions_dir = maker_join(world->dir, "versions");
    make_versions(world);
    world->listed = listed_index != NULL ? world->digests[listed_index[0] - '0'] : NULL;
    world->revision = revision;
    start_server(world);
    struct source_options source = {
        .agent = "a", .directory = world->versions_dir, .client = world->client, .retain_grace_s = 1
    };
    struct baton_status st = source_create(&source, &world->source);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = janitor_create(world->client, world->source, 10 * BATON_NS_PER_MS, &world->janitor);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void close_world(struct world *world)
{
    janitor_destroy(world->janitor);
    source_destroy(world->source);
    rpc_client_destroy(world->client);
    rpc_server_destroy(world->server);
    (void)pthread_cond_destroy(&world->changed);
    (void)pthread_mutex_destroy(&world->lock);
    free(world->versions_dir);
    maker_remove(world->dir);
}

/* When a third list was asked for, all was done that follows from the first. */
static void wait_lists(struct world *world)
{
    (void)pthread_mutex_lock(&world->lock);
    unsigned wanted = world->lists + 3;
    while (world->lists < wanted) {
        (void)pthread_cond_wait(&world->changed, &world->lock);
    }
    (void)pthread_mutex_unlock(&world->lock);
}

static bool exists(const struct world *world, unsigned index)
{
    struct stat about;
    return stat(world->paths[index], &about) == 0;
}

Test(agent_shell_janitor, deletes_what_nobody_names_but_the_newest)
{
    struct world world;
    open_world(&world, "0", 10);
    wait_lists(&world);
    cr_assert(exists(&world, 0), "it is listed");
    cr_assert_not(exists(&world, 1));
    cr_assert(exists(&world, 2), "the newest may be on its way");
    close_world(&world);
}

/* A controller on a new store knows nothing: the bytes may be the last ones. */
Test(agent_shell_janitor, deletes_nothing_for_an_empty_store)
{
    struct world world;
    open_world(&world, NULL, 10);
    wait_lists(&world);
    for (unsigned i = 0; i < VERSIONS; i++) {
        cr_assert(exists(&world, i), "version %u", i);
    }
    close_world(&world);
}

/* A store that was restored from an old copy lacks versions that groups serve. */
Test(agent_shell_janitor, deletes_nothing_for_a_store_that_went_back)
{
    struct world world;
    open_world(&world, "1", 10);
    wait_lists(&world);
    cr_assert_not(exists(&world, 0));
    (void)pthread_mutex_lock(&world.lock);
    world.listed = world.digests[0];
    world.revision = 5;
    (void)pthread_mutex_unlock(&world.lock);
    wait_lists(&world);
    cr_assert(exists(&world, 1), "only the list of before may be believed");
    close_world(&world);
}
