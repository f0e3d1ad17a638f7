/* core_room.h -- memory for a core, and the core in it.
 *
 * Depends on: controller/core.  Threads: an object belongs to one thread.  Ownership: make and drop. */
#ifndef CONTROLLER_SHELL_CORE_ROOM_H
#define CONTROLLER_SHELL_CORE_ROOM_H

#include "api/base/status.h"
#include "controller/core/controller.h"
#include "controller/core/record.h"

struct core_room {
    void *memory; /* Null: there is no core. */
    size_t bytes;
    struct controller *core;
};

/* A new core in fresh pages (only what it touches costs memory), in place of the one that was there.
 * RESOURCE_EXHAUSTED LIMIT: no memory; then there is none. */
BATON_MUST_USE struct baton_status core_room_make(struct core_room *room,
                                                  const struct controller_limits *limits);
/* Gives it one stored record. */
BATON_MUST_USE struct baton_status core_room_load(struct core_room *room, struct record_ref record);
void core_room_drop(struct core_room *room);

#endif /* core_room.h */
