/* engine_op.h -- calls on their way, between engine.c (who runs when) and engine_calls.c (what they
 * do).
 *
 * Depends on: engine.h.  Threads: as noted.  Ownership: counted; caller and engine hold one each. */
#ifndef TESTS_MINIENGINE_ENGINE_OP_H
#define TESTS_MINIENGINE_ENGINE_OP_H

#include "tests/miniengine/engine.h"

struct engine_op {
    enum engine_call call;
    json_t *arguments;
    struct engine_op *next;
    bool clear_cache;  /* A pause that waits: what to do at its end. */
    uint64_t arrivals; /* A pause that waits: it waits for requests before this. */
    bool done;         /* Under the engine's lock, as is the result. */
    struct engine_result result;
    _Atomic uint32_t references;
};

/* Performs one call on the engine's thread, without the lock.  False: it waits for the drain and
 * is in 'waits'. */
bool engine_call_run(struct engine *engine, struct engine_op *op);

/* Completes the pauses whose drain is over.  Without the lock. */
void engine_call_finish_waits(struct engine *engine);

/* Ends a call.  Without the lock; does nothing if it was ended already. */
void engine_op_complete(struct engine *engine, struct engine_op *op);

void engine_op_release(struct engine_op *op);

#endif /* engine_op.h */
