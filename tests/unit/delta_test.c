/* delta_test.c -- versions written, read, damaged and applied, on real checkpoints. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/delta/apply.h"
#include "transport/delta/publish.h"
#include "transport/delta/staging.h"
#include "transport/model/checkpoint.h"

#define QWEN BATON_TEST_DATA "/qwen3-tiny/"

struct rig {
    char *dir;
    char *publication;
    char *out;
};

static struct rig rig_open(void)
{
    struct rig rig = { .dir = maker_directory() };
    rig.publication = maker_join(rig.dir, "publication");
    rig.out = maker_join(rig.dir, "out");
    cr_assert_eq(mkdir(rig.publication, 0755), 0);
    return rig;
}

static void rig_close(struct rig *rig)
{
    free(rig->publication);
    free(rig->out);
    maker_remove(rig->dir);
}

static struct baton_status publish(const struct rig *rig, const char *base, const char *next,
                                   uint64_t version, struct delta_published *out)
{
    struct delta_publish_options options = {
        .publication = rig->publication, .base_dir = base, .next_dir = next, .version = version
    };
    return delta_publish(&options, out);
}

static void must(struct baton_status st)
{
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void expect(struct baton_status st, enum baton_code code, const char *message)
{
    cr_expect_eq(st.code, code, "%s: %s", baton_code_name(st.code), st.message);
    cr_expect(strstr(st.message, message) != NULL, "wanted '%s', got '%s'", message, st.message);
}

static struct baton_status apply(const struct rig *rig, const char *checkpoint, uint64_t version,
                                 struct delta_applied *out)
{
    struct delta_apply_options options = { rig->publication, checkpoint, version, rig->out, 2 };
    return delta_apply(&options, out);
}

static bool exists(const char *dir, const char *name)
{
    char *path = maker_join(dir, name);
    bool is_there = access(path, F_OK) == 0;
    free(path);
    return is_there;
}

static char *version_dir(const struct rig *rig, uint64_t version)
{
    char name[DELTA_NAME_BYTES];
    delta_version_name(version, name);
    return maker_join(rig->publication, name);
}

/* Every encoding with every checksum: the result has the digest of the next version, although it
 * lies in the shards of the base (v2 is in two files, v3 in one). */
Test(delta, every_kind_gives_the_next_version)
{
    for (int kind = 0; kind < DELTA_ENCODING_COUNT * DELTA_CHECKSUM_COUNT; kind++) {
        struct rig rig = rig_open();
        struct delta_published published;
        struct delta_applied applied;
        struct delta_publish_options options = {
            .publication = rig.publication,
            .base_dir = QWEN "v2",
            .next_dir = QWEN "v3",
            .version = 1,
            .encoding = (enum delta_encoding)(kind % DELTA_ENCODING_COUNT),
            .checksum = (enum delta_checksum)(kind / DELTA_ENCODING_COUNT),
        };
        must(delta_publish(&options, &published));
        cr_expect_eq(published.tensors_count, 47);
        cr_expect_gt(published.changed_tensors, 0);
        cr_expect_lt(published.delta_bytes, published.bytes / 4);
        must(apply(&rig, QWEN "v2", 1, &applied));
        cr_expect(applied.digest_checked);
        cr_expect(digest_equal(applied.digest, published.digests.result));
        cr_expect_eq(applied.changed_tensors, published.changed_tensors);
        cr_expect(exists(rig.out, "model-00002-of-00002.safetensors"));
        cr_expect(exists(rig.out, "tokenizer.json"));
        rig_close(&rig);
    }
}

/* Small shards: several files with names that count from 0, and the same result. */
Test(delta, several_shards)
{
    struct rig rig = rig_open();
    struct delta_published published;
    struct delta_applied applied;
    struct delta_publish_options options = { .publication = rig.publication,
                                             .base_dir = QWEN "v2",
                                             .next_dir = QWEN "v3",
                                             .version = 1,
                                             .shard_bytes_max = 8000 };
    must(delta_publish(&options, &published));
    cr_expect_gt(published.shards_count, 3);
    char first[DELTA_NAME_BYTES];
    char *dir = version_dir(&rig, 1);
    delta_shard_name(0, published.shards_count, first);
    cr_expect(exists(dir, first), "%s", first);
    must(apply(&rig, QWEN "v2", 1, &applied));
    cr_expect(applied.digest_checked);
    free(dir);
    rig_close(&rig);
}

