/* staleness.c -- see staleness.h: counting groups by the version that they committed.
 *
 * staleness_note() looks at the groups that a step touched and moves each from the count of its
 * former version to that of its present one: O(log versions) a group. */
#include "controller/core/staleness.h"

#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/admission.h"
#include "controller/core/core.h"
#include "controller/core/text.h"

/* --- the record of a model --- */

struct staleness *staleness_add(struct controller *core, const struct staleness_record *record)
{
    struct staleness *staleness = table_take(&core->staleness_table);
    if (staleness != NULL) {
        staleness->r = *record;
        memcpy(staleness->cost, record->cost, sizeof(staleness->cost));
        memcpy(staleness->samples, record->samples, sizeof(staleness->samples));
        index_insert(&core->staleness, staleness);
    }
    return staleness;
}

void staleness_of_new_model(struct controller *core, struct model *model)
{
    struct staleness_record record = { 0 };
    text_copy(record.model, sizeof(record.model), model->r.name);
    model->staleness = staleness_add(core, &record); /* As many as models. */
    marks_put(core, RECORD_STALENESS, model->staleness);
}

/* A store of an earlier release: the lineage of what is kept, oldest first. */
static void rebuild(struct controller *core, struct model *model)
{
    uint32_t first = versions_place(core, model->r.name, 0, "");
    uint32_t place = first;
    uint64_t before = 0;
    while (versions_at(core, place, model->r.name) != NULL) {
        place++;
    }
    for (; place > first; place--) {
        const struct version *version = core->versions.objects[place - 1];
        if (version->r.seq != 0) {
            lineage_add(&model->staleness->r.lineage, version->r.seq, version->r.parent_seq,
                        before);
            before = version->r.seq;
        }
    }
}

void staleness_link(struct controller *core, struct model *model)
{
    model->staleness = index_find(&core->staleness, model->r.name);
    if (model->staleness == NULL) {
        staleness_of_new_model(core, model);
        rebuild(core, model);
    }
}

void staleness_published(struct controller *core, struct model *model,
                         const struct version *version, uint64_t before)
{
    lineage_add(&model->staleness->r.lineage, version->r.seq, version->r.parent_seq, before);
    slots_published(model);
    cost_note_publish(core, model);
    marks_put(core, RECORD_STALENESS, model->staleness);
}

void staleness_roll_begins(struct controller *core, struct model *model, uint64_t to_seq, bool undo)
{
    struct lineage *lineage = &model->staleness->r.lineage;
    uint64_t from = model->active != NULL ? model->active->r.to_seq : model->r.promoted_seq;
    if (!undo && !lineage_is_undone(lineage, to_seq)) {
        return;
    }
    lineage_redo(lineage, to_seq);
    if (undo && from != to_seq) {
        lineage_undo(lineage, from);
    }
    marks_put(core, RECORD_STALENESS, model->staleness);
}

void staleness_flush(struct controller *core, struct model *model)
{
    struct staleness *staleness = model->staleness;
    if (!staleness->dirty) {
        return;
    }
    staleness->dirty = false;
    staleness->r.cost_count = COST_BUCKETS;
    staleness->r.samples_count = SAMPLE_STAGES_END;
    for (uint32_t i = 0; i < COST_BUCKETS; i++) {
        staleness->cost[i].phases_count = COST_PHASES;
    }
    memcpy(staleness->r.cost, staleness->cost, sizeof(staleness->cost));
    memcpy(staleness->r.samples, staleness->samples, sizeof(staleness->samples));
    marks_put(core, RECORD_STALENESS, staleness);
}

void staleness_flush_later(struct controller *core, struct model *model, const char *request_id)
{
    model->staleness->dirty = true;
    if (!text_is_empty(request_id)) {
        staleness_flush(core, model);
    }
}

/* --- counting --- */

static void count(struct controller *core, const struct group *group, int by)
{
    struct version *version = version_find(core, group->r.model, group->counted_seq);
    if (version != NULL) {
        version->groups_on += (uint32_t)by;
        version->groups_ready += group->counted_ready ? (uint32_t)by : 0;
    }
}

void staleness_note_group(struct controller *core, struct group *group)
{
    struct model *model = model_find(core, group->r.model);
    if (model == NULL) {
        return;
    }
    struct staleness *staleness = model->staleness;
    uint64_t seq = group_committed(group);
    bool ours = seq != 0 && group_is_on(core, group, seq);
    bool foreign = seq != 0 && (!ours || version_find(core, group->r.model, seq) == NULL);
    bool ready = !foreign && admission_group_is_ready(core, group);
    if (group->counted) {
        count(core, group, -1);
        staleness->groups--;
        staleness->groups_foreign -= group->counted_foreign;
        staleness->groups_unknown -= group->counted_unknown;
    }
    group->counted = !group->r.retired && !group_sleeps(group);
    group->counted_ready = ready && (group->counted || MUTANT(SLEEPER_ROUTED));
    if (!group->counted) {
        return;
    }
    group->counted_seq = foreign ? 0 : seq;
    group->counted_foreign = foreign;
    group->counted_unknown = !group->known;
    count(core, group, 1);
    staleness->groups++;
    staleness->groups_foreign += group->counted_foreign;
    staleness->groups_unknown += group->counted_unknown;
}

