/* audit_file.h -- what the two halves of the audit share: private to audit.c and audit_read.c.
 *
 * Depends on: audit.h.  Threads: 'mutex' guards all but the constants.  Ownership: audit.c's. */
#ifndef CONTROLLER_SHELL_AUDIT_FILE_H
#define CONTROLLER_SHELL_AUDIT_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "api/base/limits.h"
#include "api/base/mailbox.h"
#include "controller/shell/audit.h"

enum { AUDIT_RECENT = 64, AUDIT_CALLERS = 64, AUDIT_PATH_BYTES = BATON_PATH_BYTES + 16 };

struct audit {
    char path[BATON_PATH_BYTES]; /* Constant, as are the next two. */
    uint64_t rotate_bytes;
    uint32_t keep;
    pthread_mutex_t mutex;
    int fd; /* -1: the next file could not be opened yet. */
    uint64_t bytes;
    uint64_t last_number;
    bool failing; /* The last line was not written. */
    struct audit_recent {
        uint64_t hash; /* Of a refusal. */
        uint64_t written_ns;
        uint64_t repeated;
    } recent[AUDIT_RECENT];
    struct audit_caller {
        uint64_t spent;   /* Lines of what failed, less those that time gave back. */
        uint64_t seen_ns; /* Until when it gave them back. */
        uint64_t left_out;
    } callers[AUDIT_CALLERS]; /* By the principal's hash. */

    struct baton_mailbox *mailbox; /* Questions. */
    pthread_t thread;
    bool stopping; /* The thread's own. */
};

/* The name of the file that is 'age' rotations old; 0: the one that is written. */
void audit_path(const struct audit *audit, uint32_t age, char out[AUDIT_PATH_BYTES]);

/* The reading thread. */
void *audit_read_thread(void *audit);

#endif /* audit_file.h */