/* Two versions at once, and one after the other, from v1 over v2 to v3. */
Test(delta, chain_at_once_or_in_steps)
{
    struct rig rig = rig_open();
    struct delta_published one, two;
    struct delta_applied applied;
    char *step = maker_join(rig.dir, "step");
    must(publish(&rig, QWEN "v1", QWEN "v2", 1, &one));
    must(publish(&rig, QWEN "v2", QWEN "v3", 2, &two));
    cr_expect(digest_equal(one.digests.result, two.digests.base));
    must(apply(&rig, QWEN "v1", 2, &applied));
    cr_expect_eq(applied.deltas_count, 2);
    cr_expect(digest_equal(applied.digest, two.digests.result));
    struct delta_apply_options first = { rig.publication, QWEN "v1", 1, step, 0 };
    struct delta_apply_options second = { rig.publication, step, 2, NULL, 0 };
    must(delta_apply(&first, &applied));
    must(delta_apply(&second, &applied));
    cr_expect_eq(applied.from, 1);
    cr_expect(digest_equal(applied.digest, two.digests.result));
    free(step);
    rig_close(&rig);
}

/* Nothing changed: an index with an empty map, no shard. */
Test(delta, empty_version)
{
    struct rig rig = rig_open();
    struct delta_published published;
    struct delta_applied applied;
    must(publish(&rig, QWEN "v3", QWEN "v3", 1, &published));
    cr_expect_eq(published.shards_count, 0);
    char *dir = version_dir(&rig, 1);
    struct baton_bytes index = maker_read(dir, CHECKPOINT_INDEX_NAME);
    static const char wanted[] =
        "{\"metadata\": {\"version\": \"000001\", \"base_version\": \"000000\", "
        "\"delta_encoding\": \"xor\", \"compression_format\": \"zstd\", \"checksum_format\": "
        "\"xxh3-128\"}, \"weight_map\": {}}";
    cr_expect(baton_bytes_equal(index, baton_bytes_of(wanted)));
    must(apply(&rig, QWEN "v3", 1, &applied));
    cr_expect_eq(applied.changed_tensors, 0);
    free((void *)(uintptr_t)index.data);
    free(dir);
    rig_close(&rig);
}

/* As the other writers spell it (tests/data/delta/names-needing-escapes). */
Test(delta, texts_are_those_of_the_other_writers)
{
    static const struct delta_tensor tensors[] = {
        { .name = "emoji\xf0\x9f\x98\x80", .shard = "s", .frame_bytes = 57, .checksum = "0a" },
        { .name = "quote\"back\\slash", .shard = "s", .frame_bytes = 3, .checksum = "0b" },
        { .name = "\xe6\xa8\xa1.\xc3\xa9", .shard = "s", .frame_bytes = 1, .checksum = "0c" },
    };
    static const struct delta_index index = { true, 1234567, 1234566, DELTA_ENCODING_OVERWRITE,
                                              DELTA_CHECKSUM_ADLER32 };
    char text[1024];
    FILE *file = fmemopen(text, sizeof(text), "w");
    delta_index_write(file, &index, tensors, 3);
    fclose(file);
    cr_expect_str_eq(text, "{\"metadata\": {\"version\": \"1234567\", \"base_version\": "
                           "\"1234566\", \"delta_encoding\": \"overwrite\", "
                           "\"compression_format\": \"zstd\", \"checksum_format\": \"adler32\"}, "
                           "\"weight_map\": {\"emoji\\ud83d\\ude00\": \"s\", "
                           "\"quote\\\"back\\\\slash\": \"s\", \"\\u6a21.\\u00e9\": \"s\"}}");
    char *header = NULL;
    size_t size = 0;
    must(delta_header_make(tensors, 3, &header, &size));
    cr_expect_eq(size % 8, 0);
    cr_expect_eq((uint8_t)header[0] + 256 * (uint8_t)header[1] + 8, (int)size);
    static const char begin[] = "{\"__metadata__\":{\"emoji\xf0\x9f\x98\x80\":\"0a\","
                                "\"quote\\\"back\\\\slash\":\"0b\",";
    cr_expect_eq(memcmp(header + 8, begin, sizeof(begin) - 1), 0);
    static const char row[] = ",\"quote\\\"back\\\\slash\":{\"dtype\":\"U8\",\"shape\":[3],"
                              "\"data_offsets\":[57,60]},";
    cr_expect(memmem(header, size, row, sizeof(row) - 1) != NULL);
    free(header);
}

