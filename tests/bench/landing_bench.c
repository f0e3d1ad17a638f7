/* landing_bench.c -- landing a version into tmpfs (read, digest, verify, write, seal), against `cp`
 * of its one weight file into tmpfs.
 *
 * "landing": from a store on a disk, whose pages are cached, as agents share it.  "landing_tmpfs":
 * from tmpfs, where cp need not bring the bytes into its own memory at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/ratio.h"
#include "tests/bench/version.h"

enum { PAIRS = 9, RUN_SECONDS_MAX = 300 };

struct bench {
    char *dir;
    struct landing_root *source;
    struct landing_root *landing;
    struct manifest *manifest;
    char config[1024];
    char model[1024]; /* The sealed weight file at the source. */
    char copy[1024];  /* Where cp puts it. */
};

static double time_landing(struct bench *bench)
{
    struct landing_source source = { "file", bench->config, { NULL, 0 } };
    double begin = ratio_now_s();
    version_must(landing_land(bench->landing, bench->manifest, &source, NULL, NULL));
    double seconds = ratio_now_s() - begin;
    version_must(landing_remove(bench->landing, bench->manifest->digest));
    return seconds;
}

static double time_cp(const struct bench *bench)
{
    const char *words[] = { "cp", bench->model, bench->copy, NULL };
    double seconds = ratio_time_command(words);
    unlink(bench->copy);
    return seconds;
}

static int measure(struct bench *bench, const char *name)
{
    struct ratio ratio = {
        .name = name, .unit = "GB/s", .anchor = "cp of the same file into tmpfs", .target = 0.8
    };
    struct stat info;
    if (stat(bench->model, &info) != 0) {
        abort();
    }
    double gigabytes = (double)info.st_size / 1e9;
    time_landing(bench);
    time_cp(bench);
    for (unsigned i = 0; i < PAIRS; i++) {
        double ours = time_landing(bench);
        double anchor = time_cp(bench);
        ratio_add(&ratio, gigabytes / ours, gigabytes / anchor);
    }
    return ratio_print(&ratio);
}

/* One figure; the source's directory is given, and removed. */
static int run(const char *name, char *source_dir)
{
    struct bench bench = { .dir = ratio_directory() };
    char path[BATON_PATH_BYTES];
    bench.source = version_root(source_dir, "source");
    bench.landing = version_root(bench.dir, "landing");
    bench.manifest = version_make(bench.source);
    landing_path(bench.source, bench.manifest->digest, path);
    snprintf(bench.config, sizeof(bench.config), "{\"directory\":\"%s\"}", path);
    snprintf(bench.model, sizeof(bench.model), "%s/model.safetensors", path);
    snprintf(bench.copy, sizeof(bench.copy), "%s/copy", bench.dir);
    int failed = measure(&bench, name);
    manifest_destroy(bench.manifest);
    landing_root_close(bench.source);
    landing_root_close(bench.landing);
    ratio_remove(bench.dir);
    ratio_remove(source_dir);
    return failed;
}

int main(void)
{
    alarm(RUN_SECONDS_MAX);
    int failed = run("landing", ratio_directory_on_disk());
    return failed | run("landing_tmpfs", ratio_directory());
}
