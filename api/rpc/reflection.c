/* reflection.c -- grpc.reflection v1 and v1alpha from the embedded descriptor set; see rpc.h.
 *
 * Both versions are the same on the wire: v1alpha's messages are re-typed through their bytes.  The
 * descriptor set's files are sent as they stand in it, so that everything in them survives. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/rpc/server.h"
#include "google/protobuf/descriptor.pb-c.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "grpc/reflection/v1alpha/reflection.pb-c.h"

typedef Grpc__Reflection__V1__ServerReflectionRequest request;
typedef Grpc__Reflection__V1__ServerReflectionResponse response;
typedef Google__Protobuf__FileDescriptorProto file_proto;
typedef Google__Protobuf__DescriptorProto message_proto;

/* One file of the set. */
struct file {
    const file_proto *proto;
    struct baton_bytes bytes;
};

static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static struct file *files; /* Kept until the process ends. */
static size_t files_count;

/* --- the set --- */

static uint64_t read_varint(struct baton_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = baton_read_u8(reader);
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            break;
        }
    }
    return value;
}

/* The set is nothing but its files: field 1, length-delimited. */
static void load(void)
{
    enum { FILE_TAG = 1 << 3 | 2 };
    ProtobufCMessage *message = NULL;
    struct baton_bytes bytes = baton_wire_descriptor_set();
    struct baton_status st = baton_wire_decode(&google__protobuf__file_descriptor_set__descriptor,
                                               bytes, NULL, &message);
    baton_assert(baton_ok(&st)); /* Made by our build. */
    const Google__Protobuf__FileDescriptorSet *set = (const void *)message;
    files = calloc(set->n_file, sizeof(*files));
    baton_assert(files != NULL);
    struct baton_reader reader = baton_reader_of(bytes);
    for (size_t i = 0; i < set->n_file; i++) {
        bool is_file = read_varint(&reader) == FILE_TAG;
        files[i].proto = set->file[i];
        files[i].bytes = baton_read_bytes(&reader, (size_t)read_varint(&reader));
        baton_assert(is_file && !reader.failed);
    }
    files_count = set->n_file;
}

/* What is left of 'symbol' behind 'prefix' and a dot; "" if they are equal, null if it is another. */
static const char *below(const char *symbol, const char *prefix)
{
    size_t length = strlen(prefix);
    if (strncmp(symbol, prefix, length) != 0) {
        return NULL;
    }
    if (symbol[length] == '\0') {
        return symbol + length;
    }
    return symbol[length] == '.' ? symbol + length + 1 : NULL;
}

static bool enum_declares(const Google__Protobuf__EnumDescriptorProto *proto, const char *symbol)
{
    const char *rest = below(symbol, proto->name);
    if (rest == NULL || rest[0] == '\0') {
        return rest != NULL;
    }
    for (size_t i = 0; i < proto->n_value; i++) {
        if (strcmp(proto->value[i]->name, rest) == 0) {
            return true;
        }
    }
    return false;
}

