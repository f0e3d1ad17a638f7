/* slots.c -- room for samples on the way; see leases.h for the formula. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/core.h"
#include "controller/core/leases.h"
#include "controller/core/text.h"

enum { SLOTS_PER_CALL_MAX = 1000000 };

struct slot_lease *slot_lease_add(struct controller *core, const struct slot_lease_record *record)
{
    struct slot_lease *lease = table_take(&core->slot_leases_table);
    if (lease != NULL) {
        lease->r = *record;
        lease->expires_ns = lease_expiry_ns(core, record->expires_wall_ns);
        index_insert(&core->slot_leases, lease);
        leases_wake(core, lease->expires_ns);
    }
    return lease;
}

void slots_link(struct controller *core)
{
    for (uint32_t i = 0; i < core->slot_leases.count; i++) {
        const struct slot_lease *lease = core->slot_leases.objects[i];
        struct model *model = model_find(core, lease->r.model);
        if (model != NULL) {
            model->staleness->slot_leases++;
            model->staleness->slots_held += lease->r.held;
        }
    }
}

/* What was consumed beyond a publish belongs to the next one. */
void slots_published(struct model *model)
{
    uint64_t per_publish = model->r.policy.slots.samples_per_publish;
    uint64_t *consumed = &model->staleness->r.consumed;
    *consumed = *consumed > per_publish ? *consumed - per_publish : 0;
}

/* --- room --- */

/* How far the newest version moved from its parent, in the bound's unit. */
static uint64_t moved(const struct controller *core, const struct model *model, enum lag_unit unit)
{
    const struct version *head = version_find(core, model->r.name, model->r.newest_seq);
    const struct version *parent =
        head == NULL ? NULL : version_find(core, model->r.name, head->r.parent_seq);
    if (head == NULL || parent == NULL) {
        return 0;
    }
    struct version_point from = lag_point_of(&parent->r);
    struct version_point to = lag_point_of(&head->r);
    return lag_between(&model->staleness->r.lineage, &from, &to).units[unit];
}

static struct baton_status no_slots(const struct model *model, const char *why, const char *hint)
{
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                               "model %s has no slots: %s", model->r.name, why),
                             "%s", hint);
}

static struct baton_status find_bound(const struct controller *core, const struct model *model,
                                      uint64_t *out)
{
    const struct staleness_policy *policy = &model->r.policy.staleness;
    if (model->r.policy.slots.samples_per_publish == 0) {
        return no_slots(model, "spec.update.slots.samplesPerPublish is not set",
                        "set it to the samples that the trainer takes between two publishes");
    }
    if (!policy->bounded) {
        return no_slots(model, "spec.update.staleness.bound is not set",
                        "set it to the largest lag that a sample may have when it is taken");
    }
    if (policy->unit == LAG_PUBLISHES || policy->unit == 0 || policy->bound == 0) {
        *out = policy->bound;
        return baton_status_ok();
    }
    uint64_t step = policy->unit == LAG_SECONDS ? 0 : moved(core, model, policy->unit);
    if (step == 0) {
        return no_slots(model, "its bound cannot be told in publishes",
                        "give the bound in Publishes, or name the steps and samples of each "
                        "version");
    }
    *out = policy->bound / step;
    return baton_status_ok();
}

struct baton_status view_slots_status(const struct controller *core,
                                      const struct model_record *record, struct slots_status *out)
{
    const struct model *model = (const struct model *)record;
    const struct slot_policy *policy = &record->policy.slots;
    *out = (struct slots_status){ .held = model->staleness->slots_held,
                                  .consumed = model->staleness->r.consumed,
                                  .per_publish = policy->samples_per_publish,
                                  .leases = model->staleness->slot_leases };
    struct baton_status st = find_bound(core, model, &out->bound_publishes);
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t all = 0;
    if (__builtin_add_overflow(out->bound_publishes, 1, &all) ||
        __builtin_mul_overflow(all, out->per_publish, &all)) {
        all = UINT64_MAX;
    }
    uint64_t used = out->held + out->consumed;
    out->room = all > used ? all - used : 0;
    if (policy->max_held != 0) {
        uint64_t left = policy->max_held > out->held ? policy->max_held - out->held : 0;
        out->room = out->room < left ? out->room : left;
    }
    return st;
}

