/* text.c -- see text.h. */
#include "controller/core/text.h"

#include <stdio.h>
#include <string.h>

void text_format_list(char *out, size_t out_bytes, const char *fmt, va_list args)
{
    int length = vsnprintf(out, out_bytes, fmt, args);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used < out_bytes) {
        memset(out + used, 0, out_bytes - used); /* Equal texts are equal bytes. */
    }
}

void text_format(char *out, size_t out_bytes, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    text_format_list(out, out_bytes, fmt, args);
    va_end(args);
}

void text_copy(char *out, size_t out_bytes, const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length >= out_bytes) {
        length = out_bytes - 1;
        /* Do not cut a UTF-8 character in two. */
        while (length > 0 && ((unsigned char)text[length] & 0xc0U) == 0x80U) {
            length--;
        }
    }
    if (length > 0) {
        memmove(out, text, length);
    }
    memset(out + length, 0, out_bytes - length);
}

bool text_is_empty(const char *text)
{
    return text == NULL || text[0] == '\0';
}

bool text_equal(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

size_t text_length_until(const char *text, char end)
{
    size_t length = 0;
    while (text[length] != '\0' && text[length] != end) {
        length++;
    }
    return length;
}

bool text_is_name(const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length == 0 || length >= BATON_NAME_BYTES || !is_letter_or_digit(text[0]) ||
        !is_letter_or_digit(text[length - 1])) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (!is_letter_or_digit(text[i]) && text[i] != '-' && text[i] != '.') {
            return false;
        }
    }
    return true;
}

bool text_is_digest(const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    if (length != BATON_DIGEST_TEXT_BYTES - 1) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f');
        if (!hex) {
            return false;
        }
    }
    return true;
}

struct fingerprint fingerprint_of(uint64_t start)
{
    struct fingerprint print = { UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4) };
    fingerprint_add_number(&print, start);
    return print;
}

void fingerprint_add_bytes(struct fingerprint *print, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        print->a = (print->a ^ bytes[i]) * UINT64_C(0x100000001b3);
        print->b = (print->b ^ (bytes[i] + 0x5bU)) * UINT64_C(0x100000001b3);
        print->b ^= print->b >> 29;
    }
}

void fingerprint_add_number(struct fingerprint *print, uint64_t number)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(number >> (8 * i));
    }
    fingerprint_add_bytes(print, bytes, sizeof(bytes));
}

void fingerprint_add_text(struct fingerprint *print, const char *text)
{
    size_t length = text == NULL ? 0 : strlen(text);
    fingerprint_add_number(print, length);
    if (length > 0) {
        fingerprint_add_bytes(print, text, length);
    }
}

void fingerprint_write(const struct fingerprint *print, char out[BATON_DIGEST_TEXT_BYTES])
{
    text_format(out, BATON_DIGEST_TEXT_BYTES, "%016llx%016llx", (unsigned long long)print->a,
                (unsigned long long)print->b);
}
