/* session.c -- see session.h. */
#include "controller/shell/session.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"
#include "controller/shell/daemon.h"
#include "controller/shell/grants.h"
#include "controller/shell/render.h"
#include "controller/shell/report.h"
#include "controller/shell/service.h"
#include "controller/shell/session_peers.h"
#include "controller/shell/standby.h"

/* A message on its way from an RPC thread to the loop. */
struct arrival {
    struct rpc_call *call; /* Referenced. */
    Baton__V1__SessionRequest *message;
};

/* A session's id is its number ever times SESSION_PLACES_MAX, plus its place: rising, never reused, and found at once. */
enum { SESSION_PLACES_MAX = 1 << 20, SESSION_PLACES_FIRST = 64, REPORTS_A_TRANSACTION = 64 };

static struct session *find_id(struct daemon *daemon, uint64_t id)
{
    uint64_t place = id % SESSION_PLACES_MAX;
    bool found = id != 0 && place < daemon->sessions_places && daemon->sessions[place].id == id;
    return found ? &daemon->sessions[place] : NULL;
}

/* A call carries the id of its session. */
static struct session *find_call(struct daemon *daemon, const struct rpc_call *call)
{
    return find_id(daemon, (uint64_t)(uintptr_t)rpc_call_data(call));
}

static void grow_places(struct daemon *daemon)
{
    uint32_t before = daemon->sessions_places;
    uint32_t places = before == 0 ? SESSION_PLACES_FIRST : 2 * before;
    baton_assert(places <= SESSION_PLACES_MAX); /* The server has far fewer calls. */
    daemon->sessions = realloc(daemon->sessions, places * sizeof(*daemon->sessions));
    baton_assert(daemon->sessions != NULL);
    for (uint32_t i = before; i < places; i++) {
        daemon->sessions[i] = (struct session){ .next_free = i + 1 };
    }
    daemon->sessions_places = places;
}

/* --- up --- */

static struct session *add_session(struct daemon *daemon, struct rpc_call *call)
{
    if (daemon->sessions_free == daemon->sessions_places) {
        grow_places(daemon);
    }
    uint32_t place = daemon->sessions_free;
    struct session *session = &daemon->sessions[place];
    daemon->sessions_free = session->next_free;
    session->id = ++daemon->sessions_ever * SESSION_PLACES_MAX + place;
    session->call = rpc_call_ref(call);
    session->open = true;
    rpc_call_set_data(call, (void *)(uintptr_t)session->id);
    return session;
}

static void remove_session(struct daemon *daemon, struct session *session)
{
    rpc_call_unref(session->call);
    grants_forget(session);
    *session = (struct session){ .next_free = daemon->sessions_free };
    daemon->sessions_free = (uint32_t)(session - daemon->sessions);
}

static void finish_badly(struct rpc_call *call, const char *message)
{
    struct baton_status st =
        baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s", message);
    rpc_finish(call, &st);
}

static void take_hello(struct daemon *daemon, struct rpc_call *call, const Baton__V1__Hello *hello)
{
    struct event event = { .kind = EVENT_SESSION_HELLO };
    struct report_memory memory = { NULL };
    struct session *session = add_session(daemon, call);
    struct baton_status st =
        service_check_agent(daemon, call, hello->agent, hello->groups, hello->n_groups);
    if (baton_ok(&st)) {
        st = report_from_hello(hello, &event.body.hello, &memory);
    }
    if (baton_ok(&st)) {
        (void)baton_text_copy(session->agent, sizeof(session->agent), hello->agent);
        event.body.hello.session = session->id;
        session->serves_peers = hello->peer_address[0] != '\0';
        daemon_step(daemon, &event);
    } else {
        session->open = false;
        rpc_finish(call, &st);
    }
    report_memory_free(&memory);
}

/* Messages that wait already share a transaction, which is one fsync: but not so many that the first one waits long. */
static bool has_more(const struct daemon *daemon)
{
    return daemon->deferred_count < REPORTS_A_TRANSACTION && session_is_next(daemon);
}

/* Also of groups that another life of the agent told of. */
static struct baton_status check_speaker(struct daemon *daemon, const struct session *session,
                                         const Baton__V1__Report *report)
{
    struct baton_status st = service_check_agent(daemon, session->call, session->agent,
                                                 report->groups, report->n_groups);
    for (size_t i = 0; baton_ok(&st) && i < report->n_outcomes; i++) {
        st = service_check_group(daemon, session->call, session->agent, report->outcomes[i]->group);
    }
    return st;
}

