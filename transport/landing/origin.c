/* origin.c -- readers over a transport, or over memory without a copy. */
#include "transport/landing/origin.h"

#include <stdlib.h>
#include <string.h>

struct origin_reader {
    struct origin origin;
    struct baton_transport *transport; /* Null for memory and a supplier. */
    void *supply;                      /* The supplier's reader. */
    struct baton_tp_mem *mem;
    uint8_t *buffer; /* One chunk; small enough to stay in the processor's cache. */
    bool broken;     /* After a timeout the buffer may still be written to until close. */
};

static struct baton_status make_buffer(struct origin_reader *reader)
{
    if (posix_memalign((void **)&reader->buffer, 4096, BATON_CHUNK_BYTES) != 0) {
        reader->buffer = NULL;
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "landing: out of memory");
    }
    return baton_status_ok();
}

static struct baton_status open_supply(struct origin_reader *reader, unsigned worker)
{
    const struct landing_supplier *supplier = reader->origin.supplier;
    struct baton_status st = make_buffer(reader);
    return baton_ok(&st) ? supplier->open(supplier->context, worker, &reader->supply) : st;
}

static struct baton_status open_transport(struct origin_reader *reader)
{
    const struct landing_source *source = &reader->origin.source;
    struct baton_status st =
        baton_transport_open(source->backend, source->config, &reader->transport);
    if (baton_ok(&st)) {
        st = make_buffer(reader);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    return baton_transport_register(reader->transport, reader->buffer, BATON_CHUNK_BYTES,
                                    (struct baton_bytes){ NULL, 0 }, 0, &reader->mem);
}

struct baton_status origin_open(const struct origin *origin, unsigned worker,
                                struct origin_reader **out)
{
    struct origin_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "landing: out of memory");
    }
    reader->origin = *origin;
    struct baton_status st = baton_status_ok();
    if (origin->supplier != NULL) {
        st = open_supply(reader, worker);
    } else if (origin->source.backend != NULL) {
        st = open_transport(reader);
    }
    if (!baton_ok(&st)) {
        origin_close(reader);
        return st;
    }
    *out = reader;
    return st;
}

void origin_close(struct origin_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    if (reader->transport != NULL) {
        if (!reader->broken) {
            baton_transport_release(reader->transport, reader->mem);
        }
        baton_transport_close(reader->transport);
    }
    if (reader->supply != NULL) {
        reader->origin.supplier->close(reader->supply);
    }
    free(reader->buffer);
    free(reader);
}

static struct baton_transport_range range_of(const struct origin_reader *reader, const char *file,
                                             uint64_t offset)
{
    return (struct baton_transport_range){ reader->origin.source.peer, baton_bytes_of(file),
                                           offset };
}

static struct baton_status fetch(struct origin_reader *reader, const char *file, uint64_t offset,
                                 size_t size)
{
    if (reader->broken) {
        return baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_IO,
                                 "landing: the transport did not answer in time before");
    }
    struct baton_transport_local local = { reader->mem, 0, size };
    struct baton_status st = baton_transport_get_wait(
        reader->transport, range_of(reader, file, offset), local, reader->origin.timeout_ns);
    reader->broken = st.code == BATON_DEADLINE_EXCEEDED;
    return st;
}

struct baton_status origin_read(struct origin_reader *reader, const struct origin_place *place,
                                uint64_t offset, size_t size, const uint8_t **out)
{
    if (reader->transport == NULL) {
        *out = place->data + offset;
        return baton_status_ok();
    }
    struct baton_status st = fetch(reader, place->file, place->offset + offset, size);
    if (baton_ok(&st)) {
        *out = reader->buffer;
    }
    return st;
}

void origin_expect(struct origin_reader *reader, uint64_t chunk)
{
    reader->origin.supplier->expect(reader->supply, chunk);
}

struct baton_status origin_pull(struct origin_reader *reader, uint64_t chunk, size_t size,
                                const uint8_t **out)
{
    *out = reader->buffer;
    return reader->origin.supplier->read(reader->supply, chunk, reader->buffer, size);
}

void origin_reject(struct origin_reader *reader, uint64_t chunk)
{
    reader->origin.supplier->reject(reader->supply, chunk);
}

struct baton_status origin_length(struct origin_reader *reader, const char *file, uint64_t *out)
{
    return baton_transport_length_wait(reader->transport, range_of(reader, file, 0),
                                       reader->origin.timeout_ns, out);
}

struct baton_status origin_read_first(struct origin_reader *reader, const char *file, uint64_t size,
                                      struct baton_bytes *out)
{
    uint8_t *data = malloc(size + 1);
    if (data == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "landing: %.200s: out of memory for %llu bytes", file,
                                 (unsigned long long)size);
    }
    for (uint64_t done = 0; done < size;) {
        size_t piece = size - done < BATON_CHUNK_BYTES ? (size_t)(size - done) : BATON_CHUNK_BYTES;
        struct baton_status st = fetch(reader, file, done, piece);
        if (!baton_ok(&st)) {
            free(data);
            return st;
        }
        memcpy(data + done, reader->buffer, piece);
        done += piece;
    }
    data[size] = '\0';
    *out = (struct baton_bytes){ data, size };
    return baton_status_ok();
}

struct baton_status origin_read_all(struct origin_reader *reader, const char *file, uint64_t limit,
                                    struct baton_bytes *out)
{
    uint64_t size = 0;
    struct baton_status st = origin_length(reader, file, &size);
    if (!baton_ok(&st)) {
        return st;
    }
    if (size > limit) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "landing: %.150s: %llu bytes, above the limit of %llu", file,
                                 (unsigned long long)size, (unsigned long long)limit);
    }
    return origin_read_first(reader, file, size, out);
}
