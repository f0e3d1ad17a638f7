/* config.c -- schema of the controller's YAML file; see config.h. */
#include "controller/shell/config.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/config/config.h"

static const uint64_t PROMETHEUS_NS_MIN = 100 * BATON_NS_PER_MS;

static const cyaml_schema_field_t tls_fields[] = {
    CYAML_FIELD_STRING_PTR("cert", CYAML_FLAG_POINTER, struct controller_tls, cert, 1, 4096),
    CYAML_FIELD_STRING_PTR("key", CYAML_FLAG_POINTER, struct controller_tls, key, 1, 4096),
    CYAML_FIELD_STRING_PTR("clientCa", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_tls, client_ca, 1, 4096),
    CYAML_FIELD_END
};

#define QUOTA(key, member)                                                                         \
    CYAML_FIELD_UINT(key, CYAML_FLAG_OPTIONAL, struct controller_quotas, member)

static const cyaml_schema_field_t quota_fields[] = {
    QUOTA("models", models),
    QUOTA("versions", versions),
    QUOTA("versionsKept", versions_kept),
    QUOTA("rolls", rolls),
    QUOTA("rollsKept", rolls_kept),
    QUOTA("groups", groups),
    QUOTA("agents", agents),
    QUOTA("requestIds", request_ids),
    QUOTA("waits", waits),
    CYAML_FIELD_STRING_PTR("openVersionKept", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_quotas, open_version_kept, 1, 32),
    CYAML_FIELD_STRING_PTR("unknownLandedKept", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_quotas, unknown_landed_kept, 1, 32),
    CYAML_FIELD_END
};

#define PROMETHEUS(key, flags, member, bytes)                                                      \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | (flags), struct controller_prometheus,        \
                           member, 1, bytes)

static const cyaml_schema_field_t prometheus_fields[] = {
    PROMETHEUS("url", CYAML_FLAG_DEFAULT, url, 480),
    PROMETHEUS("interval", CYAML_FLAG_OPTIONAL, interval, 32),
    PROMETHEUS("deadline", CYAML_FLAG_OPTIONAL, deadline, 32),
    PROMETHEUS("ca", CYAML_FLAG_OPTIONAL, ca, 4096),
    PROMETHEUS("cert", CYAML_FLAG_OPTIONAL, cert, 4096),
    PROMETHEUS("key", CYAML_FLAG_OPTIONAL, key, 4096),
    CYAML_FIELD_END
};

enum { NAMES_MAX = 256, ROWS_MAX = 4096 };

static const cyaml_schema_value_t word_schema = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0,
                                                                     255) };

#define NAMES(key, type, member)                                                                   \
    CYAML_FIELD_SEQUENCE(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member,              \
                         &word_schema, 1, NAMES_MAX)

static const cyaml_schema_field_t row_fields[] = {
    CYAML_FIELD_STRING_PTR("identity", CYAML_FLAG_POINTER, struct access_row, identity, 0, 255),
    CYAML_FIELD_STRING_PTR("role", CYAML_FLAG_POINTER, struct access_row, role_word, 0, 63),
    NAMES("models", struct access_row, models),
    NAMES("agents", struct access_row, agents),
    NAMES("groups", struct access_row, groups),
    CYAML_FIELD_END
};

static const cyaml_schema_value_t row_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_DEFAULT, struct access_row, row_fields) };

#define ACCOUNTS(key, member)                                                                      \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, struct controller_accounts, member, 1,         \
                           RPC_IDENTITY_BYTES - 1)

static const cyaml_schema_field_t accounts_fields[] = { ACCOUNTS("keys", keys),
                                                        ACCOUNTS("issuer", issuer),
                                                        ACCOUNTS("audience", audience),
                                                        CYAML_FIELD_END };

static const cyaml_schema_field_t access_fields[] = {
    CYAML_FIELD_STRING_PTR("tokens", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_access, tokens, 1, 480),
    CYAML_FIELD_MAPPING_PTR("serviceAccounts", CYAML_FLAG_OPTIONAL, struct controller_access,
                            accounts, accounts_fields),
    NAMES("local", struct controller_access, local),
    CYAML_FIELD_SEQUENCE("identities", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                         struct controller_access, identities, &row_schema, 0, ROWS_MAX),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t audit_fields[] = {
    CYAML_FIELD_STRING_PTR("file", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_audit, file, 1, 480),
    CYAML_FIELD_STRING_PTR("rotate", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_audit, rotate, 1, 32),
    CYAML_FIELD_UINT("keep", CYAML_FLAG_OPTIONAL, struct controller_audit, keep), CYAML_FIELD_END
};

static const cyaml_schema_field_t rate_fields[] = {
    CYAML_FIELD_UINT("calls", CYAML_FLAG_OPTIONAL, struct rate, calls),
    CYAML_FIELD_UINT("burst", CYAML_FLAG_OPTIONAL, struct rate, burst),
    CYAML_FIELD_UINT("streams", CYAML_FLAG_OPTIONAL, struct rate, streams), CYAML_FIELD_END
};

#define RATE(key, role)                                                                            \
    CYAML_FIELD_MAPPING_PTR(key, CYAML_FLAG_OPTIONAL, struct controller_rates, roles[role],        \
                            rate_fields)

static const cyaml_schema_field_t rates_fields[] = {
    RATE("trainer", ROLE_TRAINER),   RATE("agent", ROLE_AGENT),   RATE("router", ROLE_ROUTER),
    RATE("operator", ROLE_OPERATOR), RATE("viewer", ROLE_VIEWER), CYAML_FIELD_END
};

#define CONNECTIONS(key, member)                                                                   \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,                          \
                           struct controller_connections, member, 1, 32)