static void take_report(struct daemon *daemon, struct session *session,
                        const Baton__V1__Report *report)
{
    struct event event = { .kind = EVENT_SESSION_REPORT };
    struct report_memory memory = { NULL };
    struct baton_status st = check_speaker(daemon, session, report);
    if (baton_ok(&st)) {
        st = report_from_message(report, &event.body.report, &memory);
    }
    if (baton_ok(&st)) {
        event.body.report.session = session->id;
        event.more = has_more(daemon);
        grants_renew(daemon, session);
        daemon_step(daemon, &event);
    } else {
        session->open = false;
        rpc_finish(session->call, &st);
    }
    report_memory_free(&memory);
}

static void take_ack(struct daemon *daemon, const struct session *session, uint64_t revision,
                     const char *refusal)
{
    struct event event = { .kind = EVENT_SESSION_ACK,
                           .more = has_more(daemon),
                           .body.ack = { session->id, revision, refusal != NULL,
                                         refusal != NULL ? refusal : "" } };
    daemon_step(daemon, &event);
}

static void take_message(struct daemon *daemon, struct rpc_call *call,
                         const Baton__V1__SessionRequest *message)
{
    struct session *session = find_call(daemon, call);
    bool is_hello = message->message_case == BATON__V1__SESSION_REQUEST__MESSAGE_HELLO;
    if (is_hello && session == NULL) {
        take_hello(daemon, call, message->hello);
        return;
    }
    if (session == NULL || is_hello) {
        finish_badly(call, "message: the first message of a session, and only it, is hello");
        return;
    }
    if (!session->open) {
        return;
    }
    switch (message->message_case) {
    case BATON__V1__SESSION_REQUEST__MESSAGE_ACK:
        take_ack(daemon, session, message->ack->revision, NULL);
        break;
    case BATON__V1__SESSION_REQUEST__MESSAGE_NACK:
        take_ack(daemon, session, message->nack->revision, message->nack->message);
        break;
    case BATON__V1__SESSION_REQUEST__MESSAGE_REPORT:
        take_report(daemon, session, message->report);
        break;
    case BATON__V1__SESSION_REQUEST__MESSAGE_PEER_TROUBLE:
        session_take_peer_trouble(daemon, session, message->peer_trouble);
        break;
    case BATON__V1__SESSION_REQUEST__MESSAGE_HELLO:
    case BATON__V1__SESSION_REQUEST__MESSAGE__NOT_SET:
    case _BATON__V1__SESSION_REQUEST__MESSAGE__CASE_IS_INT_SIZE: break;
    }
}

static void arrival_work(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct arrival *arrival = argument;
    if (daemon_is_ready(daemon, arrival->call)) {
        take_message(daemon, arrival->call, arrival->message);
        rpc_call_read_next(arrival->call);
    }
    rpc_call_unref(arrival->call);
    baton_wire_free(arrival->message);
    free(arrival);
}

bool session_is_next(const struct daemon *daemon)
{
    return baton_mailbox_next_is(daemon->mailbox, arrival_work);
}

static void on_message(struct rpc_call *call, void *message, void *context)
{
    struct daemon *daemon = context;
    struct arrival *arrival = calloc(1, sizeof(*arrival));
    baton_assert(arrival != NULL);
    arrival->call = rpc_call_ref(call);
    arrival->message = message;
    if (!daemon_post_any(daemon, arrival_work, arrival)) {
        struct baton_status st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                                   "the controller's mailbox is full");
        rpc_finish(call, &st);
        rpc_call_unref(arrival->call);
        baton_wire_free(message);
        free(arrival);
    }
}

static void gone_work(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct rpc_call *call = argument;
    struct session *session = find_call(daemon, call);
    if (session != NULL) {
        struct event event = { .kind = EVENT_SESSION_GONE, .body.session_gone = session->id };
        remove_session(daemon, session);
        daemon_step(daemon, &event);
    }
    rpc_call_unref(call);
}

/* The agent sends nothing more: that is its end of the session. */
static void on_half_close(struct rpc_call *call, void *context)
{
    (void)context;
    struct baton_status st = baton_status_ok();
    rpc_finish(call, &st);
}

static void on_done(struct rpc_call *call, bool cancelled, void *context)
{
    struct daemon *daemon = context;
    (void)cancelled;
    baton_mailbox_post_sure(daemon->mailbox, gone_work, rpc_call_ref(call));
}

