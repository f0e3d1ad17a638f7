/* source_publish.c -- the steps of a publish, in order; each may be repeated after a crash. */
#include <string.h>

#include "agent/shell/source_work.h"
#include "api/client/baton.h"
#include "baton/v1/versions.pb-c.h"
#include "transport/model/references.h"

/* --- checks before the controller hears of it --- */

static uint64_t checkpoint_bytes(const struct checkpoint *checkpoint)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < checkpoint->tensors_count; i++) {
        bytes += checkpoint->tensors[i].bytes;
    }
    for (size_t i = 0; i < checkpoint->files_count; i++) {
        bytes += checkpoint->files[i].bytes;
    }
    return bytes;
}

/* A partial checkpoint must fit over its parent: the first tensor that does not is named. */
static struct baton_status check_over_parent(struct source_work *work,
                                             const struct checkpoint *checkpoint)
{
    struct manifest *parent = NULL;
    struct manifest *partial = NULL;
    struct manifest *whole = NULL;
    struct baton_status st = source_load_parent(&work->parent, &parent);
    if (baton_ok(&st)) {
        st = checkpoint_to_manifest(checkpoint, &partial);
    }
    if (baton_ok(&st)) {
        st = manifest_merge(parent, partial, &whole);
    }
    manifest_destroy(whole);
    manifest_destroy(partial);
    manifest_destroy(parent);
    return baton_status_in(st, "partial version over %s@%llu", work->request->model,
                           (unsigned long long)work->parent.seq);
}

static struct baton_status check_references(const char *directory)
{
    struct references *references = NULL;
    struct baton_status st = references_load(directory, &references);
    references_destroy(references);
    return st.code == BATON_NOT_FOUND ? baton_status_ok() : st;
}

static struct baton_status check_directory(struct source_work *work)
{
    bool is_partial = work->request->partial;
    struct checkpoint *checkpoint = NULL;
    struct baton_status st = checkpoint_open(
        work->request->directory, is_partial ? CHECKPOINT_PARTIAL : CHECKPOINT_WHOLE, &checkpoint);
    if (!baton_ok(&st)) {
        return st;
    }
    work->bytes_carried = checkpoint_bytes(checkpoint);
    st = check_references(work->request->directory);
    if (!baton_ok(&st)) {
        checkpoint_close(checkpoint);
        return st;
    }
    if (is_partial) {
        st = source_find_parent(work, work->request->parent_seq, true);
    }
    if (baton_ok(&st) && is_partial) {
        st = check_over_parent(work, checkpoint);
    }
    checkpoint_close(checkpoint);
    return st;
}

static struct baton_status check(struct source_work *work)
{
    return work->upload != NULL ? source_upload_check(work) : check_directory(work);
}

/* --- the copy --- */

static struct baton_status land_directory(struct source_work *work)
{
    struct landing_root *root = work->source->root;
    const char *directory = work->request->directory;
    if (work->request->partial) {
        return landing_compose(root, work->parent.directory, directory, &work->landing,
                               &work->progress, &work->manifest);
    }
    return landing_import_directory(root, directory, &work->landing, &work->progress,
                                    &work->manifest);
}

static void count_copying(struct source *source, bool begins)
{
    (void)pthread_mutex_lock(&source->lock);
    source->copying += begins ? 1 : UINT32_MAX;
    (void)pthread_mutex_unlock(&source->lock);
}

/* What is looked at on the way: by the model's policy as it is now, against the parent. */
static struct baton_status prepare_survey(struct source_work *work)
{
    struct baton_status st = source_find_model(work);
    source_find_base(work);
    work->survey =
        (struct landing_survey){ .base_dir = work->base.seq != 0 ? work->base.directory : NULL,
                                 .refuse = work->refuses_non_finite };
    work->landing = (struct landing_options){ .survey = &work->survey };
    return st;
}

static struct baton_status land(struct source_work *work)
{
    struct baton_status prepared = prepare_survey(work);
    if (!baton_ok(&prepared)) {
        return prepared;
    }
    source_set_phase(work, BATON_PHASE_COPYING);
    count_copying(work->source, true);
    struct baton_status st = work->upload != NULL ? source_upload_land(work) : land_directory(work);
    if (baton_ok(&st)) {
        st = landing_pin(work->source->root, work->manifest->digest);
        work->is_pinned = baton_ok(&st);
    }
    count_copying(work->source, false);
    if (st.reason == BATON_REASON_NO_SPACE) {
        st =
            baton_status_hint(st, "Free space under %.150s: nothing of this publish was left there",
                              work->source->directory);
    }
    return st;
}

/* --- announcing --- */

static void fill_result(const struct source_work *work, const Baton__V1__Version *version,
                        bool is_repeated, struct local_result *out)
{
    memset(out, 0, sizeof(*out));
    out->repeated = is_repeated;
    memcpy(out->model, work->request->model, sizeof(out->model));
    out->seq = version->seq;
    memcpy(out->uid, work->uid, sizeof(out->uid));
    (void)baton_text_copy(out->digest, sizeof(out->digest), version->digest);
    out->bytes = version->bytes;
    out->tensors = version->tensors;
    out->files = version->files;
    out->bytes_carried = is_repeated ? 0 : work->bytes_carried;
    if (version->n_sources > 0) {
        (void)baton_text_copy(out->directory, sizeof(out->directory),
                              version->sources[0]->location);
    }
}

