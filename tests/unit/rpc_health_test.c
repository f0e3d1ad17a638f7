/* rpc_health_test.c -- grpc.health.v1 and reflection as a client sees them; see api/rpc/rpc.h. */
#include <criterion/criterion.h>

#include <string.h>

#include "api/base/clock.h"
#include "google/protobuf/descriptor.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"
#include "tests/unit/rpc_fixture.h"

#define WAIT_NS (20 * BATON_NS_PER_S)

enum {
    SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING,
    NOT_SERVING = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING,
    SERVICE_UNKNOWN = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN,
};

static Grpc__Health__V1__HealthCheckRequest health_of(const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request;
    grpc__health__v1__health_check_request__init(&request);
    request.service = (char *)(uintptr_t)service;
    return request;
}

/* The status of a service, -1 for a failure that is put into '*st'. */
static int check(struct rpc_fixture *fixture, const char *service, struct baton_status *st)
{
    Grpc__Health__V1__HealthCheckRequest request = health_of(service);
    struct rpc_result result =
        rpc_unary(fixture->client, "grpc.health.v1.Health/Check", &request, NULL);
    *st = result.status;
    int status = -1;
    if (baton_ok(st)) {
        status = (int)((Grpc__Health__V1__HealthCheckResponse *)result.message)->status;
    }
    baton_wire_free(result.message);
    return status;
}

/* Nothing serves before the daemon says so; each service for itself; an unknown one is NOT_FOUND. */
Test(rpc_health, check)
{
    struct rpc_fixture fixture;
    struct baton_status st;
    rpc_fixture_start(&fixture);
    cr_assert_eq(check(&fixture, "", &st), NOT_SERVING);
    cr_assert_eq(check(&fixture, "baton.v1.Models", &st), NOT_SERVING);
    rpc_health_set(fixture.server, "baton.v1.Models", RPC_HEALTH_SERVING);
    cr_assert_eq(check(&fixture, "baton.v1.Models", &st), SERVING);
    cr_assert_eq(check(&fixture, "baton.v1.Fleet", &st), NOT_SERVING);
    rpc_health_set_all(fixture.server, RPC_HEALTH_SERVING);
    cr_assert_eq(check(&fixture, "baton.v1.Fleet", &st), SERVING);
    cr_assert_eq(check(&fixture, "", &st), SERVING);
    cr_assert_eq(check(&fixture, "baton.v1.Rolls", &st), -1);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    rpc_fixture_stop(&fixture);
}

static struct rpc_stream *watch(struct rpc_fixture *fixture, const char *service)
{
    Grpc__Health__V1__HealthCheckRequest request = health_of(service);
    return rpc_stream_open(fixture->client, "grpc.health.v1.Health/Watch", &request, NULL, NULL,
                           NULL);
}

static int next_status(struct rpc_stream *stream)
{
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_MESSAGE, "%s", next.status.message);
    int status = (int)((Grpc__Health__V1__HealthCheckResponse *)next.message)->status;
    baton_wire_free(next.message);
    return status;
}

/* A watcher hears the state now, each change, the drain, and why its stream ends. */
Test(rpc_health, watch)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = watch(&fixture, "baton.v1.Models");
    struct rpc_stream *unknown = watch(&fixture, "nothing");
    cr_assert_eq(next_status(stream), NOT_SERVING);
    cr_assert_eq(next_status(unknown), SERVICE_UNKNOWN);
    rpc_health_set(fixture.server, "baton.v1.Models", RPC_HEALTH_SERVING);
    rpc_health_set(fixture.server, "baton.v1.Models", RPC_HEALTH_SERVING);
    cr_assert_eq(next_status(stream), SERVING);
    rpc_server_drain(fixture.server, WAIT_NS);
    cr_assert_eq(next_status(stream), NOT_SERVING);
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_END);
    cr_assert_eq(next.status.reason, BATON_REASON_SHUTTING_DOWN);
    rpc_stream_unref(stream);
    rpc_stream_unref(unknown);
    rpc_fixture_stop(&fixture);
}

/* --- reflection --- */

typedef Grpc__Reflection__V1__ServerReflectionRequest question;
typedef Grpc__Reflection__V1__ServerReflectionResponse answer;

