/* pattern.h -- patterns of the names that certificates and tokens prove, and of what their holders may touch.
 *
 * In an identity '*' matches one or more characters within a part: between two '/' of a SPIFFE id, between two '.'
 * of a DNS name, between two ':' of a Kubernetes service account.  A part has one '*' at most, so that a match costs no more than one look at each character.  In
 * the name of an object (an agent, a group, a model) one '*' matches one or more characters, and "{1}" to "{4}"
 * stand for what the identity's first to fourth '*' matched, taken as it is: a '*' in it is only a '*'.  Where a
 * '-' or '.' stands beside a "{1}", on its side of the '*', the '*' does not match that character: "{1}-*" of
 * "node" is "node-g0", but not "node-7-g0", which is of "node-7".
 *
 * Pure.  Depends on: rpc.h (enum rpc_name_kind).  Threads: any.  Ownership: captures borrow from the identity. */
#ifndef CONTROLLER_SHELL_PATTERN_H
#define CONTROLLER_SHELL_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "api/rpc/rpc.h"

enum { PATTERN_STARS_MAX = 4 };

/* What the '*' of an identity matched, in order. */
struct pattern_captures {
    size_t count;
    struct pattern_text {
        const char *text; /* Not terminated. */
        size_t size;
    } items[PATTERN_STARS_MAX];
};

/* True if the identity is matched, with what its '*' stood for.  A pattern that begins with "spiffe://" matches only
 * SPIFFE ids, one that begins with "system:serviceaccount:" only service accounts, both to the letter; any other only DNS
 * names, in either case. */
bool pattern_match_identity(const char *pattern, enum rpc_name_kind kind, const char *identity,
                            struct pattern_captures *out);

/* True if the object's name is matched. */
bool pattern_match_name(const char *pattern, const char *name,
                        const struct pattern_captures *captures);

/* Null if the pattern is good, else what is wrong with it, for people.  'stars': of its identity. */
const char *pattern_identity_fault(const char *pattern);
const char *pattern_name_fault(const char *pattern, size_t stars);
/* Number of '*' of a pattern. */
size_t pattern_stars(const char *pattern);

#endif /* pattern.h */
