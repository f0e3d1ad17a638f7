/* store.c -- batonctl store rebuild|floors: after a store was lost or went back; the rest: archive.c. */
#include <stdio.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/fleet.pb-c.h"
#include "controller/cli/print.h"

enum { KEY_FROM_AGENTS = 0x2200, KEY_DRY_RUN, KEY_ATTEST, KEY_STORE };

const struct argp_option cli_store_options[] = {
    { "from-agents", KEY_FROM_AGENTS, NULL, 0, "rebuild: from what the agents restated", 0 },
    { "dry-run", KEY_DRY_RUN, NULL, 0, "rebuild: only say what would be written", 0 },
    { "attest", KEY_ATTEST, NULL, 0, "floors: you know that no agent has seen more", 0 },
    { "store", KEY_STORE, "ADDRESS", 0,
      "export, import, check: the store, as the controller's --store", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static bool from_agents;
static bool dry_run;
static bool attest;
static const char *store_address;

bool cli_store_take(int key, const char *argument)
{
    store_address = key == KEY_STORE ? argument : store_address;
    from_agents |= key == KEY_FROM_AGENTS;
    dry_run |= key == KEY_DRY_RUN;
    attest |= key == KEY_ATTEST;
    return key >= KEY_FROM_AGENTS && key <= KEY_STORE;
}

static void print_rebuilt(struct cli *cli, const Baton__V1__RebuildStoreResponse *reply)
{
    if (cli->output != CLI_OUTPUT_TABLE) {
        cli_print_message(cli, reply);
        return;
    }
    (void)printf("%llu versions %s from what the agents restated\n",
                 (unsigned long long)reply->versions, dry_run ? "can be rebuilt" : "rebuilt");
    if (reply->floors_pending) {
        (void)fprintf(stderr,
                      "not all agents have restated what they saw: publishes and swaps wait; "
                      "batonctl get agents\n");
    }
    if (!dry_run) {
        (void)fprintf(stderr, "policies were lost with the store: batonctl apply -f model.yaml\n");
    }
}

static enum cli_exit rebuild(struct cli *cli)
{
    if (!from_agents) {
        return cli_usage("rebuild from what? say --from-agents");
    }
    Baton__V1__RebuildStoreRequest *request =
        baton_wire_new(&baton__v1__rebuild_store_request__descriptor);
    request->dry_run = dry_run;
    request->options = cli_mutation(cli, request);
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, "baton.v1.Fleet/RebuildStore", request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK) {
        print_rebuilt(cli, reply);
    }
    baton_wire_free(reply);
    return code;
}

static enum cli_exit floors(struct cli *cli)
{
    if (!attest || cli->reason == NULL) {
        return cli_usage(
            "say --attest and --reason TEXT: how you know that no agent has seen more");
    }
    Baton__V1__AttestFloorsRequest *request =
        baton_wire_new(&baton__v1__attest_floors_request__descriptor);
    request->options = cli_mutation(cli, request);
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, "baton.v1.Fleet/AttestFloors", request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK) {
        (void)puts("the store's floors are attested; publishes and swaps go on");
    }
    baton_wire_free(reply);
    return code;
}

enum cli_exit cli_run_store(struct cli *cli)
{
    const char *action = cli->words_count > 0 ? cli->words[0] : "";
    if (strcmp(action, "export") == 0 || strcmp(action, "import") == 0 ||
        strcmp(action, "check") == 0) {
        return cli_store_archive(cli, action, store_address);
    }
    action = cli->words_count == 1 ? action : "";
    if (strcmp(action, "rebuild") == 0) {
        return rebuild(cli);
    }
    return strcmp(action, "floors") == 0
               ? floors(cli)
               : cli_usage("store does: export, import, check, rebuild, floors");
}
