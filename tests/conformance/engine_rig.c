#include "tests/conformance/engine_rig.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/base/bytes.h"

#define SAME_LOGPROB 1e-3

static unsigned failures;

bool rig_check(bool holds, const char *what, const char *fmt, ...)
{
    char why[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    (void)printf(holds ? "ok - %s\n" : "not ok - %s: %s\n", what, why);
    (void)fflush(stdout);
    failures += holds ? 0 : 1;
    return holds;
}

bool rig_check_ok(const struct baton_status *st, const char *what)
{
    return rig_check(baton_ok(st), what, "%s %s: %s", baton_code_name(st->code),
                     baton_reason_name(st->reason), st->message);
}

unsigned rig_failures(void)
{
    return failures;
}

bool rig_version_load(struct rig_version *version, const char *landing)
{
    char path[BATON_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/baton.manifest.json", landing);
    json_t *root = json_load_file(path, 0, NULL);
    const char *digest = json_string_value(json_object_get(root, "versionDigest"));
    bool found = digest != NULL && strlen(digest) < sizeof version->digest &&
                 baton_text_copy(version->landing, sizeof version->landing, landing);
    (void)baton_text_copy(version->digest, sizeof version->digest, found ? digest : "");
    json_decref(root);
    return found || rig_check(false, "landing", "%s has no versionDigest", path);
}

uint64_t rig_deadline(const struct rig *rig)
{
    return baton_clock_monotonic_ns() + rig->call_ns;
}

bool rig_open(struct rig *rig)
{
    rig->adapter = engine_adapter_find("vllm");
    struct baton_status st = rig->adapter->open(&rig->options, &rig->engine);
    if (!rig_check_ok(&st, "open")) {
        return false;
    }
    st = rig->adapter->attach(rig->engine, rig_deadline(rig), &rig->facts);
    rig->fence = rig->facts.fence;
    return rig_check_ok(&st, "attach");
}

void rig_close(struct rig *rig)
{
    if (rig->engine != NULL) {
        rig->adapter->close(rig->engine);
        rig->engine = NULL;
    }
}

bool rig_fence(struct rig *rig)
{
    rig->fence.step++;
    struct baton_status st = rig->adapter->raise_fence(rig->engine, &rig->fence, rig_deadline(rig));
    return rig_check_ok(&st, "raise fence");
}

bool rig_swap(struct rig *rig, const struct rig_version *version, struct engine_update *result)
{
    if (!rig_fence(rig)) {
        return false;
    }
    struct baton_status st =
        rig->adapter->pause(rig->engine, ENGINE_IN_FLIGHT_KEEP, true, rig_deadline(rig));
    if (!rig_check_ok(&st, "pause")) {
        return false;
    }
    st = rig->adapter->update(rig->engine, version->landing, version->digest, &rig->fence,
                              rig_deadline(rig), result);
    bool good = rig_check_ok(&st, "update");
    st = rig->adapter->invalidate(rig->engine, rig_deadline(rig));
    good = rig_check_ok(&st, "invalidate") && good;
    st = rig->adapter->resume(rig->engine, rig_deadline(rig));
    return rig_check_ok(&st, "resume") && good;
}

bool rig_probe(struct rig *rig, const char *what, double *out)
{
    struct engine_probe probe;
    struct baton_status st = rig->adapter->probe(rig->engine, false, rig_deadline(rig), &probe);
    *out = probe.logprob_sum;
    return rig_check(baton_ok(&st) && probe.ok && probe.tokens_count == 8, what, "%s (%u tokens)",
                     st.message, probe.tokens_count);
}

bool rig_same(double a, double b)
{
    return fabs(a - b) < SAME_LOGPROB;
}
