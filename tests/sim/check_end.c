/* check_end.c -- the truth at the end: once faults cease, everything converges; see check.h. */
#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"

static bool holds_content(const struct engine_model *engine, uint32_t content)
{
    for (uint32_t r = 0; r < SIM_RANKS; r++) {
        if (engine->rank[r] != content) {
            return false;
        }
    }
    return true;
}

static bool not_yet(char *why, size_t why_bytes, const char *group, const char *what)
{
    (void)snprintf(why, why_bytes, "%s %s", group, what);
    return false;
}

static bool group_converged(struct world *world, const struct node *node, uint32_t g, char *why,
                            size_t why_bytes)
{
    const struct group_model *group = &node->groups[g];
    const char *name = node->groups_config[g].name;
    uint32_t final = world->models[model_of_name(node->groups_config[g].model)].final;
    if (group->ticket.open) {
        return not_yet(why, why_bytes, name, "has an open ticket");
    }
    for (uint32_t e = 0; e < group->engines_count; e++) {
        if (!engine_is_open(world, &group->engines[e]) || group->engines[e].paused) {
            return not_yet(why, why_bytes, name, "does not serve");
        }
        if (!holds_content(&group->engines[e], final)) {
            return not_yet(why, why_bytes, name, "does not hold the newest version");
        }
    }
    const struct group_record *record = disk_find(&world->disk, RECORD_GROUP, name);
    if (record == NULL || record->ticket_open || group->committed != final ||
        record->committed_seq != group->committed_seq) {
        return not_yet(why, why_bytes, name, "is not known to have committed the newest version");
    }
    return true;
}

static void add_reason(struct world *world, char *why, size_t why_bytes)
{
    struct head *head = world_lead(world);
    size_t used = strlen(why);
    const struct group_record *group =
        head != NULL && used >= 2 ? view_group_find(head->core, (char[]){ why[0], why[1], '\0' })
                                  : NULL;
    if (group != NULL) {
        struct group_status status;
        view_group_status(head->core, group, world_wall_ns(world, head->skew_ns), &status);
        (void)snprintf(why + used, why_bytes - used, " (%s, v%llu, %s: %s)",
                       words_get(&words_group_state, (uint32_t)status.state),
                       (unsigned long long)status.committed_seq,
                       words_get(&words_blocked, (uint32_t)status.blocked_reason),
                       status.blocked_message);
    }
}

/* Its landing was lost and nobody lands those bytes again, since the store forgot the version: by
 * rule 7 it keeps what it serves until the policy allows to recreate.  Or the policy says live and it
 * cannot: then it is never paused instead. */
static bool is_stranded(struct world *world, const char *name)
{
    struct head *head = world_lead(world);
    const struct group_record *record = view_group_find(head->core, name);
    struct group_status status;
    if (record == NULL) {
        return false;
    }
    view_group_status(head->core, record, world_wall_ns(world, head->skew_ns), &status);
    const struct version_record *serves =
        view_version_find(head->core, record->model, status.committed_seq);
    return (status.blocked_reason == BLOCKED_NO_RESTORE_SOURCE && serves == NULL) ||
           status.blocked_reason == BLOCKED_LIVE_IMPOSSIBLE;
}

bool check_converged(struct world *world, char *why, size_t why_bytes)
{
    bool stranded[SIM_MODELS] = { false };
    if (world_lead(world) == NULL) {
        return not_yet(why, why_bytes, "the controller", "is down");
    }
    if (world_lead(world)->waits) {
        return not_yet(why, why_bytes, "the controller", "waits for its store");
    }
    for (uint32_t model = 0; model < world->models_count; model++) {
        uint32_t final = world->models[model].final;
        if (final == 0 || world->versions[final].seq == 0) {
            return not_yet(why, why_bytes, "the last publish", "is not done");
        }
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        for (uint32_t g = 0; g < world->nodes[i].groups_count; g++) {
            const struct node *node = &world->nodes[i];
            if (is_stranded(world, node->groups_config[g].name)) {
                stranded[model_of_name(node->groups_config[g].model)] = true;
            } else if (!group_converged(world, node, g, why, why_bytes)) {
                add_reason(world, why, why_bytes);
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < world->models_count; i++) {
        const struct model_record *model = model_stored(&world->disk, i);
        bool ended = model->active_roll == 0 && model->promoted_seq == model->newest_seq;
        if (!ended && !stranded[i]) { /* Else its roll goes on and says why. */
            return not_yet(why, why_bytes, "the roll", "has not ended");
        }
    }
    return true;
}

void check_quiet(struct world *world)
{
    struct head *head = world_lead(world);
    head = head != NULL && head->waits ? NULL : head; /* Its core is ahead of what is stored. */
    for (uint32_t i = 0; head != NULL && i < view_groups_count(head->core); i++) {
        const struct group_record *group = view_group_at(head->core, i);
        struct group_status status;
        view_group_status(head->core, group, world_wall_ns(world, head->skew_ns), &status);
        if (status.blocked_reason == BLOCKED_AGENT_UNKNOWN ||
            status.blocked_reason == BLOCKED_STORE_FLOORS_UNKNOWN) {
            world_break(world, CHECK_REASON, "after a minute of calm %s waits for %s", group->name,
                        words_get(&words_blocked, (uint32_t)status.blocked_reason));
        }
        check_reason(world, head, group, &status);
    }
}
