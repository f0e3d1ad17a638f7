/* shown.c -- see shown.h. */
#include "controller/shell/shown.h"

#include <stdlib.h>

#include "api/base/clock.h"
#include "controller/core/event.h"
#include "controller/shell/core_room.h"
#include "controller/store/follow.h"

enum { MAKE_EVERY_MS = 200 };

struct shown {
    struct store_follower *follower;
    uint64_t oldest_ns;
    struct controller_limits limits;
    struct core_room room;
    struct store_copy copy; /* That the core is made of. */
    uint64_t made_ns;
};

struct baton_status shown_open(const struct shown_options *options, struct shown **out)
{
    struct shown *shown = calloc(1, sizeof(*shown));
    baton_assert(shown != NULL);
    shown->oldest_ns = options->oldest_ns;
    shown->limits = options->limits;
    struct baton_status st =
        store_follower_open(options->store_address, options->cluster, &shown->follower);
    if (!baton_ok(&st)) {
        free(shown);
        return st;
    }
    *out = shown;
    return st;
}

struct baton_status shown_start(struct shown *shown)
{
    return store_follower_start(shown->follower);
}

void shown_set(struct shown *shown, bool on)
{
    store_follower_set(shown->follower, on);
    if (!on) {
        core_room_drop(&shown->room);
    }
}

static struct baton_status load(void *context, struct record_ref record)
{
    return core_room_load(context, record);
}

/* A core of what the copy is now. */
static struct baton_status make(struct shown *shown)
{
    struct baton_status st = core_room_make(&shown->room, &shown->limits);
    if (baton_ok(&st)) {
        st = store_follower_load(shown->follower, load, &shown->room, &shown->copy);
    }
    if (!baton_ok(&st)) {
        core_room_drop(&shown->room);
        shown->copy.changes = UINT64_MAX; /* Nothing is made of that content: it is tried again. */
        return st;
    }
    struct started started = { shown->copy.epoch, shown->copy.revision,
                               shown->copy.log_next_number };
    controller_show(shown->room.core, &started);
    shown->made_ns = baton_clock_monotonic_ns();
    return st;
}

static struct baton_status too_old(const struct shown *shown, const struct store_copy *now,
                                   uint64_t age_ns)
{
    struct baton_status st =
        baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                          "this standby's copy of the store was last known to be current %llu ms "
                          "ago, and what is older than %llu ms is not shown: %s",
                          (unsigned long long)(age_ns / BATON_NS_PER_MS),
                          (unsigned long long)(shown->oldest_ns / BATON_NS_PER_MS),
                          baton_ok(&now->problem) ? "its watch lags" : now->problem.message);
    return baton_status_hint(st,
                             "ask the controller that leads; leadership.lastKnown is the bound");
}

struct baton_status shown_look(struct shown *shown, struct controller **core,
                               struct rpc_stored *mark)
{
    struct store_copy now;
    uint64_t now_ns = baton_clock_monotonic_ns();
    store_follower_look(shown->follower, &now);
    bool fresh =
        shown->room.core != NULL && now_ns - shown->made_ns < MAKE_EVERY_MS * BATON_NS_PER_MS;
    if (now.whole && now.changes != shown->copy.changes && !fresh) {
        struct baton_status st = make(shown);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    if (shown->room.core ==
        NULL) { /* Also where nothing is wrong: a large commit is half applied. */
        struct baton_status why =
            baton_ok(&now.problem)
                ? baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                    "a commit is being applied, or the copy cannot be shown")
                : now.problem;
        return baton_status_in(why, "this standby has no whole copy of the store yet");
    }
    if (now.whole && now.changes == shown->copy.changes) {
        shown->copy.confirmed_ns = now.confirmed_ns;
    }
    uint64_t age_ns = baton_clock_monotonic_ns() - shown->copy.confirmed_ns;
    if (shown->copy.confirmed_ns == 0 || age_ns > shown->oldest_ns) {
        return too_old(shown, &now, age_ns);
    }
    *core = shown->room.core;
    *mark = (struct rpc_stored){ true, shown->copy.revision, age_ns };
    return baton_status_ok();
}

void shown_close(struct shown *shown)
{
    if (shown != NULL) {
        store_follower_close(shown->follower);
        core_room_drop(&shown->room);
        free(shown);
    }
}
