/* check_reason.c -- the truth about why a controller says that a group waits; see check.h. */
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"

bool check_serves(enum group_state state)
{
    return state == GROUP_STATE_SERVING || state == GROUP_STATE_STAGING ||
           state == GROUP_STATE_STAGED || state == GROUP_STATE_STAGE_FAILED;
}

static bool has_session(const struct world *world, const struct head *head, uint32_t node)
{
    for (uint32_t i = 0; i < SIM_WIRES; i++) {
        const struct wire *wire = &world->wires[i];
        if (wire->id != 0 && wire->node == node && wire->head == head->index &&
            wire->head_life == head->life && wire->head_open && wire->hello_seen) {
            return true;
        }
    }
    return false;
}

/* What a blocked reason is judged by. */
struct scene {
    const struct world *world;
    const struct head *head;
    const struct model_record *model;
    const struct roll_record *roll; /* The active one; null: none. */
    uint32_t node;
    const struct group_record *group;
    const struct group_status *status;
};

static bool budget_is_full(const struct scene *scene)
{
    uint32_t max = 0;
    return check_away(scene->world, scene->head, model_of_name(scene->group->model), &max) >= max;
}

static bool roll_is_paused(const struct scene *scene)
{
    return scene->roll != NULL && scene->roll->state == ROLL_STATE_PAUSED;
}

static bool model_is_suspended(const struct scene *scene)
{
    return scene->model != NULL && scene->model->suspended;
}

static bool model_is_held(const struct scene *scene)
{
    return scene->model != NULL && scene->model->held;
}

static bool floors_are_unknown(const struct scene *scene)
{
    const struct cluster_record *cluster =
        disk_find(&scene->world->disk, RECORD_CLUSTER, "cluster");
    return cluster != NULL && cluster->floors_pending;
}

static bool agent_is_unknown(const struct scene *scene)
{
    return scene->status->report == NULL || !has_session(scene->world, scene->head, scene->node);
}

/* Or its agent has not heard yet that it no longer is. */
static bool group_is_cordoned(const struct scene *scene)
{
    const struct group_report *report = scene->status->report;
    bool told = report != NULL && strcmp(report->blocked, "GROUP_CORDONED") == 0;
    return scene->group->cordoned || scene->group->returning || told;
}

/* Likewise. */
static bool group_is_asleep(const struct scene *scene)
{
    const struct group_report *report = scene->status->report;
    bool told = report != NULL && strcmp(report->blocked, "GROUP_ASLEEP") == 0;
    return scene->group->asleep || told;
}

static bool group_is_pinned(const struct scene *scene)
{
    return scene->group->pinned;
}

static bool live_is_impossible(const struct scene *scene)
{
    const struct group_report *report = scene->status->report;
    bool live = scene->model != NULL && scene->model->policy.swap.mode == POLICY_MODE_LIVE;
    bool one = report != NULL && report->engines_count == 1;
    const struct node *node = &scene->world->nodes[scene->node];
    for (uint32_t g = 0; g < node->led_count; g++) {
        bool same = strcmp(node->groups_config[g].name, scene->group->name) == 0;
        one = one && !(same && node->groups_config[g].followers_count > 0);
    }
    one = one && report->engines[0].reachable; /* Else nobody knows what it can. */
    return live && !(one && strcmp(report->engines[0].way_in, "plugin") == 0 && !report->advisory);
}

static bool router_failed(const struct scene *scene)
{
    const char *uid = scene->group->last_swap.ticket_uid;
    return check_ticket_book((struct world *)scene->world, uid)->router_failed;
}

/* By reason; null: the agent's own word, or not judged. */
static bool (*const truths[BLOCKED_REASONS_END])(const struct scene *scene) = {
    [BLOCKED_BUDGET_FULL] = budget_is_full,
    [BLOCKED_ROLL_PAUSED] = roll_is_paused,
    [BLOCKED_MODEL_SUSPENDED] = model_is_suspended,
    [BLOCKED_MODEL_HELD] = model_is_held,
    [BLOCKED_STORE_FLOORS_UNKNOWN] = floors_are_unknown,
    [BLOCKED_AGENT_UNKNOWN] = agent_is_unknown,
    [BLOCKED_GROUP_CORDONED] = group_is_cordoned,
    [BLOCKED_GROUP_PINNED] = group_is_pinned,
    [BLOCKED_GROUP_ASLEEP] = group_is_asleep,
    [BLOCKED_LIVE_IMPOSSIBLE] = live_is_impossible,
    [BLOCKED_ROUTER_NOT_DRAINED] = router_failed,
};

static bool is_true(const struct world *world, const struct head *head,
                    const struct group_record *group, const struct group_status *status)
{
    uint32_t model = model_of_name(group->model);
    struct scene scene = {
        world, head,  model_stored(&world->disk, model), model_roll(&world->disk, model), 0,
        group, status
    };
    scene.node = (uint32_t)(group->name[1] - '0') / SIM_GROUPS;
    bool (*truth)(const struct scene *) = truths[status->blocked_reason];
    return truth == NULL || truth(&scene);
}

void check_reason(struct world *world, const struct head *head, const struct group_record *group,
                  const struct group_status *status)
{
    const struct roll_record *roll = model_roll(&world->disk, model_of_name(group->model));
    cover(COVER_BLOCKED, (uint32_t)status->blocked_reason);
    bool behind = roll != NULL && status->committed_seq != roll->to_seq;
    if (status->blocked_reason == BLOCKED_NONE && behind && !group->ticket_open &&
        status->report != NULL && check_serves(status->state) && status->report->gate_open) {
        world_break(world, CHECK_REASON, "%s waits for nothing", group->name);
    }
    if (!is_true(world, head, group, status)) {
        world_break(world, CHECK_REASON, "%s is said to wait for %s, which is not so", group->name,
                    words_get(&words_blocked, (uint32_t)status->blocked_reason));
    }
    /* Known and open: a canary that a new policy ended is named without a word for a while. */
    bool known = status->blocked_reason == BLOCKED_CANARY_HOLD;
    if (status->blocked_reason != BLOCKED_NONE && status->blocked_message[0] == '\0' && !known) {
        world_break(world, CHECK_REASON, "%s waits for %s without a word", group->name,
                    words_get(&words_blocked, (uint32_t)status->blocked_reason));
    }
}
