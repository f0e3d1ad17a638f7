/* manifest_test.c -- sealing, JSON, parts, the running version digest, compare, merge. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/checkpoint_maker.h"
#include "transport/model/manifest.h"

static struct baton_bytes golden_text(void)
{
    return maker_read(BATON_TEST_DATA, "digest/manifest.json");
}

static struct manifest *golden(void)
{
    struct baton_bytes text = golden_text();
    struct manifest *manifest = NULL;
    struct baton_status st = manifest_decode_json(text, &manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    free((void *)text.data);
    return manifest;
}

/* What Python wrote and digested decodes to the same digest, and encodes to an equal manifest. */
Test(manifest, takes_the_golden_one)
{
    struct manifest *manifest = golden();
    struct manifest *again = NULL;
    char *text = NULL;
    size_t bytes = 0;
    cr_expect_eq(manifest->tensors_count, 7);
    cr_expect_eq(manifest->files_count, 3);
    cr_expect_eq(manifest->files_bytes, 70512);
    cr_expect_str_eq(manifest->tensors[0].name, "Z.upper");
    cr_expect_str_eq(manifest->tensors[6].name, "ü.weight");
    cr_expect_str_eq(manifest_find_tensor(manifest, "q.weight")->atomic_set, "q");
    cr_expect_null(manifest_find_tensor(manifest, "q"));
    struct baton_status st = manifest_encode_json(manifest, &text, &bytes);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = manifest_decode_json((struct baton_bytes){ (const uint8_t *)text, bytes }, &again);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(digest_equal(again->digest, manifest->digest));
    cr_expect_str_eq(again->tensors[0].file, "model.safetensors");
    free(text);
    manifest_destroy(again);
    manifest_destroy(manifest);
}

static void expect_refused(const char *from, const char *to, const char *words)
{
    struct baton_bytes text = golden_text();
    char *copy = malloc(text.size + strlen(to) + 1);
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    const char *found = strstr(copy, from);
    cr_assert_not_null(found, "%s", from);
    size_t head = (size_t)(found - copy);
    char *changed = malloc(text.size + strlen(to) + 1);
    int length = snprintf(changed, text.size + strlen(to) + 1, "%.*s%s%s", (int)head, copy, to,
                          found + strlen(from));
    struct manifest *manifest = NULL;
    struct baton_status st =
        manifest_decode_json((struct baton_bytes){ (uint8_t *)changed, (size_t)length }, &manifest);
    cr_expect_not(baton_ok(&st), "%s", to);
    cr_expect_not_null(strstr(st.message, words), "%s: got '%s'", to, st.message);
    cr_expect_not_null(strstr(st.message, "baton.manifest.json"), "%s", st.message);
    free(changed);
    free(copy);
    free((void *)text.data);
}

/* Each rule of the format, broken once. */
Test(manifest, refuses_what_breaks_the_format)
{
    expect_refused("\"format\":1", "\"format\":2", "format 2");
    expect_refused("\"format\":1", "\"formal\":1", "format");
    expect_refused("\"format\":1", "\"format\":1,\"x\":1", "unknown key 'x'");
    expect_refused("\"format\":1", "\"format\":1,\"format\":1", "duplicate");
    expect_refused("\"versionDigest\":\"0", "\"versionDigest\":\"1", "versionDigest is 1");
    expect_refused("\"versionDigest\":\"0", "\"versionDigest\":\"", "versionDigest");
    expect_refused("\"name\":\"a.empty\"", "\"name\":\"zz\"", "tensors[2]");
    expect_refused("\"name\":\"a.empty\"", "\"name\":\"Z.upper\"", "there twice");
    expect_refused("\"name\":\"a.empty\"", "\"name\":5", "tensors[1]");
    expect_refused("\"name\":\"a.empty\"", "\"nome\":\"a\"", "key");
    expect_refused("\"dtype\":\"I64\"", "\"dtype\":\"i64\"", "dtype");
    expect_refused("\"shape\":[3,0]", "\"shape\":[3,-1]", "shape");
    expect_refused("\"shape\":[3,0]", "\"shape\":[1,1,1,1,1,1,1,1,1]", "shape");
    expect_refused("\"shape\":[5]", "\"shape\":[9223372036854775807,3]", "overflows");
    expect_refused("\"shape\":[5]", "\"shape\":[6]", "versionDigest");
    expect_refused("\"atomicSet\":\"q\"", "\"atomicSet\":\"r\"", "versionDigest");
    expect_refused("\"file\":\"model.safetensors\"", "\"file\":\"../model.safetensors\"", "file");
    expect_refused("\"name\":\"config.json\"", "\"name\":\"a/config.json\"", "plain file name");
    expect_refused("\"bytes\":512", "\"bytes\":-1", "bytes");
    expect_refused("\"bytes\":512", "\"bytes\":513", "versionDigest");
    expect_refused("\"files\":[", "\"files\":[[],", "files[0]");
    expect_refused("\"files\":[", "\"files\":[[[[", "JSON");
}

