/* agent/engine/process with real processes. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/engine/process.h"
#include "agent/engine/process_args.h"
#include "agent/engine/process_proc.h"
#include "api/base/clock.h"

#define PLENTY (baton_clock_monotonic_ns() + 20 * BATON_NS_PER_S)

enum { SOON_MS = 20000 };

static char directory[64];
static struct process_options options;

static void begin(void)
{
    (void)snprintf(directory, sizeof directory, "/tmp/engine_process_XXXXXX");
    cr_assert_not_null(mkdtemp(directory));
    options = (struct process_options){ .name = "e0" };
    (void)snprintf(options.pid_file, sizeof options.pid_file, "%s/pid", directory);
    (void)snprintf(options.log_file, sizeof options.log_file, "%s/log", directory);
    (void)snprintf(options.directory, sizeof options.directory, "%s", directory);
    (void)snprintf(options.guard_page, sizeof options.guard_page, "%s/page", directory);
}

static void end(void)
{
    DIR *listing = opendir(directory);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        (void)unlinkat(dirfd(listing), entry->d_name, 0);
    }
    (void)closedir(listing);
    (void)rmdir(directory);
}

TestSuite(process, .init = begin, .fini = end);

static struct process *open_command(const char *const *argv)
{
    struct process *process = NULL;
    options.argv = argv;
    struct baton_status st = process_open(&options, &process);
    cr_assert(baton_ok(&st), "%s", st.message);
    return process;
}

static void start(struct process *process)
{
    struct baton_status st = process_start(process, "/some/checkpoint", PLENTY);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static struct process_state look(struct process *process)
{
    struct process_state state;
    process_look(process, &state);
    return state;
}

/* Until the leader has ended; bounded. */
static void wait_leader(struct process *process)
{
    struct pollfd fd = { .fd = process_fd(process), .events = POLLIN };
    cr_assert_eq(poll(&fd, 1, SOON_MS), 1);
}

