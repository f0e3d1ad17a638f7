/* batch.c -- see batch.h. */
#include "controller/shell/batch.h"

#include <stdlib.h>
#include <string.h>

/* A call that waits for its batch. */
struct batched {
    struct rpc_call *call; /* Referenced. */
    struct rpc_peer peer;  /* Its name is what 'request' says of who asks. */
    struct request request;
    pending_answer_fn *answer;
};

struct batch {
    size_t count;
    struct batched items[EVENT_REQUESTS_MAX];
};

static void run(struct daemon *daemon, struct batch *batch)
{
    static struct request requests[EVENT_REQUESTS_MAX]; /* Of the one loop thread. */
    for (size_t i = 0; i < batch->count; i++) {
        struct batched *item = &batch->items[i];
        daemon_pend(daemon, item->call, &item->request, item->answer);
        requests[i] = item->request;
    }
    struct event event = { .kind = EVENT_REQUESTS, .body.requests = { requests, batch->count } };
    batch->count = 0;
    daemon_step(daemon, &event);
}

static void run_posted(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct batch *batch = daemon->batch;
    (void)argument;
    if (batch == NULL || batch->count == 0) {
        return; /* It was full and ran, or it was dropped. */
    }
    if (daemon->core == NULL || daemon->rebuild) {
        batch_end_all(daemon, &daemon->store_status);
    } else {
        run(daemon, batch);
    }
}

void batch_add(struct daemon *daemon, struct rpc_call *call,
               const Baton__V1__MutationOptions *options, const struct request *request,
               pending_answer_fn *answer)
{
    if (!service_may_change(daemon, call, request)) {
        return;
    }
    if (daemon->batch == NULL) {
        daemon->batch = calloc(1, sizeof(struct batch));
        baton_assert(daemon->batch != NULL);
    }
    struct batch *batch = daemon->batch;
    struct batched *item = &batch->items[batch->count++];
    item->call = call;
    item->request = *request;
    item->request.options = service_options(call, options, &item->peer);
    item->answer = answer;
    if (batch->count == 1) {
        baton_mailbox_post_sure(daemon->mailbox, run_posted, NULL);
    }
    if (batch->count == EVENT_REQUESTS_MAX) {
        run(daemon, batch);
    }
}

void batch_end_all(struct daemon *daemon, const struct baton_status *status)
{
    struct batch *batch = daemon->batch;
    for (size_t i = 0; batch != NULL && i < batch->count; i++) {
        rpc_finish(batch->items[i].call, status);
        rpc_call_unref(batch->items[i].call);
    }
    if (batch != NULL) {
        batch->count = 0;
    }
}
