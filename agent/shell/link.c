/* link.c -- life of the stream; see link.h. */
#include "agent/shell/link.h"

#include <stdlib.h>

#include "agent/shell/link_message.h"
#include "api/base/backoff.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/base/random.h"
#include "api/rpc/rpc.h"
#include "api/wire/wire.h"

/* Where one of several controllers leads, the next leader is there within seconds. */
enum { BACKOFF_FIRST_MS = 200, BACKOFF_MAX_MS = 5000, BACKOFF_CHOICE_MS = 500, REDIRECTS_MAX = 3 };

struct link {
    struct link_options options;
    struct rpc_stream *stream; /* Null: none. */
    uint64_t life;             /* Of the present stream; news of earlier ones is ignored. */
    bool wanted;
    bool connected;        /* Something came down. */
    uint64_t connected_ns; /* When the first did. */
    bool closing;          /* link_run() has to tell that the session ended. */
    uint32_t redirects;    /* In a row that were followed at once. */
    uint64_t open_ns;
    struct baton_backoff backoff;
    struct baton_random random;
};

/* News of a stream on its way to the loop. */
struct news {
    struct link *link;
    uint64_t life;
    struct rpc_stream *stream; /* Referenced. */
    void *message;             /* Null: the stream ended. */
    struct baton_status status;
};

static void free_news(struct news *news)
{
    rpc_stream_unref(news->stream);
    baton_wire_free(news->message);
    free(news);
}

void link_discard(void *argument)
{
    free_news(argument);
}

static void deliver(struct link *link, struct agent_event *event)
{
    link->options.deliver(link->options.context, event);
}

/* --- on the loop's thread --- */

/* A session that lasted was a good one; those that end at once are tried again ever more seldom. */
static void drop_stream(struct link *link)
{
    if (link->stream == NULL) {
        return;
    }
    uint64_t now_ns = baton_clock_monotonic_ns();
    if (link->connected && now_ns - link->connected_ns >= BACKOFF_MAX_MS * BATON_NS_PER_MS) {
        baton_backoff_reset(&link->backoff);
    }
    rpc_stream_cancel(link->stream);
    rpc_stream_unref(link->stream);
    link->stream = NULL;
    link->life++;
    link->connected = false;
    link->closing = true;
    link->open_ns = now_ns + baton_backoff_next_ns(&link->backoff, &link->random);
}

static void take_message(struct link *link, const struct news *news)
{
    struct link_memory memory = { .count = 0 };
    struct agent_event event = { .kind = AGENT_EVENT_TIMER };
    const void *access = link_peer_access(news->message);
    if (access != NULL) {
        if (link->options.peer_access != NULL) {
            link->options.peer_access(link->options.context, access);
        }
        return;
    }
    struct baton_status st = link_event_from(news->message, &event, &memory);
    if (baton_ok(&st)) {
        if (!link->connected) {
            baton_log(BATON_LOG_INFO, "session", "connected");
            link->connected_ns = baton_clock_monotonic_ns();
        }
        link->connected = true;
        link->redirects = 0;
        deliver(link, &event);
    } else {
        baton_log_status(BATON_LOG_ERROR, "session", "a message of the controller is refused", &st);
        drop_stream(link);
    }
    link_memory_free(&memory);
}

/* A controller that does not lead was asked: the client knows by now which one to ask instead. */
static void end_stream(struct link *link, const struct baton_status *status)
{
    bool redirected = status->reason == BATON_REASON_NOT_LEADER && link->redirects < REDIRECTS_MAX;
    baton_log_status(redirected ? BATON_LOG_DEBUG : BATON_LOG_WARN, "session",
                     "the session ended; trying again", status);
    drop_stream(link);
    link->redirects = redirected ? link->redirects + 1 : 0;
    link->open_ns = redirected ? 0 : link->open_ns;
}

static void news_work(void *target, void *argument)
{
    struct news *news = argument;
    struct link *link = news->link;
    (void)target;
    if (news->life == link->life && link->stream != NULL) {
        if (news->message != NULL) {
            take_message(link, news);
        } else {
            end_stream(link, &news->status);
        }
    }
    if (news->message != NULL) {
        rpc_stream_read_next(news->stream);
    }
    free_news(news);
}

/* --- on rpc threads --- */

