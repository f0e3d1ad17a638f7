/* dashboard_test.c -- what the bridge makes of paths, hosts, bodies and messages; calls inside the process; see
 * controller/dashboard/bridge.h. */
#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/web/web_server.h"
#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "controller/dashboard/bridge.h"

static struct baton_bytes bytes_of(const char *text)
{
    return (struct baton_bytes){ (const uint8_t *)text, strlen(text) };
}

Test(dashboard, paths_become_methods)
{
    char method[BRIDGE_METHOD_BYTES];
    cr_assert(bridge_method_of("/api/v1/Fleet/ListGroups", method));
    cr_assert_str_eq(method, "baton.v1.Fleet/ListGroups");
    static const char *const wrong[] = { "/api/v1/",      "/api/v1/Fleet",      "/api/v1/Fleet/",
                                         "/api/v1//List", "/api/v1/Fleet/Get/", "/api/v1/Fleet/G.t",
                                         "/api/v2/A/B",   "/api/v1/A/B?c",      "" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        cr_assert_not(bridge_method_of(wrong[i], method), "%s", wrong[i]);
    }
    char longest[200] = "/api/v1/A/";
    memset(longest + 10, 'x', sizeof(longest) - 11);
    longest[sizeof(longest) - 1] = '\0';
    cr_assert_not(bridge_method_of(longest, method));
}

static bool is_let_in(const char *host, const char *origin, bool is_local)
{
    struct baton_status st = bridge_check_origin(host, origin, is_local);
    return baton_ok(&st);
}

Test(dashboard, other_names_and_other_pages_are_refused)
{
    cr_assert(is_let_in("127.0.0.1:9480", NULL, true));
    cr_assert(is_let_in("localhost:9480", "http://localhost:9480", true));
    cr_assert(is_let_in("[::1]:9480", "http://[::1]:9480", true));
    cr_assert(is_let_in("10.0.0.1:9480", "http://10.0.0.1:9480", false));
    cr_assert(is_let_in("127.0.0.1", "http://127.0.0.1", true), "at port 80 none is sent");
    cr_assert(is_let_in("[::1]", NULL, true));
    cr_assert_not(is_let_in("10.0.0.1:9480", NULL, true),
                  "another machine's, and it is not reached");
    cr_assert_not(is_let_in(NULL, NULL, true));
    cr_assert_not(is_let_in("", NULL, true));
    cr_assert_not(is_let_in("localhost.evil.example:9480", NULL, true));
    cr_assert_not(is_let_in("evil.example", NULL, false));
    cr_assert_not(is_let_in("unix:9480", NULL, true), "a name, not a socket");
    cr_assert_not(is_let_in("unix:9480", "http://unix:9480", false));
    cr_assert_not(is_let_in("localhost:9480", "http://localhost:1", true), "another port");
    cr_assert_not(is_let_in("localhost:9480", "https://localhost:9480", true));
    cr_assert_not(is_let_in("localhost:9480", "null", true));
}

Test(dashboard, bodies_are_json_objects_of_the_request)
{
    ProtobufCMessage *message = NULL;
    struct baton_status st = bridge_read_body(bytes_of("{\"name\": \"g\"}"),
                                              &baton__v1__get_group_request__descriptor, &message);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(((Baton__V1__GetGroupRequest *)message)->name, "g");
    baton_wire_free(message);
    st = bridge_read_body(bytes_of(""), &baton__v1__get_group_request__descriptor, &message);
    cr_assert(baton_ok(&st), "%s", st.message);
    baton_wire_free(message);
    static const char *const wrong[] = {
        "[]", "7", "{", "{\"name\": 7.5}", "{\"a\": 1, \"a\": 2}", "{\"other\": 1}"
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        st = bridge_read_body(bytes_of(wrong[i]), &baton__v1__get_group_request__descriptor,
                              &message);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s: %s", wrong[i], st.message);
    }
}