/* Parts of any size add up to the version's digest, and to the manifest. */
Test(manifest, travels_in_parts)
{
    struct manifest *manifest = golden();
    struct manifest *rebuilt = manifest_create();
    struct version_digester digester;
    uint8_t part[4096];
    size_t cursor = 0;
    size_t bytes = 0;
    version_digester_init(&digester);
    while ((bytes = manifest_encode_part(manifest, &cursor, part, 4096)) > 0) {
        struct baton_bytes view = { part, bytes };
        struct baton_status st = version_digester_add_part(&digester, view);
        cr_assert(baton_ok(&st), "%s", st.message);
        st = manifest_decode_part(rebuilt, view);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    cr_expect(digest_equal(version_digester_finish(&digester), manifest->digest));
    cr_expect_eq(digester.tensors_count, 7);
    cr_expect_eq(digester.files_count, 3);
    cr_expect_eq(digester.bytes, manifest->tensors_bytes + manifest->files_bytes);
    struct baton_status st = manifest_seal(rebuilt);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(digest_equal(rebuilt->digest, manifest->digest));
    manifest_destroy(rebuilt);
    manifest_destroy(manifest);
}

/* A large manifest is cut into parts that are whole, bounded, and few. */
Test(manifest, cuts_large_manifests)
{
    struct manifest *manifest = manifest_create();
    struct version_digester digester;
    uint8_t *part = malloc(BATON_MANIFEST_PART_BYTES_MAX);
    size_t cursor = 0;
    size_t bytes = 0;
    size_t parts = 0;
    for (unsigned i = 0; i < 20000; i++) {
        char name[64];
        snprintf(name, sizeof(name), "model.layers.%05u.weight", i);
        struct manifest_tensor tensor = { .name = name,
                                          .dtype = TENSOR_DTYPE_BF16,
                                          .shape = { 2, { i, 7 } } };
        struct baton_status st = manifest_add_tensor(manifest, &tensor);
        cr_assert(baton_ok(&st));
    }
    struct baton_status st = manifest_seal(manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    version_digester_init(&digester);
    while ((bytes = manifest_encode_part(manifest, &cursor, part, BATON_MANIFEST_PART_BYTES_MAX)) >
           0) {
        st = version_digester_add_part(&digester, (struct baton_bytes){ part, bytes });
        cr_assert(baton_ok(&st), "%s", st.message);
        parts++;
    }
    cr_expect_eq(parts, 3);
    cr_expect(digest_equal(version_digester_finish(&digester), manifest->digest));
    free(part);
    manifest_destroy(manifest);
}

static struct manifest_entry entry_of(enum manifest_kind kind, const char *name)
{
    struct manifest_entry entry;
    memset(&entry, 0, sizeof(entry));
    entry.kind = kind;
    entry.name = baton_bytes_of(name);
    entry.atomic_set = baton_bytes_of("");
    entry.dtype = TENSOR_DTYPE_U8;
    entry.bytes = kind == MANIFEST_KIND_TENSOR ? 1 : 5;
    return entry;
}

/* The running digest takes entries in one order only. */
Test(version_digester, refuses_disorder)
{
    struct version_digester digester;
    struct manifest_entry b = entry_of(MANIFEST_KIND_TENSOR, "b");
    struct manifest_entry a = entry_of(MANIFEST_KIND_TENSOR, "a");
    struct manifest_entry file = entry_of(MANIFEST_KIND_FILE, "a");
    struct manifest_entry bad = entry_of(MANIFEST_KIND_FILE, "..");
    struct manifest_entry wrong = entry_of(MANIFEST_KIND_TENSOR, "c");
    wrong.bytes = 2;
    version_digester_init(&digester);
    struct baton_status st = version_digester_add(&digester, &b);
    cr_assert(baton_ok(&st));
    st = version_digester_add(&digester, &b);
    cr_expect_not_null(strstr(st.message, "twice"), "%s", st.message);
    st = version_digester_add(&digester, &a);
    cr_expect_not_null(strstr(st.message, "out of order"), "%s", st.message);
    st = version_digester_add(&digester, &wrong);
    cr_expect_not_null(strstr(st.message, "bytes"), "%s", st.message);
    st = version_digester_add(&digester, &file);
    cr_expect(baton_ok(&st), "%s", st.message);
    st = version_digester_add(&digester, &bad);
    cr_expect_not_null(strstr(st.message, "plain"), "%s", st.message);
    b.name = baton_bytes_of("z");
    st = version_digester_add(&digester, &b);
    cr_expect_not_null(strstr(st.message, "tensors come first"), "%s", st.message);
    cr_expect_eq(digester.tensors_count, 1);
}

/* Every truncation of a part is refused; so are unknown kinds and lengths out of bounds. */
Test(version_digester, refuses_broken_parts)
{
    struct manifest_entry entry = entry_of(MANIFEST_KIND_TENSOR, "tensor.name");
    uint8_t part[256];
    struct baton_writer writer = baton_writer_of(part, sizeof(part));
    manifest_part_write(&writer, &entry);
    for (size_t size = 1; size < writer.size; size++) {
        struct version_digester digester;
        version_digester_init(&digester);
        struct baton_status st =
            version_digester_add_part(&digester, (struct baton_bytes){ part, size });
        cr_expect_not(baton_ok(&st), "%zu of %zu bytes", size, writer.size);
    }
    struct version_digester digester;
    version_digester_init(&digester);
    part[0] = 3;
    struct baton_status st =
        version_digester_add_part(&digester, (struct baton_bytes){ part, writer.size });
    cr_expect_not_null(strstr(st.message, "kind is 3"), "%s", st.message);
    part[0] = 1;
    memset(part + 1, 0xff, 4);
    st = version_digester_add_part(&digester, (struct baton_bytes){ part, writer.size });
    cr_expect_eq(st.reason, BATON_REASON_TRUNCATED);
    st = version_digester_add_part(&digester,
                                   (struct baton_bytes){ part, BATON_MANIFEST_PART_BYTES_MAX + 1 });
    cr_expect_eq(st.reason, BATON_REASON_LIMIT);
}

/* Names are UTF-8 without control characters: what a part may hold, JSON can hold too. */
Test(version_digester, checks_names)
{
    static const char *const good[] = { "a", "ü", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "a.b/c" };
    static const char *const bad[] = { "",
                                       "a\n",
                                       "\x7f",
                                       "\x80",
                                       "\xc3",
                                       "\xc0\xaf",
                                       "\xe0\x80\x80",
                                       "\xed\xa0\x80",
                                       "\xf4\x90\x80\x80",
                                       "\xff" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct baton_status st = manifest_name_check(MANIFEST_KIND_TENSOR, baton_bytes_of(good[i]));
        cr_expect(baton_ok(&st), "%zu: %s", i, st.message);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct baton_status st = manifest_name_check(MANIFEST_KIND_TENSOR, baton_bytes_of(bad[i]));
        cr_expect_not(baton_ok(&st), "%zu", i);
    }
}

static struct manifest *with(const char *const *names, const uint64_t *rows, size_t count,
                             uint8_t digest)
{
    struct manifest *manifest = manifest_create();
    for (size_t i = 0; i < count; i++) {
        struct manifest_tensor tensor = { .name = names[i],
                                          .file = "model.safetensors",
                                          .dtype = TENSOR_DTYPE_F32,
                                          .shape = { 1, { rows[i] } },
                                          .digest = { { digest } } };
        struct baton_status st = manifest_add_tensor(manifest, &tensor);
        cr_assert(baton_ok(&st));
    }
    struct baton_status st = manifest_seal(manifest);
    cr_assert(baton_ok(&st), "%s", st.message);
    return manifest;
}

static void expect_difference(struct manifest *from, struct manifest *to, const char *words)
{
    struct baton_status st = manifest_compare_layout(from, to);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.message, words), "got '%s'", st.message);
    manifest_destroy(to);
}

