/* config.h -- the agent's YAML file (deploy/docs/configuration.md has it in full).
 *
 * Loads and checks the file, and gives the two forms that others need: the core's agent_config, and for
 * each engine its adapter's and its process's options.  Everything is checked here, so that what
 * follows cannot fail for a wrong key.
 *
 * Depends on: api/config, agent/core/config.h, agent/engine.  Threads: any, constant after load.
 * Ownership: the caller destroys; everything inside lives as long. */
#ifndef AGENT_SHELL_CONFIG_H
#define AGENT_SHELL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/config.h"
#include "agent/engine/engine.h"
#include "agent/engine/process.h"
#include "api/base/status.h"
#include "api/http/http.h"

/* One engine as the shell drives it. */
struct engine_setup {
    const struct engine_adapter *adapter;
    struct engine_options options;
    bool exec; /* 'process' counts. */
    struct process_options process;
    bool boots_from_landing; /* Its command names {checkpoint}. */
};

struct shell_config {
    char controller[BATON_PATH_BYTES];
    char ca[BATON_PATH_BYTES]; /* Empty: plain. */
    char cert[BATON_PATH_BYTES];
    char key[BATON_PATH_BYTES];
    char listen[BATON_PATH_BYTES];      /* For leaders of groups that it follows; empty: nowhere. */
    char listen_cert[BATON_PATH_BYTES]; /* Empty: plain. */
    char listen_key[BATON_PATH_BYTES];
    char listen_client_ca[BATON_PATH_BYTES];
    char listen_leader[BATON_PATH_BYTES]; /* peer_identity.h; empty: its default. */
    uint32_t listen_connections_max;      /* Of one address. */
    char peers_listen[BATON_PATH_BYTES];  /* For agents that pull versions; empty: nowhere. */
    char peer_ca[BATON_PATH_BYTES];       /* Of followers and peers that it dials; empty: plain. */
    char peer_cert[BATON_PATH_BYTES];
    char peer_key[BATON_PATH_BYTES];
    char hooks_ca[BATON_PATH_BYTES]; /* Of routers' hooks over https; empty: the system's. */
    char hooks_cert[BATON_PATH_BYTES];
    char hooks_key[BATON_PATH_BYTES];
    struct http_tls hooks_tls; /* The three. */
    char state_directory[BATON_PATH_BYTES];
    char socket[BATON_PATH_BYTES];
    char landing_directory[BATON_PATH_BYTES];
    char versions_directory[BATON_PATH_BYTES]; /* Empty: it cannot be a source. */
    uint64_t versions_budget_bytes;
    char metrics_listen[BATON_PATH_BYTES]; /* Where Prometheus asks; empty: nowhere. */
    char log_level[16];
    bool log_json;
    bool insecure;
    bool stop_engines; /* SIGTERM ends the engines that it started, too. */

    struct agent_config core;
    struct engine_setup *engines[BATON_GROUPS_PER_AGENT_MAX]; /* Per group, in order. */

    void *file; /* What libcyaml read; 'core' borrows from it. */
};

/* NULL-tolerant destroy. */
BATON_MUST_USE struct baton_status shell_config_load(const char *path, struct shell_config **out);
/* Nothing is to go over the network without certificates on both sides, unless that is wanted: FAILED_PRECONDITION
 * NOT_ALLOWED names the key. */
BATON_MUST_USE struct baton_status shell_config_check_secure(const struct shell_config *config);
void shell_config_destroy(struct shell_config *config);

#endif /* config.h */
