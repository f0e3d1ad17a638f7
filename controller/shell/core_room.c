/* core_room.c -- see core_room.h. */
#include "controller/shell/core_room.h"

#include <sys/mman.h>

#include "api/base/arena.h"
#include "api/base/clock.h"
#include "api/base/random.h"
#include "controller/core/event.h"

struct baton_status core_room_make(struct core_room *room, const struct controller_limits *limits)
{
    uint8_t seed[CONTROLLER_SEED_BYTES];
    core_room_drop(room);
    size_t bytes = controller_bytes(limits);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for the core: %zu bytes", bytes);
    }
    struct baton_arena arena = baton_arena_of(memory, bytes);
    baton_random_secure(seed, sizeof(seed));
    *room = (struct core_room){ memory, bytes, controller_init(&arena, limits, seed) };
    baton_assert(room->core != NULL);
    return baton_status_ok();
}

struct baton_status core_room_load(struct core_room *room, struct record_ref record)
{
    struct event event = { .kind = EVENT_LOAD,
                           .now_ns = baton_clock_monotonic_ns(),
                           .wall_ns = baton_clock_wall_ns(),
                           .body.load = record };
    (void)controller_step(room->core, &event);
    return controller_load_status(room->core);
}

void core_room_drop(struct core_room *room)
{
    if (room->memory != NULL) {
        (void)munmap(room->memory, room->bytes);
    }
    *room = (struct core_room){ 0 };
}
