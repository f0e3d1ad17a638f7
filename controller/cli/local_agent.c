/* local_agent.c -- batonctl --agent unix:PATH status|restore|detach, and resume group/G: break-glass at an
 * agent's own node.  It needs neither controller nor store. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/client/operate.h"
#include "controller/cli/print.h"

/* What becomes of each line of the answer. */
typedef void line_fn(struct cli *cli, const char *text);

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static unsigned long long number_of(const json_t *object, const char *key)
{
    return (unsigned long long)json_integer_value(json_object_get(object, key));
}

static bool is(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static void row(const char *key, const char *value)
{
    (void)printf("  %-18s %s\n", key, value[0] != '\0' ? value : "-");
}

/* "2026-11-30T02:33:58Z". */
static void text_time(unsigned long long wall_ns, char out[CLI_CELL_BYTES])
{
    time_t seconds = (time_t)(wall_ns / BATON_NS_PER_S);
    struct tm parts;
    if (wall_ns == 0 || gmtime_r(&seconds, &parts) == NULL ||
        strftime(out, CLI_CELL_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) {
        (void)snprintf(out, CLI_CELL_BYTES, "-");
    }
}

static void print_swap(const json_t *swap)
{
    char text[2 * CLI_CELL_BYTES], at[CLI_CELL_BYTES];
    if (!json_is_object(swap)) {
        row("journal's last swap", "none");
        return;
    }
    text_time(number_of(swap, "endedWallNs"), at);
    (void)snprintf(text, sizeof(text), "ticket %llu, v%llu -> v%llu: %.20s at %.24s",
                   number_of(swap, "ticket"), number_of(swap, "fromSeq"), number_of(swap, "toSeq"),
                   text_of(swap, "outcome"), at);
    row("journal's last swap", text);
    if (text_of(swap, "message")[0] != '\0') {
        row("", text_of(swap, "message"));
    }
}

static void print_operated(const json_t *group)
{
    char text[2 * CLI_CELL_BYTES], at[CLI_CELL_BYTES];
    if (text_of(group, "operated")[0] != '\0') {
        text_time(number_of(group, "operatedWallNs"), at);
        (void)snprintf(text, sizeof(text), "%.16s by %.64s at %.24s", text_of(group, "operated"),
                       text_of(group, "operatedBy"), at);
        row("break-glass", text);
    }
}

static void print_engines(const json_t *engines)
{
    size_t i;
    json_t *engine;
    json_array_foreach(engines, i, engine)
    {
        char text[2 * CLI_CELL_BYTES];
        (void)snprintf(text, sizeof(text), "gate %.8s, label %.24s, %s, %.100s",
                       text_of(engine, "gate"), text_of(engine, "label"),
                       is(engine, "reachable") ? "reachable" : "not reachable",
                       text_of(engine, "endpoint"));
        char name[CLI_CELL_BYTES];
        (void)snprintf(name, sizeof(name), "engine %.60s", text_of(engine, "name"));
        row(name, text);
    }
}

static void print_group(const json_t *group)
{
    char text[2 * CLI_CELL_BYTES];
    (void)printf("Group %s:\n", text_of(group, "group"));
    row("model", text_of(group, "model"));
    (void)snprintf(text, sizeof(text), "%.20s (%.20s)%s", text_of(group, "state"),
                   text_of(group, "phase"), is(group, "detached") ? ", detached" : "");
    row("state", text);
    if (text_of(group, "message")[0] != '\0') {
        row("because", text_of(group, "message"));
    }
    (void)snprintf(text, sizeof(text), "v%llu  %.40s", number_of(group, "committedSeq"),
                   text_of(group, "committedDigest"));
    row("committed", text);
    row("gate", is(group, "gateOpen") ? "open" : "not open");
    row("can be put back", is(group, "canRestore") ? "yes" : "no");
    (void)snprintf(text, sizeof(text), "%.40s%shighest ticket %llu, owner term %llu",
                   text_of(group, "ticketUid"), text_of(group, "ticketUid")[0] != '\0' ? "; " : "",
                   number_of(group, "highestTicket"), number_of(group, "ownerTerm"));
    row("open swap", text);
    print_swap(json_object_get(group, "lastSwap"));
    print_operated(group);
    print_engines(json_object_get(group, "engines"));
}

static void print_status(struct cli *cli, const char *text)
{
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        (void)puts(text); /* One JSON object a line. */
        return;
    }
    json_t *json = json_loads(text, 0, NULL);
    if (json_object_get(json, "group") != NULL) {
        print_group(json);
    } else {
        (void)printf("Agent %s, software %s: %s, epoch %llu.%llu\n", text_of(json, "agent"),
                     text_of(json, "software"),
                     is(json, "connected") ? "a controller answers" : "no controller answers",
                     number_of(json, "generation"), number_of(json, "epoch"));
        if (number_of(json, "refusedAsLeader") > 0) {
            (void)printf("  refused %llu commands of who is not the leader that it says to be; see "
                         "the agent's log\n",
                         number_of(json, "refusedAsLeader"));
        }
    }
    json_decref(json);
}

static void print_line(struct cli *cli, const char *text)
{
    (void)cli;
    (void)puts(text);
}

/* What becomes of the answer's lines. */
struct listener {
    struct cli *cli;
    line_fn *print;
};

static void take_line(void *context, const char *text)
{
    struct listener *listener = context;
    listener->print(listener->cli, text);
}

static enum cli_exit run(struct cli *cli, const char *verb, const char *group, line_fn *print)
{
    struct local_operate operate = { 0 };
    struct listener listener = { cli, print };
    (void)snprintf(operate.verb, sizeof(operate.verb), "%s", verb);
    if (!baton_text_copy(operate.group, sizeof(operate.group), group)) {
        return cli_usage("'%.80s' is too long for a group's name", group);
    }
    (void)snprintf(operate.by, sizeof(operate.by), "%.100s",
                   cli->reason != NULL ? cli->reason : cli_user());
    struct baton_status st = operate_agent(cli->agent, &operate, take_line, &listener);
    return baton_ok(&st) ? CLI_EXIT_OK : cli_fail(&st);
}

enum cli_exit cli_run_status(struct cli *cli)
{
    if (cli->words_count != 0) {
        return cli_usage("status takes no words: it shows the local agent (--agent)");
    }
    return run(cli, "status", "", print_status);
}

enum cli_exit cli_local_group(struct cli *cli, const char *verb)
{
    const char *kind, *name;
    if (!cli_object(cli, "group", &kind, &name) || strcmp(kind, "group") != 0) {
        return cli_usage("%s which group of the local agent? say group/NAME", verb);
    }
    return run(cli, verb, name, print_line);
}

enum cli_exit cli_run_restore(struct cli *cli)
{
    return cli_local_group(cli, "restore");
}

enum cli_exit cli_run_detach(struct cli *cli)
{
    return cli_local_group(cli, "detach");
}
