/* ranks.c -- see ranks.h. */
#include "tests/miniengine/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Descriptors of a rank process, from here on. */
enum { FD_FIRST = 3, FD_COMMAND = 3, FD_REPLY, FD_EXCHANGE, FD_FAULTS };
enum { ARGUMENTS_MAX = 64, GATHER_BYTES_MAX = 512, FRAME_BYTES_MAX = 16 << 20 };

/* How long rank 0 waits in a step for a rank before it takes it for dead, as vLLM does. */
enum { EXCHANGE_SECONDS = 300 };

struct frame {
    uint32_t kind;
    uint32_t bytes;
};

static bool send_all(int fd, const void *data, size_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t sent = send(fd, next, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        next += sent;
        bytes -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t bytes)
{
    char *next = data;
    while (bytes > 0) {
        ssize_t got = recv(fd, next, bytes, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        next += got;
        bytes -= (size_t)got;
    }
    return true;
}

/* In the child, between fork and exec. */
static _Noreturn void become_rank(const int *fds, char *const *arguments, pid_t parent)
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    int high[4];
    for (int i = 0; i < 4; i++) {
        high[i] = fds[i] >= 0 ? fcntl(fds[i], F_DUPFD_CLOEXEC, FD_FIRST + 16) : -1;
    }
    for (int i = 0; i < 4; i++) {
        if (high[i] >= 0 && dup2(high[i], FD_FIRST + i) < 0) {
            _exit(1);
        }
    }
    (void)execv("/proc/self/exe", arguments);
    _exit(1);
}

static bool start_one(struct ranks *ranks, uint32_t rank, char *const *arguments, int faults_fd)
{
    int command[2];
    int reply[2];
    int exchange[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, command) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, reply) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, exchange) != 0) {
        return false;
    }
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0) {
        const int fds[4] = { command[1], reply[1], exchange[1], faults_fd };
        become_rank(fds, arguments, parent);
    }
    close(command[1]);
    close(reply[1]);
    close(exchange[1]);
    struct timeval wait = { .tv_sec = EXCHANGE_SECONDS };
    (void)setsockopt(exchange[0], SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    ranks->command[rank] = command[0];
    ranks->reply[rank] = reply[0];
    ranks->exchange[rank] = exchange[0];
    ranks->pids[rank] = pid;
    return pid > 0;
}

bool ranks_start(struct ranks *ranks, uint32_t count, char *const *arguments, int faults_fd)
{
    memset(ranks, 0, sizeof *ranks);
    ranks->count = count;
    char *copy[ARGUMENTS_MAX + 2] = { NULL };
    size_t used = 0;
    while (arguments[used] != NULL && used < ARGUMENTS_MAX) {
        copy[used] = arguments[used];
        used++;
    }
    for (uint32_t rank = 1; rank < count; rank++) {
        char worker[32];
        (void)snprintf(worker, sizeof worker, "--worker=%u", rank);
        copy[used] = worker;
        if (!start_one(ranks, rank, copy, faults_fd)) {
            return false;
        }
    }
    return true;
}

bool ranks_attach(struct ranks *ranks, uint32_t rank, uint32_t count, int *faults_fd)
{
    memset(ranks, 0, sizeof *ranks);
    ranks->rank = rank;
    ranks->count = count;
    ranks->command[0] = FD_COMMAND;
    ranks->reply[0] = FD_REPLY;
    ranks->exchange[0] = FD_EXCHANGE;
    *faults_fd = fcntl(FD_FAULTS, F_GETFD) >= 0 ? FD_FAULTS : -1;
    return fcntl(FD_COMMAND, F_GETFD) >= 0 && fcntl(FD_EXCHANGE, F_GETFD) >= 0;
}

void ranks_stop(struct ranks *ranks)
{
    for (uint32_t rank = 1; ranks->rank == 0 && rank < ranks->count; rank++) {
        if (ranks->pids[rank] > 0) {
            (void)kill(ranks->pids[rank], SIGKILL);
        }
    }
}

static float *room_for(struct ranks *ranks, size_t count)
{
    if (ranks->sum_count < count) {
        float *more = realloc(ranks->sum, count * sizeof *more);
        if (more == NULL) {
            return NULL;
        }
        ranks->sum = more;
        ranks->sum_count = count;
    }
    return ranks->sum;
}