/* --- what no delta can say --- */

static void make_checkpoint(const char *dir, const char *shape, const char *config)
{
    char header[256];
    snprintf(header, sizeof(header),
             "{\"t\":{\"dtype\":\"U8\",\"shape\":%s,\"data_offsets\":[0,12]}}", shape);
    mkdir(dir, 0755);
    maker_safetensors(dir, "model.safetensors", header, 12);
    maker_write_text(dir, "config.json", config);
}

Test(delta, publish_refuses_other_layouts_and_files)
{
    struct rig rig = rig_open();
    struct delta_published published;
    char *base = maker_join(rig.dir, "base");
    char *next = maker_join(rig.dir, "next");
    make_checkpoint(base, "[12]", "{}");
    make_checkpoint(next, "[3,4]", "{}");
    expect(publish(&rig, base, next, 1, &published), BATON_FAILED_PRECONDITION, "t");
    make_checkpoint(next, "[12]", "{\"changed\": 1}");
    expect(publish(&rig, base, next, 1, &published), BATON_FAILED_PRECONDITION,
           "file 'config.json' differs");
    make_checkpoint(next, "[12]", "{}");
    maker_write_text(next, "added.json", "{}");
    expect(publish(&rig, base, next, 1, &published), BATON_FAILED_PRECONDITION,
           "file 'added.json' is new");
    maker_write_text(base, "gone.json", "{}");
    maker_write_text(base, "added.json", "{}");
    expect(publish(&rig, base, next, 1, &published), BATON_FAILED_PRECONDITION,
           "file 'gone.json' is gone");
    free(base);
    free(next);
    rig_close(&rig);
}

Test(delta, publish_refuses_a_wrong_place_in_the_chain)
{
    struct rig rig = rig_open();
    struct delta_published published;
    expect(publish(&rig, QWEN "v2", QWEN "v3", 0, &published), BATON_INVALID_ARGUMENT,
           "version: 0");
    must(publish(&rig, QWEN "v1", QWEN "v2", 1, &published));
    expect(publish(&rig, QWEN "v1", QWEN "v2", 1, &published), BATON_ALREADY_EXISTS,
           "weight_v000001 exists");
    expect(publish(&rig, QWEN "v1", QWEN "v3", 2, &published), BATON_FAILED_PRECONDITION,
           "weight_v000001 gives");
    cr_expect_not(exists(rig.publication, "weight_v000002"));
    cr_expect_not(exists(rig.publication, ".baton-delta.weight_v000002"));
    must(publish(&rig, QWEN "v2", QWEN "v3", 2, &published));
    rig_close(&rig);
}

/* A shard of the version before is gone: that version is broken, not absent. */
Test(delta, publish_refuses_to_follow_a_broken_version)
{
    struct rig rig = rig_open();
    struct delta_published published;
    must(publish(&rig, QWEN "v1", QWEN "v2", 1, &published));
    char *dir = version_dir(&rig, 1);
    char *shard = maker_join(dir, "model-00000-of-00001.safetensors");
    cr_assert_eq(unlink(shard), 0);
    expect(publish(&rig, QWEN "v1", QWEN "v3", 2, &published), BATON_INVALID_ARGUMENT,
           "weight_v000001");
    free(shard);
    free(dir);
    rig_close(&rig);
}

