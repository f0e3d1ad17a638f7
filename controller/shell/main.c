/* main.c -- baton-controller: options, wiring, signals, exit codes. */
#include <argp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/log.h"
#include "controller/shell/config.h"
#include "controller/shell/daemon.h"

enum { LISTENERS_MAX = 8, EXIT_BAD_START = 1, EXIT_USAGE = 2, EXIT_DEPOSED = 3 };

static const char doc[] =
    "Knows every version and every group, schedules swaps under the availability budget, and "
    "answers "
    "operators, agents and dashboards over gRPC.\vOptions win over the file. Example:\n"
    "  baton-controller --listen 127.0.0.1:7070 --store sqlite:/var/lib/baton/controller.db\n"
    "SIGTERM drains. Exit codes: 0 stopped, 1 could not start, 2 usage, 3 another controller took "
    "over the "
    "store.";

enum { KEY_INSECURE = 0x1000 };

static const struct argp_option options[] = {
    { "config", 'c', "FILE", 0, "YAML file (deploy/docs/configuration.md)", 0 },
    { "listen", 'l', "ADDRESS", 0,
      "host:port or unix:/path; may come again (default 127.0.0.1:7070)", 0 },
    { "store", 's', "ADDRESS", 0,
      "sqlite:PATH, etcd:URL,...[/PREFIX][?OPTIONS] (deploy/docs/etcd.md) or memory: (default "
      "sqlite:/var/lib/baton/controller.db)",
      0 },
    { "insecure", KEY_INSECURE, NULL, 0,
      "Let other machines in without certificates; they may do everything "
      "(deploy/docs/security.md)",
      0 },
    { "advertise", 'a', "ADDRESS", 0,
      "host:port where others reach this one of several controllers, which share a store in etcd "
      "and elect who leads (deploy/docs/leadership.md)",
      0 },
    { "log-level", 'v', "LEVEL", 0, "error, warn, info or debug (default info)", 0 },
    { "log-json", 'j', NULL, 0, "Lines as JSON", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

struct arguments {
    const char *config;
    const char *listen[LISTENERS_MAX];
    size_t listen_count;
    const char *store;
    const char *advertise;
    const char *log_level;
    bool log_json;
    bool insecure;
};

static void take_listener(struct arguments *arguments, const char *address,
                          const struct argp_state *state)
{
    if (arguments->listen_count == LISTENERS_MAX) {
        argp_error(state, "at most %d --listen", LISTENERS_MAX);
    }
    arguments->listen[arguments->listen_count++] = address;
}

static error_t parse_key(int key, char *argument, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'c': arguments->config = argument; return 0;
    case 'l': take_listener(arguments, argument, state); return 0;
    case 's': arguments->store = argument; return 0;
    case 'a': arguments->advertise = argument; return 0;
    case 'v': arguments->log_level = argument; return 0;
    case 'j': arguments->log_json = true; return 0;
    case KEY_INSECURE: arguments->insecure = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is too much", argument); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static int fail(const struct baton_status *st)
{
    (void)fprintf(stderr, "baton-controller: %s\n", st->message);
    if (st->hint[0] != '\0') {
        (void)fprintf(stderr, "baton-controller: %s\n", st->hint);
    }
    return EXIT_BAD_START;
}

/* What the file says, where the command line says nothing. */
static struct baton_status merge(struct arguments *arguments,
                                 const struct controller_config *config)
{
    enum baton_log_level level = BATON_LOG_INFO;
    if (config != NULL && arguments->listen_count == 0) {
        for (unsigned i = 0; i < config->listen_count; i++) {
            arguments->listen[arguments->listen_count++] = config->listen[i];
        }
    }
    if (arguments->listen_count == 0) {
        arguments->listen[arguments->listen_count++] = "127.0.0.1:7070";
    }
    if (arguments->store == NULL) {
        arguments->store = config != NULL && config->store != NULL
                               ? config->store
                               : "sqlite:/var/lib/baton/controller.db";
    }
    if (arguments->log_level == NULL) {
        arguments->log_level =
            config != NULL && config->log_level != NULL ? config->log_level : "info";
    }
    if (!baton_log_level_parse(arguments->log_level, &level)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "logLevel: '%.20s' is unknown; write error, warn, info or debug",
                                 arguments->log_level);
    }
    if (config != NULL && config->swaps_kept > BATON_SWAPS_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "swapsKept: %u is above %d", config->swaps_kept, BATON_SWAPS_MAX);
    }
    const char *format = config != NULL && config->log_format != NULL ? config->log_format : "text";
    bool json = strcmp(format, "json") == 0;
    if (!json && strcmp(format, "text") != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "logFormat: '%.20s' is unknown; write text or json", format);
    }
    baton_log_configure(level, json || arguments->log_json);
    return baton_status_ok();
}

