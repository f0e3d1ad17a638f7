/* swap.c -- see swap.h. */
#include "agent/core/swap.h"

#include <string.h>

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

int agent_epoch_compare(struct agent_epoch a, struct agent_epoch b)
{
    int by_generation = compare_u64(a.generation, b.generation);
    return by_generation != 0 ? by_generation : compare_u64(a.n, b.n);
}

bool agent_version_equal(const struct agent_version *a, const struct agent_version *b)
{
    return a->seq == b->seq && strcmp(a->digest, b->digest) == 0;
}

const char *agent_group_state_name(enum agent_group_state state)
{
    switch (state) {
    case AGENT_GROUP_JOINING: return "JOINING";
    case AGENT_GROUP_SERVING: return "SERVING";
    case AGENT_GROUP_STAGING: return "STAGING";
    case AGENT_GROUP_STAGED: return "STAGED";
    case AGENT_GROUP_PAUSING: return "PAUSING";
    case AGENT_GROUP_APPLYING: return "APPLYING";
    case AGENT_GROUP_RESUMING: return "RESUMING";
    case AGENT_GROUP_RESTORING: return "RESTORING";
    case AGENT_GROUP_OUT: return "OUT";
    case AGENT_GROUP_STAGE_FAILED: return "STAGE_FAILED";
    case AGENT_GROUP_ASLEEP: return "ASLEEP";
    }
    return "UNSPECIFIED";
}

const char *agent_verb_name(enum agent_verb verb)
{
    static const char *const names[] = { "status", "resume", "restore", "detach" };
    return names[verb];
}

const char *agent_outcome_name(enum agent_outcome outcome)
{
    switch (outcome) {
    case AGENT_OUTCOME_NONE: return "UNSPECIFIED";
    case AGENT_OUTCOME_COMMITTED: return "COMMITTED";
    case AGENT_OUTCOME_REFUSED: return "REFUSED";
    case AGENT_OUTCOME_PAUSE_TIMEOUT: return "PAUSE_TIMEOUT";
    case AGENT_OUTCOME_APPLY_FAILED: return "APPLY_FAILED";
    case AGENT_OUTCOME_OUT: return "OUT";
    }
    return "UNSPECIFIED";
}
