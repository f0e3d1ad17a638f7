/* fleet_verbs.c -- batonctl abandon|cordon|uncordon|drain|sleep|wake|retire|pin|unpin|quarantine|unquarantine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/fleet.pb-c.h"
#include "controller/cli/print.h"

enum { KEY_ATTEST_DEAD = 0x2100, KEY_EVICT };

const struct argp_option cli_retire_options[] = { { "attest-dead", KEY_ATTEST_DEAD, NULL, 0,
                                                    "You made sure that its engines are dead", 0 },
                                                  { NULL, 0, NULL, 0, NULL, 0 } };
const struct argp_option cli_quarantine_options[] = {
    { "evict", KEY_EVICT, NULL, 0, "Roll groups that serve it back to the promoted version", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static bool attest_dead;
static bool evict;

bool cli_retire_take(int key, const char *argument)
{
    (void)argument;
    attest_dead |= key == KEY_ATTEST_DEAD;
    return key == KEY_ATTEST_DEAD;
}

bool cli_quarantine_take(int key, const char *argument)
{
    (void)argument;
    evict |= key == KEY_EVICT;
    return key == KEY_EVICT;
}

/* One verb as the API has it. */
struct verb {
    const char *method;
    const char *request;
    const char *done;
};

static void print_change(struct cli *cli, const Baton__V1__FleetChange *change, const char *done)
{
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_message(cli, change);
        return;
    }
    for (size_t i = 0; i < change->n_groups; i++) {
        (void)printf(cli->output == CLI_OUTPUT_NAME ? "group/%s%.0s\n" : "group/%s %s\n",
                     change->groups[i], done);
    }
}

static enum cli_exit change_groups(struct cli *cli, const struct verb *verb, const char *kind,
                                   const char *name)
{
    void *request = baton_wire_new(baton_wire_find_message(verb->request));
    cli_set_text(request, kind, name);
    cli_set_bool(request, "attest_dead", attest_dead);
    cli_set_part(request, "options", cli_mutation(cli, request));
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, verb->method, request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK) {
        print_change(cli, reply, verb->done);
    }
    baton_wire_free(reply);
    return code;
}

static enum cli_exit change_version(struct cli *cli, const struct verb *verb, const char *name)
{
    const char *at = strchr(name, '@');
    if (at == NULL || at == name || at[1] == '\0') {
        return cli_usage("which version? say MODEL@SEQ, e.g. m@7");
    }
    void *request = baton_wire_new(baton_wire_find_message(verb->request));
    char *model = baton_wire_text(request, name);
    model[at - name] = '\0';
    cli_set_text(request, "model", model);
    cli_set_u64(request, "seq", cli_number("the version", at + 1));
    cli_set_bool(request, "evict", evict);
    cli_set_part(request, "options", cli_mutation(cli, request));
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, verb->method, request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK && cli->output == CLI_OUTPUT_TABLE) {
        (void)printf("version/%s %s\n", name, verb->done);
    } else if (code == CLI_EXIT_OK) {
        cli_print_items(cli, cli_kind_find("version"), &reply, 1, false);
    }
    baton_wire_free(reply);
    return code;
}

static enum cli_exit run_groups(struct cli *cli, const struct verb *verb)
{
    const char *kind, *name;
    if (!cli_object(cli, "group", &kind, &name) ||
        (strcmp(kind, "group") != 0 && strcmp(kind, "agent") != 0)) {
        return cli_usage("which? say group/NAME, or agent/NAME for all of its groups");
    }
    return change_groups(cli, verb, kind, name);
}

/* "m@7", "version/m@7" or "version m@7". */
static const char *version_word(struct cli *cli)
{
    const char *kind, *name;
    bool any = cli_object(cli, "version", &kind, &name);
    return any && strcmp(kind, "version") == 0 ? name : NULL;
}

static enum cli_exit run_version(struct cli *cli, const struct verb *verb)
{
    const char *name = version_word(cli);
    return name == NULL ? cli_usage("which version? say MODEL@SEQ, e.g. m@7")
                        : change_version(cli, verb, name);
}

