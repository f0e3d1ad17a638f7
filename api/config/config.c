/* config.c -- libcyaml's trace becomes one line; see config.h. */
#include "api/config/config.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_BYTES = 200, PATH_BYTES = 256, CONFIG_BYTES_MAX = 1 << 20 };

/* What libcyaml said of one load: its cause, the innermost line, the keys from the inside out. */
struct trace {
    char cause[TRACE_BYTES];
    char keys[PATH_BYTES];
    unsigned line;
};

/* Puts "key" or "[index]" before what is there already. */
static void prepend_key(struct trace *trace, const char *key, size_t size, bool is_entry)
{
    char rest[PATH_BYTES];
    memcpy(rest, trace->keys, sizeof(rest));
    const char *dot = rest[0] != '\0' && rest[0] != '[' ? "." : "";
    if (is_entry) { /* libcyaml counts entries from 1. */
        (void)snprintf(trace->keys, sizeof(trace->keys), "[%ld]%s%.100s", strtol(key, NULL, 10) - 1,
                       dot, rest);
    } else {
        (void)snprintf(trace->keys, sizeof(trace->keys), "%.*s%s%.100s", (int)size, key, dot, rest);
    }
}

static void take_place(struct trace *trace, const char *line)
{
    const char *place = strstr(line, "(line: ");
    const char *key = strchr(line, '\'');
    const char *key_end = key != NULL ? strchr(key + 1, '\'') : NULL;
    if (place != NULL && trace->line == 0) {
        trace->line = (unsigned)strtoul(place + 7, NULL, 10);
    }
    if (key_end != NULL) {
        prepend_key(trace, key + 1, (size_t)(key_end - key - 1),
                    strstr(line, "sequence entry") != NULL);
    }
}

BATON_PRINTF(3, 0)
static void take_line(cyaml_log_t level, void *context, const char *format, va_list args)
{
    struct trace *trace = context;
    char line[TRACE_BYTES];
    (void)level;
    (void)vsnprintf(line, sizeof(line), format, args);
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "  in ", 5) == 0) {
        take_place(trace, line);
    } else if (trace->cause[0] == '\0' && strstr(line, "Backtrace") == NULL) {
        const char *cause = strncmp(line, "Load: ", 6) == 0 ? line + 6 : line;
        (void)snprintf(trace->cause, sizeof(trace->cause), "%s", cause);
    }
}

static cyaml_config_t cyaml_config(struct trace *trace)
{
    return (cyaml_config_t){ .log_fn = take_line,
                             .log_ctx = trace,
                             .mem_fn = cyaml_mem,
                             .log_level = CYAML_LOG_WARNING,
                             .flags = CYAML_CFG_DEFAULT };
}

/* libcyaml gives the place before an unexpected key; the key itself stands on that line or below. */
static unsigned line_of_key(const char *text, const struct trace *trace)
{
    static const char unexpected[] = "Unexpected key: ";
    if (strncmp(trace->cause, unexpected, sizeof(unexpected) - 1) != 0) {
        return trace->line;
    }
    const char *key = trace->cause + sizeof(unexpected) - 1;
    size_t key_size = strlen(key);
    unsigned line = 1;
    for (const char *at = text; at != NULL; at = strchr(at, '\n'), line++) {
        at += *at == '\n';
        const char *word = at + strspn(at, " -{,");
        if (line >= trace->line && strncmp(word, key, key_size) == 0 && word[key_size] == ':') {
            return line;
        }
    }
    return trace->line;
}

struct baton_status baton_config_parse(const char *name, const char *text,
                                       const cyaml_schema_value_t *schema, void **out)
{
    struct trace trace = { .line = 0 };
    cyaml_config_t config = cyaml_config(&trace);
    void *loaded = NULL;
    cyaml_err_t error =
        cyaml_load_data((const uint8_t *)text, strlen(text), &config, schema, &loaded, NULL);
    if (error == CYAML_OK && loaded == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: holds nothing", name);
    }
    if (error != CYAML_OK) {
        const char *cause = trace.cause[0] != '\0' ? trace.cause : cyaml_strerror(error);
        return baton_status_hint(baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                                   "%s:%u: %s%s%s", name, line_of_key(text, &trace),
                                                   trace.keys, trace.keys[0] != '\0' ? ": " : "",
                                                   cause),
                                 "correct the file and start again");
    }
    *out = loaded;
    return baton_status_ok();
}

