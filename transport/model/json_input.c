/* json_input.c -- strict JSON over jansson. */
#include "transport/model/json_input.h"

#include <string.h>

/* jansson recurses once a level (up to 2048): refuse deep text before it is parsed.  Brackets
 * within strings do not count. */
static bool is_deeper(struct baton_bytes text, unsigned depth_max)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        if ((c == '{' || c == '[') && ++depth > depth_max) {
            return true;
        }
        depth -= (c == '}' || c == ']') && depth > 0;
    }
    return false;
}

struct baton_status json_input_parse(struct baton_bytes text, unsigned depth_max, json_t **out)
{
    json_error_t error;
    if (is_deeper(text, depth_max)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "JSON: nested deeper than %u levels", depth_max);
    }
    json_t *value = json_loadb((const char *)text.data, text.size, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "JSON: %s (line %d, column %d, byte %d)", error.text, error.line,
                                 error.column, error.position);
    }
    *out = value;
    return baton_status_ok();
}

bool json_input_u64(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

const char *json_input_unknown_key(json_t *object, const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            return key;
        }
    }
    return NULL;
}

bool json_input_text(const json_t *value, struct baton_bytes *out)
{
    if (!json_is_string(value)) {
        return false;
    }
    *out = (struct baton_bytes){ (const uint8_t *)json_string_value(value),
                                 json_string_length(value) };
    return true;
}