/* A sealed version has its digest for good: another try must bring the same bytes. */
static struct baton_status check_same(const struct source_work *work,
                                      const Baton__V1__Version *version)
{
    char digest[BATON_DIGEST_TEXT_BYTES];
    digest_format(work->manifest->digest, digest);
    if (strcmp(digest, version->digest) == 0) {
        return baton_status_ok();
    }
    struct baton_status st = baton_status_make(
        BATON_FAILED_PRECONDITION, BATON_REASON_DIGEST_MISMATCH,
        "request id %s was used before for a version of digest %.40s, this one has %s",
        work->request->request_id, version->digest, digest);
    return baton_status_hint(st, "Publish other bytes under another request id");
}

static struct baton_status announce_steps(struct source_work *work,
                                          const Baton__V1__Version *version)
{
    struct baton_status st = baton_status_ok();
    if (version->state == BATON__V1__VERSION_STATE__VERSION_STATE_SEALED) {
        st = check_same(work, version);
    } else {
        st = source_send_manifest(work);
        if (baton_ok(&st)) {
            st = source_seal(work);
        }
    }
    Baton__V1__Version *published = NULL;
    if (baton_ok(&st)) {
        st = source_publish_version(work, &published);
    }
    if (baton_ok(&st)) {
        fill_result(work, published, false, &work->result);
    }
    baton_wire_free(published);
    return st;
}

static bool is_refusal(const struct baton_status *st)
{
    return st->code == BATON_INVALID_ARGUMENT || st->code == BATON_FAILED_PRECONDITION ||
           st->code == BATON_ABORTED;
}

/* A step was refused.  Where another agent was given the same request id at the same time, the version
 * went on meanwhile: '*version' is how it stands now.  Otherwise the refusal stays. */
static struct baton_status look_again(struct source_work *work, struct baton_status refused,
                                      Baton__V1__Version **version)
{
    Baton__V1__Version *now = NULL;
    struct baton_status st = source_get_version(work, &now);
    if (!baton_ok(&st) || now->state == (*version)->state) {
        baton_wire_free(now);
        return refused;
    }
    baton_wire_free(*version);
    *version = now;
    return check_same(work, now);
}

/* Each turn finds the version further on, and there are three states. */
static struct baton_status announce(struct source_work *work, Baton__V1__Version **version)
{
    source_set_phase(work, BATON_PHASE_ANNOUNCE);
    for (;;) {
        if ((*version)->state == BATON__V1__VERSION_STATE__VERSION_STATE_PUBLISHED) {
            fill_result(work, *version, true, &work->result);
            return baton_status_ok();
        }
        struct baton_status st = announce_steps(work, *version);
        if (!is_refusal(&st)) {
            return st;
        }
        st = look_again(work, st, version);
        if (!baton_ok(&st)) {
            return st;
        }
    }
}

/* --- all of it --- */

/* The controller fixed the parent when the version was opened, perhaps at an earlier try or after
 * somebody else's publish: inherit from that one. */
static struct baton_status follow_parent(struct source_work *work,
                                         const Baton__V1__Version *version)
{
    if (!work->request->partial || version->parent_seq == work->parent.seq) {
        return baton_status_ok();
    }
    source_release_parent(work);
    return source_find_parent(work, version->parent_seq, true);
}

static struct baton_status land_and_announce(struct source_work *work, Baton__V1__Version **version)
{
    struct baton_status st = follow_parent(work, *version);
    if (baton_ok(&st)) {
        st = land(work);
    }
    return baton_ok(&st) ? announce(work, version) : st;
}

static struct baton_status open_land_announce(struct source_work *work)
{
    Baton__V1__Version *version = NULL;
    struct baton_status st = source_open_version(work, &version);
    if (!baton_ok(&st)) {
        return st;
    }
    if (version->state == BATON__V1__VERSION_STATE__VERSION_STATE_PUBLISHED) {
        fill_result(work, version, true, &work->result);
    } else {
        st = land_and_announce(work, &version);
    }
    baton_wire_free(version);
    return st;
}

struct baton_status source_publish(struct source_work *work)
{
    source_set_phase(work, BATON_PHASE_QUEUED);
    struct baton_status st = source_enter(work);
    if (!baton_ok(&st)) {
        return st;
    }
    st = check(work);
    if (baton_ok(&st)) {
        st = open_land_announce(work);
    }
    if (work->is_pinned) {
        landing_unpin(work->source->root, work->manifest->digest);
    }
    manifest_destroy(work->manifest);
    source_release_base(work);
    if (work->upload == NULL) {
        source_release_parent(work);
    }
    source_leave(work);
    return st;
}
