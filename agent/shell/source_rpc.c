/* source_rpc.c -- the calls of a publish to the controller, each tried again while it is away. */
#include <string.h>

#include "agent/shell/source_work.h"
#include "api/base/clock.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/versions.pb-c.h"

static const uint64_t call_ns = 5 * BATON_NS_PER_S;
static const uint64_t pause_ns = 200 * BATON_NS_PER_MS;

enum { METHOD_BYTES = 64 };

/* A failure that is over by itself once the controller is back. */
static bool is_away(const struct baton_status *st)
{
    return st->code == BATON_UNAVAILABLE || st->code == BATON_DEADLINE_EXCEEDED;
}

static struct baton_status in_controller(const struct source_work *work, struct baton_status st,
                                         const char *method)
{
    if (is_away(&st)) {
        st = baton_status_make(BATON_UNAVAILABLE, st.reason,
                               "the controller at %.100s does not answer %s: %.120s",
                               work->source->controller, method, st.message);
        return baton_status_hint(st,
                                 "Publish again with request id %s once it is back: it gives one "
                                 "version",
                                 work->request->request_id);
    }
    return st;
}

/* What a try may end with besides success: the time is up, or the client gave up. */
static struct baton_status before_next_try(const struct source_work *work, uint64_t deadline_ns,
                                           struct baton_status st)
{
    struct baton_status cancelled = source_check_cancel(work);
    if (!baton_ok(&cancelled)) {
        return cancelled;
    }
    if (!is_away(&st) || baton_clock_monotonic_ns() >= deadline_ns) {
        return st;
    }
    baton_clock_sleep_ns(pause_ns);
    return baton_status_ok();
}

static struct baton_status call(struct source_work *work, const char *method, const void *request,
                                void **out)
{
    uint64_t deadline_ns = baton_clock_monotonic_ns() + work->source->controller_wait_ns;
    struct rpc_call_options options = { .timeout_ns = call_ns, .wait_for_ready = true };
    struct baton_status st = source_check_cancel(work);
    while (baton_ok(&st)) {
        struct rpc_result result = rpc_unary(work->source->client, method, request, &options);
        if (baton_ok(&result.status)) {
            *out = result.message;
            return result.status;
        }
        st = before_next_try(work, deadline_ns, result.status);
    }
    return in_controller(work, st, method);
}

/* Request id "<id>.<step>": each step of one publish is idempotent by itself. */
static Baton__V1__MutationOptions *step_options(void *root, const struct local_publish *request,
                                                const char *step)
{
    Baton__V1__MutationOptions *options =
        baton_wire_part(root, &baton__v1__mutation_options__descriptor);
    options->request_id = baton_wire_textf(root, "%s.%s", request->request_id, step);
    options->reason = baton_wire_text(root, request->reason);
    options->requested_by = baton_wire_text(root, request->requested_by);
    return options;
}

struct baton_status source_find_model(struct source_work *work)
{
    Baton__V1__GetModelRequest *request = baton_wire_new(&baton__v1__get_model_request__descriptor);
    request->name = baton_wire_text(request, work->request->model);
    void *model = NULL;
    struct baton_status st = call(work, "baton.v1.Models/Get", request, &model);
    baton_wire_free(request);
    if (baton_ok(&st)) {
        const Baton__V1__ModelSpec *spec = ((const Baton__V1__Model *)model)->spec;
        const Baton__V1__UpdatePolicy *policy = spec == NULL ? NULL : spec->update;
        work->refuses_non_finite = policy == NULL || strcmp(policy->non_finite, "allow") != 0;
    }
    baton_wire_free(model);
    return st;
}

static struct baton_status get_version(struct source_work *work, uint64_t seq, const char *uid,
                                       Baton__V1__Version **out)
{
    Baton__V1__GetVersionRequest *request =
        baton_wire_new(&baton__v1__get_version_request__descriptor);
    request->model = baton_wire_text(request, work->request->model);
    request->seq = seq;
    request->version_uid = baton_wire_text(request, uid);
    void *version = NULL;
    struct baton_status st = call(work, "baton.v1.Versions/Get", request, &version);
    baton_wire_free(request);
    if (baton_ok(&st)) {
        *out = version;
    }
    return st;
}

