/* base64.c -- RFC 4648 base64 for bytes fields; see json.h. */
#include <stdlib.h>
#include <string.h>

#include "api/wire/json.h"

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *wire_json_base64(const uint8_t *data, size_t size)
{
    char *text = malloc((size + 2) / 3 * 4 + 1);
    if (text == NULL) {
        return NULL;
    }
    char *out = text;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t word = (uint32_t)data[i] << 16;
        word |= left > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        word |= left > 2 ? (uint32_t)data[i + 2] : 0;
        *out++ = DIGITS[word >> 18 & 63];
        *out++ = DIGITS[word >> 12 & 63];
        *out++ = left > 1 ? DIGITS[word >> 6 & 63] : '=';
        *out++ = left > 2 ? DIGITS[word & 63] : '=';
    }
    *out = '\0';
    return text;
}

static int digit_value(char digit)
{
    if (digit == '-' || digit == '_') {
        return digit == '-' ? 62 : 63;
    }
    const char *found = digit == '\0' ? NULL : strchr(DIGITS, digit);
    return found == NULL ? -1 : (int)(found - DIGITS);
}

bool wire_json_parse_base64(const char *text, uint8_t *out, size_t *size)
{
    size_t length = strlen(text);
    for (int pad = 0; pad < 2 && length > 0 && length % 4 != 1 && text[length - 1] == '='; pad++) {
        length--;
    }
    uint32_t word = 0;
    unsigned bits = 0;
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        int value = digit_value(text[i]);
        if (value < 0) {
            return false;
        }
        word = word << 6 | (uint32_t)value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[count++] = (uint8_t)(word >> bits & 0xFF);
        }
    }
    *size = count;
    return length % 4 != 1;
}
