/* cli.h -- what the commands of batonctl share: options, the connection, exit codes.
 *
 * A command is one file and one row of the table in main.c.  Commands print results to stdout and
 * everything else to stderr, so that `-o json | jq` always works.
 *
 * Depends on: api/base, api/wire, api/rpc.  Threads: one.  Ownership: 'struct cli' is main's. */
#ifndef CONTROLLER_CLI_CLI_H
#define CONTROLLER_CLI_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/base/status.h"
#include "api/rpc/rpc.h"

/* Stable: scripts rely on them (deploy/docs/batonctl.md). */
enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,      /* Refused, or ended badly. */
    CLI_EXIT_USAGE = 2,       /* The words are off. */
    CLI_EXIT_TIMEOUT = 3,     /* Not within --timeout. */
    CLI_EXIT_UNREACHABLE = 4, /* No controller (or agent, or engine) answers. */
    CLI_EXIT_DEGRADED = 5,    /* The roll makes no progress. */
    CLI_EXIT_BLOCKED = 6,     /* It cannot come true: held, suspended, undone. */
    CLI_EXIT_FINDINGS = 7,    /* Checked to the end, and something does not hold. */
};

enum cli_output {
    CLI_OUTPUT_TABLE,
    CLI_OUTPUT_WIDE,
    CLI_OUTPUT_JSON,
    CLI_OUTPUT_YAML,
    CLI_OUTPUT_NAME
};

enum { CLI_WORDS_MAX = 16 };

/* One run of batonctl. */
struct cli {
    /* Options that every command takes. */
    const char *server;
    const char *agent;
    const char *ca_file;
    const char *cert_file;
    const char *key_file;
    const char *token_file;
    const char *model;      /* --model */
    const char *reason;     /* --reason */
    const char *request_id; /* --request-id */
    uint64_t expected_revision;
    uint64_t timeout_ns; /* --timeout; 0: not given. */
    enum cli_output output;
    bool watch;
    bool no_headers;
    bool quiet;
    bool last_known; /* --last-known */

    /* What is left after the options: the command's words, the command itself not among them. */
    char *words[CLI_WORDS_MAX];
    int words_count;

    struct rpc_client *client; /* After cli_connect(). */
    bool found_leader;         /* A call was answered. */
    bool asks_stored;          /* No leader was found: from now on what is stored is asked for. */
};

/* A command: 'options' adds to the common ones (may be null); 'run' gets the parsed words. */
struct cli_command {
    const char *name;
    const char *words_doc; /* "KIND [NAME]" */
    const char *summary;   /* One line, for the list. */
    const char *doc;       /* What --help says below the usage; ends with examples. */
    const struct argp_option *options;
    /* Takes an option of the command's own; false: not one. */
    bool (*take_option)(int key, const char *argument);
    enum cli_exit (*run)(struct cli *cli);
};

/* Connects to the controller (lazily). */
BATON_MUST_USE enum cli_exit cli_connect(struct cli *cli);

/* One call; on failure prints it and gives the exit code, and '*reply' is null.  The reply is the
 * caller's: baton_wire_free().  A controller that does not lead says who does, and that one is asked;
 * where several were named (--server a,b,c), one that cannot be reached is left for the next.  With --last-known
 * what standbys know is asked for when no leader is found, and that is said on stderr. */
BATON_MUST_USE enum cli_exit cli_call(struct cli *cli, const char *method, const void *request,
                                      void **reply);

/* Opens a stream for rpc_stream_next(); the caller's reference.  The controller that leads is found by a
 * call before it, unless there was one.  On failure as cli_call(). */
struct rpc_stream;
BATON_MUST_USE enum cli_exit cli_stream(struct cli *cli, const char *method, const void *request,
                                        uint64_t timeout_ns, struct rpc_stream **stream);

/* Whether another controller may answer what failed with 'st'. */
bool cli_is_elsewhere(const struct cli *cli, const struct baton_status *st);

/* Prints "error: message (CODE, REASON)" and the hint; gives the exit code for it. */
enum cli_exit cli_fail(const struct baton_status *st);

/* Prints "error: ..." for wrong words, and where help is. */
BATON_PRINTF(1, 2) enum cli_exit cli_usage(const char *fmt, ...);

/* "model/m" or "model", "m" to kind and name; a bare name takes 'otherwise' (may be null).  False if
 * there is nothing to take.  Both belong to 'cli'. */
bool cli_object(struct cli *cli, const char *otherwise, const char **kind, const char **name);

