/* audit.c -- batonctl audit [KIND/NAME] [--principal TEXT] [--since TIME] [--refused] [--limit N]. */
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/config/config.h"
#include "api/wire/wire.h"
#include "baton/v1/audit.pb-c.h"
#include "controller/cli/print.h"

enum { KEY_PRINCIPAL = 0x2000, KEY_SINCE, KEY_REFUSED, KEY_LIMIT };

const struct argp_option cli_audit_options[] = {
    { "principal", KEY_PRINCIPAL, "TEXT", 0, "Only of who has this in its name", 0 },
    { "since", KEY_SINCE, "DURATION", 0, "Only of the last, e.g. 30m, 24h", 0 },
    { "refused", KEY_REFUSED, NULL, 0, "Only what was refused", 0 },
    { "limit", KEY_LIMIT, "N", 0, "The newest N entries (default 100, at most 500)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static const char *principal = "";
static const char *since;
static bool only_refused;
static uint64_t limit = 100;

bool cli_audit_take(int key, const char *argument)
{
    switch (key) {
    case KEY_PRINCIPAL: principal = argument; return true;
    case KEY_SINCE: since = argument; return true;
    case KEY_REFUSED: only_refused = true; return true;
    case KEY_LIMIT: limit = cli_number("--limit", argument); return true;
    default: return false;
    }
}

static void print_entry(const struct cli *cli, const Baton__V1__AuditEntry *entry)
{
    char at[BATON_CLOCK_TEXT_BYTES];
    uint64_t wall_ns = 0;
    struct baton_status st = baton_wire_timestamp_ns(entry->at, "at", &wall_ns);
    const char *slash = strrchr(entry->method, '.');
    baton_clock_format(baton_ok(&st) ? wall_ns : 0, at);
    (void)printf("%s  %-17s  %-24s %-22s %s", at, entry->outcome,
                 slash != NULL ? slash + 1 : entry->method,
                 entry->object[0] != '\0' ? entry->object : "-", entry->principal);
    if (entry->requested_by[0] != '\0' && strcmp(entry->requested_by, entry->principal) != 0) {
        (void)printf(" (%s)", entry->requested_by);
    }
    if (entry->reason[0] != '\0') {
        (void)printf(": %s", entry->reason);
    }
    if (cli->output == CLI_OUTPUT_WIDE) {
        (void)printf("  [%s, revision %llu to %llu, request %s]", entry->address,
                     (unsigned long long)entry->revision_before,
                     (unsigned long long)entry->revision_after,
                     entry->request_id[0] != '\0' ? entry->request_id : "-");
    }
    if (entry->repeated_before != 0) {
        (void)printf("  (%llu times more before)", (unsigned long long)entry->repeated_before);
    }
    (void)printf("\n");
    if (cli->output == CLI_OUTPUT_WIDE && entry->message[0] != '\0') {
        (void)printf("    %s\n", entry->message);
    }
}

static Baton__V1__ListAuditRequest *make_request(const char *object, uint64_t since_ns)
{
    Baton__V1__ListAuditRequest *request =
        baton_wire_new(&baton__v1__list_audit_request__descriptor);
    request->object = baton_wire_text(request, object);
    request->principal = baton_wire_text(request, principal);
    request->refused = only_refused;
    request->page_size = limit < 500 ? (uint32_t)limit : 500;
    if (since_ns != 0) {
        request->since = baton_wire_timestamp(request, baton_clock_wall_ns() - since_ns);
    }
    return request;
}

enum cli_exit cli_run_audit(struct cli *cli)
{
    char object[2 * BATON_NAME_BYTES] = "";
    const char *kind, *name;
    uint64_t since_ns = 0;
    void *reply = NULL;
    struct baton_status st = baton_config_duration("--since", since, 0, &since_ns);
    if (!baton_ok(&st)) {
        return cli_usage("%s", st.message);
    }
    if (cli->words_count > 0) {
        if (!cli_object(cli, NULL, &kind, &name) || kind == NULL) {
            return cli_usage("audit of what? say KIND/NAME, e.g. model/m");
        }
        (void)snprintf(object, sizeof(object), "%.60s/%.64s", kind, name);
    }
    Baton__V1__ListAuditRequest *request = make_request(object, since_ns);
    enum cli_exit code = cli_call(cli, "baton.v1.Audit/List", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const Baton__V1__ListAuditResponse *response = reply;
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_message(cli, reply);
    } else { /* The newest last, as in a log. */
        for (size_t i = response->n_entries; i > 0; i--) {
            print_entry(cli, response->entries[i - 1]);
        }
    }
    baton_wire_free(reply);
    return CLI_EXIT_OK;
}
