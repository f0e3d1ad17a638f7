/* controller_config_leadership_test.c -- the times of leadership and the advertised address: defaults, and what is
 * refused by its key. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/shell/config.h"

static struct baton_status read_of(const char *lease, const char *renew, const char *skew,
                                   struct leadership_options *out)
{
    char words[3][16] = { "" };
    struct controller_leadership section = { .advertise = NULL };
    struct controller_config config = { .leadership = &section };
    const char *given[3] = { lease, renew, skew };
    char **members[3] = { &section.lease, &section.renew, &section.clock_skew };
    for (int i = 0; i < 3; i++) {
        if (given[i] != NULL) {
            (void)strncpy(words[i], given[i], sizeof(words[i]) - 1);
            *members[i] = words[i];
        }
    }
    return controller_config_leadership(&config, "a.example:7070", out);
}

Test(controller_config_leadership, defaults_follow_the_lease)
{
    struct leadership_options out;
    struct baton_status st = controller_config_leadership(NULL, "[::1]:7070", &out);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(out.advertise, "[::1]:7070");
    cr_assert_eq(out.lease_ns, 2000 * BATON_NS_PER_MS);
    cr_assert_eq(out.renew_ns, 600 * BATON_NS_PER_MS);
    cr_assert_eq(out.skew_ns, 200 * BATON_NS_PER_MS);
    st = read_of("10s", NULL, NULL, &out);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(out.renew_ns, 3000 * BATON_NS_PER_MS);
    cr_assert_eq(out.skew_ns, 1000 * BATON_NS_PER_MS);
}

/* How old a standby's answers may be: five minutes, as given, or it gives none. */
Test(controller_config_leadership, what_is_known_last_has_a_bound)
{
    static const struct {
        char text[8];
        uint64_t ns;
    } cases[] = { { "", 300 * BATON_NS_PER_S }, { "10s", 10 * BATON_NS_PER_S }, { "0s", 0 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct leadership_options out;
        char text[8];
        memcpy(text, cases[i].text, sizeof(text));
        struct controller_leadership section = { .last_known = text[0] == '\0' ? NULL : text };
        struct controller_config config = { .leadership = &section };
        struct baton_status st = controller_config_leadership(&config, "a.example:7070", &out);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_eq(out.last_known_ns, cases[i].ns, "%s", cases[i].text);
    }
}

/* A leader must have two tries before it stops, and stop before anybody else begins. */
Test(controller_config_leadership, times_that_do_not_fit_are_refused)
{
    static const struct {
        const char *lease, *renew, *skew, *key;
    } wrong[] = {
        { "100ms", NULL, NULL, "leadership.lease" },
        { "2m", NULL, NULL, "leadership.lease" },
        { "2s", "1s", NULL, "leadership.renew" },
        { "2s", "950ms", "200ms", "leadership.renew" },
        { "2s", "20ms", NULL, "leadership.renew" },
        { "2s", NULL, "10ms", "leadership.clockSkew" },
        { "2s", NULL, "1900ms", "leadership.renew" },
        { "soon", NULL, NULL, "leadership.lease" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct leadership_options out;
        struct baton_status st = read_of(wrong[i].lease, wrong[i].renew, wrong[i].skew, &out);
        cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD, "%zu", i);
        cr_assert_not_null(strstr(st.message, wrong[i].key), "%zu: %s", i, st.message);
    }
}

/* Others must be able to reach it there. */
Test(controller_config_leadership, addresses_of_nowhere_are_refused)
{
    static const char *const wrong[] = {
        NULL,     "",        "host",      "host:",   ":7070",     "a b:1",       "host:port",
        "*:7070", "a:1,b:1", "[::]:7070", "unix:/x", "a\"b:7070", "0.0.0.0:7070"
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct leadership_options out;
        struct baton_status st = controller_config_leadership(NULL, wrong[i], &out);
        cr_assert_eq(st.reason, BATON_REASON_BAD_FIELD, "%zu", i);
        cr_assert_not_null(strstr(st.message, "leadership.advertise"), "%s", st.message);
        cr_assert_neq(st.hint[0], '\0');
    }
}
