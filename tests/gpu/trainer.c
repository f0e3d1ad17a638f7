/* trainer.c -- both sides of the trainer process. */
#include "tests/gpu/trainer.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOW_FILLS = 400, SMALL_OFFSET = 5 };

struct state {
    struct rig rig;
    struct baton_transport *transport;
    uint8_t *weights;
    uint64_t bytes;
    uint8_t *small;
    uint8_t *patterns[TRAINER_STEPS]; /* On the device. */
    struct baton_tp_mem *mems[2];
    struct trainer_offer offer;
};

static void must(bool holds, const char *what)
{
    if (!holds) {
        printf("not ok - trainer: %s\n", what);
        exit(2);
    }
}

static void must_status(struct baton_status st, const char *what)
{
    if (!baton_ok(&st)) {
        printf("not ok - %s: %s\n", what, st.message);
        exit(2);
    }
}

uint8_t trainer_byte(uint32_t step, uint64_t i)
{
    i %= TRAINER_PATTERN_BYTES;
    return (uint8_t)(step * 101 + i * 7 + (i >> 8) * 13 + (i >> 16) * 29);
}

struct baton_transport *trainer_transport(const struct trainer_paths *paths)
{
    char config[1024];
    struct baton_transport *transport = NULL;
    (void)snprintf(config, sizeof(config), "{\"cuda\":\"%.800s\",\"device\":0}", paths->cuda);
    must_status(baton_transport_open(paths->ipc, config, &transport), "backend ipc");
    return transport;
}

/* The step's weights, after what the default stream has: nothing waits here. */
static void set_weights(struct state *state, uint32_t step)
{
    const struct baton_cuda *cuda = state->rig.cuda;
    for (uint64_t at = 0; at < state->bytes; at += TRAINER_PATTERN_BYTES) {
        uint64_t left = state->bytes - at;
        uint64_t part = left < TRAINER_PATTERN_BYTES ? left : TRAINER_PATTERN_BYTES;
        rig_must(&state->rig, cuda->copy(state->weights + at, state->patterns[step], part, NULL),
                 "copy");
    }
    rig_must(
        &state->rig,
        cuda->copy(state->small + SMALL_OFFSET, state->patterns[step], TRAINER_SMALL_BYTES, NULL),
        "copy");
    state->offer.step = step;
}

static void train(struct state *state)
{
    for (int i = 0; i < SLOW_FILLS; i++) {
        rig_must(&state->rig, state->rig.cuda->fill(state->weights, i, state->bytes, NULL), "fill");
    }
    set_weights(state, (state->offer.step + 1) % TRAINER_STEPS);
}

static void withdraw(struct state *state)
{
    baton_transport_release(state->transport, state->mems[0]);
    baton_transport_release(state->transport, state->mems[1]);
    state->mems[0] = NULL;
    state->mems[1] = NULL;
}

static struct baton_tp_mem *export_range(struct state *state, uint8_t *base, uint64_t bytes,
                                         uint8_t key[BATON_TP_KEY_BYTES_MAX])
{
    struct baton_tp_mem *mem = NULL;
    must_status(baton_transport_register(state->transport, base, bytes,
                                         (struct baton_bytes){ NULL, 0 },
                                         BATON_TP_ACCESS_READ | BATON_TP_ACCESS_WRITE, &mem),
                "registering weights");
    must_status(baton_transport_key(state->transport, mem, key, &state->offer.key_bytes), "key");
    return mem;
}

static void export_all(struct state *state)
{
    withdraw(state);
    state->mems[0] = export_range(state, state->weights, state->bytes, state->offer.weights);
    state->mems[1] =
        export_range(state, state->small + SMALL_OFFSET, TRAINER_SMALL_BYTES, state->offer.small);
}

static void tell_first(struct state *state)
{
    uint8_t *first = rig_download(&state->rig, state->weights, 1);
    state->offer.first = *first;
    free(first);
}

