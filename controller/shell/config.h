/* config.h -- the controller's YAML file.
 *
 *   listen: [127.0.0.1:7070]        addresses of the API; unix:/path too
 *   store: sqlite:/var/lib/baton/controller.db
 *   logLevel: info                  error, warn, info, debug
 *   logFormat: text                 text, json
 *   swapsKept: 8192                 swaps that ended and are kept for traces and estimates
 *   limits: {groups: 512, ...}      quotas; see deploy/docs/configuration.md
 *   prometheus: {url: ...}          where checks of metrics ask; deploy/docs/configuration.md
 *   leadership: {advertise: host:port, ...}   one of several controllers; deploy/docs/leadership.md
 *   tls:                            absent: plain
 *     cert: server.crt
 *     key: server.key
 *     clientCa: ca.crt              given: clients must show a certificate signed by it
 *   insecure: false                 true: other machines may do everything without a certificate
 *   rates: {viewer: {calls: 500, burst: 1000, streams: 1024}, ...}   of one identity in one role; deploy/docs/security.md
 *   connections: {handshake: 20s, idle: 30m, perAddress: 1024}   when they are ended, how many of one address
 *   metrics: {listen: 127.0.0.1:9470}   where Prometheus asks; absent: nowhere
 *   dashboard: {listen: 127.0.0.1:9480}   where browsers and `curl` ask; absent: nowhere
 *   audit: {file: ..., rotate: 16MiB, keep: 4}   who changed what; default beside a sqlite: store
 *   access:                         who may do what; deploy/docs/security.md
 *     tokens: FILE                  digests of bearer tokens and whose they are
 *     serviceAccounts: {keys: FILE, issuer: URL, audience: baton}   tokens of Kubernetes
 *     local: [operator, viewer]     roles of callers on this machine without a certificate; absent: all
 *     identities:
 *     - {identity: spiffe://lab.example/agent/x, role: agent, agents: ["{1}"], groups: ["{1}"]}
 *
 * Depends on: api/config.  Threads: any.  Ownership: the caller frees. */
#ifndef CONTROLLER_SHELL_CONFIG_H
#define CONTROLLER_SHELL_CONFIG_H

#include "api/base/log.h"
#include "api/base/status.h"
#include "controller/core/controller.h"
#include "controller/shell/access.h"
#include "controller/shell/audit.h"
#include "controller/shell/leadership.h"
#include "controller/shell/prometheus.h"
#include "controller/shell/rates.h"

struct controller_tls {
    char *cert;
    char *key;
    char *client_ca;
};

/* Members of 0 or null were not given. */
struct controller_quotas {
    unsigned models;
    unsigned versions;
    unsigned versions_kept;
    unsigned rolls;
    unsigned rolls_kept;
    unsigned groups;
    unsigned agents;
    unsigned request_ids;
    unsigned waits;
    char *open_version_kept;
    char *unknown_landed_kept;
};

struct controller_prometheus {
    char *url;
    char *interval;
    char *deadline;
    char *ca;
    char *cert;
    char *key;
};

struct controller_accounts {
    char *keys;
    char *issuer;
    char *audience;
};

struct controller_access {
    char *tokens;                         /* Null: there are none. */
    struct controller_accounts *accounts; /* Null: not given. */
    char **local;
    unsigned local_count;
    struct access_row *identities;
    unsigned identities_count;
};

struct controller_audit {
    char *file;
    char *rotate;
    unsigned keep; /* 0: not given. */
};

struct controller_rates {
    struct rate *roles[ROLES_COUNT]; /* Null: not given. */
};

struct controller_dashboard {
    char *listen;
};

struct controller_metrics {
    char *listen;
};

struct controller_connections {
    char *handshake;
    char *idle;
    uint32_t per_address; /* 0: not given. */
};

struct controller_leadership {
    char *advertise;
    char *lease;
    char *renew;
    char *clock_skew;
    char *last_known;
};

struct controller_config {
    char **listen;
    unsigned listen_count;
    char *store;
    char *log_level;
    char *log_format;
    unsigned swaps_kept; /* 0: not given. */
    bool insecure;
    struct controller_tls *tls;
    struct controller_quotas *limits;           /* Null: not given. */
    struct controller_prometheus *prometheus;   /* Null: there is none. */
    struct controller_access *access;           /* Null: not given. */
    struct controller_audit *audit;             /* Null: not given. */
    struct controller_rates *rates;             /* Null: not given. */
    struct controller_metrics *metrics;         /* Null: not given. */
    struct controller_dashboard *dashboard;     /* Null: not given. */
    struct controller_connections *connections; /* Null: not given. */
    struct controller_leadership *leadership;   /* Null: not given. */
};

BATON_MUST_USE struct baton_status controller_config_load(const char *path,
                                                          struct controller_config **out);
/* The quotas that the file gives, 0 for the others; a value above the program's own bound is refused by
 * its key. */
BATON_MUST_USE struct baton_status controller_config_limits(const struct controller_config *config,
                                                            struct controller_limits *out);
/* Where metrics are asked for; a null URL without the section. */
BATON_MUST_USE struct baton_status controller_config_prometheus(
    const struct controller_config *config, struct prometheus_options *out);
/* Who may do what; borrows from 'config'.  'path' is for the place of what is wrong. */
BATON_MUST_USE struct baton_status controller_config_access(const char *path,
                                                            const struct controller_config *config,
                                                            struct access *out);
/* Where the audit goes; 'config' may be null.  Without a file: beside a sqlite: store ("<store>.audit.jsonl", written
 * to 'room'), for other stores nowhere. */
BATON_MUST_USE struct baton_status controller_config_audit(const struct controller_config *config,
                                                           const char *store, char room[],
                                                           size_t room_bytes,
                                                           struct audit_options *out);
/* How often identities may call; members of 0 were not given.  'config' may be null. */
BATON_MUST_USE struct baton_status controller_config_rates(const struct controller_config *config,
                                                           struct rates_options *out);
/* When connections are ended, and how many one address may have.  'config' may be null. */
BATON_MUST_USE struct baton_status controller_config_connections(
    const struct controller_config *config, struct connection_limits *out);
/* The times of leadership, checked against each other, and the address that the others are told:
 * 'advertise' (of the command line) where it is not null.  'config' may be null. */
BATON_MUST_USE struct baton_status controller_config_leadership(
    const struct controller_config *config, const char *advertise, struct leadership_options *out);
/* Null is fine. */
void controller_config_free(struct controller_config *config);

#endif /* config.h */
