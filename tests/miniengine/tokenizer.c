/* tokenizer.c -- see tokenizer.h. */
#include "tests/miniengine/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The letter that stands for a byte: itself if printable, else the next one from U+0100 on. */
static bool is_plain(uint32_t byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

static void letter_of(uint32_t byte, char *out)
{
    uint32_t letter = byte;
    if (!is_plain(byte)) {
        letter = 256;
        for (uint32_t i = 0; i < byte; i++) {
            letter += is_plain(i) ? 0U : 1U;
        }
    }
    if (letter < 128) {
        out[0] = (char)letter;
        out[1] = '\0';
        return;
    }
    out[0] = (char)(0xC0U | letter >> 6);
    out[1] = (char)(0x80U | (letter & 0x3FU));
    out[2] = '\0';
}

static bool read_bytes(const json_t *vocabulary, struct tokenizer *out, struct trouble *why)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        char letter[3];
        letter_of(byte, letter);
        const json_t *id = json_object_get(vocabulary, letter);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= TOKENIZER_IDS_MAX) {
            return trouble_set(why, "BAD_REQUEST", NULL,
                               "tokenizer.json: byte %u has no id below %d", byte,
                               TOKENIZER_IDS_MAX);
        }
        out->id_of_byte[byte] = (uint32_t)json_integer_value(id);
        out->byte_of_id[json_integer_value(id)] = (int16_t)byte;
    }
    return true;
}

static void read_specials(const json_t *added, struct tokenizer *out)
{
    size_t count = json_array_size(added);
    for (size_t i = 0; i < count && out->specials_count < TOKENIZER_SPECIALS_MAX; i++) {
        const json_t *token = json_array_get(added, i);
        const char *text = json_string_value(json_object_get(token, "content"));
        if (text != NULL && strlen(text) < TOKENIZER_SPECIAL_BYTES) {
            out->specials[out->specials_count].id =
                (uint32_t)json_integer_value(json_object_get(token, "id"));
            (void)snprintf(out->specials[out->specials_count].text, TOKENIZER_SPECIAL_BYTES, "%s",
                           text);
            out->specials_count++;
        }
    }
}

bool tokenizer_load(const char *dir, struct tokenizer *out, struct trouble *why)
{
    char path[4096];
    json_error_t error;
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        return trouble_set(why, "LANDING_UNREADABLE", NULL, "%s: %s", path, error.text);
    }
    memset(out, 0, sizeof *out);
    memset(out->byte_of_id, 0xFF, sizeof out->byte_of_id);
    bool ok = read_bytes(json_object_get(json_object_get(root, "model"), "vocab"), out, why);
    read_specials(json_object_get(root, "added_tokens"), out);
    json_decref(root);
    return ok;
}

void tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t bytes,
                      uint32_t *tokens)
{
    for (size_t i = 0; i < bytes; i++) {
        tokens[i] = tokenizer->id_of_byte[(unsigned char)text[i]];
    }
}

size_t tokenizer_decode(const struct tokenizer *tokenizer, uint32_t token, bool specials, char *out)
{
    if (token < TOKENIZER_IDS_MAX && tokenizer->byte_of_id[token] >= 0) {
        out[0] = (char)tokenizer->byte_of_id[token];
        return 1;
    }
    for (uint32_t i = 0; specials && i < tokenizer->specials_count; i++) {
        if (tokenizer->specials[i].id == token) {
            size_t length = strlen(tokenizer->specials[i].text);
            memcpy(out, tokenizer->specials[i].text, length);
            return length;
        }
    }
    return 0;
}

/* The length of the sequence that starts here: 0 if it is broken, -1 if it is unfinished. */
static int sequence_length(const unsigned char *bytes, size_t count)
{
    unsigned char lead = bytes[0];
    size_t length = lead < 0x80 ? 1U : lead < 0xE0 ? 2U : lead < 0xF0 ? 3U : 4U;
    if (lead == 0 || (lead >= 0x80 && lead < 0xC2) || lead > 0xF4) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if (i == count) {
            return -1;
        }
        unsigned char low = 0x80;
        unsigned char high = 0xBF;
        if (i == 1) {
            low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
            high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        }
        if (bytes[i] < low || bytes[i] > high) {
            return 0;
        }
    }
    return (int)length;
}

size_t tokenizer_to_utf8(const char *bytes, size_t count, bool final, char *out)
{
    size_t used = 0;
    while (used < count) {
        int length = sequence_length((const unsigned char *)bytes + used, count - used);
        if (length < 0 && !final) {
            break;
        }
        if (length > 0) {
            memcpy(out, bytes + used, (size_t)length);
            out += length;
            used += (size_t)length;
        } else {
            memcpy(out, "\xEF\xBF\xBD", 3);
            out += 3;
            used++;
        }
    }
    *out = '\0';
    return used;
}