/* The whole file as text; the caller frees it. */
static struct baton_status read_file(const char *path, char **out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return baton_status_errno(errno, "open", path);
    }
    char *text = calloc(1, CONFIG_BYTES_MAX + 2);
    size_t size = text != NULL ? fread(text, 1, CONFIG_BYTES_MAX + 1, file) : 0;
    int error = text == NULL ? ENOMEM : ferror(file) ? EIO : 0;
    (void)fclose(file);
    if (error == 0 && size <= CONFIG_BYTES_MAX && strlen(text) == size) {
        *out = text;
        return baton_status_ok();
    }
    free(text);
    return error != 0
               ? baton_status_errno(error, "read", path)
               : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                   "%s: no text of at most %d bytes", path, CONFIG_BYTES_MAX);
}

struct baton_status baton_config_load(const char *path, const cyaml_schema_value_t *schema,
                                      void **out)
{
    char *text = NULL;
    struct baton_status st = read_file(path, &text);
    if (baton_ok(&st)) {
        st = baton_config_parse(path, text, schema, out);
        free(text);
    }
    return st;
}

void baton_config_free(const cyaml_schema_value_t *schema, void *config)
{
    struct trace trace = { .line = 0 };
    cyaml_config_t cyaml = cyaml_config(&trace);
    (void)cyaml_free(&cyaml, schema, config, 0);
}

struct unit {
    const char *name;
    double factor;
};

/* "<number><unit>" by a table that ends with a null name; false if it is not that. */
static bool read_quantity(const char *text, const struct unit *units, uint64_t *out)
{
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    if (end == text || errno != 0 || !isfinite(number) || number < 0) {
        return false;
    }
    for (; units->name != NULL; units++) {
        if (strcmp(end, units->name) == 0 && number * units->factor < 9e18) {
            *out = (uint64_t)(number * units->factor);
            return true;
        }
    }
    return false;
}

struct baton_status baton_config_duration(const char *key, const char *text, uint64_t otherwise_ns,
                                          uint64_t *out_ns)
{
    static const struct unit units[] = {
        { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 }, { NULL, 0 }
    };
    if (text == NULL) {
        *out_ns = otherwise_ns;
        return baton_status_ok();
    }
    if (!read_quantity(text, units, out_ns)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: '%.40s' is no duration; write e.g. 250ms, 30s, 10m, 2h", key,
                                 text);
    }
    return baton_status_ok();
}

struct baton_status baton_config_bytes(const char *key, const char *text, uint64_t otherwise,
                                       uint64_t *out)
{
    static const struct unit units[] = { { "", 1 },
                                         { "B", 1 },
                                         { "kB", 1e3 },
                                         { "MB", 1e6 },
                                         { "GB", 1e9 },
                                         { "TB", 1e12 },
                                         { "KiB", 1024. },
                                         { "MiB", 1048576. },
                                         { "GiB", 1073741824. },
                                         { "TiB", 1099511627776. },
                                         { NULL, 0 } };
    if (text == NULL) {
        *out = otherwise;
        return baton_status_ok();
    }
    if (!read_quantity(text, units, out)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%s: '%.40s' is no size; write e.g. 512MiB, 8GiB", key, text);
    }
    return baton_status_ok();
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool baton_config_is_name(const char *text)
{
    size_t size = strlen(text);
    if (size == 0 || size > 63 || !is_alphanumeric(text[0]) || !is_alphanumeric(text[size - 1])) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if (!is_alphanumeric(text[i]) && text[i] != '-' && text[i] != '.') {
            return false;
        }
    }
    return true;
}
