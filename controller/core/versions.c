/* versions.c -- versions: open, manifest, seal, publish.
 *
 * A partial version without a named parent takes the newest one when it is opened, because its
 * source inherits the tensors from there before it seals; a whole version takes the newest at its
 * publish. */
#include <string.h>

#include "api/base/mutant.h"
#include "controller/core/core.h"
#include "controller/core/text.h"

static void index_digest(struct controller *core, struct version *version)
{
    text_format(version->digest_key, sizeof(version->digest_key), "%s %s", version->r.digest,
                version->r.uid);
    index_insert(&core->versions_digest, version);
}

struct version *version_add(struct controller *core, const struct version_record *record)
{
    struct version *version = table_take(&core->versions_table);
    if (version == NULL) {
        return NULL;
    }
    version->r = *record;
    order_key_write(version->order_key, record->model, record->seq, record->uid);
    index_insert(&core->versions, version);
    index_insert(&core->versions_uid, version);
    if (record->digest[0] != '\0') {
        index_digest(core, version);
    }
    return version;
}

void version_set_digest(struct controller *core, struct version *version, const char *digest)
{
    baton_assert(version->r.digest[0] == '\0');
    text_copy(version->r.digest, sizeof(version->r.digest), digest);
    index_digest(core, version);
}

void version_remove(struct controller *core, struct version *version)
{
    index_remove(&core->versions, version);
    index_remove(&core->versions_uid, version);
    if (version->digest_key[0] != '\0') {
        index_remove(&core->versions_digest, version);
    }
    marks_remove(core, RECORD_VERSION, version);
}

uint32_t versions_place(const struct controller *core, const char *model, uint64_t seq,
                        const char *uid)
{
    char key[ORDER_KEY_BYTES];
    if (text_is_empty(uid)) {
        order_key_write_name(key, model, "");
        return index_lower_bound(&core->versions, key);
    }
    order_key_write(key, model, seq, uid);
    uint32_t place = index_lower_bound(&core->versions, key);
    if (place == core->versions.count) {
        return place;
    }
    const struct version *version = core->versions.objects[place];
    return strcmp(version->order_key, key) == 0 ? place + 1 : place;
}

struct version *versions_at(const struct controller *core, uint32_t place, const char *model)
{
    if (place >= core->versions.count) {
        return NULL;
    }
    struct version *version = core->versions.objects[place];
    return strcmp(version->r.model, model) == 0 ? version : NULL;
}

struct version *version_find(const struct controller *core, const char *model, uint64_t seq)
{
    char key[ORDER_KEY_BYTES];
    if (seq == 0) {
        return NULL;
    }
    order_key_write(key, model, seq, "");
    struct version *version = versions_at(core, index_lower_bound(&core->versions, key), model);
    for (uint32_t i = 0; MUTANT(VERSION_OF_ANY) && i < core->versions.count; i++) {
        struct version *other = core->versions.objects[i];
        version = other->r.seq == seq ? other : version;
    }
    return version != NULL && version->r.seq == seq ? version : NULL;
}

static struct baton_status version_of_call(const struct controller *core, struct call *call,
                                           struct version **out)
{
    const char *uid = call->request->version_uid;
    if (!text_is_digest(uid)) {
        return call_bad_field(call, "version_uid", "\"%.40s\" is not 32 hexadecimal digits",
                              uid == NULL ? "" : uid);
    }
    struct version *version = index_find(&core->versions_uid, uid);
    if (version == NULL) {
        return baton_status_hint(
            baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "there is no version %s", uid),
            "a version that is not published within 24 h is dropped; open it again");
    }
    call->answer = ref_version(version);
    *out = version;
    return baton_status_ok();
}