void serve_session(struct rpc_call *call, const void *request, void *context)
{
    static const struct rpc_receiver receiver = { on_message, on_half_close, on_done };
    (void)request;
    rpc_call_receive(call, &receiver, context);
}

/* --- down --- */

static void render_holders(const struct holders *holders, Baton__V1__VersionGoal *goal, void *root)
{
    goal->n_holders = holders->count;
    goal->holders = baton_wire_take(root, holders->count, sizeof(*goal->holders));
    for (uint32_t i = 0; i < holders->count; i++) {
        Baton__V1__Holder *holder = baton_wire_part(root, &baton__v1__holder__descriptor);
        holder->agent = baton_wire_text(root, holders->items[i].agent);
        holder->address = baton_wire_text(root, holders->items[i].address);
        holder->last = holders->items[i].last;
        goal->holders[i] = holder;
    }
}

static Baton__V1__VersionGoal *render_goal(const struct version_record *version,
                                           const struct holders *holders, void *root)
{
    if (version == NULL) {
        return NULL;
    }
    Baton__V1__VersionGoal *goal = baton_wire_part(root, &baton__v1__version_goal__descriptor);
    goal->seq = version->seq;
    goal->digest = baton_wire_text(root, version->digest);
    goal->bytes = version->bytes;
    goal->uid = baton_wire_text(root, version->uid);
    render_holders(holders, goal, root);
    goal->n_sources = version->sources_count;
    goal->sources = baton_wire_take(root, version->sources_count, sizeof(*goal->sources));
    for (uint32_t i = 0; i < version->sources_count; i++) {
        goal->sources[i] = render_source(&version->sources[i], root);
    }
    return goal;
}

/* Its leader tells it the rest. */
static Baton__V1__VersionGoal *render_follow(const struct follow_goal *follow, void *root)
{
    Baton__V1__VersionGoal *goal = baton_wire_part(root, &baton__v1__version_goal__descriptor);
    goal->seq = follow->version->seq;
    goal->digest = baton_wire_text(root, follow->version->digest);
    render_holders(&follow->holders, goal, root);
    return goal;
}

static Baton__V1__GroupGoal *render_group_goal(const struct group_goal *goal, void *root)
{
    Baton__V1__GroupGoal *message = baton_wire_part(root, &baton__v1__group_goal__descriptor);
    message->group = baton_wire_text(root, goal->group);
    message->model = baton_wire_text(root, goal->model);
    message->target = render_goal(goal->target, &goal->target_holders, root);
    message->stage = render_goal(goal->stage, &goal->stage_holders, root);
    message->restore = render_goal(goal->restore, &goal->restore_holders, root);
    message->owner_term = goal->owner_term;
    message->drain = goal->drain;
    message->sleep = goal->sleep;
    message->sleep_drain_ms = goal->sleep_drain_ms;
    return message;
}

static Baton__V1__Goals *render_goals(const struct goals *goals, void *root)
{
    Baton__V1__Goals *message = baton_wire_part(root, &baton__v1__goals__descriptor);
    message->revision = goals->revision;
    message->epoch = render_epoch(goals->epoch, root);
    message->n_groups = goals->groups_count;
    message->groups = baton_wire_take(root, goals->groups_count, sizeof(*message->groups));
    for (size_t i = 0; i < goals->groups_count; i++) {
        message->groups[i] = render_group_goal(&goals->groups[i], root);
    }
    message->n_follows = goals->follows_count;
    message->follows = baton_wire_take(root, goals->follows_count, sizeof(*message->follows));
    for (size_t i = 0; i < goals->follows_count; i++) {
        message->follows[i] = render_follow(&goals->follows[i], root);
    }
    message->n_droppable = goals->droppable_count;
    message->droppable = baton_wire_take(root, goals->droppable_count, sizeof(*message->droppable));
    for (size_t i = 0; i < goals->droppable_count; i++) {
        message->droppable[i] = baton_wire_text(root, goals->droppable[i]);
    }
    return message;
}

