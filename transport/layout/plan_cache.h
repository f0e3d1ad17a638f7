/* plan_cache.h -- plans that were made, by what they depend on.
 *
 * A key is layout_plan_key(): both layouts' digests and the options, so that another expert map,
 * membership or bucket size is another key.  The cache holds borrowed plans; the one that was not
 * asked for longest makes room and is handed back.
 *
 * Depends on: plan.h.  Pure.  Threads: an object belongs to one thread.  Ownership: plans stay the
 * caller's. */
#ifndef TRANSPORT_LAYOUT_PLAN_CACHE_H
#define TRANSPORT_LAYOUT_PLAN_CACHE_H

#include "transport/layout/plan.h"

enum { LAYOUT_PLAN_CACHE_MAX = 8 };

struct layout_plan_cache {
    struct digest keys[LAYOUT_PLAN_CACHE_MAX]; /* The one asked for last is the first. */
    const struct layout_plan *plans[LAYOUT_PLAN_CACHE_MAX];
    uint32_t count;
};

/* Null: not there. */
const struct layout_plan *layout_plan_cache_find(struct layout_plan_cache *cache,
                                                 struct digest key);
/* Adds a plan whose key is not there.  Returns the plan that had to go, or null. */
const struct layout_plan *layout_plan_cache_put(struct layout_plan_cache *cache, struct digest key,
                                                const struct layout_plan *plan);

#endif /* plan_cache.h */
