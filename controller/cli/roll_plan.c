/* roll_plan.c -- batonctl roll plan MODEL: what a roll would do, without doing it. */
#include <stdio.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/rolls.pb-c.h"
#include "controller/cli/roll_view.h"

#define CELL(out, ...) (void)snprintf(out, CLI_CELL_BYTES, __VA_ARGS__)

static void text_measured(const Google__Protobuf__Duration *duration, char out[CLI_CELL_BYTES])
{
    uint64_t ns = 0;
    struct baton_status st = baton_wire_duration_ns(duration, "duration", &ns);
    if (duration == NULL || !baton_ok(&st)) {
        CELL(out, "unknown");
    } else {
        cli_text_duration(ns, out);
    }
}

static void plan_group(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__PlanGroup *)item)->group);
}

static void plan_wave(const void *item, char *out)
{
    const Baton__V1__PlanGroup *group = item;
    if (group->wave == 0) {
        CELL(out, "done");
    } else if (group->canary_step != 0) {
        CELL(out, "%u (canary %u)", group->wave, group->canary_step);
    } else {
        CELL(out, "%u", group->wave);
    }
}

static void plan_from(const void *item, char *out)
{
    cli_text_seq(((const Baton__V1__PlanGroup *)item)->from_seq, out);
}

static void plan_memory(const void *item, char *out)
{
    const Baton__V1__PlanGroup *group = item;
    char room[CLI_CELL_BYTES];
    cli_text_bytes(group->free_bytes, room);
    switch (group->memory) {
    case BATON__V1__PLAN_MEMORY__PLAN_MEMORY_FITS: CELL(out, "fits %.60s", room); return;
    case BATON__V1__PLAN_MEMORY__PLAN_MEMORY_LACKS: CELL(out, "only %.60s", room); return;
    case BATON__V1__PLAN_MEMORY__PLAN_MEMORY_LANDED: CELL(out, "landed"); return;
    case BATON__V1__PLAN_MEMORY__PLAN_MEMORY_UNSPECIFIED:
    case _BATON__V1__PLAN_MEMORY_IS_INT_SIZE: break;
    }
    CELL(out, "unknown");
}

static void plan_restore(const void *item, char *out)
{
    const Baton__V1__PlanGroup *group = item;
    switch (group->restore) {
    case BATON__V1__PLAN_RESTORE__PLAN_RESTORE_LANDED: CELL(out, "landed"); return;
    case BATON__V1__PLAN_RESTORE__PLAN_RESTORE_RECREATE: CELL(out, "recreate"); return;
    case BATON__V1__PLAN_RESTORE__PLAN_RESTORE_NONE: CELL(out, "none"); return;
    case BATON__V1__PLAN_RESTORE__PLAN_RESTORE_UNSPECIFIED:
    case _BATON__V1__PLAN_RESTORE_IS_INT_SIZE: break;
    }
    CELL(out, "unknown");
}

static void plan_mode(const void *item, char *out)
{
    const char *mode = ((const Baton__V1__PlanGroup *)item)->mode;
    CELL(out, "%.20s", mode[0] != '\0' ? mode : "pause");
}

static void plan_pause(const void *item, char *out)
{
    const Baton__V1__PlanGroup *group = item;
    char text[CLI_CELL_BYTES];
    if (strcmp(group->mode, "live") == 0) {
        CELL(out, "none");
        return;
    }
    text_measured(group->pause, text);
    CELL(out, "%s%.100s", group->estimated_by_model ? "~" : "", text);
}

static void plan_stage(const void *item, char *out)
{
    const Baton__V1__PlanGroup *group = item;
    char text[CLI_CELL_BYTES];
    text_measured(group->stage, text);
    CELL(out, "%s%.100s", group->estimated_by_model ? "~" : "", text);
}

static void plan_blocked(const void *item, char *out)
{
    const Baton__V1__PlanGroup *group = item;
    const char *word =
        cli_text_enum(&baton__v1__blocked_reason__descriptor, (int)group->blocked_reason);
    CELL(out, "%s", group->blocked_reason != 0 ? word : "-");
}

static void plan_message(const void *item, char *out)
{
    CELL(out, "%.150s", ((const Baton__V1__PlanGroup *)item)->blocked_message);
}

static void plan_route(const void *item, char *out)
{
    CELL(out, "%.150s", ((const Baton__V1__PlanGroup *)item)->route);
}

static const struct cli_column columns[] = {
    { "WAVE", false, plan_wave },          { "GROUP", false, plan_group },
    { "FROM", false, plan_from },          { "MEMORY", false, plan_memory },
    { "RESTORE", false, plan_restore },    { "MODE", false, plan_mode },
    { "PAUSE", false, plan_pause },        { "STAGE", false, plan_stage },
    { "WILL BLOCK", false, plan_blocked }, { "WHY", true, plan_message },
    { "BYTES COME", true, plan_route },
};

static const struct cli_kind plan_kind = { .plural = "groups",
                                           .singular = "group",
                                           .columns = columns,
                                           .columns_count = sizeof(columns) / sizeof(columns[0]) };

static void print_head(const Baton__V1__PlanRollResponse *plan)
{
    char total[CLI_CELL_BYTES], interval[CLI_CELL_BYTES], size[CLI_CELL_BYTES];
    text_measured(plan->total, total);
    text_measured(plan->roll_interval, interval);
    cli_text_bytes(plan->bytes, size);
    (void)printf(
        "model/%s to v%llu (%s): %u waves of at most %u groups, total %s; rolls come every "
        "%s\n",
        plan->model, (unsigned long long)plan->to_seq, size, plan->waves, plan->max_unavailable,
        total, interval);
    if (plan->refusal[0] != '\0') {
        (void)printf("start would be refused: %s\n", plan->refusal);
    }
    if (plan->convergence_message[0] != '\0') {
        (void)printf("%s\n", plan->convergence_message);
    }
}

enum cli_exit cli_roll_plan(struct cli *cli, const char *model)
{
    Baton__V1__PlanRollRequest *request = baton_wire_new(&baton__v1__plan_roll_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->to_seq = cli_roll_to();
    if (cli_roll_order() != NULL) {
        request->order = cli_roll_names(request, cli_roll_order(), &request->n_order);
    }
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, "baton.v1.Rolls/Plan", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const Baton__V1__PlanRollResponse *plan = reply;
    if (cli->output == CLI_OUTPUT_TABLE || cli->output == CLI_OUTPUT_WIDE) {
        print_head(plan);
        cli_print_items(cli, &plan_kind, (void *const *)plan->groups, plan->n_groups, true);
    } else {
        cli_print_message(cli, plan);
    }
    baton_wire_free(reply);
    return code;
}
