/* follow.c -- agents that follow in groups which others lead: whom they pull from what those tell them to land.
 *
 * A follower's Hello names its groups.  Each name is in the list of its group, or, while no such group is known, in
 * one of the core's, so that a change of a group's goals finds the followers without a look at all agents.  It counts
 * only where the group's leader names the follower too: else any agent's own word would get it any version. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/holders.h"
#include "controller/core/text.h"

static void unlink_follow(struct follow **list, const struct follow *follow)
{
    for (struct follow **at = list; *at != NULL; at = &(*at)->next) {
        if (*at == follow) {
            *at = follow->next;
            return;
        }
    }
}

static struct follow **list_of(struct controller *core, const char *name)
{
    struct group *group = group_find(core, name);
    return group != NULL ? &group->followers : &core->follows_unknown;
}

void follow_take(struct controller *core, struct agent *agent, const struct session_hello *hello)
{
    for (uint32_t i = 0; i < agent->follows_count; i++) {
        unlink_follow(list_of(core, agent->follows[i].group), &agent->follows[i]);
    }
    agent->follows_count = 0;
    while (agent->follows_count < hello->follows_count &&
           agent->follows_count < BATON_GROUPS_PER_AGENT_MAX) {
        struct follow *follow = &agent->follows[agent->follows_count];
        text_copy(follow->group, sizeof(follow->group), hello->follows[agent->follows_count]);
        struct follow **list = list_of(core, follow->group);
        follow->agent = agent;
        follow->next = *list;
        *list = follow;
        agent->follows_count++;
    }
}

void follow_note_group(struct controller *core, struct group *group)
{
    for (struct follow **at = &core->follows_unknown; *at != NULL;) {
        struct follow *follow = *at;
        if (text_equal(follow->group, group->r.name)) {
            *at = follow->next;
            follow->next = group->followers;
            group->followers = follow;
            goals_touch(core, follow->agent);
        } else {
            at = &follow->next;
        }
    }
}

void follow_forget_group(struct controller *core, struct group *group)
{
    while (group->followers != NULL) {
        struct follow *follow = group->followers;
        group->followers = follow->next;
        follow->next = core->follows_unknown;
        core->follows_unknown = follow;
    }
}

bool follow_is_named(const struct group *group, const struct agent *agent)
{
    for (uint32_t i = 0; group->known && i < BATON_FOLLOWERS_PER_GROUP_MAX; i++) {
        if (text_equal(group->live.members[i], agent->r.name)) {
            return true;
        }
    }
    return false;
}

void follow_note_members(struct controller *core, const struct group *group)
{
    goals_touch_group(core, group);
    for (const struct follow *follow = group->followers; follow != NULL; follow = follow->next) {
        holders_note(core, follow->agent);
    }
}

static size_t add(const struct controller *core, const struct agent *agent,
                  const struct version *version, struct follow_goal *out, size_t count)
{
    for (size_t i = 0; version != NULL && i < count; i++) {
        if (text_equal(out[i].version->digest, version->r.digest)) {
            return count;
        }
    }
    if (version == NULL || count == BATON_FOLLOWED_VERSIONS_MAX) {
        return count;
    }
    out[count].version = &version->r;
    holders_of(core, agent, version, &out[count].holders);
    return out[count].holders.count > 0 ? count + 1 : count;
}

size_t follow_render(const struct controller *core, const struct agent *agent,
                     struct follow_goal *out)
{
    size_t count = 0;
    for (uint32_t i = 0; i < agent->follows_count; i++) {
        struct group *group = group_find(core, agent->follows[i].group);
        const struct model *model = group != NULL ? group_model(core, group) : NULL;
        if (model == NULL || !follow_is_named(group, agent) || group->r.retired) {
            continue;
        }
        const struct version *target =
            version_find(core, model->r.name, group_target(core, model, group));
        count = add(core, agent, target, out, count);
        count = add(core, agent, group_stage(core, model, group), out, count);
        count = add(core, agent, group_restore(core, group, target), out, count);
    }
    return count;
}
