/* load_watches.c -- readers of rolls; see load_fleet.h. */
#include "tests/bench/load_fleet.h"

#include <stdlib.h>

#include "api/wire/wire.h"
#include "baton/v1/rolls.pb-c.h"
#include "tests/bench/load_must.h"

enum { READERS_PER_CONNECTION = 20 };

struct reader {
    struct load_watches *watches;
    struct rpc_stream *stream;
    atomic_uint_fast64_t completed_seq;
    atomic_bool ready;
    atomic_bool ended;
};

struct load_watches {
    uint32_t count;
    uint32_t clients_count;
    struct rpc_client **clients;
    struct reader *readers;
    atomic_uint_fast64_t messages;
};

static void on_message(struct rpc_stream *stream, void *message, void *context)
{
    struct reader *reader = context;
    const Baton__V1__WatchRollsResponse *response = message;
    atomic_fetch_add(&reader->watches->messages, 1);
    if (response->roll == NULL) {
        atomic_store(&reader->ready, true);
    } else if (response->roll->state == BATON__V1__ROLL_STATE__ROLL_STATE_COMPLETED &&
               response->roll->to_seq > atomic_load(&reader->completed_seq)) {
        atomic_store(&reader->completed_seq, response->roll->to_seq);
    }
    baton_wire_free(message);
    rpc_stream_read_next(stream);
}

static void on_end(struct rpc_stream *stream, const struct baton_status *status, void *context)
{
    struct reader *reader = context;
    (void)stream;
    (void)status;
    atomic_store(&reader->ended, true);
}

struct load_watches *load_watches_open(const char *target, uint32_t count)
{
    static const struct rpc_stream_events events = { NULL, on_message, NULL, on_end };
    struct load_watches *watches = calloc(1, sizeof(*watches));
    load_must(watches != NULL, "no memory");
    watches->count = count;
    watches->clients_count = (count + READERS_PER_CONNECTION - 1) / READERS_PER_CONNECTION;
    watches->clients = calloc(watches->clients_count, sizeof(struct rpc_client *));
    watches->readers = calloc(count, sizeof(*watches->readers));
    load_must(watches->clients != NULL && watches->readers != NULL, "no memory");
    for (uint32_t i = 0; i < watches->clients_count; i++) {
        struct rpc_client_options options = { .target = target };
        struct baton_status st = rpc_client_create(&options, &watches->clients[i]);
        load_must(baton_ok(&st), st.message);
    }
    struct rpc_call_options options = { .wait_for_ready = true };
    Baton__V1__WatchRollsRequest request = BATON__V1__WATCH_ROLLS_REQUEST__INIT;
    char model[] = "m";
    request.model = model;
    for (uint32_t i = 0; i < count; i++) {
        struct reader *reader = &watches->readers[i];
        reader->watches = watches;
        reader->stream =
            rpc_stream_open(watches->clients[i / READERS_PER_CONNECTION], "baton.v1.Rolls/Watch",
                            &request, &options, &events, reader);
    }
    return watches;
}

void load_watches_close(struct load_watches *watches)
{
    for (uint32_t i = 0; i < watches->clients_count; i++) {
        rpc_client_destroy(watches->clients[i]);
    }
    for (uint32_t i = 0; i < watches->count; i++) {
        rpc_stream_unref(watches->readers[i].stream);
    }
    free(watches->clients);
    free(watches->readers);
    free(watches);
}

uint32_t load_watches_done(const struct load_watches *watches, uint64_t seq)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < watches->count; i++) {
        count += atomic_load(&watches->readers[i].completed_seq) >= seq;
    }
    return count;
}

uint32_t load_watches_ready(const struct load_watches *watches)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < watches->count; i++) {
        count += atomic_load(&watches->readers[i].ready);
    }
    return count;
}

uint32_t load_watches_cut(const struct load_watches *watches)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < watches->count; i++) {
        count += atomic_load(&watches->readers[i].ended);
    }
    return count;
}

uint64_t load_watches_messages(const struct load_watches *watches)
{
    return atomic_load(&watches->messages);
}
