/* operate.c -- see operate.h. */
#include "api/client/operate.h"

#include <stdlib.h>

#include "api/client/connection.h"

enum { CONNECT_MS = 5000, ANSWER_MS = 20000 };

static struct baton_status connect_to(const char *address, struct baton_agent **out)
{
    struct baton_error error = BATON_ERROR_INIT;
    if (baton_connect(address, CONNECT_MS, out, &error) == 0) {
        return baton_status_ok();
    }
    struct baton_status st = baton_status_make(
        (enum baton_code)error.code, baton_reason_from_name(error.reason), "%s", error.message);
    return error.hint[0] != '\0' ? baton_status_hint(st, "%s", error.hint) : st;
}

/* Reads lines until the result. */
static struct baton_status listen_to(struct baton_agent *agent, struct local_message *answer,
                                     operate_line_fn *line, void *context)
{
    uint64_t deadline_ns = connection_deadline_ns(ANSWER_MS);
    struct baton_status st = local_channel_receive(&agent->channel, answer, deadline_ns);
    while (baton_ok(&st) && answer->kind == LOCAL_KIND_OPERATED) {
        line(context, answer->as.operated.text);
        st = local_channel_receive(&agent->channel, answer, deadline_ns);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    return answer->kind == LOCAL_KIND_RESULT
               ? local_result_status(&answer->as.result)
               : baton_status_make(BATON_INTERNAL, BATON_REASON_MALFORMED,
                                   "the agent answered OPERATE with %s",
                                   local_kind_name(answer->kind));
}

struct baton_status operate_agent(const char *address, const struct local_operate *operate,
                                  operate_line_fn *line, void *context)
{
    struct baton_agent *agent = NULL;
    struct baton_status st = connect_to(address, &agent);
    if (!baton_ok(&st)) {
        return st;
    }
    struct local_message *message = calloc(1, sizeof(*message));
    baton_assert(message != NULL);
    message->kind = LOCAL_KIND_OPERATE;
    message->as.operate = *operate;
    st = local_channel_send(&agent->channel, message, -1, connection_deadline_ns(ANSWER_MS));
    if (baton_ok(&st)) {
        st = listen_to(agent, message, line, context);
    }
    free(message);
    baton_close(agent);
    return st;
}
