/* hook.c -- see hook.h. */
#include "agent/shell/hook.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"

/* Of an answer that nobody reads. */
enum { ANSWER_BYTES_MAX = 64 << 10, STACK_BYTES = 256 << 10 };

/* One call; its thread only reads it, but for 'finished'. */
struct hook_run {
    struct hooks *hooks;
    struct hook_run *next;
    pthread_t thread;
    struct http *http;
    uint64_t id;
    uint64_t deadline_ns;
    char *body;
    _Atomic bool finished;
};

struct hooks {
    struct baton_mailbox *mailbox;
    baton_mailbox_work_fn *on_ended;
    const struct http_tls *tls;
    struct hook_run *runs;
};

struct hooks *hooks_create(struct baton_mailbox *mailbox, baton_mailbox_work_fn *on_ended,
                           const struct http_tls *tls)
{
    struct hooks *hooks = calloc(1, sizeof(*hooks));
    baton_assert(hooks != NULL);
    hooks->mailbox = mailbox;
    hooks->on_ended = on_ended;
    hooks->tls = tls;
    return hooks;
}

static struct hook_event *new_event(uint64_t id, struct baton_status status)
{
    struct hook_event *event = calloc(1, sizeof(*event));
    baton_assert(event != NULL);
    *event = (struct hook_event){ id, status };
    return event;
}

static struct baton_status perform(struct hook_run *run)
{
    const struct http_request request = {
        .method = "POST", .path = "", .body = run->body, .plain = true
    };
    struct http_answer answer;
    struct baton_status st = http_call(run->http, &request, run->deadline_ns, &answer);
    if (baton_ok(&st) && (answer.code < 200 || answer.code > 299)) {
        st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE, "it answered %u", answer.code);
    }
    return st;
}

static void *run_main(void *argument)
{
    struct hook_run *run = argument;
    struct hook_event *event = new_event(run->id, perform(run));
    baton_mailbox_post_sure(run->hooks->mailbox, run->hooks->on_ended, event);
    atomic_store(&run->finished, true);
    return NULL;
}

static void run_free(struct hook_run *run)
{
    http_close(run->http);
    free(run->body);
    free(run);
}

/* Takes the threads back that have ended. */
static void reap(struct hooks *hooks, bool all)
{
    struct hook_run **at = &hooks->runs;
    while (*at != NULL) {
        struct hook_run *run = *at;
        if (!all && !atomic_load(&run->finished)) {
            at = &run->next;
            continue;
        }
        *at = run->next;
        (void)pthread_join(run->thread, NULL);
        run_free(run);
    }
}

void hooks_destroy(struct hooks *hooks)
{
    if (hooks == NULL) {
        return;
    }
    for (struct hook_run *run = hooks->runs; run != NULL; run = run->next) {
        http_abort(run->http);
    }
    reap(hooks, true);
    free(hooks);
}

static char *body_of(const struct agent_hook_call *call)
{
    json_t *endpoints = json_array();
    for (uint32_t i = 0; i < call->group->engines_count; i++) {
        (void)json_array_append_new(endpoints, json_string(call->group->engines[i].endpoint));
    }
    const char *event = call->when == AGENT_HOOK_BEFORE_PAUSE ? "beforePause" : "afterProbe";
    json_t *root = json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:s}", "event", event, "model",
                             call->group->model, "group", call->group->name, "endpoints", endpoints,
                             "from", (json_int_t)call->from_seq, "to", (json_int_t)call->to_seq,
                             "serves", (json_int_t)call->serves_seq, "ticket", call->ticket_uid);
    char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static struct baton_status begin(struct hooks *hooks, const struct agent_hook_call *call,
                                 struct hook_run *run)
{
    const struct http_options options = { .url = call->url,
                                          .remote_allowed = true,
                                          .body_bytes_max = ANSWER_BYTES_MAX,
                                          .tls = hooks->tls };
    struct baton_status st = http_open(&options, &run->http);
    if (!baton_ok(&st)) {
        return st;
    }
    http_begin(run->http);
    run->hooks = hooks;
    run->id = call->id;
    run->deadline_ns = call->deadline_ns;
    run->body = body_of(call);
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = run->body == NULL ? 1 : pthread_create(&run->thread, &attributes, run_main, run);
    (void)pthread_attr_destroy(&attributes);
    return failed == 0 ? st
                       : baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                           "no thread for the call");
}

void hooks_call(struct hooks *hooks, const struct agent_hook_call *call)
{
    reap(hooks, false);
    struct hook_run *run = calloc(1, sizeof(*run));
    baton_assert(run != NULL);
    struct baton_status st = begin(hooks, call, run);
    if (!baton_ok(&st)) {
        baton_mailbox_post_own(hooks->mailbox, hooks->on_ended, new_event(call->id, st));
        run_free(run);
        return;
    }
    run->next = hooks->runs;
    hooks->runs = run;
}
