/* box_copies.c -- random copies and their definition. */
#include "tests/unit/box_copies.h"

#include <string.h>

/* From the run outwards: each level's step is at least what is inside it, often exactly. */
struct layout_strides box_copies_random(struct baton_random *random)
{
    static const uint64_t units[] = { 1, 2, 4, 8, 16, 32, 6, 48 };
    struct layout_strides s = { .source_bits = 8, .target_bits = 8 };
    uint64_t unit = units[baton_random_below(random, sizeof(units) / sizeof(units[0]))];
    uint64_t most = baton_random_below(random, 4) == 0 ? 200 : 12; /* Runs; some take tiles. */
    s.run_elements = unit * (1 + baton_random_below(random, most));
    s.levels = (uint32_t)baton_random_below(random, 7);
    uint64_t from = s.run_elements;
    uint64_t to = s.run_elements;
    for (uint32_t level = s.levels; level-- > 0;) {
        bool has_room = (from > to ? from : to) < BOX_COPIES_BYTES / 8;
        s.counts[level] = has_room ? 1 + baton_random_below(random, 4) : 1;
        s.source_steps[level] = from + unit * (baton_random_below(random, 3) / 2);
        s.target_steps[level] = to + unit * (baton_random_below(random, 3) / 2);
        from = s.source_steps[level] * s.counts[level];
        to = s.target_steps[level] * s.counts[level];
    }
    s.source_offset = unit * baton_random_below(random, 3);
    s.target_offset = unit * baton_random_below(random, 3);
    return s;
}

void box_copies_perform(const struct layout_strides *strides, const uint8_t *source,
                        uint8_t *target)
{
    uint64_t copies = 1;
    for (uint32_t level = 0; level < strides->levels; level++) {
        copies *= strides->counts[level];
    }
    for (uint64_t i = 0; i < copies; i++) {
        uint64_t from = strides->source_offset;
        uint64_t to = strides->target_offset;
        uint64_t rest = i;
        for (uint32_t level = strides->levels; level-- > 0;) {
            from += rest % strides->counts[level] * strides->source_steps[level];
            to += rest % strides->counts[level] * strides->target_steps[level];
            rest /= strides->counts[level];
        }
        memcpy(target + to, source + from, strides->run_elements);
    }
}
