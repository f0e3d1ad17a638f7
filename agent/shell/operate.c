/* operate.c -- see operate.h. */
#include "agent/shell/operate.h"

#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/shell/peer_server.h"
#include "api/base/clock.h"

enum { ANSWER_S = 10, LINES_MAX = BATON_GROUPS_PER_AGENT_MAX + 1 };

struct asker {
    pthread_mutex_t lock;
    pthread_cond_t answered;
    unsigned holders; /* The client's thread, and the loop or its mailbox. */
    bool is_answered;
    struct baton_status status;
    struct agent_operate operate;
    char group[BATON_NAME_BYTES];
    char by[BATON_NAME_BYTES];
    char *lines[LINES_MAX];
    size_t lines_count;
};

static const char *const verbs[] = { "status", "resume", "restore", "detach" };

static void let_go(struct asker *asker)
{
    (void)pthread_mutex_lock(&asker->lock);
    bool last = --asker->holders == 0;
    (void)pthread_mutex_unlock(&asker->lock);
    if (!last) {
        return;
    }
    for (size_t i = 0; i < asker->lines_count; i++) {
        free(asker->lines[i]);
    }
    (void)pthread_cond_destroy(&asker->answered);
    (void)pthread_mutex_destroy(&asker->lock);
    free(asker);
}

static void answer(struct asker *asker, struct baton_status status)
{
    (void)pthread_mutex_lock(&asker->lock);
    asker->status = status;
    asker->is_answered = true;
    (void)pthread_cond_signal(&asker->answered);
    (void)pthread_mutex_unlock(&asker->lock);
}

static void add_line(struct asker *asker, char *line)
{
    if (line != NULL && asker->lines_count < LINES_MAX && strlen(line) < LOCAL_OPERATED_BYTES) {
        asker->lines[asker->lines_count++] = line;
    } else {
        free(line);
    }
}

/* --- the loop's side --- */

void operate_answered(struct daemon *daemon, const struct agent_operated *operated)
{
    struct asker *asker = daemon->asker;
    baton_assert(asker != NULL);
    if (operated->ok) {
        add_line(asker, strdup(operated->message));
    }
    answer(asker, operated->ok ? baton_status_ok()
                               : baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                                   "%s", operated->message));
}

static json_t *swap_json(const struct agent_swap_record *swap)
{
    return swap == NULL
               ? json_null()
               : json_pack("{s:I,s:I,s:I,s:s,s:s,s:I}", "ticket", (json_int_t)swap->ticket_number,
                           "fromSeq", (json_int_t)swap->from.seq, "toSeq", (json_int_t)swap->to.seq,
                           "outcome", agent_outcome_name(swap->outcome), "message", swap->message,
                           "endedWallNs", (json_int_t)swap->ended_wall_ns);
}

static json_t *engines_json(const struct agent_group_report *report)
{
    json_t *engines = json_array();
    for (uint32_t i = 0; i < report->engines_count; i++) {
        const struct agent_engine_report *engine = &report->engines[i];
        (void)json_array_append_new(
            engines, json_pack("{s:s,s:s,s:b,s:s,s:s,s:s}", "name", engine->config->name,
                               "endpoint", engine->config->endpoint, "reachable",
                               (int)engine->reachable, "gate", engine->gate, "label", engine->label,
                               "incarnation", engine->facts->incarnation));
    }
    return engines;
}

static json_t *group_json(const struct agent_group_status *group)
{
    const struct agent_group_report *report = &group->report;
    json_t *json = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:I,s:s,s:I,s:b,s:b,s:b,s:s,s:I}", "group", report->group, "model",
        report->model, "state", agent_group_state_name(report->state), "phase", group->phase,
        "message", report->message, "committedSeq", (json_int_t)report->committed.seq,
        "committedDigest", report->committed.digest, "stagingSeq", (json_int_t)report->staging_seq,
        "gateOpen", (int)report->gate_open, "canRestore", (int)report->can_restore, "detached",
        (int)group->detached, "ticketUid", report->ticket_uid, "highestTicket",
        (json_int_t)report->highest_ticket);
    if (json != NULL) {
        (void)json_object_set_new(json, "ownerTerm", json_integer((json_int_t)report->owner_term));
        (void)json_object_set_new(json, "engines", engines_json(report));
        (void)json_object_set_new(json, "lastSwap", swap_json(group->last_swap));
        (void)json_object_set_new(json, "operated", json_string(group->operated));
        (void)json_object_set_new(json, "operatedBy", json_string(group->operated_by));
        (void)json_object_set_new(json, "operatedWallNs",
                                  json_integer((json_int_t)group->operated_wall_ns));
    }
    return json;
}