void staleness_note(struct controller *core)
{
    for (size_t i = 0; i < core->touched_count; i++) {
        if (core->touched[i].kind == RECORD_GROUP) {
            staleness_note_group(core, core->touched[i].object);
        }
    }
}

void staleness_note_model(struct controller *core, const struct model *model)
{
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        staleness_note_group(core, group);
    }
}

/* --- numbers --- */

/* Most versions that are told apart in one summary; groups on older ones count as on the oldest. */
enum { SERVED_MAX = 512 };

struct served {
    struct lag lag;
    uint64_t age_s;
    uint32_t groups;
};

struct served_list {
    uint32_t count;
    struct served items[SERVED_MAX];
};

static struct version_point head_of(const struct controller *core, const struct model *model)
{
    const struct version *head = version_find(core, model->r.name, model->r.newest_seq);
    return head == NULL ? (struct version_point){ 0 } : lag_point_of(&head->r);
}

static uint64_t age_of(const struct version_record *version, uint64_t wall_ns)
{
    bool known = version->published_wall_ns != 0 && wall_ns > version->published_wall_ns;
    return known ? (wall_ns - version->published_wall_ns) / S_NS : 0;
}

static void add(struct served_list *list, struct served served)
{
    if (list->count < SERVED_MAX) {
        list->items[list->count++] = served;
        return;
    }
    struct served *oldest = &list->items[SERVED_MAX - 1];
    served.groups += oldest->groups;
    *oldest = served; /* Newest come first, so it lags no less. */
}

static void collect(const struct controller *core, const struct model *model, uint64_t wall_ns,
                    struct served_list *list)
{
    struct version_point head = head_of(core, model);
    uint32_t place = versions_place(core, model->r.name, 0, "");
    list->count = 0;
    for (const struct version *version;
         (version = versions_at(core, place, model->r.name)) != NULL && version->r.seq != 0;
         place++) {
        struct version_point served = lag_point_of(&version->r);
        if (version->groups_on > 0) {
            add(list, (struct served){
                          .lag = lag_between(&model->staleness->r.lineage, &served, &head),
                          .age_s = age_of(&version->r, wall_ns),
                          .groups = version->groups_on,
                      });
        }
    }
}

/* One number of a served version; false if it does not count. 'unit' 0: the age. */
static bool value_of(const struct served *served, uint32_t unit, uint64_t *out)
{
    *out = unit == 0 ? served->age_s : served->lag.units[unit];
    return unit == 0 || served->lag.known[unit];
}

struct value {
    uint64_t value;
    uint32_t groups;
};

static void insert(struct value *values, uint32_t count, struct value value)
{
    uint32_t at = count;
    while (at > 0 && values[at - 1].value > value.value) {
        values[at] = values[at - 1];
        at--;
    }
    values[at] = value;
}

static uint64_t percentile(const struct value *values, uint32_t groups, uint32_t percent)
{
    uint64_t rank = ((uint64_t)groups * percent + 99) / 100;
    uint64_t passed = 0;
    uint32_t i = 0;
    while (passed + values[i].groups < rank) {
        passed += values[i].groups;
        i++;
    }
    return values[i].value;
}

static struct lag_statistics statistics(const struct served_list *list, uint32_t unit)
{
    struct lag_statistics out = { 0 };
    struct value values[SERVED_MAX];
    uint32_t count = 0;
    double sum = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        struct value value = { .groups = list->items[i].groups };
        if (value_of(&list->items[i], unit, &value.value)) {
            insert(values, count, value);
            count++;
            out.groups += value.groups;
            sum += (double)value.value * value.groups;
        }
    }
    if (count > 0) {
        out.mean = sum / out.groups;
        out.max = values[count - 1].value;
        out.p50 = percentile(values, out.groups, 50);
        out.p90 = percentile(values, out.groups, 90);
        out.p99 = percentile(values, out.groups, 99);
    }
    return out;
}

static void count_relations(const struct served_list *list, struct staleness_summary *out)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct served *served = &list->items[i];
        const struct staleness_policy *policy = &out->policy;
        switch (served->lag.relation) {
        case LAG_RELATION_CURRENT: out->groups_current += served->groups; break;
        case LAG_RELATION_BEHIND: out->groups_behind += served->groups; break;
        case LAG_RELATION_UNRELATED: out->groups_unrelated += served->groups; break;
        case LAG_RELATION_NONE: break;
        }
        bool warned = policy->warned && lag_is_above(&served->lag, policy->unit, policy->warn);
        bool over = policy->bounded && lag_is_above(&served->lag, policy->unit, policy->bound);
        out->groups_over_warn += warned ? served->groups : 0;
        out->groups_over_bound += over ? served->groups : 0;
    }
}

