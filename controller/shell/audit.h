/* audit.h -- who changed what, and who was refused: lines of JSON in a file of bounded size.
 *
 * One line an entry, the proto message AuditEntry as JSON.  A file that grows beyond its bound becomes FILE.1, the older
 * ones move up, and the oldest goes.  A line is written before its call is answered; it survives the process, not the
 * machine.  When it cannot be written, that is logged and the call goes on.  Refusals that repeat within seconds, and what
 * a caller failed at beyond 200 times and then one in 2 s, are counted instead of written (repeated_before of its next
 * line), so that nobody can push the record out of its files by trying.  Entries hold the words of
 * callers (reason, names) and our own messages: never keys, tokens or prompts.
 *
 * Depends on: api/wire, api/rpc, jansson.  Threads: any, but for create and destroy; questions are read on a thread of
 * its own.  Ownership: the daemon's. */
#ifndef CONTROLLER_SHELL_AUDIT_H
#define CONTROLLER_SHELL_AUDIT_H

#include <stdint.h>

#include "api/base/status.h"
#include "api/rpc/rpc.h"

struct audit;

struct audit_options {
    const char *file;      /* Null: no audit is kept. */
    uint64_t rotate_bytes; /* Of one file. */
    uint32_t keep;         /* Older files. */
};

enum {
    AUDIT_ROTATE_BYTES = 16 << 20,
    AUDIT_ROTATE_BYTES_MIN = 64 << 10,
    AUDIT_KEEP = 4,
    AUDIT_KEEP_MAX = 100
};

/* Null texts are empty. */
struct audit_entry {
    const char *principal;
    const char *address;
    const char *requested_by;
    const char *method;
    const char *object;
    const char *model;
    const char *reason;
    const char *request_id;
    uint64_t revision_before;
    uint64_t revision_after;
    const struct baton_status *status;
    const char *
        told_by; /* Null: we saw it ourselves; else its flood counts as this one's, whoever it names. */
};

/* Opens or creates the file, mode 0600; a torn last line is closed.  Without a file '*out' is null. */
BATON_MUST_USE struct baton_status audit_create(const struct audit_options *options,
                                                struct audit **out);
/* Answers what was asked first.  Null is fine. */
void audit_destroy(struct audit *audit);

/* Null is fine. */
void audit_write(struct audit *audit, const struct audit_entry *entry);

/* Answers a call of Audit.List, later, from the audit's thread. */
void audit_answer(struct audit *audit, struct rpc_call *call);

#endif /* audit.h */
