/* check_boxes.c -- strided copies on the device against their definition. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/rig.h"
#include "tests/unit/box_copies.h"

enum { COPIES = 64 };

/* Many copies in one launch, each with a target of its own. */
struct batch {
    struct boxes boxes;
    uint8_t *host;     /* Source: COPIES areas. */
    uint8_t *expected; /* Target. */
    uint8_t *source;   /* On the device. */
    uint8_t *target;
};

static struct batch batch_create(struct rig *rig)
{
    struct batch batch = { .boxes = { .capacity = COPIES * BOX_COPIES_BOXES } };
    uint64_t bytes = (uint64_t)COPIES * BOX_COPIES_BYTES;
    batch.boxes.items = calloc(batch.boxes.capacity, sizeof(struct baton_cuda_box));
    batch.host = rig_host(rig, bytes);
    batch.expected = malloc(bytes);
    memset(batch.expected, RIG_POISON, bytes);
    batch.source = rig_upload(rig, batch.host, bytes);
    batch.target = rig_device(rig, bytes);
    return batch;
}

static void batch_add(struct rig *rig, struct batch *batch, int copy)
{
    struct layout_strides strides = box_copies_random(&rig->random);
    uint64_t area = (uint64_t)copy * BOX_COPIES_BYTES;
    struct baton_status st =
        boxes_add(&batch->boxes, &strides, batch->source + area, batch->target + area);
    if (!baton_ok(&st)) {
        printf("not ok - boxes_add: %s\n", st.message);
        exit(2);
    }
    box_copies_perform(&strides, batch->host + area, batch->expected + area);
}

static bool batch_run(struct rig *rig, struct batch *batch)
{
    uint64_t bytes = (uint64_t)COPIES * BOX_COPIES_BYTES;
    void *table =
        rig_upload(rig, batch->boxes.items, batch->boxes.count * sizeof(struct baton_cuda_box));
    rig_must(rig, rig->cuda->copy_boxes(table, batch->boxes.count, batch->boxes.tiles, rig->stream),
             "copy_boxes");
    uint8_t *got = rig_download(rig, batch->target, bytes);
    bool holds = rig_equal("copied boxes", got, batch->expected, bytes);
    rig_free(rig, table);
    free(got);
    return holds;
}

static void batch_free(struct rig *rig, struct batch *batch)
{
    rig_free(rig, batch->source);
    rig_free(rig, batch->target);
    free(batch->boxes.items);
    free(batch->host);
    free(batch->expected);
}

void check_boxes(struct rig *rig)
{
    bool holds = true;
    for (int round = 0; round < 20 && holds; round++) {
        struct batch batch = batch_create(rig);
        for (int copy = 0; copy < COPIES; copy++) {
            batch_add(rig, &batch, copy);
        }
        holds = batch_run(rig, &batch);
        batch_free(rig, &batch);
    }
    rig_verdict(rig, "copies of 1,280 random boxes", holds);
}
