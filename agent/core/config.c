/* config.c -- see config.h. */
#include "agent/core/config.h"

#include <string.h>

#define MS UINT64_C(1000000)
#define S  (UINT64_C(1000) * MS)

struct agent_times agent_times_default(void)
{
    return (struct agent_times){
        .health_interval = S,
        .engine_lost = 5 * S,
        .recreate_after = 10 * S,
        .boot = 600 * S,
        .recreate_deadline = 60 * S,
        .retry_first = S,
        .retry_max = 60 * S,
        .restore_bound = 60 * S,
        .op_short = 5 * S,
        .op_long = 20 * S,
        .readback = 300 * S,
        .op_grace = 500 * MS,
        .report_interval = 50 * MS,
        .steady = 300 * S,
    };
}

static struct baton_status wrong(const char *what, const char *where)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s: %s", where, what);
}

static struct baton_status check_followers(const struct agent_config *config,
                                           const struct agent_group_config *group)
{
    if (group->leader[0] != '\0' && group->followers_count > 0) {
        return wrong("has a leader and members: only the leader's file names members", group->name);
    }
    if (strcmp(group->leader, config->agent) == 0) {
        return wrong("names its own agent as leader: leave leader out", group->name);
    }
    if (group->followers_count > BATON_FOLLOWERS_PER_GROUP_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "group %s: %u members; at most %d", group->name,
                                 group->followers_count, BATON_FOLLOWERS_PER_GROUP_MAX);
    }
    for (uint32_t i = 0; i < group->followers_count; i++) {
        const struct agent_member_config *member = &group->followers[i];
        if (member->agent[0] == '\0' || member->address[0] == '\0') {
            return wrong("a member needs an agent and an address", group->name);
        }
        if (strcmp(member->agent, config->agent) == 0) {
            return wrong("names its own agent as a member: name the others only", group->name);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(member->agent, group->followers[k].agent) == 0) {
                return wrong("two members of the group are this agent", member->agent);
            }
        }
    }
    return baton_status_ok();
}

static struct baton_status check_engines(const struct agent_group_config *group)
{
    bool stages_only = group->engines_count == 0 && group->leader[0] != '\0';
    if ((group->engines_count == 0 && !stages_only) ||
        group->engines_count > BATON_ENGINES_PER_GROUP_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "group %s: %u engines; it must have 1 to %d", group->name,
                                 group->engines_count, BATON_ENGINES_PER_GROUP_MAX);
    }
    for (uint32_t i = 0; i < group->engines_count; i++) {
        if (group->engines[i].name[0] == '\0') {
            return wrong("an engine has no name", group->name);
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(group->engines[i].name, group->engines[k].name) == 0) {
                return wrong("two engines of the group have this name", group->engines[i].name);
            }
        }
    }
    return baton_status_ok();
}

static struct baton_status check_times(const struct agent_times *times)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        { "healthInterval", times->health_interval },
        { "engineLost", times->engine_lost },
        { "recreateAfter", times->recreate_after },
        { "boot", times->boot },
        { "recreateDeadline", times->recreate_deadline },
        { "retryFirst", times->retry_first },
        { "retryMax", times->retry_max },
        { "restoreBound", times->restore_bound },
        { "opShort", times->op_short },
        { "opLong", times->op_long },
        { "readback", times->readback },
        { "opGrace", times->op_grace },
        { "reportInterval", times->report_interval },
        { "steady", times->steady },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].value == 0) {
            return wrong("must be above 0", rows[i].name);
        }
    }
    /* Else the probe after a COMMIT is cut off on a machine that needs the time it was allowed. */
    if (times->restore_bound < times->op_long) {
        return wrong("must not be shorter than opLong: it bounds the probe after a commit, too",
                     "restoreBound");
    }
    return baton_status_ok();
}

struct baton_status agent_config_check(const struct agent_config *config)
{
    if (config->agent[0] == '\0') {
        return wrong("must not be empty", "agent");
    }
    if (config->groups_count > BATON_GROUPS_PER_AGENT_MAX) { /* None: it is only a source. */
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "groups: there are %u; an agent leads at most %d",
                                 config->groups_count, BATON_GROUPS_PER_AGENT_MAX);
    }
    for (uint32_t i = 0; i < config->groups_count; i++) {
        const struct agent_group_config *group = &config->groups[i];
        if (group->name[0] == '\0' || group->model[0] == '\0') {
            return wrong("a group needs a name and a model", "groups");
        }
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(group->name, config->groups[k].name) == 0) {
                return wrong("two groups have this name", group->name);
            }
        }
        struct baton_status st = check_followers(config, group);
        if (baton_ok(&st)) {
            st = check_engines(group);
        }
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return check_times(&config->times);
}
