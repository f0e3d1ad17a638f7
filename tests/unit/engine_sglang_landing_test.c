/* What may be shown to an SGLang server, and what its residents must hash to. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "agent/engine/sglang_landing.h"
#include "tests/unit/checkpoint_maker.h"
#include "tests/unit/sglang_landing_maker.h"

#define SUMS(head, qkv, norm)                                                                      \
    "{\"success\":true,\"ranks\":[{\"checksums\":{\"lm_head.weight\":\"" head                      \
    "\",\"model.layers.0.qkv_proj.weight\":\"" qkv "\",\"model.norm.weight\":\"" norm "\"}}]}"
#define ALL_SUMS SUMS(LANDING_SUM_HEAD, LANDING_SUM_QKV, LANDING_SUM_NORM)

static const struct sglang_limit NO_LIMIT = { UINT64_MAX, NULL };
static char *dir;
static char digest[BATON_DIGEST_TEXT_BYTES];
static struct sglang_landing *landing;
static struct sglang_fault fault;

static void begin(void)
{
    dir = maker_directory();
    landing_make(dir, LANDING_WHOLE, digest);
}

static void end(void)
{
    sglang_landing_close(landing);
    landing = NULL;
    maker_remove(dir);
}

TestSuite(sglang_landing, .init = begin, .fini = end);

static void open_whole(void)
{
    struct baton_status st = sglang_landing_open(dir, digest, &NO_LIMIT, &landing, &fault);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void expect_refused(const char *code, const char *tensor)
{
    struct baton_status st = sglang_landing_open(dir, digest, &NO_LIMIT, &landing, &fault);
    cr_assert(!baton_ok(&st));
    cr_expect_str_eq(fault.code, code, "%s", st.message);
    cr_expect_str_eq(fault.tensor, tensor, "%s", st.message);
}

static struct baton_status compare(const char *answer)
{
    return sglang_landing_compare(landing, baton_bytes_of(answer), &fault);
}

/* A file that ends early kills the server that reads it. */
Test(sglang_landing, truncated_file_is_refused)
{
    struct baton_bytes file = maker_read(dir, "model.safetensors");
    maker_write(dir, "model.safetensors", (struct baton_bytes){ file.data, file.size - 1 });
    expect_refused("LANDING_UNREADABLE", "");
    maker_write(dir, "model.safetensors", (struct baton_bytes){ file.data, 0 });
    expect_refused("LANDING_UNREADABLE", "");
    free((void *)(uintptr_t)file.data);
}

/* One bit, which the server would not notice. */
Test(sglang_landing, damaged_byte_is_refused)
{
    struct baton_bytes file = maker_read(dir, "model.safetensors");
    maker_damage(dir, "model.safetensors", (long)file.size - 1);
    free((void *)(uintptr_t)file.data);
    expect_refused("DIGEST_MISMATCH", "model.norm.weight");
}

Test(sglang_landing, another_version_is_refused)
{
    digest[0] = digest[0] == '0' ? '1' : '0';
    expect_refused("DIGEST_MISMATCH", "");
}

/* A checkpoint that is not what its manifest says: here the file of a version without one tensor. */
Test(sglang_landing, tensors_that_the_manifest_does_not_tell_of_are_refused)
{
    char other[BATON_DIGEST_TEXT_BYTES];
    struct baton_bytes manifest = maker_read(dir, "baton.manifest.json");
    landing_make(dir, LANDING_NO_K, other);
    maker_write(dir, "baton.manifest.json", manifest);
    free((void *)(uintptr_t)manifest.data);
    expect_refused("MISSING_TENSOR", "model.layers.0.k_proj.weight");
}

static void expect_unfit(enum landing_fault wrong, const char *code, const char *tensor)
{
    char other[BATON_DIGEST_TEXT_BYTES];
    char *folder = maker_directory();
    struct sglang_landing *made = NULL;
    landing_make(folder, wrong, other);
    struct baton_status st = sglang_landing_open(folder, other, &NO_LIMIT, &made, &fault);
    cr_assert(baton_ok(&st), "sealed honestly: %s", st.message);
    st = sglang_landing_fits(made, dir, &fault);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_str_eq(fault.code, code);
    cr_expect_str_eq(fault.tensor, tensor);
    sglang_landing_close(made);
    maker_remove(folder);
}

