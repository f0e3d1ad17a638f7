/* ratio.c -- timing, medians, and the line. */
#include "tests/bench/ratio.h"

#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void must(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        abort();
    }
}

void ratio_add(struct ratio *ratio, double value, double anchor)
{
    must(ratio->pairs < RATIO_PAIRS_MAX, "too many pairs");
    ratio->values[ratio->pairs] = value;
    ratio->anchors[ratio->pairs++] = anchor;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(const double *values, unsigned count)
{
    double sorted[RATIO_PAIRS_MAX];
    memcpy(sorted, values, count * sizeof(*values));
    qsort(sorted, count, sizeof(*sorted), compare);
    return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

int ratio_print(const struct ratio *ratio)
{
    double ratios[RATIO_PAIRS_MAX];
    for (unsigned i = 0; i < ratio->pairs; i++) {
        ratios[i] = ratio->values[i] / ratio->anchors[i];
    }
    double middle = median(ratios, ratio->pairs);
    int met = middle >= ratio->target;
    printf(
        "{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"%s\",\"anchor\":\"%s\",\"anchor_value\":%.3f,"
        "\"ratio\":%.3f,\"target\":%.2f,\"met\":%s}\n",
        ratio->name, median(ratio->values, ratio->pairs), ratio->unit, ratio->anchor,
        median(ratio->anchors, ratio->pairs), middle, ratio->target, met ? "true" : "false");
    return met ? 0 : 1;
}

double ratio_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double ratio_time_command(const char *const *words)
{
    extern char **environ;
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int status = 0;
    must(posix_spawn_file_actions_init(&actions) == 0, "posix_spawn");
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    double begin = ratio_now_s();
    must(posix_spawnp(&pid, words[0], &actions, NULL, (char *const *)(uintptr_t)words, environ) ==
             0,
         words[0]);
    must(waitpid(pid, &status, 0) == pid && status == 0, words[0]);
    double seconds = ratio_now_s() - begin;
    posix_spawn_file_actions_destroy(&actions);
    return seconds;
}

char *ratio_join(const char *dir, const char *name)
{
    size_t size = strlen(dir) + strlen(name) + 2;
    char *path = malloc(size);
    must(path != NULL, "malloc");
    snprintf(path, size, "%s/%s", dir, name);
    return path;
}

static char *make_directory(const char *base)
{
    char *path = ratio_join(base, "baton-bench-XXXXXX");
    must(mkdtemp(path) != NULL, path);
    return path;
}

char *ratio_directory(void)
{
    return make_directory("/dev/shm");
}

char *ratio_directory_on_disk(void)
{
    const char *base = getenv("TMPDIR");
    return make_directory(base == NULL ? "/var/tmp" : base);
}

static int remove_entry(const char *path, const struct stat *info, int flag, struct FTW *ftw)
{
    (void)info;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void ratio_remove(char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(dir);
}
