/* roll_view.h -- looking at a roll: before it starts (plan), to its end (status, watch), and after it
 * (trace).
 *
 * Depends on: cli.h, print.h.  Threads: one.  Ownership: all borrowed. */
#ifndef CONTROLLER_CLI_ROLL_VIEW_H
#define CONTROLLER_CLI_ROLL_VIEW_H

#include "controller/cli/print.h"

/* Follow the model's newest roll.  OK: completed; FAILED: undone or superseded; DEGRADED: it makes no
 * progress; TIMEOUT: not within --timeout. */
enum cli_exit cli_roll_status(struct cli *cli, const char *model);
enum cli_exit cli_roll_watch(struct cli *cli, const char *model);

/* What a roll would do. */
enum cli_exit cli_roll_plan(struct cli *cli, const char *model);
/* The swaps of a roll (the third word: its number; else the newest) as trace events. */
enum cli_exit cli_roll_trace(struct cli *cli, const char *model);

/* Options of roll. */
uint64_t cli_roll_to(void);
/* Null: not given. */
const char *cli_roll_order(void);
/* "g0,g1" as a list; part of 'root'. */
char **cli_roll_names(void *root, const char *list, size_t *count);

#endif /* roll_view.h */
