/* version.h -- the version that benches of landings move: tensors of BF16 that end within a chunk.
 *
 * Depends on: transport/landing.  Threads: one.  Aborts on failure, with its words. */
#ifndef TESTS_BENCH_VERSION_H
#define TESTS_BENCH_VERSION_H

#include "transport/landing/landing.h"
#include "transport/model/manifest.h"

enum { VERSION_TENSORS = 48, VERSION_ROWS = 5461, VERSION_COLUMNS = 1024 };
#define VERSION_TENSOR_BYTES ((uint64_t)VERSION_ROWS * VERSION_COLUMNS * 2)

void version_must(struct baton_status st);
/* The landing root "<dir>/<name>". */
struct landing_root *version_root(const char *dir, const char *name);
/* Hands the tensors over from memory; the caller destroys the manifest. */
struct manifest *version_make(struct landing_root *root);

#endif /* version.h */
