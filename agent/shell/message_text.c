/* message_text.c -- see message_text.h. */
#include "agent/shell/message_text.h"

#include "api/base/bytes.h"

struct baton_status message_bad(const char *field, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s: %s", field, what);
}

struct baton_status message_copy_texts(const struct text_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!baton_text_copy(rows[i].out, rows[i].out_bytes, rows[i].text)) {
            return message_bad(rows[i].field, "is too long");
        }
    }
    return baton_status_ok();
}
