/* find.c -- what this build knows: messages, services, the descriptor set; see wire.h. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/registry.h"
#include "api/wire/wire.h"

static pthread_once_t sorted_once = PTHREAD_ONCE_INIT;
/* Sorted by name; made once and kept until the process ends. */
static const ProtobufCMessageDescriptor **messages;
static size_t messages_count;
static const ProtobufCServiceDescriptor **services;
static size_t services_count;

static int compare_messages(const void *a, const void *b)
{
    const ProtobufCMessageDescriptor *const *left = a;
    const ProtobufCMessageDescriptor *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int compare_services(const void *a, const void *b)
{
    const ProtobufCServiceDescriptor *const *left = a;
    const ProtobufCServiceDescriptor *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static void sort_all(void)
{
    while (wire_registry_messages[messages_count] != NULL) {
        messages_count++;
    }
    while (wire_registry_services[services_count] != NULL) {
        services_count++;
    }
    size_t messages_bytes = messages_count * sizeof(*messages);
    size_t services_bytes = services_count * sizeof(*services);
    messages = malloc(messages_bytes);
    services = malloc(services_bytes);
    baton_assert(messages != NULL && services != NULL);
    memcpy(messages, wire_registry_messages, messages_bytes);
    memcpy(services, wire_registry_services, services_bytes);
    qsort(messages, messages_count, sizeof(*messages), compare_messages);
    qsort(services, services_count, sizeof(*services), compare_services);
}

const ProtobufCMessageDescriptor *const *baton_wire_messages(size_t *count)
{
    (void)pthread_once(&sorted_once, sort_all);
    *count = messages_count;
    return messages;
}

const ProtobufCServiceDescriptor *const *baton_wire_services(size_t *count)
{
    (void)pthread_once(&sorted_once, sort_all);
    *count = services_count;
    return services;
}

static int compare_message_name(const void *name, const void *item)
{
    const ProtobufCMessageDescriptor *const *message = item;
    return strcmp(name, (*message)->name);
}

static int compare_service_name(const void *name, const void *item)
{
    const ProtobufCServiceDescriptor *const *service = item;
    return strcmp(name, (*service)->name);
}

const ProtobufCMessageDescriptor *baton_wire_find_message(const char *full_name)
{
    size_t count;
    const ProtobufCMessageDescriptor *const *all = baton_wire_messages(&count);
    const ProtobufCMessageDescriptor *const *found =
        bsearch(full_name, all, count, sizeof(*all), compare_message_name);
    return found == NULL ? NULL : *found;
}

const ProtobufCServiceDescriptor *baton_wire_find_service(const char *full_name)
{
    size_t count;
    const ProtobufCServiceDescriptor *const *all = baton_wire_services(&count);
    const ProtobufCServiceDescriptor *const *found =
        bsearch(full_name, all, count, sizeof(*all), compare_service_name);
    return found == NULL ? NULL : *found;
}

struct baton_bytes baton_wire_descriptor_set(void)
{
    return (struct baton_bytes){
        wire_descriptor_set_start,
        (size_t)(wire_descriptor_set_end - wire_descriptor_set_start),
    };
}
