/* controller_shell_test.c -- a real controller on the loopback: pages, sessions, large fleets, its end. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "tests/unit/controller_shell_fixture.h"

/* --- pages --- */

static Baton__V1__ListModelsResponse *list_models(struct controller_fixture *fixture,
                                                  const char *token, uint32_t size)
{
    Baton__V1__ListModelsRequest *request =
        baton_wire_new(&baton__v1__list_models_request__descriptor);
    request->page_size = size;
    request->page_token = baton_wire_text(request, token);
    return controller_fixture_call(fixture, "baton.v1.Models/List", request);
}

Test(controller_shell, pages_hold_each_object_once)
{
    static const char *const names[] = { "a", "b", "b.c", "b-d", "e" };
    struct controller_fixture fixture;
    char token[BATON_TEXT_BYTES] = "", seen[64] = "";
    unsigned pages = 0, models = 0;
    controller_fixture_start(&fixture);
    for (size_t i = 0; i < 5; i++) {
        controller_fixture_apply(&fixture, names[i]);
    }
    do {
        Baton__V1__ListModelsResponse *page = list_models(&fixture, token, 2);
        cr_assert_leq(page->n_models, 2);
        for (size_t i = 0; i < page->n_models; i++, models++) {
            cr_assert_gt(strcmp(page->models[i]->meta->name, seen), 0, "in order, and none twice");
            (void)snprintf(seen, sizeof(seen), "%s", page->models[i]->meta->name);
        }
        cr_assert(baton_text_copy(token, sizeof(token), page->next_page_token));
        baton_wire_free(page);
        pages++;
    } while (token[0] != '\0' && pages < 10);
    cr_assert_eq(models, 5);
    cr_assert_eq(pages, 3);
    controller_fixture_stop(&fixture);
}

/* A token is only a place in the order: nothing that a client makes up can do harm. */
Test(controller_shell, tokens_of_nobody_are_places_too)
{
    static const char *const tokens[] = {
        "/", "////", "zzz", "a/b/c/d", "m/99999999999999999999/", "m/-1/x", "\xc3\xa4", "m/1/", "~"
    };
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "m");
    (void)controller_fixture_publish(&fixture, "m");
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        baton_wire_free(list_models(&fixture, tokens[i], 1));
        Baton__V1__ListVersionsRequest *versions =
            baton_wire_new(&baton__v1__list_versions_request__descriptor);
        versions->page_token = baton_wire_text(versions, tokens[i]);
        Baton__V1__ListVersionsResponse *page =
            controller_fixture_call(&fixture, "baton.v1.Versions/List", versions);
        cr_assert_leq(page->n_versions, 1);
        baton_wire_free(page);
        Baton__V1__ListGroupsRequest *groups =
            baton_wire_new(&baton__v1__list_groups_request__descriptor);
        groups->page_token = baton_wire_text(groups, tokens[i]);
        baton_wire_free(controller_fixture_call(&fixture, "baton.v1.Fleet/ListGroups", groups));
        Baton__V1__ListRollsRequest *rolls =
            baton_wire_new(&baton__v1__list_rolls_request__descriptor);
        rolls->page_token = baton_wire_text(rolls, tokens[i]);
        baton_wire_free(controller_fixture_call(&fixture, "baton.v1.Rolls/List", rolls));
        Baton__V1__ListEnginesRequest *engines =
            baton_wire_new(&baton__v1__list_engines_request__descriptor);
        engines->page_token = baton_wire_text(engines, tokens[i]);
        baton_wire_free(controller_fixture_call(&fixture, "baton.v1.Fleet/ListEngines", engines));
    }
    controller_fixture_stop(&fixture);
}

/* --- sessions --- */