static void add_json(struct asker *asker, json_t *json)
{
    if (json != NULL) {
        add_line(asker, json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII));
        json_decref(json);
    }
}

void operate_status(struct daemon *daemon, const struct agent_node_status *status)
{
    struct asker *asker = daemon->asker;
    baton_assert(asker != NULL);
    add_json(asker,
             json_pack("{s:s,s:s,s:b,s:I,s:I,s:I}", "agent", daemon->config->core.agent, "software",
                       daemon->config->core.software, "connected", (int)status->welcomed,
                       "generation", (json_int_t)status->epoch.generation, "epoch",
                       (json_int_t)status->epoch.n));
    for (uint32_t i = 0; i < status->groups_count; i++) {
        add_json(asker, group_json(&status->groups[i]));
    }
    answer(asker, baton_status_ok());
}

void operate_work(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct asker *asker = argument;
    struct agent_event event = { .kind = AGENT_EVENT_OPERATE, .operate = asker->operate };
    daemon->asker = asker;
    daemon_step(daemon, &event);
    daemon->asker = NULL;
    let_go(asker);
}

void operate_discard(struct asker *asker)
{
    answer(asker, baton_status_make(BATON_UNAVAILABLE, BATON_REASON_SHUTTING_DOWN,
                                    "the agent shuts down"));
    let_go(asker);
}

/* --- the client's side --- */

static bool find_verb(const char *word, enum agent_verb *out)
{
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(word, verbs[i]) == 0) {
            *out = (enum agent_verb)i;
            return true;
        }
    }
    return false;
}

static struct asker *make_asker(const struct local_operate *request, const char *by,
                                enum agent_verb verb)
{
    struct asker *asker = calloc(1, sizeof(*asker));
    baton_assert(asker != NULL);
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&asker->lock, NULL);
    (void)pthread_cond_init(&asker->answered, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    asker->holders = 2;
    memcpy(asker->group, request->group, sizeof(asker->group));
    (void)snprintf(asker->by, sizeof(asker->by), "%.40s%s%.20s", by,
                   request->by[0] != '\0' ? ", " : "", request->by);
    asker->operate = (struct agent_operate){ verb, asker->group, asker->by };
    return asker;
}

static struct baton_status wait_for(struct asker *asker)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ANSWER_S;
    (void)pthread_mutex_lock(&asker->lock);
    int waited = 0;
    while (!asker->is_answered && waited == 0) {
        waited = pthread_cond_timedwait(&asker->answered, &asker->lock, &until);
    }
    struct baton_status st =
        asker->is_answered
            ? asker->status
            : baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_NONE,
                                "the agent's loop did not answer within %d s", ANSWER_S);
    (void)pthread_mutex_unlock(&asker->lock);
    return st;
}

struct baton_status operate_ask(void *context, const struct local_operate *request, const char *by,
                                void (*say)(void *listener, const char *line), void *listener)
{
    struct daemon *daemon = context;
    enum agent_verb verb;
    if (!find_verb(request->verb, &verb)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "verb: '%s' is unknown; use status, resume, restore or detach",
                                 request->verb);
    }
    struct asker *asker = make_asker(request, by, verb);
    if (!baton_mailbox_post(daemon->mailbox, operate_work, asker)) {
        asker->holders--;
        let_go(asker);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "the agent's mailbox is full; ask again");
    }
    struct baton_status st = wait_for(asker);
    for (size_t i = 0; baton_ok(&st) && i < asker->lines_count; i++) {
        say(listener, asker->lines[i]);
    }
    let_go(asker);
    return st;
}
