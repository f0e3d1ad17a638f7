#include "tests/conformance/engine_mini.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/guard.h"
#include "api/base/bytes.h"

enum { COMMAND_BYTES = 3 * BATON_PATH_BYTES, START_S = 30, END_MS = 20000 };

static bool shell(const char *command)
{
    return system(command) == 0; /* NOLINT: a test's own words. */
}

static bool seal(const struct mini_programs *programs, const char *from, const char *folder,
                 const char *name, struct rig_version *out)
{
    char command[COMMAND_BYTES];
    char landing[BATON_NAME_BYTES + 16];
    (void)snprintf(landing, sizeof landing, "%s/%s", folder, name);
    (void)snprintf(command, sizeof command, "cp -r '%s' '%s' && '%s' '%s' >/dev/null", from,
                   landing, programs->seal, landing);
    return rig_check(shell(command), "landing is made", "%s", command) &&
           rig_version_load(out, landing);
}

bool mini_scratch_make(const struct mini_programs *programs, struct mini_scratch *scratch)
{
    (void)snprintf(scratch->folder, sizeof scratch->folder, "/tmp/engine_mini_XXXXXX");
    return rig_check(mkdtemp(scratch->folder) != NULL, "scratch folder", "cannot be made") &&
           seal(programs, programs->version_a, scratch->folder, "a", &scratch->a) &&
           seal(programs, programs->version_b, scratch->folder, "b", &scratch->b);
}

void mini_scratch_drop(struct mini_scratch *scratch)
{
    char command[COMMAND_BYTES];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", scratch->folder);
    (void)shell(command);
}

/* The port that the engine took, from its log; 0: it has not said yet. */
static unsigned long port_of(const char *log_file)
{
    static const char SAYS[] = "listening on 127.0.0.1:";
    char text[4096] = "";
    int fd = open(log_file, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    text[length > 0 ? length : 0] = '\0';
    const char *at = strstr(text, SAYS);
    return at != NULL && strchr(at, '\n') != NULL ? strtoul(at + sizeof SAYS - 1, NULL, 10) : 0;
}

static bool wait_serves(struct mini *mini, const char *log_file)
{
    unsigned long port = 0;
    uint64_t deadline = baton_clock_monotonic_ns() + START_S * BATON_NS_PER_S;
    struct process_state state = { .phase = PROCESS_RUNNING };
    while (port == 0 && state.phase == PROCESS_RUNNING && baton_clock_monotonic_ns() < deadline) {
        baton_clock_sleep_ns(2 * BATON_NS_PER_MS);
        process_look(mini->process, &state);
        port = port_of(log_file);
    }
    (void)snprintf(mini->rig.options.url, sizeof mini->rig.options.url, "http://127.0.0.1:%lu",
                   port);
    return port != 0 || rig_check(false, "miniengine starts", "%s", state.exit_text);
}

static struct process_options process_options(const struct mini *mini,
                                              const struct mini_scratch *scratch)
{
    struct process_options options = { .name = "mini" };
    (void)snprintf(options.pid_file, sizeof options.pid_file, "%s/pid", scratch->folder);
    (void)snprintf(options.log_file, sizeof options.log_file, "%s/log", scratch->folder);
    memcpy(options.guard_page, mini->rig.options.guard_page, sizeof options.guard_page);
    memcpy(options.token_file, mini->rig.options.token_file, sizeof options.token_file);
    (void)unlink(options.log_file);
    return options;
}

static bool process_begin(struct mini *mini, const struct mini_programs *programs,
                          const struct mini_scratch *scratch, const char *ranks)
{
    struct process_options options = process_options(mini, scratch);
    const char *const argv[] = { programs->miniengine,     "--model", "{checkpoint}", "--port", "0",
                                 "--tensor-parallel-size", ranks,     "--faults",     NULL };
    options.argv = argv;
    struct baton_status st = process_open(&options, &mini->process);
    if (baton_ok(&st)) {
        st = process_start(mini->process, scratch->a.landing,
                           baton_clock_monotonic_ns() + START_S * BATON_NS_PER_S);
    }
    if (!baton_ok(&st)) {
        return rig_check_ok(&st, "start miniengine");
    }
    return wait_serves(mini, options.log_file);
}

static bool faults_open(struct mini *mini)
{
    char token[ENGINE_TOKEN_BYTES_MAX];
    struct baton_status st = engine_token_load(mini->rig.options.token_file, token);
    struct http_options options = { .url = mini->rig.options.url, .token = token };
    if (baton_ok(&st)) {
        st = http_open(&options, &mini->http);
    }
    return baton_ok(&st) || rig_check_ok(&st, "faults");
}

/* As the agent does it: token and page are there before the engine starts. */
static bool rig_prepare(struct rig *rig, const struct mini_scratch *scratch)
{
    char token[ENGINE_TOKEN_BYTES_MAX];
    rig->a = scratch->a;
    rig->b = scratch->b;
    (void)snprintf(rig->options.name, sizeof rig->options.name, "mini");
    (void)snprintf(rig->options.guard_page, sizeof rig->options.guard_page, "%s/page",
                   scratch->folder);
    (void)snprintf(rig->options.token_file, sizeof rig->options.token_file, "%s/token",
                   scratch->folder);
    struct baton_status st = engine_token_load(rig->options.token_file, token);
    return baton_ok(&st) || rig_check_ok(&st, "token");
}

bool mini_start(struct mini *mini, const struct mini_programs *programs,
                const struct mini_scratch *scratch, const char *ranks)
{
    *mini = (struct mini){ .rig = { .call_ns = START_S * BATON_NS_PER_S } };
    return rig_prepare(&mini->rig, scratch) && process_begin(mini, programs, scratch, ranks) &&
           faults_open(mini) && rig_open(&mini->rig);
}

void mini_stop(struct mini *mini)
{
    rig_close(&mini->rig);
    http_close(mini->http);
    if (mini->process != NULL) {
        struct baton_status st =
            process_kill(mini->process, 0, baton_clock_monotonic_ns() + START_S * BATON_NS_PER_S);
        if (!baton_ok(&st)) {
            rig_check_ok(&st, "miniengine ends");
        }
        process_close(mini->process);
    }
    *mini = (struct mini){ 0 };
}

static bool faults_call(struct mini *mini, const char *method, const char *body)
{
    struct http_answer answer;
    struct http_request request = { method, "/miniengine/faults", body, .repeatable = false };
    struct baton_status st = http_call(
        mini->http, &request, baton_clock_monotonic_ns() + START_S * BATON_NS_PER_S, &answer);
    return rig_check(baton_ok(&st) && answer.code == 200, "fault", "%s %s: %u %s %s", method,
                     body != NULL ? body : "", answer.code, answer.body, st.message);
}

bool mini_fault(struct mini *mini, const char *fault)
{
    return faults_call(mini, "POST", fault);
}

void mini_clear(struct mini *mini)
{
    (void)faults_call(mini, "DELETE", NULL);
}

bool mini_ended(struct mini *mini)
{
    struct pollfd fd = { .fd = process_fd(mini->process), .events = POLLIN };
    return fd.fd < 0 || poll(&fd, 1, END_MS) == 1;
}
