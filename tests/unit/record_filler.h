/* record_filler.h -- a record of each kind in which every member differs from zero and its neighbours.
 *
 * Depends on: controller/store/record_fields.h.  Threads: any.  Ownership: the caller's. */
#ifndef TESTS_UNIT_RECORD_FILLER_H
#define TESTS_UNIT_RECORD_FILLER_H

#include "controller/core/record.h"

void record_fill(enum record_kind kind, union record_body *out);

#endif /* record_filler.h */
