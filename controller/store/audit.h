/* audit.h -- goes through everything that is stored and says what does not hold together.
 *
 * Each record decodes and stands under its own key; what it names is there, unless retention or the
 * record itself says that it may be gone (ended rolls, versions that nothing needs, retired groups);
 * seqs are unique and not above their model's; numbers are not above those that give them out; revisions are
 * not above the store's; events' numbers rise; there is no more of a kind than a controller takes.
 * Of a version's parent only the order is asked: retention may have dropped it.
 *
 * Depends on: store.h.  Threads: one.  Ownership: the caller's store. */
#ifndef CONTROLLER_STORE_AUDIT_H
#define CONTROLLER_STORE_AUDIT_H

#include "api/base/status.h"
#include "controller/store/store.h"

/* Something that does not hold: of which record ("group/g0"), which member, and what is wrong. */
typedef void (*audit_finding_fn)(void *context, const char *object, const char *field,
                                 const char *text);

struct audit_report {
    uint64_t records;
    uint64_t events;
    uint64_t findings;
};

/* 'reader' and 'start' are of store_open_reader().  OK with findings, too; else it could not be read
 * to its end. */
BATON_MUST_USE struct baton_status store_audit(struct store *reader,
                                               const struct store_start *start,
                                               audit_finding_fn finding, void *context,
                                               struct audit_report *out);

#endif /* audit.h */
