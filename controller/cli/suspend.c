/* suspend.c -- batonctl suspend|hold|resume model/M. */
#include <stdio.h>
#include <string.h>

#include "api/wire/wire.h"
#include "controller/cli/print.h"

/* All requests have the same two fields. */
static enum cli_exit change(struct cli *cli, const char *method, const char *request_name,
                            const char *done)
{
    const char *kind, *name;
    if (!cli_object(cli, "model", &kind, &name) || strcmp(kind, "model") != 0) {
        return cli_usage("which model? say model/NAME");
    }
    void *request = baton_wire_new(baton_wire_find_message(request_name));
    cli_set_text(request, "name", name);
    cli_set_part(request, "options", cli_mutation(cli, request));
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, method, request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK && cli->output == CLI_OUTPUT_TABLE) {
        (void)printf("model/%s %s\n", name, done);
    } else if (code == CLI_EXIT_OK) {
        cli_print_items(cli, cli_kind_find("model"), &reply, 1, false);
    }
    baton_wire_free(reply);
    return code;
}

enum cli_exit cli_run_suspend(struct cli *cli)
{
    return change(cli, "baton.v1.Models/Suspend", "baton.v1.SuspendModelRequest", "suspended");
}

enum cli_exit cli_run_hold(struct cli *cli)
{
    if (cli->reason == NULL) {
        return cli_usage("why? say --reason TEXT; others will read it");
    }
    return change(cli, "baton.v1.Models/Hold", "baton.v1.HoldModelRequest", "held");
}

enum cli_exit cli_run_resume(struct cli *cli)
{
    /* A group is resumed by its own agent: break-glass (local_agent.c). */
    if (cli->words_count > 0 &&
        (strncmp(cli->words[0], "group/", 6) == 0 || strcmp(cli->words[0], "group") == 0)) {
        return cli_local_group(cli, "resume");
    }
    return change(cli, "baton.v1.Models/Resume", "baton.v1.ResumeModelRequest", "resumed");
}
