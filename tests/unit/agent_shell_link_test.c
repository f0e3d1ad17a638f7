/* agent_shell_link_test.c -- the session's messages to and from plain structs, and when the link tells what. */
#include "agent/shell/link.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shell/link_message.h"
#include "api/base/clock.h"
#include "api/rpc/rpc.h"
#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"
#include "tests/unit/agent_shell_arrival.h"

/* --- down --- */

static Baton__V1__SessionResponse *new_ticket(void)
{
    Baton__V1__SessionResponse *response = baton_wire_new(&baton__v1__session_response__descriptor);
    Baton__V1__Ticket *ticket = baton_wire_part(response, &baton__v1__ticket__descriptor);
    response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_TICKET;
    response->ticket = ticket;
    ticket->uid = baton_wire_text(response, "u");
    ticket->number = 7;
    ticket->group = baton_wire_text(response, "g");
    ticket->to_seq = 2;
    ticket->to_digest = baton_wire_text(response, "d");
    ticket->policy = baton_wire_part(response, &baton__v1__swap_policy__descriptor);
    ticket->policy->in_flight = baton_wire_text(response, "wait");
    ticket->policy->arrivals = baton_wire_text(response, "refuse");
    ticket->policy->kv = baton_wire_text(response, "flush");
    ticket->policy->swap_deadline_ms = 3;
    return response;
}

Test(agent_shell_link, takes_a_ticket_over)
{
    Baton__V1__SessionResponse *response = new_ticket();
    struct link_memory memory = { .count = 0 };
    struct agent_event event;
    memset(&event, 0, sizeof(event));
    struct baton_status st = link_event_from(response, &event, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(event.kind, AGENT_EVENT_TICKET);
    cr_assert_eq(event.ticket->number, 7);
    cr_assert_eq(event.ticket->to.seq, 2);
    cr_assert_str_eq(event.ticket->group, "g");
    cr_assert_eq(event.ticket->policy.in_flight, AGENT_IN_FLIGHT_WAIT);
    cr_assert_eq(event.ticket->policy.arrivals, AGENT_ARRIVALS_REFUSE);
    cr_assert_eq(event.ticket->policy.swap_deadline_ns, 3 * BATON_NS_PER_MS);
    link_memory_free(&memory);
    baton_wire_free(response);
}

static void expect_refused(Baton__V1__SessionResponse *response, const char *says)
{
    struct link_memory memory = { .count = 0 };
    struct agent_event event;
    memset(&event, 0, sizeof(event));
    struct baton_status st = link_event_from(response, &event, &memory);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st.message, says), "%s", st.message);
    link_memory_free(&memory);
    baton_wire_free(response);
}

