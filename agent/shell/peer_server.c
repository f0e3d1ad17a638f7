/* peer_server.c -- see peer_server.h. */
#include "agent/shell/peer_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shell/peer_identity.h"
#include "agent/shell/peer_message.h"
#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/rpc/rpc.h"
#include "api/wire/wire.h"

enum {
    LEADERS_MAX = BATON_GROUPS_PER_AGENT_MAX,
    CALLS_MAX = 4 * LEADERS_MAX,
    GRACE_S = 1,
    REFUSALS_TOLD_S = 10
};

/* The newest stream of a leader. */
struct leader {
    char name[BATON_NAME_BYTES];
    struct rpc_call *call; /* Referenced; null: none. */
};

struct peer_server {
    struct peer_server_options options;
    struct rpc_server *rpc;
    struct leader leaders[LEADERS_MAX];
    uint32_t leaders_count;
    struct rpc_call *stranger; /* While its command is delivered: of nobody whom the file names. */
    uint64_t refused;          /* Commands whose caller is not the leader that it says to be. */
    uint64_t refusal_told_ns;  /* When the log had the last of them; 0: never. */
};

/* On its way from an RPC thread to the loop. */
struct news {
    struct peer_server *server;
    struct rpc_call *call; /* Referenced. */
    void *message;         /* Null: the stream is over. */
};

void peer_server_discard(void *argument)
{
    struct news *news = argument;
    rpc_call_unref(news->call);
    baton_wire_free(news->message);
    free(news);
}

/* --- on the loop's thread --- */

static struct leader *find(struct peer_server *server, const char *name)
{
    for (uint32_t i = 0; i < server->leaders_count; i++) {
        if (strcmp(server->leaders[i].name, name) == 0) {
            return &server->leaders[i];
        }
    }
    return NULL;
}

static void refuse(struct rpc_call *call, const char *why)
{
    struct baton_status st =
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE, "%s", why);
    rpc_finish(call, &st);
}

