/* service_policy.c -- the part of an update policy that is lists: canary steps and checks. */
#include "api/wire/wire.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

static struct baton_status read_duration(const Google__Protobuf__Duration *duration,
                                         const char *field, int64_t *out_ms)
{
    uint64_t ns = 0;
    struct baton_status st = baton_wire_duration_ns(duration, field, &ns);
    if (baton_ok(&st) && ns != 0 && ns < 1000000) {
        st = rpc_status_field(field, "must be 0 or at least 1 ms");
    }
    *out_ms = (int64_t)(ns / 1000000);
    return st;
}

static struct baton_status read_check(const Baton__V1__Check *from, struct check_spec *out)
{
    *out = (struct check_spec){ .name = from->name,
                                .kind = from->kind,
                                .compare = from->compare,
                                .threshold = from->threshold,
                                .tolerance = from->tolerance,
                                .max_change = from->max_change,
                                .min_changed = from->min_changed,
                                .query = from->query };
    return read_duration(from->window, "spec.update.checks.window", &out->window_ms);
}

static struct baton_status read_step(const Baton__V1__CanaryStep *from, struct canary_spec *out)
{
    *out = (struct canary_spec){ .groups = from->groups,
                                 .checks = (const char *const *)from->checks,
                                 .checks_count = from->n_checks,
                                 .hold = from->hold };
    return read_duration(from->soak, "spec.update.canary.soak", &out->soak_ms);
}

struct baton_status service_policy_read(const Baton__V1__UpdatePolicy *from,
                                        struct policy_room *room, struct roll_spec *out)
{
    *out = (struct roll_spec){ .every_n = from->every != NULL ? from->every->n : 0,
                               .every_unit = from->every != NULL ? from->every->unit : "",
                               .order = from->order,
                               .progress_action = from->progress_action,
                               .checks = room->checks,
                               .checks_count = from->n_checks,
                               .canary = room->steps,
                               .canary_count = from->n_canary };
    struct baton_status st = read_duration(from->soak, "spec.update.soak", &out->soak_ms);
    /* Too many are refused by the core, which looks at the counts first. */
    for (size_t i = 0; baton_ok(&st) && i < from->n_checks && i < BATON_CHECKS_MAX; i++) {
        st = read_check(from->checks[i], &room->checks[i]);
    }
    for (size_t i = 0; baton_ok(&st) && i < from->n_canary && i < BATON_CANARY_STEPS_MAX; i++) {
        st = read_step(from->canary[i], &room->steps[i]);
    }
    return st;
}
