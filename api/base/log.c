/* log.c -- formatting of lines and the burst limit; see log.h. */
#include "api/base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"

enum { MODULES_MAX = 32, MODULE_NAME_BYTES = 24 };

struct module_burst {
    char name[MODULE_NAME_BYTES];
    uint64_t second;
    uint32_t lines;
    uint32_t dropped;
};

struct line {
    char text[BATON_LOG_LINE_BYTES];
    size_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum baton_log_level log_level = BATON_LOG_INFO;
static bool log_json;
static struct module_burst bursts[MODULES_MAX];
static unsigned bursts_count;

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void baton_log_configure(enum baton_log_level level, bool json)
{
    (void)pthread_mutex_lock(&lock);
    log_level = level;
    log_json = json;
    (void)pthread_mutex_unlock(&lock);
}

bool baton_log_level_parse(const char *text, enum baton_log_level *out)
{
    for (unsigned i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum baton_log_level)i;
            return true;
        }
    }
    return false;
}

static void put_char(struct line *line, char c)
{
    if (line->size < sizeof(line->text) - 2) { /* Room for the newline stays. */
        line->text[line->size++] = c;
    }
}

static void put_text(struct line *line, const char *text)
{
    for (; *text != '\0'; text++) {
        put_char(line, *text);
    }
}

/* Control characters never reach a terminal or break a line. */
static void put_escaped(struct line *line, const char *text, bool json)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f) {
            char code[8];
            (void)snprintf(code, sizeof(code), "\\u%04x", c);
            put_text(line, code);
        } else {
            if (json && (c == '"' || c == '\\')) {
                put_char(line, '\\');
            }
            put_char(line, (char)c);
        }
    }
}

static void put_json_pair(struct line *line, const struct baton_log_field *field)
{
    put_text(line, ",\"");
    put_escaped(line, field->key, true);
    put_text(line, "\":");
    if (field->text != NULL) {
        put_char(line, '"');
        put_escaped(line, field->text, true);
        put_char(line, '"');
        return;
    }
    char number[24];
    (void)snprintf(number, sizeof(number), "%lld", (long long)field->number);
    put_text(line, number);
}

static void put_text_pair(struct line *line, const struct baton_log_field *field)
{
    char number[24];
    (void)snprintf(number, sizeof(number), "%lld", (long long)field->number);
    put_char(line, ' ');
    put_escaped(line, field->key, false);
    put_char(line, ' ');
    put_escaped(line, field->text != NULL ? field->text : number, false);
}

static void put_head(struct line *line, bool json, enum baton_log_level level, const char *module,
                     const char *message)
{
    char now[BATON_CLOCK_TEXT_BYTES];
    baton_clock_format(baton_clock_wall_ns(), now);
    if (!json) {
        put_text(line, now);
        put_char(line, ' ');
        put_text(line, level_names[level]);
        put_char(line, ' ');
        put_text(line, module);
        put_text(line, ": ");
        put_escaped(line, message, false);
        return;
    }
    struct baton_log_field head[] = { BATON_LOG_TEXT("level", level_names[level]),
                                      BATON_LOG_TEXT("module", module),
                                      BATON_LOG_TEXT("message", message) };
    put_text(line, "{\"time\":\"");
    put_text(line, now);
    put_char(line, '"');
    for (unsigned i = 0; i < sizeof(head) / sizeof(head[0]); i++) {
        put_json_pair(line, &head[i]);
    }
}

/* Called with the lock held.  True if this module may print now. */
static bool take_burst(const char *module, uint32_t *dropped)
{
    uint64_t second = baton_clock_monotonic_ns() / BATON_NS_PER_S;
    struct module_burst *burst = NULL;
    for (unsigned i = 0; i < bursts_count && burst == NULL; i++) {
        if (strncmp(bursts[i].name, module, MODULE_NAME_BYTES - 1) == 0) {
            burst = &bursts[i];
        }
    }
    if (burst == NULL) {
        burst = &bursts[bursts_count < MODULES_MAX ? bursts_count++ : MODULES_MAX - 1];
        (void)snprintf(burst->name, sizeof(burst->name), "%s", module);
    }
    if (burst->second != second) {
        burst->second = second;
        burst->lines = 0;
    }
    if (burst->lines >= BATON_LOG_BURST) {
        burst->dropped++;
        return false;
    }
    burst->lines++;
    *dropped = burst->dropped;
    burst->dropped = 0;
    return true;
}

static void print_line(struct line *line, bool json)
{
    if (json) {
        line->size = line->size < sizeof(line->text) - 3 ? line->size : sizeof(line->text) - 3;
        line->text[line->size++] = '}';
    }
    line->text[line->size++] = '\n';
    /* One write, so that lines of several processes do not mix.  Nobody can be told of a failure. */
    ssize_t written = write(STDERR_FILENO, line->text, line->size);
    (void)written;
}

void baton_log_fields(enum baton_log_level level, const char *module, const char *message,
                      const struct baton_log_field *fields, unsigned fields_count)
{
    (void)pthread_mutex_lock(&lock);
    uint32_t dropped = 0;
    if (level <= log_level && take_burst(module, &dropped)) {
        struct line line = { .size = 0 };
        struct baton_log_field lost = BATON_LOG_NUMBER("linesDropped", dropped);
        put_head(&line, log_json, level, module, message);
        for (unsigned i = 0; i < fields_count; i++) {
            (log_json ? put_json_pair : put_text_pair)(&line, &fields[i]);
        }
        if (dropped > 0) {
            (log_json ? put_json_pair : put_text_pair)(&line, &lost);
        }
        print_line(&line, log_json);
    }
    (void)pthread_mutex_unlock(&lock);
}

void baton_log(enum baton_log_level level, const char *module, const char *fmt, ...)
{
    char message[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    baton_log_fields(level, module, message, NULL, 0);
}

void baton_log_status(enum baton_log_level level, const char *module, const char *what,
                      const struct baton_status *st)
{
    char message[BATON_STATUS_MESSAGE_BYTES + 256];
    (void)snprintf(message, sizeof(message), "%.240s: %s", what, st->message);
    struct baton_log_field fields[] = { BATON_LOG_TEXT("code", baton_code_name(st->code)),
                                        BATON_LOG_TEXT("reason", baton_reason_name(st->reason)),
                                        BATON_LOG_TEXT("hint", st->hint) };
    baton_log_fields(level, module, message, fields, st->hint[0] != '\0' ? 3 : 2);
}
