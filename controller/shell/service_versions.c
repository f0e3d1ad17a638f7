/* service_versions.c -- baton.v1.Versions.
 *
 * A manifest's parts are digested on the RPC thread as they come, and dropped; the core learns only
 * their sums. */
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"
#include "transport/model/version_digest.h"

SERVICE_HANDLER(serve_versions_open, Baton__V1__OpenVersionRequest)
SERVICE_HANDLER(serve_versions_seal, Baton__V1__SealVersionRequest)
SERVICE_HANDLER(serve_versions_publish, Baton__V1__PublishVersionRequest)
SERVICE_HANDLER(serve_versions_get, Baton__V1__GetVersionRequest)
SERVICE_HANDLER(serve_versions_list, Baton__V1__ListVersionsRequest)
SERVICE_STREAM_HANDLER(serve_versions_watch, Baton__V1__WatchVersionsRequest)
SERVICE_HANDLER(serve_versions_report_progress, Baton__V1__ReportProgressRequest)
SERVICE_HANDLER(serve_versions_abandon, Baton__V1__AbandonVersionRequest)

static void serve_versions_open_work(struct daemon *daemon, struct rpc_call *call,
                                     const Baton__V1__OpenVersionRequest *request)
{
    struct request mutation = { .kind = REQUEST_VERSION_OPEN,
                                .model = request->model,
                                .body.open = { .optimizer_step = request->optimizer_step,
                                               .rollout_iteration = request->rollout_iteration,
                                               .samples_trained = request->samples_trained,
                                               .parent_seq = request->parent_seq,
                                               .partial = request->partial,
                                               .bytes = request->bytes } };
    service_mutate(daemon, call, request->options, &mutation);
}

static struct baton_status read_values(const Baton__V1__VersionValues *from,
                                       struct version_values *out)
{
    *out = (struct version_values){ .scanned = true,
                                    .nans = from->nans,
                                    .infs = from->infs,
                                    .bad_tensors = from->bad_tensors,
                                    .base_seq = from->base_seq,
                                    .compared = from->compared,
                                    .changed = from->changed,
                                    .unchanged = from->unchanged,
                                    .added = from->added,
                                    .largest_count = (uint32_t)from->n_largest };
    if (!baton_text_copy(out->first_bad, sizeof(out->first_bad), from->first_bad)) {
        return rpc_status_field("values.first_bad", "longer than %zu bytes",
                                sizeof(out->first_bad) - 1);
    }
    if (from->n_largest > BATON_LARGEST_CHANGES_MAX) {
        return rpc_status_field("values.largest", "at most %d", BATON_LARGEST_CHANGES_MAX);
    }
    for (size_t i = 0; i < from->n_largest; i++) {
        const Baton__V1__TensorChange *largest = from->largest[i];
        out->largest[i].change = largest->change;
        if (!baton_text_copy(out->largest[i].name, sizeof(out->largest[i].name), largest->name) ||
            !__builtin_isfinite(largest->change) || largest->change < 0) {
            return rpc_status_field("values.largest",
                                    "item %zu: its name is longer than %zu bytes, or its change is "
                                    "no number from 0 on",
                                    i, sizeof(out->largest[i].name) - 1);
        }
    }
    return baton_status_ok();
}

static void serve_versions_seal_work(struct daemon *daemon, struct rpc_call *call,
                                     const Baton__V1__SealVersionRequest *request)
{
    struct version_values values;
    struct baton_status st =
        request->values != NULL ? read_values(request->values, &values) : baton_status_ok();
    if (!baton_ok(&st)) {
        service_fail(call, st);
        return;
    }
    struct request mutation = { .kind = REQUEST_VERSION_SEAL,
                                .version_uid = request->version_uid,
                                .body.seal = { request->digest, request->bytes,
                                               request->values != NULL ? &values : NULL } };
    service_mutate(daemon, call, request->options, &mutation);
}

static struct baton_status read_source(const Baton__V1__Source *from, struct version_source *out)
{
    if (!baton_text_copy(out->backend, sizeof(out->backend), from->backend) ||
        from->backend[0] == '\0') {
        return rpc_status_field("sources.backend", "must be 1 to %zu characters",
                                sizeof(out->backend) - 1);
    }
    if (!baton_text_copy(out->location, sizeof(out->location), from->location) ||
        from->location[0] == '\0') {
        return rpc_status_field("sources.location", "must be 1 to %zu characters",
                                sizeof(out->location) - 1);
    }
    if (!baton_text_copy(out->agent, sizeof(out->agent), from->agent)) {
        return rpc_status_field("sources.agent", "longer than %zu characters",
                                sizeof(out->agent) - 1);
    }
    return baton_status_ok();
}

