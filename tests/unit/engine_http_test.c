/* agent/engine/http against real sockets: outcomes, bounds, and what is never done. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/http/http.h"
#include "tests/unit/engine_server.h"

#define SOON   (baton_clock_monotonic_ns() + 1500 * BATON_NS_PER_MS)
#define PLENTY (baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S)

static struct http *open_url(const char *url, const char *token, size_t body_bytes_max)
{
    struct http *http = NULL;
    struct http_options options = { .url = url, .token = token, .body_bytes_max = body_bytes_max };
    struct baton_status st = http_open(&options, &http);
    cr_assert(baton_ok(&st), "%s", st.message);
    return http;
}

static struct baton_status get(struct http *http, const char *path, uint64_t deadline_ns,
                               struct http_answer *answer)
{
    return http_call(http, &(struct http_request){ "GET", path, NULL, .repeatable = false },
                     deadline_ns, answer);
}

/* One GET against one row. */
static struct baton_status get_row(const struct script_row *row, size_t body_bytes_max,
                                   struct http_answer *answer)
{
    struct script *script = script_start(row, 1);
    struct http *http = open_url(script_url(script), NULL, body_bytes_max);
    struct baton_status st = get(http, "/x", SOON, answer);
    answer->body = NULL;
    http_close(http);
    script_stop(script);
    return st;
}

/* https only where it was allowed; userinfo and other schemes nowhere. */
Test(http, schemes)
{
    static const struct http_tls tls = { NULL, NULL, NULL };
    struct http *http = NULL;
    struct http_options options = { .url = "https://127.0.0.1:1" };
    cr_assert_eq(http_open(&options, &http).code, BATON_INVALID_ARGUMENT);
    options.tls = &tls;
    struct baton_status st = http_open(&options, &http);
    cr_assert(baton_ok(&st), "%s", st.message);
    http_close(http);
    options.url = "https://user@127.0.0.1:1";
    cr_assert_eq(http_open(&options, &http).code, BATON_INVALID_ARGUMENT);
    options.url = "ftp://127.0.0.1:1";
    cr_assert_eq(http_open(&options, &http).code, BATON_INVALID_ARGUMENT);
}

Test(http, answers_with_code_body_version_and_token)
{
    static const struct script_row ROWS[] = {
        { "POST /x", 200, "{\"a\":1}", SCRIPT_ANSWER, "X-Baton-Version: 42" },
        { "GET /x", 503, "busy", SCRIPT_ANSWER, NULL },
    };
    struct script *script = script_start(ROWS, 2);
    struct http *http = open_url(script_url(script), "secret-token", 0);
    struct http_answer answer;
    struct baton_status st = http_call(
        http, &(struct http_request){ "POST", "/x?a=b", "{\"q\":2}", .repeatable = false }, PLENTY,
        &answer);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(answer.outcome, HTTP_ANSWERED);
    cr_expect_eq(answer.code, 200);
    cr_expect_str_eq(answer.body, "{\"a\":1}");
    cr_expect_str_eq(answer.version, "42");
    cr_expect(script_last_has(script, "POST /x?a=b", "x-baton-token: secret-token"));
    cr_expect(script_last_has(script, "POST /x?a=b", "{\"q\":2}"));
    st = get(http, "/x", PLENTY, &answer);
    cr_expect(baton_ok(&st));
    cr_expect_eq(answer.code, 503);
    cr_expect_str_eq(answer.version, "", "the last answer's header must not stay");
    http_close(http);
    script_stop(script);
}

