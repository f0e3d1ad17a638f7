/* details.c -- see details.h. */
#include "api/rpc/details.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/rpc/rpc.h"
#include "baton/v1/common.pb-c.h"
#include "google/protobuf/any.pb-c.h"
#include "google/protobuf/duration.pb-c.h"
#include "google/rpc/error_details.pb-c.h"
#include "google/rpc/status.pb-c.h"

enum { DETAILS_MAX = 6 };
#define URL_PREFIX "type.googleapis.com/"

/* --- out --- */

static void add(Google__Rpc__Status *root, const void *detail)
{
    const ProtobufCMessage *message = detail;
    Google__Protobuf__Any *any = baton_wire_part(root, &google__protobuf__any__descriptor);
    any->type_url = baton_wire_textf(root, URL_PREFIX "%s", message->descriptor->name);
    any->value.len = baton_wire_size(message);
    any->value.data = baton_wire_take(root, any->value.len, 1);
    baton_wire_encode(message, any->value.data);
    baton_assert(root->n_details < DETAILS_MAX);
    root->details[root->n_details++] = any;
}

static void *array_of_one(Google__Rpc__Status *root, void *item)
{
    void **array = baton_wire_take(root, 1, sizeof(*array));
    array[0] = item;
    return array;
}

static void add_error_info(Google__Rpc__Status *root, const struct baton_status *status)
{
    Google__Rpc__ErrorInfo *info = baton_wire_part(root, &google__rpc__error_info__descriptor);
    info->reason = baton_wire_text(root, baton_reason_name(status->reason));
    info->domain = baton_wire_text(root, "baton");
    add(root, info);
}

/* Length of the field's path that the message begins with; 0 if it begins with none. */
static size_t field_length(const char *message)
{
    size_t length = 0;
    while (isalnum((unsigned char)message[length]) ||
           (message[length] != '\0' && strchr("_.[]\"-", message[length]) != NULL)) {
        length++;
    }
    return message[length] == ':' && message[length + 1] == ' ' ? length : 0;
}

static void add_bad_request(Google__Rpc__Status *root, const struct baton_status *status)
{
    size_t length = field_length(status->message);
    if (length == 0) {
        return;
    }
    Google__Rpc__BadRequest__FieldViolation *violation =
        baton_wire_part(root, &google__rpc__bad_request__field_violation__descriptor);
    violation->field = baton_wire_textf(root, "%.*s", (int)length, status->message);
    violation->description = baton_wire_text(root, status->message + length + 2);
    Google__Rpc__BadRequest *bad = baton_wire_part(root, &google__rpc__bad_request__descriptor);
    bad->field_violations = array_of_one(root, violation);
    bad->n_field_violations = 1;
    add(root, bad);
}

static void add_precondition(Google__Rpc__Status *root, const struct baton_status *status,
                             const char *subject)
{
    Google__Rpc__PreconditionFailure__Violation *violation =
        baton_wire_part(root, &google__rpc__precondition_failure__violation__descriptor);
    violation->type = baton_wire_text(root, baton_reason_name(status->reason));
    violation->subject = baton_wire_text(root, subject == NULL ? "" : subject);
    violation->description = baton_wire_text(root, status->message);
    Google__Rpc__PreconditionFailure *failure =
        baton_wire_part(root, &google__rpc__precondition_failure__descriptor);
    failure->violations = array_of_one(root, violation);
    failure->n_violations = 1;
    add(root, failure);
}

static void add_retry(Google__Rpc__Status *root, uint64_t retry_after_ns)
{
    Google__Rpc__RetryInfo *retry = baton_wire_part(root, &google__rpc__retry_info__descriptor);
    retry->retry_delay = baton_wire_duration(root, retry_after_ns);
    add(root, retry);
}

static void add_leader(Google__Rpc__Status *root, const char *leader)
{
    Baton__V1__NotLeader *message = baton_wire_part(root, &baton__v1__not_leader__descriptor);
    message->leader = baton_wire_text(root, leader);
    add(root, message);
}

