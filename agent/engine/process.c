#include "agent/engine/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/engine/process_args.h"
#include "agent/engine/process_proc.h"
#include "api/base/clock.h"

enum { LOOK_AGAIN_MS = 10 };

/* The engine's program gets control only after its pid file is written: this shell waits for a line on
 * its standard input, and ends by itself if the agent died before. */
static const char *const STARTER[] = { "/bin/sh", "-c", "read -r go && exec \"$@\" </dev/null",
                                       "sh", NULL };

struct process {
    struct process_options options; /* argv and env point to the copies below. */
    char **argv;
    char **env;
    pid_t pid; /* Leader of the session; 0: none. */
    uint64_t start_ticks;
    int pidfd; /* Of a leader that lives or is our unreaped child; else -1. */
    bool is_child;
    struct process_state state;
};

/* --- looking ----------------------------------------------------------------------------------- */

/* The leader may be gone and its number may have a new owner; then nothing of the session is left. */
static bool session_lives(const struct process *process, struct proc_info *member)
{
    struct proc_info leader;
    if (process->pid == 0) {
        return false;
    }
    if (proc_read(process->pid, &leader) && leader.start_ticks != process->start_ticks) {
        return false;
    }
    return proc_session_find(process->pid, member);
}

static bool leader_lives(const struct process *process)
{
    struct pollfd fd = { .fd = process->pidfd, .events = POLLIN };
    return process->pidfd >= 0 && poll(&fd, 1, 0) == 0;
}

static void exit_note(struct process_state *state, const struct process_options *options,
                      const siginfo_t *info)
{
    bool exited = info->si_code == CLD_EXITED;
    state->exit_known = true;
    state->exit_code = exited ? info->si_status : -1;
    state->exit_signal = exited ? 0 : info->si_status;
    if (exited && (info->si_status == 126 || info->si_status == 127)) {
        (void)snprintf(state->exit_text, sizeof state->exit_text,
                       "exit code %d: the command %.60s cannot be found or run; see %.110s",
                       info->si_status, options->argv[0], options->log_file);
    } else {
        (void)snprintf(state->exit_text, sizeof state->exit_text, "%s %d; see %.110s",
                       exited ? "exit code" : "ended by signal", info->si_status,
                       options->log_file);
    }
}

/* Takes notice of how the leader ended.  It is reaped only when nothing else of its session is left: as
 * long as it is not, its number cannot be given to another process. */
static void leader_note(struct process *process, int flags)
{
    siginfo_t info = { 0 };
    if (process->is_child &&
        waitid(P_PIDFD, (id_t)process->pidfd, &info, WEXITED | WNOHANG | flags) == 0 &&
        info.si_pid != 0) {
        exit_note(&process->state, &process->options, &info);
    }
}

/* Nothing is left: the process object is free for a start. */
static void forget(struct process *process)
{
    leader_note(process, 0);
    if (process->pidfd >= 0) {
        (void)close(process->pidfd);
    }
    (void)unlink(process->options.pid_file);
    process->pidfd = -1;
    process->pid = 0;
    process->is_child = false;
}

static void look(struct process *process)
{
    struct proc_info member;
    struct process_state *state = &process->state;
    if (leader_lives(process)) {
        state->phase = PROCESS_RUNNING;
    } else if (session_lives(process, &member)) {
        leader_note(process, WNOWAIT);
        state->phase = PROCESS_REMAINS;
    } else {
        if (process->pid != 0) {
            forget(process);
        }
        state->phase = PROCESS_NONE;
    }
    state->pid = process->pid;
}

void process_look(struct process *process, struct process_state *out)
{
    look(process);
    *out = process->state;
}

int process_fd(const struct process *process)
{
    return process->pidfd;
}

/* --- life of the object ------------------------------------------------------------------------ */

/* Takes the leader of the pid file over if it is still the same process. */
static void adopt_leader(struct process *process)
{
    struct proc_info leader;
    int fd = pidfd_open(process->pid, 0);
    if (fd < 0) {
        return;
    }
    if (!proc_read(process->pid, &leader) || leader.start_ticks != process->start_ticks ||
        !leader.alive) {
        (void)close(fd);
        return;
    }
    process->pidfd = fd;
}

