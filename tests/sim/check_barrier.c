/* check_barrier.c -- the truth about groups that swap together; see check.h. */
#include "tests/sim/check.h"

static bool serves(const struct world *world, const struct group_model *group)
{
    for (uint32_t e = 0; e < group->engines_count; e++) {
        if (group->engines[e].guarded && engine_is_open(world, &group->engines[e])) {
            return true;
        }
    }
    return false;
}

static void check_other(struct world *world, const struct open_ticket *ticket, const char *name,
                        const struct agent_group_config *config, const struct group_model *other)
{
    bool same = other->ticket.open && other->ticket.bound && !other->ticket.committed &&
                other->ticket.to_seq == ticket->to_seq &&
                model_of_name(config->model) == model_of_group(world, name);
    if (same && other->committed_seq != ticket->to_seq && serves(world, other)) {
        world_break(world, CHECK_ALL_RANKS,
                    "%s opens at the end of a barrier while %s serves the old version", name,
                    config->name);
    }
}

void check_barrier(struct world *world, const struct open_ticket *ticket, const char *name)
{
    const struct roll_record *roll = model_roll(&world->disk, model_of_group(world, name));
    if (!world->went_back && roll != NULL && roll->to_seq == ticket->to_seq &&
        (roll->barrier_stage == BARRIER_STAGE_SHUTTING ||
         roll->barrier_stage == BARRIER_STAGE_GO)) {
        world_break(world, CHECK_ALL_RANKS, "%s opens before its barrier does", name);
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        const struct node *node = &world->nodes[i];
        for (uint32_t g = 0; g < node->groups_count; g++) {
            check_other(world, ticket, name, &node->groups_config[g], &node->groups[g]);
        }
    }
}
