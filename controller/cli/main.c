/* main.c -- batonctl: the table of commands and their common options. */
#include "controller/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/config/config.h"

enum { OPTIONS_MAX = 48 };

enum option_key {
    KEY_AGENT = 0x1000,
    KEY_CA,
    KEY_CERT,
    KEY_TOKEN_FILE,
    KEY_KEY,
    KEY_TIMEOUT,
    KEY_REASON,
    KEY_REQUEST_ID,
    KEY_REVISION,
    KEY_NO_HEADERS,
    KEY_LAST_KNOWN,
};

static const struct argp_option common_options[] = {
    { NULL, 0, NULL, 0, "Options of every command:", 100 },
    { "server", 's', "ADDRESS", 0,
      "Controller, host:port or unix:/path; several: a:7070,b:7070 (default $BATON_SERVER, else "
      "127.0.0.1:7070)",
      0 },
    { "agent", KEY_AGENT, "ADDRESS", 0,
      "Local agent, unix:/path (default $BATON_AGENT, else unix:/run/baton/agent.sock)", 0 },
    { "ca", KEY_CA, "FILE", 0, "Who signs the controller's certificate: use TLS", 0 },
    { "cert", KEY_CERT, "FILE", 0, "Own certificate for TLS", 0 },
    { "token-file", KEY_TOKEN_FILE, "FILE", 0,
      "Own token, instead of a certificate; needs --ca where the controller is elsewhere", 0 },
    { "key", KEY_KEY, "FILE", 0, "Own key for TLS", 0 },
    { "model", 'm', "NAME", 0, "Only objects of this model", 0 },
    { "output", 'o', "FORMAT", 0, "wide, json, yaml or name", 0 },
    { "watch", 'w', NULL, 0, "Go on with what changes", 0 },
    { "no-headers", KEY_NO_HEADERS, NULL, 0, "No line of titles", 0 },
    { "timeout", KEY_TIMEOUT, "DURATION", 0, "Give up after, e.g. 30s, 10m", 0 },
    { "reason", KEY_REASON, "TEXT", 0, "Why; goes to the audit", 0 },
    { "request-id", KEY_REQUEST_ID, "ID", 0, "Same id, same answer: makes a retry safe", 0 },
    { "expected-revision", KEY_REVISION, "N", 0, "Refuse if the object changed since", 0 },
    { "quiet", 'q', NULL, 0, "No progress", 0 },
    { "last-known", KEY_LAST_KNOWN, NULL, 0,
      "If no controller leads: show a standby's copy of the store, and say how old it is (get and "
      "describe of models, versions, groups, rolls; roll history)",
      0 },
    { NULL, 0, NULL, 0, NULL, 0 },
};

/* Break-glass: deploy/docs/break-glass.md. */
static const char status_doc[] =
    "Shows the local agent's groups as its journal and its engines have them; needs no controller. "
    "For root and the agent's own user.\vExample:\n"
    "  batonctl --agent unix:/run/baton/agent.sock status\n";
static const char resume_doc[] =
    "model/NAME: lifts a suspend and a hold.\n"
    "group/NAME: break-glass at the local agent (--agent): opens a shut group again, once its "
    "weights "
    "were verified equal to the version that its journal committed.\vExamples:\n"
    "  batonctl resume model/m\n"
    "  batonctl --agent unix:/run/baton/agent.sock resume group/g0\n";
static const char restore_doc[] =
    "At the local agent (--agent), without a controller: ends the group's open swap now, by its "
    "own "
    "way back to the version before.\vExample:\n"
    "  batonctl --agent unix:/run/baton/agent.sock restore group/g0\n";
static const char detach_doc[] =
    "At the local agent (--agent), without a controller: this agent stops driving the group; "
    "engines "
    "and gates stay as they are, until `resume group/NAME` or a higher owner term. Refused during "
    "a "
    "swap.\vExample:\n  batonctl --agent unix:/run/baton/agent.sock detach group/g0\n";
