/* bytes.h -- views of bytes, a bounds-checked reader and writer, hexadecimal.
 *
 * A view is a pointer and a length by value; nothing here relies on a terminator.  Reader and writer
 * never touch a byte outside of what they were given: after the first failed step they stay failed
 * and further steps give zeros, so that a decoder checks once, at its end.
 *
 * Depends on: status.h.  Threads: an object belongs to one thread.  Ownership: all borrowed. */
#ifndef BATON_BASE_BYTES_H
#define BATON_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct baton_bytes {
    const uint8_t *data;
    size_t size;
};

struct baton_reader {
    struct baton_bytes left; /* What has not been read yet. */
    bool failed;
};

struct baton_writer {
    uint8_t *data;
    size_t capacity;
    size_t size; /* Bytes written; keeps counting past 'capacity', so a dry run measures. */
};

/* A view of a terminated string, without its end. */
struct baton_bytes baton_bytes_of(const char *text);
bool baton_bytes_equal(struct baton_bytes a, struct baton_bytes b);

struct baton_reader baton_reader_of(struct baton_bytes bytes);
uint8_t baton_read_u8(struct baton_reader *reader);
uint32_t baton_read_u32le(struct baton_reader *reader);
uint64_t baton_read_u64le(struct baton_reader *reader);
/* The next 'size' bytes, borrowed from what is read; empty after a failure. */
struct baton_bytes baton_read_bytes(struct baton_reader *reader, size_t size);
/* u32le length, then as many bytes; fails when longer than 'limit'. */
struct baton_bytes baton_read_framed(struct baton_reader *reader, size_t limit);

struct baton_writer baton_writer_of(uint8_t *data, size_t capacity);
void baton_write_u8(struct baton_writer *writer, uint8_t value);
void baton_write_u32le(struct baton_writer *writer, uint32_t value);
void baton_write_u64le(struct baton_writer *writer, uint64_t value);
void baton_write_bytes(struct baton_writer *writer, struct baton_bytes bytes);
void baton_write_framed(struct baton_writer *writer, struct baton_bytes bytes);
/* True if all that was written fitted. */
bool baton_writer_ok(const struct baton_writer *writer);

/* Writes 2 * size lower-case digits and an end; 'out' must hold 2 * size + 1. */
void baton_hex_encode(const uint8_t *data, size_t size, char *out);
/* Reads exactly 2 * size digits of either case from the start of 'text', which must end there;
 * false otherwise. */
bool baton_hex_decode(const char *text, uint8_t *out, size_t size);

/* Copies 'text' into 'out' and ends it; false (and an empty 'out') if it does not fit. */
bool baton_text_copy(char *out, size_t out_bytes, const char *text);

/* CRC-32C (Castagnoli), RFC 3720 B.4; start with 0. */
uint32_t baton_crc32c(uint32_t crc, const void *data, size_t size);

#endif /* bytes.h */
