/* methods.c -- see methods.h. */
#include "api/rpc/methods.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/rpc/rpc.h"
#include "google/protobuf/descriptor.pb-c.h"

struct rpc_method_option {
    struct rpc_method_option *next;
    uint32_t number;
    char text[];
};

/* Made once, sorted by name, kept until the process ends. */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;
static struct rpc_method *methods;
static size_t methods_count;

static void *must(void *memory)
{
    baton_assert(memory != NULL);
    return memory;
}

/* Options of our own are unknown to descriptor.proto, so they come as unknown fields.  Those of a
 * string are kept: their data begins with the length, which must fit. */
static struct rpc_method_option *read_options(const ProtobufCMessage *options)
{
    struct rpc_method_option *list = NULL;
    for (unsigned i = 0; options != NULL && i < options->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &options->unknown_fields[i];
        if (field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || field->len < 1 ||
            field->data[0] >= 0x80 || field->data[0] + (size_t)1 != field->len) {
            continue;
        }
        size_t length = field->data[0];
        struct rpc_method_option *option = must(calloc(1, sizeof(*option) + length + 1));
        option->number = field->tag;
        memcpy(option->text, field->data + 1, length);
        option->next = list;
        list = option;
    }
    return list;
}

static void add_method(const ProtobufCServiceDescriptor *service,
                       const Google__Protobuf__MethodDescriptorProto *proto)
{
    const ProtobufCMethodDescriptor *generated =
        protobuf_c_service_descriptor_get_method_by_name(service, proto->name);
    baton_assert(generated != NULL);
    methods = must(realloc(methods, (methods_count + 1) * sizeof(*methods)));
    size_t bytes = strlen(service->name) + strlen(proto->name) + 3;
    struct rpc_method *method = &methods[methods_count++];
    *method = (struct rpc_method){
        .path = must(malloc(bytes)),
        .input = generated->input,
        .output = generated->output,
        .client_streams = proto->has_client_streaming && proto->client_streaming,
        .server_streams = proto->has_server_streaming && proto->server_streaming,
        .options = read_options((const ProtobufCMessage *)proto->options),
    };
    (void)snprintf(method->path, bytes, "/%s/%s", service->name, proto->name);
    method->name = method->path + 1;
}

static void add_service(const char *package, const Google__Protobuf__ServiceDescriptorProto *proto)
{
    char name[256];
    (void)snprintf(name, sizeof(name), "%s.%s", package, proto->name);
    const ProtobufCServiceDescriptor *service = baton_wire_find_service(name);
    baton_assert(service != NULL);
    for (size_t i = 0; i < proto->n_method; i++) {
        add_method(service, proto->method[i]);
    }
}

static int compare(const void *a, const void *b)
{
    const struct rpc_method *left = a;
    const struct rpc_method *right = b;
    return strcmp(left->name, right->name);
}

static void load(void)
{
    ProtobufCMessage *message = NULL;
    struct baton_status st = baton_wire_decode(&google__protobuf__file_descriptor_set__descriptor,
                                               baton_wire_descriptor_set(), NULL, &message);
    baton_assert(baton_ok(&st)); /* Made by our build. */
    const Google__Protobuf__FileDescriptorSet *set = (const void *)message;
    for (size_t i = 0; i < set->n_file; i++) {
        for (size_t k = 0; k < set->file[i]->n_service; k++) {
            add_service(set->file[i]->package, set->file[i]->service[k]);
        }
    }
    baton_wire_free(message);
    qsort(methods, methods_count, sizeof(*methods), compare);
}

const struct rpc_method *rpc_method_find(const char *name, size_t length)
{
    (void)pthread_once(&load_once, load);
    if (length > 0 && name[0] == '/') {
        name++;
        length--;
    }
    size_t low = 0;
    size_t high = methods_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(methods[middle].name, name, length);
        if (order == 0 && methods[middle].name[length] == '\0') {
            return &methods[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

const char *rpc_method_option_text(const struct rpc_method *method, uint32_t number)
{
    for (const struct rpc_method_option *at = method->options; at != NULL; at = at->next) {
        if (at->number == number) {
            return at->text;
        }
    }
    return "";
}

bool rpc_shape_find(const char *method, struct rpc_shape *out)
{
    const struct rpc_method *found = rpc_method_find(method, strlen(method));
    if (found != NULL) {
        *out = (struct rpc_shape){ found->input, found->client_streams, found->server_streams };
    }
    return found != NULL;
}