static void obey(struct state *state, char order)
{
    switch (order) {
    case TRAINER_STEP:
        train(state);
        export_all(state);
        break;
    case TRAINER_AGAIN: export_all(state); break;
    case TRAINER_WITHDRAW:
        withdraw(state);
        rig_must(&state->rig, state->rig.cuda->free(state->weights), "free");
        break;
    default: tell_first(state); break;
    }
}

static void answer(const struct state *state)
{
    must(write(STDOUT_FILENO, &state->offer, sizeof(state->offer)) == (ssize_t)sizeof(state->offer),
         "its pipe");
}

int trainer_main(const struct trainer_paths *paths, uint64_t bytes)
{
    struct state state = { .bytes = bytes };
    struct baton_status st = cuda_open(paths->cuda, &state.rig.cuda);
    must_status(st, "trainer");
    rig_must(&state.rig, state.rig.cuda->use(0), "use");
    rig_must(&state.rig, state.rig.cuda->stream_create(&state.rig.stream), "stream");
    state.weights = rig_device(&state.rig, bytes);
    state.small = rig_device(&state.rig, TRAINER_SMALL_BYTES + SMALL_OFFSET);
    uint8_t *host = malloc(TRAINER_PATTERN_BYTES);
    for (uint32_t step = 0; step < TRAINER_STEPS; step++) {
        for (uint64_t i = 0; i < TRAINER_PATTERN_BYTES; i++) {
            host[i] = trainer_byte(step, i);
        }
        state.patterns[step] = rig_upload(&state.rig, host, TRAINER_PATTERN_BYTES);
    }
    free(host);
    rig_must(&state.rig, state.rig.cuda->ipc_export(state.weights, state.offer.handle),
             "ipc_export");
    state.transport = trainer_transport(paths);
    must_status(
        baton_transport_address(state.transport, state.offer.address, &state.offer.address_bytes),
        "address");
    set_weights(&state, 0);
    export_all(&state);
    answer(&state);
    char order = 0;
    while (read(STDIN_FILENO, &order, 1) == 1) {
        obey(&state, order);
        answer(&state);
    }
    baton_transport_close(state.transport);
    return 0;
}

static void hear(struct trainer *trainer)
{
    size_t got = 0;
    while (got < sizeof(trainer->offer)) {
        ssize_t n =
            read(trainer->answers, (uint8_t *)&trainer->offer + got, sizeof(trainer->offer) - got);
        must(n > 0, "it does not answer");
        got += (size_t)n;
    }
}

struct trainer trainer_start(const struct trainer_paths *paths, uint64_t bytes)
{
    int down[2];
    int up[2];
    char size[32];
    (void)snprintf(size, sizeof(size), "%llu", (unsigned long long)bytes);
    must(pipe(down) == 0 && pipe(up) == 0, "pipes");
    struct trainer trainer = { .pid = fork() };
    must(trainer.pid >= 0, "fork");
    if (trainer.pid == 0) {
        must(dup2(down[0], STDIN_FILENO) >= 0 && dup2(up[1], STDOUT_FILENO) >= 0, "its pipes");
        close(down[1]);
        close(up[0]);
        execl("/proc/self/exe", "gpu_suite", "trainer", paths->cuda, paths->ipc, size, NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    trainer.orders = down[1];
    trainer.answers = up[0];
    hear(&trainer);
    return trainer;
}

void trainer_order(struct trainer *trainer, enum trainer_order order)
{
    char byte = (char)order;
    must(write(trainer->orders, &byte, 1) == 1, "it takes no order");
    hear(trainer);
}

static void reap(struct trainer *trainer)
{
    close(trainer->orders);
    must(waitpid(trainer->pid, NULL, 0) == trainer->pid, "waiting for it");
    close(trainer->answers);
}

void trainer_kill(struct trainer *trainer)
{
    must(kill(trainer->pid, SIGKILL) == 0, "killing it");
    reap(trainer);
}

void trainer_end(struct trainer *trainer)
{
    reap(trainer);
}