static const cyaml_schema_field_t connections_fields[] = {
    CONNECTIONS("handshake", handshake), CONNECTIONS("idle", idle),
    CYAML_FIELD_UINT("perAddress", CYAML_FLAG_OPTIONAL, struct controller_connections, per_address),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t metrics_fields[] = {
    CYAML_FIELD_STRING_PTR("listen", CYAML_FLAG_POINTER, struct controller_metrics, listen, 1, 80),
    CYAML_FIELD_END
};

static const cyaml_schema_field_t dashboard_fields[] = {
    CYAML_FIELD_STRING_PTR("listen", CYAML_FLAG_POINTER, struct controller_dashboard, listen, 1,
                           80),
    CYAML_FIELD_END
};

#define LEADERSHIP(key, flags, member, bytes)                                                      \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | (flags), struct controller_leadership,        \
                           member, 1, bytes)

static const cyaml_schema_field_t leadership_fields[] = {
    LEADERSHIP("advertise", CYAML_FLAG_OPTIONAL, advertise, 255),
    LEADERSHIP("lease", CYAML_FLAG_OPTIONAL, lease, 32),
    LEADERSHIP("renew", CYAML_FLAG_OPTIONAL, renew, 32),
    LEADERSHIP("clockSkew", CYAML_FLAG_OPTIONAL, clock_skew, 32),
    LEADERSHIP("lastKnown", CYAML_FLAG_OPTIONAL, last_known, 32),
    CYAML_FIELD_END
};

static const cyaml_schema_value_t address_schema = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *,
                                                                        1, 255) };

static const cyaml_schema_field_t config_fields[] = {
    CYAML_FIELD_SEQUENCE("listen", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                         struct controller_config, listen, &address_schema, 1, 8),
    CYAML_FIELD_STRING_PTR("store", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_config, store, 1, 4096),
    CYAML_FIELD_STRING_PTR("logLevel", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_config, log_level, 1, 16),
    CYAML_FIELD_STRING_PTR("logFormat", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL,
                           struct controller_config, log_format, 1, 16),
    CYAML_FIELD_UINT("swapsKept", CYAML_FLAG_OPTIONAL, struct controller_config, swaps_kept),
    CYAML_FIELD_BOOL("insecure", CYAML_FLAG_OPTIONAL, struct controller_config, insecure),
    CYAML_FIELD_MAPPING_PTR("limits", CYAML_FLAG_OPTIONAL, struct controller_config, limits,
                            quota_fields),
    CYAML_FIELD_MAPPING_PTR("prometheus", CYAML_FLAG_OPTIONAL, struct controller_config, prometheus,
                            prometheus_fields),
    CYAML_FIELD_MAPPING_PTR("audit", CYAML_FLAG_OPTIONAL, struct controller_config, audit,
                            audit_fields),
    CYAML_FIELD_MAPPING_PTR("rates", CYAML_FLAG_OPTIONAL, struct controller_config, rates,
                            rates_fields),
    CYAML_FIELD_MAPPING_PTR("connections", CYAML_FLAG_OPTIONAL, struct controller_config,
                            connections, connections_fields),
    CYAML_FIELD_MAPPING_PTR("metrics", CYAML_FLAG_OPTIONAL, struct controller_config, metrics,
                            metrics_fields),
    CYAML_FIELD_MAPPING_PTR("dashboard", CYAML_FLAG_OPTIONAL, struct controller_config, dashboard,
                            dashboard_fields),
    CYAML_FIELD_MAPPING_PTR("access", CYAML_FLAG_OPTIONAL, struct controller_config, access,
                            access_fields),
    CYAML_FIELD_MAPPING_PTR("leadership", CYAML_FLAG_OPTIONAL, struct controller_config, leadership,
                            leadership_fields),
    CYAML_FIELD_MAPPING_PTR("tls", CYAML_FLAG_OPTIONAL, struct controller_config, tls, tls_fields),
    CYAML_FIELD_END
};

