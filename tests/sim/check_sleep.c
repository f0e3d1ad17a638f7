/* check_sleep.c -- the truth about groups that gave their device to somebody else; see check.h. */
#include "tests/sim/check.h"

#define LEASE_NS (UINT64_C(10) * S)

uint32_t check_life(const char *incarnation)
{
    uint32_t life = 0;
    for (const char *digit = incarnation; *digit != '\0'; digit++) {
        bool is_digit = *digit >= '0' && *digit <= '9';
        life = is_digit ? life * 10 + (uint32_t)(*digit - '0') : life;
    }
    return life;
}

static bool holds_memory(const struct engine_model *engine)
{
    return engine->up && !engine->asleep;
}

void check_slept(struct world *world, struct group_model *group,
                 const struct journal_record *record)
{
    const struct journal_members *members = &record->sleep.members;
    group->gave_up |= record->sleep.mark == JOURNAL_SLEEP_FALLING;
    if (record->sleep.mark != JOURNAL_SLEEP_ASLEEP) {
        return;
    }
    for (uint32_t e = 0; e < group->engines_count && e < members->count; e++) {
        const struct engine_model *engine = &group->engines[e];
        if (engine_answers(world, engine) && holds_memory(engine) &&
            engine->life == check_life(members->incarnations[e])) {
            world_break(world, CHECK_SLEEP, "%s: ASLEEP is written while e%u holds its memory",
                        record->group, e);
        }
    }
}

/* An agent whose disk was lost, or whose operator asked it to serve while no controller answered, may have
 * woken what it last said to sleep; within its lease nobody can know. */
static bool may_have_woken(const struct world *world, const struct node *node,
                           const struct group_model *part)
{
    return (node->disks > 1 && world->now_ns < node->disk_ns + LEASE_NS) ||
           (part->operated_ns != 0 && world->now_ns < part->operated_ns + LEASE_NS);
}

static void check_part(struct world *world, const char *name)
{
    bool unknown = false;
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        const struct group_model *part = node_part(&world->nodes[i], name);
        unknown |= part != NULL && may_have_woken(world, &world->nodes[i], part);
    }
    for (uint32_t i = 0; i < world->nodes_count && !unknown; i++) {
        const struct group_model *part = node_part(&world->nodes[i], name);
        for (uint32_t e = 0; part != NULL && e < part->engines_count; e++) {
            const struct engine_model *engine = &part->engines[e];
            /* Who starts an engine on a device that is in use, and tells nobody, has it. */
            if (holds_memory(engine) && engine->foreign_life != engine->life) {
                world_break(world, CHECK_SLEEP,
                            "a wait says that all sleep; e%u of %s at a%u holds its memory", e,
                            name, i);
            }
        }
    }
}

void check_asleep(struct world *world, uint32_t model)
{
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct kept_record *kept = &world->disk.kept[i];
        const struct group_record *group = &kept->body.group;
        if (kept->kind == RECORD_GROUP && group->asleep && !group->retired &&
            model_of_name(group->model) == model) {
            check_part(world, group->name);
        }
    }
}