static const char store_doc[] =
    "The controller's store. ACTION is one of:\n"
    "  export FILE --store ADDRESS   write all that is stored to FILE (-: stdout), also beside a "
    "running controller\n"
    "  import FILE --store ADDRESS   fill an empty store from FILE (-: stdin); no controller may "
    "run "
    "on it\n"
    "  check --store ADDRESS         whether everything stored holds together; exit 7: it does "
    "not\n"
    "After it was lost:\n"
    "  rebuild --from-agents  write models, versions and what is promoted from what agents "
    "restated\n"
    "  floors --attest        no agent has seen more than the store: publishes and swaps go "
    "on\vExamples:\n"
    "  batonctl store export /backup/baton.jsonl --store sqlite:/var/lib/baton/controller.db\n"
    "  batonctl store rebuild --from-agents --dry-run\n"
    "  batonctl store floors --attest --reason 'node 7 is scrap'\n";
static const char cordon_doc[] =
    "No new swap begins for the group, or for all groups of the agent, until uncordon; one that is "
    "under way finishes. It goes on serving.\vExamples:\n"
    "  batonctl cordon group/g0 --reason 'checking its GPU'\n  batonctl cordon agent/a1\n";
static const char drain_doc[] =
    "Cordons the group, shuts its gate and waits for requests in progress. `batonctl uncordon` "
    "brings "
    "it back.\vExample:\n  batonctl drain group/g0 --reason 'new driver'\n";
static const char sleep_doc[] =
    "For colocated training: shuts the gate of a group (of all groups of an agent, or of a model "
    "as "
    "it is now), lets requests in progress end as the model's policy says, and has the engines "
    "release "
    "weights and KV. Asleep, a group is in no routing, no roll, no budget and no wait. `batonctl "
    "wait "
    "MODEL --for=asleep` returns once the memory is released; `batonctl wake` brings them "
    "back.\vExamples:\n  batonctl sleep model/m --reason 'train step 42'\n"
    "  batonctl wait m --for=asleep\n  batonctl sleep group/g0\n";
static const char wake_doc[] =
    "Gives the engines their memory back, brings the version to them that is promoted (of a pinned "
    "group: its own), verifies it, and opens the gates only then.\vExamples:\n"
    "  batonctl wake model/m\n  batonctl wait m --for=converged\n";
static const char retire_doc[] =
    "Takes a group out of the fleet: it counts nowhere, and no roll waits for it. Its gate must be "
    "shut (drain it first), or, if its agent is gone, you must have made sure that its engines are "
    "dead.\vExamples:\n  batonctl retire group/g0 --attest-dead --reason 'node 7 burnt'\n"
    "  batonctl retire agent/a1 --attest-dead\n";
static const char quarantine_doc[] =
    "The version is no target any more. Groups that serve it go on, unless --evict rolls them back "
    "to "
    "the promoted version.\vExamples:\n  batonctl quarantine m@7 --reason 'NaN loss' --evict\n";
static const char describe_doc[] =
    "Shows one object with all that is known of it, and what would unblock it.\vExamples:\n"
    "  batonctl describe group g0\n  batonctl describe model/m\n";
static const char get_doc[] =
    "Lists objects: models, versions, groups, engines, agents, rolls.\vExamples:\n"
    "  batonctl get groups\n  batonctl get groups -w\n  batonctl get versions -m m -o json\n"
    "  batonctl get model m -o yaml\n  batonctl get groups --last-known\n";
