/* peek.h -- looks into an agent's core, for the coverage of its phases only; nothing is judged by it.
 */
#ifndef TESTS_SIM_PEEK_H
#define TESTS_SIM_PEEK_H

#include <stdint.h>

struct agent;

/* Phase of its index-th group. */
uint32_t peek_phase(const struct agent *agent, uint32_t group);
uint32_t peek_phases(void);
const char *peek_phase_name(uint32_t phase);

#endif /* peek.h */
