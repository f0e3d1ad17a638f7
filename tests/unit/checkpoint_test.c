/* checkpoint_test.c -- directories: what is taken, and what is refused with the exact place. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/model/checkpoint.h"

#define ONE(name)  "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"
#define INDEX(map) "{\"metadata\":{\"total_size\":8},\"weight_map\":{" map "}}"

static void expect_refused(const char *dir, const char *const *words)
{
    struct checkpoint *checkpoint = NULL;
    struct baton_status st = checkpoint_open(dir, CHECKPOINT_WHOLE, &checkpoint);
    cr_expect_not(baton_ok(&st));
    cr_expect_not_null(strstr(st.message, dir), "the directory: %s", st.message);
    for (; *words != NULL; words++) {
        cr_expect_not_null(strstr(st.message, *words), "%s: got '%s'", *words, st.message);
    }
    checkpoint_close(checkpoint);
}

#define EXPECT_REFUSED(dir, ...) expect_refused(dir, (const char *const[]){ __VA_ARGS__, NULL })

static char *two_shards(const char *index)
{
    char *dir = maker_directory();
    maker_write_text(dir, "config.json", "{}");
    maker_safetensors(dir, "1.safetensors", ONE("a"), 4);
    maker_safetensors(dir, "2.safetensors", ONE("b"), 4);
    maker_write_text(dir, CHECKPOINT_INDEX_NAME, index);
    return dir;
}

#define GOOD_INDEX INDEX("\"a\":\"1.safetensors\",\"b\":\"2.safetensors\"")

Test(checkpoint, takes_a_single_file)
{
    char *dir = maker_directory();
    struct checkpoint *checkpoint = NULL;
    struct manifest *manifest = NULL;
    maker_checkpoint(dir, 0);
    maker_write_text(dir, "pytorch_model.bin", "old weights");
    maker_write_text(dir, ".hidden", "x");
    maker_write_text(dir, "baton.manifest.json", "{}");
    struct baton_status st = checkpoint_open(dir, CHECKPOINT_WHOLE, &checkpoint);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(checkpoint->tensors_count, 4);
    cr_expect_eq(checkpoint->files_count, 2);
    cr_expect_str_eq(checkpoint->files[1].name, "tokenizer.json");
    cr_expect_eq(checkpoint_find(checkpoint, "c.weight")->bytes, 40);
    cr_expect_null(checkpoint_find(checkpoint, "e"));
    st = checkpoint_to_manifest(checkpoint, &manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(manifest->tensors_count, 4);
    manifest_destroy(manifest);
    checkpoint_close(checkpoint);
    maker_remove(dir);
}

Test(checkpoint, takes_shards_with_an_index)
{
    char *dir = two_shards(GOOD_INDEX);
    struct checkpoint *checkpoint = NULL;
    struct baton_status st = checkpoint_open(dir, CHECKPOINT_WHOLE, &checkpoint);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(checkpoint->shards_count, 2);
    cr_expect_str_eq(checkpoint_find(checkpoint, "b")->shard, "2.safetensors");
    checkpoint_close(checkpoint);
    maker_remove(dir);
}

/* The Hub's cache is made of links. */
Test(checkpoint, follows_links)
{
    char *real = maker_directory();
    char *dir = maker_directory();
    static const char *const names[] = { "model.safetensors", "config.json" };
    struct checkpoint *checkpoint = NULL;
    maker_checkpoint(real, 0);
    for (size_t i = 0; i < 2; i++) {
        char *target = maker_join(real, names[i]);
        char *link = maker_join(dir, names[i]);
        cr_assert_eq(symlink(target, link), 0);
        free(target);
        free(link);
    }
    struct baton_status st = checkpoint_open(dir, CHECKPOINT_WHOLE, &checkpoint);
    cr_expect(baton_ok(&st), "%s", st.message);
    checkpoint_close(checkpoint);
    maker_remove(real);
    maker_remove(dir);
}

static void remove_file(const char *dir, const char *name)
{
    char *path = maker_join(dir, name);
    cr_assert_eq(unlink(path), 0);
    free(path);
}

Test(checkpoint, refuses_a_missing_shard)
{
    char *dir = two_shards(GOOD_INDEX);
    remove_file(dir, "2.safetensors");
    EXPECT_REFUSED(dir, "'2.safetensors' is missing", "1 tensors", "'b'");
    maker_remove(dir);
}

