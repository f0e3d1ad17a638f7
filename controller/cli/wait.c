/* wait.c -- batonctl wait MODEL --for=converged|asleep [--seq N]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/rolls.pb-c.h"
#include "controller/cli/print.h"

enum { KEY_FOR = 0x2000, KEY_SEQ };

const struct argp_option cli_wait_options[] = {
    { "for", KEY_FOR, "CONDITION", 0,
      "converged (default); asleep: the groups that were put to sleep gave their memory away", 0 },
    { "seq", KEY_SEQ, "N", 0, "Version to wait for (default: the newest now)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static const char *condition = "converged";
static uint64_t seq;

bool cli_wait_take(int key, const char *argument)
{
    if (key == KEY_FOR) {
        condition = argument;
    } else if (key == KEY_SEQ) {
        seq = cli_number("--seq", argument);
    }
    return key == KEY_FOR || key == KEY_SEQ;
}

enum cli_exit cli_run_wait(struct cli *cli)
{
    const char *kind, *name;
    if (!cli_object(cli, "model", &kind, &name) || strcmp(kind, "model") != 0) {
        return cli_usage("wait for which model? say MODEL or model/NAME");
    }
    Baton__V1__WaitRollRequest *request = baton_wire_new(&baton__v1__wait_roll_request__descriptor);
    request->model = baton_wire_text(request, name);
    request->condition = baton_wire_text(request, condition);
    request->seq = seq;
    void *reply = NULL;
    cli->timeout_ns = cli->timeout_ns != 0 ? cli->timeout_ns : RPC_NO_TIMEOUT;
    enum cli_exit code = cli_call(cli, "baton.v1.Rolls/Wait", request, &reply);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    const Baton__V1__WaitRollResponse *response = reply;
    bool met = response->outcome == BATON__V1__WAIT_OUTCOME__WAIT_OUTCOME_MET;
    (void)printf("model/%s %s: %s\n", name,
                 met                                ? condition
                 : strcmp(condition, "asleep") == 0 ? "is not asleep"
                                                    : "will not converge",
                 response->message);
    baton_wire_free(reply);
    return met ? CLI_EXIT_OK : CLI_EXIT_BLOCKED;
}
