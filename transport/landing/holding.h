/* holding.h -- the verified chunks of a version that lies in a landing root, whole or still on its way, for peers.
 *
 * Chunks are numbered as in baton.chunks: tensors in manifest order, then files, each cut into 1 MiB from its first
 * byte.  While a version is being landed only those chunks are handed out that were verified against a bound chunk
 * table; of a sealed one all are, as they lie there: whoever takes them verifies them again.
 *
 * Depends on: landing.h, transport/model.  Threads: any.  Ownership: holding_open() gives, holding_close() takes; what
 * a holding returns lives as long as it.  A removed version's files keep their room until its holdings are closed. */
#ifndef TRANSPORT_LANDING_HOLDING_H
#define TRANSPORT_LANDING_HOLDING_H

#include "transport/landing/landing.h"

struct holding;

/* Where a chunk's bytes are. */
struct holding_piece {
    int fd; /* The holding's. */
    uint64_t offset;
    size_t size;
};

/* NOT_FOUND: it is neither sealed here nor on its way with a chunk table. */
BATON_MUST_USE struct baton_status holding_open(struct landing_root *root, struct digest digest,
                                                struct holding **out);
/* Null is fine. */
void holding_close(struct holding *holding);

/* The text of baton.manifest.json. */
struct baton_bytes holding_manifest(const struct holding *holding);
/* The bound chunk table. */
const struct digest *holding_table(const struct holding *holding, uint64_t *out_count);

/* A verified chunk; waits for it until 'deadline_ns' (monotonic).  UNAVAILABLE: it did not come so far.  NOT_FOUND:
 * the version is gone, or its landing ended without it.  OUT_OF_RANGE: there is no such chunk. */
BATON_MUST_USE struct baton_status holding_find(struct holding *holding, uint64_t chunk,
                                                uint64_t deadline_ns, struct holding_piece *out);

/* --- For landings, private to transport/landing --- */

struct job;

/* From now on what the job noted as verified may be handed out.  Null without memory: then nobody is served from it. */
struct holding *holding_begin(struct job *job, const struct digest *table);
/* A chunk was verified and written.  Null is fine, here and below. */
void holding_note(struct holding *holding, uint64_t chunk);
/* The job's end; its directory has the version's name, or nothing of it counts any more. */
void holding_end(struct holding *holding, bool sealed);
/* The version is being removed. */
void holding_lose(struct landing_root *root, struct digest digest);

#endif /* holding.h */