struct baton_status source_find_version(struct source_work *work, uint64_t seq,
                                        Baton__V1__Version **out)
{
    return get_version(work, seq, "", out);
}

struct baton_status source_get_version(struct source_work *work, Baton__V1__Version **out)
{
    return get_version(work, 0, work->uid, out);
}

static struct baton_status take_uid(struct source_work *work, const Baton__V1__Version *version)
{
    const char *uid = version->meta == NULL ? "" : version->meta->uid;
    uint8_t parsed[BATON_UID_BYTES];
    struct baton_status st = baton_wire_from_hex(uid, "version.meta.uid", parsed, sizeof(parsed));
    if (baton_ok(&st)) {
        (void)baton_text_copy(work->uid, sizeof(work->uid), uid);
        atomic_store(&work->is_announced, true);
    }
    return baton_status_in(st, "controller's answer to Versions.Open");
}

struct baton_status source_open_version(struct source_work *work, Baton__V1__Version **out)
{
    const struct local_publish *from = work->request;
    Baton__V1__OpenVersionRequest *request =
        baton_wire_new(&baton__v1__open_version_request__descriptor);
    request->model = baton_wire_text(request, from->model);
    request->optimizer_step = from->optimizer_step;
    request->rollout_iteration = from->rollout_iteration;
    request->samples_trained = from->samples_trained;
    /* Only what the client said: another try must send the same.  The controller fixes the parent of a
     * partial version here. */
    request->parent_seq = from->parent_seq;
    request->partial = from->partial;
    request->options = step_options(request, from, "open");
    void *opened = NULL;
    struct baton_status st = call(work, "baton.v1.Versions/Open", request, &opened);
    baton_wire_free(request);
    if (baton_ok(&st)) {
        st = take_uid(work, opened);
    }
    baton_wire_free(opened);
    /* The answer to a repeated request is the first one; how it stands now is another question. */
    return baton_ok(&st) ? source_get_version(work, out) : st;
}

/* --- the manifest --- */

static struct baton_status send_parts(struct source_work *work, struct rpc_stream *stream)
{
    Baton__V1__AddManifestPartRequest *request =
        baton_wire_new(&baton__v1__add_manifest_part_request__descriptor);
    request->version_uid = baton_wire_text(request, work->uid);
    request->part.data = baton_wire_take(request, BATON_MANIFEST_PART_BYTES_MAX, 1);
    size_t cursor = 0;
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st)) {
        request->part.len = manifest_encode_part(work->manifest, &cursor, request->part.data,
                                                 BATON_MANIFEST_PART_BYTES_MAX);
        if (request->part.len == 0) {
            break;
        }
        st = rpc_stream_send_wait(stream, request, call_ns);
        request->index++;
    }
    baton_wire_free(request);
    rpc_stream_send_done(stream);
    return st;
}

static struct baton_status check_answer(const struct source_work *work,
                                        const Baton__V1__AddManifestPartResponse *answer)
{
    char digest[BATON_DIGEST_TEXT_BYTES];
    digest_format(work->manifest->digest, digest);
    if (strcmp(digest, answer->digest) != 0) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                 "the controller read a manifest of digest %.40s, sent was %s",
                                 answer->digest, digest);
    }
    return baton_status_ok();
}

static struct baton_status send_once(struct source_work *work)
{
    struct rpc_call_options options = { .timeout_ns = 12 * call_ns, .wait_for_ready = true };
    struct rpc_stream *stream = rpc_stream_open(
        work->source->client, "baton.v1.Versions/AddManifestPart", NULL, &options, NULL, NULL);
    struct baton_status sent = send_parts(work, stream);
    struct rpc_next next = rpc_stream_next(stream, 12 * call_ns);
    struct baton_status st;
    if (next.kind == RPC_NEXT_MESSAGE) {
        st = check_answer(work, next.message);
        baton_wire_free(next.message);
    } else if (next.kind == RPC_NEXT_END && !baton_ok(&next.status)) {
        st = next.status; /* Says more than a send that found the stream ended. */
    } else {
        st = baton_ok(&sent) ? baton_status_make(BATON_UNAVAILABLE, BATON_REASON_IO,
                                                 "no answer to the manifest")
                             : sent;
    }
    rpc_stream_unref(stream);
    return st;
}