/* Which parent the version has from now on; 0: decided at its publish. */
static struct baton_status resolve_parent(const struct controller *core, struct call *call,
                                          const struct model *model, uint64_t *out)
{
    const struct request_version_open *open = &call->request->body.open;
    uint64_t parent = open->parent_seq;
    if (parent == 0 && open->partial) {
        parent = model->r.newest_seq;
    }
    if (parent == 0 && open->partial) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                              "partial: model %s has no published version to inherit from",
                              model->r.name),
            "publish a whole version first");
    }
    if (parent != 0 && version_find(core, model->r.name, parent) == NULL) {
        return call_bad_field(call, "parent_seq", "model %s has no version %llu", model->r.name,
                              (unsigned long long)parent);
    }
    *out = parent;
    return baton_status_ok();
}

static struct baton_status make_room(struct controller *core, struct model *model)
{
    if (table_is_full(&core->versions_table)) {
        versions_prune(core, model);
        return baton_status_hint(
            baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                              "%u versions are kept, which is the limit", core->limits.versions),
            "publish or abandon open versions (they are dropped after 24 h), then try again");
    }
    return baton_status_ok();
}

static void fill_opened(struct controller *core, const struct call *call,
                        struct version_record *record)
{
    const struct request_version_open *open = &call->request->body.open;
    uid_make(core, record->uid);
    text_copy(record->model, sizeof(record->model), call->request->model);
    record->state = VERSION_STATE_OPEN;
    record->bytes = open->bytes;
    record->optimizer_step = open->optimizer_step;
    record->rollout_iteration = open->rollout_iteration;
    record->samples_trained = open->samples_trained;
    record->created_wall_ns = core->wall_ns;
    record->partial = open->partial;
    text_copy(record->requested_by, sizeof(record->requested_by), call_by(call));
    text_copy(record->reason, sizeof(record->reason), call->request->options.reason);
}

struct baton_status versions_open(struct controller *core, struct call *call)
{
    struct model *model = NULL;
    struct version_record record = { 0 };
    struct baton_status st = model_of_call(core, call, &model);
    if (baton_ok(&st)) {
        st = resolve_parent(core, call, model, &record.parent_seq);
    }
    if (baton_ok(&st)) {
        st = make_room(core, model);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    fill_opened(core, call, &record);
    struct version *version = version_add(core, &record);
    version->marks.added = true;
    marks_put(core, RECORD_VERSION, version);
    call->answer = ref_version(version);
    return st;
}

static struct baton_status refuse_state(const struct version *version, const char *verb,
                                        const char *hint)
{
    static const char *const states[] = { "", "open", "sealed", "published" };
    return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                               "version %s is %s and cannot be %s", version->r.uid,
                                               states[version->r.state], verb),
                             "%s", hint);
}

struct baton_status versions_manifest(struct controller *core, struct call *call)
{
    const struct request_version_manifest *manifest = &call->request->body.manifest;
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    if (!baton_ok(&st)) {
        return st;
    }
    if (version->r.state != VERSION_STATE_OPEN) {
        return refuse_state(version, "given another manifest", "open a new version");
    }
    if (!text_is_digest(manifest->digest)) {
        return call_bad_field(call, "digest", "not 32 hexadecimal digits");
    }
    if (manifest->tensors == 0) {
        return call_bad_field(call, "part", "the manifest has no tensor");
    }
    text_copy(version->r.manifest_digest, sizeof(version->r.manifest_digest), manifest->digest);
    version->r.tensors = manifest->tensors;
    version->r.files = manifest->files;
    version->r.bytes = manifest->bytes != 0 ? manifest->bytes : version->r.bytes;
    version->r.manifest_read = true;
    marks_put(core, RECORD_VERSION, version);
    return st;
}

static struct baton_status check_seal(struct call *call, const struct version *version)
{
    const struct request_version_seal *seal = &call->request->body.seal;
    if (!text_is_digest(seal->digest)) {
        return call_bad_field(call, "digest", "\"%.40s\" is not 32 hexadecimal digits",
                              seal->digest == NULL ? "" : seal->digest);
    }
    if (seal->bytes == 0) {
        return call_bad_field(call, "bytes", "a version without bytes cannot be sealed");
    }
    if (!version->r.manifest_read) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_TRUNCATED,
                              "the manifest of version %s has not arrived", version->r.uid),
            "send its parts with AddManifestPart first");
    }
    if (strcmp(version->r.manifest_digest, seal->digest) != 0) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_DIGEST_MISMATCH,
                              "digest: the manifest's parts give %s, the call says %s",
                              version->r.manifest_digest, seal->digest),
            "send the parts again, in order and whole");
    }
    return baton_status_ok();
}

