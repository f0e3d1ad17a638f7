/* box.c -- see box.h. */
#include "transport/layout/box.h"

#include <stdio.h>
#include <string.h>

uint64_t box_volume(uint32_t rank, const struct box *box)
{
    uint64_t volume = 1;
    for (uint32_t d = 0; d < rank; d++) {
        volume *= box->extent[d];
    }
    return volume;
}

bool box_equal(uint32_t rank, const struct box *a, const struct box *b)
{
    return memcmp(a->begin, b->begin, rank * sizeof(a->begin[0])) == 0 &&
           memcmp(a->extent, b->extent, rank * sizeof(a->extent[0])) == 0;
}

static uint64_t end_of(const struct box *box, uint32_t d)
{
    return (uint64_t)box->begin[d] + box->extent[d];
}

bool box_contains(uint32_t rank, const struct box *outer, const struct box *inner)
{
    for (uint32_t d = 0; d < rank; d++) {
        if (inner->begin[d] < outer->begin[d] || end_of(inner, d) > end_of(outer, d)) {
            return false;
        }
    }
    return true;
}

bool box_intersect(uint32_t rank, const struct box *a, const struct box *b, struct box *out)
{
    struct box common;
    memset(&common, 0, sizeof(common));
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t begin = a->begin[d] > b->begin[d] ? a->begin[d] : b->begin[d];
        uint64_t end = end_of(a, d) < end_of(b, d) ? end_of(a, d) : end_of(b, d);
        if (end <= begin) {
            return false;
        }
        common.begin[d] = begin;
        common.extent[d] = (uint32_t)(end - begin);
    }
    *out = common;
    return true;
}

uint32_t box_subtract(uint32_t rank, const struct box *box, const struct box *inner,
                      struct box out[BOX_REST_MAX])
{
    struct box left = *box; /* Shrinks to 'inner', one side after the other. */
    uint32_t count = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (inner->begin[d] > left.begin[d]) {
            out[count] = left;
            out[count++].extent[d] = inner->begin[d] - left.begin[d];
        }
        if (end_of(inner, d) < end_of(&left, d)) {
            out[count] = left;
            out[count].begin[d] = (uint32_t)end_of(inner, d);
            out[count++].extent[d] = (uint32_t)(end_of(&left, d) - end_of(inner, d));
        }
        left.begin[d] = inner->begin[d];
        left.extent[d] = inner->extent[d];
    }
    return count;
}

void box_format(uint32_t rank, const struct box *box, char out[BOX_TEXT_BYTES])
{
    size_t used = 0;
    out[used++] = '[';
    for (uint32_t d = 0; d < rank; d++) {
        used += (size_t)snprintf(out + used, BOX_TEXT_BYTES - used, "%s%u:%llu", d > 0 ? ", " : "",
                                 box->begin[d], (unsigned long long)end_of(box, d));
    }
    out[used++] = ']';
    out[used] = '\0';
}
