/* load_must.h -- ends the load generator when something is not as it must be: figures of a fleet that misbehaves say nothing. */
#ifndef TESTS_BENCH_LOAD_MUST_H
#define TESTS_BENCH_LOAD_MUST_H

#include <stdbool.h>

enum { LOAD_FAILED = 3 };

/* Says 'what' and exits LOAD_FAILED unless 'holds'; the controller that was started is ended too. */
void load_must(bool holds, const char *what);

#endif /* load_must.h */
