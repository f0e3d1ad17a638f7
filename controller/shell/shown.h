/* shown.h -- what a controller that stands by can show: a core made of the store's copy, which is only looked at.
 *
 * The copy follows the store (controller/store/follow.h); the core is made anew when somebody asks and the copy
 * changed, a few times a second at most.  It is shown with the store's revision and with how long ago the store was
 * at it for sure; beyond a bound it is not shown.
 *
 * Depends on: controller/store/follow.h, core_room.h.  Threads: the loop's.  Ownership: open and close. */
#ifndef CONTROLLER_SHELL_SHOWN_H
#define CONTROLLER_SHELL_SHOWN_H

#include "api/base/status.h"
#include "api/rpc/rpc.h"
#include "controller/core/controller.h"

struct shown;

struct shown_options {
    const char *store_address;
    uint64_t cluster;   /* store_cluster(). */
    uint64_t oldest_ns; /* What is older is not shown. */
    struct controller_limits limits;
};

/* The options' texts are borrowed for the call. */
BATON_MUST_USE struct baton_status shown_open(const struct shown_options *options,
                                              struct shown **out);
BATON_MUST_USE struct baton_status shown_start(struct shown *shown);
/* Off: forgets all. */
void shown_set(struct shown *shown, bool on);
/* The core, valid until the next call, for the view only; and what it reflects.  UNAVAILABLE: there is none, or it is
 * too old; says why. */
BATON_MUST_USE struct baton_status shown_look(struct shown *shown, struct controller **core,
                                              struct rpc_stored *mark);
/* Accepts null. */
void shown_close(struct shown *shown);

#endif /* shown.h */