static void expect_unreadable(Baton__V1__SessionResponse *response, const char *says)
{
    struct link_memory memory = { .count = 0 };
    struct agent_event event;
    memset(&event, 0, sizeof(event));
    struct baton_status st = link_event_from(response, &event, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(event.ticket->number, 7);
    cr_assert_not_null(strstr(event.ticket->policy.unreadable, says), "%s",
                       event.ticket->policy.unreadable);
    link_memory_free(&memory);
    baton_wire_free(response);
}

/* A ticket whose policy has a word of a newer controller is one to refuse, not the end of the session: that would only bring
 * the same ticket again. */
Test(agent_shell_link, policy_that_cannot_be_read)
{
    Baton__V1__SessionResponse *response = new_ticket();
    response->ticket->policy->kv = baton_wire_text(response, "melt");
    expect_unreadable(response, "policy.kv: \"melt\" is unknown to this agent");
    response = new_ticket();
    response->ticket->policy = NULL;
    expect_unreadable(response, "policy: is missing");
}

Test(agent_shell_link, refuses_by_field)
{
    Baton__V1__SessionResponse *response = new_ticket();
    response->ticket->uid = baton_wire_textf(response, "%0100d", 1);
    expect_refused(response, "ticket.uid: is too long");
    expect_refused(baton_wire_new(&baton__v1__session_response__descriptor), "message: ");
}

static Baton__V1__SessionResponse *new_goals(size_t groups, size_t sources)
{
    Baton__V1__SessionResponse *response = baton_wire_new(&baton__v1__session_response__descriptor);
    Baton__V1__Goals *goals = baton_wire_part(response, &baton__v1__goals__descriptor);
    response->message_case = BATON__V1__SESSION_RESPONSE__MESSAGE_GOALS;
    response->goals = goals;
    goals->revision = 5;
    goals->n_groups = groups;
    goals->groups = baton_wire_take(response, groups, sizeof(*goals->groups));
    for (size_t i = 0; i < groups; i++) {
        goals->groups[i] = baton_wire_part(response, &baton__v1__group_goal__descriptor);
        Baton__V1__VersionGoal *goal =
            baton_wire_part(response, &baton__v1__version_goal__descriptor);
        goals->groups[i]->group = baton_wire_textf(response, "g%zu", i);
        goals->groups[i]->target = goal;
        goals->groups[i]->stage = goal;
        goals->groups[i]->restore = goal;
        goal->seq = 9;
        goal->n_sources = sources;
        goal->sources = baton_wire_take(response, sources, sizeof(*goal->sources));
        for (size_t s = 0; s < sources; s++) {
            goal->sources[s] = baton_wire_part(response, &baton__v1__source__descriptor);
        }
    }
    return response;
}

/* The most that a controller may send must fit, and one more of anything is refused. */
Test(agent_shell_link, takes_the_largest_goals)
{
    Baton__V1__SessionResponse *response =
        new_goals(BATON_GROUPS_PER_AGENT_MAX, BATON_SOURCES_PER_VERSION_MAX);
    struct link_memory memory = { .count = 0 };
    struct agent_event event;
    memset(&event, 0, sizeof(event));
    struct baton_status st = link_event_from(response, &event, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(event.goals->groups_count, BATON_GROUPS_PER_AGENT_MAX);
    cr_assert_eq(event.goals->groups[63].target.sources_count, BATON_SOURCES_PER_VERSION_MAX);
    cr_assert_eq(event.goals->groups[63].stage.version.seq, 9);
    cr_assert_eq(event.goals->groups[63].restore.version.seq, 9);
    link_memory_free(&memory);
    baton_wire_free(response);
    expect_refused(new_goals(BATON_GROUPS_PER_AGENT_MAX + 1, 1), "groups: too many");
    expect_refused(new_goals(1, BATON_SOURCES_PER_VERSION_MAX + 1), "sources: too many");
}

/* --- up --- */

static struct agent_swap_record record_of(const char *text)
{
    struct agent_swap_record record;
    memset(&record, 0, sizeof(record));
    record.outcome = AGENT_OUTCOME_COMMITTED;
    memcpy(record.probe_text, text, strlen(text)); /* It fits, and the rest is zero. */
    return record;
}

/* A model's answer is cut to fit, perhaps within a character: that must not end the session. */
Test(agent_shell_link, cut_characters_do_not_end_the_session)
{
    char text[BATON_TEXT_BYTES + 2] = "";
    while (strlen(text) + 3 < sizeof(text)) {
        (void)strcat(text, "\xe4\xb8\xad");
    }
    text[BATON_TEXT_BYTES - 2] = '\0'; /* Two bytes of the last character are left. */
    struct agent_swap_record record = record_of(text);
    struct agent_outcome_report outcome = { "g", &record };
    struct agent_report report = { .outcomes = &outcome, .outcomes_count = 1 };
    struct arrival got = arrive(link_report(&report, 0));
    cr_assert(baton_ok(&got.status), "%s", got.status.message);
    cr_assert_eq(got.outcomes_count, 1);
    cr_assert_eq(strlen(got.probe_text), 84 * 3);
}

/* All outcomes that an agent may keep go up, in messages that the controller takes. */
Test(agent_shell_link, many_outcomes_go_in_several_messages)
{
    enum { COUNT = 2 * LINK_OUTCOMES_MAX + 3 };
    struct agent_swap_record record = record_of("");
    struct agent_outcome_report outcomes[COUNT];
    struct agent_log_event log = { .warning = true };
    struct agent_report report = {
        .outcomes = outcomes, .outcomes_count = COUNT, .events = &log, .events_count = 1
    };
    size_t told = 0, events = 0;
    for (size_t i = 0; i < COUNT; i++) {
        outcomes[i] = (struct agent_outcome_report){ "g", &record };
    }
    for (uint32_t first = 0; first < COUNT; first += LINK_OUTCOMES_MAX) {
        struct arrival got = arrive(link_report(&report, first));
        cr_assert(baton_ok(&got.status), "%s", got.status.message);
        told += got.outcomes_count;
        events += got.events_count;
    }
    cr_assert_eq(told, COUNT);
    cr_assert_eq(events, 1);
}

/* --- life --- */

enum { EVENTS_MAX = 8 };

struct heard {
    enum agent_event_kind kinds[EVENTS_MAX];
    unsigned count;
};

static void hear(void *context, struct agent_event *event)
{
    struct heard *heard = context;
    cr_assert(heard->count < EVENTS_MAX);
    heard->kinds[heard->count++] = event->kind;
}

/* --- controllers, of which one leads --- */

struct controller {
    struct rpc_server *server;
    char address[32];
    const char *leader;            /* Null: this one leads. */
    struct rpc_call *_Atomic open; /* Of the leader. */
    atomic_uint asked;
};

static void serve_session(struct rpc_call *call, const void *request, void *context)
{
    struct controller *controller = context;
    (void)request;
    (void)atomic_fetch_add(&controller->asked, 1);
    if (controller->leader == NULL) {
        static const struct rpc_receiver none = { NULL, NULL, NULL };
        rpc_call_receive(call, &none, NULL);
        atomic_store(&controller->open, rpc_call_ref(call));
        return;
    }
    struct baton_status st =
        baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NOT_LEADER, "another one leads");
    struct rpc_error_details details = { .leader = controller->leader };
    rpc_finish_with(call, &st, &details);
}

static void start_controller(struct controller *controller)
{
    static const struct rpc_route routes[] = { { "baton.v1.AgentSession/Session", serve_session,
                                                 0 } };
    struct rpc_listener listener = { "127.0.0.1:0", NULL };
    struct rpc_server_options options = { .routes = routes,
                                          .routes_count = 1,
                                          .context = controller,
                                          .listeners = &listener,
                                          .listeners_count = 1 };
    struct baton_status st = rpc_server_create(&options, &controller->server);
    cr_assert(baton_ok(&st), "%s", st.message);
    rpc_server_start(controller->server);
    (void)snprintf(controller->address, sizeof(controller->address), "127.0.0.1:%u",
                   rpc_server_port(controller->server, 0));
}

static void ignore(void *context, struct agent_event *event)
{
    (void)context;
    (void)event;
}

/* An agent that was told of one that stands by has its session with the leader, which it asks as soon as it is named. */
Test(agent_shell_link, the_session_is_with_the_leader)
{
    struct controller standby = { .asked = 0 };
    struct controller leader = { .asked = 0 };
    struct rpc_client *client = NULL;
    struct baton_mailbox *mailbox = NULL;
    struct baton_mailbox_item item;
    start_controller(&standby);
    start_controller(&leader);
    standby.leader = leader.address;
    struct rpc_client_options options = { .target = standby.address };
    struct baton_status st = rpc_client_create(&options, &client);
    cr_assert(baton_ok(&st));
    st = baton_mailbox_create(64, &mailbox);
    cr_assert(baton_ok(&st));
    struct link_options link_options = { client, mailbox, ignore, NULL, NULL };
    struct link *link = link_create(&link_options);
    link_open(link);
    while (atomic_load(&leader.open) == NULL) { /* Patience is the test program's. */
        link_run(link, baton_clock_monotonic_ns());
        uint64_t soon = baton_clock_monotonic_ns() + 10 * BATON_NS_PER_MS;
        uint64_t due = link_deadline_ns(link);
        if (baton_mailbox_take(mailbox, due < soon ? due : soon, &item)) {
            item.run(NULL, item.argument);
        }
    }
    cr_assert_eq(atomic_load(&standby.asked), 1);
    cr_assert_eq(atomic_load(&leader.asked), 1);
    st = baton_status_ok();
    rpc_finish(atomic_load(&leader.open), &st);
    rpc_call_unref(atomic_load(&leader.open));
    link_destroy(link);
    rpc_client_destroy(client);
    while (baton_mailbox_take(mailbox, 0, &item)) {
        link_discard(item.argument);
    }
    baton_mailbox_destroy(mailbox);
    rpc_server_destroy(standby.server);
    rpc_server_destroy(leader.server);
}

/* link_reset() is called while a step's actions are performed: a step within it would overwrite them. */
Test(agent_shell_link, end_is_told_only_by_link_run)
{
    struct heard heard = { .count = 0 };
    struct rpc_client_options options = { .target = "127.0.0.1:1" };
    struct rpc_client *client = NULL;
    struct baton_mailbox *mailbox = NULL;
    struct baton_mailbox_item item;
    struct baton_status st = rpc_client_create(&options, &client);
    cr_assert(baton_ok(&st));
    st = baton_mailbox_create(64, &mailbox);
    cr_assert(baton_ok(&st));
    struct link_options link_options = { client, mailbox, hear, NULL, &heard };
    struct link *link = link_create(&link_options);
    cr_assert_eq(link_deadline_ns(link), UINT64_MAX);
    link_open(link);
    cr_assert_eq(heard.count, 0);
    link_run(link, baton_clock_monotonic_ns());
    cr_assert_eq(heard.count, 1);
    cr_assert_eq(heard.kinds[0], AGENT_EVENT_SESSION_OPENED);
    link_reset(link, "because");
    link_reset(link, "twice");
    cr_assert_eq(heard.count, 1, "nothing is told within a step");
    cr_assert_eq(link_deadline_ns(link), 0, "but at once after it");
    link_run(link, 0);
    cr_assert_eq(heard.count, 2);
    cr_assert_eq(heard.kinds[1], AGENT_EVENT_SESSION_CLOSED);
    link_run(link, link_deadline_ns(link));
    cr_assert_eq(heard.count, 3);
    cr_assert_eq(heard.kinds[2], AGENT_EVENT_SESSION_OPENED);
    link_destroy(link);
    rpc_client_destroy(client);
    while (baton_mailbox_take(mailbox, 0, &item)) {
        link_discard(item.argument);
    }
    baton_mailbox_destroy(mailbox);
}