/* Until the engine's script has made a file of this name. */
static void wait_file(const char *name)
{
    char file[160];
    (void)snprintf(file, sizeof file, "%s/%s", directory, name);
    uint64_t deadline = PLENTY;
    while (access(file, F_OK) != 0) {
        cr_assert_lt(baton_clock_monotonic_ns(), deadline, "%s did not come", name);
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
}

static void read_file(const char *name, char *out, size_t out_bytes)
{
    char file[160];
    (void)snprintf(file, sizeof file, "%s/%s", directory, name);
    int fd = open(file, O_RDONLY);
    ssize_t length = read(fd, out, out_bytes - 1);
    cr_assert(fd >= 0 && length >= 0, "%s", name);
    out[length] = '\0';
    (void)close(fd);
}

static void kill_it(struct process *process, uint64_t grace_ns)
{
    struct baton_status st = process_kill(process, grace_ns, PLENTY);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(look(process).phase, PROCESS_NONE);
    cr_expect_neq(access(options.pid_file, F_OK), 0, "the pid file is gone");
}

Test(process, gives_command_environment_session_and_log)
{
    static const char *const ARGV[] = {
        "/bin/sh",
        "-c",
        "echo \"$1 $2 $BATON_GUARD_PAGE $EXTRA\"; ls -l /proc/self/fd; "
        "ps -o sid= -p $$ | tr -d ' ' > sid; touch done; sleep 600",
        "name",
        "{checkpoint}",
        "{\"json\":\"{guardPage}\"}",
        NULL
    };
    static const char *const ENV[] = { "EXTRA=more", NULL };
    char text[4096];
    char wanted[1200];
    int leak = open("/dev/null", O_RDONLY); /* Not CLOEXEC on purpose. */
    options.env = ENV;
    struct process *process = open_command(ARGV);
    cr_expect_eq(look(process).phase, PROCESS_NONE);
    start(process);
    wait_file("done");
    (void)snprintf(wanted, sizeof wanted, "/some/checkpoint {\"json\":\"%s\"} %s more\n",
                   options.guard_page, options.guard_page);
    read_file("log", text, sizeof text);
    cr_expect_not_null(strstr(text, wanted), "%s", text);
    (void)snprintf(wanted, sizeof wanted, " %d -> /dev/null", leak);
    cr_expect_null(strstr(text, wanted), "%s", text);
    read_file("sid", text, sizeof text);
    cr_expect_eq(atoi(text), look(process).pid, "leader of a session of its own");
    kill_it(process, 10 * BATON_NS_PER_S);
    cr_expect_eq(look(process).exit_signal, SIGTERM);
    process_close(process);
    (void)close(leak);
}

Test(process, notices_an_exit_and_leaves_no_zombie)
{
    static const char *const ARGV[] = { "/bin/sh", "-c", "exit 7", NULL };
    struct process *process = open_command(ARGV);
    start(process);
    pid_t pid = look(process).pid;
    wait_leader(process);
    struct process_state state = look(process);
    cr_expect(state.phase == PROCESS_NONE && state.exit_known && state.exit_code == 7);
    cr_expect_not_null(strstr(state.exit_text, "exit code 7"), "%s", state.exit_text);
    struct proc_info info;
    cr_expect(pid == 0 || !proc_read(pid, &info), "reaped");
    start(process);
    wait_leader(process);
    process_close(process);
    while (waitpid(-1, NULL, 0) > 0) {
    }
}

Test(process, says_when_the_command_does_not_exist)
{
    static const char *const ARGV[] = { "/no/such/program", NULL };
    struct process *process = open_command(ARGV);
    start(process);
    wait_leader(process);
    struct process_state state = look(process);
    cr_expect_eq(state.exit_code, 127);
    cr_expect_not_null(strstr(state.exit_text, "/no/such/program"), "%s", state.exit_text);
    process_close(process);
}

Test(process, kills_a_session_that_ignores_terms_and_proves_it)
{
    /* A leader and a child in another process group, both deaf to SIGTERM. */
    static const char *const ARGV[] = {
        "/bin/bash", "-c",
        "trap '' TERM; set -m; (trap '' TERM; echo $BASHPID > child; exec sleep 600) & "
        "touch done; sleep 600; sleep 600",
        NULL
    };
    char text[32];
    struct proc_info info;
    struct process *process = open_command(ARGV);
    start(process);
    wait_file("done");
    wait_file("child");
    struct baton_status st = process_start(process, "/x", PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_IN_USE, "not twice");
    do {
        read_file("child", text, sizeof text);
    } while (text[0] == '\0');
    kill_it(process, 50 * BATON_NS_PER_MS);
    cr_expect_eq(look(process).exit_signal, SIGKILL);
    cr_expect(!proc_read((pid_t)atoi(text), &info) || !info.alive, "the child too");
    start(process);
    kill_it(process, 0);
    process_close(process);
}

Test(process, a_dead_leader_with_living_ranks_is_not_dead)
{
    static const char *const ARGV[] = { "/bin/sh", "-c",
                                        "sleep 600 & echo $! > rank; touch done; exit 3", NULL };
    struct process *process = open_command(ARGV);
    start(process);
    wait_file("done");
    wait_leader(process);
    struct process_state state = look(process);
    cr_expect_eq(state.phase, PROCESS_REMAINS);
    cr_expect_eq(state.exit_code, 3);
    struct baton_status st = process_start(process, "/x", PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_IN_USE);
    kill_it(process, 10 * BATON_NS_PER_S);
    process_close(process);
}

/* The engine is started by another process (an earlier agent) that is gone by the time we look. */
static void start_in_an_earlier_life(const char *const *argv)
{
    pid_t earlier = fork();
    if (earlier == 0) {
        struct process *process = NULL;
        options.argv = argv;
        struct baton_status st = process_open(&options, &process);
        if (baton_ok(&st)) {
            st = process_start(process, "/some/checkpoint", PLENTY);
        }
        _exit(baton_ok(&st) ? 0 : 1);
    }
    int status = 0;
    cr_assert(waitpid(earlier, &status, 0) == earlier && status == 0);
}

Test(process, is_found_again_after_a_restart_of_the_agent)
{
    static const char *const ARGV[] = { "/bin/sh", "-c", "touch done; sleep 600", NULL };
    start_in_an_earlier_life(ARGV);
    wait_file("done");
    struct process *process = open_command(ARGV);
    struct process_state state = look(process);
    cr_expect(state.phase == PROCESS_RUNNING && state.adopted && state.pid > 0);
    struct baton_status st = process_start(process, "/x", PLENTY);
    cr_expect_eq(st.reason, BATON_REASON_IN_USE, "neither lost nor doubled");
    process_close(process);
    struct proc_info info;
    cr_expect(proc_read(state.pid, &info) && info.alive, "closing leaves it running");
    process = open_command(ARGV);
    kill_it(process, 10 * BATON_NS_PER_S);
    process_close(process);
}

Test(process, trusts_no_number_that_has_a_new_owner)
{
    static const char *const ARGV[] = { "/bin/sh", "-c", "sleep 600", NULL };
    struct proc_file file = { .pid = getpid(), .start_ticks = 1 };
    struct baton_status st = proc_boot(file.boot);
    cr_assert(baton_ok(&st));
    st = proc_file_write(options.pid_file, &file);
    cr_assert(baton_ok(&st));
    struct process *process = open_command(ARGV);
    cr_expect_eq(look(process).phase, PROCESS_NONE, "our own process is no engine");
    process_close(process);
    struct proc_info self;
    cr_assert(proc_read(getpid(), &self));
    file.start_ticks = self.start_ticks;
    (void)snprintf(file.boot, sizeof file.boot, "0-0");
    st = proc_file_write(options.pid_file, &file);
    cr_assert(baton_ok(&st));
    process = open_command(ARGV);
    cr_expect_eq(look(process).phase, PROCESS_NONE, "another boot of the machine");
    process_close(process);
}

Test(process, refuses_a_broken_pid_file_and_unknown_words)
{
    static const char *const ARGV[] = { "/bin/sh", "{checkpoints}", NULL };
    static const char *const FINE[] = { "/bin/sh", "{\"a\":1} {} { x }", NULL };
    struct process *process = NULL;
    options.argv = ARGV;
    struct baton_status st = process_open(&options, &process);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(st.message, "command[1]: {checkpoints}"), "%s", st.message);
    process = open_command(FINE);
    process_close(process);
    int fd = open(options.pid_file, O_WRONLY | O_CREAT, 0600);
    cr_assert(fd >= 0 && write(fd, "12 what", 7) == 7);
    (void)close(fd);
    process = NULL;
    st = process_open(&options, &process);
    cr_expect_eq(st.code, BATON_DATA_LOSS);
    cr_expect_not_null(strstr(st.message, options.pid_file));
    cr_expect_null(process);
}

