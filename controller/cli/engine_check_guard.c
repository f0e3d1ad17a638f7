/* engine_check_guard.c -- can anybody but the agent swap this engine's weights?  See engine_check.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/engine/guard.h"
#include "api/base/bytes.h"
#include "api/base/random.h"
#include "api/http/http.h"
#include "controller/cli/engine_check.h"

static const char fix_flags[] =
    "start it with --middleware baton.vllm.Guard, and BATON_GUARD_PAGE and BATON_GUARD_TOKEN_FILE "
    "in its "
    "environment, or let the agent start it (recreate.exec): deploy/docs/vllm.md";
static const char fix_token[] = "give --token-file the file that BATON_GUARD_TOKEN_FILE names in "
                                "the engine's environment; it is "
                                "read at the engine's start";
static const char fix_page[] =
    "give --guard-page the file that BATON_GUARD_PAGE names in the engine's environment";

/* --- the files --- */

static void check_page_file(struct check *check)
{
    char *path = check->options.guard_page;
    struct stat info;
    if (path[0] == '\0') {
        return;
    }
    if (stat(path, &info) != 0) {
        check_add(check, "page", CHECK_FAIL, fix_page, "guard page %s: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode) || info.st_size != GUARD_PAGE_BYTES) {
        check_add(check, "page", CHECK_FAIL, fix_page, "guard page %s is no file of %d bytes", path,
                  GUARD_PAGE_BYTES);
    } else {
        return;
    }
    path[0] = '\0';
}

static void check_token_file(struct check *check)
{
    char *path = check->options.token_file;
    char token[ENGINE_TOKEN_BYTES_MAX] = "";
    struct stat info;
    if (path[0] == '\0') {
        return;
    }
    if (stat(path, &info) != 0) {
        check_add(check, "token", CHECK_FAIL, fix_token, "token file %s: %s", path,
                  strerror(errno));
        path[0] = '\0';
        return;
    }
    struct baton_status st = engine_token_load(path, token);
    explicit_bzero(token, sizeof token);
    if (!baton_ok(&st)) {
        check_add_failed(check, "token", &st, fix_token);
        path[0] = '\0';
    }
}

void check_guard_files(struct check *check)
{
    check_page_file(check);
    check_token_file(check);
}

/* --- the routes, as a stranger sees them --- */

/* All are control routes, and change nothing where they are answered. */
static const struct http_request routes[] = {
    { .method = "GET", .path = "/is_paused", .repeatable = true },
    { .method = "GET", .path = "/server_info?config_format=json", .repeatable = true },
    { .method = "GET", .path = "/weight_info", .repeatable = true },
    { .method = "GET", .path = "/get_world_size", .repeatable = true },
    { .method = "GET", .path = "/baton/guard", .repeatable = true },
    { .method = "POST", .path = "/collective_rpc", .body = "{\"method\":\"check_health\"}" },
};

struct seen {
    unsigned refused;
    unsigned absent;
    unsigned answered;
    char first[BATON_TEXT_BYTES]; /* The first that was answered. */
};

static void see(struct seen *seen, const struct http_request *route, uint32_t code,
                const char *caller)
{
    if (code == 401 || code == 403) {
        seen->refused++;
    } else if (code == 404 || code == 405) {
        seen->absent++;
    } else {
        if (seen->answered == 0) {
            (void)snprintf(seen->first, sizeof seen->first, "%s %s answered %u %s", route->method,
                           route->path, code, caller);
        }
        seen->answered++;
    }
}

static struct baton_status ask_all(struct check *check, const char *token, const char *caller,
                                   struct seen *seen)
{
    struct http_options options = { .url = check->options.url, .token = token };
    struct http *http = NULL;
    struct baton_status st = http_open(&options, &http);
    for (size_t i = 0; i < sizeof routes / sizeof routes[0] && baton_ok(&st); i++) {
        struct http_answer answer;
        st = http_call(http, &routes[i], check_soon(check), &answer);
        if (baton_ok(&st)) {
            see(seen, &routes[i], answer.code, caller);
        }
    }
    http_close(http);
    return st;
}

/* "8000" of "http://127.0.0.1:8000/x" and of "http://[::1]:8000". */
static void port_of(const char *url, char out[BATON_NAME_BYTES])
{
    const char *host = strstr(url, "://");
    const char *bracket = host != NULL ? strchr(host, ']') : NULL;
    const char *colon = host != NULL ? strchr(bracket != NULL ? bracket : host + 3, ':') : NULL;
    size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;
    (void)snprintf(out, BATON_NAME_BYTES, "%.*s", digits > 0 ? (int)digits : 2,
                   digits > 0 ? colon + 1 : "80");
}

static void judge_routes(struct check *check, const struct seen *seen)
{
    char port[BATON_NAME_BYTES];
    port_of(check->options.url, port);
    check->routes_refuse = seen->answered == 0 && seen->refused > 0;
    if (seen->answered > 0) {
        check_add(check, "guard", CHECK_FAIL, fix_flags,
                  "not guarded: anyone who reaches port %s can swap its weights (%s)", port,
                  seen->first);
    } else if (seen->refused == 0) {
        check_add(check, "guard", CHECK_WARN,
                  "set VLLM_SERVER_DEV_MODE=1 only together with the guard: deploy/docs/vllm.md",
                  "it has no control routes and no guard");
    } else {
        check_add(check, "guard", CHECK_OK, NULL,
                  "control routes refuse who has no token, and who has a wrong one");
    }
}

struct baton_status check_guard_routes(struct check *check)
{
    uint8_t random[(ENGINE_TOKEN_TEXT_BYTES - 1) / 2];
    char wrong[ENGINE_TOKEN_TEXT_BYTES];
    struct seen seen = { 0 };
    baton_random_secure(random, sizeof random);
    baton_hex_encode(random, sizeof random, wrong);
    struct baton_status st = ask_all(check, NULL, "without a token", &seen);
    if (baton_ok(&st)) {
        st = ask_all(check, wrong, "with a wrong token", &seen);
    }
    if (baton_ok(&st)) {
        judge_routes(check, &seen);
    }
    return st;
}

/* --- what the guard itself says --- */

static void judge_token(struct check *check)
{
    const char *path = check->options.token_file;
    if (check_has_failed(check, "token")) {
        return; /* The file is wrong: that says it. */
    }
    if (check->speaks) {
        check_add(check, "token", CHECK_OK, NULL, "the guard takes it");
    } else if (path[0] != '\0') {
        check_add(check, "token", CHECK_FAIL, fix_token, "the engine refuses the token of %s",
                  path);
    } else {
        check_add(check, "token", CHECK_FAIL, fix_token,
                  "the engine is guarded, and no token was given");
    }
}

static void judge_page(struct check *check)
{
    if (check_has_failed(check, "page")) {
        return;
    }
    if (check->facts.guarded) {
        check_add(check, "page", CHECK_OK, NULL, "the guard reads this page");
    } else if (check->options.guard_page[0] != '\0') {
        check_add(check, "page", CHECK_FAIL, fix_page, "the guard reads another page than %s",
                  check->options.guard_page);
    } else {
        check_add(check, "page", CHECK_WARN, fix_page,
                  "which page the guard reads was not compared: an agent with another one could "
                  "not open its gate");
    }
}

void check_guard_found(struct check *check)
{
    bool answers = check->facts.boots != 0;
    check->speaks = answers || !check->routes_refuse;
    if (answers || !check->speaks) {
        judge_token(check);
    }
    if (answers) {
        judge_page(check);
    }
}
