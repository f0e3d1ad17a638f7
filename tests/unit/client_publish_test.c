/* client_publish_test.c -- libbaton against a real local server with a recording sink. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/client/baton.h"
#include "tests/unit/local_recorder.h"

static char dir[64];
static char address[128];
static struct recorder *recorder;
static struct local_server *server;
static struct baton_error error = BATON_ERROR_INIT;

static void start_server(void)
{
    struct local_server_options options = { .address = address,
                                            .agent = "agent-1",
                                            .sink = recorder_sink(recorder) };
    struct baton_status st = local_server_create(&options, &server);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void set_up(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/baton-client-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    (void)snprintf(address, sizeof(address), "unix:%s/agent.sock", dir);
    recorder = recorder_create();
    start_server();
}

static void tear_down(void)
{
    local_server_destroy(server);
    recorder_destroy(recorder);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
}

TestSuite(publish, .init = set_up, .fini = tear_down, .timeout = 60);

static struct baton_agent *connect_now(void)
{
    struct baton_agent *agent = NULL;
    cr_assert_eq(baton_connect(address, 5000, &agent, &error), 0, "%s", error.message);
    return agent;
}

static struct baton_publish_options options_of(const char *model)
{
    struct baton_publish_options options = BATON_PUBLISH_OPTIONS_INIT;
    options.model = model;
    options.timeout_ms = 20000;
    return options;
}

static struct baton_publish *begin_now(struct baton_agent *agent, bool is_inline)
{
    struct baton_publish_options options = options_of("m");
    options.inline_bytes = is_inline ? 1 : 0;
    struct baton_publish *publish = NULL;
    cr_assert_eq(baton_publish_begin(agent, &options, &publish, &error), 0, "%s", error.message);
    return publish;
}

/* A tensor of bytes that follow from its number, so that a mix-up shows. */
static int add_tensor(struct baton_publish *publish, unsigned number, uint64_t bytes)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "layer.%u.weight", number);
    uint8_t *data = malloc(bytes + 1);
    for (uint64_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)(i * 7 + number);
    }
    struct baton_tensor tensor = { sizeof(tensor), 1, name, "U8", &bytes, data, bytes };
    int code = baton_publish_tensor(publish, &tensor, &error);
    free(data);
    return code;
}

static void expect_tensor(unsigned number, uint64_t bytes)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "layer.%u.weight", number);
    const struct recorded_entry *got = recorder_find(recorder, name);
    cr_assert_not_null(got, "%s", name);
    cr_assert_eq(got->have, bytes);
    cr_assert_eq(got->entry.rank, 1);
    cr_assert_eq(got->entry.dims[0], bytes);
    for (uint64_t i = 0; i < bytes; i++) {
        cr_assert_eq(got->bytes[i], (uint8_t)(i * 7 + number), "%s at %lu", name, i);
    }
}

Test(publish, info_and_ping)
{
    struct baton_agent *agent = connect_now();
    struct baton_agent_info info = BATON_AGENT_INFO_INIT;
    cr_assert_eq(baton_get_agent_info(agent, 5000, &info, &error), 0, "%s", error.message);
    cr_assert_str_eq(info.name, "agent-1");
    cr_assert_str_eq(info.controller, "127.0.0.1:7070");
    cr_assert_str_eq(info.directory, "/versions");
    cr_assert_eq(info.connected, 1);
    cr_assert_eq(info.publishing, 3);
    cr_assert_eq(baton_ping(agent, 5000, &error), 0, "%s", error.message);
    baton_close(agent);
    baton_close(NULL);
}

struct seen {
    unsigned calls;
    unsigned stop_at; /* 0: never. */
    uint32_t phase;
    uint64_t done;
    uint64_t total;
};

static int see(const struct baton_progress *progress, void *context)
{
    struct seen *seen = context;
    seen->calls++;
    seen->phase = progress->phase;
    seen->done = progress->bytes_done;
    seen->total = progress->bytes_total;
    if (seen->calls == 3) {
        atomic_store(&recorder->blocks, false);
    }
    return seen->stop_at != 0 && seen->calls >= seen->stop_at;
}

