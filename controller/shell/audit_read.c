/* audit_read.c -- the reading half; see audit.h. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "api/wire/wire.h"
#include "baton/v1/audit.pb-c.h"
#include "controller/shell/audit_file.h"

enum {
    ENTRIES_DEFAULT = 100,
    ENTRIES_MAX = 500,
    REPLY_BYTES_MAX = BATON_MESSAGE_BYTES_MAX / 4 * 3
};

/* One question, and the newest entries so far that answer it. */
struct search {
    const Baton__V1__ListAuditRequest *request;
    uint64_t since_ns;
    uint64_t below;       /* Only lower numbers. */
    uint64_t last_number; /* Of a file that was read: a line that comes twice counts once. */
    size_t count_max;
    size_t found; /* Ever; the newest of them are kept, in turn. */
    Baton__V1__AuditEntry *kept[ENTRIES_MAX];
};

static bool is_about(const Baton__V1__AuditEntry *entry, const char *object)
{
    static const char MODEL[] = "model/";
    return object[0] == '\0' || strcmp(entry->object, object) == 0 ||
           (strncmp(object, MODEL, sizeof(MODEL) - 1) == 0 &&
            strcmp(entry->model, object + sizeof(MODEL) - 1) == 0);
}

static bool is_wanted(struct search *search, const Baton__V1__AuditEntry *entry)
{
    const Baton__V1__ListAuditRequest *request = search->request;
    uint64_t at_ns = 0;
    struct baton_status st = baton_wire_timestamp_ns(entry->at, "at", &at_ns);
    return baton_ok(&st) && at_ns >= search->since_ns && entry->number < search->below &&
           entry->number > search->last_number && is_about(entry, request->object) &&
           (request->principal[0] == '\0' || strstr(entry->principal, request->principal) != NULL ||
            strstr(entry->requested_by, request->principal) != NULL) &&
           (!request->refused || strcmp(entry->outcome, "OK") != 0);
}

/* A line that is no entry (torn, or a person's) is passed over. */
static void take_line(struct search *search, const char *line)
{
    ProtobufCMessage *message = NULL;
    json_t *json = json_loads(line, 0, NULL);
    struct baton_status st = baton_status_ok();
    if (json == NULL) {
        return;
    }
    st = baton_wire_from_json(&baton__v1__audit_entry__descriptor, json, &message);
    json_decref(json);
    if (!baton_ok(&st)) {
        return;
    }
    Baton__V1__AuditEntry *entry = (Baton__V1__AuditEntry *)message;
    bool wanted = is_wanted(search, entry);
    search->last_number = entry->number > search->last_number ? entry->number : search->last_number;
    if (wanted) {
        Baton__V1__AuditEntry **place = &search->kept[search->found++ % search->count_max];
        baton_wire_free(*place);
        *place = entry;
    } else {
        baton_wire_free(entry);
    }
}

/* Opened together, so that a rotation in between takes none away; oldest first. */
static size_t open_files(struct audit *audit, FILE *files[AUDIT_KEEP_MAX + 1])
{
    size_t count = 0;
    char path[AUDIT_PATH_BYTES];
    pthread_mutex_lock(&audit->mutex);
    for (uint32_t age = audit->keep + 1; age > 0; age--) {
        audit_path(audit, age - 1, path);
        FILE *file = fopen(path, "re");
        if (file != NULL) {
            files[count++] = file;
        }
    }
    pthread_mutex_unlock(&audit->mutex);
    return count;
}

static void read_files(struct audit *audit, struct search *search)
{
    FILE *files[AUDIT_KEEP_MAX + 1];
    char *line = NULL;
    size_t room = 0;
    size_t count = open_files(audit, files);
    for (size_t i = 0; i < count; i++) {
        while (getline(&line, &room, files[i]) > 0) {
            take_line(search, line);
        }
        (void)fclose(files[i]);
    }
    free(line);
}

/* Newest first, as many as a message holds. */
static void reply(struct search *search, struct rpc_call *call)
{
    Baton__V1__ListAuditResponse *response =
        baton_wire_new(&baton__v1__list_audit_response__descriptor);
    size_t kept = search->found < search->count_max ? search->found : search->count_max;
    size_t bytes = 0;
    response->entries = baton_wire_take(response, kept, sizeof(*response->entries));
    for (size_t i = 0; i < kept; i++) {
        Baton__V1__AuditEntry *entry = search->kept[(search->found - 1 - i) % search->count_max];
        bytes += baton_wire_size(entry) + 16;
        if (i > 0 && bytes > REPLY_BYTES_MAX) {
            break;
        }
        response->entries[response->n_entries++] = entry;
    }
    if (response->n_entries < search->found) {
        response->next_page_token = baton_wire_textf(
            response, "%llu",
            (unsigned long long)response->entries[response->n_entries - 1]->number);
    }
    rpc_reply(call, response);
    response->n_entries = 0; /* They have roots of their own. */
    baton_wire_free(response);
}

static void answer_work(void *target, void *argument)
{
    struct rpc_call *call = argument;
    struct search *search = calloc(1, sizeof(*search));
    baton_assert(search != NULL);
    search->request = rpc_call_request(call);
    const Baton__V1__ListAuditRequest *request = search->request;
    uint32_t asked = request->page_size != 0 ? request->page_size : ENTRIES_DEFAULT;
    search->count_max = asked < ENTRIES_MAX ? asked : ENTRIES_MAX;
    search->below =
        request->page_token[0] != '\0' ? strtoull(request->page_token, NULL, 10) : UINT64_MAX;
    struct baton_status st = baton_wire_timestamp_ns(request->since, "since", &search->since_ns);
    if (baton_ok(&st)) {
        read_files(target, search);
        reply(search, call);
    } else {
        rpc_finish(call, &st);
    }
    for (size_t i = 0; i < search->count_max; i++) {
        baton_wire_free(search->kept[i]);
    }
    free(search);
    rpc_call_unref(call);
}

void audit_answer(struct audit *audit, struct rpc_call *call)
{
    struct rpc_call *held = rpc_call_ref(call);
    if (!baton_mailbox_post(audit->mailbox, answer_work, held)) {
        struct baton_status st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                                   "too many questions to the audit at one time");
        rpc_finish(call, &st);
        rpc_call_unref(held);
    }
}

void *audit_read_thread(void *argument)
{
    struct audit *audit = argument;
    while (!audit->stopping) {
        struct baton_mailbox_item item;
        if (baton_mailbox_take(audit->mailbox, UINT64_MAX, &item)) {
            item.run(audit, item.argument);
        }
    }
    return NULL;
}
