/* log.h -- the only place that prints what a daemon has to say.
 *
 * One line an event: text for people, or JSON with stable keys (time, level, module, message, then
 * the pairs that were given).  Each call site is bounded: a line is at most BATON_LOG_LINE_BYTES, and
 * more than BATON_LOG_BURST lines of one module within a second are counted, not printed.  Never give
 * it a secret: tokens, keys and request bodies do not belong in a line.
 *
 * Depends on: clock.h.  Threads: any (one lock).  Ownership: none. */
#ifndef BATON_BASE_LOG_H
#define BATON_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/status.h"

enum baton_log_level {
    BATON_LOG_ERROR, /* Somebody must act. */
    BATON_LOG_WARN,  /* It went wrong and is dealt with; it may need a look. */
    BATON_LOG_INFO,  /* A decision or a change of state. */
    BATON_LOG_DEBUG, /* For us. */
};

enum { BATON_LOG_LINE_BYTES = 2048, BATON_LOG_BURST = 200 };

/* A pair of a line.  Keys are lower camel case and stable. */
struct baton_log_field {
    const char *key;
    const char *text; /* Null: 'number' counts. */
    int64_t number;
};

#define BATON_LOG_TEXT(key_, text_) ((struct baton_log_field){ (key_), (text_), 0 })
#define BATON_LOG_NUMBER(key_, number_)                                                            \
    ((struct baton_log_field){ (key_), NULL, (int64_t)(number_) })

/* Lines below 'level' are dropped from now on; 'json' picks the form.  Default: INFO, text, stderr. */
void baton_log_configure(enum baton_log_level level, bool json);

/* "error", "warn", "info", "debug"; false for another word. */
bool baton_log_level_parse(const char *text, enum baton_log_level *out);

/* Prints one line. 'fields' may be null when 'fields_count' is 0. */
void baton_log_fields(enum baton_log_level level, const char *module, const char *message,
                      const struct baton_log_field *fields, unsigned fields_count);

/* Prints one line without pairs. */
BATON_PRINTF(3, 4)
void baton_log(enum baton_log_level level, const char *module, const char *fmt, ...);

/* Prints a failure with its code, reason and hint. */
void baton_log_status(enum baton_log_level level, const char *module, const char *what,
                      const struct baton_status *st);

#endif /* log.h */
