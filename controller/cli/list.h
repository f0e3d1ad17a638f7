/* list.h -- fetching objects of a kind: all pages, or one by name.
 *
 * Depends on: cli.h, print.h.  Threads: one.  Ownership: a list owns its pages; items live in them. */
#ifndef CONTROLLER_CLI_LIST_H
#define CONTROLLER_CLI_LIST_H

#include "controller/cli/print.h"

enum { CLI_PAGES_MAX = 4096 }; /* One item a page at the least. */

struct cli_list {
    void *pages[CLI_PAGES_MAX];
    size_t pages_count;
    void **items;
    size_t count;
    uint64_t revision; /* At which the last page was read. */
};

/* Fetches all objects of a kind, only those of cli->model if set.  The list must be freed also after a
 * failure. */
BATON_MUST_USE enum cli_exit cli_list_fetch(struct cli *cli, const struct cli_kind *kind,
                                            struct cli_list *list);
void cli_list_free(struct cli_list *list);

/* The item of this name ("g0", "m@7", "group.engine", for versions also "v7" together with --model); null if
 * there is none. */
void *cli_list_find(const struct cli_list *list, const struct cli_kind *kind, const char *name);

#endif /* list.h */
