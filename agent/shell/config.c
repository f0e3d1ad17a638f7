/* config.c -- from the YAML file to what core, adapters and processes take; see config.h. */
#include "agent/shell/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shell/config_file.h"
#include "agent/shell/peer_identity.h"
#include "api/base/bytes.h"
#include "api/config/config.h"
#include "api/rpc/rpc.h"

enum { HOLD_MAX_DEFAULT = 1024, STATE_PATH_MAX = 300, LISTEN_CONNECTIONS = 256 };

/* What is being read, for messages: "groups[1].engines[0]". */
struct place {
    const char *path;
    char key[96];
};

static struct baton_status bad(const struct place *place, const char *key, const char *what)
{
    return baton_status_hint(baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                               "%s: %s%s%s: %s", place->path, place->key,
                                               place->key[0] != '\0' ? "." : "", key, what),
                             "correct the file and start again");
}

static struct baton_status copy(const struct place *place, const char *key, const char *text,
                                char *out, size_t out_bytes)
{
    if (!baton_text_copy(out, out_bytes, text != NULL ? text : "")) {
        return bad(place, key, "is too long");
    }
    return baton_status_ok();
}
#define COPY(place, key, text, out) copy((place), (key), (text), (out), sizeof(out))

/* --- engines --- */

static void default_file(char *out, const struct shell_config *config, const char *engine,
                         const char *ending)
{
    (void)snprintf(out, BATON_PATH_BYTES, "%.300s/engines/%.150s.%s", config->state_directory,
                   engine, ending);
}

static struct baton_status fill_guard(const struct place *place, const struct shell_config *config,
                                      const struct file_engine *file, struct engine_setup *setup,
                                      const char *unique)
{
    if (file->guard != NULL && strcmp(file->guard, "none") == 0) {
        return baton_status_ok();
    }
    if (file->guard != NULL && strcmp(file->guard, "page") != 0) {
        return bad(place, "guard", "write page or none");
    }
    default_file(setup->options.guard_page, config, unique, "page");
    default_file(setup->options.token_file, config, unique, "token");
    struct baton_status st = baton_status_ok();
    if (file->guard_page != NULL) {
        st = COPY(place, "guardPage", file->guard_page, setup->options.guard_page);
    }
    if (baton_ok(&st) && file->token_file != NULL) {
        st = COPY(place, "tokenFile", file->token_file, setup->options.token_file);
    }
    return st;
}

static bool names_checkpoint(const char *const *argv)
{
    for (; *argv != NULL; argv++) {
        if (strstr(*argv, "{checkpoint}") != NULL) {
            return true;
        }
    }
    return false;
}

/* A null-terminated copy of a list of borrowed texts. */
static const char *const *terminate(char **texts, unsigned count)
{
    const char **list = calloc(count + 1U, sizeof(*list));
    baton_assert(list != NULL);
    for (unsigned i = 0; i < count; i++) {
        list[i] = texts[i];
    }
    return list;
}

static struct baton_status fill_exec(const struct place *place, const struct shell_config *config,
                                     const struct file_exec *file, struct engine_setup *setup,
                                     const char *unique)
{
    struct process_options *process = &setup->process;
    setup->exec = true;
    process->argv = terminate(file->command, file->command_count);
    process->env = terminate(file->env, file->env_count);
    setup->boots_from_landing = names_checkpoint(process->argv);
    default_file(process->pid_file, config, unique, "pid");
    default_file(process->log_file, config, unique, "log");
    (void)snprintf(process->name, sizeof(process->name), "%.63s", unique);
    memcpy(process->guard_page, setup->options.guard_page, sizeof(process->guard_page));
    memcpy(process->token_file, setup->options.token_file, sizeof(process->token_file));
    struct baton_status st =
        COPY(place, "recreate.exec.directory", file->directory, process->directory);
    if (baton_ok(&st) && file->log_file != NULL) {
        st = COPY(place, "recreate.exec.logFile", file->log_file, process->log_file);
    }
    return st;
}

