/* shard_plan_test.c -- headers that we write are read back by the strict reader, and are
 * aligned. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "transport/model/safetensors.h"
#include "transport/model/shard_plan.h"

static struct manifest *three_tensors(void)
{
    struct manifest *manifest = manifest_create();
    const struct manifest_tensor tensors[] = {
        { .name = "a.bias", .dtype = TENSOR_DTYPE_U8, .shape = { 1, { 3 } } },
        { .name = "b\"quoted\"\\é", .dtype = TENSOR_DTYPE_BF16, .shape = { 2, { 5, 7 } } },
        { .name = "c.scale", .dtype = TENSOR_DTYPE_F64, .shape = { 0, { 0 } } },
    };
    for (size_t i = 0; i < 3; i++) {
        struct baton_status st = manifest_add_tensor(manifest, &tensors[i]);
        cr_assert(baton_ok(&st));
    }
    struct baton_status st = manifest_sort(manifest);
    cr_assert(baton_ok(&st));
    return manifest;
}

/* One file: wide elements first, each tensor aligned to its element, header a multiple of 64. */
Test(shard_plan, lays_out_one_file)
{
    struct manifest *manifest = three_tensors();
    struct shard_plan *plan = NULL;
    struct safetensors *parsed = NULL;
    struct baton_status st = shard_plan_assign(manifest, 1 << 20);
    cr_assert(baton_ok(&st));
    st = shard_plan_create(manifest, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(plan->shards_count, 1);
    cr_expect_not(shard_plan_needs_index(plan));
    const struct shard *shard = &plan->shards[0];
    cr_expect_eq(shard->header_bytes % 64, 0);
    struct baton_bytes header = { shard->header + 8, shard->header_bytes - 8 };
    st = safetensors_parse("planned", header, shard->file_bytes, &parsed);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_str_eq(parsed->tensors[0].name, "c.scale");
    for (size_t i = 0; i < 3; i++) {
        const struct safetensors_tensor *tensor = &parsed->tensors[i];
        const struct manifest_tensor *planned = manifest_find_tensor(manifest, tensor->name);
        cr_assert_not_null(planned);
        cr_expect_eq(plan->places[planned - manifest->tensors].offset, tensor->begin);
        cr_expect_eq(tensor->begin % (tensor_dtype_bits(tensor->dtype) / 8), 0);
    }
    safetensors_destroy(parsed);
    shard_plan_destroy(plan);
    manifest_destroy(manifest);
}

/* Several files: numbered, with an index that names each tensor's. */
Test(shard_plan, spreads_over_files)
{
    struct manifest *manifest = three_tensors();
    struct shard_plan *plan = NULL;
    struct safetensors_index *index = NULL;
    char *text = NULL;
    size_t bytes = 0;
    struct baton_status st = shard_plan_assign(manifest, 10);
    cr_assert(baton_ok(&st));
    st = shard_plan_create(manifest, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(plan->shards_count, 3);
    cr_expect(shard_plan_needs_index(plan));
    st = shard_plan_index_json(plan, manifest, &text, &bytes);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = safetensors_index_parse("index", (struct baton_bytes){ (uint8_t *)text, bytes }, &index);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_str_eq(safetensors_index_find(index, "a.bias"), "model-00001-of-00003.safetensors");
    cr_expect_str_eq(safetensors_index_find(index, "c.scale"), "model-00003-of-00003.safetensors");
    safetensors_index_destroy(index);
    free(text);
    shard_plan_destroy(plan);
    manifest_destroy(manifest);
}
