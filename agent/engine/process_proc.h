/* process_proc.h -- what /proc says of processes, for process.c alone.
 *
 * A process id says nothing by itself: it is used again.  Together with the start time it names one
 * process of one boot of the machine.  A session's id is not given to another process while a member
 * of the session lives.
 *
 * Depends on: api/base.  Threads: any.  Ownership: values. */
#ifndef AGENT_ENGINE_PROCESS_PROC_H
#define AGENT_ENGINE_PROCESS_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/base/status.h"

enum { PROC_BOOT_BYTES = 40, PROC_NAME_BYTES = 17 };

struct proc_info {
    pid_t pid;
    pid_t session;
    bool alive; /* Not a zombie. */
    uint64_t start_ticks;
    char name[PROC_NAME_BYTES];
};

/* False if there is no such process. */
bool proc_read(pid_t pid, struct proc_info *out);

/* A living process of the session; false if there is none. */
bool proc_session_find(pid_t session, struct proc_info *out);

/* Sends a signal to each living process of the session. */
void proc_session_signal(pid_t session, int number);

/* The id of this boot of the machine. */
BATON_MUST_USE struct baton_status proc_boot(char out[PROC_BOOT_BYTES]);

/* The pid file: leader, start time, boot. */
struct proc_file {
    pid_t pid;
    uint64_t start_ticks;
    char boot[PROC_BOOT_BYTES];
};

/* NOT_FOUND if there is none. */
BATON_MUST_USE struct baton_status proc_file_read(const char *path, struct proc_file *out);
/* Replaces it in one step. */
BATON_MUST_USE struct baton_status proc_file_write(const char *path, const struct proc_file *file);

#endif /* process_proc.h */
