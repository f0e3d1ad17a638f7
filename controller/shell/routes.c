/* routes.c -- the table of RPCs; see routes.h. */
#include "controller/shell/routes.h"

#include "controller/shell/session.h"

static const struct rpc_route routes[] = {
    { "baton.v1.Models/Apply", serve_models_apply, 0 },
    { "baton.v1.Models/Get", serve_models_get, 0 },
    { "baton.v1.Models/List", serve_models_list, 0 },
    { "baton.v1.Models/Watch", serve_models_watch, 1024 },
    { "baton.v1.Models/Suspend", serve_models_suspend, 0 },
    { "baton.v1.Models/Hold", serve_models_hold, 0 },
    { "baton.v1.Models/Resume", serve_models_resume, 0 },
    { "baton.v1.Versions/Open", serve_versions_open, 0 },
    { "baton.v1.Versions/AddManifestPart", serve_versions_add_manifest_part, 64 },
    { "baton.v1.Versions/Seal", serve_versions_seal, 0 },
    { "baton.v1.Versions/Publish", serve_versions_publish, 0 },
    { "baton.v1.Versions/Get", serve_versions_get, 0 },
    { "baton.v1.Versions/List", serve_versions_list, 0 },
    { "baton.v1.Versions/Watch", serve_versions_watch, 1024 },
    { "baton.v1.Versions/ReportProgress", serve_versions_report_progress, 0 },
    { "baton.v1.Versions/Abandon", serve_versions_abandon, 0 },
    { "baton.v1.Versions/Pin", serve_versions_pin, 0 },
    { "baton.v1.Versions/Unpin", serve_versions_unpin, 0 },
    { "baton.v1.Versions/Quarantine", serve_versions_quarantine, 0 },
    { "baton.v1.Versions/Unquarantine", serve_versions_unquarantine, 0 },
    { "baton.v1.Rolls/Start", serve_rolls_start, 0 },
    { "baton.v1.Rolls/Get", serve_rolls_get, 0 },
    { "baton.v1.Rolls/List", serve_rolls_list, 0 },
    { "baton.v1.Rolls/Watch", serve_rolls_watch, 1024 },
    { "baton.v1.Rolls/Pause", serve_rolls_pause, 0 },
    { "baton.v1.Rolls/Resume", serve_rolls_resume, 0 },
    { "baton.v1.Rolls/Advance", serve_rolls_advance, 0 },
    { "baton.v1.Rolls/Promote", serve_rolls_promote, 0 },
    { "baton.v1.Rolls/Abort", serve_rolls_abort, 0 },
    { "baton.v1.Rolls/Retry", serve_rolls_retry, 0 },
    { "baton.v1.Rolls/ReportCheck", serve_rolls_report_check, 0 },
    { "baton.v1.Rolls/Undo", serve_rolls_undo, 0 },
    { "baton.v1.Rolls/Plan", serve_rolls_plan, 0 },
    { "baton.v1.Fleet/ListSwaps", serve_fleet_list_swaps, 0 },
    { "baton.v1.Rolls/History", serve_rolls_history, 0 },
    { "baton.v1.Rolls/Wait", serve_rolls_wait, 1024 },
    { "baton.v1.Fleet/ListGroups", serve_fleet_list_groups, 0 },
    { "baton.v1.Fleet/GetGroup", serve_fleet_get_group, 0 },
    { "baton.v1.Fleet/Watch", serve_fleet_watch, 1024 },
    { "baton.v1.Fleet/ListAgents", serve_fleet_list_agents, 0 },
    { "baton.v1.Fleet/ListEngines", serve_fleet_list_engines, 0 },
    { "baton.v1.Fleet/Events", serve_fleet_events, 1024 },
    { "baton.v1.Staleness/Summary", serve_staleness_summary, 0 },
    { "baton.v1.Staleness/Histogram", serve_staleness_histogram, 0 },
    { "baton.v1.Admission/Resolve", serve_admission_resolve, 0 },
    { "baton.v1.Staleness/Series", serve_staleness_series, 0 },
    { "baton.v1.Staleness/WatchSummary", serve_staleness_watch_summary, 1024 },
    { "baton.v1.Admission/AcquireSlots", serve_admission_acquire_slots, 0 },
    { "baton.v1.Admission/ReleaseSlots", serve_admission_release_slots, 0 },
    { "baton.v1.Admission/ReportSamples", serve_admission_report_samples, 0 },
    { "baton.v1.Admission/EvaluateSamples", serve_admission_evaluate_samples, 0 },
    { "baton.v1.Admission/WatchEndpoints", serve_admission_watch_endpoints, 1024 },
    { "baton.v1.Fleet/RebuildStore", serve_fleet_rebuild_store, 0 },
    { "baton.v1.Fleet/AttestFloors", serve_fleet_attest_floors, 0 },
    { "baton.v1.Fleet/Cordon", serve_fleet_cordon, 0 },
    { "baton.v1.Fleet/Uncordon", serve_fleet_uncordon, 0 },
    { "baton.v1.Fleet/Drain", serve_fleet_drain, 0 },
    { "baton.v1.Fleet/Sleep", serve_fleet_sleep, 0 },
    { "baton.v1.Fleet/Wake", serve_fleet_wake, 0 },
    { "baton.v1.Fleet/Retire", serve_fleet_retire, 0 },
    { "baton.v1.Fleet/Pin", serve_fleet_pin, 0 },
    { "baton.v1.Fleet/Unpin", serve_fleet_unpin, 0 },
    { "baton.v1.Audit/List", serve_audit_list, 8 },
    { "baton.v1.AgentSession/Session", serve_session, BATON_AGENTS_MAX },
};

const struct rpc_route *routes_all(void)
{
    return routes;
}

size_t routes_count(void)
{
    return sizeof(routes) / sizeof(routes[0]);
}