static void serve_versions_publish_work(struct daemon *daemon, struct rpc_call *call,
                                        const Baton__V1__PublishVersionRequest *request)
{
    struct version_source sources[BATON_SOURCES_PER_VERSION_MAX];
    struct baton_status st = baton_status_ok();
    if (request->n_sources == 0 || request->n_sources > BATON_SOURCES_PER_VERSION_MAX) {
        st = rpc_status_field("sources", "must be 1 to %d", BATON_SOURCES_PER_VERSION_MAX);
    }
    for (size_t i = 0; baton_ok(&st) && i < request->n_sources; i++) {
        st = read_source(request->sources[i], &sources[i]);
    }
    if (!baton_ok(&st)) {
        service_fail(call, st);
        return;
    }
    struct request mutation = { .kind = REQUEST_VERSION_PUBLISH,
                                .version_uid = request->version_uid,
                                .body.publish = { sources, request->n_sources } };
    service_mutate(daemon, call, request->options, &mutation);
}

static void serve_versions_get_work(struct daemon *daemon, struct rpc_call *call,
                                    const Baton__V1__GetVersionRequest *request)
{
    char name[2 * BATON_NAME_BYTES];
    const struct version_record *version =
        request->version_uid[0] != '\0'
            ? view_version_find_uid(daemon->core, request->version_uid)
            : view_version_find(daemon->core, request->model, request->seq);
    if (version == NULL) {
        (void)snprintf(name, sizeof(name), "%.60s@%llu", request->model,
                       (unsigned long long)request->seq);
        service_not_found(call, "version",
                          request->version_uid[0] != '\0' ? request->version_uid : name);
        return;
    }
    service_reply(call, render_version(daemon->core, version, NULL));
}

/* Place at which a list begins: after the token's version, or at the model's first one. */
static uint32_t list_start(const struct controller *core, const Baton__V1__ListVersionsRequest *r)
{
    const char *parts[3];
    if (r->page_token[0] == '\0') {
        return r->model[0] != '\0' ? view_versions_lower_bound(core, r->model, 0, "") : 0;
    }
    service_token_split(r->page_token, parts, 3);
    return view_versions_lower_bound(core, parts[0], strtoull(parts[1], NULL, 10), parts[2]);
}

static void serve_versions_list_work(struct daemon *daemon, struct rpc_call *call,
                                     const Baton__V1__ListVersionsRequest *request)
{
    Baton__V1__ListVersionsResponse *reply =
        baton_wire_new(&baton__v1__list_versions_response__descriptor);
    struct service_page page = service_page_begin(request->page_size);
    uint32_t count = view_versions_count(daemon->core);
    const struct version_record *last = NULL;
    reply->versions = baton_wire_take(reply, page.items_max, sizeof(*reply->versions));
    reply->revision = view_revision(daemon->core);
    for (uint32_t index = list_start(daemon->core, request); index < count; index++) {
        const struct version_record *version = view_version_at(daemon->core, index);
        if (request->model[0] != '\0' && strcmp(version->model, request->model) != 0) {
            break;
        }
        Baton__V1__Version *item = render_version(daemon->core, version, reply);
        if (!service_page_add(&page, item)) {
            reply->next_page_token = baton_wire_textf(reply, "%s/%llu/%s", last->model,
                                                      (unsigned long long)last->seq, last->uid);
            break;
        }
        reply->versions[reply->n_versions++] = item;
        last = version;
    }
    service_reply(call, reply);
}

static void serve_versions_watch_work(struct daemon *daemon, struct rpc_call *call,
                                      const Baton__V1__WatchVersionsRequest *request)
{
    struct watch_request watch = { OBJECT_VERSION, request->from_revision, request->model };
    watch_start(daemon, call, &watch);
}

