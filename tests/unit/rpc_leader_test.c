/* rpc_leader_test.c -- one client, several servers of which one leads: it follows what they say, and goes round
 * its list when they say nothing. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "baton/v1/models.pb-c.h"
#include "tests/unit/rpc_fixture.h"

enum { SERVERS = 3, LIST_BYTES = 256 };

/* A server that leads or not; 'leader' is what it names. */
struct place {
    struct rpc_server *server;
    char address[32];
    bool leads;
    const char *leader;
    unsigned asked;
};

static void serve_get(struct rpc_call *call, const void *request, void *context)
{
    struct place *place = context;
    (void)request;
    place->asked++;
    if (place->leads) {
        struct rpc_stored stored = { true, 7, UINT64_C(12345678901) };
        struct baton_bytes read = rpc_call_metadata(call, "x-baton-read");
        if (baton_bytes_equal(read, baton_bytes_of("stored"))) {
            rpc_call_mark_stored(call, &stored);
        }
        Baton__V1__Model *model = baton_wire_new(&baton__v1__model__descriptor);
        rpc_reply(call, model);
        baton_wire_free(model);
        return;
    }
    struct baton_status st =
        baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NOT_LEADER, "another controller leads");
    struct rpc_error_details details = { .leader = place->leader };
    rpc_finish_with(call, &st, &details);
}

static const struct rpc_route routes[] = { { "baton.v1.Models/Get", serve_get, 0 } };

static void start_at(struct place *place, const char *address)
{
    struct rpc_listener listener = { address, NULL };
    struct rpc_server_options options = { .routes = routes,
                                          .routes_count = 1,
                                          .context = place,
                                          .listeners = &listener,
                                          .listeners_count = 1 };
    struct baton_status st = rpc_server_create(&options, &place->server);
    cr_assert(baton_ok(&st), "%s", st.message);
    rpc_server_start(place->server);
    (void)snprintf(place->address, sizeof(place->address), "127.0.0.1:%u",
                   rpc_server_port(place->server, 0));
}

static void start(struct place places[SERVERS], int count)
{
    for (int i = 0; i < count; i++) {
        start_at(&places[i], "127.0.0.1:0");
    }
}

static void stop(struct place *place)
{
    rpc_server_destroy(place->server);
    place->server = NULL;
}

static struct rpc_client *client_of(const char *target)
{
    struct rpc_client_options options = { .target = target };
    struct rpc_client *client = NULL;
    struct baton_status st = rpc_client_create(&options, &client);
    cr_assert(baton_ok(&st), "%s", st.message);
    return client;
}

static struct rpc_client *client_of_list(const struct place *places, int count)
{
    char list[LIST_BYTES] = "";
    for (int i = 0; i < count; i++) {
        size_t used = strlen(list);
        (void)snprintf(list + used, sizeof(list) - used, "%s%s", i == 0 ? "" : ",",
                       places[i].address);
    }
    return client_of(list);
}

static struct baton_status get(struct rpc_client *client)
{
    Baton__V1__GetModelRequest *request = baton_wire_new(&baton__v1__get_model_request__descriptor);
    struct rpc_call_options options = { .timeout_ns = 60 * BATON_NS_PER_S, .wait_for_ready = true };
    struct rpc_result result = rpc_unary(client, "baton.v1.Models/Get", request, &options);
    baton_wire_free(request);
    baton_wire_free(result.message);
    return result.status;
}

/* Calls until one is answered well; gives how many calls that took. */
static unsigned calls_until_ok(struct rpc_client *client, unsigned most)
{
    for (unsigned calls = 1; calls <= most; calls++) {
        struct baton_status st = get(client);
        if (baton_ok(&st)) {
            return calls;
        }
        cr_assert_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    }
    cr_assert_fail("nobody led");
    return 0;
}

/* The leader that was named gets the next call, and those after it. */
Test(rpc_leader, a_named_leader_is_followed)
{
    struct place places[SERVERS] = { { .leads = false } };
    start(places, SERVERS);
    places[0].leader = places[2].address;
    places[2].leads = true;
    struct rpc_client *client = client_of_list(places, SERVERS);
    struct baton_status st = get(client);
    cr_assert_eq(st.code, BATON_UNAVAILABLE);
    cr_assert_eq(st.reason, BATON_REASON_NOT_LEADER);
    cr_assert_eq(calls_until_ok(client, 1), 1);
    cr_assert_eq(calls_until_ok(client, 1), 1);
    cr_assert_eq(places[0].asked, 1);
    cr_assert_eq(places[1].asked, 0);
    cr_assert_eq(places[2].asked, 2);
    rpc_client_destroy(client);
    for (int i = 0; i < SERVERS; i++) {
        stop(&places[i]);
    }
}

/* Also one that the client was not told of, from a client that was told of one server only; when that leader is
 * gone, it begins with its own again. */