/* --- the calls --- */

static struct baton_status lease_of_call(struct controller *core, struct call *call,
                                         const struct model *model, const char *id,
                                         struct slot_lease **out)
{
    struct slot_lease *lease = index_find(&core->slot_leases, id == NULL ? "" : id);
    if (lease == NULL || !text_equal(lease->r.model, model->r.name)) {
        (void)call;
        return baton_status_hint(baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                                   "model %s has no slot lease \"%.40s\"",
                                                   model->r.name, id == NULL ? "" : id),
                                 "it ran out or was released whole; acquire anew");
    }
    *out = lease;
    return baton_status_ok();
}

static struct baton_status check_acquire(struct call *call, const struct model *model,
                                         uint64_t *ttl_ns)
{
    const struct request_acquire *acquire = &call->request->body.acquire;
    bool renews = !text_is_empty(acquire->lease);
    if ((acquire->count == 0 && !renews) || acquire->count > SLOTS_PER_CALL_MAX) {
        return call_bad_field(call, "count", "%u; a call asks for 1 to %d, or 0 to renew a lease",
                              acquire->count, SLOTS_PER_CALL_MAX);
    }
    uint64_t ttl_ms = acquire->ttl_ms != 0 ? acquire->ttl_ms : model->r.policy.slots.ttl_ms;
    if (ttl_ms == 0 || ttl_ms > LEASE_MS_MAX) {
        return call_bad_field(call, "ttl", "outside of 1 ms to 24 h");
    }
    *ttl_ns = ttl_ms * MS_NS;
    return baton_status_ok();
}

static struct baton_status check_room(const struct controller *core, struct call *call,
                                      const struct model *model, uint32_t *granted)
{
    const struct request_acquire *acquire = &call->request->body.acquire;
    struct slots_status status;
    struct baton_status st = view_slots_status(core, &model->r, &status);
    if (!baton_ok(&st)) {
        return st;
    }
    if (MUTANT(SLOTS_UNBOUNDED)) {
        status.room = acquire->count;
    }
    *granted = status.room < acquire->count ? (uint32_t)status.room : acquire->count;
    if (*granted == acquire->count || (acquire->partial && *granted > 0)) {
        return st;
    }
    st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_SLOTS_FULL,
                           "room for %llu samples, asked for %u: %llu hold a slot, %llu were "
                           "consumed since the last publish, (%llu + 1) * %llu may",
                           (unsigned long long)status.room, acquire->count,
                           (unsigned long long)status.held, (unsigned long long)status.consumed,
                           (unsigned long long)status.bound_publishes,
                           (unsigned long long)status.per_publish);
    return baton_status_hint(st, "wait for a publish, or for samples to be consumed or dropped");
}

static struct baton_status check_leases(const struct controller *core, const struct model *model)
{
    uint32_t of_model = core->limits.slot_leases / 2;
    if (!table_is_full(&core->slot_leases_table) && model->staleness->slot_leases < of_model) {
        return baton_status_ok();
    }
    return baton_status_hint(baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                               "%u slot leases of model %s, which is the limit",
                                               model->staleness->slot_leases, model->r.name),
                             "add to a lease that is held (lease), rather than begin another one");
}

static struct baton_status new_lease(struct controller *core, struct call *call,
                                     struct model *model, struct slot_lease **out)
{
    struct baton_status st = check_leases(core, model);
    if (!baton_ok(&st)) {
        return st;
    }
    struct slot_lease_record record = { .created_wall_ns = core->wall_ns };
    uid_make(core, record.id);
    text_copy(record.model, sizeof(record.model), model->r.name);
    text_copy(record.holder, sizeof(record.holder), call->request->body.acquire.holder);
    *out = slot_lease_add(core, &record);
    model->staleness->slot_leases++;
    return st;
}

