/* load.c -- building the core from its records, in any order, and beginning to work. */
#include <string.h>

#include "controller/core/core.h"
#include "controller/core/series.h"
#include "controller/core/text.h"

/* Far above what agents are believed (told.c), far below where numbers come round. */
#define COUNTED_MAX (UINT64_C(1) << 63)

static struct baton_status full(const char *what, uint32_t limit)
{
    return baton_status_hint(baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                               "the store holds more %s than this build keeps (%u)",
                                               what, limit),
                             "start a build with higher limits (api/base/limits.h)");
}

static struct baton_status twice(const char *what, const char *name)
{
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED, "the store holds %s %s twice",
                             what, name);
}

static struct baton_status no_numbers(const char *what, const char *name, const char *why)
{
    return baton_status_hint(baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                               "the store holds %s %s with %s", what, name, why),
                             "put back an export of before that");
}

static struct baton_status load_model(struct controller *core, const struct model_record *record)
{
    if (model_find(core, record->name) != NULL) {
        return twice("model", record->name);
    }
    if (record->newest_seq > record->seq_floor || record->promoted_seq > record->newest_seq) {
        return no_numbers("model", record->name, "a seq above the highest that was given");
    }
    return model_add(core, record) == NULL ? full("models", core->limits.models)
                                           : baton_status_ok();
}

static struct baton_status load_version(struct controller *core,
                                        const struct version_record *record)
{
    bool known = index_find(&core->versions_uid, record->uid) != NULL ||
                 (record->seq != 0 && version_find(core, record->model, record->seq) != NULL);
    if (known) {
        return twice("version", record->uid);
    }
    return version_add(core, record) == NULL ? full("versions", core->limits.versions)
                                             : baton_status_ok();
}

static struct baton_status load_roll(struct controller *core, const struct roll_record *record)
{
    if (roll_find(core, record->model, record->number) != NULL) {
        return twice("a roll of model", record->model);
    }
    return roll_add(core, record) == NULL ? full("rolls", core->limits.rolls) : baton_status_ok();
}

static struct baton_status load_group(struct controller *core, const struct group_record *record)
{
    if (group_find(core, record->name) != NULL) {
        return twice("group", record->name);
    }
    if (record->ticket_number > COUNTED_MAX || record->owner_term > COUNTED_MAX) {
        return no_numbers("group", record->name, "a number that nobody counts to");
    }
    return group_add(core, record) == NULL ? full("groups", core->limits.groups)
                                           : baton_status_ok();
}

static struct baton_status load_agent(struct controller *core, const struct agent_record *record)
{
    if (agent_find(core, record->name) != NULL) {
        return twice("agent", record->name);
    }
    return agent_add(core, record) == NULL ? full("agents", core->limits.agents)
                                           : baton_status_ok();
}

static struct baton_status load_request(struct controller *core,
                                        const struct request_record *record)
{
    if (index_find(&core->requests, record->id) != NULL) {
        return twice("request id", record->id);
    }
    return requests_add(core, record) == NULL ? full("request ids", core->limits.request_ids)
                                              : baton_status_ok();
}

static struct baton_status load_staleness(struct controller *core,
                                          const struct staleness_record *record)
{
    if (index_find(&core->staleness, record->model) != NULL) {
        return twice("staleness of model", record->model);
    }
    return staleness_add(core, record) == NULL ? full("models", core->limits.models)
                                               : baton_status_ok();
}

static struct baton_status load_swap(struct controller *core, const struct history_record *record)
{
    return history_load(core, record) == NULL ? full("swaps", core->limits.swaps)
                                              : baton_status_ok();
}

static struct baton_status load_series(struct controller *core,
                                       const struct series_chunk_record *record)
{
    if (series_load(core, record)) {
        return baton_status_ok();
    }
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                             "the store holds a series of model %.63s that is not one of ours",
                             record->model);
}

static struct baton_status load_session(struct controller *core,
                                        const struct session_lease_record *record)
{
    return session_add(core, record) == NULL ? full("sessions", core->limits.sessions)
                                             : baton_status_ok();
}