/* Waits for SIGTERM or SIGINT and stops the daemon. */
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

/* Other machines reach it, and need show nothing.  Where there are tokens a certificate is not required, but who shows
 * neither is nobody. */
static bool is_exposed(const struct rpc_listener *listener)
{
    bool asks = listener->tls != NULL && listener->tls->ca_file != NULL;
    return !asks && !rpc_address_is_local(listener->address);
}

/* Nobody is let in without a certificate by mistake. */
static struct baton_status check_exposed(const struct rpc_listener *listeners, size_t count,
                                         bool insecure)
{
    for (size_t i = 0; i < count && !insecure; i++) {
        if (is_exposed(&listeners[i])) {
            return baton_status_hint(
                baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NOT_ALLOWED,
                                  "listen: other machines reach %.120s, and without tls.clientCa "
                                  "they would need no certificate to do everything",
                                  listeners[i].address),
                "set tls with cert, key and clientCa (`batonctl certs` makes them), or say "
                "--insecure or 'insecure: true' if you trust everybody on that network");
        }
    }
    return baton_status_ok();
}

static void say_ready(const struct daemon *daemon)
{
    bool has_tls = false;
    for (size_t i = 0; i < daemon->options.listeners_count; i++) {
        has_tls |= daemon->options.listeners[i].tls != NULL;
    }
    if (has_tls && daemon->access.rows_count == 0) {
        baton_log(BATON_LOG_WARN, "controller",
                  "no identity has a role: whoever shows a certificate is refused; set "
                  "access.identities (deploy/docs/security.md)");
    }
    for (size_t i = 0; i < daemon->options.listeners_count; i++) {
        const char *address = daemon->options.listeners[i].address;
        struct baton_log_field fields[] = { BATON_LOG_TEXT("address", address),
                                            BATON_LOG_NUMBER("port",
                                                             rpc_server_port(daemon->server, i)) };
        baton_log_fields(BATON_LOG_INFO, "controller", "listening", fields, 2);
        if (is_exposed(&daemon->options.listeners[i])) {
            baton_log_fields(
                BATON_LOG_WARN, "controller",
                "insecure: other machines reach this address without a certificate, and may do "
                "everything",
                fields, 1);
        }
    }
}

/* Its own, and the authority's. */
static struct baton_status watch_certificates(const struct daemon_options *daemon_options,
                                              struct rpc_expiry **out)
{
    const char *files[2] = { NULL, NULL };
    for (size_t i = 0; i < daemon_options->listeners_count; i++) {
        if (daemon_options->listeners[i].tls != NULL) {
            files[0] = daemon_options->listeners[i].tls->cert_file;
            files[1] = daemon_options->listeners[i].tls->ca_file;
        }
    }
    return files[0] != NULL ? rpc_expiry_create(files, 2, out) : baton_status_ok();
}

static int run(const struct daemon_options *daemon_options)
{
    struct daemon *daemon = NULL;
    struct rpc_expiry *expiry = NULL;
    pthread_t thread;
    struct baton_status st = daemon_create(daemon_options, &daemon);
    if (!baton_ok(&st)) {
        return fail(&st);
    }
    int error = pthread_create(&thread, NULL, signal_thread, daemon);
    if (error != 0) {
        daemon_destroy(daemon);
        st = baton_status_errno(error, "pthread_create", "signals");
        return fail(&st);
    }
    say_ready(daemon);
    st = watch_certificates(daemon_options, &expiry);
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_WARN, "controller", "nobody warns of old certificates", &st);
    }
    daemon_run(daemon);
    rpc_expiry_destroy(expiry);
    bool deposed = daemon->deposed;
    st = daemon->start_status;
    if (deposed || !baton_ok(&st)) { /* The signal's thread still waits. */
        (void)pthread_kill(thread, SIGTERM);
    }
    (void)pthread_join(thread, NULL);
    daemon_destroy(daemon);
    if (!baton_ok(&st)) {
        return fail(&st);
    }
    return deposed ? EXIT_DEPOSED : 0;
}

/* What the file says, as the daemon's parts want it. */
struct settings {
    struct controller_limits limits;
    struct prometheus_options prometheus;
    struct access access;
    const char *tokens_file;              /* Null: there are none. */
    struct rpc_accounts_options accounts; /* Null members: there are none. */
    struct rates_options rates;
    struct connection_limits connections;
    struct audit_options audit;
    char audit_file[BATON_PATH_BYTES];
    struct rpc_tls tls;
    struct rpc_listener listeners[LISTENERS_MAX];
    struct leadership_options leadership;
    bool one_of_several; /* There is such a section, or --advertise. */
};

