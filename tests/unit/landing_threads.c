/* landing_threads.c -- one landing root used by many threads at once; made for the thread
 * sanitizer.
 *
 * Several threads land, verify, pin and remove versions while others read progress and lists, and
 * one landing is cancelled from outside. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

enum { VERSIONS = 3, ROUNDS = 4 };

struct version {
    struct manifest *manifest;
    char config[1024];
};

static struct landing_root *source;
static struct landing_root *landing;
static struct version versions[VERSIONS];
static struct landing_progress progress;
static _Atomic bool finished;
static _Atomic unsigned failures;

static void expect(bool condition, const char *what, const struct baton_status *st)
{
    if (!condition) {
        fprintf(stderr, "not ok - %s: %s\n", what, st == NULL ? "" : st->message);
        atomic_fetch_add(&failures, 1);
    }
}

static struct landing_root *open_root(const char *dir, const char *name)
{
    struct landing_root *root = NULL;
    char *path = maker_join(dir, name);
    struct landing_root_options options = { path, 0 };
    struct baton_status st = landing_root_open(&options, &root);
    expect(baton_ok(&st), "open", &st);
    free(path);
    return root;
}

static void make_version(const char *dir, size_t index)
{
    char name[16];
    char path[BATON_PATH_BYTES];
    snprintf(name, sizeof(name), "v%zu", index);
    char *checkpoint = maker_join(dir, name);
    mkdir(checkpoint, 0755);
    maker_checkpoint(checkpoint, index * 11);
    struct version *version = &versions[index];
    struct baton_status st =
        landing_import_directory(source, checkpoint, NULL, NULL, &version->manifest);
    expect(baton_ok(&st), "import", &st);
    landing_path(source, version->manifest->digest, path);
    snprintf(version->config, sizeof(version->config), "{\"directory\":\"%s\"}", path);
    free(checkpoint);
}

static struct baton_status land(const struct version *version, struct landing_progress *watched)
{
    struct landing_source from = { "file", version->config, { NULL, 0 } };
    struct landing_options options = { .workers = 3 };
    return landing_land(landing, version->manifest, &from, &options, watched);
}

/* Lands, pins, verifies, and removes one version, again and again. */
static void *cycle(void *argument)
{
    const struct version *version = argument;
    struct digest digest = version->manifest->digest;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct baton_status st = land(version, &progress);
        expect(baton_ok(&st), "land", &st);
        st = landing_pin(landing, digest);
        expect(baton_ok(&st), "pin", &st);
        st = landing_verify(landing, digest, NULL);
        expect(baton_ok(&st), "verify", &st);
        st = landing_remove(landing, digest);
        expect(st.reason == BATON_REASON_HELD, "remove while pinned", &st);
        landing_unpin(landing, digest);
        st = landing_remove(landing, digest);
        expect(baton_ok(&st), "remove", &st);
    }
    return NULL;
}

static void *watch(void *argument)
{
    uint64_t *seen = argument;
    struct landing_version listed[VERSIONS];
    while (!atomic_load(&finished)) {
        uint64_t done = atomic_load(&progress.bytes_done);
        expect(done >= *seen, "progress never goes back", NULL);
        *seen = done;
        expect(landing_list(landing, listed, VERSIONS) <= VERSIONS, "list", NULL);
        (void)landing_used_bytes(landing);
    }
    return NULL;
}

/* Sets the flag as soon as a landing has begun. */
static void *cancel(void *argument)
{
    struct landing_progress *watched = argument;
    while (atomic_load(&watched->bytes_total) == 0) {
    }
    atomic_store(&watched->cancel, true);
    return NULL;
}

static void test_cancel(void)
{
    struct landing_progress watched = { 0 };
    pthread_t thread;
    pthread_create(&thread, NULL, cancel, &watched);
    struct baton_status st = land(&versions[0], &watched);
    pthread_join(thread, NULL);
    expect(st.code == BATON_CANCELLED || baton_ok(&st), "cancel", &st);
    expect(landing_has(landing, versions[0].manifest->digest) == baton_ok(&st), "sealed or not",
           &st);
}

int main(void)
{
    char *dir = maker_directory();
    pthread_t threads[VERSIONS];
    pthread_t watcher;
    uint64_t seen = 0;
    source = open_root(dir, "source");
    landing = open_root(dir, "landing");
    for (size_t i = 0; i < VERSIONS; i++) {
        make_version(dir, i);
    }
    pthread_create(&watcher, NULL, watch, &seen);
    for (size_t i = 0; i < VERSIONS; i++) {
        pthread_create(&threads[i], NULL, cycle, &versions[i]);
    }
    for (size_t i = 0; i < VERSIONS; i++) {
        pthread_join(threads[i], NULL);
    }
    atomic_store(&finished, true);
    pthread_join(watcher, NULL);
    test_cancel();
    for (size_t i = 0; i < VERSIONS; i++) {
        manifest_destroy(versions[i].manifest);
    }
    landing_root_close(source);
    landing_root_close(landing);
    maker_remove(dir);
    return atomic_load(&failures) == 0 ? 0 : 1;
}