static struct baton_status load_slots(struct controller *core,
                                      const struct slot_lease_record *record)
{
    if (index_find(&core->slot_leases, record->id) != NULL) {
        return twice("slot lease", record->id);
    }
    return slot_lease_add(core, record) == NULL ? full("slot leases", core->limits.slot_leases)
                                                : baton_status_ok();
}

struct baton_status load_record(struct controller *core, struct record_ref record)
{
    switch (record.kind) {
    case RECORD_CLUSTER:
        memcpy(&core->cluster, record.body, sizeof(core->cluster));
        return baton_status_ok();
    case RECORD_MODEL: return load_model(core, record.body);
    case RECORD_VERSION: return load_version(core, record.body);
    case RECORD_ROLL: return load_roll(core, record.body);
    case RECORD_GROUP: return load_group(core, record.body);
    case RECORD_AGENT: return load_agent(core, record.body);
    case RECORD_REQUEST: return load_request(core, record.body);
    case RECORD_STALENESS: return load_staleness(core, record.body);
    case RECORD_SWAP: return load_swap(core, record.body);
    case RECORD_SERIES: return load_series(core, record.body);
    case RECORD_SESSION_LEASE: return load_session(core, record.body);
    case RECORD_SLOT_LEASE: return load_slots(core, record.body);
    case RECORD_KINDS_END: break;
    }
    baton_assert(false);
    return baton_status_ok();
}

static void link_groups(struct controller *core)
{
    for (uint32_t i = 0; i < core->groups.count; i++) {
        struct group *group = core->groups.objects[i];
        struct agent *agent = agent_find(core, group->r.agent);
        if (agent != NULL && agent->groups_count < BATON_GROUPS_PER_AGENT_MAX) {
            agent_link(agent, group);
        }
        if (group->r.failures > 0) {
            group_back_off(core, group);
        }
    }
}

static void link_models(struct controller *core)
{
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        model->active =
            model->r.active_roll == 0 ? NULL : roll_find(core, model->r.name, model->r.active_roll);
        if (model->active != NULL) {
            model->active->progress_ns = core->now_ns;
        }
        barrier_load(core, model);
        staleness_link(core, model);
        staleness_note_model(core, model);
        trigger_load(core, model);
        model->measure.dirty = true;
        model_touch(model);
    }
}

/* Rule 5: a generation that rose under records of an older one means that the store went back. */
static void start_cluster(struct controller *core)
{
    uint64_t generation = core->epoch.generation;
    if (core->cluster.generation == generation) {
        return;
    }
    baton_assert(core->cluster.generation < generation);
    if (core->cluster.generation != 0) {
        core->cluster.floors_pending = true;
    }
    core->cluster.generation = generation;
    marks_put(core, RECORD_CLUSTER, &core->cluster);
}

void load_started(struct controller *core, const struct started *started)
{
    baton_assert(started->epoch.n > 0 && started->log_next_number > 0);
    core->epoch = started->epoch;
    core->phase = CORE_RUNNING;
    core->revision = started->revision + REVISION_GAP;
    core->revision_stored = started->revision; /* So the first step stores the gap. */
    core->log_next_number = started->log_next_number;
    core->housekeep_ns = core->now_ns;
    core->series_due_ns = core->now_ns + SERIES_PERIOD_S * S_NS;
    wake_at(core, core->now_ns);
    /* The same seed under another epoch gives other uids. */
    for (int i = 0; i < 2; i++) {
        baton_random_seed(&core->uid_random[i], baton_random_u64(&core->uid_random[i]) ^
                                                    (started->epoch.generation << 32) ^
                                                    started->epoch.n);
    }
    link_groups(core);
    link_models(core);
    sessions_link(core);
    slots_link(core);
    start_cluster(core);
}

void load_shown(struct controller *core, const struct started *started)
{
    core->epoch = started->epoch;
    core->phase = CORE_SHOWN;
    core->revision = started->revision;
    core->log_next_number = started->log_next_number;
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        model->active =
            model->r.active_roll == 0 ? NULL : roll_find(core, model->r.name, model->r.active_roll);
    }
}
