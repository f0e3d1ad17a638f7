/* Where each element of each tensor goes, on every rank of a group. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/miniengine/weights.h"

static const struct model_config config = { .hidden = 8,
                                            .layers = 2,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .head_dim = 4,
                                            .intermediate = 6,
                                            .vocab = 11,
                                            .positions_max = 64 };

/* Every element of a tensor has a value of its own. */
static float *words(const struct weights_tensor *tensor)
{
    size_t count = tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1);
    float *data = calloc(count, sizeof *data);
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)(i + 1);
    }
    return data;
}

Test(weights, all_ranks_together_hold_every_element)
{
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        size_t held = 0;
        size_t whole = 0;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            struct weights_layout layout;
            cr_assert(weights_init(&layout, &config, rank, ranks, NULL));
            cr_assert_eq(layout.tensors_count, 2 * 11 + 3);
            for (uint32_t i = 0; i < layout.tensors_count; i++) {
                const struct weights_tensor *t = &layout.tensors[i];
                held += t->rank == 2 ? (size_t)t->boxes[0].rows * t->boxes[0].columns : 0;
                whole += t->rank == 2 && rank == 0 ? t->shape[0] * t->shape[1] : 0;
            }
            weights_deinit(&layout);
        }
        cr_assert_eq(held, whole, "%u ranks", ranks);
    }
}

Test(weights, what_was_loaded_is_equal_and_one_bit_shows)
{
    struct weights_layout layout;
    cr_assert(weights_init(&layout, &config, 1, 2, NULL));
    float *set = calloc(layout.floats, sizeof *set);
    for (uint32_t i = 0; i < layout.tensors_count; i++) {
        const struct weights_tensor *tensor = &layout.tensors[i];
        float *data = words(tensor);
        struct weights_source source = { .dtype = "F32", .data = data };
        weights_load(tensor, source, set);
        cr_assert(weights_equal(tensor, source, set), "%s", tensor->name);
        set[tensor->boxes[0].offset] += 0.5F;
        cr_assert_not(weights_equal(tensor, source, set), "%s", tensor->name);
        set[tensor->boxes[0].offset] -= 0.5F;
        free(data);
    }
    free(set);
    weights_deinit(&layout);
}

/* Two tensors never share a float: loading one leaves the others as they were. */
Test(weights, tensors_do_not_overlap)
{
    struct weights_layout layout;
    cr_assert(weights_init(&layout, &config, 0, 2, NULL));
    uint32_t *owner = calloc(layout.floats, sizeof *owner);
    for (uint32_t i = 0; i < layout.tensors_count; i++) {
        const struct weights_box *box = &layout.tensors[i].boxes[0];
        for (uint32_t r = 0; r < box->rows; r++) {
            for (uint32_t c = 0; c < box->columns; c++) {
                size_t place = box->transposed ? box->offset + (size_t)c * box->stride + r
                                               : box->offset + (size_t)r * box->stride + c;
                cr_assert_lt(place, layout.floats);
                cr_assert_eq(owner[place], 0, "%s", layout.tensors[i].name);
                owner[place] = i + 1;
            }
        }
    }
    free(owner);
    weights_deinit(&layout);
}

/* The output layer of a tied model comes from the embedding. */
Test(weights, tied_models_fill_both_tables_from_one_tensor)
{
    struct model_config tied = config;
    tied.tied = true;
    struct weights_layout layout;
    cr_assert(weights_init(&layout, &tied, 0, 1, NULL));
    cr_assert_null(weights_find(&layout, "lm_head.weight"));
    const struct weights_tensor *tensor = weights_find(&layout, "model.embed_tokens.weight");
    cr_assert_eq(tensor->boxes_count, 2);
    float *set = calloc(layout.floats, sizeof *set);
    float *data = words(tensor);
    weights_load(tensor, (struct weights_source){ .dtype = "F32", .data = data }, set);
    cr_assert_eq(set[layout.embedding + 3 * 8 + 5], set[layout.head + 5 * 11 + 3]);
    free(data);
    free(set);
    weights_deinit(&layout);
}

Test(weights, groups_that_do_not_divide_are_refused)
{
    struct weights_layout layout;
    struct trouble why;
    cr_assert_not(weights_init(&layout, &config, 0, 4, &why));
    cr_assert_str_eq(why.code, "BAD_REQUEST");
}