/* Markers of base and next: another version, half changed, locked. */
Test(delta, publish_believes_markers)
{
    struct rig rig = rig_open();
    struct delta_published published;
    struct delta_applied applied;
    char *step = maker_join(rig.dir, "step");
    char *lock = maker_join(step, DELTA_LOCK_NAME);
    char *state = maker_join(step, DELTA_STATE_NAME);
    must(publish(&rig, QWEN "v1", QWEN "v2", 1, &published));
    struct delta_apply_options first = { rig.publication, QWEN "v1", 1, step, 0 };
    must(delta_apply(&first, &applied));
    expect(publish(&rig, step, QWEN "v3", 7, &published), BATON_FAILED_PRECONDITION,
           "step: says that it is version 1, not 6");
    expect(publish(&rig, QWEN "v1", step, 2, &published), BATON_FAILED_PRECONDITION,
           "step: says that it is version 1, not 2");
    maker_write_text(step, DELTA_LOCK_NAME, "");
    int fd = open(lock, O_RDONLY | O_CLOEXEC);
    cr_assert_eq(flock(fd, LOCK_EX), 0);
    expect(publish(&rig, step, QWEN "v3", 2, &published), BATON_FAILED_PRECONDITION,
           ".weight_sync/lock: another reader is changing it");
    cr_assert_eq(flock(fd, LOCK_UN), 0);
    must(publish(&rig, step, QWEN "v3", 2, &published));
    cr_assert_eq(unlink(state), 0);
    expect(publish(&rig, QWEN "v2", step, 3, &published), BATON_FAILED_PRECONDITION,
           "left it half changed");
    close(fd);
    free(state);
    free(lock);
    free(step);
    rig_close(&rig);
}

/* --- versions that lie --- */

/* Replaces text in a file; in a shard both must be of the same length. */
static void replace(const char *dir, const char *name, const char *from, const char *to)
{
    struct baton_bytes file = maker_read(dir, name);
    const uint8_t *at = memmem(file.data, file.size, from, strlen(from));
    cr_assert(at != NULL, "'%s' is not in %s", from, name);
    size_t before = (size_t)(at - file.data);
    size_t after = file.size - before - strlen(from);
    size_t size = before + strlen(to) + after;
    uint8_t *data = malloc(size);
    memcpy(data, file.data, before);
    memcpy(data + before, to, strlen(to));
    memcpy(data + before + strlen(to), at + strlen(from), after);
    maker_write(dir, name, (struct baton_bytes){ data, size });
    free(data);
    free((void *)(uintptr_t)file.data);
}

#define SHARD     "model-00000-of-00001.safetensors"
#define HEAD      "lm_head.weight"
#define HEAD_PART "\"" HEAD "\": \"" SHARD "\""

