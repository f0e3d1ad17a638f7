/* bytes.c -- bounds-checked reading and writing; see bytes.h. */
#include "api/base/bytes.h"

#include <string.h>

struct baton_bytes baton_bytes_of(const char *text)
{
    return (struct baton_bytes){ (const uint8_t *)text, strlen(text) };
}

bool baton_bytes_equal(struct baton_bytes a, struct baton_bytes b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

struct baton_reader baton_reader_of(struct baton_bytes bytes)
{
    return (struct baton_reader){ bytes, false };
}

struct baton_bytes baton_read_bytes(struct baton_reader *reader, size_t size)
{
    if (reader->failed || size > reader->left.size) {
        reader->failed = true;
        return (struct baton_bytes){ NULL, 0 };
    }
    struct baton_bytes got = { reader->left.data, size };
    reader->left.data += size;
    reader->left.size -= size;
    return got;
}

static uint64_t read_le(struct baton_reader *reader, size_t size)
{
    struct baton_bytes got = baton_read_bytes(reader, size);
    uint64_t value = 0;
    for (size_t i = 0; i < got.size; i++) {
        value |= (uint64_t)got.data[i] << (8 * i);
    }
    return value;
}

uint8_t baton_read_u8(struct baton_reader *reader)
{
    return (uint8_t)read_le(reader, 1);
}

uint32_t baton_read_u32le(struct baton_reader *reader)
{
    return (uint32_t)read_le(reader, 4);
}

uint64_t baton_read_u64le(struct baton_reader *reader)
{
    return read_le(reader, 8);
}

struct baton_bytes baton_read_framed(struct baton_reader *reader, size_t limit)
{
    uint32_t size = baton_read_u32le(reader);
    if (size > limit) {
        reader->failed = true;
    }
    return baton_read_bytes(reader, size);
}

struct baton_writer baton_writer_of(uint8_t *data, size_t capacity)
{
    return (struct baton_writer){ data, capacity, 0 };
}

void baton_write_bytes(struct baton_writer *writer, struct baton_bytes bytes)
{
    if (bytes.size > 0 && writer->size <= writer->capacity &&
        bytes.size <= writer->capacity - writer->size) {
        memcpy(writer->data + writer->size, bytes.data, bytes.size);
    }
    writer->size += bytes.size;
}

static void write_le(struct baton_writer *writer, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
    baton_write_bytes(writer, (struct baton_bytes){ bytes, size });
}

void baton_write_u8(struct baton_writer *writer, uint8_t value)
{
    write_le(writer, value, 1);
}

void baton_write_u32le(struct baton_writer *writer, uint32_t value)
{
    write_le(writer, value, 4);
}

void baton_write_u64le(struct baton_writer *writer, uint64_t value)
{
    write_le(writer, value, 8);
}

void baton_write_framed(struct baton_writer *writer, struct baton_bytes bytes)
{
    baton_write_u32le(writer, (uint32_t)bytes.size);
    baton_write_bytes(writer, bytes);
}

bool baton_writer_ok(const struct baton_writer *writer)
{
    return writer->size <= writer->capacity;
}

void baton_hex_encode(const uint8_t *data, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[data[i] >> 4];
        out[2 * i + 1] = digits[data[i] & 15];
    }
    out[2 * size] = '\0';
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool baton_hex_decode(const char *text, uint8_t *out, size_t size)
{
    for (size_t i = 0; i < 2 * size; i++) {
        int value = hex_value(text[i]);
        if (value < 0) {
            return false;
        }
        out[i / 2] = (uint8_t)((i % 2 == 0 ? 0 : out[i / 2] << 4) | value);
    }
    return text[2 * size] == '\0';
}

bool baton_text_copy(char *out, size_t out_bytes, const char *text)
{
    size_t size = strlen(text);
    if (size >= out_bytes) {
        out[0] = '\0';
        return false;
    }
    memcpy(out, text, size + 1);
    return true;
}

uint32_t baton_crc32c(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ (UINT32_C(0x82f63b78) & (0U - (crc & 1U)));
        }
    }
    return ~crc;
}