/* Each is loaded with 200, or ends the server. */
Test(sglang_landing, another_layout_than_the_served_one_is_refused)
{
    expect_unfit(LANDING_NO_K, "MISSING_TENSOR", "model.layers.0.k_proj.weight");
    expect_unfit(LANDING_EXTRA, "UNEXPECTED_TENSOR", "zz.bias");
    expect_unfit(LANDING_NARROW, "SHAPE_MISMATCH", "model.norm.weight");
    expect_unfit(LANDING_RECAST, "DTYPE_MISMATCH", "model.norm.weight");
}

Test(sglang_landing, nobody_knows_what_fits_where_the_served_checkpoint_is_gone)
{
    open_whole();
    struct baton_status st = sglang_landing_fits(landing, dir, &fault);
    cr_expect(baton_ok(&st), "%s", st.message);
    st = sglang_landing_fits(landing, "/nowhere", &fault);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.hint, "local folder"));
}

Test(sglang_landing, residents_are_compared_with_the_bytes)
{
    open_whole();
    struct baton_status st = compare(ALL_SUMS);
    cr_expect(baton_ok(&st), "%s", st.message);
    st = compare(SUMS(LANDING_SUM_HEAD, LANDING_SUM_NORM, LANDING_SUM_NORM));
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED);
    cr_expect_str_eq(fault.code, "VERIFY_FAILED");
    cr_expect_str_eq(fault.tensor, "model.layers.0.qkv_proj.weight");
    st = compare(SUMS(LANDING_SUM_NORM, LANDING_SUM_QKV, LANDING_SUM_NORM));
    cr_expect_str_eq(fault.tensor, "lm_head.weight");
}

/* A landing is of any size: its reading ends in time, and nobody is blamed. */
Test(sglang_landing, reading_ends_with_its_limit)
{
    struct http *http = NULL;
    const struct http_options options = { .url = "http://127.0.0.1:9", .token = "" };
    struct baton_status st =
        sglang_landing_open(dir, digest, &(struct sglang_limit){ 0, NULL }, &landing, &fault);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED, "%s", st.message);
    cr_expect_str_eq(fault.code, "");
    st = http_open(&options, &http);
    cr_assert(baton_ok(&st), "%s", st.message);
    const struct sglang_limit limit = { UINT64_MAX, http };
    st = sglang_landing_open(dir, digest, &limit, &landing, &fault);
    cr_assert(baton_ok(&st), "%s", st.message);
    http_abort(http);
    st = compare(ALL_SUMS);
    cr_expect_eq(st.code, BATON_CANCELLED, "%s", st.message);
    http_close(http);
}

/* A name that is not known hides no damage behind it. */
Test(sglang_landing, what_differs_behind_an_unknown_name_is_found)
{
    open_whole();
    struct baton_status st =
        compare("{\"success\":true,\"ranks\":[{\"checksums\":{\"model.w13\":\"0123456789abcdef\","
                "\"model.norm.weight\":\"" LANDING_SUM_QKV "\"}}]}");
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_LIED, "%s", st.message);
    cr_expect_str_eq(fault.tensor, "model.norm.weight");
}

/* Nothing is claimed of what could not be compared. */
Test(sglang_landing, names_that_are_not_known_prove_nothing)
{
    open_whole();
    struct baton_status st = compare(
        "{\"success\":true,\"ranks\":[{\"checksums\":{\"model.w13\":\"0123456789abcdef\"}}]}");
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "%s", st.message);
    st = compare("{\"success\":true,\"ranks\":[{\"checksums\":{\"model.norm.weight\":"
                 "\"" LANDING_SUM_NORM "\"}}]}");
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "one of five tensors: %s", st.message);
}

Test(sglang_landing, answers_that_are_none_are_malformed)
{
    static const char *const WRONG[] = {
        "",
        "[]",
        "{}",
        "{\"success\":false,\"ranks\":[]}",
        "{\"success\":true,\"ranks\":[]}",
        "{\"success\":true,\"ranks\":[{\"checksums\":{}}]}",
        "{\"success\":true,\"ranks\":[{\"checksums\":{\"model.norm.weight\":7}}]}",
        "{\"success\":true,\"ranks\":[{\"checksums\":{\"model.norm.weight\":\"12\"}}]}",
        "{\"success\":true,\"ranks\":[{\"checksums\":{\"a\":\"0123456789abcdef\"}},{}]}"
    };
    open_whole();
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        struct baton_status st = compare(WRONG[i]);
        cr_expect_eq(st.reason, BATON_REASON_MALFORMED, "%s: %s", WRONG[i], st.message);
    }
}