static struct baton_status fill_setup(const struct place *place, const struct shell_config *config,
                                      const struct file_engine *file, struct engine_setup *setup,
                                      const char *group)
{
    char unique[2 * BATON_NAME_BYTES];
    (void)snprintf(unique, sizeof(unique), "%.63s.%.63s", group, file->name);
    setup->adapter = engine_adapter_find(file->kind);
    if (setup->adapter == NULL) {
        return bad(place, "kind", "is unknown; write vllm or sglang");
    }
    struct baton_status st = COPY(place, "name", file->name, setup->options.name);
    if (baton_ok(&st)) {
        st = COPY(place, "url", file->url, setup->options.url);
    }
    if (baton_ok(&st)) {
        st = COPY(place, "servedModel", file->served_model, setup->options.served_model);
    }
    if (baton_ok(&st)) {
        st = fill_guard(place, config, file, setup, unique);
    }
    if (baton_ok(&st) && file->recreate != NULL && file->recreate->exec != NULL) {
        st = fill_exec(place, config, file->recreate->exec, setup, unique);
    }
    return st;
}

static void join_command(const struct file_exec *exec, char out[BATON_PATH_BYTES])
{
    size_t used = 0;
    for (unsigned i = 0; i < exec->command_count && used < BATON_PATH_BYTES; i++) {
        int written = snprintf(out + used, BATON_PATH_BYTES - used, "%s%s", i > 0 ? " " : "",
                               exec->command[i]);
        used += written > 0 ? (size_t)written : 0;
    }
}

static struct baton_status fill_engine(const struct place *place, const struct file_engine *file,
                                       struct agent_engine_config *out)
{
    struct baton_status st = COPY(place, "name", file->name, out->name);
    if (baton_ok(&st) && !baton_config_is_name(file->name)) {
        st = bad(place, "name", "must be 1 to 63 of a-z, 0-9, '-' and '.'");
    }
    if (baton_ok(&st)) {
        st = COPY(place, "kind", file->kind, out->kind);
    }
    if (baton_ok(&st)) {
        st = COPY(place, "url", file->url, out->endpoint);
    }
    if (baton_ok(&st)) {
        st = COPY(place, "bootDigest", file->boot_digest, out->boot_digest);
    }
    if (!baton_ok(&st) || file->recreate == NULL) {
        return st;
    }
    if (file->recreate->exec != NULL) {
        out->recreate = AGENT_RECREATE_EXEC;
        join_command(file->recreate->exec, out->recreate_command);
        return st;
    }
    return COPY(place, "recreate.none", file->recreate->none, out->recreate_command);
}

/* --- groups --- */

/* Who else is in the group: its followers, or who leads it. */
static struct baton_status fill_members(const struct place *place,
                                        const struct shell_config *config,
                                        const struct file_group *file,
                                        struct agent_group_config *out)
{
    struct agent_member_config *members = calloc(file->members_count + 1U, sizeof(*members));
    baton_assert(members != NULL);
    out->followers = members;
    out->followers_count = file->members_count;
    struct baton_status st = COPY(place, "leader", file->leader, out->leader);
    if (baton_ok(&st) && file->leader != NULL && !baton_config_is_name(file->leader)) {
        return bad(place, "leader", "must be 1 to 63 of a-z, 0-9, '-' and '.'");
    }
    if (baton_ok(&st) && file->leader != NULL && config->listen[0] == '\0') {
        return bad(place, "leader", "another agent leads the group, so this one needs listen");
    }
    if (baton_ok(&st) && file->leader == NULL && file->engines_count == 0) {
        return bad(place, "engines",
                   "there are none; only a group with a leader may have none here");
    }
    for (unsigned i = 0; baton_ok(&st) && i < file->members_count; i++) {
        st = COPY(place, "members.agent", file->members[i].agent, members[i].agent);
        if (baton_ok(&st) && !baton_config_is_name(file->members[i].agent)) {
            st = bad(place, "members.agent", "must be 1 to 63 of a-z, 0-9, '-' and '.'");
        }
        if (baton_ok(&st)) {
            st = COPY(place, "members.address", file->members[i].address, members[i].address);
        }
    }
    return st;
}