static Baton__V1__Welcome *render_welcome(const struct welcome *welcome, void *root)
{
    Baton__V1__Welcome *message = baton_wire_part(root, &baton__v1__welcome__descriptor);
    message->epoch = render_epoch(welcome->epoch, root);
    message->lease_ms = welcome->lease_ms;
    message->n_floors = welcome->floors_count;
    message->floors = baton_wire_take(root, welcome->floors_count, sizeof(*message->floors));
    for (size_t i = 0; i < welcome->floors_count; i++) {
        Baton__V1__GroupFloor *floor = baton_wire_part(root, &baton__v1__group_floor__descriptor);
        floor->group = baton_wire_text(root, welcome->floors[i].group);
        floor->ticket_number = welcome->floors[i].ticket_number;
        floor->owner_term = welcome->floors[i].owner_term;
        message->floors[i] = floor;
    }
    return message;
}

static void fill_revoke(const struct ticket_revoke *revoke, Baton__V1__SessionResponse *response)
{
    response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_REVOKE;
    response->revoke = baton_wire_part(response, &baton__v1__revoke_ticket__descriptor);
    response->revoke->group = baton_wire_text(response, revoke->group);
    response->revoke->ticket_uid = baton_wire_text(response, revoke->ticket_uid);
    response->revoke->epoch = render_epoch(revoke->epoch, response);
}

static void fill_barrier(const struct barrier_order *order, Baton__V1__SessionResponse *response)
{
    response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_BARRIER;
    response->barrier = baton_wire_part(response, &baton__v1__barrier_order__descriptor);
    response->barrier->group = baton_wire_text(response, order->group);
    response->barrier->ticket_uid = baton_wire_text(response, order->ticket_uid);
    response->barrier->epoch = render_epoch(order->epoch, response);
    response->barrier->word = (Baton__V1__BarrierWord)order->word;
}

static void fill_stored(const struct outcome_stored *stored, Baton__V1__SessionResponse *response)
{
    response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_OUTCOME_STORED;
    response->outcome_stored = baton_wire_part(response, &baton__v1__outcome_stored__descriptor);
    response->outcome_stored->group = baton_wire_text(response, stored->group);
    response->outcome_stored->ticket_uid = baton_wire_text(response, stored->ticket_uid);
}

static void fill_response(const struct action_send *send, Baton__V1__SessionResponse *response)
{
    switch (send->kind) {
    case SEND_WELCOME:
        response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_WELCOME;
        response->welcome = render_welcome(&send->message.welcome, response);
        break;
    case SEND_GOALS:
        response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_GOALS;
        response->goals = render_goals(&send->message.goals, response);
        break;
    case SEND_TICKET:
        response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_TICKET;
        response->ticket =
            render_ticket(send->message.ticket.group, send->message.ticket.ticket, response);
        break;
    case SEND_REVOKE: fill_revoke(&send->message.revoke, response); break;
    case SEND_BARRIER: fill_barrier(&send->message.barrier, response); break;
    case SEND_OUTCOME_STORED: fill_stored(&send->message.stored, response); break;
    }
}

void session_deliver(struct daemon *daemon, const struct action_send *send)
{
    struct session *session = find_id(daemon, send->session);
    if (session == NULL || !session->open || !standby_may_act(daemon)) {
        return;
    }
    if (send->kind == SEND_GOALS) {
        grants_send(daemon, session, &send->message.goals);
    }
    Baton__V1__SessionResponse *response = baton_wire_new(&baton__v1__session_response__descriptor);
    fill_response(send, response);
    struct baton_status st = rpc_send(session->call, response);
    baton_wire_free(response);
    session->open = baton_ok(&st); /* A cut stream ends by itself; the agent restates. */
    if (session->open && send->kind == SEND_WELCOME) {
        grants_send_keys(daemon, session);
    }
}

uint64_t session_certificate_ends(struct daemon *daemon, uint64_t id)
{
    struct session *session = find_id(daemon, id);
    if (session == NULL) {
        return 0;
    }
    if (session->certificate_ends == 0) {
        int64_t ends = rpc_call_certificate_ends(session->call);
        session->certificate_ends = ends > 0 ? ends : -1;
    }
    return session->certificate_ends > 0 ? (uint64_t)session->certificate_ends * BATON_NS_PER_S : 0;
}

void session_finish(struct daemon *daemon, uint64_t id, const struct baton_status *status)
{
    struct session *session = find_id(daemon, id);
    if (session != NULL && session->open) {
        session->open = false;
        rpc_finish(session->call, status);
    }
}

void session_finish_all(struct daemon *daemon, const struct baton_status *status)
{
    for (uint32_t i = 0; i < daemon->sessions_places; i++) {
        session_finish(daemon, daemon->sessions[i].id, status);
    }
}