/* What a stream's callbacks need; they may run after the link's end, and then only post. */
struct stream_context {
    struct link *link;
    struct baton_mailbox *mailbox;
    uint64_t life;
};

static void post(struct rpc_stream *stream, void *message, const struct baton_status *status,
                 const struct stream_context *context)
{
    struct news *news = calloc(1, sizeof(*news));
    baton_assert(news != NULL);
    *news = (struct news){ context->link, context->life, rpc_stream_ref(stream), message, *status };
    baton_mailbox_post_sure(context->mailbox, news_work, news);
}

static void on_message(struct rpc_stream *stream, void *message, void *context)
{
    struct baton_status ok = baton_status_ok();
    post(stream, message, &ok, context);
}

static void on_end(struct rpc_stream *stream, const struct baton_status *status, void *context)
{
    struct baton_status st = baton_ok(status)
                                 ? baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE,
                                                     "the controller ended the session")
                                 : *status;
    post(stream, NULL, &st, context);
    free(context);
}

/* --- up --- */

static void open_stream(struct link *link)
{
    static const struct rpc_stream_events events = { NULL, on_message, NULL, on_end };
    struct rpc_call_options options = { .wait_for_ready = true };
    struct stream_context *context = malloc(sizeof(*context));
    baton_assert(context != NULL);
    *context = (struct stream_context){ link, link->options.mailbox, ++link->life };
    link->open_ns = UINT64_MAX;
    link->stream = rpc_stream_open(link->options.client, "baton.v1.AgentSession/Session", NULL,
                                   &options, &events, context);
    struct agent_event event = { .kind = AGENT_EVENT_SESSION_OPENED };
    deliver(link, &event);
}

void link_open(struct link *link)
{
    link->wanted = true;
    link->open_ns = 0;
}

void link_reset(struct link *link, const char *why)
{
    baton_log(BATON_LOG_WARN, "session", "ending the session: %s", why);
    drop_stream(link);
}

uint64_t link_deadline_ns(const struct link *link)
{
    if (link->closing) {
        return 0;
    }
    return link->wanted && link->stream == NULL ? link->open_ns : UINT64_MAX;
}

void link_run(struct link *link, uint64_t now_ns)
{
    if (link->closing) {
        struct agent_event event = { .kind = AGENT_EVENT_SESSION_CLOSED };
        link->closing = false;
        deliver(link, &event);
    }
    if (now_ns >= link_deadline_ns(link)) {
        open_stream(link);
    }
}

bool link_is_connected(const struct link *link)
{
    return link->connected;
}

static void send_up(struct link *link, void *message)
{
    if (link->stream != NULL) {
        struct baton_status st = rpc_stream_send(link->stream, message);
        if (!baton_ok(&st) && st.code != BATON_CANCELLED) {
            link_reset(link, st.message); /* Restating says it all again. */
        }
    }
    baton_wire_free(message);
}

void link_send_hello(struct link *link, const struct agent_hello *hello)
{
    send_up(link, link_hello(hello));
}

void link_send_ack(struct link *link, uint64_t revision)
{
    send_up(link, link_ack(revision));
}

void link_send_nack(struct link *link, uint64_t revision, const char *message)
{
    send_up(link, link_nack(revision, message));
}

void link_send_report(struct link *link, const struct agent_report *report)
{
    uint32_t first = 0;
    do {
        send_up(link, link_report(report, first));
        first += LINK_OUTCOMES_MAX;
    } while (first < report->outcomes_count);
}

void link_send_peer_trouble(struct link *link, const struct exchange_trouble *trouble)
{
    send_up(link, link_peer_trouble(trouble));
}

struct link *link_create(const struct link_options *options)
{
    uint64_t seed;
    struct link *link = calloc(1, sizeof(*link));
    baton_assert(link != NULL);
    link->options = *options;
    bool choice = rpc_client_has_choice(options->client);
    link->backoff =
        baton_backoff_of(BACKOFF_FIRST_MS * BATON_NS_PER_MS,
                         (choice ? BACKOFF_CHOICE_MS : BACKOFF_MAX_MS) * BATON_NS_PER_MS);
    baton_random_secure(&seed, sizeof(seed));
    baton_random_seed(&link->random, seed);
    return link;
}

void link_destroy(struct link *link)
{
    if (link != NULL && link->stream != NULL) {
        rpc_stream_cancel(link->stream);
        rpc_stream_unref(link->stream);
    }
    free(link);
}
