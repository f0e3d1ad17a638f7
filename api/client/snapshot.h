/* snapshot.h -- copies of tensors in shared memory, packed into segments for the agent.
 *
 * Entries are appended to a memfd; a full one is sealed, so that neither side can change or shorten
 * it, and goes to the agent together with the TENSOR and FILE frames that describe what lies in it.
 * Small tensors share a segment, a large one has its own.
 *
 * Depends on: api/base, local_channel.h.  Threads: one.  Ownership: owns the open segment. */
#ifndef BATON_CLIENT_SNAPSHOT_H
#define BATON_CLIENT_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/status.h"
#include "api/client/local_channel.h"
#include "api/client/local_protocol.h"

enum { SNAPSHOT_SEGMENT_BYTES = 64 << 20, SNAPSHOT_FRAMES_BYTES = 256 << 10 };

struct snapshot {
    int fd;          /* The open segment; -1: none. */
    uint64_t used;   /* Bytes in it. */
    uint8_t *frames; /* Entries of the open segment, encoded; SNAPSHOT_FRAMES_BYTES. */
    size_t frames_bytes;
};

/* UNIMPLEMENTED where the system has no sealable shared memory: send inline instead. */
BATON_MUST_USE struct baton_status snapshot_init(struct snapshot *snapshot);
/* Drops what was not flushed.  A zeroed one is fine. */
void snapshot_deinit(struct snapshot *snapshot);

/* Copies an entry's bytes ('entry' is TENSOR or FILE; its offset is set here).  Flushes first where
 * the open segment is full. */
BATON_MUST_USE struct baton_status snapshot_add(struct snapshot *snapshot,
                                                struct local_message *entry, const void *data,
                                                struct local_channel *channel,
                                                uint64_t deadline_ns);

/* Seals and sends the open segment, if there is one. */
BATON_MUST_USE struct baton_status snapshot_flush(struct snapshot *snapshot,
                                                  struct local_channel *channel,
                                                  uint64_t deadline_ns);

#endif /* snapshot.h */
