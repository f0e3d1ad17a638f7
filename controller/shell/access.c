/* access.c -- see access.h. */
#include "controller/shell/access.h"

#include <stdio.h>
#include <string.h>

#include "controller/shell/pattern.h"

/* "operator or trainer" with room. */
enum { WORDS_BYTES = 96 };

struct access access_default(void)
{
    return (struct access){ .local_roles = ROLES_ALL };
}

/* Whether a row is of this caller, and what its '*' stood for. */
static bool is_of(const struct access_row *row, const struct rpc_peer *peer,
                  struct pattern_captures *out)
{
    if (peer->principal != RPC_PRINCIPAL_CERTIFICATE && peer->principal != RPC_PRINCIPAL_TOKEN) {
        return false;
    }
    for (size_t i = 0; i < peer->names_count; i++) {
        const struct rpc_peer_name *name = &peer->names[i];
        if (pattern_match_identity(row->identity, name->kind, name->text, out)) {
            return true;
        }
    }
    return false;
}

/* Roles of who shows no certificate: they reach everything that their roles may. */
static unsigned bare_roles(const struct access *access, const struct rpc_peer *peer)
{
    switch (peer->principal) {
    case RPC_PRINCIPAL_LOCAL: return access->local_roles;
    case RPC_PRINCIPAL_ANONYMOUS: return access->anonymous_roles;
    case RPC_PRINCIPAL_CERTIFICATE:
    case RPC_PRINCIPAL_TOKEN: break;
    }
    return 0;
}

unsigned access_roles(const struct access *access, const struct rpc_peer *peer)
{
    unsigned roles = bare_roles(access, peer);
    for (size_t i = 0; i < access->rows_count; i++) {
        struct pattern_captures captures;
        if (is_of(&access->rows[i], peer, &captures)) {
            roles |= ROLE_BIT(access->rows[i].role);
        }
    }
    return roles;
}

static const char *write_roles(unsigned roles, char out[WORDS_BYTES])
{
    size_t size = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < ROLES_COUNT; i++) {
        if ((roles & ROLE_BIT(i)) != 0) {
            size += (size_t)snprintf(out + size, WORDS_BYTES - size, "%s%s", size > 0 ? " or " : "",
                                     role_name((enum role)i));
        }
    }
    return roles != 0 ? out : "none";
}

static struct baton_status hinted(struct baton_status st, const struct rpc_peer *peer)
{
    switch (peer->principal) {
    case RPC_PRINCIPAL_CERTIFICATE:
        return baton_status_hint(st,
                                 "give '%.80s' what it needs under access.identities of the "
                                 "controller's file, or use another certificate",
                                 peer->identity);
    case RPC_PRINCIPAL_TOKEN:
        return baton_status_hint(st,
                                 "give '%.80s' what it needs under access.identities of the "
                                 "controller's file, or use another token",
                                 peer->identity);
    case RPC_PRINCIPAL_LOCAL:
        return baton_status_hint(st, "add the role to access.local of the controller's file, or "
                                     "show a certificate");
    case RPC_PRINCIPAL_ANONYMOUS: break;
    }
    return baton_status_hint(st, "show a certificate (batonctl: --ca, --cert and --key), or call "
                                 "from the controller's machine; deploy/docs/security.md");
}

struct baton_status access_check_call(const struct access *access, const struct rpc_peer *peer,
                                      const char *method)
{
    const struct rule *rule = rules_find(method);
    unsigned roles = access_roles(access, peer);
    char needed[WORDS_BYTES];
    char has[WORDS_BYTES];
    if (rule != NULL && (rule->roles & roles) != 0) {
        return baton_status_ok();
    }
    return hinted(baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                                    "%.120s may not call %.60s: that needs the role %s, and its "
                                    "role is %s",
                                    peer->identity, method,
                                    write_roles(rule != NULL ? rule->roles : 0, needed),
                                    write_roles(roles, has)),
                  peer);
}

static bool is_any(char *const *patterns, unsigned count, const char *name,
                   const struct pattern_captures *captures)
{
    for (unsigned i = 0; i < count; i++) {
        if (pattern_match_name(patterns[i], name, captures)) {
            return true;
        }
    }
    return false;
}

/* Only trainers' and routers' rows name models; a router's may leave that out. */
static bool reaches_model(const struct access_row *row, const char *model,
                          const struct pattern_captures *captures)
{
    return model == NULL || row->models_count == 0 ||
           is_any(row->models, row->models_count, model, captures);
}

struct baton_status access_check_model(const struct access *access, const struct rpc_peer *peer,
                                       const char *method, const char *model)
{
    const struct rule *rule = rules_find(method);
    char needed[WORDS_BYTES];
    unsigned roles = rule != NULL ? rule->roles & ~ROLE_BIT(ROLE_VIEWER) : 0;
    if ((rule != NULL && !rule->by_model) || (roles & bare_roles(access, peer)) != 0) {
        return baton_status_ok();
    }
    for (size_t i = 0; i < access->rows_count; i++) {
        const struct access_row *row = &access->rows[i];
        struct pattern_captures captures;
        if ((roles & ROLE_BIT(row->role)) != 0 && is_of(row, peer, &captures) &&
            reaches_model(row, model, &captures)) {
            return baton_status_ok();
        }
    }
    return hinted(baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                                    "%.120s may not call %.60s for model '%.63s': that needs the "
                                    "role %s with this model",
                                    peer->identity, method, model != NULL ? model : "",
                                    write_roles(roles, needed)),
                  peer);
}

struct baton_status access_check_agent(const struct access *access, const struct rpc_peer *peer,
                                       const char *agent, const char *group)
{
    if ((bare_roles(access, peer) & ROLE_BIT(ROLE_AGENT)) != 0) {
        return baton_status_ok();
    }
    for (size_t i = 0; i < access->rows_count; i++) {
        const struct access_row *row = &access->rows[i];
        struct pattern_captures captures;
        if (row->role == ROLE_AGENT && is_of(row, peer, &captures) &&
            is_any(row->agents, row->agents_count, agent, &captures) &&
            (group == NULL || is_any(row->groups, row->groups_count, group, &captures))) {
            return baton_status_ok();
        }
    }
    return hinted(
        baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                          "%.120s may not speak as agent '%.63s'%s%.63s%s: that needs the "
                          "role agent with this %s",
                          peer->identity, agent, group != NULL ? " for group '" : "",
                          group != NULL ? group : "", group != NULL ? "'" : "",
                          group != NULL ? "agent and group" : "agent"),
        peer);
}
