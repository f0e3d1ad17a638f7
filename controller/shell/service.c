/* service.c -- see service.h. */
#include "controller/shell/service.h"

#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "controller/shell/endpoints.h"
#include "controller/shell/summaries.h"

enum { PAGE_BYTES_MAX = BATON_MESSAGE_BYTES_MAX / 4 * 3 };

static void ended_work(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct rpc_call *call = argument;
    watch_end(daemon, call);
    endpoints_end(daemon, call);
    summaries_end(daemon, call);
    for (struct pending **at = &daemon->pendings; *at != NULL; at = &(*at)->next) {
        struct pending *pending = *at;
        if (pending->call == call) {
            struct event event = { .kind = EVENT_WAIT_CANCEL, .body.wait_handle = pending->handle };
            *at = pending->next;
            rpc_call_unref(pending->call);
            free(pending->data);
            free(pending->note);
            free(pending);
            daemon_step(daemon, &event);
            break;
        }
    }
    rpc_call_unref(call);
}

static void on_done(struct rpc_call *call, bool cancelled, void *context)
{
    struct daemon *daemon = context;
    (void)cancelled;
    baton_mailbox_post_sure(daemon->mailbox, ended_work, rpc_call_ref(call));
}

const struct rpc_receiver service_end_receiver = { NULL, NULL, on_done };

void service_reply(struct rpc_call *call, void *message)
{
    rpc_reply(call, message);
    baton_wire_free(message);
    rpc_call_unref(call);
}

void service_fail(struct rpc_call *call, struct baton_status status)
{
    rpc_finish(call, &status);
    rpc_call_unref(call);
}

void service_not_found(struct rpc_call *call, const char *kind, const char *name)
{
    service_fail(call, baton_status_hint(baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                                           "no %s '%.120s'", kind, name),
                                         "`batonctl get %ss` lists them", kind));
}

struct request_options service_options(struct rpc_call *call,
                                       const Baton__V1__MutationOptions *options,
                                       struct rpc_peer *peer)
{
    struct request_options out = { .request_id = rpc_call_request_id(call) };
    rpc_call_peer(call, peer);
    if (options != NULL) {
        out.request_id = options->request_id[0] != '\0' ? options->request_id : out.request_id;
        out.expected_revision = options->expected_revision;
        out.reason = options->reason;
        out.requested_by = options->requested_by;
    }
    if (peer->principal == RPC_PRINCIPAL_CERTIFICATE || peer->principal == RPC_PRINCIPAL_TOKEN) {
        out.requested_by = peer->identity;
    }
    return out;
}

void service_mutate(struct daemon *daemon, struct rpc_call *call,
                    const Baton__V1__MutationOptions *options, struct request *request)
{
    struct rpc_peer peer;
    request->options = service_options(call, options, &peer);
    daemon_request(daemon, call, request, NULL, NULL);
}

struct service_page service_page_begin(uint32_t asked)
{
    uint32_t max = asked == 0 || asked > BATON_PAGE_ITEMS_MAX ? BATON_PAGE_ITEMS_MAX : asked;
    return (struct service_page){ .items_max = max };
}

bool service_page_add(struct service_page *page, const void *message)
{
    size_t bytes = baton_wire_size(message) + 16; /* With its tag and length. */
    bool fits =
        page->items < page->items_max && (page->items == 0 || page->bytes + bytes < PAGE_BYTES_MAX);
    page->items += fits;
    page->bytes += fits ? bytes : 0;
    return fits;
}

void service_token_split(char *token, const char *parts[], size_t parts_max)
{
    for (size_t i = 0; i < parts_max; i++) {
        parts[i] = token;
        char *slash = strchr(token, '/');
        if (slash == NULL || i + 1 == parts_max) {
            token += strlen(token);
        } else {
            *slash = '\0';
            token = slash + 1;
        }
    }
}
