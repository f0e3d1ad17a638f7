/* sessions.c -- leases that keep a session's turns on one version; see leases.h. */
#include <string.h>

#include "controller/core/admission.h"
#include "controller/core/core.h"
#include "controller/core/leases.h"
#include "controller/core/text.h"

static void write_key(char out[RECORD_KEY_BYTES], const char *model, const char *name)
{
    text_format(out, RECORD_KEY_BYTES, "%s/%s", model, name);
}

static struct session_lease *find(const struct controller *core, const char *model,
                                  const char *name)
{
    char key[RECORD_KEY_BYTES];
    write_key(key, model, name);
    return index_find(&core->session_leases, key);
}

uint64_t lease_expiry_ns(const struct controller *core, uint64_t expires_wall_ns)
{
    uint64_t most_ns = (uint64_t)LEASE_MS_MAX * MS_NS * (100 + LEASE_SLACK_PERCENT) / 100;
    uint64_t left_ns = expires_wall_ns > core->wall_ns ? expires_wall_ns - core->wall_ns : 0;
    return core->now_ns + (left_ns < most_ns ? left_ns : most_ns);
}

bool lease_renew(struct controller *core, uint64_t ttl_ns, uint64_t *expires_ns,
                 uint64_t *stored_wall_ns)
{
    *expires_ns = core->now_ns + ttl_ns;
    leases_wake(core, *expires_ns);
    if (*stored_wall_ns >= core->wall_ns + ttl_ns) {
        return false;
    }
    *stored_wall_ns = core->wall_ns + ttl_ns * (100 + LEASE_SLACK_PERCENT) / 100;
    return true;
}

void leases_wake(struct controller *core, uint64_t at_ns)
{
    core->leases_due_ns = at_ns < core->leases_due_ns ? at_ns : core->leases_due_ns;
    wake_at(core, at_ns);
}

/* --- leases of a version --- */

static void count(struct controller *core, const struct session_lease *lease, int by)
{
    struct version *version = version_find(core, lease->r.model, lease->r.seq);
    if (version != NULL && !lease->r.expired) {
        version->sessions += (uint32_t)by;
    }
}

struct session_lease *session_add(struct controller *core,
                                  const struct session_lease_record *record)
{
    struct session_lease *lease = table_take(&core->session_leases_table);
    if (lease != NULL) {
        lease->r = *record;
        write_key(lease->key, record->model, record->name);
        lease->expires_ns = lease_expiry_ns(core, record->expires_wall_ns);
        index_insert(&core->session_leases, lease);
        leases_wake(core, lease->expires_ns);
    }
    return lease;
}

/* The time before this life is the wall clock's; after it, its jumps move nothing. */
static void resume_hold(const struct controller *core, struct version *version)
{
    uint64_t since = version->r.hold_since_wall_ns;
    version->hold_since_ns = core->now_ns;
    version->hold_gone_ns = core->wall_ns > since ? core->wall_ns - since : 0;
}

void sessions_link(struct controller *core)
{
    for (uint32_t i = 0; i < core->versions.count; i++) {
        struct version *version = core->versions.objects[i];
        if (version->r.hold_roll != 0) {
            resume_hold(core, version);
        }
    }
    for (uint32_t i = 0; i < core->session_leases.count; i++) {
        struct session_lease *lease = core->session_leases.objects[i];
        struct model *model = model_find(core, lease->r.model);
        count(core, lease, 1);
        if (model != NULL) {
            model->staleness->sessions++;
        }
    }
}

static void expire(struct controller *core, struct session_lease *lease)
{
    count(core, lease, -1);
    lease->r.expired = true;
    lease->r.expires_wall_ns = core->wall_ns + SESSION_TOLD_S * S_NS;
    lease->expires_ns = core->now_ns + SESSION_TOLD_S * S_NS;
    leases_wake(core, lease->expires_ns);
    marks_put(core, RECORD_SESSION_LEASE, lease);
    struct model *model = model_find(core, lease->r.model);
    const struct version *version = version_find(core, lease->r.model, lease->r.seq);
    if (model != NULL && version != NULL && version->sessions == 0) {
        model_touch(model); /* A swap may have waited for the last one. */
    }
}

static void forget(struct controller *core, struct session_lease *lease)
{
    struct model *model = model_find(core, lease->r.model);
    if (model != NULL) {
        model->staleness->sessions--;
    }
    index_remove(&core->session_leases, lease);
    marks_remove(core, RECORD_SESSION_LEASE, lease);
}

