/* rebuild.c -- a store that was lost: what the agents restate becomes records again.
 *
 * Agents tell the version that each group committed, with uid, size and sources as far as they know
 * them.  What the store does not have is kept here, in memory, until an operator asks for the
 * rebuild: then models (with the default policy), versions and what is promoted are written in one
 * transaction.  Records that exist are never changed by it.  Sources that nobody remembers stay
 * empty: such a version is served where it is, but can be landed nowhere else. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/staleness.h"
#include "controller/core/text.h"

static struct version_record *find(struct controller *core, const char *model, uint64_t seq)
{
    for (uint32_t i = 0; i < core->restated_count; i++) {
        struct version_record *r = &core->restated[i];
        if (r->seq == seq && text_equal(r->model, model)) {
            return r;
        }
    }
    return NULL;
}

static void fill(struct version_record *r, const struct group_report *report)
{
    const struct version_told *told = report->told;
    if (told == NULL) {
        return;
    }
    if (text_is_digest(told->uid)) {
        text_copy(r->uid, sizeof(r->uid), told->uid);
    }
    r->bytes = told->bytes != 0 ? told->bytes : r->bytes;
    if (told->sources_count > 0 && told->sources_count <= BATON_SOURCES_PER_VERSION_MAX) {
        r->sources_count = told->sources_count;
        memcpy(r->sources, told->sources, told->sources_count * sizeof(r->sources[0]));
    }
}

void rebuild_note(struct controller *core, const struct group_report *report)
{
    if (report->committed_seq == 0 ||
        version_find(core, report->model, report->committed_seq) != NULL) {
        return;
    }
    struct version_record *r = find(core, report->model, report->committed_seq);
    if (r == NULL) {
        if (core->restated_count == REBUILD_VERSIONS_MAX) {
            return;
        }
        r = &core->restated[core->restated_count++];
        *r = (struct version_record){ .seq = report->committed_seq };
        text_copy(r->model, sizeof(r->model), report->model);
        text_copy(r->digest, sizeof(r->digest), report->committed_digest);
    }
    if (text_equal(r->digest, report->committed_digest)) {
        fill(r, report);
    }
}

/* The restated version with the least seq of those that are still to be written; null: none. */
static struct version_record *next(struct controller *core)
{
    struct version_record *least = NULL;
    for (uint32_t i = 0; i < core->restated_count; i++) {
        struct version_record *r = &core->restated[i];
        bool wanted = version_find(core, r->model, r->seq) == NULL;
        if (wanted && (least == NULL || r->seq < least->seq)) {
            least = r;
        }
    }
    return least;
}

uint32_t rebuild_missing(const struct controller *core)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->restated_count; i++) {
        const struct version_record *r = &core->restated[i];
        count += version_find(core, r->model, r->seq) == NULL;
    }
    return count;
}

/* The agent that landed it is a source of last resort only for itself, so none is made up. */
static void write(struct controller *core, const struct call *call, struct model *model,
                  const struct version_record *restated)
{
    struct version_record record = *restated;
    bool taken = record.uid[0] == '\0' || index_find(&core->versions_uid, record.uid) != NULL;
    if (taken) {
        uid_make(core, record.uid);
    }
    record.state = VERSION_STATE_PUBLISHED;
    record.created_wall_ns = core->wall_ns;
    record.published_wall_ns = core->wall_ns;
    record.bytes = record.bytes == 0 ? 1 : record.bytes;
    record.parent_seq = model->r.newest_seq < record.seq ? model->r.newest_seq : 0;
    text_copy(record.requested_by, sizeof(record.requested_by), call_by(call));
    text_copy(record.reason, sizeof(record.reason), "rebuilt from what the agents restated");
    uint64_t before = model->r.newest_seq;
    struct version *version = version_add(core, &record);
    version->bytes_ready = record.bytes;
    version->marks.added = true;
    marks_put(core, RECORD_VERSION, version);
    model_raise_floor(core, model, record.seq);
    if (record.seq > model->r.newest_seq) {
        model->r.newest_seq = record.seq;
        model->r.newest_published_wall_ns = core->wall_ns;
        staleness_published(core, model, version, before);
    }
    marks_put(core, RECORD_MODEL, model);
    model->goals_dirty = true;
    model_touch(model);
    struct object_ref ref = ref_version(version);
    log_add(core, &ref, "VersionRebuilt", call_by(call),
            "version %llu of model %s (%s), %u sources", (unsigned long long)record.seq,
            record.model, record.digest, record.sources_count);
}

static uint32_t groups_on(const struct controller *core, const struct model *model, uint64_t seq)
{
    uint32_t count = 0;
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        count += group_is_on(core, group, seq);
    }
    return count;
}

/* What most groups serve is promoted; of two that as many serve, the later one. */
static void promote(struct controller *core, const struct call *call, struct model *model)
{
    uint32_t most = 0;
    uint32_t place = versions_place(core, model->r.name, 0, "");
    for (struct version *version; (version = versions_at(core, place, model->r.name)) != NULL;
         place++) {
        uint32_t groups = version->r.seq == 0 ? 0 : groups_on(core, model, version->r.seq);
        if (groups > most) {
            most = groups;
            model->r.promoted_seq = version->r.seq;
        }
    }
    if (most > 0) {
        struct object_ref ref = ref_model(model);
        log_add(core, &ref, "VersionPromoted", call_by(call),
                "version %llu is promoted: %u groups serve it",
                (unsigned long long)model->r.promoted_seq, most);
    }
}

static struct baton_status model_for(struct controller *core, struct call *call, const char *name,
                                     struct model **out)
{
    *out = model_find(core, name);
    if (*out != NULL) {
        return baton_status_ok();
    }
    struct request request = *call->request;
    struct call making = { .request = &request };
    struct update_policy policy;
    request.model = name;
    request.options.expected_revision = 0;
    struct baton_status st = policy_parse(&making, &policy);
    if (baton_ok(&st)) {
        st = model_create(core, &making, &policy);
    }
    *out = model_find(core, name);
    return st;
}

static struct baton_status check_room(const struct controller *core, uint32_t missing)
{
    if (core->versions_table.count + missing > core->limits.versions) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%u versions are restated, and the limit is %u", missing,
                                 core->limits.versions);
    }
    return baton_status_ok();
}

struct baton_status rebuild(struct controller *core, struct call *call)
{
    uint32_t missing = rebuild_missing(core);
    struct baton_status st = check_room(core, missing);
    call->answer.number = missing;
    if (!baton_ok(&st) || call->request->dry_run) {
        return st;
    }
    for (struct version_record *r; (r = next(core)) != NULL;) {
        struct model *model = NULL;
        st = model_for(core, call, r->model, &model);
        if (!baton_ok(&st)) {
            return st;
        }
        write(core, call, model, r);
    }
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        if (model->r.promoted_seq == 0 && model->active == NULL && model->r.newest_seq != 0) {
            promote(core, call, model);
            marks_put(core, RECORD_MODEL, model);
        }
    }
    core->restated_count = 0;
    return st;
}