Test(checkpoint, refuses_a_stray_shard)
{
    char *dir = two_shards(GOOD_INDEX);
    maker_safetensors(dir, "old.safetensors", ONE("a"), 4);
    EXPECT_REFUSED(dir, "'old.safetensors'", "does not name");
    maker_remove(dir);
}

Test(checkpoint, refuses_a_shard_that_the_index_belies)
{
    char *dir = two_shards(INDEX("\"a\":\"2.safetensors\",\"b\":\"1.safetensors\""));
    EXPECT_REFUSED(dir, "1.safetensors", "'a'", "it is in 2.safetensors");
    maker_remove(dir);
    dir = two_shards(INDEX("\"a\":\"1.safetensors\",\"c\":\"2.safetensors\""));
    EXPECT_REFUSED(dir, "'b'", "not in the index");
    maker_remove(dir);
    dir = two_shards(
        INDEX("\"a\":\"1.safetensors\",\"b\":\"2.safetensors\",\"c\":\"2.safetensors\""));
    EXPECT_REFUSED(dir, "'c'", "lacks it");
    maker_remove(dir);
}

Test(checkpoint, refuses_a_tensor_in_two_shards)
{
    char *dir = two_shards(GOOD_INDEX);
    maker_safetensors(dir, "2.safetensors", ONE("a"), 4);
    EXPECT_REFUSED(dir, "'a'", "it is in 1.safetensors");
    maker_remove(dir);
}

Test(checkpoint, refuses_broken_shards)
{
    char *dir = two_shards(GOOD_INDEX);
    maker_safetensors(dir, "2.safetensors", ONE("b"), 3);
    EXPECT_REFUSED(dir, "2.safetensors", "short by 1 bytes");
    maker_write_text(dir, "2.safetensors", "short");
    EXPECT_REFUSED(dir, "2.safetensors", "truncated");
    maker_write_text(dir, "2.safetensors", "");
    EXPECT_REFUSED(dir, "2.safetensors", "truncated");
    maker_write_text(dir, "2.safetensors", "not a safetensors file at all");
    EXPECT_REFUSED(dir, "2.safetensors", "limit");
    maker_remove(dir);
}

Test(checkpoint, refuses_a_bad_index)
{
    char *dir = two_shards("{");
    EXPECT_REFUSED(dir, CHECKPOINT_INDEX_NAME);
    maker_write_text(dir, CHECKPOINT_INDEX_NAME, INDEX("\"a\":\"../1.safetensors\""));
    EXPECT_REFUSED(dir, CHECKPOINT_INDEX_NAME, "'a'", "plain name");
    maker_remove(dir);
}

Test(checkpoint, refuses_directories_without_weights)
{
    char *dir = maker_directory();
    EXPECT_REFUSED(dir, "model.safetensors", "missing");
    maker_safetensors(dir, "weights.safetensors", ONE("a"), 4);
    EXPECT_REFUSED(dir, "weights.safetensors", "needs an index");
    maker_safetensors(dir, "model.safetensors", ONE("a"), 4);
    remove_file(dir, "weights.safetensors");
    EXPECT_REFUSED(dir, "config.json", "missing");
    maker_remove(dir);
    EXPECT_REFUSED("/nonexistent/checkpoint", "No such file");
}

/* A pipe in place of a shard must not make anybody wait. */
Test(checkpoint, does_not_wait_for_a_pipe, .timeout = 10)
{
    char *dir = maker_directory();
    maker_write_text(dir, "config.json", "{}");
    char *pipe_path = maker_join(dir, "model.safetensors");
    cr_assert_eq(mkfifo(pipe_path, 0600), 0);
    EXPECT_REFUSED(dir, "model.safetensors");
    free(pipe_path);
    maker_remove(dir);
}

/* A partial version needs no config; with a files-only look no shard is opened. */
Test(checkpoint, opens_parts)
{
    char *dir = maker_directory();
    struct checkpoint *checkpoint = NULL;
    maker_safetensors(dir, "model.safetensors", ONE("a"), 4);
    struct baton_status st = checkpoint_open(dir, CHECKPOINT_PARTIAL, &checkpoint);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(checkpoint->tensors_count, 1);
    checkpoint_close(checkpoint);
    maker_write_text(dir, "model.safetensors", "broken");
    maker_write_text(dir, "config.json", "{}");
    st = checkpoint_open(dir, CHECKPOINT_FILES, &checkpoint);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(checkpoint->files_count, 1);
    cr_expect_eq(checkpoint->tensors_count, 0);
    checkpoint_close(checkpoint);
    maker_remove(dir);
}