void sessions_expire(struct controller *core)
{
    uint32_t done = 0;
    for (uint32_t i = core->session_leases.count; i > 0; i--) {
        struct session_lease *lease = core->session_leases.objects[i - 1];
        if (core->now_ns < lease->expires_ns || done == STEP_LEASES_MAX) {
            leases_wake(core, lease->expires_ns);
        } else if (lease->r.expired) {
            forget(core, lease);
            done++;
        } else {
            expire(core, lease);
            done++;
        }
    }
}

/* --- holding a roll back --- */

static bool needs_group(const struct controller *core, const struct model *model,
                        const struct group *group)
{
    const struct version *version = version_find(core, model->r.name, group->counted_seq);
    bool last = version != NULL && group->counted_ready && version->groups_ready == 1;
    return last && version->sessions > 0 && !version->r.quarantined &&
           model->active->r.cause != ROLL_CAUSE_UNDO &&
           model->r.policy.strategy == POLICY_STRATEGY_ROLLING;
}

bool sessions_hold(const struct controller *core, const struct model *model,
                   const struct group *group)
{
    return model->active != NULL && needs_group(core, model, group);
}

/* All leases of a version, as far as one step goes. */
static void expire_version(struct controller *core, struct model *model, struct version *version)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < core->session_leases.count && done < STEP_LEASES_MAX; i++) {
        struct session_lease *lease = core->session_leases.objects[i];
        if (!lease->r.expired && lease->r.seq == version->r.seq &&
            text_equal(lease->r.model, model->r.name)) {
            expire(core, lease);
            done++;
        }
    }
    struct object_ref ref = ref_version(version);
    log_warn(core, &ref, "SessionsExpired",
             "%u leases held its last group back for longer than sessions.maxHold", done);
}

/* How long sessions on 'version' have held the active roll back. */
static uint64_t held_ns(struct controller *core, const struct model *model, struct version *version)
{
    if (version->r.hold_roll != model->active->r.number) {
        version->r.hold_roll = model->active->r.number;
        version->r.hold_since_wall_ns = core->wall_ns;
        version->hold_since_ns = core->now_ns;
        version->hold_gone_ns = 0;
        marks_put(core, RECORD_VERSION, version);
    }
    return version->hold_gone_ns + core->now_ns - version->hold_since_ns;
}

bool sessions_defer(struct controller *core, struct model *model, const struct group *group)
{
    if (!needs_group(core, model, group)) {
        return false;
    }
    struct version *version = version_find(core, model->r.name, group->counted_seq);
    uint64_t max_ns = model->r.policy.sessions.max_hold_ms * MS_NS;
    uint64_t held = held_ns(core, model, version);
    if (held >= max_ns) {
        expire_version(core, model, version);
    }
    if (version->sessions == 0) {
        return false;
    }
    model->staleness->hold_due_ns = core->now_ns + (held >= max_ns ? 1 : max_ns - held);
    wake_at(core, model->staleness->hold_due_ns);
    return true;
}

void sessions_check_holds(struct controller *core)
{
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        uint64_t due_ns = model->staleness->hold_due_ns;
        if (due_ns == 0) {
            continue;
        }
        if (core->now_ns < due_ns) {
            wake_at(core, due_ns);
        } else {
            model->staleness->hold_due_ns = 0;
            model_touch(model);
        }
    }
}

/* --- the call --- */

static bool is_session_name(const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < length; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return false;
        }
    }
    return length > 0 && length < BATON_REQUEST_ID_BYTES;
}

static struct baton_status check(struct controller *core, struct call *call, uint64_t *ttl_ns)
{
    const struct request_session *session = &call->request->body.session;
    const char *field = NULL;
    struct baton_status st = view_admission_check(core, &session->query, &field);
    if (field != NULL) {
        text_copy(call->field, sizeof(call->field), field);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (!is_session_name(session->name)) {
        return call_bad_field(call, "session", "not 1 to %d printable characters without spaces",
                              BATON_REQUEST_ID_BYTES - 1);
    }
    const struct model *model = model_find(core, session->query.model);
    uint64_t ttl_ms = session->ttl_ms != 0 ? session->ttl_ms : model->r.policy.sessions.ttl_ms;
    if (ttl_ms == 0 || ttl_ms > LEASE_MS_MAX) {
        return call_bad_field(call, "session_ttl", "outside of 1 ms to 24 h");
    }
    *ttl_ns = ttl_ms * MS_NS;
    return st;
}

static struct baton_status refuse_expired(const struct session_lease *lease)
{
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_SESSION_EXPIRED,
                          "session %s: EXPIRED: its lease on version %llu is over", lease->r.name,
                          (unsigned long long)lease->r.seq),
        "begin another session, or the same one anew with restart_session: it gets another "
        "version");
}

