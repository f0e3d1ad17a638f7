/* rig.h -- the GPU suite's hands: memory, random bytes, verdicts, figures.
 *
 * A call that fails where it must not ends the program with exit code 2.
 *
 * Depends on: transport/cuda.  Threads: one.  Ownership: what rig_device() and rig_host() give is
 * freed with rig_free() and free(). */
#ifndef TESTS_GPU_RIG_H
#define TESTS_GPU_RIG_H

#include <stdbool.h>

#include "api/base/random.h"
#include "transport/cuda/cuda_open.h"

enum { RIG_POISON = 0xA5, RIG_RUNS_MAX = 64 };

struct rig {
    const struct baton_cuda *cuda;
    void *stream;
    struct baton_random random;
    unsigned failed;
    unsigned missed; /* Figures below their target. */
};

struct rig rig_open(const char *plugin);
void rig_close(struct rig *rig);
void rig_must(const struct rig *rig, int result, const char *what);

/* Host memory of random bytes. */
uint8_t *rig_host(struct rig *rig, uint64_t bytes);
/* Device memory: poisoned, or a copy of host memory. */
void *rig_device(struct rig *rig, uint64_t bytes);
void *rig_upload(struct rig *rig, const void *host, uint64_t bytes);
/* To new host memory, after all work on the stream. */
void *rig_download(struct rig *rig, const void *device, uint64_t bytes);
void rig_free(struct rig *rig, void *device);
void rig_wait(struct rig *rig);

/* "ok - name" or "not ok - name". */
void rig_verdict(struct rig *rig, const char *name, bool holds);
/* 'count' bytes are equal; says where the first are not. */
bool rig_equal(const char *what, const void *got, const void *expected, uint64_t count);

/* The median of 'runs' times of work(), in seconds on the device; warmed up before. */
double rig_time(struct rig *rig, void (*work)(struct rig *rig, void *self), void *self,
                unsigned runs);

struct figure {
    const char *name;
    const char *unit;
    const char *anchor;
    double value;
    double anchor_value;
    double target; /* Of value. */
};
/* One JSON line; a value below its target counts as missed. */
void rig_figure(struct rig *rig, struct figure figure);

void check_digests(struct rig *rig, const char *golden);
void check_boxes(struct rig *rig);
void check_deltas(struct rig *rig);
void check_quantisers(struct rig *rig);
void check_host_path(struct rig *rig);
void figures(struct rig *rig);
void figures_host(struct rig *rig);

#endif /* rig.h */