struct baton_status source_send_manifest(struct source_work *work)
{
    uint64_t deadline_ns = baton_clock_monotonic_ns() + work->source->controller_wait_ns;
    struct baton_status st = source_check_cancel(work);
    while (baton_ok(&st)) {
        struct baton_status tried = send_once(work);
        if (baton_ok(&tried)) {
            return tried;
        }
        st = before_next_try(work, deadline_ns, tried);
    }
    return in_controller(work, st, "Versions.AddManifestPart");
}

/* --- the end --- */

static Baton__V1__VersionValues *values_of(void *root, const struct source_work *work)
{
    const struct landing_survey *survey = &work->survey;
    Baton__V1__VersionValues *values =
        baton_wire_part(root, &baton__v1__version_values__descriptor);
    values->nans = survey->nans;
    values->infs = survey->infs;
    values->bad_tensors = survey->bad_tensors;
    values->first_bad = baton_wire_text(root, survey->first_bad);
    values->base_seq = work->base.seq;
    values->compared = survey->compared;
    values->changed = survey->changed;
    values->unchanged = survey->unchanged;
    values->added = survey->added;
    values->n_largest = survey->largest_count;
    values->largest = baton_wire_take(root, survey->largest_count, sizeof(*values->largest));
    for (uint32_t i = 0; i < survey->largest_count; i++) {
        values->largest[i] = baton_wire_part(root, &baton__v1__tensor_change__descriptor);
        values->largest[i]->name = baton_wire_text(root, survey->largest[i].name);
        values->largest[i]->change = survey->largest[i].change;
    }
    return values;
}

struct baton_status source_seal(struct source_work *work)
{
    Baton__V1__SealVersionRequest *request =
        baton_wire_new(&baton__v1__seal_version_request__descriptor);
    request->version_uid = baton_wire_text(request, work->uid);
    request->digest = baton_wire_hex(request, work->manifest->digest.bytes, BATON_DIGEST_BYTES);
    request->bytes = work->manifest->tensors_bytes + work->manifest->files_bytes;
    request->options = step_options(request, work->request, "seal");
    request->values = values_of(request, work);
    void *sealed = NULL;
    struct baton_status st = call(work, "baton.v1.Versions/Seal", request, &sealed);
    baton_wire_free(request);
    baton_wire_free(sealed);
    return st;
}

struct baton_status source_publish_version(struct source_work *work, Baton__V1__Version **out)
{
    Baton__V1__PublishVersionRequest *request =
        baton_wire_new(&baton__v1__publish_version_request__descriptor);
    request->version_uid = baton_wire_text(request, work->uid);
    Baton__V1__Source *place = baton_wire_part(request, &baton__v1__source__descriptor);
    char directory[BATON_PATH_BYTES];
    landing_path(work->source->root, work->manifest->digest, directory);
    place->backend = baton_wire_text(request, "file");
    place->location = baton_wire_text(request, directory);
    place->agent = baton_wire_text(request, work->source->agent);
    request->n_sources = 1;
    request->sources = baton_wire_take(request, 1, sizeof(*request->sources));
    request->sources[0] = place;
    request->options = step_options(request, work->request, "publish");
    void *published = NULL;
    struct baton_status st = call(work, "baton.v1.Versions/Publish", request, &published);
    baton_wire_free(request);
    if (baton_ok(&st)) {
        *out = published;
    }
    return st;
}

/* --- progress --- */

static void on_reported(const struct rpc_result *result, void *context)
{
    (void)context;
    baton_wire_free(result->message); /* A report that got lost is replaced by the next one. */
}

void source_report_progress(struct source *source, const char *uid, uint64_t bytes_done,
                            uint64_t bytes_total)
{
    Baton__V1__ReportProgressRequest *request =
        baton_wire_new(&baton__v1__report_progress_request__descriptor);
    request->version_uid = baton_wire_text(request, uid);
    request->bytes_ready = bytes_done;
    request->bytes = bytes_total;
    struct rpc_call_options options = { .timeout_ns = call_ns };
    rpc_unary_start(source->client, "baton.v1.Versions/ReportProgress", request, &options,
                    on_reported, NULL);
    baton_wire_free(request);
}