/* The agent beside a trainer. */
Test(controller_shell, agent_without_groups_is_welcome)
{
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    struct rpc_stream *session = controller_fixture_hello(
        &fixture, "trainer", 0, BATON__V1__GROUP_STATE__GROUP_STATE_JOINING);
    Baton__V1__ListAgentsResponse *list =
        controller_fixture_call(&fixture, "baton.v1.Fleet/ListAgents",
                                baton_wire_new(&baton__v1__list_agents_request__descriptor));
    cr_assert_eq(list->n_agents, 1);
    cr_assert(list->agents[0]->connected);
    cr_assert_eq(list->agents[0]->groups, 0);
    baton_wire_free(list);
    rpc_stream_unref(session);
    controller_fixture_stop(&fixture);
}

static void end_badly(struct rpc_stream *session, void *request, const char *says)
{
    struct baton_status st = rpc_stream_send(session, request);
    cr_assert(baton_ok(&st));
    baton_wire_free(request);
    st = controller_fixture_end(session);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", st.message);
    cr_assert_not_null(strstr(st.message, says), "%s", st.message);
    rpc_stream_unref(session);
}

Test(controller_shell, session_ends_with_what_is_wrong)
{
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    struct rpc_stream *session =
        controller_fixture_open(&fixture, "baton.v1.AgentSession/Session", NULL);
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_REPORT;
    request->report = baton_wire_part(request, &baton__v1__report__descriptor);
    end_badly(session, request, "hello");
    session =
        controller_fixture_hello(&fixture, "a", 1, BATON__V1__GROUP_STATE__GROUP_STATE_SERVING);
    request = baton_wire_new(&baton__v1__session_request__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_REPORT;
    request->report = baton_wire_part(request, &baton__v1__report__descriptor);
    request->report->n_groups = 1;
    request->report->groups = baton_wire_take(request, 1, sizeof(*request->report->groups));
    request->report->groups[0] = baton_wire_part(request, &baton__v1__group_report__descriptor);
    request->report->groups[0]->state = (Baton__V1__GroupState)99;
    end_badly(session, request, "groups.state");
    controller_fixture_stop(&fixture);
}

/* --- large fleets --- */

/* A roll of so many groups that their texts would not fit into one message. */
Test(controller_shell, large_roll_is_one_message, .timeout = 100)
{
    enum { AGENTS = 17 };
    struct controller_fixture fixture;
    struct rpc_stream *sessions[AGENTS];
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "m");
    for (unsigned i = 0; i < AGENTS; i++) {
        char agent[16];
        (void)snprintf(agent, sizeof(agent), "node-%u", i);
        sessions[i] = controller_fixture_hello(&fixture, agent, BATON_GROUPS_PER_AGENT_MAX,
                                               BATON__V1__GROUP_STATE__GROUP_STATE_SERVING);
    }
    (void)controller_fixture_publish(&fixture, "m");
    Baton__V1__GetRollRequest *request = baton_wire_new(&baton__v1__get_roll_request__descriptor);
    request->model = baton_wire_text(request, "m");
    Baton__V1__Roll *roll = controller_fixture_call(&fixture, "baton.v1.Rolls/Get", request);
    cr_assert_eq(roll->n_groups, AGENTS * BATON_GROUPS_PER_AGENT_MAX);
    for (size_t i = 0; i < roll->n_groups; i++) {
        cr_assert_str_eq(roll->groups[i]->blocked_message, "");
        cr_assert_neq(roll->groups[i]->state, 0);
    }
    cr_assert_lt(baton_wire_size(roll), (size_t)BATON_MESSAGE_BYTES_MAX / 4);
    baton_wire_free(roll);
    for (unsigned i = 0; i < AGENTS; i++) {
        rpc_stream_unref(sessions[i]);
    }
    controller_fixture_stop(&fixture);
}

/* --- the end --- */

static void note_done(const struct rpc_result *result, void *context)
{
    *(struct baton_status *)context = result->status;
    baton_wire_free(result->message);
}

