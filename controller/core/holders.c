/* holders.c -- whom an agent may pull a version from.
 *
 * The agents that serve peers form a line by zone and name: each pulls a version from those before it, the nearest first, also
 * while these still land it, and passes it on.  So what a source sends does not grow with the fleet, nobody waits for
 * himself in a circle, and the lists hardly change while versions land.  Then come agents behind it that have it, and
 * last the source's own agents, which the first in the line needs.  Whoever has somebody of its own zone to pull from
 * asks those of other zones only while none of its own can give it: so a version crosses the links between zones once. */
#include "controller/core/holders.h"

#include <string.h>

#include "controller/core/text.h"

/* How far along the line somebody is looked for, and how many are told when an agent appears. */
enum { LOOK_MAX = 64, BEFORE_MAX = 2, TELL_MAX = BATON_HOLDERS_MAX };

static bool serves(const struct agent *agent)
{
    return agent->session != 0 && !text_is_empty(agent->peer_address);
}

/* The group is to have it; 'rolled': as if all groups of the model were to. */
static bool will_have(const struct controller *core, struct group *group,
                      const struct version *version, bool rolled)
{
    const struct model *model = group_model(core, group);
    bool could = model != NULL && group->known && !group->r.retired &&
                 strcmp(model->r.name, version->r.model) == 0;
    return could && (rolled || group_stage(core, model, group) == version ||
                     group_target(core, model, group) == version->r.seq);
}

/* One of the groups that it leads or follows is to have it, so that it lands it. */
static bool will_land(const struct controller *core, const struct agent *agent,
                      const struct version *version, bool rolled)
{
    for (uint32_t i = 0; i < agent->groups_count; i++) {
        if (will_have(core, agent->groups[i], version, rolled)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < agent->follows_count; i++) {
        struct group *group = group_find(core, agent->follows[i].group);
        if (group != NULL && follow_is_named(group, agent) &&
            will_have(core, group, version, rolled)) {
            return true;
        }
    }
    return false;
}

static bool is_listed(const struct holders *out, const struct agent *agent)
{
    for (uint32_t i = 0; i < out->count; i++) {
        if (strcmp(out->items[i].agent, agent->r.name) == 0) {
            return true;
        }
    }
    return false;
}

static void add(struct holders *out, const struct agent *agent, const struct version *version)
{
    if (out->count < BATON_HOLDERS_MAX && !is_listed(out, agent)) {
        out->items[out->count++] =
            (struct holder){ agent->r.name, agent->peer_address, agent_is_source(agent, version) };
    }
}

static void add_before(const struct controller *core, uint32_t place, const struct version *version,
                       bool rolled, struct holders *out)
{
    for (uint32_t i = 0; i < LOOK_MAX && i < place && out->count < BEFORE_MAX; i++) {
        const struct agent *agent = core->line.objects[place - 1 - i];
        if (serves(agent) && (agent_has_landed(agent, version->r.digest) ||
                              will_land(core, agent, version, rolled))) {
            add(out, agent, version);
        }
    }
}

static void add_sources(const struct controller *core, const struct agent *puller,
                        const struct version *version, struct holders *out)
{
    for (uint32_t i = 0; i < version->r.sources_count; i++) {
        const struct agent *agent = agent_find(core, version->r.sources[i].agent);
        if (agent != NULL && agent != puller && serves(agent)) {
            add(out, agent, version);
        }
    }
}

static void add_behind(const struct controller *core, uint32_t place, const struct version *version,
                       struct holders *out)
{
    uint32_t end =
        place + 1 + LOOK_MAX < core->line.count ? place + 1 + LOOK_MAX : core->line.count;
    for (uint32_t i = place + 1; i < end && out->count < BATON_HOLDERS_MAX - 1; i++) {
        const struct agent *agent = core->line.objects[i];
        if (serves(agent) && agent_has_landed(agent, version->r.digest)) {
            add(out, agent, version);
        }
    }
}

static bool is_near(const struct controller *core, const struct agent *agent,
                    const struct holder *holder)
{
    const struct agent *other = agent_find(core, holder->agent);
    return other != NULL && text_equal(other->peer_zone, agent->peer_zone);
}

/* Those of the agent's zone, in their order, then the others, which are asked last if there is anybody near.  Of those
 * near, sources are asked last as long as there is another. */
static void put_near_first(const struct controller *core, const struct agent *agent,
                           struct holders *out)
{
    struct holders near = { .count = 0 };
    struct holders far = { .count = 0 };
    bool only_sources = true;
    for (uint32_t i = 0; i < out->count; i++) {
        struct holders *side = is_near(core, agent, &out->items[i]) ? &near : &far;
        side->items[side->count++] = out->items[i];
        only_sources = only_sources && (side == &far || out->items[i].last);
    }
    if (near.count == 0 || far.count == 0) {
        return;
    }
    for (uint32_t i = 0; i < near.count; i++) {
        near.items[i].last = near.items[i].last && !only_sources;
        out->items[i] = near.items[i];
    }
    for (uint32_t i = 0; i < far.count; i++) {
        far.items[i].last = true;
        out->items[near.count + i] = far.items[i];
    }
}

void holders_place(struct controller *core, struct agent *agent, const char *zone)
{
    if (agent->line_key[0] != '\0') {
        index_remove(&core->line, agent);
    }
    text_copy(agent->peer_zone, sizeof(agent->peer_zone), zone == NULL ? "" : zone);
    text_format(agent->line_key, sizeof(agent->line_key), "%s\n%s", agent->peer_zone,
                agent->r.name);
    index_insert(&core->line, agent);
}

static void list(const struct controller *core, const struct agent *agent,
                 const struct version *version, bool rolled, struct holders *out)
{
    out->count = 0;
    if (text_is_empty(agent->peer_address) || agent_is_source(agent, version) ||
        agent_has_landed(agent, version->r.digest)) {
        return;
    }
    uint32_t place = index_lower_bound(&core->line, agent->line_key);
    add_before(core, place, version, rolled, out);
    add_behind(core, place, version, out);
    add_sources(core, agent, version, out);
    put_near_first(core, agent, out);
}

void holders_of(const struct controller *core, const struct agent *agent,
                const struct version *version, struct holders *out)
{
    list(core, agent, version, false, out);
}

static void explain_peers(const struct holders *holders, char out[BATON_TEXT_BYTES])
{
    char names[BATON_HOLDERS_MAX * (BATON_NAME_BYTES + 2)] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < holders->count; i++) {
        text_format(names + used, sizeof(names) - used, "%s%.40s", i > 0 ? ", then " : "",
                    holders->items[i].agent);
        used = strlen(names);
    }
    text_format(out, BATON_TEXT_BYTES, "from peers: %.180s; else the source's directory", names);
}