Test(http, tells_sent_and_not_sent_apart)
{
    struct http_answer answer;
    struct script *script = script_start(NULL, 0);
    struct http *http = open_url(script_url(script), NULL, 0);
    script_stop(script);
    struct baton_status st = get(http, "/x", PLENTY, &answer);
    cr_expect_eq(st.code, BATON_UNAVAILABLE);
    cr_expect_eq(st.reason, BATON_REASON_ENGINE_UNREACHABLE);
    cr_expect_eq(answer.outcome, HTTP_NOT_SENT);
    st = get(http, "/x", 1, &answer);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED);
    cr_expect_eq(answer.outcome, HTTP_NOT_SENT, "no time left: nothing goes out");
    http_close(http);

    st = get_row(&(struct script_row){ "GET /x", 0, "", SCRIPT_HANG, NULL }, 0, &answer);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED);
    cr_expect_eq(answer.outcome, HTTP_NO_ANSWER);
    st = get_row(&(struct script_row){ "GET /x", 0, "", SCRIPT_CLOSE, NULL }, 0, &answer);
    cr_expect_eq(st.code, BATON_UNAVAILABLE);
    cr_expect_eq(answer.outcome, HTTP_NO_ANSWER);
}

Test(http, refuses_answers_that_are_cut_endless_or_no_http)
{
    struct http_answer answer;
    struct baton_status st =
        get_row(&(struct script_row){ "GET /x", 200, "{\"a\":1}", SCRIPT_CUT, NULL }, 0, &answer);
    cr_expect_eq(st.code, BATON_UNAVAILABLE);
    cr_expect_eq(answer.outcome, HTTP_NO_ANSWER);
    st = get_row(&(struct script_row){ "GET /x", 0, "", SCRIPT_ENDLESS, NULL }, 64 << 10, &answer);
    cr_expect_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_expect_eq(answer.outcome, HTTP_NO_ANSWER);
    st = get_row(&(struct script_row){ "GET /x", 0, "", SCRIPT_NO_HTTP, NULL }, 0, &answer);
    cr_expect_eq(st.code, BATON_UNAVAILABLE);
    cr_expect_eq(answer.outcome, HTTP_NO_ANSWER);
}

Test(http, sends_a_request_once_and_follows_nothing)
{
    static const struct script_row ROWS[] = {
        { "POST /once", 200, "{}", SCRIPT_KEEP, NULL },
        { "POST /once", 0, "", SCRIPT_CLOSE, NULL },
        { "GET /away", 302, "", SCRIPT_ANSWER, "Location: /there" },
    };
    struct script *script = script_start(ROWS, 3);
    struct http *http = open_url(script_url(script), NULL, 0);
    struct http_answer answer;
    struct http_request once = { "POST", "/once", "{}", .repeatable = false };
    struct baton_status st = http_call(http, &once, PLENTY, &answer);
    cr_expect(baton_ok(&st));
    st = http_call(http, &once, PLENTY, &answer);
    cr_expect_eq(st.code, BATON_UNAVAILABLE);
    cr_expect_eq(script_count(script, "POST /once"), 2);
    st = get(http, "/away", PLENTY, &answer);
    cr_expect(baton_ok(&st));
    cr_expect_eq(answer.code, 302);
    cr_expect_eq(script_count(script, "GET /there"), 0);
    http_close(http);
    script_stop(script);
}

/* libcurl sends a request again where a kept connection is dead: why others get one of their own. */
Test(http, uses_a_kept_connection_only_for_what_may_be_repeated)
{
    static const struct script_row ROWS[] = {
        { "GET /again", 200, "{}", SCRIPT_KEEP, NULL },
        { "GET /again", 200, "{}", SCRIPT_ANSWER, NULL },
    };
    struct script *script = script_start(ROWS, 2);
    struct http *http = open_url(script_url(script), NULL, 0);
    struct http_request again = { "GET", "/again", NULL, .repeatable = true };
    struct http_answer answer;
    struct baton_status st = http_call(http, &again, PLENTY, &answer);
    cr_expect(baton_ok(&st));
    st = http_call(http, &again, PLENTY, &answer);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(script_count(script, "GET /again"), 3);
    http_close(http);
    script_stop(script);
}

/* ... also where it dies while the request is on its way: a server that ends each connection after an answer and
 * does not say so. */
