/* service_audit.c -- what goes into the audit: changes when they are answered, refusals when they are told; see
 * audit.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/shell/routes.h"
#include "controller/shell/service.h"

enum { AUDIT_OBJECT_BYTES = 128, AUDIT_REASON_BYTES = 512 };

/* What is known of a change when it is asked for. */
struct audit_note {
    struct rpc_peer peer;
    char object[AUDIT_OBJECT_BYTES];
    char model[BATON_NAME_BYTES];
    char reason[AUDIT_REASON_BYTES];
    char requested_by[BATON_TEXT_BYTES];
    char request_id[BATON_TEXT_BYTES];
    uint64_t revision_before;
};

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static void copy(char *out, size_t out_bytes, const char *text)
{
    (void)snprintf(out, out_bytes, "%s", text != NULL ? text : "");
}

static void name_version(struct audit_note *note, const struct controller *core, const char *uid)
{
    const struct version_record *version = view_version_find_uid(core, uid);
    (void)snprintf(note->object, sizeof(note->object), "version/%.64s", uid);
    if (version != NULL) {
        copy(note->model, sizeof(note->model), version->model);
    }
}

/* What the request is about: the narrowest thing that it names. */
static void name_object(struct audit_note *note, const struct controller *core,
                        const struct request *request)
{
    const struct group_record *group =
        is_given(request->group) ? view_group_find(core, request->group) : NULL;
    copy(note->model, sizeof(note->model), group != NULL ? group->model : request->model);
    if (is_given(request->group)) {
        (void)snprintf(note->object, sizeof(note->object), "group/%.63s", request->group);
    } else if (is_given(request->agent)) {
        (void)snprintf(note->object, sizeof(note->object), "agent/%.63s", request->agent);
    } else if (is_given(request->version_uid)) {
        name_version(note, core, request->version_uid);
    } else if (is_given(request->model) && request->to_seq != 0) {
        (void)snprintf(note->object, sizeof(note->object), "version/%.63s@%llu", request->model,
                       (unsigned long long)request->to_seq);
    } else if (is_given(request->model)) {
        (void)snprintf(note->object, sizeof(note->object), "model/%.63s", request->model);
    } else {
        (void)snprintf(note->object, sizeof(note->object), "store");
    }
}

static struct audit_note *make_note(const struct daemon *daemon, struct rpc_call *call,
                                    const struct request *request)
{
    struct audit_note *note = calloc(1, sizeof(*note));
    baton_assert(note != NULL);
    rpc_call_peer(call, &note->peer);
    name_object(note, daemon->core, request);
    copy(note->reason, sizeof(note->reason), request->options.reason);
    copy(note->requested_by, sizeof(note->requested_by), request->options.requested_by);
    copy(note->request_id, sizeof(note->request_id), request->options.request_id);
    note->revision_before = view_revision(daemon->core);
    return note;
}

struct audit_note *service_audit_begin(struct daemon *daemon, struct rpc_call *call,
                                       const struct request *request)
{
    const struct rule *rule = rules_find(rpc_call_method(call));
    bool wanted = daemon->audit != NULL && rule != NULL && rule->audited;
    return wanted ? make_note(daemon, call, request) : NULL;
}

static void write_note(struct daemon *daemon, const struct rpc_call *call,
                       const struct audit_note *note, const struct baton_status *status)
{
    bool changed = baton_ok(status) && daemon->core != NULL;
    struct audit_entry entry = { .principal = note->peer.identity,
                                 .address = note->peer.address,
                                 .requested_by = note->requested_by,
                                 .method = rpc_call_method(call),
                                 .object = note->object,
                                 .model = note->model,
                                 .reason = note->reason,
                                 .request_id = note->request_id,
                                 .revision_before = note->revision_before,
                                 .revision_after =
                                     changed ? view_revision(daemon->core) : note->revision_before,
                                 .status = status };
    audit_write(daemon->audit, &entry);
}

