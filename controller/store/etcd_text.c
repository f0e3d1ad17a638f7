/* etcd_text.c -- see etcd_text.h. */
#include "controller/store/etcd_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_FIRST = 1024, FORMAT_BYTES = 256 };

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Makes room for 'more' bytes and an end.  Not realloc(): a request may hold a password, and the old
 * place is wiped. */
static bool reserve(struct etcd_text *text, size_t more)
{
    size_t needed = text->size + more + 1;
    if (text->failed || needed <= text->capacity) {
        return !text->failed;
    }
    size_t capacity = needed + needed / 2 + CAPACITY_FIRST;
    char *data = malloc(capacity);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    if (text->data != NULL) {
        memcpy(data, text->data, text->size);
        explicit_bzero(text->data, text->capacity);
        free(text->data);
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void etcd_text_bytes(struct etcd_text *text, const char *bytes, size_t size)
{
    if (reserve(text, size)) {
        memcpy(text->data + text->size, bytes, size);
        text->size += size;
        text->data[text->size] = '\0';
    }
}

void etcd_text_add(struct etcd_text *text, const char *piece)
{
    etcd_text_bytes(text, piece, strlen(piece));
}

void etcd_text_format(struct etcd_text *text, const char *fmt, ...)
{
    char piece[FORMAT_BYTES];
    va_list arguments;
    va_start(arguments, fmt);
    int length = vsnprintf(piece, sizeof(piece), fmt, arguments);
    va_end(arguments);
    baton_assert(length >= 0 && (size_t)length < sizeof(piece));
    etcd_text_bytes(text, piece, (size_t)length);
}

size_t etcd_base64_size(size_t size)
{
    return (size + 2) / 3 * 4;
}

static void encode(const unsigned char *in, size_t size, char *out)
{
    for (size_t i = 0; i < size; i += 3, out += 4) {
        size_t left = size - i;
        uint32_t word = (uint32_t)in[i] << 16;
        word |= left > 1 ? (uint32_t)in[i + 1] << 8 : 0;
        word |= left > 2 ? (uint32_t)in[i + 2] : 0;
        out[0] = alphabet[word >> 18];
        out[1] = alphabet[word >> 12 & 63];
        out[2] = left > 1 ? alphabet[word >> 6 & 63] : '=';
        out[3] = left > 2 ? alphabet[word & 63] : '=';
    }
}

void etcd_text_base64(struct etcd_text *text, const char *bytes, size_t size)
{
    size_t length = etcd_base64_size(size);
    etcd_text_bytes(text, "\"", 1);
    if (reserve(text, length)) {
        encode((const unsigned char *)bytes, size, text->data + text->size);
        text->size += length;
    }
    etcd_text_bytes(text, "\"", 1);
}

void etcd_text_free(struct etcd_text *text)
{
    if (text->data != NULL) {
        explicit_bzero(text->data, text->capacity);
        free(text->data);
    }
    *text = (struct etcd_text){ 0 };
}

static int digit_of(char c)
{
    const char *at = c == '\0' ? NULL : strchr(alphabet, c);
    return at == NULL ? -1 : (int)(at - alphabet);
}

bool etcd_base64_decode(const char *text, size_t size, char *out, size_t *out_size)
{
    size_t bytes = 0;
    size_t padding = 0;
    if (size % 4 != 0) {
        return false;
    }
    while (padding < 2 && padding < size && text[size - 1 - padding] == '=') {
        padding++;
    }
    uint32_t word = 0;
    for (size_t i = 0; i < size; i++) {
        int digit = i < size - padding ? digit_of(text[i]) : 0;
        if (digit < 0) {
            return false;
        }
        word = word << 6 | (uint32_t)digit;
        if (i % 4 == 3) {
            out[bytes] = (char)(word >> 16);
            out[bytes + 1] = (char)(word >> 8);
            out[bytes + 2] = (char)word;
            bytes += 3;
            word = 0;
        }
    }
    *out_size = bytes - padding;
    return true;
}
