/* trouble.c -- see trouble.h. */
#include "tests/miniengine/trouble.h"

#include <stdarg.h>
#include <stdio.h>

bool trouble_set(struct trouble *why, const char *code, const char *tensor, const char *fmt, ...)
{
    if (why == NULL) {
        return false;
    }
    (void)snprintf(why->code, sizeof why->code, "%s", code);
    (void)snprintf(why->tensor, sizeof why->tensor, "%s", tensor != NULL ? tensor : "");
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(why->message, sizeof why->message, fmt, args);
    va_end(args);
    return false;
}
