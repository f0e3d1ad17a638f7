/* staleness.c -- batonctl staleness [MODEL] [--histogram] [--series] [--unit U] [-w]. */
#include <stdio.h>
#include <string.h>

#include "api/config/config.h"
#include "api/wire/wire.h"
#include "baton/v1/staleness.pb-c.h"
#include "controller/cli/print.h"
#include "controller/cli/stale_view.h"

enum { KEY_HISTOGRAM = 0x2000, KEY_SERIES, KEY_UNIT, KEY_PERIOD };

const struct argp_option cli_staleness_options[] = {
    { "histogram", KEY_HISTOGRAM, NULL, 0, "Groups by lag, as bars", 0 },
    { "series", KEY_SERIES, NULL, 0, "Lag over time, as a line of bars", 0 },
    { "unit", KEY_UNIT, "UNIT", 0, "publishes (default), steps, samples or seconds", 0 },
    { "period", KEY_PERIOD, "DURATION", 0, "Of a point of the series: 10s (default), 1m or 10m",
      0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static bool histogram, series;
static const char *unit_word = "publishes";
static const char *period_text = "10s";

bool cli_staleness_take(int key, const char *argument)
{
    switch (key) {
    case KEY_HISTOGRAM: histogram = true; return true;
    case KEY_SERIES: series = true; return true;
    case KEY_UNIT: unit_word = argument; return true;
    case KEY_PERIOD: period_text = argument; return true;
    default: return false;
    }
}

static enum cli_exit print_histogram(struct cli *cli, const char *model, Baton__V1__LagUnit unit)
{
    void *reply = NULL;
    Baton__V1__StalenessHistogramRequest *request =
        baton_wire_new(&baton__v1__staleness_histogram_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->unit = unit;
    enum cli_exit code = cli_call(cli, "baton.v1.Staleness/Histogram", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_message(cli, reply);
    } else {
        stale_view_histogram(reply);
    }
    baton_wire_free(reply);
    return CLI_EXIT_OK;
}

static enum cli_exit print_series(struct cli *cli, const char *model, Baton__V1__LagUnit unit)
{
    void *reply = NULL;
    uint64_t period_ns = 0;
    struct baton_status st = baton_config_duration("--period", period_text, 0, &period_ns);
    if (!baton_ok(&st)) {
        return cli_usage("%s", st.message);
    }
    Baton__V1__StalenessSeriesRequest *request =
        baton_wire_new(&baton__v1__staleness_series_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->period = baton_wire_duration(request, period_ns);
    enum cli_exit code = cli_call(cli, "baton.v1.Staleness/Series", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_message(cli, reply);
    } else {
        stale_view_series(reply, unit);
    }
    baton_wire_free(reply);
    return CLI_EXIT_OK;
}

static enum cli_exit print_summaries(struct cli *cli, const char *model)
{
    void *reply = NULL;
    Baton__V1__StalenessSummaryRequest *request =
        baton_wire_new(&baton__v1__staleness_summary_request__descriptor);
    request->model = baton_wire_text(request, model);
    enum cli_exit code = cli_call(cli, "baton.v1.Staleness/Summary", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    Baton__V1__StalenessSummaryResponse *response = reply;
    for (size_t i = 0; cli->output == CLI_OUTPUT_NAME && i < response->n_summaries; i++) {
        (void)printf("model/%s\n", response->summaries[i]->model);
    }
    if (cli->output == CLI_OUTPUT_NAME) {
        baton_wire_free(reply);
        return CLI_EXIT_OK;
    }
    cli_print_items(cli, &stale_view_summaries, (void **)response->summaries, response->n_summaries,
                    model[0] == '\0');
    if (model[0] != '\0' && cli->output == CLI_OUTPUT_WIDE && response->n_summaries == 1) {
        stale_view_cost(response->summaries[0]);
    }
    baton_wire_free(reply);
    return CLI_EXIT_OK;
}

static enum cli_exit watch(struct cli *cli, const char *model)
{
    size_t widths[STALE_VIEW_COLUMNS_MAX] = { 0 };
    Baton__V1__WatchStalenessSummaryRequest *request =
        baton_wire_new(&baton__v1__watch_staleness_summary_request__descriptor);
    request->model = baton_wire_text(request, model);
    struct rpc_stream *stream;
    enum cli_exit code =
        cli_stream(cli, "baton.v1.Staleness/WatchSummary", request, cli->timeout_ns, &stream);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    struct rpc_next next;
    while ((next = rpc_stream_next(stream, RPC_NO_TIMEOUT)).kind == RPC_NEXT_MESSAGE) {
        cli_print_row(cli, &stale_view_summaries, next.message, widths);
        (void)fflush(stdout);
        baton_wire_free(next.message);
    }
    rpc_stream_unref(stream);
    bool timed_out = next.status.code == BATON_DEADLINE_EXCEEDED && cli->timeout_ns != 0;
    return baton_ok(&next.status) || timed_out ? CLI_EXIT_OK : cli_fail(&next.status);
}

enum cli_exit cli_run_staleness(struct cli *cli)
{
    const char *kind = "model";
    const char *name = cli->model != NULL ? cli->model : "";
    Baton__V1__LagUnit unit;
    if (cli->words_count > 0 &&
        (!cli_object(cli, "model", &kind, &name) || strcmp(kind, "model") != 0)) {
        return cli_usage("staleness of which model? say MODEL or model/NAME, or nothing for all");
    }
    if (!stale_view_unit(unit_word, &unit)) {
        return cli_usage("--unit takes publishes, steps, samples or seconds, not '%s'", unit_word);
    }
    if (name[0] == '\0' && (histogram || series || cli->watch)) {
        return cli_usage("of which model? say MODEL or model/NAME");
    }
    enum cli_exit code = cli_connect(cli);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (histogram) {
        return print_histogram(cli, name, unit);
    }
    if (series) {
        return print_series(cli, name, unit);
    }
    return cli->watch ? watch(cli, name) : print_summaries(cli, name);
}
