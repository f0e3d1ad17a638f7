/* engine_mini.h -- a miniengine process for a test, started and ended as the agent does it.
 *
 * Depends on: agent/engine/process.h, tests/miniengine's programs.  Threads: one.
 * Ownership: mini_start/stop; the scratch folder belongs to mini_scratch_make/drop. */
#ifndef TESTS_CONFORMANCE_ENGINE_MINI_H
#define TESTS_CONFORMANCE_ENGINE_MINI_H

#include "agent/engine/process.h"
#include "api/http/http.h"
#include "tests/conformance/engine_rig.h"

/* Programs, and the checkpoint directories that stand for version A and B. */
struct mini_programs {
    const char *miniengine;
    const char *seal;
    const char *version_a;
    const char *version_b;
};

/* A folder with sealed copies of both versions. */
struct mini_scratch {
    char folder[64];
    struct rig_version a;
    struct rig_version b;
};

struct mini {
    struct process *process;
    struct http *http; /* For faults. */
    struct rig rig;    /* Attached. */
    char token_file[BATON_PATH_BYTES];
};

bool mini_scratch_make(const struct mini_programs *programs, struct mini_scratch *scratch);
void mini_scratch_drop(struct mini_scratch *scratch);

/* Starts it on version A with this many ranks, waits until it serves, and attaches. */
bool mini_start(struct mini *mini, const struct mini_programs *programs,
                const struct mini_scratch *scratch, const char *ranks);
void mini_stop(struct mini *mini);

/* Sets a fault; JSON as in tests/miniengine/faults.h. */
bool mini_fault(struct mini *mini, const char *fault);
/* Clears all; what hangs goes on. */
void mini_clear(struct mini *mini);
/* Waits until the engine's process has ended; false if it lives on. */
bool mini_ended(struct mini *mini);

#endif /* engine_mini.h */