static const char roll_doc[] =
    "Drives rolls. ACTION is one of:\n"
    "  plan MODEL [--to SEQ] [--order G,H]    show what a roll would do: order, waves, what "
    "blocks, "
    "memory, times; -o wide: why, and how the bytes come\n"
    "  start MODEL [--to SEQ] [--order G,H]   roll to a version (default: the newest); these "
    "groups "
    "go first\n"
    "  status MODEL              wait for the newest roll's end; exit 0 completed, 1 taken back or "
    "superseded, 5 degraded\n"
    "  watch MODEL               show it group by group until its end\n"
    "  pause MODEL               no new swaps; those under way finish\n"
    "  resume MODEL              go on\n"
    "  advance MODEL             past a canary step's hold, or its checks that people decide\n"
    "  check MODEL NAME --pass | --fail | --value N [--seq SEQ] [--message TEXT]   report on a "
    "check\n"
    "  promote MODEL             make its version current without the checks that are left\n"
    "  abort MODEL               back to the version before, hold the model, quarantine the "
    "version\n"
    "  retry MODEL [--group G]   try failed groups again now\n"
    "  undo MODEL [--to SEQ]     back to the version before, and hold the model\n"
    "  history MODEL             what was rolled, when, why and by whom\n"
    "  trace MODEL [NUMBER]      the swaps of a roll as a trace for Perfetto or chrome://tracing\v"
    "`rollout` is another name of this command. Examples:\n"
    "  batonctl roll status m --timeout 5m\n  batonctl roll undo m --reason 'reward collapsed'\n"
    "  batonctl roll plan m -o wide\n  batonctl roll history m --last-known\n"
    "  batonctl roll trace m 7 > roll.json\n";

static const char delta_doc[] =
    "Disk-delta directories, as Miles and slime write them and SGLang pulls them; needs no "
    "controller. ACTION is one of:\n"
    "  encode BASE NEXT       write version N of the publication: what leads from BASE, the "
    "checkpoint of version N - 1, to NEXT\n"
    "  verify CHECKPOINT      go through all deltas from CHECKPOINT to version N; write nothing\n"
    "  apply CHECKPOINT OUT   the same, and write the result to OUT, a new directory\v"
    "CHECKPOINT is version 0 unless its .weight_sync/state.json says another; it is only read. "
    "Examples:\n"
    "  batonctl delta encode step-41/ step-42/ --publication deltas/ --version 42\n"
    "  batonctl delta verify base/ --publication deltas/ --version 42\n"
    "  batonctl delta apply base/ step-42/ --publication deltas/ --version 42\n";

static const char certs_doc[] =
    "A small certificate authority in a folder, for a lab; needs no controller "
    "(deploy/docs/security.md).\n"
    "  init DIR          create ca.crt and ca.key\n"
    "  issue DIR NAME    create NAME.crt and NAME.key for the identity "
    "spiffe://TRUST-DOMAIN/ROLE/NAME\v"
    "Examples:\n  batonctl certs init pki --trust-domain lab.example\n"
    "  batonctl certs issue pki controller --role controller --dns controller.lab.example\n"
    "  batonctl certs issue pki node-7 --role agent --ip 10.0.0.7\n"
    "  batonctl certs issue pki node-7 --role agent --ip 10.0.0.7 --renew\n";
static const char endpoints_doc[] =
    "Lists the groups that may take requests now. Nobody: exit 1, VERSION_NOT_READY.\vExamples:\n"
    "  batonctl endpoints m --min 7\n  batonctl endpoints m --max-lag 1 -w\n"
    "  batonctl endpoints m --exact 7 -o json\n";
static const char engine_doc[] =
    "check URL: asks an inference engine, on its own machine and before any agent drives it, "
    "whether Baton can swap its weights, and whether nobody else can; says what works, what does "
    "not, and what to change in the server's flags. Needs no controller and no agent. Without "
    "--self-update it changes nothing; it generates a few tokens, and reads the weights once.\v"
    "--guard-page and --token-file are what an agent's file calls guardPage and tokenFile. "
    "--timeout bounds each call. Exit codes: 0 nothing failed, 3 no answer in time, 4 nobody "
    "answers, 7 a check "
    "failed. Examples:\n"
    "  batonctl engine check http://127.0.0.1:8000 --guard-page /run/baton/e0.page --token-file "
    "/run/baton/e0.token\n"
    "  batonctl engine check http://127.0.0.1:8000 --self-update /models/step-1 -o json\n";