static bool message_declares(const message_proto *proto, const char *symbol)
{
    const char *rest = below(symbol, proto->name);
    if (rest == NULL || rest[0] == '\0') {
        return rest != NULL;
    }
    for (size_t i = 0; i < proto->n_field; i++) {
        if (strcmp(proto->field[i]->name, rest) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < proto->n_enum_type; i++) {
        if (enum_declares(proto->enum_type[i], rest)) {
            return true;
        }
    }
    for (size_t i = 0; i < proto->n_nested_type; i++) {
        if (message_declares(proto->nested_type[i], rest)) {
            return true; /* Bounded by our own protos' nesting. */
        }
    }
    return false;
}

static bool service_declares(const Google__Protobuf__ServiceDescriptorProto *proto,
                             const char *symbol)
{
    const char *rest = below(symbol, proto->name);
    if (rest == NULL || rest[0] == '\0') {
        return rest != NULL;
    }
    for (size_t i = 0; i < proto->n_method; i++) {
        if (strcmp(proto->method[i]->name, rest) == 0) {
            return true;
        }
    }
    return false;
}

static bool file_declares(const file_proto *proto, const char *symbol)
{
    const char *rest = below(symbol, proto->package);
    if (rest == NULL || rest[0] == '\0') {
        return false;
    }
    bool is_found = false;
    for (size_t i = 0; i < proto->n_service && !is_found; i++) {
        is_found = service_declares(proto->service[i], rest);
    }
    for (size_t i = 0; i < proto->n_message_type && !is_found; i++) {
        is_found = message_declares(proto->message_type[i], rest);
    }
    for (size_t i = 0; i < proto->n_enum_type && !is_found; i++) {
        is_found = enum_declares(proto->enum_type[i], rest);
    }
    return is_found;
}

static const struct file *find_by_symbol(const char *symbol)
{
    for (size_t i = 0; i < files_count; i++) {
        if (file_declares(files[i].proto, symbol)) {
            return &files[i];
        }
    }
    return NULL;
}

static const struct file *find_by_name(const char *name)
{
    for (size_t i = 0; i < files_count; i++) {
        if (strcmp(files[i].proto->name, name) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

/* --- answers --- */

static void put_error(response *reply, const char *what, const char *name)
{
    Grpc__Reflection__V1__ErrorResponse *error =
        baton_wire_part(reply, &grpc__reflection__v1__error_response__descriptor);
    error->error_code = BATON_NOT_FOUND;
    error->error_message = baton_wire_textf(reply, "%s not found: %.200s", what, name);
    reply->error_response = error;
    reply->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
}

static void put_file(response *reply, const struct file *file, const char *what, const char *name)
{
    if (file == NULL) {
        put_error(reply, what, name);
        return;
    }
    Grpc__Reflection__V1__FileDescriptorResponse *found =
        baton_wire_part(reply, &grpc__reflection__v1__file_descriptor_response__descriptor);
    found->file_descriptor_proto = baton_wire_take(reply, 1, sizeof(*found->file_descriptor_proto));
    found->file_descriptor_proto[0] = baton_wire_bytes(reply, file->bytes.data, file->bytes.size);
    found->n_file_descriptor_proto = 1;
    reply->file_descriptor_response = found;
    reply->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
}

/* Length of the service's name in a method's. */
static size_t service_length(const char *method)
{
    return (size_t)(strchr(method, '/') - method);
}

static void put_services(response *reply, const struct rpc_server *server)
{
    Grpc__Reflection__V1__ListServiceResponse *list =
        baton_wire_part(reply, &grpc__reflection__v1__list_service_response__descriptor);
    list->service = baton_wire_take(reply, server->routes_count, sizeof(*list->service));
    const char *last = "/";
    for (size_t i = 0; i < server->routes_count; i++) {
        const char *name = server->routes[i].method->name;
        size_t length = service_length(name);
        if (strncmp(name, last, length + 1) != 0) { /* Sorted: equal ones follow each other. */
            Grpc__Reflection__V1__ServiceResponse *service =
                baton_wire_part(reply, &grpc__reflection__v1__service_response__descriptor);
            service->name = baton_wire_textf(reply, "%.*s", (int)length, name);
            list->service[list->n_service++] = service;
            last = name;
        }
    }
    reply->list_services_response = list;
    reply->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
}

/* Our protos declare no extensions. */
static void put_no_extensions(response *reply, const char *type)
{
    if (baton_wire_find_message(type) == NULL) {
        put_error(reply, "type", type);
        return;
    }
    Grpc__Reflection__V1__ExtensionNumberResponse *numbers =
        baton_wire_part(reply, &grpc__reflection__v1__extension_number_response__descriptor);
    numbers->base_type_name = baton_wire_text(reply, type);
    reply->all_extension_numbers_response = numbers;
    reply->message_response_case =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ALL_EXTENSION_NUMBERS_RESPONSE;
}

static response *answer(const struct rpc_server *server, request *asked)
{
    (void)pthread_once(&load_once, load);
    response *reply = baton_wire_new(&grpc__reflection__v1__server_reflection_response__descriptor);
    reply->valid_host = asked->host;
    reply->original_request = asked;
    switch (asked->message_request_case) {
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
        put_services(reply, server);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
        put_file(reply, find_by_name(asked->file_by_filename), "file", asked->file_by_filename);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
        put_file(reply, find_by_symbol(asked->file_containing_symbol), "symbol",
                 asked->file_containing_symbol);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_EXTENSION:
        put_error(reply, "extension of", asked->file_containing_extension->containing_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_ALL_EXTENSION_NUMBERS_OF_TYPE:
        put_no_extensions(reply, asked->all_extension_numbers_of_type);
        break;
    case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__NOT_SET:
    case _GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__CASE_IS_INT_SIZE:
        put_error(reply, "question", "none was asked");
        break;
    }
    return reply;
}

/* --- handlers --- */

/* The same bytes as another type. */
static void *retyped(const void *message, const ProtobufCMessageDescriptor *type)
{
    size_t size = baton_wire_size(message);
    uint8_t *bytes = malloc(size > 0 ? size : 1);
    baton_assert(bytes != NULL);
    baton_wire_encode(message, bytes);
    ProtobufCMessage *copy = NULL;
    struct baton_status st =
        baton_wire_decode(type, (struct baton_bytes){ bytes, size }, NULL, &copy);
    free(bytes);
    baton_assert(baton_ok(&st));
    return copy;
}

static void on_message(struct rpc_call *call, void *message, void *context)
{
    response *reply = answer(context, message);
    (void)rpc_send(call, reply);
    reply->original_request = NULL;
    baton_wire_free(reply);
    baton_wire_free(message);
    rpc_call_read_next(call);
}

static void on_message_alpha(struct rpc_call *call, void *message, void *context)
{
    request *asked = retyped(message, &grpc__reflection__v1__server_reflection_request__descriptor);
    baton_wire_free(message);
    response *reply = answer(context, asked);
    void *alpha =
        retyped(reply, &grpc__reflection__v1alpha__server_reflection_response__descriptor);
    (void)rpc_send(call, alpha);
    baton_wire_free(alpha);
    baton_wire_free(reply);
    baton_wire_free(asked);
    rpc_call_read_next(call);
}

static void on_half_close(struct rpc_call *call, void *context)
{
    (void)context;
    struct baton_status ok = baton_status_ok();
    rpc_finish(call, &ok);
}

static void info(struct rpc_call *call, const void *message, void *context)
{
    static const struct rpc_receiver RECEIVER = { .on_message = on_message,
                                                  .on_half_close = on_half_close };
    (void)message;
    rpc_call_receive(call, &RECEIVER, context);
}

static void info_alpha(struct rpc_call *call, const void *message, void *context)
{
    static const struct rpc_receiver RECEIVER = { .on_message = on_message_alpha,
                                                  .on_half_close = on_half_close };
    (void)message;
    rpc_call_receive(call, &RECEIVER, context);
}

const struct rpc_route reflection_routes[REFLECTION_ROUTES] = {
    { "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", info, 0 },
    { "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", info_alpha, 0 },
};
