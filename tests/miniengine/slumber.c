/* slumber.c -- see slumber.h. */
#include "tests/miniengine/slumber.h"

#include <stdlib.h>
#include <string.h>

#include "tests/miniengine/apply.h"

/* What memory from elsewhere may hold: small numbers that are no weights. */
enum { LEFTOVER = 0x3C };

bool slumber_is_awake(const struct worker *worker, struct trouble *why)
{
    return worker->asleep == 0 || trouble_set(why, "LOAD_FAILED", NULL, "the rank sleeps");
}

static size_t set_bytes(const struct worker *worker)
{
    return (worker->layout.floats * sizeof(float) + 63U) & ~(size_t)63U;
}

struct worker_answer slumber_sleep(struct worker *worker, const json_t *kwargs)
{
    uint32_t level = (uint32_t)json_integer_value(json_object_get(kwargs, "level"));
    if (worker->asleep != 0) {
        return worker_returns(json_null());
    }
    worker->asleep = level;
    if (level == 1) {
        worker->aside = worker->set;
    } else {
        free(worker->set);
        transfer_replace(&worker->transfer.resident, NULL);
    }
    worker->set = NULL;
    worker->model.set = NULL;
    model_release_kv(&worker->model);
    return worker_returns(json_null());
}

struct worker_answer slumber_wake(struct worker *worker, const json_t *kwargs)
{
    (void)kwargs;
    if (worker->asleep == 0) {
        return worker_returns(json_null());
    }
    bool light = worker->aside != NULL;
    float *set = light ? worker->aside : aligned_alloc(64, set_bytes(worker));
    if (set == NULL || !model_take_kv(&worker->model)) {
        return worker_raises("out of memory for weights and KV cache");
    }
    if (!light) {
        memset(set, LEFTOVER, set_bytes(worker));
    }
    worker->aside = NULL;
    worker->set = set;
    worker->model.set = set;
    worker->asleep = 0;
    return worker_returns(json_null());
}
