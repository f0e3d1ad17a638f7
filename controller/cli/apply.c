/* apply.c -- batonctl apply -f FILE. */
#include <stdio.h>

#include "api/wire/wire.h"
#include "baton/v1/models.pb-c.h"
#include "controller/cli/model_file.h"
#include "controller/cli/print.h"

const struct argp_option cli_apply_options[] = {
    { "filename", 'f', "FILE", 0, "The model's YAML file", 0 }, { NULL, 0, NULL, 0, NULL, 0 }
};

static const char *filename;

bool cli_apply_take(int key, const char *argument)
{
    if (key == 'f') {
        filename = argument;
    }
    return key == 'f';
}

enum cli_exit cli_run_apply(struct cli *cli)
{
    if (filename == NULL || cli->words_count > 0) {
        return cli_usage("apply what? say -f FILE");
    }
    Baton__V1__ApplyModelRequest *request = NULL;
    struct baton_status st = cli_model_file_read(filename, &request);
    if (!baton_ok(&st)) {
        (void)cli_fail(&st);
        return CLI_EXIT_FAILED;
    }
    request->options = cli_mutation(cli, request);
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, "baton.v1.Models/Apply", request, &reply);
    if (code == CLI_EXIT_OK && cli->output == CLI_OUTPUT_TABLE) {
        const Baton__V1__Model *model = reply;
        (void)printf("model/%s %s\n", request->name,
                     model->meta != NULL && model->meta->generation > 1 ? "configured" : "created");
    } else if (code == CLI_EXIT_OK) {
        cli_print_items(cli, cli_kind_find("model"), &reply, 1, false);
    }
    baton_wire_free(reply);
    baton_wire_free(request);
    return code;
}