/* The first difference is named; digests do not matter. */
Test(manifest, compares_layouts)
{
    const char *const names[] = { "a", "b", "c" };
    const char *const others[] = { "a", "bb", "c" };
    struct manifest *from = with(names, (uint64_t[]){ 1, 2, 3 }, 3, 1);
    struct manifest *same = with(names, (uint64_t[]){ 1, 2, 3 }, 3, 2);
    struct baton_status st = manifest_compare_layout(from, same);
    cr_expect(baton_ok(&st), "%s", st.message);
    manifest_destroy(same);
    expect_difference(from, with(names, (uint64_t[]){ 1, 2, 4 }, 3, 1),
                      "'c': shape is [4], not [3]");
    expect_difference(from, with(names, (uint64_t[]){ 1, 2 }, 2, 1), "'c': is missing");
    expect_difference(from, with(others, (uint64_t[]){ 1, 2, 3 }, 3, 1), "'b': is missing");
    expect_difference(from, with(names + 1, (uint64_t[]){ 2, 3 }, 2, 1), "'a': is missing");
    struct manifest *small = with(names, (uint64_t[]){ 1 }, 1, 1);
    expect_difference(small, with(names, (uint64_t[]){ 1, 2 }, 2, 1), "'b': is new");
    manifest_destroy(small);
    manifest_destroy(from);
}

