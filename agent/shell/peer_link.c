/* peer_link.c -- see peer_link.h. */
#include "agent/shell/peer_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shell/peer_message.h"
#include "api/base/backoff.h"
#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/base/random.h"
#include "api/rpc/rpc.h"
#include "api/wire/wire.h"

enum {
    BACKOFF_FIRST_MS = 100,
    BACKOFF_MAX_MS = 2000,
    SILENT_S = 10, /* A follower says something each second. */
    LINKS_MAX = BATON_GROUPS_PER_AGENT_MAX * BATON_FOLLOWERS_PER_GROUP_MAX,
};

struct peer_link {
    struct peer_links *links;
    const struct agent_member_config *member;
    struct rpc_client *client;
    struct rpc_stream *stream; /* Null: none. */
    uint64_t life;             /* Of the present stream; news of earlier ones is ignored. */
    bool up;
    bool closing; /* The core is to be told that it is down. */
    uint64_t heard_ns;
    uint64_t open_ns;
    struct baton_backoff backoff;
};

struct peer_links {
    struct peer_links_options options;
    struct baton_random random;
    struct peer_link *items[LINKS_MAX];
    uint32_t count;
};

enum news_kind { NEWS_OPEN, NEWS_MESSAGE, NEWS_END };

/* News of a stream on its way to the loop. */
struct news {
    enum news_kind kind;
    struct peer_link *link;
    uint64_t life;
    struct rpc_stream *stream; /* Referenced. */
    void *message;
    struct baton_status status;
};

void peer_links_discard(void *argument)
{
    struct news *news = argument;
    rpc_stream_unref(news->stream);
    baton_wire_free(news->message);
    free(news);
}

/* --- on the loop's thread --- */

static void tell(struct peer_link *link, enum agent_event_kind kind)
{
    struct agent_event event = { .kind = kind, .peer = link->member->agent };
    link->links->options.deliver(link->links->options.context, &event);
}

static void drop_stream(struct peer_link *link)
{
    if (link->stream == NULL) {
        return;
    }
    rpc_stream_cancel(link->stream);
    rpc_stream_unref(link->stream);
    link->stream = NULL;
    link->life++;
    link->closing = link->up;
    link->up = false;
    link->open_ns =
        baton_clock_monotonic_ns() + baton_backoff_next_ns(&link->backoff, &link->links->random);
}

static void take_message(struct peer_link *link, const void *message)
{
    struct link_memory memory = { .count = 0 };
    struct agent_peer_result result;
    struct baton_status st = peer_result_from(message, &result, &memory);
    if (baton_ok(&st)) {
        struct agent_event event = { .kind = AGENT_EVENT_PEER_RESULT,
                                     .peer_result = { link->member->agent, &result } };
        baton_backoff_reset(&link->backoff);
        link->links->options.deliver(link->links->options.context, &event);
    } else {
        baton_log_status(BATON_LOG_ERROR, "peer", "a member's message is refused", &st);
        drop_stream(link);
    }
    link_memory_free(&memory);
}

static void take_news(struct peer_link *link, const struct news *news)
{
    link->heard_ns = baton_clock_monotonic_ns();
    if (news->kind == NEWS_OPEN) {
        link->up = true;
        baton_log(BATON_LOG_INFO, "peer", "member %s: connected", link->member->agent);
        tell(link, AGENT_EVENT_PEER_UP);
    } else if (news->kind == NEWS_MESSAGE && link->up) {
        take_message(link, news->message);
    } else if (news->kind == NEWS_END) {
        baton_log_status(link->up ? BATON_LOG_WARN : BATON_LOG_DEBUG, "peer",
                         "the link to a member ended; trying again", &news->status);
        drop_stream(link);
    }
}

void peer_links_news(void *target, void *argument)
{
    struct news *news = argument;
    struct peer_link *link = news->link;
    (void)target;
    if (news->life == link->life && link->stream != NULL) {
        take_news(link, news);
    }
    if (news->kind == NEWS_MESSAGE) {
        rpc_stream_read_next(news->stream);
    }
    peer_links_discard(news);
}

/* --- on rpc threads --- */

struct stream_context {
    struct peer_link *link;
    struct baton_mailbox *mailbox;
    uint64_t life;
};

static void post(struct rpc_stream *stream, enum news_kind kind, void *message,
                 const struct baton_status *status, const struct stream_context *context)
{
    struct news *news = calloc(1, sizeof(*news));
    baton_assert(news != NULL);
    *news = (struct news){ kind,    context->link, context->life, rpc_stream_ref(stream),
                           message, *status };
    baton_mailbox_post_sure(context->mailbox, peer_links_news, news);
}

static void on_open(struct rpc_stream *stream, void *context)
{
    struct baton_status ok = baton_status_ok();
    post(stream, NEWS_OPEN, NULL, &ok, context);
}

static void on_message(struct rpc_stream *stream, void *message, void *context)
{
    struct baton_status ok = baton_status_ok();
    post(stream, NEWS_MESSAGE, message, &ok, context);
}

static void on_end(struct rpc_stream *stream, const struct baton_status *status, void *context)
{
    post(stream, NEWS_END, NULL, status, context);
    free(context);
}

/* --- opening --- */

