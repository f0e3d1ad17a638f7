/* floors.c -- rule 5: after the store went back, nothing is published and no ticket is issued until
 * all agents that it knows (at least one) restated what they have seen, or an operator attested
 * that nothing is missing.
 *
 * An agent has restated when it speaks again after its Hello: it does so under our epoch, which is durable there.  A member of a group
 * hears of versions from its leader as well: what comes between its Hello and our Welcome makes it say another Hello, and what an
 * earlier leadership gave and comes later it does not take (agent/core/session.c). */
#include "api/base/mutant.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"

static void end(struct controller *core, const char *why)
{
    core->cluster.floors_pending = false;
    marks_put(core, RECORD_CLUSTER, &core->cluster);
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        model_touch(model);
        struct object_ref ref = ref_model(model);
        log_add(core, &ref, "StoreFloorsKnown", NULL, "%s; the next version is at least %llu", why,
                (unsigned long long)model->r.seq_floor + 1);
    }
}

bool floors_are_restated(const struct controller *core)
{
    for (uint32_t i = 0; i < core->agents.count; i++) {
        const struct agent *agent = core->agents.objects[i];
        if (!agent->restated && !agent->r.retired) {
            return false;
        }
    }
    return true;
}

void floors_settle(struct controller *core)
{
    if (core->cluster.floors_pending && core->agents.count != 0 && floors_are_restated(core)) {
        end(core, "all agents restated what they have seen");
    }
}

void floors_given(struct controller *core)
{
    if (core->cluster.floors_pending) {
        end(core, "an operator attested that no agent knows more");
    }
}

struct baton_status floors_attest(struct controller *core, struct call *call)
{
    const char *why = call->request->options.reason;
    struct object_ref ref = { .kind = OBJECT_NONE };
    if (!core->cluster.floors_pending) {
        return baton_status_ok();
    }
    if (text_is_empty(why)) {
        return call_bad_field(call, "options.reason",
                              "say how you know that no agent has seen more than the store");
    }
    log_add(core, &ref, "StoreFloorsAttested", call_by(call), "%s", why);
    floors_given(core);
    return baton_status_ok();
}

struct baton_status floors_refusal(const struct controller *core)
{
    if (!core->cluster.floors_pending || MUTANT(FLOORS_IGNORED)) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                          "the store went back, and not all agents have restated what they have "
                          "seen (STORE_FLOORS_UNKNOWN)"),
        "bring all agents up: batonctl get agents");
}

void floors_of_new_model(struct controller *core, struct model *model)
{
    for (uint32_t i = 0; i < core->agents.count; i++) {
        const struct agent *agent = core->agents.objects[i];
        for (uint32_t k = 0; k < agent->floors_count; k++) {
            if (text_equal(agent->floors[k].model, model->r.name)) {
                model_raise_floor(core, model, agent->floors[k].seq);
            }
        }
    }
    uint32_t place = groups_first(core, model->r.name);
    for (struct group *group; (group = groups_at(core, place, model->r.name)) != NULL; place++) {
        model_raise_floor(core, model, group_committed(group));
    }
}
