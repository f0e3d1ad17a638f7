/* clock_test.c -- monotonic time never goes back; wall time prints as RFC 3339. */
#include "api/base/clock.h"

#include <criterion/criterion.h>

Test(clock, monotonic_time_does_not_go_back)
{
    uint64_t last = baton_clock_monotonic_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = baton_clock_monotonic_ns();
        cr_assert_geq(now, last);
        last = now;
    }
}

Test(clock, wall_time_prints_as_rfc_3339)
{
    char text[BATON_CLOCK_TEXT_BYTES];
    baton_clock_format(0, text);
    cr_assert_str_eq(text, "1970-01-01T00:00:00.000Z");
    baton_clock_format(UINT64_C(951782399) * BATON_NS_PER_S + 999 * BATON_NS_PER_MS, text);
    cr_assert_str_eq(text, "2000-02-28T23:59:59.999Z");
    baton_clock_format(UINT64_C(951782400) * BATON_NS_PER_S, text);
    cr_assert_str_eq(text, "2000-02-29T00:00:00.000Z");
}