/* Weights with NaN or infinity are no version, unless the policy lets them pass. */
static struct baton_status check_values(const struct controller *core,
                                        const struct version_values *values, const char *name)
{
    const struct model *model = model_find(core, name);
    if (values == NULL || values->nans + values->infs == 0 ||
        model->r.policy.non_finite == POLICY_NON_FINITE_ALLOW) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NON_FINITE,
                          "tensor '%.120s': NaN or infinity; %llu NaN and %llu infinite in %llu "
                          "tensors",
                          values->first_bad, (unsigned long long)values->nans,
                          (unsigned long long)values->infs,
                          (unsigned long long)values->bad_tensors),
        "nonFinite: allow in the model's policy lets it pass");
}

struct baton_status versions_seal(struct controller *core, struct call *call)
{
    const struct request_version_seal *seal = &call->request->body.seal;
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    if (!baton_ok(&st)) {
        return st;
    }
    st = check_seal(call, version);
    if (!baton_ok(&st)) {
        return st;
    }
    if (version->r.state != VERSION_STATE_OPEN) {
        bool same = version->r.bytes == seal->bytes;
        return same ? st : refuse_state(version, "sealed with other bytes", "open a new version");
    }
    st = check_values(core, seal->values, version->r.model);
    if (!baton_ok(&st)) {
        return st;
    }
    if (seal->values != NULL) {
        version->r.values = *seal->values;
        version->r.values.scanned = true;
    }
    version_set_digest(core, version, seal->digest);
    version->r.bytes = seal->bytes;
    version->r.state = VERSION_STATE_SEALED;
    version->bytes_ready = seal->bytes;
    marks_put(core, RECORD_VERSION, version);
    return st;
}

static struct baton_status check_sources(struct call *call)
{
    const struct request_version_publish *publish = &call->request->body.publish;
    if (publish->sources_count == 0 || publish->sources_count > BATON_SOURCES_PER_VERSION_MAX) {
        return call_bad_field(call, "sources", "%zu sources; a version has 1 to %d",
                              publish->sources_count, BATON_SOURCES_PER_VERSION_MAX);
    }
    for (size_t i = 0; i < publish->sources_count; i++) {
        const struct version_source *source = &publish->sources[i];
        if (source->backend[0] == '\0' || source->location[0] == '\0') {
            return call_bad_field(call, "sources", "source %zu has no backend or no location", i);
        }
    }
    return baton_status_ok();
}

/* A store of a release that believed agents every number may hold a floor that nothing is above. */
static struct baton_status check_seq_left(const struct controller *core,
                                          const struct version *version)
{
    const struct model *model = model_find(core, version->r.model);
    if (model->r.seq_floor < UINT64_MAX && model->r.newest_seq < UINT64_MAX) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                          "model %s: no seq is left above the highest that somebody told of",
                          model->r.name),
        "publish under another model's name, or put back a store of before that");
}

static struct baton_status check_publish(struct controller *core, struct call *call,
                                         const struct version *version)
{
    struct baton_status st = floors_refusal(core);
    if (!baton_ok(&st)) {
        return st;
    }
    if (version->r.state == VERSION_STATE_OPEN) {
        return refuse_state(version, "published", "seal it first");
    }
    st = check_sources(call);
    if (baton_ok(&st)) {
        st = check_seq_left(core, version);
    }
    if (baton_ok(&st) && !rolls_make_room(core)) {
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                               "all %u rolls that are kept run", core->limits.rolls);
    }
    return st;
}

