/* authority.h -- a certificate authority in a folder: ca.crt, ca.key, and what it issued.
 *
 * EC keys on P-256, SHA-256.  Keys are created with mode 0600 and never overwritten; a certificate replaces an older one
 * in one step, so that a daemon that reads its files anew never sees half of one.
 *
 * Depends on: api/base, OpenSSL's libcrypto.  Threads: one.  Ownership: all borrowed for the call. */
#ifndef CONTROLLER_CLI_AUTHORITY_H
#define CONTROLLER_CLI_AUTHORITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/status.h"

enum { AUTHORITY_NAMES_MAX = 16, AUTHORITY_IDENTITY_BYTES = 256 };

/* One certificate of a daemon or a person: good for both ends of a connection. */
struct authority_leaf {
    const char *name; /* Its files' and the last part of its identity. */
    const char *role; /* The middle part. */
    const char *dns[AUTHORITY_NAMES_MAX];
    size_t dns_count;
    const char *ip[AUTHORITY_NAMES_MAX];
    size_t ip_count;
    uint64_t valid_s; /* From five minutes ago, for clocks that differ, until so long from now. */
    bool renew;       /* The key is there already. */
};

/* Creates the folder if need be; refuses (ALREADY_EXISTS) where there is an authority. */
BATON_MUST_USE struct baton_status authority_create(const char *folder, const char *trust_domain,
                                                    uint64_t valid_s);
/* Writes NAME.crt and NAME.key; gives its SPIFFE id, spiffe://<trust domain>/<role>/<name>. */
BATON_MUST_USE struct baton_status authority_issue(const char *folder,
                                                   const struct authority_leaf *leaf,
                                                   char identity[AUTHORITY_IDENTITY_BYTES]);

#endif /* authority.h */