Test(dashboard, events_carry_their_revision)
{
    Baton__V1__WatchGroupsResponse change;
    baton__v1__watch_groups_response__init(&change);
    char *text = bridge_event_text(&change);
    cr_assert_str_eq(text, "data: {}\n\n", "%s", text);
    free(text);
    change.type = BATON__V1__WATCH_EVENT_TYPE__WATCH_EVENT_TYPE_BOOKMARK;
    change.revision = 7;
    text = bridge_event_text(&change);
    cr_assert_str_eq(
        text, "id: 7\ndata: {\"type\":\"WATCH_EVENT_TYPE_BOOKMARK\",\"revision\":\"7\"}\n\n");
    free(text);
    struct baton_status st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE, "a\nb");
    text = bridge_end_text(&st);
    cr_assert_str_eq(text, "event: error\ndata: {\"error\":{\"code\":\"UNAVAILABLE\",\"reason\":"
                           "\"NONE\",\"message\":\"a\\nb\"}}\n\n");
    free(text);
}

/* --- calls inside the process --- */

static void say_peer(struct rpc_call *call, const void *request, void *context)
{
    struct rpc_peer peer;
    (void)request;
    (void)context;
    rpc_call_peer(call, &peer);
    struct baton_status st =
        baton_status_make(BATON_ABORTED, BATON_REASON_NONE, "%s %s %s", peer.identity,
                          peer.is_private ? "private" : "open", peer.address);
    rpc_finish(call, &st);
}

static void expect_peer(struct rpc_client *client, const char *caller, const char *expected)
{
    const struct rpc_metadata pair = { RPC_CALLER_KEY, caller };
    const struct rpc_call_options options = { .metadata = &pair, .metadata_count = caller != NULL };
    Baton__V1__GetModelRequest request;
    baton__v1__get_model_request__init(&request);
    struct rpc_result result = rpc_unary(client, "baton.v1.Models/Get", &request, &options);
    cr_assert_str_eq(result.status.message, expected);
}

Test(dashboard, calls_inside_count_as_their_caller_and_calls_from_outside_cannot_say_so)
{
    static const struct rpc_route route = { "baton.v1.Models/Get", say_peer, 0 };
    const struct rpc_listener listener = { "127.0.0.1:0", NULL };
    const struct rpc_server_options options = {
        .routes = &route, .routes_count = 1, .listeners = &listener, .listeners_count = 1
    };
    struct rpc_server *server = NULL;
    struct rpc_client *inside = NULL;
    struct rpc_client *outside = NULL;
    char address[32];
    struct baton_status st = rpc_server_create(&options, &server);
    cr_assert(baton_ok(&st), "%s", st.message);
    const struct rpc_client_options inner = { .inside = server };
    st = rpc_client_create(&inner, &inside);
    cr_assert(baton_ok(&st), "%s", st.message);
    expect_peer(inside, "127.0.0.1:1", "unix:inside: the server starts or stops");
    rpc_server_start(server);
    expect_peer(inside, "127.0.0.1:1", "local private 127.0.0.1:1");
    expect_peer(inside, "[::1]:1", "local private [::1]:1");
    expect_peer(inside, "10.0.0.1:1", "anonymous open 10.0.0.1:1");
    expect_peer(inside, "proxy 127.0.0.1:1", "anonymous open proxy 127.0.0.1:1");
    expect_peer(inside, NULL, "anonymous open ");
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", rpc_server_port(server, 0));
    const struct rpc_client_options outer = { .target = address };
    st = rpc_client_create(&outer, &outside);
    cr_assert(baton_ok(&st), "%s", st.message);
    const struct rpc_metadata pair = { RPC_CALLER_KEY, "10.9.9.9:1" };
    const struct rpc_call_options said = { .metadata = &pair, .metadata_count = 1 };
    Baton__V1__GetModelRequest request;
    baton__v1__get_model_request__init(&request);
    struct rpc_result result = rpc_unary(outside, "baton.v1.Models/Get", &request, &said);
    cr_assert_null(strstr(result.status.message, "10.9.9.9"), "%s", result.status.message);
    rpc_client_destroy(outside);
    rpc_client_destroy(inside);
    rpc_server_destroy(server);
}