static answer *ask(struct rpc_stream *stream, const question *asked)
{
    struct baton_status st = rpc_stream_send(stream, asked);
    cr_assert(baton_ok(&st));
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_MESSAGE, "%s", next.status.message);
    return next.message;
}

static question about_symbol(const char *symbol)
{
    question asked;
    grpc__reflection__v1__server_reflection_request__init(&asked);
    asked.message_request_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL;
    asked.file_containing_symbol = (char *)(uintptr_t)symbol;
    return asked;
}

/* Name of the file that the answer holds; "" if it holds none. */
static void file_name(const answer *reply, char out[64])
{
    out[0] = '\0';
    if (reply->message_response_case !=
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE) {
        return;
    }
    ProtobufCBinaryData bytes = reply->file_descriptor_response->file_descriptor_proto[0];
    ProtobufCMessage *file = NULL;
    struct baton_status st =
        baton_wire_decode(&google__protobuf__file_descriptor_proto__descriptor,
                          (struct baton_bytes){ bytes.data, bytes.len }, NULL, &file);
    cr_assert(baton_ok(&st));
    cr_assert(baton_text_copy(out, 64, ((Google__Protobuf__FileDescriptorProto *)file)->name));
    baton_wire_free(file);
}

/* Services, methods, messages, nested ones, fields and enum values are found in their files. */
Test(rpc_health, reflection_symbols)
{
    static const char *const CASES[][2] = {
        { "baton.v1.Models", "baton/v1/models.proto" },
        { "baton.v1.Models.Get", "baton/v1/models.proto" },
        { "baton.v1.ObjectMeta", "baton/v1/common.proto" },
        { "baton.v1.ObjectMeta.uid", "baton/v1/common.proto" },
        { "baton.v1.WatchEventType", "baton/v1/common.proto" },
        { "grpc.health.v1.HealthCheckResponse.ServingStatus", "grpc/health/v1/health.proto" },
        { "google.protobuf.Timestamp", "google/protobuf/timestamp.proto" },
        { "baton.v1.Nothing", "" },
        { "baton.v1", "" },
        { "", "" },
    };
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream =
        rpc_stream_open(fixture.client, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                        NULL, NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        question asked = about_symbol(CASES[i][0]);
        answer *reply = ask(stream, &asked);
        char name[64];
        file_name(reply, name);
        cr_assert_str_eq(name, CASES[i][1], "%s", CASES[i][0]);
        cr_assert_str_eq(reply->original_request->file_containing_symbol, CASES[i][0]);
        baton_wire_free(reply);
    }
    rpc_stream_send_done(stream);
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_END);
    cr_assert(baton_ok(&next.status));
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
}

/* v1alpha lists the same services: those with a route, health, both reflections. */
Test(rpc_health, reflection_lists_services)
{
    struct rpc_fixture fixture;
    rpc_fixture_start(&fixture);
    struct rpc_stream *stream = rpc_stream_open(
        fixture.client, "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", NULL, NULL,
        NULL, NULL);
    Grpc__Reflection__V1alpha__ServerReflectionRequest asked;
    grpc__reflection__v1alpha__server_reflection_request__init(&asked);
    asked.message_request_case =
        GRPC__REFLECTION__V1ALPHA__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES;
    asked.list_services = "*";
    struct baton_status st = rpc_stream_send(stream, &asked);
    cr_assert(baton_ok(&st));
    struct rpc_next next = rpc_stream_next(stream, WAIT_NS);
    cr_assert_eq(next.kind, RPC_NEXT_MESSAGE, "%s", next.status.message);
    Grpc__Reflection__V1alpha__ServerReflectionResponse *reply = next.message;
    static const char *const WANTED[] = {
        "baton.v1.AgentSession",
        "baton.v1.Fleet",
        "baton.v1.Models",
        "baton.v1.Versions",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    };
    cr_assert_eq(reply->list_services_response->n_service, sizeof(WANTED) / sizeof(WANTED[0]));
    for (size_t i = 0; i < sizeof(WANTED) / sizeof(WANTED[0]); i++) {
        cr_assert_str_eq(reply->list_services_response->service[i]->name, WANTED[i]);
    }
    baton_wire_free(reply);
    rpc_stream_unref(stream);
    rpc_fixture_stop(&fixture);
}
