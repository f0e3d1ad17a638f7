/* cli.c -- connection, calls, errors and words; see cli.h. */
#include "controller/cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/base/random.h"
#include "baton/v1/common.pb-c.h"

enum cli_exit cli_connect(struct cli *cli)
{
    struct rpc_tls tls = { .ca_file = cli->ca_file,
                           .cert_file = cli->cert_file,
                           .key_file = cli->key_file };
    struct rpc_client_options options = { .target = cli->server,
                                          .tls = cli->ca_file != NULL ? &tls : NULL,
                                          .user_agent = "batonctl/" BATON_VERSION };
    struct baton_status st = rpc_client_create(&options, &cli->client);
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

enum cli_exit cli_call(struct cli *cli, const char *method, const void *request, void **reply)
{
    *reply = NULL;
    if (cli->client == NULL) {
        enum cli_exit code = cli_connect(cli);
        if (code != CLI_EXIT_OK) {
            return code;
        }
    }
    struct rpc_call_options options = { .timeout_ns = cli->timeout_ns };
    struct rpc_result result = rpc_unary(cli->client, method, request, &options);
    if (!baton_ok(&result.status)) {
        if (result.status.code == BATON_UNAVAILABLE && result.status.hint[0] == '\0') {
            result.status = baton_status_hint(
                result.status, "is a controller running at %s? name another with --server",
                cli->server);
        }
        return cli_fail(&result.status);
    }
    *reply = result.message;
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
