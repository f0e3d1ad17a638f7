/* status_test.c -- the error type: names, context, errno mapping, cutting. */
#include "api/base/status.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

/* A reason without a name would reach users as an empty word. */
Test(status, every_reason_has_a_name_that_reads_back)
{
    for (unsigned i = 0; i < BATON_REASON_COUNT; i++) {
        const char *name = baton_reason_name((enum baton_reason)i);
        cr_assert_not_null(name, "reason %u has no name in status.c", i);
        cr_assert_eq((unsigned)baton_reason_from_name(name), i, "%s", name);
    }
    cr_assert_eq(baton_reason_from_name("NO_SUCH_REASON"), BATON_REASON_NONE);
    cr_assert_str_eq(baton_reason_name((enum baton_reason)9999), "NONE");
}

Test(status, codes_are_grpcs)
{
    cr_assert_str_eq(baton_code_name(BATON_OK), "OK");
    cr_assert_str_eq(baton_code_name(BATON_FAILED_PRECONDITION), "FAILED_PRECONDITION");
    cr_assert_str_eq(baton_code_name(BATON_UNAUTHENTICATED), "UNAUTHENTICATED");
    cr_assert_eq(BATON_UNAVAILABLE, 14);
    cr_assert_str_eq(baton_code_name((enum baton_code)99), "UNKNOWN");
}

Test(status, context_goes_before_and_keeps_code_reason_hint)
{
    struct baton_status st =
        baton_status_make(BATON_NOT_FOUND, BATON_REASON_IO, "shard %d is missing", 2);
    st = baton_status_hint(st, "copy it");
    st = baton_status_in(st, "model %s", "m");
    cr_assert_str_eq(st.message, "model m: shard 2 is missing");
    cr_assert_str_eq(st.hint, "copy it");
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    cr_assert_eq(st.reason, BATON_REASON_IO);
}

Test(status, ok_stays_ok)
{
    struct baton_status st = baton_status_ok();
    st = baton_status_in(st, "somewhere");
    st = baton_status_hint(st, "nothing to do");
    cr_assert(baton_ok(&st));
    cr_assert_str_empty(st.message);
    cr_assert_str_empty(st.hint);
}

Test(status, long_messages_are_cut_not_dropped)
{
    char text[1000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct baton_status st = baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "%s", text);
    cr_assert_eq(strlen(st.message), BATON_STATUS_MESSAGE_BYTES - 1);
    st = baton_status_in(st, "%s", text);
    cr_assert_eq(strlen(st.message), BATON_STATUS_MESSAGE_BYTES - 1);
}

Test(status, errno_says_call_object_and_cause)
{
    static const struct {
        int error_number;
        enum baton_code code;
        enum baton_reason reason;
    } rows[] = {
        { ENOSPC, BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE },
        { EDQUOT, BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE },
        { ENOENT, BATON_NOT_FOUND, BATON_REASON_IO },
        { EEXIST, BATON_ALREADY_EXISTS, BATON_REASON_IO },
        { EACCES, BATON_PERMISSION_DENIED, BATON_REASON_IO },
        { EADDRINUSE, BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE },
        { EIO, BATON_INTERNAL, BATON_REASON_IO },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct baton_status st = baton_status_errno(rows[i].error_number, "open", "a/b");
        cr_assert_eq(st.code, rows[i].code);
        cr_assert_eq(st.reason, rows[i].reason);
        cr_assert(strncmp(st.message, "open a/b: ", 10) == 0, "%s", st.message);
        cr_assert_gt(strlen(st.message), 10);
    }
}
