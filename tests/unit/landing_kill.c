/* landing_kill.c -- a process that lands is killed at random instants; what it left must be sound.
 *
 * After each kill the root is opened anew: either the version is sealed and every byte of it is
 * right, or it is not visible and landing it again succeeds. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/base/random.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

enum { KILLS = 40 };

static char *landing_dir;
static struct manifest *manifest;
static char config[1024];

static void must(struct baton_status st, const char *what)
{
    if (!baton_ok(&st)) {
        fprintf(stderr, "not ok - %s: %s\n", what, st.message);
        exit(1);
    }
}

static struct landing_root *open_root(const char *dir)
{
    struct landing_root *root = NULL;
    struct landing_root_options options = { dir, 0 };
    must(landing_root_open(&options, &root), "open");
    return root;
}

static struct baton_status land(struct landing_root *root, struct landing_progress *progress)
{
    struct landing_source source = { "file", config, { NULL, 0 } };
    return landing_land(root, manifest, &source, NULL, progress);
}

/* A child that lands, and dies after 'delay_ns' unless it is done. */
static void land_and_die(uint64_t delay_ns)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct landing_root *root = open_root(landing_dir);
        must(land(root, NULL), "land in the child");
        _exit(0);
    }
    baton_clock_sleep_ns(delay_ns);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Returns how many bytes need not be fetched again. */
static uint64_t check(unsigned *sealed)
{
    struct landing_progress progress = { 0 };
    struct landing_root *root = open_root(landing_dir);
    bool was_there = landing_has(root, manifest->digest);
    *sealed += was_there;
    must(land(root, &progress), "land again");
    must(landing_verify(root, manifest->digest, NULL), "verify");
    must(landing_remove(root, manifest->digest), "remove");
    if (landing_used_bytes(root) != 0) {
        fprintf(stderr, "not ok - bytes stayed behind\n");
        exit(1);
    }
    landing_root_close(root);
    return atomic_load(&progress.bytes_resumed);
}

int main(void)
{
    char path[BATON_PATH_BYTES];
    char *dir = maker_directory();
    char *checkpoint = maker_join(dir, "checkpoint");
    char *source_dir = maker_join(dir, "source");
    struct baton_random random;
    unsigned sealed = 0;
    uint64_t resumed = 0;
    landing_dir = maker_join(dir, "landing");
    mkdir(checkpoint, 0755);
    maker_checkpoint(checkpoint, 0);
    struct landing_root *source = open_root(source_dir);
    must(landing_import_directory(source, checkpoint, NULL, NULL, &manifest), "import");
    landing_path(source, manifest->digest, path);
    snprintf(config, sizeof(config), "{\"directory\":\"%s\"}", path);
    baton_random_seed(&random, 1);
    uint64_t begin_ns = baton_clock_monotonic_ns();
    (void)check(&sealed);
    uint64_t span_ns = baton_clock_monotonic_ns() - begin_ns;
    for (unsigned i = 0; i < KILLS; i++) {
        land_and_die(baton_random_below(&random, span_ns));
        resumed += check(&sealed);
    }
    printf("ok - %d kills: %u times sealed before, %llu bytes resumed\n", (int)KILLS, sealed,
           (unsigned long long)resumed);
    landing_root_close(source);
    manifest_destroy(manifest);
    free(checkpoint);
    free(source_dir);
    free(landing_dir);
    maker_remove(dir);
    return 0;
}