/* All that the caller said reaches the source, and its answer comes back; progress on the way. */
Test(publish, directory)
{
    struct baton_agent *agent = connect_now();
    struct seen seen = { 0 };
    struct baton_publish_options options = options_of("qwen3");
    options.request_id = "retry-me";
    options.optimizer_step = 12;
    options.rollout_iteration = 3;
    options.samples_trained = 4096;
    options.parent_seq = 2;
    options.partial = 1;
    options.reason = "nightly";
    options.progress = see;
    options.context = &seen;
    atomic_store(&recorder->blocks, true);
    struct baton_published out = BATON_PUBLISHED_INIT;
    int code = baton_publish_directory(agent, &options, "/some/checkpoint", &out, &error);
    cr_assert_eq(code, 0, "%s", error.message);
    cr_assert_eq(out.seq, 7);
    cr_assert_str_eq(out.uid, "00112233445566778899aabbccddeeff");
    cr_assert_str_eq(recorder->request.directory, "/some/checkpoint");
    cr_assert_str_eq(recorder->request.request_id, "retry-me");
    cr_assert_eq(recorder->request.optimizer_step, 12);
    cr_assert_eq(recorder->request.samples_trained, 4096);
    cr_assert_eq(recorder->request.parent_seq, 2);
    cr_assert(recorder->request.partial);
    cr_assert_str_eq(recorder->request.reason, "nightly");
    cr_assert_geq(seen.calls, 3);
    cr_assert_eq(seen.phase, BATON_PHASE_COPYING);
    cr_assert_eq(seen.total, 1000000000);
    struct baton_published last = BATON_PUBLISHED_INIT;
    cr_assert_eq(baton_last_result(agent, &last, &error), 0);
    cr_assert_str_eq(last.digest, out.digest);
    baton_close(agent);
}

/* A callback that says stop cancels at the source, and the connection goes on. */
Test(publish, directory_cancelled_by_its_callback)
{
    struct baton_agent *agent = connect_now();
    struct seen seen = { .stop_at = 2 };
    struct baton_publish_options options = options_of("m");
    options.progress = see;
    options.context = &seen;
    atomic_store(&recorder->blocks, true);
    int code = baton_publish_directory(agent, &options, "/c", NULL, &error);
    cr_assert_eq(code, 1, "%d %s", code, error.message);
    cr_assert_eq(atomic_load(&recorder->cancelled), 1);
    cr_assert_eq(baton_ping(agent, 5000, &error), 0, "%s", error.message);
    baton_close(agent);
}

/* A publish that takes longer than its timeout: the call ends, the source goes on. */
Test(publish, directory_timeout)
{
    struct baton_agent *agent = connect_now();
    struct baton_publish_options options = options_of("m");
    options.timeout_ms = 100;
    atomic_store(&recorder->blocks, true);
    cr_assert_eq(baton_publish_directory(agent, &options, "/c", NULL, &error), 4);
    cr_assert(strstr(error.hint, "request id") != NULL, "%s", error.hint);
    atomic_store(&recorder->blocks, false);
    cr_assert(recorder_wait(&recorder->committed, 1));
    baton_close(agent);
}

static void publish_some(bool is_inline)
{
    static const uint64_t sizes[] = { 1, 0, 4096, 100000, (2 << 20) + 3, 63 };
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, is_inline);
    for (unsigned i = 0; i < 6; i++) {
        cr_assert_eq(add_tensor(publish, i, sizes[i]), 0, "%s", error.message);
    }
    cr_assert_eq(baton_publish_file(publish, "config.json", "{}", 2, &error), 0);
    cr_assert_eq(baton_publish_file(publish, "empty.txt", NULL, 0, &error), 0);
    struct baton_published out = BATON_PUBLISHED_INIT;
    cr_assert_eq(baton_publish_commit(publish, &out, &error), 0, "%s", error.message);
    cr_assert_eq(strlen(baton_publish_request_id(publish)), 32);
    baton_publish_end(publish);
    cr_assert_eq(out.seq, 7);
    cr_assert_eq(recorder->entries_count, 8);
    for (unsigned i = 0; i < 6; i++) {
        expect_tensor(i, sizes[i]);
    }
    const struct recorded_entry *file = recorder_find(recorder, "config.json");
    cr_assert_not_null(file);
    cr_assert_str_eq(file->entry.dtype, "");
    cr_assert_arr_eq(file->bytes, "{}", 2);
    cr_assert_eq(file->entry.is_inline, is_inline);
    cr_assert_eq(atomic_load(&recorder->dropped), 0);
    baton_close(agent);
}

Test(publish, tensors_in_shared_memory)
{
    publish_some(false);
}

Test(publish, tensors_inline)
{
    publish_some(true);
}

/* More than one segment: by size, and by the number of entries. */
Test(publish, many_segments)
{
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    for (unsigned i = 0; i < 3000; i++) {
        cr_assert_eq(add_tensor(publish, i, 100 + i % 50), 0, "%s", error.message);
    }
    cr_assert_eq(add_tensor(publish, 3000, (70 << 20) + 1), 0, "%s", error.message);
    cr_assert_eq(add_tensor(publish, 3001, 10), 0, "%s", error.message);
    cr_assert_eq(baton_publish_commit(publish, NULL, &error), 0, "%s", error.message);
    baton_publish_end(publish);
    cr_assert_eq(recorder->entries_count, 3002);
    for (unsigned i = 0; i < 3000; i += 500) {
        expect_tensor(i, 100 + i % 50);
    }
    cr_assert_eq(recorder_find(recorder, "layer.3000.weight")->bytes[70 << 20],
                 (uint8_t)((70u << 20) * 7 + 3000));
    expect_tensor(3001, 10);
    baton_close(agent);
}