static const char judge_doc[] =
    "Judges a sample by the versions that generated its tokens: exit 0 accept, 1 reject with its "
    "faults.\vExamples:\n"
    "  batonctl judge m --span 7:120 --span 8:30 --consumer 9\n"
    "  batonctl judge m --span 7:120 --max-lag 20 --unit steps\n";
static const char layout_doc[] =
    "Reads layouts (which rank holds which part of which tensor) from YAML or JSON files; a "
    "checkpoint directory is a layout of one rank. Needs no controller. ACTION is one of:\n"
    "  show FILE            what each rank holds; --rank N: box by box\n"
    "  check FILE           no gap, no overlap, scales beside their values; exit 1: refused\n"
    "  diff FILE FILE       what differs; exit 1: something does\n"
    "  plan SOURCE TARGET   which rank sends what to whom: bytes, busiest link, buckets; --copies: "
    "each copy\v"
    "-o wide adds the plan's buckets. deploy/docs/layouts.md has the keys of a file. Examples:\n"
    "  batonctl layout check engine.yaml\n  batonctl layout show engine.yaml --rank 3\n"
    "  batonctl layout plan trainer.yaml engine.yaml -o json\n"
    "  batonctl layout plan ckpt/step-42 engine.yaml --copies\n";
static const char staleness_doc[] =
    "Shows how far what is served lies behind what was published, along the lineage: in publishes, "
    "optimizer steps, samples and seconds.\vOLDEST is the largest time since a served version was "
    "published. Examples:\n"
    "  batonctl staleness\n  batonctl staleness m -o wide\n  batonctl staleness m --histogram "
    "--unit steps\n  batonctl staleness m --series --period 1m\n  batonctl staleness m -w\n";