/* A version that was not published has no seq yet: its uid names it. */
enum cli_exit cli_run_abandon(struct cli *cli)
{
    if (cli->words_count != 1) {
        return cli_usage("which version? say its uid: batonctl get versions -o wide");
    }
    void *request = baton_wire_new(baton_wire_find_message("baton.v1.AbandonVersionRequest"));
    cli_set_text(request, "version_uid", cli->words[0]);
    cli_set_part(request, "options", cli_mutation(cli, request));
    void *reply = NULL;
    enum cli_exit code = cli_call(cli, "baton.v1.Versions/Abandon", request, &reply);
    baton_wire_free(request);
    if (code == CLI_EXIT_OK) {
        (void)printf("version %s abandoned\n", cli->words[0]);
    }
    baton_wire_free(reply);
    return code;
}

enum cli_exit cli_run_cordon(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Fleet/Cordon", "baton.v1.CordonRequest",
                                      "cordoned" };
    return run_groups(cli, &verb);
}

enum cli_exit cli_run_uncordon(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Fleet/Uncordon", "baton.v1.UncordonRequest",
                                      "uncordoned" };
    return run_groups(cli, &verb);
}

enum cli_exit cli_run_drain(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Fleet/Drain", "baton.v1.DrainRequest",
                                      "drains; batonctl uncordon brings it back" };
    return run_groups(cli, &verb);
}

/* "model/m" or "model m"; also "m" alone, as elsewhere, is a group. */
static enum cli_exit run_sleepers(struct cli *cli, const struct verb *verb)
{
    const char *kind, *name;
    if (!cli_object(cli, "group", &kind, &name) ||
        (strcmp(kind, "group") != 0 && strcmp(kind, "agent") != 0 && strcmp(kind, "model") != 0)) {
        return cli_usage("which? say group/NAME, agent/NAME, or model/NAME for all of its groups");
    }
    return change_groups(cli, verb, kind, name);
}

enum cli_exit cli_run_sleep(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Fleet/Sleep", "baton.v1.SleepRequest",
                                      "falls asleep; batonctl wake brings it back" };
    return run_sleepers(cli, &verb);
}

enum cli_exit cli_run_wake(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Fleet/Wake", "baton.v1.WakeRequest",
                                      "wakes up and serves once its weights are verified" };
    return run_sleepers(cli, &verb);
}

enum cli_exit cli_run_retire(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Fleet/Retire", "baton.v1.RetireRequest",
                                      "retired" };
    return run_groups(cli, &verb);
}

enum cli_exit cli_run_pin(struct cli *cli)
{
    static const struct verb group = { "baton.v1.Fleet/Pin", "baton.v1.PinGroupRequest", "pinned" };
    static const struct verb version = { "baton.v1.Versions/Pin", "baton.v1.PinVersionRequest",
                                         "pinned" };
    bool is_version = cli->words_count > 0 && strchr(cli->words[cli->words_count - 1], '@') != NULL;
    return is_version ? run_version(cli, &version) : run_groups(cli, &group);
}

enum cli_exit cli_run_unpin(struct cli *cli)
{
    static const struct verb group = { "baton.v1.Fleet/Unpin", "baton.v1.UnpinGroupRequest",
                                       "unpinned" };
    static const struct verb version = { "baton.v1.Versions/Unpin", "baton.v1.UnpinVersionRequest",
                                         "unpinned" };
    bool is_version = cli->words_count > 0 && strchr(cli->words[cli->words_count - 1], '@') != NULL;
    return is_version ? run_version(cli, &version) : run_groups(cli, &group);
}

enum cli_exit cli_run_quarantine(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Versions/Quarantine",
                                      "baton.v1.QuarantineVersionRequest", "quarantined" };
    return run_version(cli, &verb);
}

enum cli_exit cli_run_unquarantine(struct cli *cli)
{
    static const struct verb verb = { "baton.v1.Versions/Unquarantine",
                                      "baton.v1.UnquarantineVersionRequest",
                                      "may be a target again" };
    return run_version(cli, &verb);
}
