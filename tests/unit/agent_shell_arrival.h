/* agent_shell_arrival.h -- what the controller makes of an agent's report; for tests of both ends' words.
 *
 * A file of its own, because the two cores have types of the same names. */
#ifndef BATON_TESTS_AGENT_SHELL_ARRIVAL_H
#define BATON_TESTS_AGENT_SHELL_ARRIVAL_H

#include <stddef.h>

#include "api/base/limits.h"
#include "api/base/status.h"

struct arrival {
    struct baton_status status;
    size_t outcomes_count;
    size_t events_count;
    char probe_text[BATON_TEXT_BYTES]; /* Of the first outcome. */
};

/* Takes a SessionRequest with a report over the wire; frees it. */
struct arrival arrive(void *request);

#endif /* agent_shell_arrival.h */
