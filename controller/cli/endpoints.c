/* endpoints.c -- batonctl endpoints MODEL [--min N] [--exact N] [--max-lag N] [--unit U] [-w]. */
#include <stdio.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/admission.pb-c.h"
#include "controller/cli/stale_view.h"

enum { KEY_MIN = 0x2000, KEY_EXACT, KEY_MAX_LAG, KEY_UNIT, KEY_SESSION, KEY_LIMIT };

const struct argp_option cli_endpoints_options[] = {
    { "min", KEY_MIN, "SEQ", 0, "This version or a later one", 0 },
    { "exact", KEY_EXACT, "SEQ", 0, "Exactly this version", 0 },
    { "max-lag", KEY_MAX_LAG, "N", 0, "At most so far behind the newest version", 0 },
    { "unit", KEY_UNIT, "UNIT", 0, "Of --max-lag: publishes (default), steps, samples, seconds",
      0 },
    { "session", KEY_SESSION, "NAME", 0, "Keep the version of this session", 0 },
    { "limit", KEY_LIMIT, "N", 0, "At most so many", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static uint64_t min_seq, exact_seq, max_lag, limit;
static bool has_max_lag;
static const char *unit_word = "publishes";
static const char *session = "";

bool cli_endpoints_take(int key, const char *argument)
{
    switch (key) {
    case KEY_MIN: min_seq = cli_number("--min", argument); return true;
    case KEY_EXACT: exact_seq = cli_number("--exact", argument); return true;
    case KEY_MAX_LAG:
        has_max_lag = true;
        max_lag = cli_number("--max-lag", argument);
        return true;
    case KEY_UNIT: unit_word = argument; return true;
    case KEY_SESSION: session = argument; return true;
    case KEY_LIMIT: limit = cli_number("--limit", argument); return true;
    default: return false;
    }
}

static void endpoint_group(const void *item, char *out)
{
    (void)snprintf(out, CLI_CELL_BYTES, "%s", ((const Baton__V1__Endpoint *)item)->group);
}

static void endpoint_version(const void *item, char *out)
{
    cli_text_seq(((const Baton__V1__Endpoint *)item)->seq, out);
}

static void endpoint_lag(const void *item, char *out)
{
    const Baton__V1__Endpoint *e = item;
    if (e->relation == BATON__V1__LINEAGE_RELATION__LINEAGE_RELATION_UNRELATED) {
        (void)snprintf(out, CLI_CELL_BYTES, "unrelated");
    } else {
        (void)snprintf(out, CLI_CELL_BYTES, "%llu", (unsigned long long)e->lag_publishes);
    }
}

static void endpoint_verify(const void *item, char *out)
{
    (void)snprintf(out, CLI_CELL_BYTES, "%s",
                   cli_text_enum(&baton__v1__verify_level__descriptor,
                                 (int)((const Baton__V1__Endpoint *)item)->verify_level));
}

static void endpoint_engines(const void *item, char *out)
{
    const Baton__V1__Endpoint *e = item;
    size_t used = 0;
    for (size_t i = 0; i < e->n_engines && used + 1 < CLI_CELL_BYTES; i++) {
        int wrote = snprintf(out + used, CLI_CELL_BYTES - used, "%s%s", i > 0 ? " " : "",
                             e->engines[i]->endpoint);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
}

static void endpoint_digest(const void *item, char *out)
{
    (void)snprintf(out, CLI_CELL_BYTES, "%s", ((const Baton__V1__Endpoint *)item)->digest);
}

static const struct cli_column endpoint_columns[] = {
    { "GROUP", false, endpoint_group },       { "VERSION", false, endpoint_version },
    { "LAG", false, endpoint_lag },           { "VERIFIED", false, endpoint_verify },
    { "ENDPOINTS", false, endpoint_engines }, { "DIGEST", true, endpoint_digest },
};

static const struct cli_kind endpoints_kind = {
    .plural = "endpoints",
    .singular = "endpoint",
    .columns = endpoint_columns,
    .columns_count = sizeof(endpoint_columns) / sizeof(endpoint_columns[0]),
};

static Baton__V1__MaxLag *wanted_lag(void *root, Baton__V1__LagUnit unit)
{
    if (!has_max_lag) {
        return NULL;
    }
    Baton__V1__MaxLag *wanted = baton_wire_part(root, &baton__v1__max_lag__descriptor);
    wanted->bound = max_lag;
    wanted->unit = unit;
    return wanted;
}

static enum cli_exit resolve(struct cli *cli, const char *model, Baton__V1__LagUnit unit)
{
    void *reply = NULL;
    Baton__V1__ResolveRequest *request = baton_wire_new(&baton__v1__resolve_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->min_seq = min_seq;
    request->exact_seq = exact_seq;
    request->max_lag = wanted_lag(request, unit);
    request->session = baton_wire_text(request, session);
    request->limit = (uint32_t)limit;
    request->options = session[0] != '\0' ? cli_mutation(cli, request) : NULL;
    enum cli_exit code = cli_call(cli, "baton.v1.Admission/Resolve", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    Baton__V1__ResolveResponse *response = reply;
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_message(cli, response);
    } else if (cli->output == CLI_OUTPUT_NAME) {
        for (size_t i = 0; i < response->n_endpoints; i++) {
            (void)printf("group/%s\n", response->endpoints[i]->group);
        }
    } else {
        cli_print_items(cli, &endpoints_kind, (void **)response->endpoints, response->n_endpoints,
                        true);
    }
    baton_wire_free(reply);
    return CLI_EXIT_OK;
}

static void print_change(const struct cli *cli, const Baton__V1__WatchEndpointsResponse *change)
{
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_stream(cli, change);
        return;
    }
    for (size_t i = 0; i < change->n_removed; i++) {
        (void)printf("- %s\n", change->removed[i]);
    }
    for (size_t i = 0; i < change->n_endpoints; i++) {
        const Baton__V1__Endpoint *e = change->endpoints[i];
        char engines[CLI_CELL_BYTES] = "";
        endpoint_engines(e, engines);
        (void)printf("+ %s v%llu %s\n", e->group, (unsigned long long)e->seq, engines);
    }
}

static enum cli_exit watch(struct cli *cli, const char *model, Baton__V1__LagUnit unit)
{
    Baton__V1__WatchEndpointsRequest *request =
        baton_wire_new(&baton__v1__watch_endpoints_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->min_seq = min_seq;
    request->exact_seq = exact_seq;
    request->max_lag = wanted_lag(request, unit);
    struct rpc_stream *stream;
    enum cli_exit code =
        cli_stream(cli, "baton.v1.Admission/WatchEndpoints", request, cli->timeout_ns, &stream);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    struct rpc_next next;
    while ((next = rpc_stream_next(stream, RPC_NO_TIMEOUT)).kind == RPC_NEXT_MESSAGE) {
        print_change(cli, next.message);
        (void)fflush(stdout);
        baton_wire_free(next.message);
    }
    rpc_stream_unref(stream);
    bool timed_out = next.status.code == BATON_DEADLINE_EXCEEDED && cli->timeout_ns != 0;
    return baton_ok(&next.status) || timed_out ? CLI_EXIT_OK : cli_fail(&next.status);
}

enum cli_exit cli_run_endpoints(struct cli *cli)
{
    const char *kind, *name;
    Baton__V1__LagUnit unit;
    if (!cli_object(cli, "model", &kind, &name) || strcmp(kind, "model") != 0) {
        return cli_usage("endpoints of which model? say MODEL or model/NAME");
    }
    if (!stale_view_unit(unit_word, &unit)) {
        return cli_usage("--unit takes publishes, steps, samples or seconds, not '%s'", unit_word);
    }
    if (cli->watch && session[0] != '\0') {
        return cli_usage("--session is of one answer, not of -w");
    }
    enum cli_exit code = cli_connect(cli);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    return cli->watch ? watch(cli, name, unit) : resolve(cli, name, unit);
}