const struct cli_command cli_commands[] = {
    { "abandon", "UID", "drop a version that was never published",
      "Drops a version that a publish opened and did not finish. Its bytes may then go from the "
      "agents.\vExample:\n  batonctl abandon 0f3c62a1d5e84b7790b1c2d3e4f5a697\n",
      NULL, NULL, cli_run_abandon },
    { "apply", "", "create or change a model from a file",
      "Creates or changes a model.\vExample:\n  batonctl apply -f model.yaml\n", cli_apply_options,
      cli_apply_take, cli_run_apply },
    { "audit", "[KIND/NAME]", "show who changed what, and who was refused",
      "Shows the controller's audit, the newest entry last; model/NAME is all about that model, "
      "address/IP connections that were refused. -o wide adds where from, "
      "revisions and what a refusal said.\vExamples:\n  batonctl audit\n  batonctl audit model/m "
      "--since 24h\n"
      "  batonctl audit address/10.0.0.7 -o wide\n"
      "  batonctl audit --refused --principal spiffe://lab/agent/ -o json\n",
      cli_audit_options, cli_audit_take, cli_run_audit },
    { "certs", "init DIR | issue DIR NAME", "make certificates for a lab", certs_doc,
      cli_certs_options, cli_certs_take, cli_run_certs },
    { "cordon", "group/NAME|agent/NAME", "issue no new swaps for a group", cordon_doc, NULL, NULL,
      cli_run_cordon },
    { "completion", "bash", "print the shell's completion",
      "Prints the completion for bash.\vExample:\n  source <(batonctl completion bash)\n", NULL,
      NULL, cli_run_completion },
    { "delta", "ACTION DIR [DIR]", "encode, verify or apply a disk-delta directory", delta_doc,
      cli_delta_options, cli_delta_take, cli_run_delta },
    { "describe", "KIND NAME", "show one object in full", describe_doc, NULL, NULL,
      cli_run_describe },
    { "detach", "group/NAME", "break-glass: leave a local group's engines alone", detach_doc, NULL,
      NULL, cli_run_detach },
    { "drain", "group/NAME|agent/NAME", "shut a group's gate and keep it shut", drain_doc, NULL,
      NULL, cli_run_drain },
    { "endpoints", "MODEL", "list the groups that may take requests now", endpoints_doc,
      cli_endpoints_options, cli_endpoints_take, cli_run_endpoints },
    { "engine", "check URL", "check an inference engine, before any agent drives it", engine_doc,
      cli_engine_options, cli_engine_take, cli_run_engine },
    { "events", "[KIND/NAME]", "show what happened",
      "Shows the event log, oldest first; -w goes on.\vExamples:\n  batonctl events\n  batonctl "
      "events "
      "group/g0 -w\n",
      NULL, NULL, cli_run_events },
    { "get", "KIND [NAME]", "list objects", get_doc, NULL, NULL, cli_run_get },
    { "hold", "model/NAME", "store publishes without rolling them",
      "Publishes are stored, not rolled, until resume; a roll that runs goes on. Needs "
      "--reason.\vExample:\n  batonctl hold model/m --reason 'evaluation week'\n",
      NULL, NULL, cli_run_hold },
    { "pin", "group/NAME|MODEL@SEQ", "keep a group at its version, or a version",
      "Keeps a group at its version (no roll moves it), or keeps a version (retention does not "
      "drop "
      "it).\vExamples:\n  batonctl pin group/g0 --reason 'baseline'\n  batonctl pin m@7\n",
      NULL, NULL, cli_run_pin },
    { "judge", "MODEL", "say whether a sample may be trained on", judge_doc, cli_judge_options,
      cli_judge_take, cli_run_judge },
    { "layout", "ACTION FILE [FILE]", "show, check, compare and plan sharding layouts", layout_doc,
      cli_layout_options, cli_layout_take, cli_run_layout },
    { "publish", "DIR", "publish a checkpoint directory as a new version",
      "Asks the local agent to publish DIR, a Hugging Face checkpoint directory. "
      "baton.references.json "
      "in it says what engines should answer, for a canary's Probe check.\vExamples:\n"
      "  batonctl publish ckpt/step-42 --model m --optimizer-step 42\n"
      "  batonctl publish changed/ --model m --partial\n",
      cli_publish_options, cli_publish_take, cli_run_publish },
    { "quarantine", "MODEL@SEQ", "bring no group to a version any more", quarantine_doc,
      cli_quarantine_options, cli_quarantine_take, cli_run_quarantine },
    { "restore", "group/NAME", "break-glass: send a local group's open swap back", restore_doc,
      NULL, NULL, cli_run_restore },
    { "resume", "model/NAME|group/NAME", "lift a model's suspend or hold; break-glass for a group",
      resume_doc, NULL, NULL, cli_run_resume },
    { "retire", "group/NAME|agent/NAME", "take a dead group out of the fleet", retire_doc,
      cli_retire_options, cli_retire_take, cli_run_retire },
    { "roll", "ACTION MODEL", "start, watch, advance, promote, abort, undo a roll", roll_doc,
      cli_roll_options, cli_roll_take, cli_run_roll },
    { "rollout", "ACTION MODEL", "the same as roll", roll_doc, cli_roll_options, cli_roll_take,
      cli_run_roll },
    { "sleep", "group/NAME|agent/NAME|model/NAME", "have engines give their memory away", sleep_doc,
      NULL, NULL, cli_run_sleep },
    { "staleness", "[MODEL]", "show how stale the groups are", staleness_doc, cli_staleness_options,
      cli_staleness_take, cli_run_staleness },
    { "status", "", "break-glass: show the local agent's groups", status_doc, NULL, NULL,
      cli_run_status },
    { "store", "ACTION [FILE]", "back up, restore, move, check the store; rebuild a lost one",
      store_doc, cli_store_options, cli_store_take, cli_run_store },
    { "suspend", "model/NAME", "issue no new swaps for a model",
      "No new swap begins until resume; those under way finish.\vExample:\n  batonctl suspend "
      "model/m\n",
      NULL, NULL, cli_run_suspend },
    { "uncordon", "group/NAME|agent/NAME", "lift a cordon or a drain",
      "Issues swaps again; a drained group opens once its weights are verified. A group that "
      "missed "
      "a roll catches up.\vExample:\n  batonctl uncordon group/g0\n",
      NULL, NULL, cli_run_uncordon },
    { "unpin", "group/NAME|MODEL@SEQ", "lift a pin",
      "Lets a group follow rolls again, or lets retention drop a version.\vExamples:\n  batonctl "
      "unpin group/g0\n  batonctl unpin m@7\n",
      NULL, NULL, cli_run_unpin },
    { "unquarantine", "MODEL@SEQ", "lift a quarantine",
      "The version may be a target again.\vExample:\n  batonctl unquarantine m@7\n", NULL, NULL,
      cli_run_unquarantine },
    { "wait", "MODEL", "wait for a condition",
      "Waits until every group serves the newest version (or --seq) or a later one.\vExit codes: 0 "
      "it does, 3 timeout, 6 it cannot: held, suspended, taken back or quarantined. Example:\n"
      "  batonctl wait m --for=converged --timeout 10m\n",
      cli_wait_options, cli_wait_take, cli_run_wait },
    { "wake", "group/NAME|agent/NAME|model/NAME", "have sleeping engines serve again", wake_doc,
      NULL, NULL, cli_run_wake },
};
const unsigned cli_commands_count = sizeof(cli_commands) / sizeof(cli_commands[0]);

