/* origin.h -- where a landing's bytes come from: a transport backend, or memory of the caller.
 *
 * Private to transport/landing.  Each worker opens a reader of its own; a reader hands out one
 * chunk at a time.
 *
 * Threads: an origin is shared and constant; a reader belongs to one thread.  Ownership: readers
 * go to the caller; what origin_read() gives is valid until the reader's next call. */
#ifndef TRANSPORT_LANDING_ORIGIN_H
#define TRANSPORT_LANDING_ORIGIN_H

#include "transport/include/baton/transport.h"
#include "transport/landing/landing.h"

struct origin {
    struct landing_source source; /* Borrowed; a null backend: memory, or the supplier. */
    uint64_t timeout_ns;
    const struct landing_supplier *supplier; /* Null: none. */
};

/* Where one item (tensor or file) lies. */
struct origin_place {
    const char *file; /* Object of the backend. */
    uint64_t offset;
    const uint8_t *data; /* For memory: its first byte. */
};

struct origin_reader;

BATON_MUST_USE struct baton_status origin_open(const struct origin *origin, unsigned worker,
                                               struct origin_reader **out);
void origin_close(struct origin_reader *reader);

/* 'size' bytes (at most BATON_CHUNK_BYTES) from 'offset' of the item at 'place'. */
BATON_MUST_USE struct baton_status origin_read(struct origin_reader *reader,
                                               const struct origin_place *place, uint64_t offset,
                                               size_t size, const uint8_t **out);

/* Of a supplier: which chunk follows the next one; a chunk by its number; and that it was not that chunk. */
void origin_expect(struct origin_reader *reader, uint64_t chunk);
BATON_MUST_USE struct baton_status origin_pull(struct origin_reader *reader, uint64_t chunk,
                                               size_t size, const uint8_t **out);
void origin_reject(struct origin_reader *reader, uint64_t chunk);

/* The size of a backend's object. */
BATON_MUST_USE struct baton_status origin_length(struct origin_reader *reader, const char *file,
                                                 uint64_t *out);

/* A whole object of at most 'limit' bytes, on the heap (free()). */
BATON_MUST_USE struct baton_status origin_read_all(struct origin_reader *reader, const char *file,
                                                   uint64_t limit, struct baton_bytes *out);
/* The first 'size' bytes of an object, likewise. */
BATON_MUST_USE struct baton_status origin_read_first(struct origin_reader *reader, const char *file,
                                                     uint64_t size, struct baton_bytes *out);

#endif /* origin.h */
