/* cuda_plugin.h -- the binary interface between Baton and its CUDA plug-in,
 * major 1.
 *
 * Everything that touches a GPU is in one shared object, baton_cuda.so, which
 * is built where a CUDA toolkit is found and loaded with cuda_open() where a
 * GPU is; the rest of Baton links no CUDA.
 *
 * Rules:
 * - One exported symbol, baton_cuda_plugin_v1; a constant table; within major 1
 * members are only appended.
 * - Results: 0 done or enqueued; negative BATON_CUDA_E_*; positive a
 * cudaError_t.  describe() tells any of them in words.  Every call into CUDA is
 * checked, every launch too; what fails later, on the device, is the answer of
 * the next stream_wait(), and then the process's context is lost.
 * - Calls with a stream only enqueue: arguments are read during the call,
 * device memory when the stream comes to it.  Nothing allocates but what is
 * named so.  A null stream is the device's default stream.  Work goes to the
 * device that use() chose for the calling thread.
 * - Threads: all calls may come from several threads; two calls on one stream
 * are ordered by who called first.
 * - "Device memory": cudaMalloc's, as alloc() gives it, or an IPC mapping of
 * it.  Pinned host memory works too, at the speed of its link.  Never managed
 * memory.
 * - Deterministic: the same bytes give the same bytes, on any device and in any
 * order of execution.
 *
 * Self-contained: stddef.h and stdint.h.  C11 and C++14.  Ownership: what the
 * plug-in allocates, it frees. */
#ifndef TRANSPORT_CUDA_CUDA_PLUGIN_H
#define TRANSPORT_CUDA_CUDA_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BATON_CUDA_MAJOR = 1, BATON_CUDA_NAME_BYTES = 128, BATON_CUDA_HANDLE_BYTES = 64 };

enum baton_cuda_result {
    BATON_CUDA_OK = 0,
    BATON_CUDA_E_INVALID = -1,   /* An argument breaks what is said beside it here. */
    BATON_CUDA_E_NO_DEVICE = -2, /* No driver, no GPU, or none that these kernels run on. */
};

struct baton_cuda_device {
    uint64_t memory_bytes;
    uint64_t free_bytes;
    int32_t capability; /* 90: compute capability 9.0. */
    int32_t processors;
    char name[BATON_CUDA_NAME_BYTES];
};

/* Where memory lies.  'base' and 'bytes' are the whole allocation's, of device
 * memory only. */
enum baton_cuda_kind {
    BATON_CUDA_PAGEABLE = 0, /* Host memory that CUDA does not know. */
    BATON_CUDA_PINNED = 1,
    BATON_CUDA_DEVICE = 2,
};
struct baton_cuda_place {
    uint32_t kind; /* enum baton_cuda_kind. */
    int32_t device;
    void *base;
    uint64_t bytes;
};

/* Digests.  A range is digested in chunks of 1 MiB from its first byte (the
 * last may be short; a range without bytes has none): XXH3-128, seed 0,
 * canonical, as transport/model/digest.h. */
struct baton_cuda_range {
    const void *bytes; /* Any alignment; multiples of 16 are fast, of 4 slower. */
    uint64_t size;
    uint64_t first_chunk; /* Index of its first digest: the chunks of all ranges
                           before it. */
};
enum { BATON_CUDA_CHUNK_BYTES = 1 << 20, BATON_CUDA_DIGEST_BYTES = 16 };

/* Copies of boxes.  'levels' nested loops, outermost first, around a run of
 * bytes in one piece; boxes.h makes them from a plan's copies.  Targets must
 * not overlap, nor a target any source. */
enum { BATON_CUDA_BOX_LEVELS = 3, BATON_CUDA_BOX_TILE = 4096 };
struct baton_cuda_box {
    const void *source;
    void *target;
    uint64_t counts[BATON_CUDA_BOX_LEVELS]; /* 1 where a level is not used. */
    uint64_t source_steps[BATON_CUDA_BOX_LEVELS];
    uint64_t target_steps[BATON_CUDA_BOX_LEVELS];
    uint64_t run_bytes;
    uint64_t first_tile; /* Tiles of all boxes before it; a tile is
                          BATON_CUDA_BOX_TILE units. */
    uint64_t unit_bytes; /* 1, 2, 4, 8 or 16: divides addresses, steps and the run. */
};

/* Changed words.  'old' and 'now' are aligned to 16 bytes; 'word_bytes' is 1, 2
 * or 4 and divides 'size'; fewer than 2^32 words.  A segment is 64 KiB of each
 * (the last may be short). */
enum { BATON_CUDA_SEGMENT_BYTES = 1 << 16 };
struct baton_cuda_delta {
    const void *old; /* Not read by delta_compact() and delta_apply(). */
    const void *now;
    uint64_t size;
    uint32_t word_bytes;
    uint32_t unused;
    uint32_t *counts; /* Device, one a segment: its changed words. */
    uint8_t *marks;   /* Device, aligned to 8, null: not wanted.  Bit i % 8 of byte
                     i / 8: word i changed; whole segments are written,
                     baton_cuda_marks_bytes(). */
};
struct baton_cuda_changes {
    uint64_t *offsets; /* Device, segments + 1: how many changes lie before each;
                        the last: all. */
    uint32_t *indices; /* Device: words that changed, ascending. */
    void *words;       /* Device: what they are now. */
    uint64_t capacity; /* Of both; what does not fit is not written, 'offsets'
                        counts it. */
};