/* The session's version must still be what the caller asks for, and be served. */
static struct baton_status go_on(struct controller *core, struct call *call,
                                 struct session_lease *lease, uint64_t ttl_ns)
{
    struct admission_query exact = { .model = lease->r.model, .exact_seq = lease->r.seq };
    const struct version *version = version_find(core, lease->r.model, lease->r.seq);
    const struct request_session *session = &call->request->body.session;
    if (version == NULL || !view_admission_meets(core, &session->query, &version->r)) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_VERSION_NOT_READY,
                              "session %s holds version %llu, which is not what is asked for",
                              lease->r.name, (unsigned long long)lease->r.seq),
            "ask without other conditions, or begin another session");
    }
    if (view_admission_count(core, &exact) == 0) {
        return view_admission_refusal(core, &exact, &call->retry_ns);
    }
    if (lease_renew(core, ttl_ns, &lease->expires_ns, &lease->r.expires_wall_ns)) {
        marks_put(core, RECORD_SESSION_LEASE, lease);
    }
    call->answer.number = lease->r.seq;
    return baton_status_ok();
}

static struct baton_status check_room(const struct controller *core, const struct model *model)
{
    uint32_t of_model = core->limits.sessions / 2;
    bool full = table_is_full(&core->session_leases_table);
    if (!full && model->staleness->sessions < of_model) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                          "%u sessions of model %s are kept, %u of all models; the limits are %u "
                          "and %u",
                          model->staleness->sessions, model->r.name, core->session_leases.count,
                          of_model, core->limits.sessions),
        "let leases run out, or ask for shorter ones (session_ttl)");
}

/* The newest version that is served, if possible one that nobody took back. */
static uint64_t choose(const struct controller *core, const struct model *model,
                       const struct admission_query *query)
{
    uint64_t newest = view_admission_next(core, query, UINT64_MAX);
    for (uint64_t seq = newest; seq != 0; seq = view_admission_next(core, query, seq)) {
        const struct version *version = version_find(core, model->r.name, seq);
        if (!version->r.quarantined && !lineage_is_undone(&model->staleness->r.lineage, seq)) {
            return seq;
        }
    }
    return newest;
}

static struct baton_status begin(struct controller *core, struct call *call, struct model *model,
                                 struct session_lease *old, uint64_t ttl_ns)
{
    const struct request_session *session = &call->request->body.session;
    uint64_t seq = choose(core, model, &session->query);
    if (seq == 0) {
        return view_admission_refusal(core, &session->query, &call->retry_ns);
    }
    struct baton_status st = old != NULL ? baton_status_ok() : check_room(core, model);
    if (!baton_ok(&st)) {
        return st;
    }
    struct session_lease_record record = { .seq = seq, .created_wall_ns = core->wall_ns };
    text_copy(record.model, sizeof(record.model), model->r.name);
    text_copy(record.name, sizeof(record.name), session->name);
    struct session_lease *lease = old != NULL ? old : session_add(core, &record);
    model->staleness->sessions += old == NULL;
    lease->r = record;
    count(core, lease, 1);
    (void)lease_renew(core, ttl_ns, &lease->expires_ns, &lease->r.expires_wall_ns);
    marks_put(core, RECORD_SESSION_LEASE, lease);
    call->answer.number = seq;
    return st;
}

struct baton_status sessions_resolve(struct controller *core, struct call *call)
{
    const struct request_session *session = &call->request->body.session;
    uint64_t ttl_ns = 0;
    struct baton_status st = check(core, call, &ttl_ns);
    if (!baton_ok(&st)) {
        return st;
    }
    struct model *model = model_find(core, session->query.model);
    struct session_lease *lease = find(core, model->r.name, session->name);
    if (lease != NULL && lease->r.expired && !session->restart) {
        return refuse_expired(lease);
    }
    if (lease != NULL && !lease->r.expired) {
        return go_on(core, call, lease, ttl_ns);
    }
    return begin(core, call, model, lease, ttl_ns);
}

/* --- views --- */

uint32_t view_sessions_count(const struct controller *core)
{
    return core->session_leases.count;
}

const struct session_lease_record *view_session_at(const struct controller *core, uint32_t index)
{
    const struct session_lease *lease =
        index < core->session_leases.count ? core->session_leases.objects[index] : NULL;
    return lease == NULL ? NULL : &lease->r;
}

const struct session_lease_record *view_session_find(const struct controller *core,
                                                     const char *model, const char *name)
{
    const struct session_lease *lease = find(core, model, name);
    return lease == NULL ? NULL : &lease->r;
}

uint64_t view_session_expires_wall_ns(const struct controller *core,
                                      const struct session_lease_record *session)
{
    const struct session_lease *lease = (const struct session_lease *)session;
    return core->wall_ns +
           (lease->expires_ns > core->now_ns ? lease->expires_ns - core->now_ns : 0);
}