static const struct {
    const char *file;
    const char *from;
    const char *to;
    const char *message;
} lies[] = {
    { CHECKPOINT_INDEX_NAME, "\"version\": \"000001\"", "\"version\": \"000002\"",
      "metadata: version: 2 in the directory of version 1" },
    { CHECKPOINT_INDEX_NAME, "\"version\": \"000001\"", "\"version\": \"1x\"",
      "metadata: version: missing or not a version number" },
    { CHECKPOINT_INDEX_NAME, "\"base_version\": \"000000\"", "\"base_version\": \"000001\"",
      "base_version: 1 is not the version before 1" },
    { CHECKPOINT_INDEX_NAME, "\"base_version\": \"000000\"", "\"base_version\": -1",
      "metadata: base_version: missing or not" },
    { CHECKPOINT_INDEX_NAME, "\"xxh3-128\"", "\"md5\"", "checksum_format: 'md5' is unknown" },
    { CHECKPOINT_INDEX_NAME, "\"zstd\"", "3", "compression_format: missing or not a string" },
    { CHECKPOINT_INDEX_NAME, "\"delta_encoding\"", "\"delta_Encoding\"",
      "metadata: delta_encoding: missing, and there is base_version" },
    { CHECKPOINT_INDEX_NAME,
      "{\"metadata\": ", "{\"metadata\": 3, \"other\": ", "metadata: not a JSON object" },
    { CHECKPOINT_INDEX_NAME, HEAD_PART, "\"" HEAD "\": \"../" SHARD "\"", "is not a plain name" },
    { CHECKPOINT_INDEX_NAME, HEAD_PART, "\"" HEAD "\": \"/etc/x.safetensors\"",
      "is not a plain name" },
    { CHECKPOINT_INDEX_NAME, HEAD_PART, "\"" HEAD "\": \"passwd\"", "is not a plain name" },
    { CHECKPOINT_INDEX_NAME, HEAD_PART, "\"" HEAD "\": \"other.safetensors\"",
      "other.safetensors" },
    { CHECKPOINT_INDEX_NAME, HEAD_PART, "\"model.other\": \"" SHARD "\"",
      "tensor 'lm_head.weight': not in the index's weight_map" },
    { CHECKPOINT_INDEX_NAME, HEAD_PART, HEAD_PART ", \"more\": \"" SHARD "\"",
      "tensor 'more': missing; the index says that it is here" },
    { CHECKPOINT_INDEX_NAME, HEAD_PART, HEAD_PART ", " HEAD_PART, "duplicate" },
    { CHECKPOINT_INDEX_NAME, "\"weight_map\": {", "\"weight_map\": [[[[[[[[[", "JSON: nested" },
    { SHARD, "\"" HEAD "\":{\"dtype\":\"U8\"", "\"" HEAD "\":{\"dtype\":\"I8\"",
      "tensor 'lm_head.weight': a delta's tensor is a U8 vector" },
    { SHARD, "{\"__metadata__\":{", "{\"__Metadata__\":{", "__Metadata__" },
    { SHARD, "\"" HEAD "\":\"", "\"Lm_head.weight\":\"",
      "__metadata__: 'Lm_head.weight' is no tensor of this shard" },
    { DELTA_DIGESTS_NAME, "\"format\": 1", "\"format\": 2", "format: missing or not 1" },
    { DELTA_DIGESTS_NAME, "result_digest", "result_Digest", "result_digest: not 32" },
};

Test(delta, versions_that_lie_are_refused)
{
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct rig rig = rig_open();
        struct delta_published published;
        struct delta_applied applied;
        must(publish(&rig, QWEN "v2", QWEN "v3", 1, &published));
        char *dir = version_dir(&rig, 1);
        replace(dir, lies[i].file, lies[i].from, lies[i].to);
        struct baton_status st = apply(&rig, QWEN "v2", 1, &applied);
        cr_expect(!baton_ok(&st), "lie %zu was believed", i);
        cr_expect(strstr(st.message, lies[i].message) != NULL, "lie %zu: wanted '%s', got '%s'", i,
                  lies[i].message, st.message);
        cr_expect(strstr(st.message, lies[i].file) != NULL ||
                      strstr(st.message, "weight_v000001") != NULL,
                  "%s", st.message);
        cr_expect_not(exists(rig.dir, "out"));
        free(dir);
        rig_close(&rig);
    }
}

/* Files that are not what they seem: a stray shard, a link out of the folder, a pipe. */
Test(delta, files_that_are_not_the_versions)
{
    struct rig rig = rig_open();
    struct delta_published published;
    struct delta_applied applied;
    must(publish(&rig, QWEN "v2", QWEN "v3", 1, &published));
    char *dir = version_dir(&rig, 1);
    char *shard = maker_join(dir, SHARD);
    char *moved = maker_join(rig.dir, "moved");
    maker_write_text(dir, "stray.safetensors", "");
    expect(apply(&rig, QWEN "v2", 1, &applied), BATON_INVALID_ARGUMENT,
           "stray.safetensors: a shard that the index does not name");
    char *stray = maker_join(dir, "stray.safetensors");
    cr_assert_eq(unlink(stray), 0);
    cr_assert_eq(rename(shard, moved), 0);
    cr_assert_eq(symlink(moved, shard), 0);
    expect(apply(&rig, QWEN "v2", 1, &applied), BATON_PERMISSION_DENIED, "a symbolic link");
    cr_assert_eq(unlink(shard), 0);
    cr_assert_eq(mkfifo(shard, 0644), 0);
    expect(apply(&rig, QWEN "v2", 1, &applied), BATON_INVALID_ARGUMENT, "not a regular file");
    cr_assert_eq(unlink(shard), 0);
    cr_assert_eq(rename(moved, shard), 0);
    must(apply(&rig, QWEN "v2", 1, &applied));
    free(stray);
    free(moved);
    free(shard);
    free(dir);
    rig_close(&rig);
}