/* A partial version changes what it has, inherits the rest, and may not add or reshape. */
Test(manifest, merges_a_partial_version)
{
    const char *const names[] = { "a", "b", "c" };
    const char *const strange[] = { "x" };
    struct manifest *parent = with(names, (uint64_t[]){ 1, 2, 3 }, 3, 1);
    struct manifest *partial = with(names + 1, (uint64_t[]){ 2 }, 1, 9);
    struct manifest *whole = NULL;
    struct baton_status st = manifest_merge(parent, partial, &whole);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(whole->tensors_count, 3);
    cr_expect_eq(whole->tensors[0].digest.bytes[0], 1);
    cr_expect_eq(whole->tensors[1].digest.bytes[0], 9);
    cr_expect_not(digest_equal(whole->digest, parent->digest));
    manifest_destroy(whole);
    manifest_destroy(partial);
    partial = with(names, (uint64_t[]){ 7 }, 1, 9);
    st = manifest_merge(parent, partial, &whole);
    cr_expect_not_null(strstr(st.message, "'a': shape is [7], not [1]"), "%s", st.message);
    manifest_destroy(partial);
    partial = with(strange, (uint64_t[]){ 1 }, 1, 9);
    st = manifest_merge(parent, partial, &whole);
    cr_expect_not_null(strstr(st.message, "'x'"), "%s", st.message);
    manifest_destroy(partial);
    manifest_destroy(parent);
}
