/* main.c -- baton-agent: options, signals, exit codes. */
#include <argp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "agent/shell/config.h"
#include "agent/shell/daemon.h"
#include "agent/shell/stats.h"
#include "api/base/log.h"
#include "api/rpc/rpc.h"

enum { EXIT_BAD_START = 1, EXIT_USAGE = 2 };

static const char doc[] =
    "Stands beside the engines of a node: lands versions, verifies them, swaps them in when the "
    "controller permits, and reports.\vExample:\n  baton-agent --config /etc/baton/agent.yaml\n"
    "SIGTERM ends open swaps first; engines go on serving. Exit codes: 0 stopped, 1 could not "
    "start, "
    "2 usage, 3 the journal could not be written.";

enum { KEY_CHECK = 0x1000, KEY_STOP_ENGINES, KEY_INSECURE };

static const struct argp_option options[] = {
    { "config", 'c', "FILE", 0, "YAML file (deploy/docs/configuration.md)", 0 },
    { "check", KEY_CHECK, NULL, 0, "Only check the file", 0 },
    { "stop-engines", KEY_STOP_ENGINES, NULL, 0, "SIGTERM also ends the engines that it started",
      0 },
    { "insecure", KEY_INSECURE, NULL, 0,
      "Talk to other machines without certificates (deploy/docs/security.md)", 0 },
    { "log-level", 'v', "LEVEL", 0, "error, warn, info or debug", 0 },
    { "log-json", 'j', NULL, 0, "Lines as JSON", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

struct arguments {
    const char *config;
    const char *log_level;
    bool check;
    bool stop_engines;
    bool log_json;
    bool insecure;
};

static error_t parse_key(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'c': arguments->config = argument; return 0;
    case 'v': arguments->log_level = argument; return 0;
    case 'j': arguments->log_json = true; return 0;
    case KEY_INSECURE: arguments->insecure = true; return 0;
    case KEY_CHECK: arguments->check = true; return 0;
    case KEY_STOP_ENGINES: arguments->stop_engines = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", argument); return 0;
    case ARGP_KEY_END:
        if (arguments->config == NULL) {
            argp_error(state, "say --config FILE");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int fail(const struct baton_status *st)
{
    (void)fprintf(stderr, "baton-agent: %s\n", st->message);
    if (st->hint[0] != '\0') {
        (void)fprintf(stderr, "baton-agent: %s\n", st->hint);
    }
    return EXIT_BAD_START;
}

static void *signal_thread(void *argument)
{
    sigset_t set;
    int signal_number = 0;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigwait(&set, &signal_number);
    daemon_stop(argument);
    return NULL;
}

static void block_signals(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static struct baton_status configure_log(const struct arguments *arguments,
                                         const struct shell_config *config)
{
    enum baton_log_level level = BATON_LOG_INFO;
    const char *word = arguments->log_level != NULL ? arguments->log_level : config->log_level;
    if (!baton_log_level_parse(word, &level)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "logLevel: '%.20s' is unknown; write error, warn, info or debug",
                                 word);
    }
    baton_log_configure(level, arguments->log_json || config->log_json);
    return baton_status_ok();
}

static struct baton_status watch_certificates(const struct shell_config *config,
                                              struct rpc_expiry **out)
{
    const char *files[] = { config->cert, config->listen_cert, config->peer_cert, config->ca };
    bool is_plain = config->ca[0] == '\0' && config->listen_cert[0] == '\0';
    return is_plain ? baton_status_ok() : rpc_expiry_create(files, 4, out);
}

static int run(const struct shell_config *config)
{
    struct daemon *daemon = NULL;
    struct rpc_expiry *expiry = NULL;
    pthread_t thread;
    struct metrics *metrics = NULL;
    struct baton_status st = stats_create(config, &metrics);
    if (baton_ok(&st)) {
        st = daemon_create(config, &daemon);
    }
    if (!baton_ok(&st)) {
        metrics_destroy(metrics);
        return fail(&st);
    }
    int error = pthread_create(&thread, NULL, signal_thread, daemon);
    if (error != 0) {
        daemon_destroy(daemon);
        metrics_destroy(metrics);
        st = baton_status_errno(error, "pthread_create", "signals");
        return fail(&st);
    }
    struct baton_log_field fields[] = { BATON_LOG_TEXT("agent", config->core.agent),
                                        BATON_LOG_TEXT("controller", config->controller),
                                        BATON_LOG_TEXT("socket", config->socket) };
    baton_log_fields(BATON_LOG_INFO, "agent", "started", fields, 3);
    if (config->insecure) {
        baton_log(BATON_LOG_WARN, "agent",
                  "insecure: whoever is on the network may pass for the controller or a leader");
    }
    st = watch_certificates(config, &expiry);
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_WARN, "agent", "nobody warns of old certificates", &st);
    }
    daemon_run(daemon);
    rpc_expiry_destroy(expiry);
    metrics_destroy(metrics);
    (void)pthread_join(thread, NULL);
    daemon_destroy(daemon);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = { .options = options, .parser = parse_key, .doc = doc };
    struct arguments arguments = { .config = NULL };
    struct shell_config *config = NULL;
    argp_program_version = "baton-agent " BATON_VERSION;
    argp_err_exit_status = EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0) {
        return EXIT_USAGE;
    }
    block_signals();
    struct baton_status st = shell_config_load(arguments.config, &config);
    if (baton_ok(&st)) {
        st = configure_log(&arguments, config);
    }
    if (baton_ok(&st)) {
        config->insecure |= arguments.insecure;
        st = shell_config_check_secure(config);
    }
    if (!baton_ok(&st)) {
        shell_config_destroy(config);
        return fail(&st);
    }
    config->stop_engines |= arguments.stop_engines;
    int code = 0;
    if (arguments.check) {
        (void)printf("%s: good\n", arguments.config);
    } else {
        code = run(config);
    }
    shell_config_destroy(config);
    return code;
}
