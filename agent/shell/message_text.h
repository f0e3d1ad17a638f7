/* message_text.h -- texts of foreign messages into members of fixed size, row by row.
 *
 * Depends on: api/base.  Threads: any.  Ownership: the caller's. */
#ifndef AGENT_SHELL_MESSAGE_TEXT_H
#define AGENT_SHELL_MESSAGE_TEXT_H

#include <stddef.h>

#include "api/base/status.h"

/* A text to copy, and where to. */
struct text_row {
    const char *field; /* Of the message, for the refusal. */
    char *out;
    size_t out_bytes;
    const char *text;
};
#define TEXT(field, member, from)                                                                  \
    {                                                                                              \
        (field), (member), sizeof(member), (from)                                                  \
    }
#define COPY_TEXTS(rows) message_copy_texts((rows), sizeof(rows) / sizeof((rows)[0]))

/* INVALID_ARGUMENT BAD_FIELD: "<field>: <what>". */
struct baton_status message_bad(const char *field, const char *what);
/* OK, or the first text that does not fit. */
BATON_MUST_USE struct baton_status message_copy_texts(const struct text_row *rows, size_t count);

#endif /* message_text.h */
