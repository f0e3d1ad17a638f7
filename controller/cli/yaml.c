/* yaml.c -- JSON values as block-style YAML; see yaml.h. */
#include "controller/cli/yaml.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static void indent(FILE *out, int depth)
{
    for (int i = 0; i < depth; i++) {
        (void)fputs("  ", out);
    }
}

/* Plain text that YAML would not read as anything else may stand without quotes. */
static bool is_plain(const char *text)
{
    static const char *const words[] = { "true", "false", "null", "yes", "no", "on", "off", "~" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcasecmp(text, words[i]) == 0) {
            return false;
        }
    }
    bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || *text == '/';
    return letter && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_-./@+") == strlen(text);
}

static void put_scalar(FILE *out, const json_t *value)
{
    if (json_is_string(value) && is_plain(json_string_value(value))) {
        (void)fputs(json_string_value(value), out);
    } else { /* JSON's scalars are YAML's. */
        (void)json_dumpf(value, out, JSON_ENCODE_ANY);
    }
}

static bool is_empty(const json_t *value)
{
    return (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static void put_value(FILE *out, const json_t *value, int depth, bool in_list);

/* What follows "key:" or "-". */
static void put_after(FILE *out, const json_t *value, int depth, bool in_list)
{
    if (is_empty(value)) {
        (void)fputs(json_is_object(value) ? " {}\n" : " []\n", out);
    } else if (json_is_object(value) || json_is_array(value)) {
        (void)fputs(in_list ? " " : "\n", out);
        put_value(out, value, depth, in_list);
    } else {
        (void)fputc(' ', out);
        put_scalar(out, value);
        (void)fputc('\n', out);
    }
}

static void put_value(FILE *out, const json_t *value, int depth, bool in_list)
{
    const char *key;
    json_t *member;
    size_t index;
    bool first = in_list; /* The first line stands behind the dash already. */
    json_object_foreach((json_t *)value, key, member)
    {
        indent(out, first ? 0 : depth);
        first = false;
        (void)fprintf(out, "%s:", key);
        put_after(out, member, json_is_array(member) ? depth : depth + 1, false);
    }
    json_array_foreach(value, index, member)
    {
        indent(out, first ? 0 : depth);
        first = false;
        (void)fputc('-', out);
        put_after(out, member, depth + 1, true);
    }
}

void cli_yaml_print(FILE *out, const json_t *value)
{
    if (is_empty(value)) {
        (void)fputs(json_is_object(value) ? "{}\n" : "[]\n", out);
    } else if (json_is_object(value) || json_is_array(value)) {
        put_value(out, value, 0, false);
    } else {
        put_scalar(out, value);
        (void)fputc('\n', out);
    }
}
