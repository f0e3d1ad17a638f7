/* routes.h -- every RPC of the controller and its handler: to add one, add a line in routes.c.
 *
 * Handlers run on RPC threads and only post work to the loop (daemon.h).
 *
 * Depends on: api/rpc.  Threads: see above.  Ownership: static. */
#ifndef CONTROLLER_SHELL_ROUTES_H
#define CONTROLLER_SHELL_ROUTES_H

#include <stddef.h>

#include "api/rpc/rpc.h"

const struct rpc_route *routes_all(void);
size_t routes_count(void);

/* service_models.c */
rpc_handler_fn serve_models_apply, serve_models_get, serve_models_list, serve_models_watch,
    serve_models_suspend, serve_models_hold, serve_models_resume;
/* service_versions.c */
rpc_handler_fn serve_versions_open, serve_versions_add_manifest_part, serve_versions_seal,
    serve_versions_publish, serve_versions_get, serve_versions_list, serve_versions_watch,
    serve_versions_report_progress, serve_versions_abandon, serve_versions_pin,
    serve_versions_unpin, serve_versions_quarantine, serve_versions_unquarantine;
/* service_rolls.c */
rpc_handler_fn serve_rolls_start, serve_rolls_get, serve_rolls_list, serve_rolls_watch,
    serve_rolls_pause, serve_rolls_resume, serve_rolls_undo, serve_rolls_history, serve_rolls_wait,
    serve_rolls_advance, serve_rolls_promote, serve_rolls_abort, serve_rolls_retry,
    serve_rolls_report_check, serve_rolls_plan, serve_fleet_list_swaps;
/* service_fleet.c */
rpc_handler_fn serve_fleet_list_groups, serve_fleet_get_group, serve_fleet_watch,
    serve_fleet_list_agents, serve_fleet_list_engines, serve_fleet_events, serve_fleet_cordon,
    serve_fleet_rebuild_store, serve_fleet_attest_floors, serve_fleet_uncordon, serve_fleet_drain,
    serve_fleet_sleep, serve_fleet_wake, serve_fleet_retire, serve_fleet_pin, serve_fleet_unpin;
/* service_staleness.c */
rpc_handler_fn serve_staleness_summary, serve_staleness_histogram, serve_staleness_series,
    serve_staleness_watch_summary;
/* service_admission.c */
rpc_handler_fn serve_admission_resolve, serve_admission_watch_endpoints;
/* service_slots.c */
rpc_handler_fn serve_admission_acquire_slots, serve_admission_release_slots,
    serve_admission_report_samples, serve_admission_evaluate_samples;
/* service_audit.c */
rpc_handler_fn serve_audit_list;

#endif /* routes.h */
