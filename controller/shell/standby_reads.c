/* standby_reads.c -- the table of what a standby answers; see standby_reads.h. */
#include "controller/shell/standby_reads.h"

#include <string.h>

static const char model_left_out[] = "how many groups are converged or away, lag, conditions";
static const char roll_left_out[] =
    "of a roll that runs: what waits for what; a group is done when its commit is stored";
static const char group_left_out[] =
    "state (UNKNOWN), gate, engines, staging, lag, what blocks it, conditions";
static const char reports[] = "agents report it, to the leader alone";
static const char lag[] = "lag goes by what groups serve at present";
static const char ready[] = "which groups are ready, and sessions and slots, are live";
static const char watch[] = "a watch shows live state";
static const char audit[] = "each controller has an audit of its own: of the time that it led";

static const struct standby_read reads[] = {
    { "baton.v1.Models/Get", true, model_left_out },
    { "baton.v1.Models/List", true, model_left_out },
    { "baton.v1.Models/Watch", false, watch },
    { "baton.v1.Versions/Get", true, "of one that is being published: bytes that are there" },
    { "baton.v1.Versions/List", true, "of one that is being published: bytes that are there" },
    { "baton.v1.Versions/Watch", false, watch },
    { "baton.v1.Rolls/Get", true, roll_left_out },
    { "baton.v1.Rolls/List", true, roll_left_out },
    { "baton.v1.Rolls/History", true, roll_left_out },
    { "baton.v1.Rolls/Watch", false, watch },
    { "baton.v1.Rolls/Plan", false, "a plan goes by what groups do at present" },
    { "baton.v1.Rolls/Wait", false, "it waits for what groups will serve" },
    { "baton.v1.Fleet/ListSwaps", true, "" },
    { "baton.v1.Fleet/ListGroups", true, group_left_out },
    { "baton.v1.Fleet/GetGroup", true, group_left_out },
    { "baton.v1.Fleet/Watch", false, watch },
    { "baton.v1.Fleet/ListAgents", false, reports },
    { "baton.v1.Fleet/ListEngines", false, reports },
    { "baton.v1.Fleet/Events", false, "the event log is the leader's to read in order" },
    { "baton.v1.Staleness/Summary", false, lag },
    { "baton.v1.Staleness/Histogram", false, lag },
    { "baton.v1.Staleness/Series", false, lag },
    { "baton.v1.Staleness/WatchSummary", false, watch },
    { "baton.v1.Admission/Resolve", false, ready },
    { "baton.v1.Admission/WatchEndpoints", false, watch },
    { "baton.v1.Admission/EvaluateSamples", false, "a verdict goes by the newest version" },
    { "baton.v1.Audit/List", false, audit },
};

const struct standby_read *standby_reads_all(void)
{
    return reads;
}

size_t standby_reads_count(void)
{
    return sizeof(reads) / sizeof(reads[0]);
}

const struct standby_read *standby_reads_find(const char *method)
{
    for (size_t i = 0; i < standby_reads_count(); i++) {
        if (strcmp(reads[i].method, method) == 0) {
            return &reads[i];
        }
    }
    return NULL;
}
