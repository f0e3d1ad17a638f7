/* controller_shell_fixture.c -- see controller_shell_fixture.h. */
#include "tests/unit/controller_shell_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "transport/model/version_digest.h"

static void *run(void *argument)
{
    daemon_run(argument);
    return NULL;
}

void controller_fixture_start(struct controller_fixture *fixture)
{
    controller_fixture_start_with(fixture, (struct daemon_options){ .swaps_kept = 0 });
}

void controller_fixture_start_with(struct controller_fixture *fixture,
                                   struct daemon_options options)
{
    memset(fixture, 0, sizeof(*fixture));
    fixture->listener.address = "127.0.0.1:0";
    options.store_address = "memory:";
    options.listeners = &fixture->listener;
    options.listeners_count = 1;
    struct baton_status st = daemon_create(&options, &fixture->daemon);
    cr_assert(baton_ok(&st), "%s", st.message);
    (void)snprintf(fixture->address, sizeof(fixture->address), "127.0.0.1:%u",
                   rpc_server_port(fixture->daemon->server, 0));
    cr_assert_eq(pthread_create(&fixture->thread, NULL, run, fixture->daemon), 0);
    struct rpc_client_options client = { .target = fixture->address };
    st = rpc_client_create(&client, &fixture->client);
    cr_assert(baton_ok(&st), "%s", st.message);
}

void controller_fixture_stop(struct controller_fixture *fixture)
{
    daemon_stop(fixture->daemon);
    (void)pthread_join(fixture->thread, NULL);
    rpc_client_destroy(fixture->client);
    daemon_destroy(fixture->daemon);
}

static struct rpc_result call(struct controller_fixture *fixture, const char *method, void *request)
{
    struct rpc_call_options options = { .timeout_ns = 20 * BATON_NS_PER_S, .wait_for_ready = true };
    struct rpc_result result = rpc_unary(fixture->client, method, request, &options);
    baton_wire_free(request);
    return result;
}

void *controller_fixture_call(struct controller_fixture *fixture, const char *method, void *request)
{
    struct rpc_result result = call(fixture, method, request);
    cr_assert(baton_ok(&result.status), "%s: %s", method, result.status.message);
    return result.message;
}

struct baton_status controller_fixture_try(struct controller_fixture *fixture, const char *method,
                                           void *request)
{
    struct rpc_result result = call(fixture, method, request);
    baton_wire_free(result.message);
    return result.status;
}

struct rpc_stream *controller_fixture_open(struct controller_fixture *fixture, const char *method,
                                           void *request)
{
    struct rpc_call_options options = { .wait_for_ready = true };
    struct rpc_stream *stream =
        rpc_stream_open(fixture->client, method, request, &options, NULL, NULL);
    baton_wire_free(request);
    return stream;
}

void *controller_fixture_next(struct rpc_stream *stream)
{
    struct rpc_next next = rpc_stream_next(stream, 20 * BATON_NS_PER_S);
    cr_assert_eq(next.kind, RPC_NEXT_MESSAGE, "%s", next.status.message);
    return next.message;
}

struct baton_status controller_fixture_end(struct rpc_stream *stream)
{
    struct rpc_next next;
    while ((next = rpc_stream_next(stream, 20 * BATON_NS_PER_S)).kind == RPC_NEXT_MESSAGE) {
        baton_wire_free(next.message);
    }
    cr_assert_eq(next.kind, RPC_NEXT_END, "the stream goes on");
    return next.status;
}

/* --- versions --- */

void controller_fixture_apply(struct controller_fixture *fixture, const char *model)
{
    Baton__V1__ApplyModelRequest *request =
        baton_wire_new(&baton__v1__apply_model_request__descriptor);
    request->name = baton_wire_text(request, model);
    baton_wire_free(controller_fixture_call(fixture, "baton.v1.Models/Apply", request));
}

