/* process.h -- recreate action "exec": an engine as a process that the agent starts and ends.
 *
 * The engine is leader of a session of its own and outlives the agent; a pid file (pid, start time,
 * boot of the machine) lets the next life of the agent find it again, so that it is neither lost nor
 * started twice.  A start is refused while anything of the old engine lives: dead means that no process
 * of its session is left, not that a signal was sent.
 *
 * It decides neither when to recreate nor how often; agent/core does.
 *
 * Depends on: api/base.  Linux: pidfd, /proc.
 * Threads: an object belongs to one thread; process_fd() may be polled by any.
 * Ownership: process_open/close; close leaves the engine running. */
#ifndef AGENT_ENGINE_PROCESS_H
#define AGENT_ENGINE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/base/limits.h"
#include "api/base/status.h"

enum { PROCESS_ARGS_MAX = 64, PROCESS_ENV_MAX = 64 };

struct process_options {
    char name[BATON_NAME_BYTES]; /* In messages. */
    /* Null-terminated; {checkpoint}, {guardPage} and {tokenFile} are replaced wherever they stand. */
    const char *const *argv;
    const char *const *env; /* Null-terminated "NAME=value"; null: none.  Over the agent's own. */
    char directory[BATON_PATH_BYTES]; /* Empty: the agent's. */
    char pid_file[BATON_PATH_BYTES];
    char log_file[BATON_PATH_BYTES];   /* Standard output and error, appended. */
    char guard_page[BATON_PATH_BYTES]; /* Also BATON_GUARD_PAGE of the engine; empty: unset. */
    char token_file[BATON_PATH_BYTES]; /* Also BATON_GUARD_TOKEN_FILE; empty: unset. */
};

enum process_phase {
    PROCESS_NONE,    /* Nothing of the engine is alive. */
    PROCESS_RUNNING, /* Its leader is alive. */
    PROCESS_REMAINS, /* Its leader is gone and other processes of its session are left. */
};

struct process_state {
    enum process_phase phase;
    pid_t pid;                        /* The leader's; 0: none known. */
    bool adopted;                     /* Started by an earlier life of the agent. */
    bool exit_known;                  /* The leader ended as our child. */
    int exit_code;                    /* -1: by a signal. */
    int exit_signal;                  /* 0: none. */
    char exit_text[BATON_TEXT_BYTES]; /* For people; empty: not ended. */
};

struct process;

/* Copies the options and finds an engine that an earlier life started.  INVALID_ARGUMENT names the
 * argument that has an unknown {word}. */
BATON_MUST_USE struct baton_status process_open(const struct process_options *options,
                                                struct process **out);
void process_close(struct process *process);

/* Looks, and reaps a leader that has ended.  Never blocks. */
void process_look(struct process *process, struct process_state *out);

/* Becomes readable when the leader ends; -1 while there is none.  Belongs to the process; a start or a
 * kill replaces it. */
int process_fd(const struct process *process);

/* Starts the engine on 'checkpoint'.  FAILED_PRECONDITION while anything of the old one lives.  OK
 * means that the program was given control and is in the pid file, not that it serves. */
BATON_MUST_USE struct baton_status process_start(struct process *process, const char *checkpoint,
                                                 uint64_t deadline_ns);

/* SIGTERM to the session, SIGKILL after 'grace_ns', and waits until nothing is left: OK is the proof.
 * DEADLINE_EXCEEDED names a process that would not die.  OK at once if there is none. */
BATON_MUST_USE struct baton_status process_kill(struct process *process, uint64_t grace_ns,
                                                uint64_t deadline_ns);

#endif /* process.h */