bool ranks_join(void *self, float *values, size_t count)
{
    struct ranks *ranks = self;
    size_t bytes = count * sizeof *values;
    if (ranks->rank != 0) {
        return send_all(ranks->exchange[0], values, bytes) &&
               receive_all(ranks->exchange[0], values, bytes);
    }
    float *other = room_for(ranks, count);
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (other == NULL || !receive_all(ranks->exchange[rank], other, bytes)) {
            return false;
        }
        for (size_t i = 0; i < count; i++) {
            values[i] += other[i];
        }
    }
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (!send_all(ranks->exchange[rank], values, bytes)) {
            return false;
        }
    }
    return true;
}

bool ranks_gather(struct ranks *ranks, const void *mine, void *all, size_t bytes)
{
    char *slots = all;
    if (bytes > GATHER_BYTES_MAX) {
        return false;
    }
    memcpy(slots + ranks->rank * bytes, mine, bytes);
    if (ranks->rank != 0) {
        return send_all(ranks->exchange[0], mine, bytes) &&
               receive_all(ranks->exchange[0], all, bytes * ranks->count);
    }
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (!receive_all(ranks->exchange[rank], slots + rank * bytes, bytes)) {
            return false;
        }
    }
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (!send_all(ranks->exchange[rank], all, bytes * ranks->count)) {
            return false;
        }
    }
    return true;
}

static bool send_frame(int fd, uint32_t kind, const void *data, size_t bytes)
{
    struct frame frame = { .kind = kind, .bytes = (uint32_t)bytes };
    return bytes <= FRAME_BYTES_MAX && send_all(fd, &frame, sizeof frame) &&
           send_all(fd, data, bytes);
}

/* The batch up to its last used block table. */
static size_t batch_bytes(const struct model_batch *batch)
{
    return offsetof(struct model_batch, blocks) + batch->sequences_count * sizeof batch->blocks[0];
}

bool ranks_send_step(struct ranks *ranks, const struct model_batch *batch)
{
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (!send_frame(ranks->command[rank], RANKS_STEP, batch, batch_bytes(batch))) {
            return false;
        }
    }
    return true;
}

static bool send_json(int fd, uint32_t kind, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    bool ok = text != NULL && send_frame(fd, kind, text, strlen(text));
    free(text);
    return ok;
}

static bool receive_json(int fd, size_t bytes, json_t **value)
{
    char *text = bytes <= FRAME_BYTES_MAX ? malloc(bytes + 1) : NULL;
    if (text == NULL || !receive_all(fd, text, bytes)) {
        free(text);
        return false;
    }
    *value = json_loadb(text, bytes, JSON_DECODE_ANY, NULL);
    free(text);
    return *value != NULL;
}

bool ranks_send_call(struct ranks *ranks, const json_t *call)
{
    for (uint32_t rank = 1; rank < ranks->count; rank++) {
        if (!send_json(ranks->command[rank], RANKS_CALL, call)) {
            return false;
        }
    }
    return true;
}

bool ranks_read_reply(struct ranks *ranks, uint32_t rank, json_t **reply)
{
    struct frame frame;
    return receive_all(ranks->reply[rank], &frame, sizeof frame) &&
           receive_json(ranks->reply[rank], frame.bytes, reply);
}

bool ranks_receive(struct ranks *ranks, enum ranks_command *command, struct model_batch *batch,
                   json_t **call)
{
    struct frame frame;
    if (!receive_all(ranks->command[0], &frame, sizeof frame)) {
        return false;
    }
    if (frame.kind == RANKS_CALL) {
        *command = RANKS_CALL;
        return receive_json(ranks->command[0], frame.bytes, call);
    }
    *command = RANKS_STEP;
    return frame.bytes <= sizeof *batch && receive_all(ranks->command[0], batch, frame.bytes) &&
           batch_bytes(batch) == frame.bytes;
}

bool ranks_send_reply(struct ranks *ranks, const json_t *reply)
{
    return send_json(ranks->reply[0], RANKS_CALL, reply);
}
