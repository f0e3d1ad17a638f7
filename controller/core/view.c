/* view.c -- see view.h: records by name and place.  The records are the first members of the core's
 * objects, so a record that came from here leads back to its object. */
#include "controller/core/view.h"

#include "controller/core/core.h"
#include "controller/core/text.h"

uint64_t view_revision(const struct controller *core)
{
    return core->revision;
}

uint64_t view_wall_ns(const struct controller *core)
{
    return core->wall_ns;
}

struct epoch view_epoch(const struct controller *core)
{
    return core->epoch;
}

bool view_is_started(const struct controller *core)
{
    return core->phase == CORE_RUNNING;
}

bool view_floors_pending(const struct controller *core)
{
    return core->cluster.floors_pending;
}

static const void *at(const struct index *index, uint32_t place)
{
    return place < index->count ? index->objects[place] : NULL;
}

/* Place of the first name above 'after'. */
static uint32_t above(const struct index *index, const char *after)
{
    uint32_t place = index_lower_bound(index, after == NULL ? "" : after);
    return index_find(index, after == NULL ? "" : after) == NULL ? place : place + 1;
}

uint32_t view_models_count(const struct controller *core)
{
    return core->models.count;
}

const struct model_record *view_model_at(const struct controller *core, uint32_t index)
{
    return at(&core->models, index);
}

const struct model_record *view_model_find(const struct controller *core, const char *name)
{
    return (const struct model_record *)model_find(core, name);
}

uint32_t view_models_lower_bound(const struct controller *core, const char *after)
{
    return above(&core->models, after);
}

uint32_t view_versions_count(const struct controller *core)
{
    return core->versions.count;
}

const struct version_record *view_version_at(const struct controller *core, uint32_t index)
{
    return at(&core->versions, index);
}

const struct version_record *view_version_find(const struct controller *core, const char *model,
                                               uint64_t seq)
{
    const struct model *found = model_find(core, model);
    if (found == NULL) {
        return NULL;
    }
    return (const struct version_record *)version_find(core, model,
                                                       seq != 0 ? seq : found->r.newest_seq);
}

const struct version_record *view_version_find_uid(const struct controller *core, const char *uid)
{
    return index_find(&core->versions_uid, uid == NULL ? "" : uid);
}

uint32_t view_versions_lower_bound(const struct controller *core, const char *model, uint64_t seq,
                                   const char *uid)
{
    return versions_place(core, model, seq, uid);
}

uint32_t view_rolls_count(const struct controller *core)
{
    return core->rolls.count;
}

const struct roll_record *view_roll_at(const struct controller *core, uint32_t index)
{
    return at(&core->rolls, index);
}

const struct roll_record *view_roll_find(const struct controller *core, const char *model,
                                         uint64_t number)
{
    if (number != 0) {
        return (const struct roll_record *)roll_find(core, model, number);
    }
    return (const struct roll_record *)rolls_at(core, rolls_place(core, model, 0), model);
}

uint32_t view_rolls_lower_bound(const struct controller *core, const char *model, uint64_t number)
{
    return rolls_place(core, model, number);
}

uint32_t view_groups_count(const struct controller *core)
{
    return core->groups_ordered.count;
}

const struct group_record *view_group_at(const struct controller *core, uint32_t index)
{
    return at(&core->groups_ordered, index);
}

const struct group_record *view_group_find(const struct controller *core, const char *name)
{
    return (const struct group_record *)group_find(core, name);
}

uint32_t view_groups_lower_bound(const struct controller *core, const char *model, const char *name)
{
    char key[ORDER_KEY_BYTES];
    if (text_is_empty(name)) {
        return groups_first(core, model);
    }
    order_key_write_name(key, model, name);
    return above(&core->groups_ordered, key);
}

uint32_t view_groups_of_model(const struct controller *core, const char *model)
{
    char key[ORDER_KEY_BYTES];
    order_key_write_name(key, model, "\x7f"); /* Above every name. */
    return index_lower_bound(&core->groups_ordered, key) - groups_first(core, model);
}

const struct group_report *view_group_report(const struct controller *core,
                                             const struct group_record *group)
{
    (void)core;
    const struct group *object = (const struct group *)group;
    return object->known ? &object->live : NULL;
}

uint32_t view_agents_count(const struct controller *core)
{
    return core->agents.count;
}

const struct agent_record *view_agent_at(const struct controller *core, uint32_t index)
{
    return at(&core->agents, index);
}

const struct agent_record *view_agent_find(const struct controller *core, const char *name)
{
    return (const struct agent_record *)agent_find(core, name);
}

uint32_t view_agents_lower_bound(const struct controller *core, const char *after)
{
    return above(&core->agents, after);
}

uint32_t view_swaps_count(const struct controller *core)
{
    return core->swaps.count;
}

const struct history_record *view_swap_at(const struct controller *core, uint32_t index)
{
    return at(&core->swaps, index);
}

uint32_t view_swaps_lower_bound(const struct controller *core, uint64_t closed_wall_ns,
                                const char *ticket_uid)
{
    char key[ORDER_KEY_BYTES];
    text_format(key, sizeof(key), "%020llu/%s", (unsigned long long)closed_wall_ns, ticket_uid);
    return above(&core->swaps, key);
}

uint32_t view_requests_count(const struct controller *core)
{
    return core->requests.count;
}

const struct request_record *view_request_at(const struct controller *core, uint32_t index)
{
    return at(&core->requests, index);
}

const struct cluster_record *view_cluster(const struct controller *core)
{
    return &core->cluster;
}