/* Some group of this agent names it as leader. */
static bool is_leader(const struct peer_server *server, const char *name)
{
    const struct agent_config *core = &server->options.config->core;
    for (uint32_t i = 0; i < core->groups_count; i++) {
        if (name[0] != '\0' && strcmp(core->groups[i].leader, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Before anything that the caller says is believed. */
static struct baton_status check_identity(const struct peer_server *server,
                                          const struct rpc_call *call, const char *leader)
{
    const struct shell_config *config = server->options.config;
    struct rpc_peer peer;
    rpc_call_peer(call, &peer);
    return peer_identity_is_leader(&peer, config->listen_leader, leader, config->insecure)
               ? baton_status_ok()
               : peer_identity_refusal(&peer, leader);
}

/* Who is not the leader may try as often as it likes: the log has one line in a while. */
static void refuse_identity(struct peer_server *server, struct rpc_call *call,
                            const struct baton_status *st)
{
    uint64_t now_ns = baton_clock_monotonic_ns();
    char what[96];
    server->refused++;
    rpc_finish(call, st);
    if (server->refusal_told_ns == 0 ||
        now_ns - server->refusal_told_ns >= REFUSALS_TOLD_S * BATON_NS_PER_S) {
        server->refusal_told_ns = now_ns;
        (void)snprintf(what, sizeof(what), "a leader's command is refused (%llu of this kind)",
                       (unsigned long long)server->refused);
        baton_log_status(BATON_LOG_ERROR, "peer", what, st);
    }
}

/* True: the call is its leader's newest stream. */
static bool take_stream(struct peer_server *server, const char *name, struct rpc_call *call)
{
    struct leader *leader = find(server, name);
    if (leader == NULL) {
        leader = &server->leaders[server->leaders_count++]; /* A leader a group at most. */
        (void)baton_text_copy(leader->name, sizeof(leader->name), name);
    }
    if (leader->call == call) {
        return true;
    }
    if (rpc_call_data(call) != NULL) {
        return false; /* It was the newest once, and is not any more. */
    }
    if (leader->call != NULL) {
        refuse(leader->call, "a newer link of the same leader replaces this one");
        rpc_call_unref(leader->call);
    }
    rpc_call_set_data(call, server);
    leader->call = rpc_call_ref(call);
    baton_log(BATON_LOG_INFO, "peer", "leader %s: connected", name);
    return true;
}

static void take_command(struct peer_server *server, struct rpc_call *call,
                         const struct agent_peer_command *command)
{
    struct baton_status st = check_identity(server, call, command->leader);
    bool known = is_leader(server, command->leader);
    if (!baton_ok(&st)) {
        refuse_identity(server, call, &st);
    } else if (!known || take_stream(server, command->leader, call)) {
        struct agent_event event = { .kind = AGENT_EVENT_PEER_COMMAND, .command = command };
        server->stranger = known ? NULL : call; /* The core says by name why it will not. */
        server->options.deliver(server->options.context, &event);
        server->stranger = NULL;
    }
}

static void take_message(struct peer_server *server, struct rpc_call *call, const void *message)
{
    struct link_memory memory = { .count = 0 };
    struct agent_peer_command command;
    struct baton_status st = peer_command_from(message, &command, &memory);
    if (baton_ok(&st)) {
        take_command(server, call, &command);
    } else {
        baton_log_status(BATON_LOG_ERROR, "peer", "a leader's command is refused", &st);
        rpc_finish(call, &st);
    }
    link_memory_free(&memory);
}

static void forget(struct peer_server *server, const struct rpc_call *call)
{
    for (uint32_t i = 0; i < server->leaders_count; i++) {
        if (server->leaders[i].call == call) {
            rpc_call_unref(server->leaders[i].call);
            server->leaders[i].call = NULL;
        }
    }
}

void peer_server_news(void *target, void *argument)
{
    struct news *news = argument;
    (void)target;
    if (news->message == NULL) {
        forget(news->server, news->call);
    } else {
        take_message(news->server, news->call, news->message);
        rpc_call_read_next(news->call);
    }
    peer_server_discard(news);
}

void peer_server_answer(struct peer_server *server, const char *name,
                        const struct agent_peer_result *result)
{
    const struct leader *leader = find(server, name);
    struct rpc_call *call = leader != NULL ? leader->call : server->stranger;
    if (call == NULL) {
        return;
    }
    void *message = peer_result_message(result);
    struct baton_status st = rpc_send(call, message);
    if (!baton_ok(&st) && st.code != BATON_CANCELLED) {
        baton_log_status(BATON_LOG_WARN, "peer", "an answer to a leader was not sent", &st);
    }
    baton_wire_free(message);
}

/* --- on rpc threads --- */

static void post(struct rpc_call *call, void *message, void *context)
{
    struct peer_server *server = context;
    struct news *news = calloc(1, sizeof(*news));
    baton_assert(news != NULL);
    *news = (struct news){ server, rpc_call_ref(call), message };
    baton_mailbox_post_sure(server->options.mailbox, peer_server_news, news);
}

static void on_message(struct rpc_call *call, void *message, void *context)
{
    post(call, message, context);
}

static void on_half_close(struct rpc_call *call, void *context)
{
    struct baton_status ok = baton_status_ok();
    (void)context;
    rpc_finish(call, &ok);
}

static void on_refused(const struct rpc_refused *refused, void *context)
{
    (void)context;
    if (refused->why[0] != '\0') {
        rpc_refused_log(refused, "agent");
    }
}

static void on_done(struct rpc_call *call, bool cancelled, void *context)
{
    (void)cancelled;
    post(call, NULL, context);
}

static void serve_link(struct rpc_call *call, const void *request, void *context)
{
    static const struct rpc_receiver receiver = { on_message, on_half_close, on_done };
    (void)request;
    rpc_call_receive(call, &receiver, context);
}

/* --- create --- */

struct baton_status peer_server_create(const struct peer_server_options *options,
                                       struct peer_server **out)
{
    static const struct rpc_route routes[] = { { "baton.v1.SwapPeer/Link", serve_link,
                                                 CALLS_MAX } };
    const struct shell_config *config = options->config;
    bool asks = config->listen_client_ca[0] != '\0';
    struct rpc_tls tls = { .cert_file = config->listen_cert,
                           .key_file = config->listen_key,
                           .ca_file = asks ? config->listen_client_ca : NULL,
                           .require_client = asks };
    struct rpc_listener listener = { config->listen, config->listen_cert[0] != '\0' ? &tls : NULL };
    struct peer_server *server = calloc(1, sizeof(*server));
    baton_assert(server != NULL);
    server->options = *options;
    struct rpc_server_options rpc = { .routes = routes,
                                      .routes_count = 1,
                                      .context = server,
                                      .on_refused = on_refused,
                                      .connections_per_address_max = config->listen_connections_max,
                                      .listeners = &listener,
                                      .listeners_count = 1 };
    struct baton_status st = rpc_server_create(&rpc, &server->rpc);
    if (!baton_ok(&st)) {
        free(server);
        return baton_status_in(st, "listen");
    }
    rpc_server_start(server->rpc);
    rpc_health_set_all(server->rpc, RPC_HEALTH_SERVING);
    *out = server;
    return st;
}

uint16_t peer_server_port(const struct peer_server *server)
{
    return rpc_server_port(server->rpc, 0);
}

uint64_t peer_server_refused(const struct peer_server *server)
{
    return server != NULL ? server->refused : 0;
}

void peer_server_drain(struct peer_server *server)
{
    if (server == NULL) {
        return;
    }
    rpc_server_drain(server->rpc, GRACE_S * BATON_NS_PER_S);
    for (uint32_t i = 0; i < server->leaders_count; i++) {
        rpc_call_unref(server->leaders[i].call);
        server->leaders[i].call = NULL;
    }
}

void peer_server_destroy(struct peer_server *server)
{
    if (server != NULL) {
        rpc_server_destroy(server->rpc);
        free(server);
    }
}