struct parse {
    struct cli *cli;
    const struct cli_command *command;
};

static bool parse_output(const char *text, enum cli_output *out)
{
    static const char *const words[] = { "table", "wide", "json", "yaml", "name" };
    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = (enum cli_output)i;
            return true;
        }
    }
    return false;
}

static void take_timeout(struct cli *cli, const char *text, const struct argp_state *state)
{
    struct baton_status st = baton_config_duration("--timeout", text, 0, &cli->timeout_ns);
    if (!baton_ok(&st)) {
        argp_error(state, "%s", st.message);
    }
}

static void take_word(struct cli *cli, char *word, const struct argp_state *state)
{
    if (cli->words_count == CLI_WORDS_MAX) {
        argp_error(state, "too many words");
    }
    cli->words[cli->words_count++] = word;
}

/* The part of the common options that is one assignment each. */
static bool take_text_option(struct cli *cli, int key, const char *text)
{
    switch (key) {
    case 's': cli->server = text; return true;
    case KEY_AGENT: cli->agent = text; return true;
    case KEY_CA: cli->ca_file = text; return true;
    case KEY_CERT: cli->cert_file = text; return true;
    case KEY_TOKEN_FILE: cli->token_file = text; return true;
    case KEY_KEY: cli->key_file = text; return true;
    case 'm': cli->model = text; return true;
    case KEY_REASON: cli->reason = text; return true;
    case KEY_REQUEST_ID: cli->request_id = text; return true;
    case KEY_REVISION:
        cli->expected_revision = cli_number("--expected-revision", text);
        return true;
    default: return false;
    }
}

static bool take_flag(struct cli *cli, int key)
{
    switch (key) {
    case 'w': cli->watch = true; return true;
    case KEY_NO_HEADERS: cli->no_headers = true; return true;
    case 'q': cli->quiet = true; return true;
    case KEY_LAST_KNOWN: cli->last_known = true; return true;
    default: return false;
    }
}