Test(process, names_the_log_file_that_cannot_be_opened)
{
    static const char *const ARGV[] = { "/bin/sh", "-c", "exit 0", NULL };
    (void)snprintf(options.log_file, sizeof options.log_file, "%s/none/log", directory);
    struct process *process = open_command(ARGV);
    struct baton_status st = process_start(process, "/x", PLENTY);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    cr_expect_not_null(strstr(st.message, "none/log"), "%s", st.message);
    cr_expect_eq(look(process).phase, PROCESS_NONE);
    process_close(process);
}

/* Where the pid file cannot be written, the engine's program never gets control: an engine that nobody
 * would find again must not run. */
Test(process, runs_nothing_that_it_could_not_find_again)
{
    static const char *const ARGV[] = { "/bin/sh", "-c", "touch ran", NULL };
    char file[160];
    (void)snprintf(options.pid_file, sizeof options.pid_file, "%s/none/pid", directory);
    struct process *process = open_command(ARGV);
    struct baton_status st = process_start(process, "/x", PLENTY);
    cr_expect_eq(st.code, BATON_NOT_FOUND, "%s", st.message);
    cr_expect_eq(look(process).phase, PROCESS_NONE);
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "no child is left");
    (void)snprintf(file, sizeof file, "%s/ran", directory);
    cr_expect_neq(access(file, F_OK), 0);
    process_close(process);
}
