/* standby_reads.h -- which reads a controller that stands by answers: one row for each read, beside rules.h.
 *
 * It answers those whose answer is what is stored, and only callers that ask for it (x-baton-read, common.proto).
 * What rests on what agents report, on leases or on the clock is the leader's alone to tell.
 *
 * Depends on: nothing.  Threads: any.  Ownership: static. */
#ifndef CONTROLLER_SHELL_STANDBY_READS_H
#define CONTROLLER_SHELL_STANDBY_READS_H

#include <stdbool.h>
#include <stddef.h>

struct standby_read {
    const char *method; /* "baton.v1.Models/Get". */
    bool stored;        /* It is answered. */
    const char *why;    /* If not: what it rests on; if it is: what the answer leaves out. */
};

const struct standby_read *standby_reads_all(void);
size_t standby_reads_count(void);
/* Null: it is no read. */
const struct standby_read *standby_reads_find(const char *method);

#endif /* standby_reads.h */