static void *new_wait(void)
{
    Baton__V1__WaitRollRequest *request = baton_wire_new(&baton__v1__wait_roll_request__descriptor);
    request->model = baton_wire_text(request, "m");
    request->condition = baton_wire_text(request, "converged");
    return request;
}

Test(controller_shell, wait_ends_at_its_deadline)
{
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "m");
    struct rpc_stream *session =
        controller_fixture_hello(&fixture, "a", 1, BATON__V1__GROUP_STATE__GROUP_STATE_SERVING);
    (void)controller_fixture_publish(&fixture, "m");
    void *request = new_wait();
    struct rpc_call_options options = { .timeout_ns = 50 * BATON_NS_PER_MS };
    struct rpc_result result = rpc_unary(fixture.client, "baton.v1.Rolls/Wait", request, &options);
    cr_assert_eq(result.status.code, BATON_DEADLINE_EXCEEDED, "%s", result.status.message);
    baton_wire_free(request);
    rpc_stream_unref(session);
    controller_fixture_stop(&fixture);
}

/* SIGTERM with everything open: all are told, and no reference is left (the server checks that). */
Test(controller_shell, stop_ends_all_that_is_open)
{
    struct controller_fixture fixture;
    struct baton_status waited = baton_status_ok();
    controller_fixture_start(&fixture);
    controller_fixture_apply(&fixture, "m");
    struct rpc_stream *session =
        controller_fixture_hello(&fixture, "a", 1, BATON__V1__GROUP_STATE__GROUP_STATE_SERVING);
    (void)controller_fixture_publish(&fixture, "m");
    struct rpc_stream *watch =
        controller_fixture_open(&fixture, "baton.v1.Fleet/Watch",
                                baton_wire_new(&baton__v1__watch_groups_request__descriptor));
    baton_wire_free(controller_fixture_next(watch));
    Baton__V1__EventsRequest *events = baton_wire_new(&baton__v1__events_request__descriptor);
    events->follow = true;
    struct rpc_stream *follower =
        controller_fixture_open(&fixture, "baton.v1.Fleet/Events", events);
    baton_wire_free(controller_fixture_next(follower));
    void *request = new_wait();
    struct rpc_call_options options = { .timeout_ns = 100 * BATON_NS_PER_S };
    rpc_unary_start(fixture.client, "baton.v1.Rolls/Wait", request, &options, note_done, &waited);
    baton_wire_free(request);
    baton_wire_free(list_models(&fixture, "", 0)); /* The wait was sent before it. */
    daemon_stop(fixture.daemon);
    struct rpc_stream *streams[] = { session, watch, follower };
    for (size_t i = 0; i < 3; i++) {
        struct baton_status st = controller_fixture_end(streams[i]);
        cr_assert_eq(st.code, BATON_UNAVAILABLE, "%zu: %s", i, st.message);
        cr_assert_eq(st.reason, BATON_REASON_SHUTTING_DOWN);
        rpc_stream_unref(streams[i]);
    }
    (void)pthread_join(fixture.thread, NULL);
    rpc_client_destroy(fixture.client); /* Runs what is left of the callbacks. */
    cr_assert_eq(waited.code, BATON_UNAVAILABLE, "%s", waited.message);
    daemon_destroy(fixture.daemon);
}

/* One that never ran is destroyed as well: main() does so when a thread cannot be had. */
Test(controller_shell, may_end_before_it_ran)
{
    struct rpc_listener listener = { "127.0.0.1:0", NULL };
    struct daemon_options options = {
        .store_address = "memory:", .listeners = &listener, .listeners_count = 1
    };
    struct daemon *daemon = NULL;
    struct baton_status st = daemon_create(&options, &daemon);
    cr_assert(baton_ok(&st), "%s", st.message);
    daemon_destroy(daemon);
    listener.address = "no-such-host.invalid:1";
    st = daemon_create(&options, &daemon);
    cr_assert_not(baton_ok(&st));
}
