/* report.h -- what agents say, as the core's plain structs.
 *
 * Texts that do not fit the core's fixed sizes are refused by field; the arrays live in a
 * report_memory until report_memory_free().
 *
 * Depends on: controller/core/event.h, api/wire.  Threads: any.  Ownership: the caller frees 'memory',
 * also after a failure; texts are borrowed from the message. */
#ifndef CONTROLLER_SHELL_REPORT_H
#define CONTROLLER_SHELL_REPORT_H

#include "api/base/status.h"
#include "controller/core/event.h"

struct Baton__V1__Hello;
struct Baton__V1__Report;

struct report_block;

/* Begins as { NULL }.  Its blocks are as many as the message needs: what bounds them is checked by field. */
struct report_memory {
    struct report_block *blocks;
};
void report_memory_free(struct report_memory *memory);

/* The session's id is left to the caller. */
BATON_MUST_USE struct baton_status report_from_hello(const struct Baton__V1__Hello *hello,
                                                     struct session_hello *out,
                                                     struct report_memory *memory);
BATON_MUST_USE struct baton_status report_from_message(const struct Baton__V1__Report *report,
                                                       struct session_report *out,
                                                       struct report_memory *memory);

#endif /* report.h */
