/* judge.c -- batonctl judge MODEL --span SEQ:TOKENS... [--consumer N] [--max-lag N]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/admission.pb-c.h"
#include "controller/cli/stale_view.h"

enum { KEY_SPAN = 0x2000, KEY_CONSUMER, KEY_MAX_LAG, KEY_UNIT, SPANS_MAX = 64 };

const struct argp_option cli_judge_options[] = {
    { "span", KEY_SPAN, "SEQ:TOKENS", 0, "Tokens by a version; once for each span", 0 },
    { "consumer", KEY_CONSUMER, "SEQ", 0,
      "Version that the trainer starts from (default: the newest)", 0 },
    { "max-lag", KEY_MAX_LAG, "N", 0, "Instead of the model's bound", 0 },
    { "unit", KEY_UNIT, "UNIT", 0, "Of --max-lag: publishes (default), steps, samples, seconds",
      0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static struct {
    uint64_t seq, tokens;
} spans[SPANS_MAX];
static size_t spans_count;
static uint64_t consumer_seq, max_lag;
static bool has_max_lag;
static const char *unit_word = "publishes";

static void take_span(const char *argument)
{
    const char *colon = strchr(argument, ':');
    char seq[32] = "";
    if (colon == NULL || colon == argument || (size_t)(colon - argument) >= sizeof(seq)) {
        exit((int)cli_usage("--span takes SEQ:TOKENS, as 7:120, not '%s'", argument));
    }
    if (spans_count == SPANS_MAX) {
        exit((int)cli_usage("at most %d spans", SPANS_MAX));
    }
    memcpy(seq, argument, (size_t)(colon - argument));
    spans[spans_count].seq = cli_number("--span", seq);
    spans[spans_count].tokens = cli_number("--span", colon + 1);
    spans_count++;
}

bool cli_judge_take(int key, const char *argument)
{
    switch (key) {
    case KEY_SPAN: take_span(argument); return true;
    case KEY_CONSUMER: consumer_seq = cli_number("--consumer", argument); return true;
    case KEY_MAX_LAG:
        has_max_lag = true;
        max_lag = cli_number("--max-lag", argument);
        return true;
    case KEY_UNIT: unit_word = argument; return true;
    default: return false;
    }
}

static Baton__V1__EvaluateSamplesRequest *make_request(const char *model, Baton__V1__LagUnit unit)
{
    Baton__V1__EvaluateSamplesRequest *request =
        baton_wire_new(&baton__v1__evaluate_samples_request__descriptor);
    Baton__V1__Sample *sample = baton_wire_part(request, &baton__v1__sample__descriptor);
    request->model = baton_wire_text(request, model);
    request->consumer_seq = consumer_seq;
    request->n_samples = 1;
    request->samples = baton_wire_take(request, 1, sizeof(*request->samples));
    request->samples[0] = sample;
    sample->spans = baton_wire_take(request, spans_count, sizeof(*sample->spans));
    for (; sample->n_spans < spans_count; sample->n_spans++) {
        Baton__V1__VersionSpan *span =
            baton_wire_part(request, &baton__v1__version_span__descriptor);
        span->seq = spans[sample->n_spans].seq;
        span->tokens = spans[sample->n_spans].tokens;
        sample->spans[sample->n_spans] = span;
    }
    if (has_max_lag) {
        request->max_lag = baton_wire_part(request, &baton__v1__max_lag__descriptor);
        request->max_lag->bound = max_lag;
        request->max_lag->unit = unit;
    }
    return request;
}

static void print_verdict(const Baton__V1__EvaluateSamplesResponse *response)
{
    const Baton__V1__SampleVerdict *verdict = response->verdicts[0];
    (void)printf("%s: consumer v%llu, oldest v%llu, lag %llu (mean %.2f) %s, bound ",
                 verdict->accept ? "accept" : "reject", (unsigned long long)verdict->consumer_seq,
                 (unsigned long long)verdict->oldest_seq, (unsigned long long)verdict->max_lag,
                 verdict->mean_lag, stale_view_unit_word(response->unit));
    if (response->_bound_case == BATON__V1__EVALUATE_SAMPLES_RESPONSE___BOUND_BOUND) {
        (void)printf("%llu", (unsigned long long)response->bound);
    } else {
        (void)printf("none");
    }
    (void)printf(", revision %llu\n", (unsigned long long)response->revision);
    for (size_t i = 0; i < verdict->n_faults; i++) {
        (void)printf("  %s\n",
                     cli_text_enum(&baton__v1__sample_fault__descriptor, (int)verdict->faults[i]));
    }
    if (verdict->message[0] != '\0') {
        (void)printf("  %s\n", verdict->message);
    }
}

enum cli_exit cli_run_judge(struct cli *cli)
{
    const char *kind, *name;
    void *reply = NULL;
    Baton__V1__LagUnit unit;
    if (!cli_object(cli, "model", &kind, &name) || strcmp(kind, "model") != 0) {
        return cli_usage("samples of which model? say MODEL or model/NAME");
    }
    if (spans_count == 0) {
        return cli_usage("judge needs --span SEQ:TOKENS at least once");
    }
    if (!stale_view_unit(unit_word, &unit)) {
        return cli_usage("--unit takes publishes, steps, samples or seconds, not '%s'", unit_word);
    }
    enum cli_exit code = cli_connect(cli);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    Baton__V1__EvaluateSamplesRequest *request = make_request(name, unit);
    code = cli_call(cli, "baton.v1.Admission/EvaluateSamples", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const Baton__V1__EvaluateSamplesResponse *response = reply;
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_message(cli, response);
    } else {
        print_verdict(response);
    }
    code = response->verdicts[0]->accept ? CLI_EXIT_OK : CLI_EXIT_FAILED;
    baton_wire_free(reply);
    return code;
}
