/* lag.c -- see lag.h. */
#include "controller/core/lag.h"
#include "api/base/mutant.h"

#include <string.h>

#define WALL_NS_PER_S UINT64_C(1000000000)

struct version_point lag_point_of(const struct version_record *version)
{
    return (struct version_point){ version->seq, version->optimizer_step, version->samples_trained,
                                   version->published_wall_ns };
}

void lineage_add(struct lineage *lineage, uint64_t seq, uint64_t parent, uint64_t before)
{
    if (lineage->base_seq == 0) {
        lineage->base_seq = seq;
        return;
    }
    if (parent == before && seq == before + 1) {
        return;
    }
    if (lineage->jumps_count == LAG_JUMPS_MAX) {
        lineage->base_seq = lineage->jumps[0].seq;
        lineage->jumps_count--;
        memmove(&lineage->jumps[0], &lineage->jumps[1],
                lineage->jumps_count * sizeof(lineage->jumps[0]));
    }
    lineage->jumps[lineage->jumps_count++] = (struct lineage_jump){ seq, parent };
}

/* Index of the last jump at or below 'seq', plus 1; 0: none. */
static uint32_t jump_below(const struct lineage *lineage, uint64_t seq)
{
    uint32_t low = 0;
    uint32_t high = lineage->jumps_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (lineage->jumps[middle].seq <= seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool lineage_distance(const struct lineage *lineage, uint64_t ancestor, uint64_t descendant,
                      uint64_t *out)
{
    uint64_t at = descendant;
    uint64_t passed = 0;
    while (ancestor != 0 && at >= ancestor && at >= lineage->base_seq) {
        uint32_t jump = jump_below(lineage, at);
        uint64_t first = jump == 0 ? lineage->base_seq : lineage->jumps[jump - 1].seq;
        if (ancestor >= first) {
            *out = passed + (at - ancestor);
            return true;
        }
        if (jump == 0) {
            return false;
        }
        passed += at - first + 1;
        at = lineage->jumps[jump - 1].parent;
    }
    return false;
}

static uint32_t undone_place(const struct lineage *lineage, uint64_t seq)
{
    uint32_t i = 0;
    while (i < lineage->undone_count && lineage->undone[i].seq != seq) {
        i++;
    }
    return i;
}

bool lineage_is_undone(const struct lineage *lineage, uint64_t seq)
{
    return undone_place(lineage, seq) < lineage->undone_count;
}

void lineage_redo(struct lineage *lineage, uint64_t seq)
{
    uint32_t place = undone_place(lineage, seq);
    if (place < lineage->undone_count) {
        lineage->undone_count--;
        memmove(&lineage->undone[place], &lineage->undone[place + 1],
                (lineage->undone_count - place) * sizeof(lineage->undone[0]));
        lineage->undone[lineage->undone_count] = (struct lineage_undone){ 0 };
    }
}

void lineage_undo(struct lineage *lineage, uint64_t seq)
{
    if (seq == 0 || lineage_is_undone(lineage, seq)) {
        return;
    }
    if (lineage->undone_count == LAG_UNDONE_MAX) {
        lineage_redo(lineage, lineage->undone[0].seq);
    }
    lineage->undone[lineage->undone_count++] = (struct lineage_undone){ seq };
}

static void set(struct lag *lag, enum lag_unit unit, uint64_t from, uint64_t to)
{
    lag->known[unit] = from != 0 && to >= from;
    lag->units[unit] = lag->known[unit] ? to - from : 0;
}

struct lag lag_between(const struct lineage *lineage, const struct version_point *served,
                       const struct version_point *head)
{
    struct lag lag = { .relation = LAG_RELATION_NONE };
    if (served->seq == 0 || head->seq == 0) {
        return lag;
    }
    uint64_t publishes = 0;
    if (!lineage_distance(lineage, served->seq, head->seq, &publishes)) {
        lag.relation = LAG_RELATION_UNRELATED;
        return lag;
    }
    lag.relation = publishes == 0 ? LAG_RELATION_CURRENT : LAG_RELATION_BEHIND;
    lag.known[LAG_PUBLISHES] = true;
    lag.units[LAG_PUBLISHES] = publishes - (MUTANT(LAG_OFF) && publishes > 0 ? 1 : 0);
    set(&lag, LAG_OPTIMIZER_STEPS, served->optimizer_step, head->optimizer_step);
    set(&lag, LAG_SAMPLES, served->samples_trained, head->samples_trained);
    set(&lag, LAG_SECONDS, served->published_wall_ns, head->published_wall_ns);
    lag.units[LAG_SECONDS] /= WALL_NS_PER_S;
    return lag;
}

bool lag_is_above(const struct lag *lag, enum lag_unit unit, uint64_t limit)
{
    if (lag->relation == LAG_RELATION_UNRELATED) {
        return true;
    }
    if (lag->relation != LAG_RELATION_BEHIND) {
        return false;
    }
    return lag->known[unit] ? lag->units[unit] > limit : lag->units[LAG_PUBLISHES] > limit;
}