static void add_help(Google__Rpc__Status *root, const char *hint)
{
    Google__Rpc__Help__Link *link = baton_wire_part(root, &google__rpc__help__link__descriptor);
    link->description = baton_wire_text(root, hint);
    Google__Rpc__Help *help = baton_wire_part(root, &google__rpc__help__descriptor);
    help->links = array_of_one(root, link);
    help->n_links = 1;
    add(root, help);
}

grpc_slice rpc_details_encode(const struct baton_status *status,
                              const struct rpc_error_details *details)
{
    Google__Rpc__Status *root = baton_wire_new(&google__rpc__status__descriptor);
    root->code = (int32_t)status->code;
    root->message = baton_wire_text(root, status->message);
    root->details = baton_wire_take(root, DETAILS_MAX, sizeof(*root->details));
    add_error_info(root, status);
    if (status->reason == BATON_REASON_BAD_FIELD) {
        add_bad_request(root, status);
    }
    if (status->code == BATON_FAILED_PRECONDITION) {
        add_precondition(root, status, details == NULL ? NULL : details->subject);
    }
    if (details != NULL && details->retry_after_ns > 0) {
        add_retry(root, details->retry_after_ns);
    }
    if (status->hint[0] != '\0') {
        add_help(root, status->hint);
    }
    if (details != NULL && details->leader != NULL) {
        add_leader(root, details->leader);
    }
    grpc_slice slice = grpc_slice_malloc(baton_wire_size(root));
    baton_wire_encode(root, GRPC_SLICE_START_PTR(slice));
    baton_wire_free(root);
    return slice;
}

/* --- in --- */

/* The message inside, if it is of this type; free it. */
static void *open_any(const Google__Protobuf__Any *any, const ProtobufCMessageDescriptor *type)
{
    const char *slash = strrchr(any->type_url, '/');
    if (slash == NULL || strcmp(slash + 1, type->name) != 0) {
        return NULL;
    }
    ProtobufCMessage *message = NULL;
    struct baton_status st = baton_wire_decode(
        type, (struct baton_bytes){ any->value.data, any->value.len }, NULL, &message);
    return baton_ok(&st) ? message : NULL;
}

static void read_detail(const Google__Protobuf__Any *any, struct baton_status *status)
{
    Google__Rpc__ErrorInfo *info = open_any(any, &google__rpc__error_info__descriptor);
    if (info != NULL && strcmp(info->domain, "baton") == 0) {
        status->reason = baton_reason_from_name(info->reason);
    }
    baton_wire_free(info);
    Google__Rpc__Help *help = open_any(any, &google__rpc__help__descriptor);
    if (help != NULL && help->n_links > 0) {
        (void)snprintf(status->hint, sizeof(status->hint), "%s", help->links[0]->description);
    }
    baton_wire_free(help);
}

static void read_leader(const Google__Protobuf__Any *any, char *leader, size_t leader_bytes)
{
    Baton__V1__NotLeader *message = open_any(any, &baton__v1__not_leader__descriptor);
    if (message != NULL) {
        (void)snprintf(leader, leader_bytes, "%s", message->leader);
    }
    baton_wire_free(message);
}

void rpc_details_decode(grpc_slice bytes, struct baton_status *status, char *leader,
                        size_t leader_bytes)
{
    struct baton_bytes view = { GRPC_SLICE_START_PTR(bytes), GRPC_SLICE_LENGTH(bytes) };
    ProtobufCMessage *message = NULL;
    struct baton_status st =
        baton_wire_decode(&google__rpc__status__descriptor, view, NULL, &message);
    if (!baton_ok(&st)) {
        return;
    }
    const Google__Rpc__Status *root = (const void *)message;
    for (size_t i = 0; i < root->n_details; i++) {
        read_detail(root->details[i], status);
        read_leader(root->details[i], leader, leader_bytes);
    }
    baton_wire_free(message);
}
