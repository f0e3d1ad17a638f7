/* shrink.c -- from a failing seed to a short story: disturbances are left out, many at a time and
 * then one by one, as long as the same check fails. */
#include <string.h>

#include "tests/sim/plan.h"
#include "tests/sim/sim.h"

struct attempt {
    struct world *world;
    uint64_t seed;
    const char *broken;
    uint32_t count;
};

static bool still_fails(const struct attempt *attempt, const bool *mask)
{
    return world_run(attempt->world, attempt->seed, mask, NULL) == attempt->broken;
}

/* Tries to leave out 'size' at a time; whether any could be. */
static bool leave_out(const struct attempt *attempt, bool mask[SIM_FATES], uint32_t size)
{
    bool any = false;
    for (uint32_t at = 0; at < attempt->count; at += size) {
        bool tried[SIM_FATES];
        bool changed = false;
        memcpy(tried, mask, sizeof(tried));
        for (uint32_t i = at; i < at + size && i < attempt->count; i++) {
            changed |= !tried[i];
            tried[i] = true;
        }
        if (changed && still_fails(attempt, tried)) {
            memcpy(mask, tried, sizeof(tried));
            any = true;
        }
    }
    return any;
}

uint32_t shrink(struct world *world, uint64_t seed, bool mask[SIM_FATES])
{
    memset(mask, 0, SIM_FATES * sizeof(*mask));
    struct attempt attempt = { world, seed, world_run(world, seed, mask, NULL),
                               world->fates_count };
    if (attempt.broken == NULL) {
        return 0;
    }
    for (uint32_t size = (attempt.count + 1) / 2; size > 1; size = (size + 1) / 2) {
        (void)leave_out(&attempt, mask, size);
    }
    for (int rounds = 0; rounds < 4 && leave_out(&attempt, mask, 1); rounds++) {
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < attempt.count; i++) {
        left += !mask[i];
    }
    return left;
}

bool shrink_tell(struct world *world, uint64_t seed, bool whole, FILE *out)
{
    bool mask[SIM_FATES] = { false };
    if (!whole) {
        uint32_t left = shrink(world, seed, mask);
        if (left > 0) {
            fprintf(out, "seed %llu fails with %u disturbances:\n", (unsigned long long)seed, left);
        }
    }
    const char *broken = world_run(world, seed, mask, out);
    fprintf(out, "seed %llu: %s%s%s\n", (unsigned long long)seed,
            broken != NULL ? broken : "all held", broken != NULL ? ": " : "",
            broken != NULL ? world->why : "");
    return broken == NULL;
}