struct baton_status slots_acquire(struct controller *core, struct call *call)
{
    const struct request_acquire *acquire = &call->request->body.acquire;
    struct model *model = NULL;
    struct slot_lease *lease = NULL;
    uint64_t ttl_ns = 0;
    uint32_t granted = 0;
    struct baton_status st = model_of_call(core, call, &model);
    if (baton_ok(&st)) {
        st = check_acquire(call, model, &ttl_ns);
    }
    if (baton_ok(&st) && acquire->count > 0) {
        st = check_room(core, call, model, &granted);
    }
    if (baton_ok(&st)) {
        st = text_is_empty(acquire->lease)
                 ? new_lease(core, call, model, &lease)
                 : lease_of_call(core, call, model, acquire->lease, &lease);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    lease->r.held += granted;
    lease->r.seq = model->r.newest_seq;
    model->staleness->slots_held += granted;
    bool later = lease_renew(core, ttl_ns, &lease->expires_ns, &lease->r.expires_wall_ns);
    if (later || granted > 0) {
        marks_put(core, RECORD_SLOT_LEASE, lease);
    }
    text_copy(call->answer.name, sizeof(call->answer.name), model->r.name);
    text_copy(call->answer.uid, sizeof(call->answer.uid), lease->r.id);
    call->answer.number = granted;
    return st;
}

static void remove_lease(struct controller *core, struct model *model, struct slot_lease *lease)
{
    if (model != NULL) {
        model->staleness->slots_held -= lease->r.held;
        model->staleness->slot_leases--;
    }
    index_remove(&core->slot_leases, lease);
    marks_remove(core, RECORD_SLOT_LEASE, lease);
}

struct baton_status slots_release(struct controller *core, struct call *call)
{
    const struct request_release *release = &call->request->body.release;
    struct model *model = NULL;
    struct slot_lease *lease = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (baton_ok(&st)) {
        st = lease_of_call(core, call, model, release->lease, &lease);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t given = (uint64_t)release->consumed + release->dropped;
    if (given == 0 || given > lease->r.held) {
        return call_bad_field(call, "consumed", "%u and dropped %u; the lease holds %llu",
                              release->consumed, release->dropped,
                              (unsigned long long)lease->r.held);
    }
    lease->r.held -= given;
    model->staleness->slots_held -= given;
    model->staleness->r.consumed += release->consumed;
    if (release->consumed > 0) {
        marks_put(core, RECORD_STALENESS, model->staleness);
    }
    text_copy(call->answer.name, sizeof(call->answer.name), model->r.name);
    text_copy(call->answer.uid, sizeof(call->answer.uid), lease->r.id);
    call->answer.number = lease->r.held;
    if (lease->r.held == 0) {
        remove_lease(core, model, lease);
    } else {
        marks_put(core, RECORD_SLOT_LEASE, lease);
    }
    return st;
}

void slots_expire(struct controller *core)
{
    uint32_t done = 0;
    for (uint32_t i = core->slot_leases.count; i > 0; i--) {
        struct slot_lease *lease = core->slot_leases.objects[i - 1];
        if (core->now_ns < lease->expires_ns || done == STEP_LEASES_MAX) {
            leases_wake(core, lease->expires_ns);
            continue;
        }
        struct model *model = model_find(core, lease->r.model);
        if (model != NULL) {
            struct object_ref ref = ref_model(model);
            log_warn(core, &ref, "SlotsReturned", "%llu slots of %s returned: its lease ran out",
                     (unsigned long long)lease->r.held,
                     lease->r.holder[0] != '\0' ? lease->r.holder : lease->r.id);
        }
        remove_lease(core, model, lease);
        done++;
    }
}

/* --- views --- */

uint32_t view_slot_leases_count(const struct controller *core)
{
    return core->slot_leases.count;
}

const struct slot_lease_record *view_slot_lease_at(const struct controller *core, uint32_t index)
{
    const struct slot_lease *lease =
        index < core->slot_leases.count ? core->slot_leases.objects[index] : NULL;
    return lease == NULL ? NULL : &lease->r;
}

const struct slot_lease_record *view_slot_lease_find(const struct controller *core, const char *id)
{
    const struct slot_lease *lease = index_find(&core->slot_leases, id);
    return lease == NULL ? NULL : &lease->r;
}

uint64_t view_slot_lease_expires_wall_ns(const struct controller *core,
                                         const struct slot_lease_record *record)
{
    const struct slot_lease *lease = (const struct slot_lease *)record;
    return core->wall_ns +
           (lease->expires_ns > core->now_ns ? lease->expires_ns - core->now_ns : 0);
}