void service_audit_end(struct daemon *daemon, struct pending *pending,
                       const struct baton_status *status)
{
    if (pending->note != NULL) {
        write_note(daemon, pending->call, pending->note, status);
        free(pending->note);
        pending->note = NULL;
    }
}

void service_audit_refused_change(struct daemon *daemon, struct rpc_call *call,
                                  const struct request *request, const struct baton_status *status)
{
    stats_refused(daemon->stats, status->code);
    if (daemon->audit != NULL) {
        struct audit_note *note = make_note(daemon, call, request);
        write_note(daemon, call, note, status);
        free(note);
    }
}

/* A text of a request whose type is not known here; "" if it has none of that name. */
static const char *text_field(const ProtobufCMessage *message, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        message != NULL ? protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name)
                        : NULL;
    bool is_text = field != NULL && field->type == PROTOBUF_C_TYPE_STRING &&
                   field->label != PROTOBUF_C_LABEL_REPEATED;
    return is_text ? *(char *const *)((const uint8_t *)message + field->offset) : "";
}

/* What a refused request is about. */
static void name_request(const struct rpc_call *call, char object[AUDIT_OBJECT_BYTES])
{
    static const char *const fields[][2] = {
        { "group", "group" },
        { "agent", "agent" },
        { "version_uid", "version" },
        { "model", "model" },
    };
    const ProtobufCMessage *request = rpc_call_request(call);
    bool is_model = strncmp(rpc_call_method(call), "baton.v1.Models/", 16) == 0;
    const char *name = text_field(request, "name");
    object[0] = '\0';
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const char *text = text_field(request, fields[i][0]);
        if (text[0] != '\0') {
            (void)snprintf(object, AUDIT_OBJECT_BYTES, "%s/%.64s", fields[i][1], text);
            return;
        }
    }
    if (name[0] != '\0') {
        (void)snprintf(object, AUDIT_OBJECT_BYTES, "%s/%.64s", is_model ? "model" : "group", name);
    }
}

/* Null: the request has none. */
static const Baton__V1__MutationOptions *options_of(const struct rpc_call *call)
{
    const ProtobufCMessage *request = rpc_call_request(call);
    const ProtobufCFieldDescriptor *field =
        request != NULL
            ? protobuf_c_message_descriptor_get_field_by_name(request->descriptor, "options")
            : NULL;
    bool is_options = field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE &&
                      field->descriptor == &baton__v1__mutation_options__descriptor;
    return is_options
               ? *(Baton__V1__MutationOptions *const *)((const uint8_t *)request + field->offset)
               : NULL;
}

void service_audit_refused(struct daemon *daemon, struct rpc_call *call, const char *object,
                           const struct baton_status *status)
{
    struct rpc_peer peer;
    char name[AUDIT_OBJECT_BYTES];
    const Baton__V1__MutationOptions *options = options_of(call);
    rpc_call_peer(call, &peer);
    name_request(call, name);
    stats_refused(daemon->stats, status->code);
    struct audit_entry entry = { .principal = peer.identity,
                                 .address = peer.address,
                                 .requested_by = options != NULL ? options->requested_by : NULL,
                                 .method = rpc_call_method(call),
                                 .object = object != NULL ? object : name,
                                 .reason = options != NULL ? options->reason : NULL,
                                 .request_id = rpc_call_request_id(call),
                                 .status = status };
    audit_write(daemon->audit, &entry);
}

void serve_audit_list(struct rpc_call *call, const void *request, void *context)
{
    struct daemon *daemon = context;
    (void)request;
    if (daemon->audit == NULL) {
        struct baton_status st =
            baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                                "this controller keeps no audit"),
                              "set audit.file in the controller's file; with a sqlite: store there "
                              "is one by default");
        rpc_finish(call, &st);
        return;
    }
    audit_answer(daemon->audit, call);
}