/* The manifest of a model of one tensor, one byte long; gives its digest. */
static char *upload(struct controller_fixture *fixture, const char *uid, void *root)
{
    uint8_t part[256];
    struct baton_writer writer = baton_writer_of(part, sizeof(part));
    struct manifest_entry entry = { .kind = MANIFEST_KIND_TENSOR,
                                    .name = baton_bytes_of("t"),
                                    .dtype = TENSOR_DTYPE_U8,
                                    .bytes = 1 };
    entry.shape.rank = 1;
    entry.shape.dims[0] = 1;
    manifest_part_write(&writer, &entry);
    Baton__V1__AddManifestPartRequest *request =
        baton_wire_new(&baton__v1__add_manifest_part_request__descriptor);
    request->version_uid = baton_wire_text(request, uid);
    request->part = baton_wire_bytes(request, part, writer.size);
    struct rpc_call_options options = { .timeout_ns = 20 * BATON_NS_PER_S };
    struct rpc_stream *stream = rpc_stream_open(
        fixture->client, "baton.v1.Versions/AddManifestPart", NULL, &options, NULL, NULL);
    struct baton_status st = rpc_stream_send(stream, request);
    cr_assert(baton_ok(&st), "%s", st.message);
    rpc_stream_send_done(stream);
    Baton__V1__AddManifestPartResponse *response = controller_fixture_next(stream);
    char *digest = baton_wire_text(root, response->digest);
    baton_wire_free(response);
    baton_wire_free(request);
    rpc_stream_unref(stream);
    return digest;
}

static void seal(struct controller_fixture *fixture, const char *uid)
{
    Baton__V1__SealVersionRequest *request =
        baton_wire_new(&baton__v1__seal_version_request__descriptor);
    request->version_uid = baton_wire_text(request, uid);
    request->digest = upload(fixture, uid, request);
    request->bytes = 1;
    baton_wire_free(controller_fixture_call(fixture, "baton.v1.Versions/Seal", request));
}

uint64_t controller_fixture_publish(struct controller_fixture *fixture, const char *model)
{
    Baton__V1__OpenVersionRequest *open =
        baton_wire_new(&baton__v1__open_version_request__descriptor);
    open->model = baton_wire_text(open, model);
    Baton__V1__Version *version = controller_fixture_call(fixture, "baton.v1.Versions/Open", open);
    seal(fixture, version->meta->uid);
    Baton__V1__PublishVersionRequest *publish =
        baton_wire_new(&baton__v1__publish_version_request__descriptor);
    Baton__V1__Source *source = baton_wire_part(publish, &baton__v1__source__descriptor);
    publish->version_uid = baton_wire_text(publish, version->meta->uid);
    publish->n_sources = 1;
    publish->sources = baton_wire_take(publish, 1, sizeof(*publish->sources));
    publish->sources[0] = source;
    source->backend = baton_wire_text(publish, "file");
    source->location = baton_wire_text(publish, "/versions/one");
    baton_wire_free(version);
    version = controller_fixture_call(fixture, "baton.v1.Versions/Publish", publish);
    uint64_t seq = version->seq;
    baton_wire_free(version);
    return seq;
}

/* --- agents --- */

static Baton__V1__GroupReport *group_report(void *root, const char *agent, unsigned index,
                                            Baton__V1__GroupState state)
{
    Baton__V1__GroupReport *group = baton_wire_part(root, &baton__v1__group_report__descriptor);
    group->group = baton_wire_textf(root, "%s-%u", agent, index);
    group->model = baton_wire_text(root, "m");
    group->state = state;
    return group;
}

static void send(struct rpc_stream *session, void *request)
{
    struct baton_status st = rpc_stream_send(session, request);
    cr_assert(baton_ok(&st), "%s", st.message);
    baton_wire_free(request);
}

struct rpc_stream *controller_fixture_hello(struct controller_fixture *fixture, const char *agent,
                                            unsigned groups, Baton__V1__GroupState state)
{
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    Baton__V1__Hello *hello = baton_wire_part(request, &baton__v1__hello__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_HELLO;
    request->hello = hello;
    hello->agent = baton_wire_text(request, agent);
    hello->protocol = 1;
    hello->journal_incarnation = baton_wire_text(request, "0123456789abcdef0123456789abcdef");
    hello->n_groups = groups;
    hello->groups = baton_wire_take(request, groups, sizeof(*hello->groups));
    for (unsigned i = 0; i < groups; i++) {
        hello->groups[i] = group_report(request, agent, i, state);
    }
    struct rpc_stream *session =
        controller_fixture_open(fixture, "baton.v1.AgentSession/Session", NULL);
    send(session, request);
    Baton__V1__SessionResponse *response = controller_fixture_next(session);
    cr_assert_eq(response->message_case, BATON__V1__SESSION_RESPONSE__MESSAGE_WELCOME);
    baton_wire_free(response);
    return session;
}

void controller_fixture_report(struct rpc_stream *session, const char *agent,
                               Baton__V1__GroupState state)
{
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    Baton__V1__Report *report = baton_wire_part(request, &baton__v1__report__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_REPORT;
    request->report = report;
    report->n_groups = 1;
    report->groups = baton_wire_take(request, 1, sizeof(*report->groups));
    report->groups[0] = group_report(request, agent, 0, state);
    send(session, request);
}