/* Invariant 8: seq strictly rises, above all that anybody has seen. */
static void give_seq(struct controller *core, struct model *model, struct version *version)
{
    const struct model_record *r = &model->r;
    bool floored = r->seq_floor > r->newest_seq && !MUTANT(SEQ_REUSED);
    uint64_t seq = (floored ? r->seq_floor : r->newest_seq) + 1;
    index_remove(&core->versions, version);
    version->r.seq = seq;
    order_key_write(version->order_key, version->r.model, seq, version->r.uid);
    index_insert(&core->versions, version);
    if (version->r.parent_seq == 0) {
        version->r.parent_seq = r->newest_seq;
    }
    baton_assert(seq > r->newest_seq && seq > r->seq_floor);
    model->r.newest_seq = seq;
    model->r.seq_floor = seq;
    model->r.newest_published_wall_ns = core->wall_ns;
}

static void roll_published(struct controller *core, struct model *model, const struct call *call)
{
    if (model->r.policy.trigger != POLICY_TRIGGER_ON_PUBLISH) {
        return;
    }
    if (model->r.held || model->r.suspended) {
        model->r.roll_pending = true;
        return;
    }
    struct roll_request request = { .cause = ROLL_CAUSE_PUBLISH,
                                    .by = call_by(call),
                                    .reason = call->request->options.reason };
    (void)roll_begin(core, model, model->r.newest_seq, &request);
}

static void publish(struct controller *core, struct call *call, struct version *version)
{
    const struct request_version_publish *request = &call->request->body.publish;
    struct model *model = model_find(core, version->r.model);
    uint64_t before = model->r.newest_seq;
    give_seq(core, model, version);
    staleness_published(core, model, version, before);
    version->r.state = VERSION_STATE_PUBLISHED;
    version->r.published_wall_ns = core->wall_ns;
    version->r.sources_count = (uint32_t)request->sources_count;
    memcpy(version->r.sources, request->sources,
           request->sources_count * sizeof(version->r.sources[0]));
    marks_put(core, RECORD_VERSION, version);
    marks_put(core, RECORD_MODEL, model);
    model_touch(model);
    model->goals_dirty = true;
    call->answer = ref_version(version);
    log_add(core, &call->answer, "VersionPublished", call_by(call),
            "version %llu of model %s was published (%s)", (unsigned long long)version->r.seq,
            model->r.name, version->r.digest);
    roll_published(core, model, call);
    versions_prune(core, model);
}

struct baton_status versions_publish(struct controller *core, struct call *call)
{
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    if (!baton_ok(&st) || version->r.state == VERSION_STATE_PUBLISHED) {
        return st; /* Published already: its uid says which one was meant. */
    }
    st = check_publish(core, call, version);
    if (baton_ok(&st)) {
        publish(core, call, version);
    }
    return st;
}

struct baton_status versions_progress(struct controller *core, struct call *call)
{
    const struct request_version_progress *progress = &call->request->body.progress;
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    call->answer = (struct object_ref){ 0 };
    if (!baton_ok(&st) || version->r.state != VERSION_STATE_OPEN) {
        return st;
    }
    version->bytes_ready = progress->bytes_ready;
    if (version->r.bytes == 0) {
        version->r.bytes = progress->bytes;
    }
    marks_change(core, RECORD_VERSION, version);
    return st;
}

struct baton_status versions_abandon(struct controller *core, struct call *call)
{
    struct version *version = NULL;
    struct baton_status st = version_of_call(core, call, &version);
    call->answer = (struct object_ref){ 0 };
    if (!baton_ok(&st)) {
        return st;
    }
    if (version->r.state == VERSION_STATE_PUBLISHED) {
        return refuse_state(version, "abandoned", "batonctl quarantine takes it out of use");
    }
    struct object_ref ref = ref_version(version);
    const char *why = call->request->options.reason;
    log_add(core, &ref, "VersionAbandoned", call_by(call), "it will not be published%s%.150s",
            text_is_empty(why) ? "" : ": ", text_is_empty(why) ? "" : why);
    version_remove(core, version);
    return st;
}
