/* policy_stale.c -- the keys of an update policy that bound staleness: staleness, sessions, slots. */
#include "controller/core/core.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

enum {
    DEFAULT_MAX_HOLD_MS = 30000,
    DEFAULT_SESSION_TTL_MS = 60000,
    DEFAULT_SLOT_TTL_MS = 120000,
    LEASE_MS_MIN = 100,
    LEASE_MS_MAX = 24 * 3600 * 1000,
};

static struct baton_status parse_staleness(struct call *call, struct staleness_policy *out)
{
    const struct policy_spec *spec = &call->request->body.apply;
    uint32_t unit = LAG_PUBLISHES;
    if (!text_is_empty(spec->staleness_unit) &&
        !words_find(&words_lag_unit, spec->staleness_unit, &unit)) {
        char allowed[BATON_TEXT_BYTES];
        words_list(&words_lag_unit, allowed, sizeof(allowed));
        return call_bad_field(call, "spec.update.staleness.unit",
                              "\"%.60s\" is not known here; use %s", spec->staleness_unit, allowed);
    }
    if (spec->staleness_bounded && spec->staleness_warned &&
        spec->staleness_warn > spec->staleness_bound) {
        return call_bad_field(call, "spec.update.staleness.warn",
                              "%llu is above the bound, %llu: it would never come first",
                              (unsigned long long)spec->staleness_warn,
                              (unsigned long long)spec->staleness_bound);
    }
    *out = (struct staleness_policy){
        .unit = (enum lag_unit)unit,
        .bounded = spec->staleness_bounded,
        .bound = spec->staleness_bounded ? spec->staleness_bound : 0,
        .warned = spec->staleness_warned,
        .warn = spec->staleness_warned ? spec->staleness_warn : 0,
    };
    return baton_status_ok();
}

static struct baton_status parse_time(struct call *call, const char *field, int64_t given_ms,
                                      uint64_t *in_out_ms)
{
    if (given_ms == 0) {
        return baton_status_ok();
    }
    if (given_ms < LEASE_MS_MIN || given_ms > LEASE_MS_MAX) {
        return call_bad_field(call, field, "%lld ms is outside of 100 ms to 24 h",
                              (long long)given_ms);
    }
    *in_out_ms = (uint64_t)given_ms;
    return baton_status_ok();
}

struct baton_status policy_parse_stale(struct call *call, struct update_policy *out)
{
    const struct policy_spec *spec = &call->request->body.apply;
    out->sessions = (struct session_policy){ DEFAULT_MAX_HOLD_MS, DEFAULT_SESSION_TTL_MS };
    out->slots = (struct slot_policy){ spec->slots_samples_per_publish, spec->slots_max_held,
                                       DEFAULT_SLOT_TTL_MS };
    struct baton_status st = parse_staleness(call, &out->staleness);
    if (baton_ok(&st)) {
        st = parse_time(call, "spec.update.sessions.maxHold", spec->sessions_max_hold_ms,
                        &out->sessions.max_hold_ms);
    }
    if (baton_ok(&st)) {
        st = parse_time(call, "spec.update.sessions.ttl", spec->sessions_ttl_ms,
                        &out->sessions.ttl_ms);
    }
    if (baton_ok(&st)) {
        st = parse_time(call, "spec.update.slots.ttl", spec->slots_ttl_ms, &out->slots.ttl_ms);
    }
    return st;
}

bool policy_stale_equal(const struct update_policy *a, const struct update_policy *b)
{
    return a->staleness.unit == b->staleness.unit && a->staleness.bounded == b->staleness.bounded &&
           a->staleness.bound == b->staleness.bound && a->staleness.warned == b->staleness.warned &&
           a->staleness.warn == b->staleness.warn &&
           a->sessions.max_hold_ms == b->sessions.max_hold_ms &&
           a->sessions.ttl_ms == b->sessions.ttl_ms &&
           a->slots.samples_per_publish == b->slots.samples_per_publish &&
           a->slots.max_held == b->slots.max_held && a->slots.ttl_ms == b->slots.ttl_ms;
}

void policy_stale_print(struct fingerprint *print, const struct policy_spec *spec)
{
    fingerprint_add_text(print, spec->staleness_unit);
    fingerprint_add_number(print, spec->staleness_bounded);
    fingerprint_add_number(print, spec->staleness_bound);
    fingerprint_add_number(print, spec->staleness_warned);
    fingerprint_add_number(print, spec->staleness_warn);
    fingerprint_add_number(print, (uint64_t)spec->sessions_max_hold_ms);
    fingerprint_add_number(print, (uint64_t)spec->sessions_ttl_ms);
    fingerprint_add_number(print, spec->slots_samples_per_publish);
    fingerprint_add_number(print, spec->slots_max_held);
    fingerprint_add_number(print, (uint64_t)spec->slots_ttl_ms);
}