void holders_explain(const struct controller *core, const struct agent *agent,
                     const struct version *version, char out[BATON_TEXT_BYTES])
{
    struct holders holders;
    if (agent == NULL || agent->session == 0) {
        text_copy(out, BATON_TEXT_BYTES, "unknown: its agent is away");
        return;
    }
    list(core, agent, version, true, &holders);
    if (agent_has_landed(agent, version->r.digest)) {
        text_copy(out, BATON_TEXT_BYTES, "here already");
    } else if (holders.count > 0) {
        explain_peers(&holders, out);
    } else {
        text_format(out, BATON_TEXT_BYTES, "from the source's directory: %s",
                    agent_is_source(agent, version)      ? "it published the version itself"
                    : text_is_empty(agent->peer_address) ? "its agent has no peers.listen"
                                                         : "no peer has it or gets it first");
    }
}

/* It may be whom a whole model waits for. */
static void note_source(struct controller *core, const struct agent *agent)
{
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        uint64_t seq = model->active != NULL ? model->active->r.to_seq : model->r.promoted_seq;
        const struct version *version = version_find(core, model->r.name, seq);
        if (version != NULL && agent_is_source(agent, version)) {
            model->goals_dirty = true;
        }
    }
}

void holders_note(struct controller *core, const struct agent *agent)
{
    if (text_is_empty(agent->peer_address)) {
        return;
    }
    uint32_t place = index_lower_bound(&core->line, agent->line_key);
    for (uint32_t i = place + 1; i < core->line.count && i <= place + TELL_MAX; i++) {
        goals_touch(core, core->line.objects[i]);
    }
    note_source(core, agent);
}
