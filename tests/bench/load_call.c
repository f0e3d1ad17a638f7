/* load_call.c -- calls of the API; see load_controller.h. */
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/staleness.pb-c.h"
#include "baton/v1/versions.pb-c.h"
#include "tests/bench/load_controller.h"
#include "tests/bench/load_must.h"
#include "transport/model/version_digest.h"

enum { TIMEOUT_S = 60, RETRY_MS = 2, VERSION_BYTES = 1 };

/* The answer, which must be OK; frees the request. */
static void *call(struct rpc_client *client, const char *method, void *request)
{
    struct rpc_call_options options = { .timeout_ns = TIMEOUT_S * BATON_NS_PER_S };
    struct rpc_result result = rpc_unary(client, method, request, &options);
    baton_wire_free(request);
    load_must(baton_ok(&result.status), result.status.message);
    return result.message;
}

static void *get_request(void)
{
    Baton__V1__ListModelsRequest *request =
        baton_wire_new(&baton__v1__list_models_request__descriptor);
    return request;
}

void load_call_wait(struct rpc_client *client)
{
    uint64_t until_ns = baton_clock_monotonic_ns() + TIMEOUT_S * BATON_NS_PER_S;
    struct rpc_call_options options = { .timeout_ns = BATON_NS_PER_S };
    for (;;) {
        void *request = get_request();
        struct rpc_result result = rpc_unary(client, "baton.v1.Models/List", request, &options);
        baton_wire_free(request);
        baton_wire_free(result.message);
        if (baton_ok(&result.status)) {
            return;
        }
        load_must(baton_clock_monotonic_ns() < until_ns, result.status.message);
        baton_clock_sleep_ns(RETRY_MS * BATON_NS_PER_MS);
    }
}

void load_call_get(struct rpc_client *client)
{
    baton_wire_free(call(client, "baton.v1.Models/List", get_request()));
}

void load_call_apply(struct rpc_client *client, const char *max_unavailable)
{
    Baton__V1__ApplyModelRequest *request =
        baton_wire_new(&baton__v1__apply_model_request__descriptor);
    request->name = baton_wire_text(request, "m");
    request->spec = baton_wire_part(request, &baton__v1__model_spec__descriptor);
    request->spec->update = baton_wire_part(request, &baton__v1__update_policy__descriptor);
    request->spec->update->max_unavailable = baton_wire_text(request, max_unavailable);
    baton_wire_free(call(client, "baton.v1.Models/Apply", request));
}

/* The manifest of a model of one tensor; gives its digest. */
static char *upload(struct rpc_client *client, const char *uid, uint64_t number, void *root)
{
    uint8_t part[256];
    struct baton_writer writer = baton_writer_of(part, sizeof(part));
    struct manifest_entry entry = { .kind = MANIFEST_KIND_TENSOR,
                                    .name = baton_bytes_of("t"),
                                    .dtype = TENSOR_DTYPE_U8,
                                    .bytes = VERSION_BYTES };
    entry.shape.rank = 1;
    entry.shape.dims[0] = VERSION_BYTES;
    memcpy(&entry.digest, &number, sizeof(number)); /* Each version is another one. */
    manifest_part_write(&writer, &entry);
    Baton__V1__AddManifestPartRequest *request =
        baton_wire_new(&baton__v1__add_manifest_part_request__descriptor);
    request->version_uid = baton_wire_text(request, uid);
    request->part = baton_wire_bytes(request, part, writer.size);
    struct rpc_stream *stream =
        rpc_stream_open(client, "baton.v1.Versions/AddManifestPart", NULL, NULL, NULL, NULL);
    struct baton_status st = rpc_stream_send(stream, request);
    load_must(baton_ok(&st), st.message);
    rpc_stream_send_done(stream);
    struct rpc_next next = rpc_stream_next(stream, TIMEOUT_S * BATON_NS_PER_S);
    load_must(next.kind == RPC_NEXT_MESSAGE, next.status.message);
    Baton__V1__AddManifestPartResponse *response = next.message;
    char *digest = baton_wire_text(root, response->digest);
    baton_wire_free(response);
    baton_wire_free(request);
    rpc_stream_unref(stream);
    return digest;
}

void load_call_prepare(struct rpc_client *client, uint64_t number, char *uid)
{
    Baton__V1__OpenVersionRequest *open =
        baton_wire_new(&baton__v1__open_version_request__descriptor);
    open->model = baton_wire_text(open, "m");
    Baton__V1__Version *version = call(client, "baton.v1.Versions/Open", open);
    (void)snprintf(uid, BATON_UID_TEXT_BYTES, "%s", version->meta->uid);
    baton_wire_free(version);
    Baton__V1__SealVersionRequest *seal =
        baton_wire_new(&baton__v1__seal_version_request__descriptor);
    seal->version_uid = baton_wire_text(seal, uid);
    seal->digest = upload(client, uid, number, seal);
    seal->bytes = VERSION_BYTES;
    baton_wire_free(call(client, "baton.v1.Versions/Seal", seal));
}

uint64_t load_call_publish(struct rpc_client *client, const char *uid)
{
    Baton__V1__PublishVersionRequest *publish =
        baton_wire_new(&baton__v1__publish_version_request__descriptor);
    Baton__V1__Source *source = baton_wire_part(publish, &baton__v1__source__descriptor);
    publish->version_uid = baton_wire_text(publish, uid);
    publish->sources = baton_wire_take(publish, 1, sizeof(*publish->sources));
    publish->sources[publish->n_sources++] = source;
    source->backend = baton_wire_text(publish, "file");
    source->location = baton_wire_text(publish, "/versions/one");
    Baton__V1__Version *version = call(client, "baton.v1.Versions/Publish", publish);
    uint64_t seq = version->seq;
    baton_wire_free(version);
    return seq;
}

uint32_t load_call_summary(struct rpc_client *client)
{
    Baton__V1__StalenessSummaryRequest *request =
        baton_wire_new(&baton__v1__staleness_summary_request__descriptor);
    request->model = baton_wire_text(request, "m");
    Baton__V1__StalenessSummaryResponse *response =
        call(client, "baton.v1.Staleness/Summary", request);
    load_must(response->n_summaries == 1, "no summary of the model");
    uint32_t unknown = response->summaries[0]->groups_unknown;
    baton_wire_free(response);
    return unknown;
}