static const cyaml_schema_value_t config_schema = { CYAML_VALUE_MAPPING(
    CYAML_FLAG_POINTER, struct controller_config, config_fields) };

struct baton_status controller_config_load(const char *path, struct controller_config **out)
{
    void *loaded = NULL;
    struct baton_status st = baton_config_load(path, &config_schema, &loaded);
    if (baton_ok(&st)) {
        *out = loaded;
    }
    return st;
}

/* One quota: at least as small as the program's own bound. */
struct quota {
    const char *key;
    unsigned given;
    unsigned most;
    uint32_t *out;
};

struct baton_status controller_config_limits(const struct controller_config *config,
                                             struct controller_limits *out)
{
    const struct controller_quotas none = { 0 };
    const struct controller_quotas *q = config->limits != NULL ? config->limits : &none;
    struct controller_limits most = controller_limits_default();
    memset(out, 0, sizeof(*out));
    const struct quota quotas[] = {
        { "models", q->models, most.models, &out->models },
        { "versions", q->versions, most.versions, &out->versions },
        { "versionsKept", q->versions_kept, most.versions, &out->versions_kept },
        { "rolls", q->rolls, most.rolls, &out->rolls },
        { "rollsKept", q->rolls_kept, most.rolls, &out->rolls_kept },
        { "groups", q->groups, most.groups, &out->groups },
        { "agents", q->agents, most.agents, &out->agents },
        { "requestIds", q->request_ids, most.request_ids, &out->request_ids },
        { "waits", q->waits, most.waits, &out->waits },
    };
    for (size_t i = 0; i < sizeof(quotas) / sizeof(quotas[0]); i++) {
        if (quotas[i].given > quotas[i].most) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                     "limits.%s: %u is above %u, the most that there may be",
                                     quotas[i].key, quotas[i].given, quotas[i].most);
        }
        *quotas[i].out = quotas[i].given;
    }
    uint64_t kept_ns = 0;
    struct baton_status st =
        baton_config_duration("limits.openVersionKept", q->open_version_kept, 0, &kept_ns);
    out->open_kept_ms = kept_ns / 1000000;
    if (baton_ok(&st)) {
        st = baton_config_duration("limits.unknownLandedKept", q->unknown_landed_kept, 0, &kept_ns);
        out->unknown_kept_ms = kept_ns / 1000000;
    }
    return st;
}

struct baton_status controller_config_prometheus(const struct controller_config *config,
                                                 struct prometheus_options *out)
{
    const struct controller_prometheus none = { 0 };
    const struct controller_prometheus *given =
        config->prometheus != NULL ? config->prometheus : &none;
    *out = (struct prometheus_options){ .url = given->url,
                                        .tls = { given->ca, given->cert, given->key } };
    if ((given->cert == NULL) != (given->key == NULL)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "prometheus: give cert and key, or neither");
    }
    struct baton_status st = baton_config_duration("prometheus.interval", given->interval,
                                                   15 * BATON_NS_PER_S, &out->interval_ns);
    if (baton_ok(&st)) {
        st = baton_config_duration("prometheus.deadline", given->deadline, 10 * BATON_NS_PER_S,
                                   &out->deadline_ns);
    }
    if (baton_ok(&st) &&
        (out->interval_ns < PROMETHEUS_NS_MIN || out->deadline_ns < PROMETHEUS_NS_MIN)) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                               "prometheus: interval and deadline are at least 100 ms");
    }
    return st;
}

struct baton_status controller_config_audit(const struct controller_config *config,
                                            const char *store, char room[], size_t room_bytes,
                                            struct audit_options *out)
{
    static const struct controller_audit none = { 0 };
    const struct controller_audit *given =
        config != NULL && config->audit != NULL ? config->audit : &none;
    static const char SQLITE[] = "sqlite:";
    uint64_t rotate = 0;
    struct baton_status st =
        baton_config_bytes("audit.rotate", given->rotate, AUDIT_ROTATE_BYTES, &rotate);
    *out = (struct audit_options){ .file = given->file,
                                   .rotate_bytes = rotate,
                                   .keep = given->keep != 0 ? given->keep : AUDIT_KEEP };
    if (baton_ok(&st) && (rotate < AUDIT_ROTATE_BYTES_MIN || out->keep > AUDIT_KEEP_MAX)) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                               "audit: rotate is at least 64 KiB, keep at most %d", AUDIT_KEEP_MAX);
    }
    if (given->file == NULL && strncmp(store, SQLITE, sizeof(SQLITE) - 1) == 0) {
        (void)snprintf(room, room_bytes, "%s.audit.jsonl", store + sizeof(SQLITE) - 1);
        out->file = room;
    }
    return st;
}

void controller_config_free(struct controller_config *config)
{
    if (config != NULL) {
        baton_config_free(&config_schema, config);
    }
}
