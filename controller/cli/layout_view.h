/* layout_view.h -- layouts and plans as tables and JSON.
 *
 * Depends on: cli.h, transport/layout.  Threads: one.  Ownership: all borrowed for the call. */
#ifndef CONTROLLER_CLI_LAYOUT_VIEW_H
#define CONTROLLER_CLI_LAYOUT_VIEW_H

#include "controller/cli/cli.h"
#include "transport/layout/plan.h"

/* What each rank holds; with a rank (not LAYOUT_NONE), where each box lies in its locals. */
void cli_layout_show(const struct cli *cli, const struct layout *layout, uint32_t rank);
/* That a layout which was read holds. */
void cli_layout_check(const struct cli *cli, const struct layout *layout);
/* What differs; false if nothing that a plan depends on does. */
bool cli_layout_diff(const struct cli *cli, const struct layout *a, const struct layout *b);
/* The plan's figures; its buckets with -o wide, its copies if asked for. */
void cli_layout_plan(const struct cli *cli, const struct layout *source,
                     const struct layout *target, const struct layout_plan *plan, bool has_copies);

#endif /* layout_view.h */
