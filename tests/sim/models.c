/* models.c -- the models of a fleet: a second one in some worlds; see world.h.
 *
 * Whether there is one is drawn beside the world's other dice, and stands in the plan as its first
 * disturbance: without it the same seed is a world of one model. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/plan.h"

enum { WORLDS_PER_SECOND_MODEL = 4 };

/* One name is the other's beginning, and both count their versions from 1. */
static const char *const names[SIM_MODELS] = { "m", "m2" };

void models_draw(struct world *world, const bool *mask)
{
    world->models_count = 1;
    baton_random_seed(&world->models_random, ~world->seed);
    if (world->script != NULL || world_below(&world->models_random, WORLDS_PER_SECOND_MODEL) != 0) {
        return;
    }
    struct fate *fate = &world->fates[world->fates_count++];
    *fate = (struct fate){ .at_ns = world->now_ns, .kind = plan_find("a second model") };
    world->models_count = mask != NULL && mask[0] ? 1 : SIM_MODELS;
}

uint32_t models_pick(struct world *world)
{
    return world->models_count == 1 ? 0 : world_below(&world->models_random, world->models_count);
}

/* Mixed, since what else is drawn from the same number takes its low bits. */
uint32_t models_of_dice(const struct world *world, uint32_t random)
{
    return (random * UINT32_C(2654435761) >> 16) % world->models_count;
}

const char *model_name(uint32_t model)
{
    return names[model];
}

uint32_t model_of_name(const char *name)
{
    uint32_t model = 0;
    while (model < SIM_MODELS && strcmp(names[model], name) != 0) {
        model++;
    }
    return model;
}

uint32_t model_of_group(const struct world *world, const char *group)
{
    uint32_t place = 0;
    const struct group_model *part = world_group((struct world *)world, group, &place);
    const struct node *node = &world->nodes[place];
    return part == NULL ? SIM_MODELS
                        : model_of_name(node->groups_config[part - node->groups].model);
}

const struct model_record *model_stored(const struct disk *disk, uint32_t model)
{
    return disk_find(disk, RECORD_MODEL, names[model]);
}

const struct roll_record *model_roll(const struct disk *disk, uint32_t model)
{
    const struct model_record *record = model_stored(disk, model);
    char key[RECORD_KEY_BYTES];
    if (record == NULL || record->active_roll == 0) {
        return NULL;
    }
    (void)snprintf(key, sizeof(key), "%s/%llu", names[model],
                   (unsigned long long)record->active_roll);
    return disk_find(disk, RECORD_ROLL, key);
}