/* Who runs this, for the audit: "user@host". */
const char *cli_user(void);

/* "42", or "v42"; ends the program as wrong usage of 'option' otherwise: 0 often means "any". */
uint64_t cli_number(const char *option, const char *text);

struct Baton__V1__MutationOptions;
/* The options of a mutation: a request id (given or new), revision, reason, user. */
struct Baton__V1__MutationOptions *cli_mutation(struct cli *cli, void *root);

extern const struct cli_command cli_commands[];
extern const unsigned cli_commands_count;

/* The commands, one a file. */
enum cli_exit cli_run_apply(struct cli *cli);
enum cli_exit cli_run_audit(struct cli *cli);
enum cli_exit cli_run_certs(struct cli *cli);
enum cli_exit cli_run_completion(struct cli *cli);
enum cli_exit cli_run_delta(struct cli *cli);
enum cli_exit cli_run_describe(struct cli *cli);
enum cli_exit cli_run_endpoints(struct cli *cli);
enum cli_exit cli_run_engine(struct cli *cli);
enum cli_exit cli_run_events(struct cli *cli);
enum cli_exit cli_run_get(struct cli *cli);
enum cli_exit cli_run_hold(struct cli *cli);
enum cli_exit cli_run_judge(struct cli *cli);
enum cli_exit cli_run_layout(struct cli *cli);
enum cli_exit cli_run_publish(struct cli *cli);
enum cli_exit cli_run_resume(struct cli *cli);
enum cli_exit cli_run_roll(struct cli *cli);
enum cli_exit cli_run_staleness(struct cli *cli);
enum cli_exit cli_run_suspend(struct cli *cli);
enum cli_exit cli_run_wait(struct cli *cli);
enum cli_exit cli_run_store(struct cli *cli);
/* Of `store`, on the store itself: export, import, check; 'address' may be null. */
enum cli_exit cli_store_archive(struct cli *cli, const char *action, const char *address);
/* Break-glass, at the local agent. */
enum cli_exit cli_run_status(struct cli *cli);
enum cli_exit cli_run_restore(struct cli *cli);
enum cli_exit cli_run_detach(struct cli *cli);
enum cli_exit cli_local_group(struct cli *cli, const char *verb);
enum cli_exit cli_run_cordon(struct cli *cli);
enum cli_exit cli_run_uncordon(struct cli *cli);
enum cli_exit cli_run_drain(struct cli *cli);
enum cli_exit cli_run_sleep(struct cli *cli);
enum cli_exit cli_run_wake(struct cli *cli);
enum cli_exit cli_run_retire(struct cli *cli);
enum cli_exit cli_run_abandon(struct cli *cli);
enum cli_exit cli_run_pin(struct cli *cli);
enum cli_exit cli_run_unpin(struct cli *cli);
enum cli_exit cli_run_quarantine(struct cli *cli);
enum cli_exit cli_run_unquarantine(struct cli *cli);

/* Options of commands that have their own. */
extern const struct argp_option cli_apply_options[];
bool cli_apply_take(int key, const char *argument);
extern const struct argp_option cli_audit_options[];
bool cli_audit_take(int key, const char *argument);
extern const struct argp_option cli_certs_options[];
bool cli_certs_take(int key, const char *argument);
extern const struct argp_option cli_delta_options[];
bool cli_delta_take(int key, const char *argument);
extern const struct argp_option cli_endpoints_options[];
bool cli_endpoints_take(int key, const char *argument);
extern const struct argp_option cli_engine_options[];
bool cli_engine_take(int key, const char *argument);
extern const struct argp_option cli_judge_options[];
bool cli_judge_take(int key, const char *argument);
extern const struct argp_option cli_layout_options[];
bool cli_layout_take(int key, const char *argument);
extern const struct argp_option cli_publish_options[];
bool cli_publish_take(int key, const char *argument);
extern const struct argp_option cli_roll_options[];
bool cli_roll_take(int key, const char *argument);
extern const struct argp_option cli_staleness_options[];
bool cli_staleness_take(int key, const char *argument);
extern const struct argp_option cli_store_options[];
bool cli_store_take(int key, const char *argument);
extern const struct argp_option cli_retire_options[];
bool cli_retire_take(int key, const char *argument);
extern const struct argp_option cli_quarantine_options[];
bool cli_quarantine_take(int key, const char *argument);
extern const struct argp_option cli_wait_options[];
bool cli_wait_take(int key, const char *argument);

#endif /* cli.h */