static void read_token_sources(const struct controller_config *config, struct settings *out)
{
    if (config == NULL || config->access == NULL) {
        return;
    }
    out->tokens_file = config->access->tokens;
    const struct controller_accounts *accounts = config->access->accounts;
    if (accounts != NULL) {
        out->accounts =
            (struct rpc_accounts_options){ accounts->keys, accounts->issuer, accounts->audience };
    }
}

static struct baton_status read_settings(const struct arguments *arguments,
                                         const struct controller_config *config,
                                         struct settings *out)
{
    struct baton_status st = baton_status_ok();
    bool insecure = arguments->insecure || (config != NULL && config->insecure);
    bool use_tls = config != NULL && config->tls != NULL;
    out->access = access_default();
    read_token_sources(config, out);
    if (config != NULL) {
        st = controller_config_limits(config, &out->limits);
    }
    if (baton_ok(&st) && config != NULL) {
        st = controller_config_prometheus(config, &out->prometheus);
    }
    if (baton_ok(&st) && config != NULL) {
        st = controller_config_access(arguments->config, config, &out->access);
    }
    if (baton_ok(&st)) {
        st = controller_config_rates(config, &out->rates);
    }
    if (baton_ok(&st)) {
        st = controller_config_connections(config, &out->connections);
    }
    if (baton_ok(&st)) {
        st = controller_config_audit(config, arguments->store, out->audit_file,
                                     sizeof(out->audit_file), &out->audit);
    }
    out->one_of_several =
        arguments->advertise != NULL || (config != NULL && config->leadership != NULL);
    if (baton_ok(&st) && out->one_of_several) {
        st = controller_config_leadership(config, arguments->advertise, &out->leadership);
    }
    out->access.anonymous_roles = insecure ? out->access.local_roles : 0;
    if (use_tls) {
        out->tls = (struct rpc_tls){ .cert_file = config->tls->cert,
                                     .key_file = config->tls->key,
                                     .ca_file = config->tls->client_ca,
                                     /* Who has a token needs no certificate. */
                                     .require_client = config->tls->client_ca != NULL &&
                                                       out->tokens_file == NULL &&
                                                       out->accounts.keys_file == NULL };
    }
    for (size_t i = 0; i < arguments->listen_count; i++) {
        bool is_unix = strncmp(arguments->listen[i], "unix:", 5) == 0;
        out->listeners[i] =
            (struct rpc_listener){ arguments->listen[i], use_tls && !is_unix ? &out->tls : NULL };
    }
    return baton_ok(&st) ? check_exposed(out->listeners, arguments->listen_count, insecure) : st;
}

int main(int argc, char **argv)
{
    static const struct argp argp = { .options = options, .parser = parse_key, .doc = doc };
    static struct settings settings;
    struct arguments arguments = { .listen_count = 0 };
    struct controller_config *config = NULL;
    argp_program_version = "baton-controller " BATON_VERSION;
    argp_err_exit_status = EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &arguments) != 0) {
        return EXIT_USAGE;
    }
    block_signals();
    struct baton_status st = arguments.config != NULL
                                 ? controller_config_load(arguments.config, &config)
                                 : baton_status_ok();
    if (baton_ok(&st)) {
        st = merge(&arguments, config);
    }
    if (baton_ok(&st)) {
        st = read_settings(&arguments, config, &settings);
    }
    if (!baton_ok(&st)) {
        controller_config_free(config);
        return fail(&st);
    }
    struct daemon_options daemon_options = {
        .store_address = arguments.store,
        .listeners = settings.listeners,
        .listeners_count = arguments.listen_count,
        .swaps_kept = config != NULL ? config->swaps_kept : 0,
        .limits = &settings.limits,
        .prometheus = config != NULL ? &settings.prometheus : NULL,
        .access = &settings.access,
        .tokens_file = settings.tokens_file,
        .accounts = settings.accounts.keys_file != NULL ? &settings.accounts : NULL,
        .rates = &settings.rates,
        .connections = settings.connections,
        .audit = &settings.audit,
        .metrics_listen =
            config != NULL && config->metrics != NULL ? config->metrics->listen : NULL,
        .dashboard_listen =
            config != NULL && config->dashboard != NULL ? config->dashboard->listen : NULL,
        .insecure = arguments.insecure || (config != NULL && config->insecure),
        .leadership = settings.one_of_several ? &settings.leadership : NULL
    };
    int code = run(&daemon_options);
    controller_config_free(config);
    return code;
}