/* The trainer goes on after send: the wait may time out, and come again. */
Test(publish, send_then_wait)
{
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    cr_assert_eq(add_tensor(publish, 1, 10), 0);
    atomic_store(&recorder->blocks, true);
    cr_assert_eq(baton_publish_wait(publish, 1, NULL, &error), 3, "not sent yet");
    cr_assert_eq(baton_publish_send(publish, &error), 0, "%s", error.message);
    cr_assert_eq(add_tensor(publish, 2, 10), 9, "nothing may follow");
    cr_assert_eq(baton_publish_wait(publish, 1, NULL, &error), 4);
    atomic_store(&recorder->blocks, false);
    struct baton_published out = BATON_PUBLISHED_INIT;
    cr_assert_eq(baton_publish_wait(publish, 0, &out, &error), 0, "%s", error.message);
    cr_assert_eq(baton_publish_wait(publish, 0, &out, &error), 0, "the answer stays");
    cr_assert_eq(out.seq, 7);
    baton_publish_end(publish);
    cr_assert_eq(baton_ping(agent, 5000, &error), 0, "%s", error.message);
    baton_close(agent);
}

/* A refused tensor fails the publish with the sink's words; the connection may be used again. */
static void refused(bool is_inline)
{
    recorder->refused_entry = "layer.2.weight";
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, is_inline);
    int code = 0;
    for (unsigned i = 0; i < 5 && code == 0; i++) {
        code = add_tensor(publish, i, 100000);
    }
    code = code != 0 ? code : baton_publish_commit(publish, NULL, &error);
    cr_assert_eq(code, 3);
    cr_assert_str_eq(error.message, "tensor 'layer.2.weight': not in the parent");
    cr_assert_str_eq(error.reason, "INCOMPATIBLE");
    baton_publish_end(publish);
    cr_assert_eq(atomic_load(&recorder->dropped), 1);
    cr_assert_eq(atomic_load(&recorder->committed), 0);
    recorder->refused_entry = NULL;
    publish = begin_now(agent, is_inline);
    cr_assert_eq(add_tensor(publish, 1, 10), 0);
    cr_assert_eq(baton_publish_commit(publish, NULL, &error), 0, "%s", error.message);
    baton_publish_end(publish);
    baton_close(agent);
}

Test(publish, refused_tensor)
{
    refused(false);
}

Test(publish, refused_tensor_inline)
{
    refused(true);
}

Test(publish, refused_at_its_begin)
{
    recorder->refuses_begin = true;
    struct baton_agent *agent = connect_now();
    struct baton_publish_options options = options_of("m");
    struct baton_publish *publish = NULL;
    cr_assert_eq(baton_publish_begin(agent, &options, &publish, &error), 5);
    cr_assert_str_eq(error.message, "no model 'm'");
    cr_assert_eq(baton_ping(agent, 5000, &error), 0, "%s", error.message);
    baton_close(agent);
}

/* Ended without commit: dropped, whether by the handle, by the connection, or by death. */
Test(publish, abandoned)
{
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    cr_assert_eq(add_tensor(publish, 1, 10), 0);
    baton_publish_end(publish);
    cr_assert_eq(atomic_load(&recorder->dropped), 1);
    publish = begin_now(agent, true);
    cr_assert_eq(add_tensor(publish, 1, 10), 0);
    baton_close(agent);
    cr_assert(recorder_wait(&recorder->dropped, 2));
    cr_assert_eq(add_tensor(publish, 2, 10), 3, "its connection is gone");
    baton_publish_end(publish);
    cr_assert_eq(atomic_load(&recorder->committed), 0);
}

/* A client that dies once all was handed over has published. */
Test(publish, client_dies_after_send)
{
    atomic_store(&recorder->blocks, true);
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    cr_assert_eq(add_tensor(publish, 1, 10), 0);
    cr_assert_eq(baton_publish_send(publish, &error), 0);
    baton_close(agent);
    baton_publish_end(publish);
    atomic_store(&recorder->blocks, false);
    cr_assert(recorder_wait(&recorder->committed, 1));
}

Test(publish, cancelled_after_send)
{
    atomic_store(&recorder->blocks, true);
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    cr_assert_eq(add_tensor(publish, 1, 10), 0);
    cr_assert_eq(baton_publish_send(publish, &error), 0);
    cr_assert_eq(baton_publish_cancel(publish, &error), 0);
    cr_assert_eq(baton_publish_wait(publish, 0, NULL, &error), 1);
    baton_publish_end(publish);
    cr_assert_eq(atomic_load(&recorder->cancelled), 1);
    cr_assert_eq(baton_ping(agent, 5000, &error), 0, "%s", error.message);
    baton_close(agent);
}

