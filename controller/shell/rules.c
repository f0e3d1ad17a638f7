/* rules.c -- the table of who may call what; see rules.h. */
#include "controller/shell/rules.h"

#include <string.h>

enum {
    T = ROLE_BIT(ROLE_TRAINER),
    A = ROLE_BIT(ROLE_AGENT),
    R = ROLE_BIT(ROLE_ROUTER),
    O = ROLE_BIT(ROLE_OPERATOR),
    V = ROLE_BIT(ROLE_VIEWER),
    READ = T | R | O | V, /* Agents read only what they need for their work. */
};

static const struct rule rules[] = {
    { "baton.v1.Models/Apply", O, false, true },
    { "baton.v1.Models/Get", READ | A, false, false },
    { "baton.v1.Models/List", READ, false, false },
    { "baton.v1.Models/Watch", READ, false, false },
    { "baton.v1.Models/Suspend", O, false, true },
    { "baton.v1.Models/Hold", O, false, true },
    { "baton.v1.Models/Resume", O, false, true },
    { "baton.v1.Versions/Open", T, true, true },
    { "baton.v1.Versions/AddManifestPart", T, true, false },
    { "baton.v1.Versions/Seal", T, true, true },
    { "baton.v1.Versions/Publish", T, true, true },
    { "baton.v1.Versions/ReportProgress", T, true, false },
    { "baton.v1.Versions/Abandon", T | O, true, true },
    { "baton.v1.Versions/Get", READ | A, false, false },
    { "baton.v1.Versions/List", READ | A, false, false },
    { "baton.v1.Versions/Watch", READ, false, false },
    { "baton.v1.Versions/Pin", O, false, true },
    { "baton.v1.Versions/Unpin", O, false, true },
    { "baton.v1.Versions/Quarantine", O, false, true },
    { "baton.v1.Versions/Unquarantine", O, false, true },
    { "baton.v1.Rolls/Start", O, false, true },
    { "baton.v1.Rolls/Get", READ, false, false },
    { "baton.v1.Rolls/List", READ, false, false },
    { "baton.v1.Rolls/Watch", READ, false, false },
    { "baton.v1.Rolls/Pause", O, false, true },
    { "baton.v1.Rolls/Resume", O, false, true },
    { "baton.v1.Rolls/Advance", O, false, true },
    { "baton.v1.Rolls/Promote", O, false, true },
    { "baton.v1.Rolls/Abort", O, false, true },
    { "baton.v1.Rolls/Retry", O, false, true },
    { "baton.v1.Rolls/ReportCheck", O, false, true },
    { "baton.v1.Rolls/Undo", O, false, true },
    { "baton.v1.Rolls/Plan", READ, false, false },
    { "baton.v1.Rolls/History", READ, false, false },
    { "baton.v1.Rolls/Wait", READ, false, false },
    { "baton.v1.Fleet/ListSwaps", READ, false, false },
    { "baton.v1.Fleet/ListGroups", READ, false, false },
    { "baton.v1.Fleet/GetGroup", READ, false, false },
    { "baton.v1.Fleet/Watch", READ, false, false },
    { "baton.v1.Fleet/ListAgents", READ, false, false },
    { "baton.v1.Fleet/ListEngines", READ, false, false },
    { "baton.v1.Fleet/Events", READ, false, false },
    { "baton.v1.Fleet/RebuildStore", O, false, true },
    { "baton.v1.Fleet/AttestFloors", O, false, true },
    { "baton.v1.Fleet/Cordon", O, false, true },
    { "baton.v1.Fleet/Uncordon", O, false, true },
    { "baton.v1.Fleet/Drain", O, false, true },
    /* A trainer may share its GPUs with its model's engines. */
    { "baton.v1.Fleet/Sleep", T | O, true, true },
    { "baton.v1.Fleet/Wake", T | O, true, true },
    { "baton.v1.Fleet/Retire", O, false, true },
    { "baton.v1.Fleet/Pin", O, false, true },
    { "baton.v1.Fleet/Unpin", O, false, true },
    { "baton.v1.Staleness/Summary", READ, false, false },
    { "baton.v1.Staleness/Histogram", READ, false, false },
    { "baton.v1.Staleness/Series", READ, false, false },
    { "baton.v1.Staleness/WatchSummary", READ, false, false },
    { "baton.v1.Admission/Resolve", READ, true, false }, /* With a session it holds a version. */
    { "baton.v1.Admission/WatchEndpoints", READ, false, false },
    { "baton.v1.Admission/AcquireSlots", T | R | O, true, false },
    { "baton.v1.Admission/ReleaseSlots", T | R | O, true, false },
    { "baton.v1.Admission/ReportSamples", T | R | O, true, false },
    { "baton.v1.Admission/EvaluateSamples", READ, false, false },
    { "baton.v1.Audit/List", O | V, false, false },
    /* And only for its own name and groups: session.c. */
    { "baton.v1.AgentSession/Session", A, false, false },
};

static const char *const names[ROLES_COUNT] = { [ROLE_TRAINER] = "trainer",
                                                [ROLE_AGENT] = "agent",
                                                [ROLE_ROUTER] = "router",
                                                [ROLE_OPERATOR] = "operator",
                                                [ROLE_VIEWER] = "viewer" };

const struct rule *rules_all(void)
{
    return rules;
}

size_t rules_count(void)
{
    return sizeof(rules) / sizeof(rules[0]);
}

const struct rule *rules_find(const char *method)
{
    for (size_t i = 0; i < rules_count(); i++) {
        if (strcmp(rules[i].method, method) == 0) {
            return &rules[i];
        }
    }
    return NULL;
}

const char *role_name(enum role role)
{
    return names[role];
}

bool role_parse(const char *word, enum role *out)
{
    for (int i = 0; i < ROLES_COUNT; i++) {
        if (strcmp(names[i], word) == 0) {
            *out = (enum role)i;
            return true;
        }
    }
    return false;
}