Test(rpc_leader, a_leader_that_is_not_listed_is_followed)
{
    struct place places[SERVERS] = { { .leads = false } };
    start(places, SERVERS);
    places[0].leader = places[1].address;
    places[1].leads = true;
    struct rpc_client *client = client_of_list(places, 1);
    cr_assert_eq(calls_until_ok(client, 2), 2);
    stop(&places[1]);
    places[0].leader = places[2].address;
    places[2].leads = true;
    cr_assert_leq(calls_until_ok(client, 10), 10);
    cr_assert_eq(places[2].asked, 1);
    rpc_client_destroy(client);
    stop(&places[0]);
    stop(&places[2]);
}

/* Nobody listens at the first address, the second does not know who leads: the third one answers.  A call with a
 * list does not wait for one server. */
Test(rpc_leader, the_list_is_gone_round)
{
    struct place places[SERVERS] = { { .leads = false } };
    start(places, SERVERS);
    places[1].leader = "";
    places[2].leads = true;
    stop(&places[0]);
    struct rpc_client *client = client_of_list(places, SERVERS);
    cr_assert(rpc_client_has_choice(client));
    cr_assert_eq(calls_until_ok(client, 3), 3);
    cr_assert_eq(places[1].asked, 1);
    places[2].leads = false;
    places[1].leads = true;
    cr_assert_leq(calls_until_ok(client, 20), 20);
    rpc_client_destroy(client);
    stop(&places[1]);
    stop(&places[2]);
}

/* Two that name each other, or one that names itself, only cost calls. */
Test(rpc_leader, a_circle_does_no_harm)
{
    struct place places[SERVERS] = { { .leads = false } };
    start(places, SERVERS);
    places[0].leader = places[1].address;
    places[1].leader = places[0].address;
    struct rpc_client *client = client_of_list(places, 2);
    for (int i = 0; i < 6; i++) {
        struct baton_status st = get(client);
        cr_assert_eq(st.reason, BATON_REASON_NOT_LEADER);
    }
    cr_assert_eq(places[0].asked, 3);
    places[0].leader = places[0].address;
    places[1].leader = "no address";
    places[1].leads = true;
    cr_assert_leq(calls_until_ok(client, 2), 2);
    rpc_client_destroy(client);
    for (int i = 0; i < SERVERS; i++) {
        stop(&places[i]);
    }
}

/* Without certificates a client of this machine's servers is not sent to another machine. */
Test(rpc_leader, no_other_machine_is_followed_without_certificates)
{
    struct place places[SERVERS] = { { .leads = false } };
    start(places, SERVERS);
    places[0].leader = "controller.example:7070";
    places[1].leads = true;
    struct rpc_client *client = client_of_list(places, 2);
    cr_assert_eq(calls_until_ok(client, 2), 2);
    cr_assert_eq(places[0].asked, 1);
    rpc_client_destroy(client);
    for (int i = 0; i < SERVERS; i++) {
        stop(&places[i]);
    }
}

/* An answer's mark reaches the caller, to the millisecond; where there is none, none is seen. */
Test(rpc_leader, a_stored_answer_is_marked)
{
    static const struct rpc_metadata read = { "x-baton-read", "stored" };
    struct rpc_call_options asks = { .metadata = &read, .metadata_count = 1 };
    struct place place = { .leads = true };
    start_at(&place, "127.0.0.1:0");
    struct rpc_client *client = client_of(place.address);
    Baton__V1__GetModelRequest *request = baton_wire_new(&baton__v1__get_model_request__descriptor);
    struct rpc_result result = rpc_unary(client, "baton.v1.Models/Get", request, &asks);
    cr_assert(baton_ok(&result.status) && result.stored.is_stored);
    cr_assert_eq(result.stored.revision, 7);
    cr_assert_eq(result.stored.age_ns, UINT64_C(12345000000));
    baton_wire_free(result.message);
    result = rpc_unary(client, "baton.v1.Models/Get", request, NULL);
    cr_assert(baton_ok(&result.status) && !result.stored.is_stored);
    baton_wire_free(result.message);
    baton_wire_free(request);
    rpc_client_destroy(client);
    stop(&place);
}

/* Lists are checked word by word; gRPC's own lists and sockets stay one target. */
Test(rpc_leader, targets_are_checked)
{
    static const char *const wrong[] = {
        "", "a:1,", ",a:1", "a:1,b", "a:1, b:1", "unix:", "a:1,b:1,c:1,d:1,e:1,f:1,g:1,h:1,i:1"
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct rpc_client_options options = { .target = wrong[i] };
        struct rpc_client *client = NULL;
        struct baton_status st = rpc_client_create(&options, &client);
        cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD, "%s", wrong[i]);
    }
    static const char *const single[] = { "ipv4:127.0.0.1:1,127.0.0.1:2", "unix:/a,b:1", "a:1" };
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        struct rpc_client *client = client_of(single[i]);
        cr_assert(!rpc_client_has_choice(client), "%s", single[i]);
        rpc_client_destroy(client);
    }
}