void view_staleness_summary(const struct controller *core, const struct model_record *model,
                            uint64_t wall_ns, struct staleness_summary *out)
{
    const struct model *object = (const struct model *)model;
    struct served_list list;
    memset(out, 0, sizeof(*out));
    out->newest_seq = model->newest_seq;
    out->newest_published_wall_ns = model->newest_published_wall_ns;
    out->policy = model->policy.staleness;
    out->policy.unit = out->policy.unit == 0 ? LAG_PUBLISHES : out->policy.unit;
    out->groups = object->staleness->groups;
    out->groups_unknown = object->staleness->groups_unknown;
    collect(core, object, wall_ns, &list);
    count_relations(&list, out);
    uint32_t foreign = object->staleness->groups_foreign;
    out->groups_unrelated += foreign;
    out->groups_over_warn += out->policy.warned ? foreign : 0;
    out->groups_over_bound += out->policy.bounded ? foreign : 0;
    out->groups_without_version =
        out->groups - out->groups_current - out->groups_behind - out->groups_unrelated;
    for (uint32_t unit = LAG_PUBLISHES; unit < LAG_UNITS_END; unit++) {
        out->lags[unit] = statistics(&list, unit);
    }
    out->age = statistics(&list, 0);
}

static const uint64_t bucket_edges[LAG_UNITS_END][LAG_BUCKETS] = {
    [LAG_PUBLISHES] = { 0, 1, 2, 3, 4, 6, 8, 12, 16, 32 },
    [LAG_OPTIMIZER_STEPS] = { 0, 1, 2, 4, 8, 16, 32, 64, 128, 256 },
    [LAG_SAMPLES] = { 0, 1, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576 },
    [LAG_SECONDS] = { 0, 1, 5, 15, 30, 60, 120, 300, 900, 3600 },
};

uint64_t lag_bucket_edge(enum lag_unit unit, uint32_t bucket)
{
    return bucket_edges[unit][bucket];
}

uint32_t lag_bucket(enum lag_unit unit, uint64_t lag)
{
    uint32_t bucket = LAG_BUCKETS - 1;
    while (bucket_edges[unit][bucket] > lag) {
        bucket--;
    }
    return bucket;
}

void view_staleness_histogram(const struct controller *core, const struct model_record *model,
                              enum lag_unit unit, struct lag_histogram *out)
{
    const struct model *object = (const struct model *)model;
    struct served_list list;
    uint32_t measured = 0;
    memset(out, 0, sizeof(*out));
    memcpy(out->edges, bucket_edges[unit], sizeof(out->edges));
    collect(core, object, core->wall_ns, &list);
    out->groups_unrelated = object->staleness->groups_foreign;
    for (uint32_t i = 0; i < list.count; i++) {
        const struct served *served = &list.items[i];
        if (served->lag.relation == LAG_RELATION_UNRELATED) {
            out->groups_unrelated += served->groups;
        } else if (served->lag.known[unit]) {
            out->groups[lag_bucket(unit, served->lag.units[unit])] += served->groups;
            measured += served->groups;
        }
    }
    out->groups_unmeasured = object->staleness->groups - out->groups_unrelated - measured;
}

struct lag view_version_lag(const struct controller *core, const struct version_record *version)
{
    struct lag none = { .relation = LAG_RELATION_NONE };
    const struct model *model = version == NULL ? NULL : model_find(core, version->model);
    if (model == NULL || version->seq == 0) {
        return none;
    }
    struct version_point served = lag_point_of(version);
    struct version_point head = head_of(core, model);
    return lag_between(&model->staleness->r.lineage, &served, &head);
}

struct lag group_lag(const struct controller *core, const struct group *group)
{
    struct lag lag = { .relation = LAG_RELATION_NONE };
    uint64_t seq = group_committed(group);
    const struct version *version = version_find(core, group->r.model, seq);
    if (seq != 0 && (version == NULL || !group_is_on(core, group, seq))) {
        lag.relation = LAG_RELATION_UNRELATED;
        return lag;
    }
    return view_version_lag(core, version == NULL ? NULL : &version->r);
}

struct sample_counter view_sample_counter(const struct controller *core,
                                          const struct model_record *model, enum sample_stage stage)
{
    (void)core;
    return ((const struct model *)model)->staleness->samples[stage];
}

const struct staleness_record *view_staleness_record(const struct controller *core,
                                                     const struct model_record *model)
{
    (void)core;
    return &((const struct model *)model)->staleness->r;
}

struct lag view_group_lag(const struct controller *core, const struct group_record *group,
                          uint64_t wall_ns, uint64_t *age_s)
{
    const struct group *object = (const struct group *)group;
    const struct version *version = version_find(core, group->model, group_committed(object));
    *age_s = version == NULL ? 0 : age_of(&version->r, wall_ns);
    return group_lag(core, object);
}