static void answer_progress(struct daemon *daemon, struct pending *pending,
                            const struct action_reply *reply)
{
    (void)daemon;
    (void)reply;
    void *message = baton_wire_new(&baton__v1__report_progress_response__descriptor);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void serve_versions_report_progress_work(struct daemon *daemon, struct rpc_call *call,
                                                const Baton__V1__ReportProgressRequest *request)
{
    struct request progress = { .kind = REQUEST_VERSION_PROGRESS,
                                .version_uid = request->version_uid,
                                .body.progress = { request->bytes_ready, request->bytes } };
    daemon_request(daemon, call, &progress, answer_progress, NULL);
}

static void answer_abandon(struct daemon *daemon, struct pending *pending,
                           const struct action_reply *reply)
{
    (void)daemon;
    (void)reply;
    void *message = baton_wire_new(&baton__v1__abandon_version_response__descriptor);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void serve_versions_abandon_work(struct daemon *daemon, struct rpc_call *call,
                                        const Baton__V1__AbandonVersionRequest *request)
{
    struct rpc_peer peer;
    struct request abandon = { .kind = REQUEST_VERSION_ABANDON,
                               .version_uid = request->version_uid,
                               .options = service_options(call, request->options, &peer) };
    daemon_request(daemon, call, &abandon, answer_abandon, NULL);
}

/* --- the manifest --- */

/* Zeroed memory with the alignment that a digest's state needs, which malloc does not promise. */
static void *take_aligned(size_t alignment, size_t bytes)
{
    size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    void *memory = aligned_alloc(alignment, rounded);
    baton_assert(memory != NULL);
    return memset(memory, 0, rounded);
}
#define TAKE_ALIGNED(type) ((type *)take_aligned(_Alignof(type), sizeof(type)))

/* What the RPC thread knows of one upload. */
struct upload {
    struct version_digester digester;
    char version_uid[BATON_UID_TEXT_BYTES];
    uint32_t parts;
};

static void answer_manifest(struct daemon *daemon, struct pending *pending,
                            const struct action_reply *reply)
{
    const struct upload *upload = pending->data;
    struct digest digest = version_digester_finish(&upload->digester);
    Baton__V1__AddManifestPartResponse *message =
        baton_wire_new(&baton__v1__add_manifest_part_response__descriptor);
    (void)daemon;
    (void)reply;
    message->parts = upload->parts;
    message->tensors = upload->digester.tensors_count;
    message->files = upload->digester.files_count;
    message->digest = baton_wire_hex(message, digest.bytes, sizeof(digest.bytes));
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

/* A whole upload on its way to the loop. */
struct upload_job {
    struct rpc_call *call; /* Referenced. */
    struct upload upload;
};

static void manifest_work(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct upload_job *job = argument;
    struct upload *upload = TAKE_ALIGNED(struct upload);
    char digest_text[BATON_DIGEST_TEXT_BYTES];
    *upload = job->upload;
    if (daemon_is_ready(daemon, job->call)) {
        struct digest digest = version_digester_finish(&upload->digester);
        baton_hex_encode(digest.bytes, sizeof(digest.bytes), digest_text);
        struct request request = { .kind = REQUEST_VERSION_MANIFEST,
                                   .version_uid = upload->version_uid,
                                   .body.manifest = { digest_text, upload->digester.tensors_count,
                                                      upload->digester.files_count,
                                                      upload->digester.bytes } };
        daemon_request(daemon, job->call, &request, answer_manifest, upload);
    } else {
        free(upload);
        rpc_call_unref(job->call);
    }
    free(job);
}

static struct baton_status take_part(struct upload *upload,
                                     const Baton__V1__AddManifestPartRequest *part)
{
    if (part->index != upload->parts) {
        return rpc_status_field("index", "part %u was expected, not %u", upload->parts,
                                part->index);
    }
    if (upload->parts == 0 &&
        !baton_text_copy(upload->version_uid, sizeof(upload->version_uid), part->version_uid)) {
        return rpc_status_field("version_uid", "is no uid");
    }
    if (strcmp(upload->version_uid, part->version_uid) != 0) {
        return rpc_status_field("version_uid", "differs from that of part 0");
    }
    if (part->part.len > BATON_MANIFEST_PART_BYTES_MAX) {
        return rpc_status_field("part", "longer than %d bytes", BATON_MANIFEST_PART_BYTES_MAX);
    }
    struct baton_bytes bytes = { part->part.data, part->part.len };
    struct baton_status st = version_digester_add_part(&upload->digester, bytes);
    upload->parts++;
    return baton_status_in(st, "part: %u", part->index);
}

static void on_part(struct rpc_call *call, void *message, void *context)
{
    (void)context;
    struct baton_status st = take_part(rpc_call_data(call), message);
    baton_wire_free(message);
    if (baton_ok(&st)) {
        rpc_call_read_next(call);
    } else {
        rpc_finish(call, &st);
    }
}

static void on_all_parts(struct rpc_call *call, void *context)
{
    struct upload *upload = rpc_call_data(call);
    if (upload->parts == 0) {
        struct baton_status st = rpc_status_field("part", "no part came");
        rpc_finish(call, &st);
        return;
    }
    struct upload_job *job = TAKE_ALIGNED(struct upload_job);
    *job = (struct upload_job){ rpc_call_ref(call), *upload };
    if (!daemon_post_any(context, manifest_work, job)) {
        struct baton_status st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                                   "the controller's mailbox is full");
        rpc_finish(call, &st);
        rpc_call_unref(job->call);
        free(job);
    }
}

static void on_upload_done(struct rpc_call *call, bool cancelled, void *context)
{
    (void)cancelled;
    (void)context;
    free(rpc_call_data(call));
    rpc_call_set_data(call, NULL);
}

void serve_versions_add_manifest_part(struct rpc_call *call, const void *request, void *context)
{
    static const struct rpc_receiver receiver = { on_part, on_all_parts, on_upload_done };
    struct upload *upload = TAKE_ALIGNED(struct upload);
    (void)request;
    version_digester_init(&upload->digester);
    rpc_call_set_data(call, upload);
    rpc_call_receive(call, &receiver, context);
}
