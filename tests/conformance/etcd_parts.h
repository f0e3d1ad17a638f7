/* etcd_parts.h -- a program's parts, each with an etcd of its own and patience.
 *
 * Threads: one, and the program has no other when it calls (patience.h). */
#ifndef TESTS_CONFORMANCE_ETCD_PARTS_H
#define TESTS_CONFORMANCE_ETCD_PARTS_H

#include <stddef.h>

#include "tests/conformance/etcd_rig.h"

struct etcd_part {
    const char *name;
    void (*asks)(struct etcd_rig *rig); /* It is given a cluster of one member. */
    void (*run)(void);                  /* Instead, where it makes its own. */
};

/* Runs all parts, or the one that the first argument names, and prints each that held; gives main()'s
 * exit code: 77, with the reason printed, where there is no etcd on this machine.  A part that fails
 * ends the program with 1. */
int etcd_parts_run(const char *program, const struct etcd_part *parts, size_t count, int argc,
                   char **argv);

#endif /* etcd_parts.h */