/* A full version comes from a publisher as a delta does: links in it, or in its place, are refused;
 * those of the caller's own checkpoint are followed. */
Test(delta, links_of_a_full_version_are_refused)
{
    static const char *const names[] = { "config.json", "model.safetensors" };
    struct rig rig = rig_open();
    struct delta_applied applied;
    char *own = maker_join(rig.dir, "own");
    char *moved = maker_join(rig.dir, "moved");
    char *dir = version_dir(&rig, 1);
    struct delta_apply_options verify = { rig.publication, own, 1, NULL, 0 };
    make_checkpoint(own, "[12]", "{}");
    make_checkpoint(dir, "[12]", "{}");
    must(delta_apply(&verify, &applied));
    for (size_t i = 0; i < 2; i++) {
        char *file = maker_join(dir, names[i]);
        cr_assert_eq(rename(file, moved), 0);
        cr_assert_eq(symlink(moved, file), 0);
        expect(delta_apply(&verify, &applied), BATON_PERMISSION_DENIED, "a symbolic link");
        cr_assert_eq(rename(moved, file), 0);
        free(file);
    }
    must(delta_apply(&verify, &applied));
    cr_assert_eq(rename(dir, moved), 0);
    cr_assert_eq(symlink(moved, dir), 0);
    expect(delta_apply(&verify, &applied), BATON_PERMISSION_DENIED, "a symbolic link");
    free(dir);
    free(moved);
    free(own);
    rig_close(&rig);
}

/* A wrong base: a tensor that the delta changes has the wrong checksum; one that it does not change
 * shows only in the digest of the whole, which the format itself lacks. */
Test(delta, wrong_bases)
{
    struct rig rig = rig_open();
    struct delta_published published;
    struct delta_applied applied;
    char *base = maker_join(rig.dir, "base");
    char *next = maker_join(rig.dir, "next");
    make_checkpoint(base, "[12]", "{}");
    make_checkpoint(next, "[12]", "{}");
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[12],\"data_offsets\":[0,12]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[12,16]}}";
    long data = 8 + (long)strlen(header);
    maker_safetensors(base, "model.safetensors", header, 16);
    maker_safetensors(next, "model.safetensors", header, 16);
    maker_damage(next, "model.safetensors", data + 3);
    must(publish(&rig, base, next, 1, &published));
    cr_expect_eq(published.changed_tensors, 1);
    maker_damage(base, "model.safetensors", data + 5);
    expect(apply(&rig, base, 1, &applied), BATON_DATA_LOSS,
           SHARD ": tensor 'a': xxh3-128 of the new bytes is");
    maker_damage(base, "model.safetensors", data + 5);
    maker_damage(base, "model.safetensors", data + 13);
    expect(apply(&rig, base, 1, &applied), BATON_DATA_LOSS, "the result's digest is");
    maker_damage(base, "model.safetensors", data + 13);
    maker_write_text(base, "config.json", "{\"other\": 1}");
    expect(apply(&rig, base, 1, &applied), BATON_DATA_LOSS, "the result's digest is");
    maker_write_text(base, "config.json", "{}");
    must(apply(&rig, base, 1, &applied));
    free(base);
    free(next);
    rig_close(&rig);
}

