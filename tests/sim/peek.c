/* peek.c -- see peek.h. */
#include "tests/sim/peek.h"

#include "agent/core/state.h"

uint32_t peek_phase(const struct agent *agent, uint32_t group)
{
    return (uint32_t)agent->groups[group].phase;
}

uint32_t peek_phases(void)
{
    return PHASE_COUNT;
}

const char *peek_phase_name(uint32_t phase)
{
    return phase_row((enum phase)phase)->name;
}
