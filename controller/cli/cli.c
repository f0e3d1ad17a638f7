/* cli.c -- connection, calls, errors and words; see cli.h. */
#include "controller/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/base/random.h"
#include "api/rpc/tokens.h"
#include "baton/v1/common.pb-c.h"
#include "baton/v1/models.pb-c.h"

/* How long a controller that leads is looked for, and how: a few times at once, for the first ones asked know it. */
static const uint64_t search_ns = 10 * BATON_NS_PER_S;
static const uint64_t search_pause_ns = 100 * BATON_NS_PER_MS;
/* The same before one is content with what standbys know: longer than it takes another one to lead. */
static const uint64_t brief_search_ns = 4 * BATON_NS_PER_S;
enum { SEARCHES_AT_ONCE = 3 };

enum cli_exit cli_connect(struct cli *cli)
{
    struct rpc_tls tls = { .ca_file = cli->ca_file,
                           .cert_file = cli->cert_file,
                           .key_file = cli->key_file };
    char token[RPC_TOKEN_BYTES_MAX + 1];
    struct baton_status st =
        cli->token_file != NULL ? rpc_token_read(cli->token_file, token) : baton_status_ok();
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    struct rpc_client_options options = { .target = cli->server,
                                          .bearer_token = cli->token_file != NULL ? token : NULL,
                                          .tls = cli->ca_file != NULL ? &tls : NULL,
                                          .user_agent = "batonctl/" BATON_VERSION };
    st = rpc_client_create(&options, &cli->client);
    return baton_ok(&st) ? CLI_EXIT_OK : cli_fail(&st);
}

static enum cli_exit exit_of(const struct baton_status *st)
{
    if (baton_ok(st)) {
        return CLI_EXIT_OK;
    }
    if (st->code == BATON_UNAVAILABLE) {
        return CLI_EXIT_UNREACHABLE;
    }
    return st->code == BATON_DEADLINE_EXCEEDED ? CLI_EXIT_TIMEOUT : CLI_EXIT_FAILED;
}

enum cli_exit cli_fail(const struct baton_status *st)
{
    (void)fprintf(stderr, "error: %s (%s", st->message, baton_code_name(st->code));
    if (st->reason != BATON_REASON_NONE) {
        (void)fprintf(stderr, ", %s", baton_reason_name(st->reason));
    }
    (void)fprintf(stderr, ")\n");
    if (st->hint[0] != '\0') {
        (void)fprintf(stderr, "hint: %s\n", st->hint);
    }
    return exit_of(st);
}

enum cli_exit cli_usage(const char *fmt, ...)
{
    va_list args;
    (void)fputs("error: ", stderr);
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputs(
        "\nhint: `batonctl --help` lists the commands, `batonctl COMMAND --help` their words\n",
        stderr);
    return CLI_EXIT_USAGE;
}

/* Another controller may do it: nothing was done, or mutations carry a request id. */
bool cli_is_elsewhere(const struct cli *cli, const struct baton_status *st)
{
    bool is_silent = st->code == BATON_UNAVAILABLE &&
                     (st->reason == BATON_REASON_NONE || st->reason == BATON_REASON_SHUTTING_DOWN);
    return st->reason == BATON_REASON_NOT_LEADER ||
           (is_silent && rpc_client_has_choice(cli->client));
}

static struct rpc_result search(struct cli *cli, const char *method, const void *request,
                                uint64_t most_ns)
{
    static const struct rpc_metadata stored = { "x-baton-read", "stored" };
    struct rpc_call_options options = { .timeout_ns = cli->timeout_ns,
                                        .metadata = &stored,
                                        .metadata_count = cli->asks_stored ? 1 : 0 };
    bool bounded = cli->timeout_ns != 0 && cli->timeout_ns != RPC_NO_TIMEOUT;
    uint64_t begin_ns = baton_clock_monotonic_ns();
    uint64_t give_up_ns = 0;
    for (unsigned tries = 1;; tries++) {
        uint64_t sent_ns = baton_clock_monotonic_ns();
        struct rpc_result result = rpc_unary(cli->client, method, request, &options);
        uint64_t now_ns = baton_clock_monotonic_ns();
        if (give_up_ns == 0 || now_ns - sent_ns > most_ns) { /* The first of a row of failures. */
            give_up_ns = now_ns + most_ns;
        }
        bool late = bounded && now_ns - begin_ns + search_pause_ns >= cli->timeout_ns;
        if (baton_ok(&result.status) || !cli_is_elsewhere(cli, &result.status) || late ||
            now_ns >= give_up_ns) {
            return result;
        }
        options.timeout_ns = bounded ? cli->timeout_ns - (now_ns - begin_ns) : cli->timeout_ns;
        if (tries >= SEARCHES_AT_ONCE) {
            baton_clock_sleep_ns(search_pause_ns);
        }
    }
}