Test(http, what_may_be_repeated_survives_a_server_that_leaves)
{
    static const struct script_row ROW = { "POST /again", 200, "{}", SCRIPT_ANSWER, NULL };
    struct script *script = script_start(&ROW, 1);
    struct http *http = open_url(script_url(script), NULL, 0);
    struct http_request again = { "POST", "/again", "{}", .repeatable = true };
    for (int i = 0; i < 2000; i++) {
        struct http_answer answer;
        struct baton_status st = http_call(http, &again, PLENTY, &answer);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    http_close(http);
    script_stop(script);
}

Test(http, ignores_a_proxy_of_the_environment)
{
    struct http_answer answer;
    cr_assert_eq(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    cr_assert_eq(setenv("all_proxy", "http://127.0.0.1:1", 1), 0);
    struct baton_status st =
        get_row(&(struct script_row){ "GET /x", 200, "{}", SCRIPT_ANSWER, NULL }, 0, &answer);
    cr_expect(baton_ok(&st), "%s", st.message);
}

Test(http, refuses_addresses_off_this_machine_and_bad_urls)
{
    static const char *const BAD[] = { "https://127.0.0.1", "127.0.0.1:80",  "http://",
                                       "http://u:p@h",      "http://h/?a=b", "file:///etc",
                                       "http://:80",        "http://a b" };
    struct http_answer answer;
    struct http *http = open_url("http://192.0.2.1:9", NULL, 0);
    struct baton_status st = get(http, "/x", PLENTY, &answer);
    cr_expect_eq(st.code, BATON_PERMISSION_DENIED);
    cr_expect_eq(answer.outcome, HTTP_NOT_SENT);
    http_close(http);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        struct http *none = NULL;
        st = http_open(&(struct http_options){ .url = BAD[i] }, &none);
        cr_expect_eq(st.code, BATON_INVALID_ARGUMENT, "%s", BAD[i]);
        cr_expect_null(none);
    }
}

struct aborter {
    struct script *script;
    struct http *http;
};

static void *abort_when_it_came(void *self)
{
    struct aborter *aborter = self;
    (void)script_await(aborter->script, "GET /x");
    http_abort(aborter->http);
    return NULL;
}

Test(http, abort_ends_a_call_at_once_and_stays_until_the_next_operation)
{
    static const struct script_row ROWS[] = {
        { "GET /x", 0, "", SCRIPT_HANG, NULL },
        { "GET /x", 200, "{}", SCRIPT_ANSWER, NULL },
    };
    struct script *script = script_start(ROWS, 2);
    struct http *http = open_url(script_url(script), NULL, 0);
    struct aborter aborter = { script, http };
    struct http_answer answer;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, abort_when_it_came, &aborter), 0);
    /* Without the abort this would last an hour, and the test's own limit would end it. */
    struct baton_status st =
        get(http, "/x", baton_clock_monotonic_ns() + 3600 * BATON_NS_PER_S, &answer);
    cr_expect_eq(st.code, BATON_CANCELLED);
    cr_expect_eq(answer.outcome, HTTP_NO_ANSWER);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    st = get(http, "/x", PLENTY, &answer);
    cr_expect_eq(st.code, BATON_CANCELLED, "the operation is over");
    cr_expect_eq(answer.outcome, HTTP_NOT_SENT);
    http_begin(http);
    st = get(http, "/x", PLENTY, &answer);
    cr_expect(baton_ok(&st), "%s", st.message);
    http_close(http);
    script_stop(script);
}

Test(http, names_the_request_and_never_the_token)
{
    struct http_answer answer;
    struct script *script = script_start(NULL, 0);
    struct http *http = open_url(script_url(script), "secret-token", 0);
    script_stop(script);
    struct baton_status st = get(http, "/is_paused", SOON, &answer);
    cr_expect_not_null(strstr(st.message, "GET http://127.0.0.1:"), "%s", st.message);
    cr_expect_not_null(strstr(st.message, "/is_paused"));
    cr_expect_null(strstr(st.message, "secret"));
    http_close(http);
}
