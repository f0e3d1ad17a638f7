/* roll.c -- batonctl roll ACTION MODEL. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/rolls.pb-c.h"
#include "controller/cli/roll_view.h"

enum { KEY_TO = 0x2000, KEY_ORDER, KEY_GROUP, KEY_PASS, KEY_FAIL, KEY_VALUE, KEY_SEQ, KEY_MESSAGE };

const struct argp_option cli_roll_options[] = {
    { "to", KEY_TO, "SEQ", 0, "Version to roll or go back to", 0 },
    { "order", KEY_ORDER, "GROUP,...", 0, "plan, start: groups that go first", 0 },
    { "group", KEY_GROUP, "GROUP", 0, "retry: only this group", 0 },
    { "pass", KEY_PASS, NULL, 0, "check: it is good", 0 },
    { "fail", KEY_FAIL, NULL, 0, "check: it is bad", 0 },
    { "value", KEY_VALUE, "NUMBER", 0, "check: the metric's number", 0 },
    { "seq", KEY_SEQ, "SEQ", 0, "check: version that was looked at", 0 },
    { "message", KEY_MESSAGE, "TEXT", 0, "check: shown with it", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static uint64_t to_seq;
static const char *order;
static const char *group;
static Baton__V1__CheckVerdict verdict;
static double value;
static bool has_value;
static uint64_t checked_seq;
static const char *message;

static void take_value(const char *argument)
{
    char *end = NULL;
    value = strtod(argument, &end);
    if (end == argument || *end != '\0') {
        exit((int)cli_usage("--value takes a number, not '%s'", argument));
    }
    has_value = true;
}

uint64_t cli_roll_to(void)
{
    return to_seq;
}

const char *cli_roll_order(void)
{
    return order;
}

bool cli_roll_take(int key, const char *argument)
{
    switch (key) {
    case KEY_TO: to_seq = cli_number("--to", argument); return true;
    case KEY_ORDER: order = argument; return true;
    case KEY_GROUP: group = argument; return true;
    case KEY_PASS: verdict = BATON__V1__CHECK_VERDICT__CHECK_VERDICT_PASSED; return true;
    case KEY_FAIL: verdict = BATON__V1__CHECK_VERDICT__CHECK_VERDICT_FAILED; return true;
    case KEY_VALUE: take_value(argument); return true;
    case KEY_SEQ: checked_seq = cli_number("--seq", argument); return true;
    case KEY_MESSAGE: message = argument; return true;
    default: return false;
    }
}

/* Sends a mutation of a model's roll, frees it, and says what was done. */
static enum cli_exit send(struct cli *cli, const char *model, const char *method, void *request,
                          const char *done)
{
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, method, request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK && cli->output == CLI_OUTPUT_TABLE) {
        const Baton__V1__Roll *roll = reply;
        (void)printf("roll/%s to v%llu %s\n", roll->meta != NULL ? roll->meta->name : model,
                     (unsigned long long)roll->to_seq, done);
    } else if (code == CLI_EXIT_OK) {
        cli_print_items(cli, cli_kind_find("roll"), &reply, 1, false);
    }
    baton_wire_free(reply);
    return code;
}

/* All requests begin with the model and take options. */
static enum cli_exit mutate(struct cli *cli, const char *model, const char *method,
                            const char *request_name, const char *done)
{
    void *request = baton_wire_new(baton_wire_find_message(request_name));
    cli_set_text(request, "model", model);
    cli_set_u64(request, "to_seq", to_seq);
    cli_set_text(request, "group", group);
    cli_set_part(request, "options", cli_mutation(cli, request));
    return send(cli, model, method, request, done);
}

char **cli_roll_names(void *root, const char *list, size_t *count)
{
    size_t most = 1;
    for (const char *at = list; *at != '\0'; at++) {
        most += *at == ',';
    }
    char **names = baton_wire_take(root, most, sizeof(*names));
    for (const char *at = list; *at != '\0';) {
        size_t length = strcspn(at, ",");
        names[(*count)++] = baton_wire_textf(root, "%.*s", (int)length, at);
        at += at[length] == ',' ? length + 1 : length;
    }
    return names;
}

