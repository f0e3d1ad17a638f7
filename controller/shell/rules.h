/* rules.h -- who may call which RPC: one row for each, next to routes.h.
 *
 * An RPC without a row is refused; a test holds the table against the routes and the protos.
 *
 * Depends on: nothing.  Threads: any.  Ownership: static. */
#ifndef CONTROLLER_SHELL_RULES_H
#define CONTROLLER_SHELL_RULES_H

#include <stdbool.h>
#include <stddef.h>

enum role { ROLE_TRAINER, ROLE_AGENT, ROLE_ROUTER, ROLE_OPERATOR, ROLE_VIEWER, ROLES_COUNT };

#define ROLE_BIT(role) (1u << (role))
enum { ROLES_ALL = (1 << ROLES_COUNT) - 1 };

struct rule {
    const char *method; /* "baton.v1.Models/Apply". */
    unsigned roles;     /* ROLE_BIT()s of those that may call it. */
    /* It changes something of one model: trainers and routers may do so only for the models that their row names,
     * and viewers may only ask. */
    bool by_model;
    /* A change that somebody decided: it goes to the audit.  Traffic (slots, samples, sessions, progress) does not;
     * refusals do, of every RPC. */
    bool audited;
};

const struct rule *rules_all(void);
size_t rules_count(void);
/* Null: there is none, and nobody may call it. */
const struct rule *rules_find(const char *method);

const char *role_name(enum role role);
/* False: no such role. */
bool role_parse(const char *word, enum role *out);

#endif /* rules.h */
