/* cuda_boxes_test.c -- a plan's copies as boxes: the same bytes, in as few boxes as there can be. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/box_copies.h"

/* A box as its definition says: nested loops around a run. */
static void box_perform(const struct baton_cuda_box *box)
{
    for (uint64_t i = 0; i < box->counts[0] * box->counts[1] * box->counts[2]; i++) {
        uint64_t at[3] = { i / box->counts[2] / box->counts[1], i / box->counts[2] % box->counts[1],
                           i % box->counts[2] };
        uint64_t from = 0;
        uint64_t to = 0;
        for (int level = 0; level < 3; level++) {
            from += at[level] * box->source_steps[level];
            to += at[level] * box->target_steps[level];
        }
        memcpy((uint8_t *)box->target + to, (const uint8_t *)box->source + from, box->run_bytes);
    }
}

/* Everything that the kernel adds up must be whole units. */
static void box_check_unit(const struct baton_cuda_box *box)
{
    uint64_t unit = box->unit_bytes;
    cr_assert(unit == 1 || unit == 2 || unit == 4 || unit == 8 || unit == 16);
    cr_assert_eq((uintptr_t)box->source % unit + (uintptr_t)box->target % unit, 0);
    cr_assert_eq(box->run_bytes % unit, 0);
    for (int level = 0; level < 3; level++) {
        cr_assert_eq(box->source_steps[level] % unit + box->target_steps[level] % unit, 0);
    }
}

struct area {
    uint8_t *source;
    uint8_t *target;
    uint8_t *expected;
    struct baton_cuda_box *items;
};

static struct area area_create(void)
{
    struct area area = { malloc(BOX_COPIES_BYTES), malloc(BOX_COPIES_BYTES),
                         malloc(BOX_COPIES_BYTES),
                         calloc(BOX_COPIES_BOXES, sizeof(struct baton_cuda_box)) };
    cr_assert(area.source != NULL && area.target != NULL && area.expected != NULL &&
              area.items != NULL);
    for (size_t i = 0; i < BOX_COPIES_BYTES; i++) {
        area.source[i] = (uint8_t)(i * 7 + i / 251);
    }
    return area;
}

static void area_free(struct area *area)
{
    free(area->source);
    free(area->target);
    free(area->expected);
    free(area->items);
}

/* 2,000 random copies: the same bytes as by definition, and not one beside them. */
Test(cuda_boxes, copy_what_the_strides_say)
{
    struct area area = area_create();
    struct baton_random random;
    baton_random_seed(&random, 20261201);
    for (int round = 0; round < 2000; round++) {
        struct layout_strides strides = box_copies_random(&random);
        struct boxes boxes = { area.items, 0, BOX_COPIES_BOXES, 0 };
        memset(area.target, 0xA5, BOX_COPIES_BYTES);
        memset(area.expected, 0xA5, BOX_COPIES_BYTES);
        box_copies_perform(&strides, area.source, area.expected);
        struct baton_status st = boxes_add(&boxes, &strides, area.source, area.target);
        cr_assert(baton_ok(&st), "%s", st.message);
        uint64_t tiles = 0;
        for (uint32_t i = 0; i < boxes.count; i++) {
            const struct baton_cuda_box *box = &boxes.items[i];
            box_check_unit(box);
            box_perform(box);
            cr_assert_eq(box->first_tile, tiles);
            uint64_t units =
                box->run_bytes / box->unit_bytes * box->counts[0] * box->counts[1] * box->counts[2];
            tiles += (units + BATON_CUDA_BOX_TILE - 1) / BATON_CUDA_BOX_TILE;
        }
        cr_assert_eq(boxes.tiles, tiles);
        cr_assert_arr_eq(area.target, area.expected, BOX_COPIES_BYTES, "round %d", round);
    }
    area_free(&area);
}

/* Rows that follow one another are one run; every fourth row of a matrix is one box of rows. */
Test(cuda_boxes, fold_levels)
{
    struct baton_cuda_box items[4];
    struct boxes boxes = { items, 0, 4, 0 };
    struct layout_strides whole = { .run_elements = 64,
                                    .source_bits = 16,
                                    .target_bits = 16,
                                    .levels = 2,
                                    .counts = { 8, 4 },
                                    .source_steps = { 512, 128 },
                                    .target_steps = { 512, 128 } };
    struct layout_strides rows = { .run_elements = 64,
                                   .source_bits = 16,
                                   .target_bits = 16,
                                   .levels = 2,
                                   .counts = { 8, 4 },
                                   .source_steps = { 2048, 512 },
                                   .target_steps = { 512, 128 } };
    struct baton_status st = boxes_add(&boxes, &whole, NULL, NULL);
    cr_assert(baton_ok(&st));
    st = boxes_add(&boxes, &rows, NULL, NULL);
    cr_assert(baton_ok(&st));
    cr_assert_eq(boxes.count, 2);
    cr_expect_eq(items[0].run_bytes, 4096);
    cr_expect_eq(items[0].unit_bytes, 16);
    cr_expect_eq(items[1].run_bytes, 128);
    cr_expect_eq(items[1].counts[2], 32);
    cr_expect_eq(items[1].source_steps[2], 512);
}

/* What is no copy of bytes, and what does not fit, is refused and adds nothing. */
Test(cuda_boxes, refuse)
{
    struct baton_cuda_box items[1];
    struct boxes boxes = { items, 0, 1, 0 };
    struct layout_strides cast = { .run_elements = 4, .source_bits = 16, .target_bits = 8 };
    struct layout_strides nibble = { .run_elements = 3, .source_bits = 4, .target_bits = 4 };
    struct layout_strides deep = { .run_elements = 1,
                                   .source_bits = 8,
                                   .target_bits = 8,
                                   .levels = 4,
                                   .counts = { 2, 2, 2, 2 },
                                   .source_steps = { 81, 27, 9, 3 },
                                   .target_steps = { 81, 27, 9, 3 } };
    struct layout_strides nothing = { .run_elements = 0, .source_bits = 8, .target_bits = 8 };
    struct baton_status st = boxes_add(&boxes, &cast, NULL, NULL);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
    st = boxes_add(&boxes, &nibble, NULL, NULL);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
    deep.source_steps[2] = 10;
    deep.target_steps[1] = 28;
    deep.source_steps[0] = 90;
    st = boxes_add(&boxes, &deep, NULL, NULL);
    cr_expect_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    st = boxes_add(&boxes, &nothing, NULL, NULL);
    cr_expect(baton_ok(&st));
    cr_expect_eq(boxes.count, 0);
    cr_expect_eq(boxes.tiles, 0);
}