static struct baton_status fill_group(struct shell_config *config, const struct file_group *file,
                                      unsigned index, const char *path)
{
    struct agent_group_config *out = (struct agent_group_config *)&config->core.groups[index];
    struct agent_engine_config *engines = calloc(file->engines_count + 1U, sizeof(*engines));
    struct place place = { .path = path };
    config->engines[index] = calloc(file->engines_count + 1U, sizeof(**config->engines));
    baton_assert(engines != NULL && config->engines[index] != NULL);
    out->engines = engines;
    out->engines_count = file->engines_count;
    out->hold_max = file->hold_max != 0 ? file->hold_max : HOLD_MAX_DEFAULT;
    (void)snprintf(place.key, sizeof(place.key), "groups[%u]", index);
    if (!baton_config_is_name(file->name) || !baton_config_is_name(file->model)) {
        return bad(&place, baton_config_is_name(file->name) ? "model" : "name",
                   "must be 1 to 63 of a-z, 0-9, '-' and '.'");
    }
    (void)COPY(&place, "name", file->name, out->name);
    (void)COPY(&place, "model", file->model, out->model);
    struct baton_status members = fill_members(&place, config, file, out);
    if (!baton_ok(&members)) {
        return members;
    }
    for (unsigned i = 0; i < file->engines_count; i++) {
        (void)snprintf(place.key, sizeof(place.key), "groups[%u].engines[%u]", index, i);
        struct baton_status st = fill_engine(&place, &file->engines[i], &engines[i]);
        if (baton_ok(&st)) {
            st = fill_setup(&place, config, &file->engines[i], &config->engines[index][i],
                            file->name);
            /* Of the whole command: what is shown to people may be cut. */
            engines[i].boots_from_landing = config->engines[index][i].boots_from_landing;
        }
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status fill_times(struct agent_times *times, const struct file_times *file,
                                      const struct place *place)
{
    struct {
        const char *key, *text;
        uint64_t *out;
    } rows[] = {
        { "healthInterval", file->health_interval, &times->health_interval },
        { "engineLost", file->engine_lost, &times->engine_lost },
        { "recreateAfter", file->recreate_after, &times->recreate_after },
        { "boot", file->boot, &times->boot },
        { "recreateDeadline", file->recreate_deadline, &times->recreate_deadline },
        { "retryFirst", file->retry_first, &times->retry_first },
        { "retryMax", file->retry_max, &times->retry_max },
        { "restoreBound", file->restore_bound, &times->restore_bound },
        { "opShort", file->op_short, &times->op_short },
        { "opLong", file->op_long, &times->op_long },
        { "readback", file->readback, &times->readback },
        { "opGrace", file->op_grace, &times->op_grace },
        { "steady", file->steady, &times->steady },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct baton_status st =
            baton_config_duration(rows[i].key, rows[i].text, *rows[i].out, rows[i].out);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "%s: times", place->path);
        }
    }
    return baton_status_ok();
}