/* Wrong calls are refused here, with the field's name, and break nothing. */
Test(publish, wrong_arguments)
{
    struct baton_agent *agent = connect_now();
    struct baton_publish_options options = options_of("Not A Name");
    cr_assert_eq(baton_publish_directory(agent, &options, "/c", NULL, &error), 3);
    cr_assert(strstr(error.message, "model") != NULL);
    options = options_of("m");
    options.reason = "two\nlines";
    cr_assert_eq(baton_publish_directory(agent, &options, "/c", NULL, &error), 3);
    cr_assert(strstr(error.message, "reason") != NULL);
    options = options_of("m");
    options.request_id = "0123456789012345678901234567890123456789012345678901234567890123";
    cr_assert_eq(baton_publish_directory(agent, &options, "/c", NULL, &error), 3);
    options = options_of("m");
    cr_assert_eq(baton_publish_directory(agent, &options, "no/such/place", NULL, &error), 5);
    cr_assert_eq(baton_publish_directory(agent, NULL, "/c", NULL, &error), 3);
    struct baton_publish *publish = begin_now(agent, false);
    cr_assert_eq(baton_publish_directory(agent, &options, "/c", NULL, &error), 9);
    cr_assert_eq(baton_ping(agent, 1000, &error), 9);
    struct baton_tensor tensor = { sizeof(tensor), 9, "x", "F32", NULL, "", 4 };
    cr_assert_eq(baton_publish_tensor(publish, &tensor, &error), 3);
    tensor.rank = 0;
    tensor.name = NULL;
    cr_assert_eq(baton_publish_tensor(publish, &tensor, &error), 3);
    tensor.name = "x";
    tensor.data = NULL;
    cr_assert_eq(baton_publish_tensor(publish, &tensor, &error), 3);
    cr_assert_eq(baton_publish_file(publish, "", "a", 1, &error), 3);
    cr_assert_eq(add_tensor(publish, 1, 10), 0, "still open: %s", error.message);
    cr_assert_eq(baton_publish_commit(publish, NULL, &error), 0, "%s", error.message);
    baton_publish_end(publish);
    baton_close(agent);
}

/* A forked child may not speak on the inherited connection, and closing there leaves it working. */
Test(publish, fork)
{
    struct baton_agent *agent = connect_now();
    pid_t child = fork();
    if (child == 0) {
        struct baton_error child_error = BATON_ERROR_INIT;
        int code = baton_ping(agent, 1000, &child_error);
        baton_close(agent);
        _exit(code == 9 && strstr(child_error.hint, "Connect again") != NULL ? 0 : 1);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    cr_assert_eq(baton_ping(agent, 5000, &error), 0, "%s", error.message);
    baton_close(agent);
}

/* The parent's close is seen by the agent although a child still holds the socket. */
Test(publish, close_while_a_child_lives)
{
    int hold[2];
    cr_assert_eq(pipe(hold), 0);
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        (void)close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1); /* Until the parent lets go. */
    }
    (void)close(hold[0]);
    baton_close(agent);
    cr_assert(recorder_wait(&recorder->dropped, 1));
    (void)close(hold[1]);
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
    baton_publish_end(publish);
}

/* An agent that stops in the middle is an error with what to do next, not a signal. */
Test(publish, agent_stops)
{
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    local_server_destroy(server);
    server = NULL;
    int code = 0;
    for (unsigned i = 0; i < 100 && code == 0; i++) {
        code = add_tensor(publish, i, 8 << 20);
    }
    cr_assert_eq(code, 14, "%d %s", code, error.message);
    cr_assert(strstr(error.message, "shuts down") != NULL, "%s", error.message);
    baton_publish_end(publish);
    baton_close(agent);
    cr_assert_eq(baton_connect(address, 1000, &agent, &error), 14);
    cr_assert(strstr(error.hint, "baton-agent") != NULL, "%s", error.hint);
}

Test(publish, agent_stops_during_a_commit)
{
    atomic_store(&recorder->blocks, true);
    struct baton_agent *agent = connect_now();
    struct baton_publish *publish = begin_now(agent, false);
    cr_assert_eq(baton_publish_send(publish, &error), 0);
    cr_assert(recorder_wait(&recorder->working, 1));
    local_server_destroy(server);
    server = NULL;
    cr_assert_eq(baton_publish_wait(publish, 0, NULL, &error), 1, "%s", error.message);
    baton_publish_end(publish);
    baton_close(agent);
}