/* --- streams --- */

static _Atomic(struct rpc_call *) silent; /* The call of a watch that is told nothing. */

static void watch(struct rpc_call *call, const void *request, void *context)
{
    const Baton__V1__WatchGroupsRequest *asked = request;
    struct baton_status st = baton_status_ok();
    (void)context;
    if (strcmp(asked->model, "silent") == 0) {
        atomic_store(&silent, rpc_call_ref(call));
        return;
    }
    if (strcmp(asked->model, "told") == 0) {
        Baton__V1__WatchGroupsResponse told;
        baton__v1__watch_groups_response__init(&told);
        told.revision = 7;
        st = rpc_send(call, &told);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    st = baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "no more");
    rpc_finish(call, &st);
}

static int ask(const struct dashboard *dashboard, const char *model)
{
    char text[256];
    char body[64];
    (void)snprintf(body, sizeof(body), "{\"model\":\"%s\"}", model);
    (void)snprintf(text, sizeof(text),
                   "POST /api/v1/Fleet/Watch HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                   "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                   strlen(body), body);
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(dashboard_port(dashboard)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
    return fd;
}

/* The whole answer. */
static void expect_answer(int fd, const char *status, const char *what)
{
    char text[4096] = "";
    size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < sizeof(text) - 1; size += (size_t)(got > 0 ? got : 0)) {
        got = recv(fd, text + size, sizeof(text) - 1 - size, 0);
    }
    cr_assert_eq(strncmp(text, status, strlen(status)), 0, "%s", text);
    cr_assert_not_null(strstr(text, what), "%s in: %s", what, text);
    (void)close(fd);
}

/* As the web server's ticker does each 10 s. */
static void tick(const struct dashboard *dashboard)
{
    pthread_mutex_lock(&dashboard->web->mutex);
    for (struct web_request *at = dashboard->web->requests; at != NULL; at = at->next) {
        web_tick(at);
    }
    pthread_mutex_unlock(&dashboard->web->mutex);
}

Test(dashboard, streams_tell_fail_and_are_given_up_with_their_callers)
{
    static const struct rpc_route route = { "baton.v1.Fleet/Watch", watch, 0 };
    const struct rpc_listener listener = { "127.0.0.1:0", NULL };
    const struct rpc_server_options options = {
        .routes = &route, .routes_count = 1, .listeners = &listener, .listeners_count = 1
    };
    struct rpc_server *server = NULL;
    struct dashboard *dashboard = NULL;
    struct baton_status st = rpc_server_create(&options, &server);
    cr_assert(baton_ok(&st), "%s", st.message);
    rpc_server_start(server);
    const struct dashboard_options given = {
        .listen = "127.0.0.1:0", .server = server, .routes = &route, .routes_count = 1
    };
    st = dashboard_create(&given, &dashboard);
    cr_assert(baton_ok(&st), "%s", st.message);
    expect_answer(ask(dashboard, "told"), "HTTP/1.1 200", "event: error\ndata: {\"error\"");
    expect_answer(ask(dashboard, "told"), "HTTP/1.1 200", "id: 7\ndata: {\"revision\":\"7\"}\n\n");
    expect_answer(ask(dashboard, "none"), "HTTP/1.1 404", "{\"error\":{\"code\":\"NOT_FOUND\"");
    int left = ask(dashboard, "silent");
    for (int i = 0; atomic_load(&silent) == NULL && i < 60000; i++) {
        (void)usleep(1000);
    }
    (void)close(left);
    cr_assert_not_null(atomic_load(&silent));
    for (int i = 0; !rpc_call_is_cancelled(silent) && i < 60000; i++) {
        tick(dashboard);
        (void)usleep(1000);
    }
    cr_assert(rpc_call_is_cancelled(silent));
    rpc_call_unref(silent);
    dashboard_destroy(dashboard);
    rpc_server_destroy(server);
}