static void tell_stored(const struct rpc_stored *stored)
{
    (void)fprintf(stderr,
                  "note: no controller that leads was found; this is a standby's copy of the store "
                  "at revision "
                  "%llu, known to be current %.1f s ago; what only a leader knows is left out\n",
                  (unsigned long long)stored->revision, (double)stored->age_ns / 1e9);
}

static struct rpc_result ask(struct cli *cli, const char *method, const void *request)
{
    struct rpc_result result = { .message = NULL };
    if (!cli->asks_stored) {
        result = search(cli, method, request, cli->last_known ? brief_search_ns : search_ns);
        if (!cli->last_known || !cli_is_elsewhere(cli, &result.status)) {
            return result;
        }
    }
    bool first = !cli->asks_stored;
    cli->asks_stored = true;
    result = search(cli, method, request, brief_search_ns);
    if (first && baton_ok(&result.status) && result.stored.is_stored) {
        tell_stored(&result.stored);
    }
    return result;
}

enum cli_exit cli_call(struct cli *cli, const char *method, const void *request, void **reply)
{
    *reply = NULL;
    if (cli->client == NULL) {
        enum cli_exit code = cli_connect(cli);
        if (code != CLI_EXIT_OK) {
            return code;
        }
    }
    struct rpc_result result = ask(cli, method, request);
    if (!baton_ok(&result.status)) {
        if (result.status.code == BATON_UNAVAILABLE && result.status.hint[0] == '\0') {
            result.status = baton_status_hint(
                result.status, "is a controller running at %s? name another with --server",
                cli->server);
        }
        return cli_fail(&result.status);
    }
    cli->found_leader = true;
    *reply = result.message;
    return CLI_EXIT_OK;
}

/* Has the controller that leads answer something.  Who may not list models hears that from any of them: then the stream
 * is tried where it is. */
static struct baton_status find_leader(struct cli *cli)
{
    Baton__V1__ListModelsRequest *request =
        baton_wire_new(&baton__v1__list_models_request__descriptor);
    request->page_size = 1;
    struct rpc_result result = ask(cli, "baton.v1.Models/List", request);
    baton_wire_free(request);
    baton_wire_free(result.message);
    return result.status.code == BATON_PERMISSION_DENIED ? baton_status_ok() : result.status;
}

enum cli_exit cli_stream(struct cli *cli, const char *method, const void *request,
                         uint64_t timeout_ns, struct rpc_stream **stream)
{
    struct rpc_call_options options = { .timeout_ns = timeout_ns };
    *stream = NULL;
    if (!cli->found_leader) {
        struct baton_status st = find_leader(cli);
        if (!baton_ok(&st)) {
            return cli_fail(&st);
        }
        cli->found_leader = true;
    }
    *stream = rpc_stream_open(cli->client, method, request, &options, NULL, NULL);
    return CLI_EXIT_OK;
}

bool cli_object(struct cli *cli, const char *otherwise, const char **kind, const char **name)
{
    if (cli->words_count == 0) {
        return false;
    }
    char *slash = strchr(cli->words[0], '/');
    *kind = cli->words[0];
    if (slash != NULL) {
        *slash = '\0';
        *name = slash + 1;
    } else if (cli->words_count > 1) {
        *name = cli->words[1];
    } else {
        *kind = otherwise;
        *name = cli->words[0];
    }
    return (*name)[0] != '\0';
}

const char *cli_user(void)
{
    static char text[BATON_NAME_BYTES];
    char host[32] = "localhost";
    const char *user = getenv("USER");
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(text, sizeof(text), "%.24s@%.32s", user != NULL ? user : "unknown", host);
    return text;
}

uint64_t cli_number(const char *option, const char *text)
{
    const char *digits = text[0] == 'v' ? text + 1 : text;
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(digits, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || errno != 0) {
        exit((int)cli_usage("%s takes a number, not '%s'", option, text));
    }
    return number;
}

Baton__V1__MutationOptions *cli_mutation(struct cli *cli, void *root)
{
    Baton__V1__MutationOptions *options =
        baton_wire_part(root, &baton__v1__mutation_options__descriptor);
    char id[BATON_UID_TEXT_BYTES];
    uint8_t bytes[BATON_UID_BYTES];
    baton_random_secure(bytes, sizeof(bytes));
    baton_hex_encode(bytes, sizeof(bytes), id);
    options->request_id = baton_wire_text(root, cli->request_id != NULL ? cli->request_id : id);
    options->expected_revision = cli->expected_revision;
    options->reason = baton_wire_text(root, cli->reason != NULL ? cli->reason : "");
    options->requested_by = baton_wire_text(root, cli_user());
    return options;
}
