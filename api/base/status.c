/* status.c -- making, naming and enriching status values. */
#include "api/base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

static const char *const reason_names[BATON_REASON_COUNT] = {
    [BATON_REASON_NONE] = "NONE",
    [BATON_REASON_BAD_FIELD] = "BAD_FIELD",
    [BATON_REASON_LIMIT] = "LIMIT",
    [BATON_REASON_IO] = "IO",
    [BATON_REASON_NO_SPACE] = "NO_SPACE",
    [BATON_REASON_TRUNCATED] = "TRUNCATED",
    [BATON_REASON_MALFORMED] = "MALFORMED",
    [BATON_REASON_CHECKPOINT_INVALID] = "CHECKPOINT_INVALID",
    [BATON_REASON_DIGEST_MISMATCH] = "DIGEST_MISMATCH",
    [BATON_REASON_STALE_EPOCH] = "STALE_EPOCH",
    [BATON_REASON_STALE_TICKET] = "STALE_TICKET",
    [BATON_REASON_STALE_REVISION] = "STALE_REVISION",
    [BATON_REASON_COMPACTED] = "COMPACTED",
    [BATON_REASON_STORE_UNAVAILABLE] = "STORE_UNAVAILABLE",
    [BATON_REASON_ENGINE_UNREACHABLE] = "ENGINE_UNREACHABLE",
    [BATON_REASON_ENGINE_REFUSED] = "ENGINE_REFUSED",
    [BATON_REASON_ENGINE_LIED] = "ENGINE_LIED",
    [BATON_REASON_INCOMPATIBLE] = "INCOMPATIBLE",
    [BATON_REASON_IN_USE] = "IN_USE",
    [BATON_REASON_HELD] = "HELD",
    [BATON_REASON_BUDGET_FULL] = "BUDGET_FULL",
    [BATON_REASON_SHUTTING_DOWN] = "SHUTTING_DOWN",
    [BATON_REASON_VERSION_NOT_READY] = "VERSION_NOT_READY",
    [BATON_REASON_SESSION_EXPIRED] = "SESSION_EXPIRED",
    [BATON_REASON_SLOTS_FULL] = "SLOTS_FULL",
    [BATON_REASON_NON_FINITE] = "NON_FINITE",
    [BATON_REASON_NOT_ALLOWED] = "NOT_ALLOWED",
    [BATON_REASON_NOT_LEADER] = "NOT_LEADER",
};

enum { CODES_COUNT = sizeof(code_names) / sizeof(code_names[0]) };

struct baton_status baton_status_ok(void)
{
    struct baton_status st;
    st.code = BATON_OK;
    st.reason = BATON_REASON_NONE;
    st.message[0] = '\0';
    st.hint[0] = '\0';
    return st;
}

struct baton_status baton_status_make(enum baton_code code, enum baton_reason reason,
                                      const char *fmt, ...)
{
    baton_assert(code != BATON_OK);
    struct baton_status st = baton_status_ok();
    st.code = code;
    st.reason = reason;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(st.message, sizeof(st.message), fmt, args);
    va_end(args);
    return st;
}

static struct baton_status from_errno(int error_number, const char *text)
{
    switch (error_number) {
    case ENOSPC:
    case EDQUOT:
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE, "%s", text);
    case ENOENT: return baton_status_make(BATON_NOT_FOUND, BATON_REASON_IO, "%s", text);
    case EEXIST: return baton_status_make(BATON_ALREADY_EXISTS, BATON_REASON_IO, "%s", text);
    case EACCES:
    case EPERM: return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_IO, "%s", text);
    case EADDRINUSE:
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE, "%s", text);
    default: return baton_status_make(BATON_INTERNAL, BATON_REASON_IO, "%s", text);
    }
}

struct baton_status baton_status_errno(int error_number, const char *call, const char *object)
{
    char cause[128];
    char text[BATON_STATUS_MESSAGE_BYTES];
#if defined(__GLIBC__) && defined(_GNU_SOURCE)
    const char *cause_text = strerror_r(error_number, cause, sizeof(cause));
#else
    const char *cause_text = strerror_r(error_number, cause, sizeof(cause)) == 0 ? cause : "error";
#endif
    (void)snprintf(text, sizeof(text), "%s %.200s: %s", call, object, cause_text);
    return from_errno(error_number, text);
}

struct baton_status baton_status_in(struct baton_status st, const char *fmt, ...)
{
    if (baton_ok(&st)) {
        return st;
    }
    char rest[BATON_STATUS_MESSAGE_BYTES];
    memcpy(rest, st.message, sizeof(rest));
    va_list args;
    va_start(args, fmt);
    int written = vsnprintf(st.message, sizeof(st.message), fmt, args);
    va_end(args);
    size_t used = written < 0 ? 0 : (size_t)written;
    if (used < sizeof(st.message)) {
        (void)snprintf(st.message + used, sizeof(st.message) - used, ": %s", rest);
    }
    return st;
}

struct baton_status baton_status_hint(struct baton_status st, const char *fmt, ...)
{
    if (baton_ok(&st)) {
        return st;
    }
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(st.hint, sizeof(st.hint), fmt, args);
    va_end(args);
    return st;
}

const char *baton_code_name(enum baton_code code)
{
    return (unsigned)code < CODES_COUNT ? code_names[code] : "UNKNOWN";
}

const char *baton_reason_name(enum baton_reason reason)
{
    return (unsigned)reason < BATON_REASON_COUNT ? reason_names[reason] : "NONE";
}

enum baton_reason baton_reason_from_name(const char *name)
{
    for (unsigned i = 0; i < BATON_REASON_COUNT; i++) {
        if (strcmp(reason_names[i], name) == 0) {
            return (enum baton_reason)i;
        }
    }
    return BATON_REASON_NONE;
}

void baton_assert_failed(const char *file, int line, const char *condition)
{
    (void)fprintf(stderr, "baton: %s:%d: broken promise: %s\n", file, line, condition);
    abort();
}
