/* plan_cache.c -- see plan_cache.h. */
#include "transport/layout/plan_cache.h"

#include <string.h>

/* Moves the entries before 'end' one on, over the one at 'end', and puts this one first. */
static void put_first(struct layout_plan_cache *cache, uint32_t end, struct digest key,
                      const struct layout_plan *plan)
{
    memmove(&cache->keys[1], &cache->keys[0], end * sizeof(cache->keys[0]));
    memmove(&cache->plans[1], &cache->plans[0], end * sizeof(cache->plans[0]));
    cache->keys[0] = key;
    cache->plans[0] = plan;
}

const struct layout_plan *layout_plan_cache_find(struct layout_plan_cache *cache, struct digest key)
{
    for (uint32_t i = 0; i < cache->count; i++) {
        if (digest_equal(cache->keys[i], key)) {
            put_first(cache, i, key, cache->plans[i]);
            return cache->plans[0];
        }
    }
    return NULL;
}

const struct layout_plan *layout_plan_cache_put(struct layout_plan_cache *cache, struct digest key,
                                                const struct layout_plan *plan)
{
    const struct layout_plan *gone = NULL;
    if (cache->count == LAYOUT_PLAN_CACHE_MAX) {
        gone = cache->plans[--cache->count];
    }
    put_first(cache, cache->count++, key, plan);
    return gone;
}
