/* stale_view.h -- staleness as tables, bars and sparklines.
 *
 * Depends on: print.h, baton/v1/staleness.  Threads: one.  Ownership: borrowed for the call. */
#ifndef CONTROLLER_CLI_STALE_VIEW_H
#define CONTROLLER_CLI_STALE_VIEW_H

#include "baton/v1/staleness.pb-c.h"
#include "controller/cli/print.h"

enum { STALE_VIEW_COLUMNS_MAX = 24 };

/* Columns of summaries, for cli_print_items(). */
extern const struct cli_kind stale_view_summaries;

/* "publishes", "steps", "samples", "seconds", or the words of the policy; false for another one. */
bool stale_view_unit(const char *word, Baton__V1__LagUnit *out);
const char *stale_view_unit_word(Baton__V1__LagUnit unit);

void stale_view_histogram(const Baton__V1__StalenessHistogramResponse *histogram);
void stale_view_series(const Baton__V1__StalenessSeriesResponse *series, Baton__V1__LagUnit unit);
/* What keeping up costs; nothing if it was not measured. */
void stale_view_cost(const Baton__V1__StalenessSummary *summary);

#endif /* stale_view.h */
