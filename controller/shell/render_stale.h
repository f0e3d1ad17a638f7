/* render_stale.h -- staleness and endpoints as messages of the API, and the policy's part of them.
 *
 * Roots as in render.h.
 *
 * Depends on: controller/core/staleness.h, admission.h, api/wire.  Threads: the loop's.
 * Ownership: as render.h. */
#ifndef CONTROLLER_SHELL_RENDER_STALE_H
#define CONTROLLER_SHELL_RENDER_STALE_H

#include "api/base/status.h"
#include "api/rpc/rpc.h"
#include "baton/v1/admission.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/staleness.pb-c.h"
#include "controller/core/admission.h"
#include "controller/core/series.h"
#include "controller/core/staleness.h"

/* Fills staleness, sessions and slots of 'message'. */
void render_stale_policy(const struct update_policy *policy, Baton__V1__UpdatePolicy *message,
                         void *root);
/* The reverse; a bad duration is refused by field. */
BATON_MUST_USE struct baton_status read_stale_policy(const Baton__V1__UpdatePolicy *from,
                                                     struct policy_spec *out);

Baton__V1__StalenessSummary *render_staleness(const struct controller *core,
                                              const struct model_record *model, void *root);
/* A new root. */
Baton__V1__StalenessHistogramResponse *render_histogram(const struct controller *core,
                                                        const struct model_record *model,
                                                        enum lag_unit unit);

/* A new root. */
Baton__V1__StalenessSeriesResponse *render_series(const struct controller *core,
                                                  const struct model_record *model, uint32_t tier,
                                                  uint64_t since_wall_ns);

/* 'group' meets a query and serves 'version' (view_admission_group()); a part of 'root'. */
Baton__V1__Endpoint *render_endpoint(const struct controller *core,
                                     const struct group_record *group,
                                     const struct version_record *version, void *root);

#endif /* render_stale.h */