static error_t parse_key(int key, char *argument, struct argp_state *state)
{
    struct parse *parse = state->input;
    const struct cli_command *command = parse->command;
    if (key == 'o') {
        if (!parse_output(argument, &parse->cli->output)) {
            argp_error(state, "-o takes wide, json, yaml or name, not '%s'", argument);
        }
    } else if (key == KEY_TIMEOUT) {
        take_timeout(parse->cli, argument, state);
    } else if (key == ARGP_KEY_ARG) {
        take_word(parse->cli, argument, state);
    } else if (key == ARGP_KEY_END || key == ARGP_KEY_INIT || key == ARGP_KEY_SUCCESS ||
               key == ARGP_KEY_NO_ARGS || key == ARGP_KEY_FINI) {
        return 0;
    } else if (!take_text_option(parse->cli, key, argument) && !take_flag(parse->cli, key) &&
               (command->take_option == NULL || !command->take_option(key, argument))) {
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void print_commands(FILE *out)
{
    (void)fprintf(out, "batonctl: rolls new weights through a fleet of inference engines.\n\n"
                       "Usage: batonctl COMMAND [WORD...] [OPTION...]\n\nCommands:\n");
    for (unsigned i = 0; i < cli_commands_count; i++) {
        (void)fprintf(out, "  %-11s %s\n", cli_commands[i].name, cli_commands[i].summary);
    }
    (void)fprintf(out,
                  "\n`batonctl COMMAND --help` tells more. The controller is $BATON_SERVER (one or "
                  "several, \"a:7070,b:7070\") or 127.0.0.1:7070.\nExit codes: 0 done, 1 refused "
                  "or failed, 2 usage, 3 "
                  "timeout, 4 unreachable, 5 degraded, 6 cannot come true, 7 findings.\n");
}

static const struct cli_command *find_command(const char *name)
{
    for (unsigned i = 0; i < cli_commands_count; i++) {
        if (strcmp(cli_commands[i].name, name) == 0) {
            return &cli_commands[i];
        }
    }
    return NULL;
}

/* The command's options, then the common ones. */
static void join_options(const struct argp_option *own, struct argp_option *out)
{
    size_t count = 0;
    for (; own != NULL && (own->name != NULL || own->doc != NULL); own++) {
        out[count++] = *own;
    }
    memcpy(out + count, common_options, sizeof(common_options));
}

static enum cli_exit run(const struct cli_command *command, int argc, char **argv)
{
    const char *server = getenv("BATON_SERVER");
    const char *agent = getenv("BATON_AGENT");
    struct cli cli = { .server = server != NULL ? server : "127.0.0.1:7070",
                       .agent = agent != NULL ? agent : "unix:/run/baton/agent.sock" };
    struct parse parse = { &cli, command };
    struct argp_option options[OPTIONS_MAX];
    char name[64];
    join_options(command->options, options);
    const struct argp argp = {
        .options = options, .parser = parse_key, .args_doc = command->words_doc, .doc = command->doc
    };
    (void)snprintf(name, sizeof(name), "batonctl %s", command->name);
    argv[0] = name;
    argp_err_exit_status = CLI_EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &parse) != 0) {
        return CLI_EXIT_USAGE;
    }
    enum cli_exit code = command->run(&cli);
    rpc_client_destroy(cli.client);
    return code;
}

/* The common option that 'word' is; null: none. */
static const struct argp_option *find_option(const char *word)
{
    for (const struct argp_option *option = common_options; option->name != NULL || option->doc;
         option++) {
        bool is_long =
            word[1] == '-' && option->name != NULL && strcmp(word + 2, option->name) == 0;
        bool is_short = word[1] != '-' && word[2] == '\0' && option->key == word[1];
        if (is_long || is_short) {
            return option;
        }
    }
    return NULL;
}

/* Common options may also come before the command: "batonctl --agent unix:/a.sock status". */
static void put_command_first(int argc, char **argv)
{
    int at = 1;
    while (at < argc && argv[at][0] == '-') {
        const struct argp_option *option = find_option(argv[at]);
        at += option != NULL && option->arg != NULL ? 2 : 1;
    }
    if (at < argc) {
        char *command = argv[at];
        memmove(argv + 2, argv + 1, (size_t)(at - 1) * sizeof(*argv));
        argv[1] = command;
    }
}

int main(int argc, char **argv)
{
    if (argc > 2) {
        put_command_first(argc, argv);
    }
    if (argc < 2) {
        print_commands(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_commands(stdout);
        return CLI_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        (void)printf("batonctl %s\n", BATON_VERSION);
        return CLI_EXIT_OK;
    }
    const struct cli_command *command = find_command(argv[1]);
    if (command == NULL) {
        return (int)cli_usage("no command '%s'", argv[1]);
    }
    return (int)run(command, argc - 1, argv + 1);
}
