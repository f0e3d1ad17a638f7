/* load_fleet.c -- see load_fleet.h. */
#include "tests/bench/load_fleet.h"

#include <stdlib.h>

#include "api/base/clock.h"
#include "tests/bench/load_must.h"

enum { TICK_NS = 1000000 };

struct load_fleet {
    uint32_t count;
    struct load_shape shape;
    struct load_agent *agents;
    pthread_t thread;
    atomic_bool stopping;
};

static void *tick(void *argument)
{
    struct load_fleet *fleet = argument;
    while (!atomic_load(&fleet->stopping)) {
        uint64_t now_ns = baton_clock_monotonic_ns();
        for (uint32_t i = 0; i < fleet->count; i++) {
            load_agent_tick(&fleet->agents[i], now_ns);
        }
        baton_clock_sleep_ns(TICK_NS);
    }
    return NULL;
}

static struct rpc_client *connect_to(const char *target)
{
    struct rpc_client *client = NULL;
    struct rpc_client_options options = { .target = target };
    struct baton_status st = rpc_client_create(&options, &client);
    load_must(baton_ok(&st), st.message);
    return client;
}

struct load_fleet *load_fleet_create(const char *target, uint32_t agents,
                                     const struct load_shape *shape)
{
    struct load_fleet *fleet = calloc(1, sizeof(*fleet));
    load_must(fleet != NULL, "no memory");
    fleet->count = agents;
    fleet->shape = *shape;
    fleet->agents = calloc(agents, sizeof(*fleet->agents));
    load_must(fleet->agents != NULL, "no memory");
    for (uint32_t i = 0; i < agents; i++) {
        load_agent_init(&fleet->agents[i], &fleet->shape, connect_to(target), i);
    }
    load_must(pthread_create(&fleet->thread, NULL, tick, fleet) == 0, "no thread");
    return fleet;
}

void load_fleet_destroy(struct load_fleet *fleet)
{
    atomic_store(&fleet->stopping, true);
    (void)pthread_join(fleet->thread, NULL);
    for (uint32_t i = 0; i < fleet->count; i++) {
        atomic_store(&fleet->agents[i].stopping, true);
        rpc_client_destroy(fleet->agents[i].client);
        load_agent_deinit(&fleet->agents[i]);
    }
    free(fleet->agents);
    free(fleet);
}

uint32_t load_fleet_count(const struct load_fleet *fleet)
{
    return fleet->count;
}

struct load_agent *load_fleet_agent(struct load_fleet *fleet, uint32_t place)
{
    return &fleet->agents[place];
}

uint32_t load_fleet_serving(const struct load_fleet *fleet, uint64_t seq)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fleet->count; i++) {
        count += atomic_load(&fleet->agents[i].serving_seq) == seq;
    }
    return count;
}

uint32_t load_fleet_welcomed(const struct load_fleet *fleet, uint64_t welcomes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < fleet->count; i++) {
        count += atomic_load(&fleet->agents[i].welcomes) >= welcomes;
    }
    return count;
}