static void open_stream(struct peer_link *link)
{
    static const struct rpc_stream_events events = { on_open, on_message, NULL, on_end };
    struct rpc_call_options options = { .wait_for_ready = true };
    struct stream_context *context = malloc(sizeof(*context));
    baton_assert(context != NULL);
    *context = (struct stream_context){ link, link->links->options.mailbox, ++link->life };
    link->heard_ns = baton_clock_monotonic_ns();
    link->stream =
        rpc_stream_open(link->client, "baton.v1.SwapPeer/Link", NULL, &options, &events, context);
}

static uint64_t deadline_ns(const struct peer_link *link)
{
    if (link->closing) {
        return 0;
    }
    return link->stream == NULL ? link->open_ns : link->heard_ns + SILENT_S * BATON_NS_PER_S;
}

uint64_t peer_links_deadline_ns(const struct peer_links *links)
{
    uint64_t deadline = UINT64_MAX;
    for (uint32_t i = 0; i < links->count; i++) {
        uint64_t of_link = deadline_ns(links->items[i]);
        deadline = of_link < deadline ? of_link : deadline;
    }
    return deadline;
}

static void run(struct peer_link *link, uint64_t now_ns)
{
    if (link->closing) {
        link->closing = false;
        tell(link, AGENT_EVENT_PEER_DOWN);
    }
    if (now_ns < deadline_ns(link)) {
        return;
    }
    if (link->stream != NULL) { /* Connected or not: nothing came for too long. */
        drop_stream(link);
        return;
    }
    open_stream(link);
}

void peer_links_run(struct peer_links *links, uint64_t now_ns)
{
    for (uint32_t i = 0; i < links->count; i++) {
        run(links->items[i], now_ns);
    }
}

static struct peer_link *find(const struct peer_links *links, const char *agent)
{
    for (uint32_t i = 0; i < links->count; i++) {
        if (strcmp(links->items[i]->member->agent, agent) == 0) {
            return links->items[i];
        }
    }
    return NULL;
}

void peer_links_send(struct peer_links *links, const char *agent,
                     const struct agent_peer_command *command)
{
    struct peer_link *link = find(links, agent);
    if (link == NULL || link->stream == NULL || !link->up) {
        return;
    }
    void *message = peer_command_message(command);
    struct baton_status st = rpc_stream_send(link->stream, message);
    if (!baton_ok(&st)) {
        drop_stream(link);
    }
    baton_wire_free(message);
}

/* --- create --- */

static struct baton_status add(struct peer_links *links, const struct agent_member_config *member)
{
    const struct shell_config *config = links->options.config;
    struct rpc_tls tls = { .ca_file = config->peer_ca,
                           .cert_file = config->peer_cert[0] != '\0' ? config->peer_cert : NULL,
                           .key_file = config->peer_key[0] != '\0' ? config->peer_key : NULL };
    struct rpc_client_options options = { .target = member->address,
                                          .tls = config->peer_ca[0] != '\0' ? &tls : NULL,
                                          .keepalive_ns = SILENT_S * BATON_NS_PER_S,
                                          .keepalive_timeout_ns = SILENT_S * BATON_NS_PER_S / 2,
                                          .user_agent = "baton-agent/" BATON_VERSION };
    struct peer_link *link = calloc(1, sizeof(*link));
    baton_assert(link != NULL);
    link->links = links;
    link->member = member;
    link->backoff =
        baton_backoff_of(BACKOFF_FIRST_MS * BATON_NS_PER_MS, BACKOFF_MAX_MS * BATON_NS_PER_MS);
    links->items[links->count++] = link;
    return rpc_client_create(&options, &link->client);
}

/* Two groups may have the same follower; then it has one address. */
static struct baton_status add_once(struct peer_links *links,
                                    const struct agent_member_config *member)
{
    const struct peer_link *link = find(links, member->agent);
    if (link == NULL) {
        return add(links, member);
    }
    if (strcmp(link->member->address, member->address) != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "groups: member %s has two addresses: %.150s and %.150s",
                                 member->agent, link->member->address, member->address);
    }
    return baton_status_ok();
}

struct baton_status peer_links_create(const struct peer_links_options *options,
                                      struct peer_links **out)
{
    uint64_t seed;
    struct peer_links *links = calloc(1, sizeof(*links));
    struct baton_status st = baton_status_ok();
    baton_assert(links != NULL);
    links->options = *options;
    baton_random_secure(&seed, sizeof(seed));
    baton_random_seed(&links->random, seed);
    *out = links;
    for (uint32_t g = 0; g < options->config->core.groups_count; g++) {
        const struct agent_group_config *group = &options->config->core.groups[g];
        for (uint32_t i = 0; baton_ok(&st) && i < group->followers_count; i++) {
            st = add_once(links, &group->followers[i]);
        }
    }
    return st;
}

void peer_links_destroy(struct peer_links *links)
{
    for (uint32_t i = 0; links != NULL && i < links->count; i++) {
        struct peer_link *link = links->items[i];
        if (link->stream != NULL) {
            rpc_stream_cancel(link->stream);
            rpc_stream_unref(link->stream);
        }
        rpc_client_destroy(link->client);
        free(link);
    }
    free(links);
}
