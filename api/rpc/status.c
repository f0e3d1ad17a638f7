/* status.c -- statuses that name a field; see rpc.h. */
#include <stdarg.h>
#include <stdio.h>

#include "api/rpc/rpc.h"

struct baton_status rpc_status_field(const char *field, const char *fmt, ...)
{
    char what[BATON_STATUS_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s: %s", field, what);
}
