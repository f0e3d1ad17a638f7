/* access.h -- may this caller do that: the roles of identities, and what they reach.
 *
 * A caller's roles come from the rows whose identity pattern one of its certificate's names matches; all rows that
 * match count.  Who has no certificate has the roles of its kind.  Default: no.  Pure, over constant tables.
 *
 * Depends on: rules.h, pattern.h, rpc.h (struct rpc_peer).  Threads: any.  Ownership: the tables are borrowed. */
#ifndef CONTROLLER_SHELL_ACCESS_H
#define CONTROLLER_SHELL_ACCESS_H

#include "api/base/status.h"
#include "api/rpc/rpc.h"
#include "controller/shell/rules.h"

/* One entry of access.identities, as the file has it; 'role' is filled in by controller_config_access(). */
struct access_row {
    char *identity; /* pattern.h */
    char *role_word;
    char **models; /* Name patterns: of a trainer, those that it may publish and put to sleep. */
    unsigned models_count;
    char **agents; /* Of an agent: the names that it may bear, */
    unsigned agents_count;
    char **groups; /* and the groups that it may speak for. */
    unsigned groups_count;
    enum role role;
};

struct access {
    unsigned local_roles; /* ROLE_BIT()s of callers on this machine without a certificate. */
    unsigned
        anonymous_roles; /* Of other callers without one: none, but where that was asked for. */
    const struct access_row *rows;
    size_t rows_count;
};

/* Without a file: everything on this machine, nothing else. */
struct access access_default(void);

/* ROLE_BIT()s of all that the caller is. */
unsigned access_roles(const struct access *access, const struct rpc_peer *peer);

/* May it call this RPC at all?  PERMISSION_DENIED NOT_ALLOWED names caller, RPC, the roles that may, and what to
 * do. */
BATON_MUST_USE struct baton_status access_check_call(const struct access *access,
                                                     const struct rpc_peer *peer,
                                                     const char *method);
/* May it change something of this model by this RPC?  OK for an RPC that is not by model.  Null model: it named
 * nothing that there is; a role that may change some model is enough to be told that. */
BATON_MUST_USE struct baton_status access_check_model(const struct access *access,
                                                      const struct rpc_peer *peer,
                                                      const char *method, const char *model);
/* May it speak as this agent for this group?  Null group: as this agent at all. */
BATON_MUST_USE struct baton_status access_check_agent(const struct access *access,
                                                      const struct rpc_peer *peer,
                                                      const char *agent, const char *group);

#endif /* access.h */