static struct baton_status adopt(struct process *process)
{
    struct proc_file file;
    char boot[PROC_BOOT_BYTES];
    struct baton_status st = proc_file_read(process->options.pid_file, &file);
    if (st.code == BATON_NOT_FOUND) {
        return baton_status_ok();
    }
    if (baton_ok(&st)) {
        st = proc_boot(boot);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (strcmp(boot, file.boot) == 0) {
        process->pid = file.pid;
        process->start_ticks = file.start_ticks;
        process->state.adopted = true;
        adopt_leader(process);
    }
    look(process);
    return st;
}

/* Finds an unknown word now, not at the first recreate. */
static struct baton_status template_check(const struct process_options *options)
{
    char **list = NULL;
    struct args_words words = { "", options->guard_page, options->token_file };
    struct baton_status st = args_make(NULL, options->argv, &words, &list);
    args_free(list);
    return st;
}

static struct baton_status options_copy(struct process *process,
                                        const struct process_options *options)
{
    struct baton_status st = template_check(options);
    process->options = *options;
    if (baton_ok(&st)) {
        st = args_copy(options->argv, &process->argv);
    }
    if (baton_ok(&st)) {
        st = args_copy(options->env, &process->env);
    }
    process->options.argv = (const char *const *)process->argv;
    process->options.env = (const char *const *)process->env;
    return st;
}

struct baton_status process_open(const struct process_options *options, struct process **out)
{
    struct process *process = calloc(1, sizeof *process);
    if (process == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    }
    process->pidfd = -1;
    struct baton_status st = options_copy(process, options);
    if (baton_ok(&st)) {
        st = adopt(process);
    }
    if (!baton_ok(&st)) {
        process_close(process);
        return baton_status_in(st, "engine %s", options->name);
    }
    *out = process;
    return st;
}

void process_close(struct process *process)
{
    if (process == NULL) {
        return;
    }
    if (process->pidfd >= 0) {
        (void)close(process->pidfd);
    }
    args_free(process->argv);
    args_free(process->env);
    free(process);
}

/* --- starting ---------------------------------------------------------------------------------- */

static int actions_fill(posix_spawn_file_actions_t *actions, const struct process_options *options,
                        int stdin_fd)
{
    int error = posix_spawn_file_actions_adddup2(actions, stdin_fd, STDIN_FILENO);
    if (error == 0) {
        error = posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, options->log_file,
                                                 O_WRONLY | O_CREAT | O_APPEND, 0640);
    }
    if (error == 0) {
        error = posix_spawn_file_actions_adddup2(actions, STDOUT_FILENO, STDERR_FILENO);
    }
    if (error == 0) {
        error = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
    }
    if (error == 0 && options->directory[0] != '\0') {
        error = posix_spawn_file_actions_addchdir_np(actions, options->directory);
    }
    return error;
}

/* A session of its own, and none of the agent's blocked or ignored signals. */
static int attributes_fill(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                                         POSIX_SPAWN_SETSIGDEF);
    if (error == 0) {
        error = posix_spawnattr_setsigmask(attributes, &none);
    }
    return error == 0 ? posix_spawnattr_setsigdefault(attributes, &all) : error;
}

static int spawn_with(const struct process_options *options, int stdin_fd, char **argv, char **env,
                      pid_t *out)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = actions_fill(&actions, options, stdin_fd);
        if (error == 0) {
            error = attributes_fill(&attributes);
        }
        if (error == 0) {
            error = posix_spawn(out, argv[0], &actions, &attributes, argv, env);
        }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static struct baton_status spawn(const struct process *process, const char *checkpoint,
                                 int stdin_fd, pid_t *out)
{
    const struct process_options *options = &process->options;
    struct args_words words = { checkpoint, options->guard_page, options->token_file };
    char **argv = NULL;
    char **env = NULL;
    struct baton_status st = args_make(STARTER, options->argv, &words, &argv);
    if (baton_ok(&st)) {
        st = args_env(options->env, &words, &env);
    }
    if (baton_ok(&st)) {
        int error = spawn_with(options, stdin_fd, argv, env, out);
        if (error != 0) {
            st = baton_status_errno(error, "start with log", options->log_file);
        }
    }
    args_free(argv);
    args_free(env);
    return st;
}

static struct baton_status pid_file_make(struct process *process)
{
    struct proc_info leader;
    struct proc_file file = { .pid = process->pid };
    if (!proc_read(process->pid, &leader)) {
        return baton_status_make(BATON_INTERNAL, BATON_REASON_IO, "its /proc entry is missing");
    }
    process->start_ticks = leader.start_ticks;
    file.start_ticks = leader.start_ticks;
    struct baton_status st = proc_boot(file.boot);
    return baton_ok(&st) ? proc_file_write(process->options.pid_file, &file) : st;
}

