/* config_file.h -- the agent's YAML file as libcyaml reads it; private to config.c.
 *
 * Depends on: api/config.  Threads: plain data.  Ownership: libcyaml's, see baton_config_free(). */
#ifndef AGENT_SHELL_CONFIG_FILE_H
#define AGENT_SHELL_CONFIG_FILE_H

#include <stdbool.h>

#include "api/config/config.h"

struct file_exec {
    char **command;
    unsigned command_count;
    char **env;
    unsigned env_count;
    char *directory;
    char *log_file;
};

struct file_recreate {
    struct file_exec *exec;
    char *none; /* The command that a person runs. */
};

struct file_engine {
    char *name;
    char *kind;
    char *url;
    char *guard; /* "page" (default) or "none". */
    char *guard_page;
    char *token_file;
    char *served_model;
    char *boot_digest;
    struct file_recreate *recreate;
};

struct file_member {
    char *agent;
    char *address;
};

struct file_group {
    char *name;
    char *model;
    char *leader; /* Another agent leads it. */
    struct file_member *members;
    unsigned members_count;
    unsigned hold_max;
    struct file_engine *engines;
    unsigned engines_count;
};

struct file_directory {
    char *directory;
    char *budget;
};

struct file_tls {
    char *ca;
    char *cert;
    char *key;
};

struct file_metrics {
    char *listen;
};

struct file_peers {
    char *listen;
    char *advertise;
    char *zone;
};

struct file_listen_tls {
    char *cert;
    char *key;
    char *client_ca;
    char *leader_identity;
};

struct file_times {
    char *health_interval, *engine_lost, *recreate_after, *boot, *recreate_deadline, *retry_first;
    char *retry_max, *restore_bound, *op_short, *op_long, *readback, *op_grace, *steady;
};

struct file_agent {
    char *name;
    char *controller;
    struct file_tls *controller_tls;
    char *listen; /* For the leaders of groups that this agent follows. */
    struct file_listen_tls *listen_tls;
    uint32_t listen_connections; /* 0: not given. */
    struct file_tls *peer_tls;   /* How members and peers are dialled. */
    struct file_peers *peers;
    struct file_tls *hooks_tls;
    char *state_directory;
    char *socket;
    struct file_directory landing;
    struct file_directory *versions;
    struct file_metrics *metrics;
    char *log_level;
    char *log_format;
    bool insecure;
    bool stop_engines;
    struct file_times *times;
    struct file_group *groups;
    unsigned groups_count;
};

extern const cyaml_schema_value_t file_agent_schema;

#endif /* config_file.h */
