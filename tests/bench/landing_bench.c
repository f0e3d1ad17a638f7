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
#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

enum { TENSORS = 48, TENSOR_ROWS = 5461, TENSOR_COLUMNS = 1024, PAIRS = 9, RUN_SECONDS_MAX = 300 };
#define TENSOR_BYTES ((uint64_t)TENSOR_ROWS * TENSOR_COLUMNS * 2)

struct bench {
    char *dir;
    struct landing_root *source;
    struct landing_root *landing;
    struct manifest *manifest;
    char config[1024];
    char model[1024]; /* The sealed weight file at the source. */
    char copy[1024];  /* Where cp puts it. */
};

static void check(struct baton_status st)
{
    if (!baton_ok(&st)) {
        fprintf(stderr, "landing_bench: %s\n", st.message);
        abort();
    }
}

static struct landing_root *open_root(const char *dir, const char *name)
{
    struct landing_root *root = NULL;
    char *path = ratio_join(dir, name);
    struct landing_root_options options = { path, 0 };
    check(landing_root_open(&options, &root));
    free(path);
    return root;
}

/* A version of tensors that end within a chunk, handed over from memory. */
static void make_version(struct bench *bench)
{
    char names[TENSORS][32];
    struct landing_tensor tensors[TENSORS];
    struct landing_session *session = NULL;
    uint8_t *data = malloc(TENSOR_BYTES);
    for (unsigned i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof(names[i]), "layers.%02u.weight", i);
        tensors[i] = (struct landing_tensor){
            names[i], NULL, TENSOR_DTYPE_BF16, { 2, { TENSOR_ROWS, TENSOR_COLUMNS } }
        };
    }
    struct landing_tensors all = { tensors, TENSORS, NULL, NULL, 0 };
    check(landing_begin_tensors(bench->source, &all, NULL, &session));
    for (unsigned i = 0; i < TENSORS; i++) {
        memset(data, (int)i + 1, TENSOR_BYTES);
        check(landing_put_tensor(session, i, (struct baton_bytes){ data, TENSOR_BYTES }));
    }
    check(landing_finish_tensors(session, NULL, &bench->manifest));
    free(data);
}

static double time_landing(struct bench *bench)
{
    struct landing_source source = { "file", bench->config, { NULL, 0 } };
    double begin = ratio_now_s();
    check(landing_land(bench->landing, bench->manifest, &source, NULL, NULL));
    double seconds = ratio_now_s() - begin;
    check(landing_remove(bench->landing, bench->manifest->digest));
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
    bench.source = open_root(source_dir, "source");
    bench.landing = open_root(bench.dir, "landing");
    make_version(&bench);
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