/* What the directory says about itself: half changed, not a number, of another base. */
Test(delta, states)
{
    struct rig rig = rig_open();
    struct delta_published published;
    struct delta_applied applied;
    char *step = maker_join(rig.dir, "step");
    char *state = maker_join(step, DELTA_STATE_NAME);
    must(publish(&rig, QWEN "v1", QWEN "v2", 1, &published));
    must(publish(&rig, QWEN "v2", QWEN "v3", 2, &published));
    struct delta_apply_options first = { rig.publication, QWEN "v1", 1, step, 0 };
    must(delta_apply(&first, &applied));
    expect(delta_apply(&first, &applied), BATON_ALREADY_EXISTS, "step exists");
    replace(step, DELTA_IDENTITY_NAME, "\"digest\": \"", "\"digest\": \"0000");
    expect(apply(&rig, step, 2, &applied), BATON_INVALID_ARGUMENT, "digest: not 32");
    maker_write_text(step, DELTA_IDENTITY_NAME,
                     "{\"version\": \"000001\", \"digest\": \"00000000000000000000000000000000\"}");
    expect(apply(&rig, step, 2, &applied), BATON_FAILED_PRECONDITION,
           "weight_v000002 was made from");
    maker_write_text(step, DELTA_STATE_NAME, "{\"version\": 1}");
    expect(apply(&rig, step, 2, &applied), BATON_INVALID_ARGUMENT,
           ".weight_sync/state.json: version: not a version number");
    cr_assert_eq(unlink(state), 0);
    expect(apply(&rig, step, 2, &applied), BATON_FAILED_PRECONDITION, "left it half changed");
    free(state);
    free(step);
    rig_close(&rig);
}

/* A reader of the format changes the checkpoint, under its lock. */
Test(delta, a_checkpoint_that_another_reader_changes)
{
    struct rig rig = rig_open();
    struct delta_published published;
    struct delta_applied applied;
    char *step = maker_join(rig.dir, "step");
    char *lock = maker_join(step, DELTA_LOCK_NAME);
    must(publish(&rig, QWEN "v1", QWEN "v2", 1, &published));
    must(publish(&rig, QWEN "v2", QWEN "v3", 2, &published));
    struct delta_apply_options first = { rig.publication, QWEN "v1", 1, step, 0 };
    must(delta_apply(&first, &applied));
    maker_write_text(step, DELTA_LOCK_NAME, "");
    int fd = open(lock, O_RDONLY | O_CLOEXEC);
    cr_assert_eq(flock(fd, LOCK_EX), 0);
    expect(apply(&rig, step, 2, &applied), BATON_FAILED_PRECONDITION,
           ".weight_sync/lock: another reader is changing it");
    cr_assert_eq(flock(fd, LOCK_UN), 0);
    must(apply(&rig, step, 2, &applied));
    close(fd);
    free(lock);
    free(step);
    rig_close(&rig);
}

/* --- staging --- */

Test(delta, staging_clears_what_a_dead_process_left)
{
    char *dir = maker_directory();
    struct staging *staging = NULL;
    char *hidden = maker_join(dir, ".baton-delta.x");
    cr_assert_eq(mkdir(hidden, 0755), 0);
    maker_write_text(hidden, "half", "");
    must(staging_open(dir, "x", &staging));
    cr_expect_not(exists(hidden, "half"));
    must(staging_write(staging, "whole", baton_bytes_of("text")));
    cr_expect_not(exists(dir, "x"));
    must(staging_commit(staging));
    staging_close(staging);
    cr_expect(exists(dir, "x/whole"));
    cr_expect_not(exists(dir, ".baton-delta.x"));
    expect(staging_open(dir, "x", &staging), BATON_ALREADY_EXISTS, "x exists");
    free(hidden);
    maker_remove(dir);
}

Test(delta, staging_refuses_bad_names_and_two_writers)
{
    char *dir = maker_directory();
    struct staging *staging = NULL, *other = NULL;
    expect(staging_open(dir, "../x", &staging), BATON_INVALID_ARGUMENT, "not a plain name");
    expect(staging_open(dir, "..", &staging), BATON_INVALID_ARGUMENT, "not a plain name");
    expect(staging_open(dir, "", &staging), BATON_INVALID_ARGUMENT, "not a plain name");
    must(staging_open(dir, "x", &staging));
    expect(staging_open(dir, "x", &other), BATON_FAILED_PRECONDITION, "another process");
    staging_close(staging);
    cr_expect_not(exists(dir, ".baton-delta.x"));
    maker_remove(dir);
}
