/* engine_rig.h -- one engine under test: its adapter, its landings, and how checks are counted.
 *
 * Depends on: agent/engine.  Threads: one.  Ownership: rig_open/close. */
#ifndef TESTS_CONFORMANCE_ENGINE_RIG_H
#define TESTS_CONFORMANCE_ENGINE_RIG_H

#include <stdbool.h>

#include "agent/engine/engine.h"
#include "api/base/clock.h"

/* A version as it lies on this machine. */
struct rig_version {
    char landing[BATON_PATH_BYTES];
    char digest[BATON_DIGEST_TEXT_BYTES];
};

struct rig {
    struct engine_options options;
    struct rig_version a; /* What the engine has at its start. */
    struct rig_version b;
    uint64_t call_ns; /* Deadline of one operation. */

    const struct engine_adapter *adapter;
    struct engine *engine;
    struct engine_facts facts;
    struct engine_fence fence;
};

/* Prints "ok - what" or "not ok - what: why"; returns the condition. */
BATON_PRINTF(3, 4) bool rig_check(bool holds, const char *what, const char *fmt, ...);
bool rig_check_ok(const struct baton_status *st, const char *what);
unsigned rig_failures(void);

/* Reads the digest of the manifest in the version's landing. */
bool rig_version_load(struct rig_version *version, const char *landing);

/* Opens the adapter and attaches; 'options', 'a', 'b' and 'call_ns' are set. */
bool rig_open(struct rig *rig);
void rig_close(struct rig *rig);

uint64_t rig_deadline(const struct rig *rig);
/* The next fence, raised on all ranks. */
bool rig_fence(struct rig *rig);
/* Pauses, brings 'version' in and resumes; true if all of it held. */
bool rig_swap(struct rig *rig, const struct rig_version *version, struct engine_update *result);
/* The sum of the probe's log-probabilities. */
bool rig_probe(struct rig *rig, const char *what, double *out);

/* Equal up to rounding: the same weights and no stale cache. */
bool rig_same(double a, double b);

#endif /* engine_rig.h */
