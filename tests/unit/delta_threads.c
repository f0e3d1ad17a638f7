/* delta_threads.c -- publishing and applying on many threads gives what one thread gives: the same
 * files, byte for byte, and the same failure. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/delta/apply.h"
#include "transport/delta/publish.h"

#define QWEN BATON_TEST_DATA "/qwen3-tiny/"

enum { THREADS = 8, ROUNDS = 5 };

static void must_be(bool condition, const char *what)
{
    if (!condition) {
        printf("not ok - %s\n", what);
        exit(1);
    }
}

static void must(const struct baton_status *st)
{
    must_be(baton_ok(st), st->message);
}

/* The files of the left directory are in the right one, with the same bytes. */
static void compare(const char *left, const char *right)
{
    unsigned count = 0;
    DIR *dir = opendir(left);
    const struct dirent *entry;
    must_be(dir != NULL, left);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            struct baton_bytes a = maker_read(left, entry->d_name);
            struct baton_bytes b = maker_read(right, entry->d_name);
            must_be(baton_bytes_equal(a, b), entry->d_name);
            free((void *)(uintptr_t)a.data);
            free((void *)(uintptr_t)b.data);
            count++;
        }
    }
    closedir(dir);
    must_be(count > 3, "there are files to compare");
}

/* A publication with one version, made by so many threads; its path. */
static char *publish(const char *dir, const char *name, unsigned threads)
{
    struct delta_published published;
    char *publication = maker_join(dir, name);
    must_be(mkdir(publication, 0755) == 0, publication);
    struct delta_publish_options options = { .publication = publication,
                                             .base_dir = QWEN "v2",
                                             .next_dir = QWEN "v3",
                                             .version = 1,
                                             .shard_bytes_max = 9000,
                                             .threads = threads };
    struct baton_status st = delta_publish(&options, &published);
    must(&st);
    must_be(published.changed_tensors == 30 && published.bytes == 1117952, "the counts are right");
    return publication;
}

static char *apply(const char *dir, const char *publication, const char *name, unsigned threads)
{
    struct delta_applied applied;
    char *out = maker_join(dir, name);
    struct delta_apply_options options = { publication, QWEN "v2", 1, out, threads };
    struct baton_status st = delta_apply(&options, &applied);
    must(&st);
    must_be(applied.digest_checked && applied.changed_tensors == 30 && applied.bytes == 1117952,
            "the counts are right");
    return out;
}

/* Every tensor is wrong; the first one, in the order of the files, is what is told. */
static void fail_alike(const char *publication)
{
    struct delta_applied applied;
    struct delta_apply_options one = { publication, QWEN "v1", 1, NULL, 1 };
    struct delta_apply_options many = { publication, QWEN "v1", 1, NULL, THREADS };
    struct baton_status wanted = delta_apply(&one, &applied);
    struct baton_status found = delta_apply(&many, &applied);
    must_be(wanted.code == BATON_DATA_LOSS && strcmp(wanted.message, found.message) == 0,
            "the same failure");
}

int main(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        char *dir = maker_directory();
        char *one = publish(dir, "one", 1);
        char *many = publish(dir, "many", THREADS);
        char *left = maker_join(one, "weight_v000001");
        char *right = maker_join(many, "weight_v000001");
        compare(left, right);
        char *out_one = apply(dir, one, "out-one", 1);
        char *out_many = apply(dir, one, "out-many", THREADS);
        compare(out_one, out_many);
        fail_alike(one);
        free(one);
        free(many);
        free(left);
        free(right);
        free(out_one);
        free(out_many);
        maker_remove(dir);
    }
    printf("ok - %d threads give what one gives\n", (int)THREADS);
    return 0;
}
