/* config_file.c -- schema of the agent's YAML file; see config_file.h. */
#include "agent/shell/config_file.h"

#include <stddef.h>

#include "api/base/limits.h"

enum { TEXT_MAX = 480 };

#define TEXT(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 1, TEXT_MAX)
#define NEED(key, type, member)                                                                    \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, TEXT_MAX)

static const cyaml_schema_value_t text_schema = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0,
                                                                     4096) };

static const cyaml_schema_field_t exec_fields[] = {
    CYAML_FIELD_SEQUENCE("command", CYAML_FLAG_POINTER, struct file_exec, command, &text_schema, 1,
                         60),
    CYAML_FIELD_SEQUENCE("env", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_exec, env,
                         &text_schema, 0, 60),
    TEXT("directory", struct file_exec, directory), TEXT("logFile", struct file_exec, log_file),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t recreate_fields[] = {
    CYAML_FIELD_MAPPING_PTR("exec", CYAML_FLAG_OPTIONAL, struct file_recreate, exec, exec_fields),
    TEXT("none", struct file_recreate, none), CYAML_FIELD_END
};

static const cyaml_schema_field_t engine_fields[] = {
    NEED("name", struct file_engine, name),
    NEED("kind", struct file_engine, kind),
    NEED("url", struct file_engine, url),
    TEXT("guard", struct file_engine, guard),
    TEXT("guardPage", struct file_engine, guard_page),
    TEXT("tokenFile", struct file_engine, token_file),
    TEXT("servedModel", struct file_engine, served_model),
    TEXT("bootDigest", struct file_engine, boot_digest),
    CYAML_FIELD_MAPPING_PTR("recreate", CYAML_FLAG_OPTIONAL, struct file_engine, recreate,
                            recreate_fields),
    CYAML_FIELD_END
};

static const cyaml_schema_value_t engine_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_engine, engine_fields) };

static const cyaml_schema_field_t member_fields[] = { NEED("agent", struct file_member, agent),
                                                      NEED("address", struct file_member, address),
                                                      CYAML_FIELD_END };

static const cyaml_schema_value_t member_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_member, member_fields) };

static const cyaml_schema_field_t group_fields[] = {
    NEED("name", struct file_group, name),
    NEED("model", struct file_group, model),
    TEXT("leader", struct file_group, leader),
    CYAML_FIELD_SEQUENCE("members", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_group,
                         members, &member_schema, 1, BATON_FOLLOWERS_PER_GROUP_MAX),
    CYAML_FIELD_UINT("holdMax", CYAML_FLAG_OPTIONAL, struct file_group, hold_max),
    CYAML_FIELD_SEQUENCE("engines", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_group,
                         engines, &engine_schema, 0, 16),
    CYAML_FIELD_END
};

static const cyaml_schema_value_t group_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct file_group, group_fields) };

static const cyaml_schema_field_t directory_fields[] = {
    NEED("directory", struct file_directory, directory),
    TEXT("budget", struct file_directory, budget), CYAML_FIELD_END
};

static const cyaml_schema_field_t tls_fields[] = { NEED("ca", struct file_tls, ca),
                                                   TEXT("cert", struct file_tls, cert),
                                                   TEXT("key", struct file_tls, key),
                                                   CYAML_FIELD_END };

static const cyaml_schema_field_t listen_tls_fields[] = {
    NEED("cert", struct file_listen_tls, cert), NEED("key", struct file_listen_tls, key),
    TEXT("clientCa", struct file_listen_tls, client_ca),
    TEXT("leaderIdentity", struct file_listen_tls, leader_identity), CYAML_FIELD_END
};

static const cyaml_schema_field_t metrics_fields[] = { NEED("listen", struct file_metrics, listen),
                                                       CYAML_FIELD_END };

static const cyaml_schema_field_t peers_fields[] = {
    NEED("listen", struct file_peers, listen), TEXT("advertise", struct file_peers, advertise),
    TEXT("zone", struct file_peers, zone), CYAML_FIELD_END
};

static const cyaml_schema_field_t times_fields[] = {
    TEXT("healthInterval", struct file_times, health_interval),
    TEXT("engineLost", struct file_times, engine_lost),
    TEXT("recreateAfter", struct file_times, recreate_after),
    TEXT("boot", struct file_times, boot),
    TEXT("recreateDeadline", struct file_times, recreate_deadline),
    TEXT("retryFirst", struct file_times, retry_first),
    TEXT("retryMax", struct file_times, retry_max),
    TEXT("restoreBound", struct file_times, restore_bound),
    TEXT("opShort", struct file_times, op_short),
    TEXT("opLong", struct file_times, op_long),
    TEXT("readback", struct file_times, readback),
    TEXT("opGrace", struct file_times, op_grace),
    TEXT("steady", struct file_times, steady),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t agent_fields[] = {
    NEED("name", struct file_agent, name),
    NEED("controller", struct file_agent, controller),
    CYAML_FIELD_MAPPING_PTR("controllerTls", CYAML_FLAG_OPTIONAL, struct file_agent, controller_tls,
                            tls_fields),
    TEXT("listen", struct file_agent, listen),
    CYAML_FIELD_MAPPING_PTR("listenTls", CYAML_FLAG_OPTIONAL, struct file_agent, listen_tls,
                            listen_tls_fields),
    CYAML_FIELD_UINT("listenConnections", CYAML_FLAG_OPTIONAL, struct file_agent,
                     listen_connections),
    CYAML_FIELD_MAPPING_PTR("peerTls", CYAML_FLAG_OPTIONAL, struct file_agent, peer_tls,
                            tls_fields),
    CYAML_FIELD_MAPPING_PTR("peers", CYAML_FLAG_OPTIONAL, struct file_agent, peers, peers_fields),
    CYAML_FIELD_MAPPING_PTR("hooksTls", CYAML_FLAG_OPTIONAL, struct file_agent, hooks_tls,
                            tls_fields),
    NEED("stateDirectory", struct file_agent, state_directory),
    TEXT("socket", struct file_agent, socket),
    CYAML_FIELD_MAPPING("landing", CYAML_FLAG_DEFAULT, struct file_agent, landing,
                        directory_fields),
    CYAML_FIELD_MAPPING_PTR("versions", CYAML_FLAG_OPTIONAL, struct file_agent, versions,
                            directory_fields),
    CYAML_FIELD_MAPPING_PTR("metrics", CYAML_FLAG_OPTIONAL, struct file_agent, metrics,
                            metrics_fields),
    TEXT("logLevel", struct file_agent, log_level),
    TEXT("logFormat", struct file_agent, log_format),
    CYAML_FIELD_BOOL("insecure", CYAML_FLAG_OPTIONAL, struct file_agent, insecure),
    CYAML_FIELD_BOOL("stopEnginesOnExit", CYAML_FLAG_OPTIONAL, struct file_agent, stop_engines),
    CYAML_FIELD_MAPPING_PTR("times", CYAML_FLAG_OPTIONAL, struct file_agent, times, times_fields),
    CYAML_FIELD_SEQUENCE("groups", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct file_agent,
                         groups, &group_schema, 0, BATON_GROUPS_PER_AGENT_MAX),
    CYAML_FIELD_END
};

const cyaml_schema_value_t file_agent_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_POINTER, struct file_agent, agent_fields) };