/* Writes the line that the starter waits for. */
static struct baton_status release(int stdin_fd)
{
    static const char GO[] = "go\n";
    ssize_t written = write(stdin_fd, GO, sizeof GO - 1);
    return written == (ssize_t)sizeof GO - 1
               ? baton_status_ok()
               : baton_status_errno(written < 0 ? errno : EPIPE, "start", "the engine's shell");
}

static struct baton_status launch(struct process *process, const char *checkpoint,
                                  const int pipe_fds[2])
{
    pid_t pid = 0;
    struct baton_status st = spawn(process, checkpoint, pipe_fds[0], &pid);
    if (!baton_ok(&st)) {
        return st;
    }
    process->state = (struct process_state){ .phase = PROCESS_RUNNING, .pid = pid };
    process->pid = pid;
    process->is_child = true;
    process->pidfd = pidfd_open(pid, 0);
    if (process->pidfd < 0) {
        st = baton_status_errno(errno, "pidfd_open", process->options.name);
    }
    if (baton_ok(&st)) {
        st = pid_file_make(process);
    }
    return baton_ok(&st) ? release(pipe_fds[1]) : st;
}

/* The shell has not been released: it ends by SIGKILL at once, and is reaped. */
static void launch_undo(struct process *process)
{
    if (process->pid == 0) {
        return;
    }
    (void)kill(process->pid, SIGKILL);
    (void)waitpid(process->pid, NULL, 0);
    process->is_child = false;
    forget(process);
    process->state.phase = PROCESS_NONE;
    process->state.pid = 0;
}

struct baton_status process_start(struct process *process, const char *checkpoint,
                                  uint64_t deadline_ns)
{
    int pipe_fds[2];
    look(process);
    if (process->state.phase != PROCESS_NONE) {
        return baton_status_hint(baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                                                   "engine %s: process %d of its session is alive",
                                                   process->options.name, (int)process->pid),
                                 "end it first");
    }
    if (baton_clock_monotonic_ns() >= deadline_ns) {
        return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_NONE,
                                 "engine %s: no time left to start it", process->options.name);
    }
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return baton_status_errno(errno, "pipe", process->options.name);
    }
    struct baton_status st = launch(process, checkpoint, pipe_fds);
    if (!baton_ok(&st)) {
        launch_undo(process);
    }
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
    return baton_status_in(st, "engine %s", process->options.name);
}

/* --- ending ------------------------------------------------------------------------------------ */

/* Until the leader ends or a moment has passed. */
static void pause_short(const struct process *process)
{
    struct pollfd fd = { .fd = leader_lives(process) ? process->pidfd : -1, .events = POLLIN };
    (void)poll(&fd, 1, LOOK_AGAIN_MS);
}

/* True once nothing of the session is left. */
static bool wait_gone(struct process *process, int again, uint64_t until_ns)
{
    for (;;) {
        look(process);
        if (process->state.phase == PROCESS_NONE) {
            return true;
        }
        if (baton_clock_monotonic_ns() >= until_ns) {
            return false;
        }
        /* A member may have been born since the last signal. */
        if (again != 0) {
            proc_session_signal(process->pid, again);
        }
        pause_short(process);
    }
}

struct baton_status process_kill(struct process *process, uint64_t grace_ns, uint64_t deadline_ns)
{
    struct proc_info member;
    look(process);
    if (process->state.phase == PROCESS_NONE) {
        return baton_status_ok();
    }
    uint64_t grace_end = baton_clock_monotonic_ns() + grace_ns;
    proc_session_signal(process->pid, SIGTERM);
    if (wait_gone(process, 0, grace_end < deadline_ns ? grace_end : deadline_ns) ||
        wait_gone(process, SIGKILL, deadline_ns)) {
        return baton_status_ok();
    }
    if (!proc_session_find(process->pid, &member)) {
        member = (struct proc_info){ .pid = process->pid };
    }
    return baton_status_hint(
        baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_IN_USE,
                          "engine %s: process %d (%s) does not end", process->options.name,
                          (int)member.pid, member.name),
        "look at it with ps; a process in state D waits for a device or a disk");
}