static struct baton_status fill_places(struct shell_config *config, const struct file_agent *file,
                                       const struct place *place)
{
    struct {
        const char *key, *text;
        char *out;
    } rows[] = {
        { "controller", file->controller, config->controller },
        { "stateDirectory", file->state_directory, config->state_directory },
        { "socket", file->socket != NULL ? file->socket : "unix:/run/baton/agent.sock",
          config->socket },
        { "landing.directory", file->landing.directory, config->landing_directory },
        { "versions.directory", file->versions != NULL ? file->versions->directory : NULL,
          config->versions_directory },
        { "controllerTls.ca", file->controller_tls != NULL ? file->controller_tls->ca : NULL,
          config->ca },
        { "controllerTls.cert", file->controller_tls != NULL ? file->controller_tls->cert : NULL,
          config->cert },
        { "controllerTls.key", file->controller_tls != NULL ? file->controller_tls->key : NULL,
          config->key },
        { "listen", file->listen, config->listen },
        { "listenTls.cert", file->listen_tls != NULL ? file->listen_tls->cert : NULL,
          config->listen_cert },
        { "listenTls.key", file->listen_tls != NULL ? file->listen_tls->key : NULL,
          config->listen_key },
        { "listenTls.clientCa", file->listen_tls != NULL ? file->listen_tls->client_ca : NULL,
          config->listen_client_ca },
        { "listenTls.leaderIdentity",
          file->listen_tls != NULL ? file->listen_tls->leader_identity : NULL,
          config->listen_leader },
        { "peerTls.ca", file->peer_tls != NULL ? file->peer_tls->ca : NULL, config->peer_ca },
        { "peerTls.cert", file->peer_tls != NULL ? file->peer_tls->cert : NULL, config->peer_cert },
        { "peerTls.key", file->peer_tls != NULL ? file->peer_tls->key : NULL, config->peer_key },
        { "peers.listen", file->peers != NULL ? file->peers->listen : NULL, config->peers_listen },
        { "hooksTls.ca", file->hooks_tls != NULL ? file->hooks_tls->ca : NULL, config->hooks_ca },
        { "hooksTls.cert", file->hooks_tls != NULL ? file->hooks_tls->cert : NULL,
          config->hooks_cert },
        { "hooksTls.key", file->hooks_tls != NULL ? file->hooks_tls->key : NULL,
          config->hooks_key },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct baton_status st =
            copy(place, rows[i].key, rows[i].text, rows[i].out, BATON_PATH_BYTES);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status fill_hooks_tls(struct shell_config *config, const struct place *place)
{
    config->hooks_tls =
        (struct http_tls){ config->hooks_ca, config->hooks_cert, config->hooks_key };
    if ((config->hooks_cert[0] == '\0') != (config->hooks_key[0] == '\0')) {
        return bad(place, "hooksTls", "give cert and key, or neither");
    }
    return baton_status_ok();
}

static bool is_zone(const char *text)
{
    size_t length =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return text[length] == '\0' && length > 0 && length < BATON_NAME_BYTES;
}

/* Where peers are told to dial; what is listened at, if nothing else is said. */
static struct baton_status fill_peers(struct shell_config *config, const struct file_agent *file,
                                      const struct place *place)
{
    if (file->peers == NULL) {
        return baton_status_ok();
    }
    const char *advertise =
        file->peers->advertise != NULL ? file->peers->advertise : config->peers_listen;
    const char *port = strrchr(advertise, ':');
    bool any = strncmp(advertise, "0.0.0.0:", 8) == 0 || strncmp(advertise, "[::]:", 5) == 0;
    if (port == NULL || port == advertise || port[1] == '\0' || strcmp(port, ":0") == 0 || any) {
        return bad(place, "peers.advertise", "must be host:port, as other agents reach this one");
    }
    struct baton_status st = COPY(place, "peers.advertise", advertise, config->core.peer_address);
    if (!baton_ok(&st) || file->peers->zone == NULL) {
        return st;
    }
    return is_zone(file->peers->zone)
               ? COPY(place, "peers.zone", file->peers->zone, config->core.peer_zone)
               : bad(place, "peers.zone", "must be up to 63 letters, digits, '-', '_' and '.'");
}

/* Engines have working directories of their own, and files get names of their own behind these. */
static struct baton_status check_places(const struct shell_config *config,
                                        const struct file_agent *file, const struct place *place)
{
    if (config->state_directory[0] != '/' || strlen(config->state_directory) > STATE_PATH_MAX) {
        return bad(place, "stateDirectory", "must be an absolute path of at most 300 characters");
    }
    if (config->landing_directory[0] != '/') {
        return bad(place, "landing.directory", "must be an absolute path");
    }
    if (file->groups_count == 0 && file->versions == NULL) {
        return bad(place, "groups", "there are none, and no versions: the agent would do nothing");
    }
    return baton_status_ok();
}

static struct baton_status fill_budgets(struct shell_config *config, const struct file_agent *file,
                                        const struct place *place)
{
    struct baton_status st = baton_config_bytes("landing.budget", file->landing.budget, 0,
                                                &config->core.landing_budget_bytes);
    if (baton_ok(&st) && file->versions != NULL) {
        st = baton_config_bytes("versions.budget", file->versions->budget, 0,
                                &config->versions_budget_bytes);
    }
    return baton_ok(&st) ? st : baton_status_in(st, "%s", place->path);
}

static struct baton_status fill_head(struct shell_config *config, const struct file_agent *file,
                                     const struct place *place)
{
    struct baton_status st = fill_places(config, file, place);
    if (baton_ok(&st)) {
        st = check_places(config, file, place);
    }
    if (baton_ok(&st)) {
        st = fill_hooks_tls(config, place);
    }
    if (baton_ok(&st)) {
        st = fill_peers(config, file, place);
    }
    if (baton_ok(&st) && config->listen_leader[0] != '\0' &&
        !peer_identity_is_pattern(config->listen_leader)) {
        st = bad(place, "listenTls.leaderIdentity", "must have {leader} in it, once");
    }
    if (baton_ok(&st) && !baton_config_is_name(file->name)) {
        st = bad(place, "name", "must be 1 to 63 of a-z, 0-9, '-' and '.'");
    }
    if (baton_ok(&st)) {
        st = fill_budgets(config, file, place);
    }
    if (baton_ok(&st) && file->times != NULL) {
        st = fill_times(&config->core.times, file->times, place);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    config->listen_connections_max =
        file->listen_connections != 0 ? file->listen_connections : LISTEN_CONNECTIONS;
    const char *format = file->log_format != NULL ? file->log_format : "text";
    config->log_json = strcmp(format, "json") == 0;
    if (!config->log_json && strcmp(format, "text") != 0) {
        return bad(place, "logFormat", "is unknown; write text or json");
    }
    if (file->metrics != NULL) {
        (void)snprintf(config->metrics_listen, sizeof(config->metrics_listen), "%s",
                       file->metrics->listen);
    }
    (void)COPY(place, "name", file->name, config->core.agent);
    (void)COPY(place, "socket", config->socket, config->core.address);
    (void)snprintf(config->log_level, sizeof(config->log_level), "%.15s",
                   file->log_level != NULL ? file->log_level : "info");
    config->insecure = file->insecure;
    config->stop_engines = file->stop_engines;
    return st;
}

static struct baton_status fill(struct shell_config *config, const struct file_agent *file,
                                const char *path)
{
    struct place place = { .path = path };
    struct agent_group_config *groups = calloc(BATON_GROUPS_PER_AGENT_MAX, sizeof(*groups));
    baton_assert(groups != NULL);
    config->core.groups = groups;
    config->core.times = agent_times_default();
    config->core.recreate_attempts = 5;
    (void)snprintf(config->core.software, sizeof(config->core.software), "%s", BATON_VERSION);
    struct baton_status st = fill_head(config, file, &place);
    for (unsigned i = 0; baton_ok(&st) && i < file->groups_count; i++) {
        config->core.groups_count = i + 1;
        st = fill_group(config, &file->groups[i], i, path);
    }
    return baton_ok(&st) ? baton_status_in(agent_config_check(&config->core), "%s", path) : st;
}

struct baton_status shell_config_load(const char *path, struct shell_config **out)
{
    void *file = NULL;
    struct baton_status st = baton_config_load(path, &file_agent_schema, &file);
    if (!baton_ok(&st)) {
        return st;
    }
    struct shell_config *config = calloc(1, sizeof(*config));
    baton_assert(config != NULL);
    config->file = file;
    st = fill(config, file, path);
    if (!baton_ok(&st)) {
        shell_config_destroy(config);
        return st;
    }
    *out = config;
    return st;
}

static struct baton_status insecure(const char *key, const char *address, const char *tls)
{
    return baton_status_hint(
        baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NOT_ALLOWED,
                          "%s: %.120s is not of this machine, and without %s nobody there needs a "
                          "certificate",
                          key, address, tls),
        "give certificates (`batonctl certs` makes them; deploy/docs/security.md), or say "
        "--insecure or 'insecure: true' if you trust everybody on that network");
}

struct baton_status shell_config_check_secure(const struct shell_config *config)
{
    char key[64];
    if (config->insecure) {
        return baton_status_ok();
    }
    if (config->ca[0] == '\0' && !rpc_address_is_local(config->controller)) {
        return insecure("controller", config->controller, "controllerTls");
    }
    if (config->listen[0] != '\0' && config->listen_client_ca[0] == '\0' &&
        !rpc_address_is_local(config->listen)) {
        return insecure("listen", config->listen, "listenTls.clientCa");
    }
    if (config->peers_listen[0] != '\0' && config->listen_client_ca[0] == '\0' &&
        !rpc_address_is_local(config->peers_listen)) {
        return insecure("peers.listen", config->peers_listen, "listenTls.clientCa");
    }
    for (uint32_t g = 0; config->peer_ca[0] == '\0' && g < config->core.groups_count; g++) {
        const struct agent_group_config *group = &config->core.groups[g];
        for (uint32_t m = 0; m < group->followers_count; m++) {
            if (!rpc_address_is_local(group->followers[m].address)) {
                (void)snprintf(key, sizeof(key), "groups[%u].members[%u].address", g, m);
                return insecure(key, group->followers[m].address, "peerTls");
            }
        }
    }
    return baton_status_ok();
}

void shell_config_destroy(struct shell_config *config)
{
    if (config == NULL) {
        return;
    }
    for (uint32_t g = 0; g < config->core.groups_count; g++) {
        for (uint32_t e = 0; config->engines[g] != NULL && e < config->core.groups[g].engines_count;
             e++) {
            free((void *)(uintptr_t)config->engines[g][e].process.argv);
            free((void *)(uintptr_t)config->engines[g][e].process.env);
        }
        free(config->engines[g]);
        free((void *)(uintptr_t)config->core.groups[g].engines);
        free((void *)(uintptr_t)config->core.groups[g].followers);
    }
    free((void *)(uintptr_t)config->core.groups);
    baton_config_free(&file_agent_schema, config->file);
    free(config);
}