static enum cli_exit run_start(struct cli *cli, const char *model)
{
    Baton__V1__StartRollRequest *request =
        baton_wire_new(&baton__v1__start_roll_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->to_seq = to_seq;
    request->options = cli_mutation(cli, request);
    if (order != NULL) {
        request->order = cli_roll_names(request, order, &request->n_order);
    }
    return send(cli, model, "baton.v1.Rolls/Start", request, "started");
}

static enum cli_exit run_advance(struct cli *cli, const char *model)
{
    return mutate(cli, model, "baton.v1.Rolls/Advance", "baton.v1.AdvanceRollRequest", "advanced");
}

static enum cli_exit run_promote(struct cli *cli, const char *model)
{
    return mutate(cli, model, "baton.v1.Rolls/Promote", "baton.v1.PromoteRollRequest", "promoted");
}

static enum cli_exit run_retry(struct cli *cli, const char *model)
{
    return mutate(cli, model, "baton.v1.Rolls/Retry", "baton.v1.RetryRollRequest", "retried");
}

static enum cli_exit run_check(struct cli *cli, const char *model)
{
    const char *name = cli->words_count > 2 ? cli->words[2] : NULL;
    if (name == NULL || (verdict == 0) == !has_value) {
        return cli_usage("roll check MODEL NAME --pass, --fail or --value NUMBER");
    }
    Baton__V1__ReportCheckRequest *request =
        baton_wire_new(&baton__v1__report_check_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->check = baton_wire_text(request, name);
    request->seq = checked_seq;
    request->value = value;
    request->verdict = verdict;
    request->message = baton_wire_text(request, message != NULL ? message : "");
    request->options = cli_mutation(cli, request);
    return send(cli, model, "baton.v1.Rolls/ReportCheck", request, "noted the report");
}

static enum cli_exit run_pause(struct cli *cli, const char *model)
{
    return mutate(cli, model, "baton.v1.Rolls/Pause", "baton.v1.PauseRollRequest", "paused");
}

static enum cli_exit run_resume(struct cli *cli, const char *model)
{
    return mutate(cli, model, "baton.v1.Rolls/Resume", "baton.v1.ResumeRollRequest", "resumed");
}

static enum cli_exit run_undo(struct cli *cli, const char *model)
{
    enum cli_exit code =
        mutate(cli, model, "baton.v1.Rolls/Undo", "baton.v1.UndoRollRequest", "started (undo)");
    if (code == CLI_EXIT_OK) {
        (void)fprintf(stderr,
                      "model/%s is held: publishes are stored, not rolled, until `batonctl resume "
                      "model/%s`\n",
                      model, model);
    }
    return code;
}

static enum cli_exit run_abort(struct cli *cli, const char *model)
{
    enum cli_exit code =
        mutate(cli, model, "baton.v1.Rolls/Abort", "baton.v1.AbortRollRequest", "started (abort)");
    if (code == CLI_EXIT_OK) {
        (void)fprintf(stderr,
                      "the version is quarantined, and model/%s is held: publishes are stored, not "
                      "rolled, until `batonctl resume model/%s`\n",
                      model, model);
    }
    return code;
}

static void print_verbs(const Baton__V1__RollHistoryResponse *response)
{
    for (size_t i = 0; i < response->n_rolls; i++) {
        const Baton__V1__Roll *roll = response->rolls[i];
        for (size_t k = 0; k < roll->n_verbs; k++) {
            const Baton__V1__RollVerb *verb = roll->verbs[k];
            char at[CLI_CELL_BYTES];
            cli_text_age(verb->at, at);
            (void)printf("  %6s ago  roll/%s %s by %s%s%s\n", at,
                         roll->meta != NULL ? roll->meta->name : "", verb->verb,
                         verb->by[0] != '\0' ? verb->by : "the policy",
                         verb->reason[0] != '\0' ? ": " : "", verb->reason);
        }
    }
}

static enum cli_exit run_history(struct cli *cli, const char *model)
{
    Baton__V1__RollHistoryRequest *request =
        baton_wire_new(&baton__v1__roll_history_request__descriptor);
    request->model = baton_wire_text(request, model);
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, "baton.v1.Rolls/History", request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK) {
        const Baton__V1__RollHistoryResponse *response = reply;
        if (cli->output == CLI_OUTPUT_TABLE) {
            cli->output = CLI_OUTPUT_WIDE; /* Who and why is what a history is for. */
        }
        cli_print_items(cli, cli_kind_find("roll"), (void **)response->rolls, response->n_rolls,
                        true);
        if (cli->output == CLI_OUTPUT_WIDE) {
            print_verbs(response);
        }
    }
    baton_wire_free(reply);
    return code;
}

static const struct {
    const char *name;
    enum cli_exit (*run)(struct cli *cli, const char *model);
} actions[] = {
    { "start", run_start },     { "status", cli_roll_status }, { "watch", cli_roll_watch },
    { "pause", run_pause },     { "resume", run_resume },      { "undo", run_undo },
    { "plan", cli_roll_plan },  { "trace", cli_roll_trace },   { "history", run_history },
    { "advance", run_advance }, { "check", run_check },        { "promote", run_promote },
    { "abort", run_abort },     { "retry", run_retry },
};

/* "m", "model/m" or "roll/m". */
static const char *model_of(const struct cli *cli)
{
    if (cli->words_count < 2) {
        return cli->model;
    }
    const char *slash = strchr(cli->words[1], '/');
    return slash != NULL ? slash + 1 : cli->words[1];
}

enum cli_exit cli_run_roll(struct cli *cli)
{
    const char *model = model_of(cli);
    for (size_t i = 0; cli->words_count > 0 && i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(cli->words[0], actions[i].name) == 0) {
            return model != NULL ? actions[i].run(cli, model)
                                 : cli_usage("roll %s of which model?", cli->words[0]);
        }
    }
    return cli_usage(
        "roll does: plan, start, status, watch, pause, resume, advance, check, promote, "
        "abort, retry, undo, "
        "history, trace");
}