/* Quantising: transport/quant/quant.h says what, bit for bit.  'scaling' is
 * enum quant_scaling. */
struct baton_cuda_quant {
    const void *values; /* bf16, rows x columns without gaps, aligned to 2. */
    void *codes;        /* e4m3, as many bytes. */
    float *scales;
    uint64_t *counts; /* NaNs, infinities: added to, so zero them first. */
    uint64_t rows;
    uint64_t columns;
    uint32_t scaling;
    uint32_t unused;
};

struct baton_cuda {
    size_t size;
    uint32_t major;
    uint32_t unused;
    /* Never null; valid for ever. */
    const char *(*describe)(int result);

    /* Devices.  devices(): E_NO_DEVICE where there is none. */
    int (*devices)(int *count);
    int (*device)(int device, struct baton_cuda_device *out);
    int (*use)(int device);

    /* Memory.  Null is freed as nothing.  host_alloc() is pinned and seen by
   * every device; 'register' pins memory that is there, a landing's mapping,
   * say. */
    int (*alloc)(void **out, uint64_t bytes);
    int (*free)(void *memory);
    int (*host_alloc)(void **out, uint64_t bytes);
    int (*host_free)(void *memory);
    int (*host_register)(void *memory, uint64_t bytes);
    int (*host_unregister)(void *memory);

    /* Order and time.  stream_wait() blocks until all is done, so it belongs on a
   * worker thread; stream_query() does not: 'busy' tells.  stream_after(): the
   * stream goes on after the event. */
    int (*stream_create)(void **out);
    int (*stream_destroy)(void *stream);
    int (*stream_wait)(void *stream);
    int (*stream_query)(void *stream, int *busy);
    int (*stream_after)(void *stream, void *event);
    int (*event_create)(void **out);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_wait)(void *event);
    int (*event_seconds)(void *begin, void *end, double *seconds);

    /* Any direction.  Pageable host memory makes them wait. */
    int (*copy)(void *target, const void *source, uint64_t bytes, void *stream);
    int (*fill)(void *target, int byte, uint64_t bytes, void *stream);

    /* 'ranges' and 'digests' are device memory; 'chunks' are those of all ranges.
   */
    int (*digest)(const struct baton_cuda_range *ranges, uint32_t ranges_count, uint64_t chunks,
                  void *digests, void *stream);
    /* 'boxes' is device memory; 'tiles' are those of all boxes. */
    int (*copy_boxes)(const struct baton_cuda_box *boxes, uint32_t boxes_count, uint64_t tiles,
                      void *stream);
    /* Fills counts and marks; then, from those, offsets, indices and words. */
    int (*delta_scan)(const struct baton_cuda_delta *delta, void *stream);
    int (*delta_compact)(const struct baton_cuda_delta *delta,
                         const struct baton_cuda_changes *changes, void *stream);
    /* target[indices[i]] = words[i] for all 'capacity' changes; 'delta' says the
   * target's size and words. An index beyond the range is left out and added to
   * *refused (device memory).  Indices are all different. */
    int (*delta_apply)(void *target, const struct baton_cuda_delta *delta,
                       const struct baton_cuda_changes *changes, uint64_t *refused, void *stream);
    int (*quantise)(const struct baton_cuda_quant *quant, void *stream);

    /* Memory and events of other processes.  ipc_export(): 'base' is an
   * allocation's, as locate() tells it; memory that cudaMalloc() did not give is
   * refused.  ipc_open() does not take handles of this process; what it gives is
   * the allocation's base, good until ipc_close() whatever the other process
   * does.  ipc_event_create(): an event as the others, without times. */
    int (*locate)(const void *memory, struct baton_cuda_place *out);
    int (*ipc_export)(void *base, uint8_t handle[BATON_CUDA_HANDLE_BYTES]);
    int (*ipc_open)(const uint8_t handle[BATON_CUDA_HANDLE_BYTES], void **out);
    int (*ipc_close)(void *base);
    int (*ipc_event_create)(void **out, uint8_t handle[BATON_CUDA_HANDLE_BYTES]);
    int (*ipc_event_open)(const uint8_t handle[BATON_CUDA_HANDLE_BYTES], void **out);
    int (*event_query)(void *event, int *busy);
};

static inline uint64_t baton_cuda_segments(uint64_t size)
{
    return size / BATON_CUDA_SEGMENT_BYTES + (size % BATON_CUDA_SEGMENT_BYTES != 0);
}

static inline uint64_t baton_cuda_marks_bytes(uint64_t size, uint32_t word_bytes)
{
    return baton_cuda_segments(size) * (BATON_CUDA_SEGMENT_BYTES / 8 / word_bytes);
}

/* The one exported symbol, of this type. */
typedef const struct baton_cuda *baton_cuda_plugin_v1_fn(void);

#ifdef __cplusplus
}
#endif

#endif /* cuda_plugin.h */
