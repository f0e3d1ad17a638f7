/* path.c -- see path.h. */
#include "api/wire/path.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void wire_camel(const char *name, char *out, size_t out_bytes)
{
    size_t size = 0;
    bool raise = false;
    for (; *name != '\0' && size + 1 < out_bytes; name++) {
        if (*name == '_') {
            raise = true;
            continue;
        }
        out[size++] = raise ? (char)toupper((unsigned char)*name) : *name;
        raise = false;
    }
    out[size] = '\0';
}

/* Writes one step at the front of the text that begins at 'at'; returns the new beginning. */
static size_t put_front(char *out, size_t at, const char *text)
{
    size_t length = strlen(text);
    if (length > at) {
        return at;
    }
    memcpy(out + at - length, text, length);
    return at - length;
}

static void step_text(const struct wire_path *path, char *out, size_t out_bytes)
{
    char name[WIRE_NAME_BYTES];
    wire_camel(path->name, name, sizeof(name));
    if (path->key != NULL) {
        (void)snprintf(out, out_bytes, "%s[\"%.40s\"]", name, path->key);
    } else if (path->index > 0) {
        (void)snprintf(out, out_bytes, "%s[%zu]", name, path->index - 1);
    } else {
        (void)snprintf(out, out_bytes, "%s", name);
    }
}

void wire_path_text(const struct wire_path *path, char out[WIRE_PATH_BYTES])
{
    size_t at = WIRE_PATH_BYTES - 1;
    out[at] = '\0';
    for (; path != NULL && path->name != NULL; path = path->up) {
        char step[WIRE_NAME_BYTES + 48];
        step_text(path, step, sizeof(step));
        if (out[at] != '\0') {
            at = put_front(out, at, ".");
        }
        at = put_front(out, at, step);
    }
    memmove(out, out + at, WIRE_PATH_BYTES - at);
}

struct baton_status wire_path_status(const struct wire_path *path, const char *type,
                                     enum baton_code code, enum baton_reason reason,
                                     const char *fmt, ...)
{
    char what[BATON_STATUS_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    char where[WIRE_PATH_BYTES];
    wire_path_text(path, where);
    return baton_status_make(code, reason, "%s: %s", where[0] != '\0' ? where : type, what);
}
