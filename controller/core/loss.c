/* loss.c -- massLoss: so many groups OUT or UNKNOWN that the fault is rather in what they share (or in
 * this controller) than in them: no roll ticket takes another one away.  Rejoin tickets go on: they
 * are how lost groups come back.  Drained and retired groups are away by intent and not lost. */
#include "controller/core/fleet.h"

enum { DEFAULT_PERCENT = 50 };

bool loss_is_mass(const struct model *model)
{
    const struct update_policy *policy = &model->r.policy;
    uint64_t lost = model->groups_lost;
    if (policy->mass_loss == 0) { /* An older store. */
        return lost * 100 > (uint64_t)model->groups_count * DEFAULT_PERCENT;
    }
    if (policy->mass_loss_is_percent) {
        return lost * 100 > (uint64_t)model->groups_count * policy->mass_loss;
    }
    return lost > policy->mass_loss;
}
