/* cover.c -- see cover.h. */
#include "tests/sim/cover.h"

static uint64_t counters[COVER_KINDS * COVER_VALUES];

void cover(enum cover_kind kind, uint32_t value)
{
    if (value < COVER_VALUES) {
        counters[(uint32_t)kind * COVER_VALUES + value]++;
    }
}

uint64_t *cover_counters(void)
{
    return counters;
}
