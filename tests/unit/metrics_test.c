/* metrics_test.c -- a page of metrics in both formats, and the addresses that a server takes. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/metrics/metrics_page.h"

static void write_page(struct metrics_page *page)
{
    const struct metrics_label odd[] = { { "file", "a\"b\\c\nd" }, { "code", "OK" } };
    metrics_build(page, "agent", "1.2");
    metrics_family(page, "baton_calls", METRICS_COUNTER, "Calls.");
    metrics_sample(page, odd, 2, 1e15);
    metrics_family(page, "baton_load_ratio", METRICS_GAUGE, "Load.");
    metrics_sample(page, NULL, 0, 0.25);
    metrics_sample(page, NULL, 0, NAN);
    metrics_sample(page, NULL, 0, -INFINITY);
    page_end(page);
}

Test(metrics, the_older_format)
{
    struct metrics_page page = { .is_openmetrics = false };
    write_page(&page);
    cr_assert_str_eq(page.text,
                     "# HELP baton_build_info What runs.\n"
                     "# TYPE baton_build_info gauge\n"
                     "baton_build_info{daemon=\"agent\",version=\"1.2\"} 1\n"
                     "# HELP baton_calls_total Calls.\n"
                     "# TYPE baton_calls_total counter\n"
                     "baton_calls_total{file=\"a\\\"b\\\\c\\nd\",code=\"OK\"} 1000000000000000\n"
                     "# HELP baton_load_ratio Load.\n"
                     "# TYPE baton_load_ratio gauge\n"
                     "baton_load_ratio 0.25\n"
                     "baton_load_ratio NaN\n"
                     "baton_load_ratio -Inf\n");
    page_free(&page);
}

Test(metrics, openmetrics)
{
    struct metrics_page page = { .is_openmetrics = true };
    write_page(&page);
    cr_assert_not_null(strstr(page.text, "# TYPE baton_build info\nbaton_build_info{"));
    cr_assert_not_null(strstr(page.text, "# TYPE baton_calls counter\nbaton_calls_total{"));
    cr_assert_str_eq(page.text + page.size - strlen("# EOF\n"), "# EOF\n");
    page_free(&page);
}

Test(metrics, a_histogram_sums_up)
{
    struct metrics_page page = { .is_openmetrics = false };
    static struct metrics_histogram histogram;
    metrics_observe(&histogram, 500 * (BATON_NS_PER_S / 1000000));
    metrics_observe(&histogram, 3 * BATON_NS_PER_MS);
    metrics_observe(&histogram, 100 * BATON_NS_PER_S);
    metrics_family(&page, "baton_write_duration_seconds", METRICS_HISTOGRAM, "Writes.");
    const struct metrics_label label = { "phase", "apply" };
    cr_assert_eq(metrics_histogram_count(&histogram), 3);
    metrics_histogram(&page, NULL, 0, &histogram);
    metrics_histogram(&page, &label, 1, &histogram);
    static const char *const lines[] = {
        "_bucket{le=\"0.0005\"} 1\n",
        "_bucket{le=\"0.0025\"} 1\n",
        "_bucket{le=\"0.005\"} 2\n",
        "_bucket{le=\"2.5\"} 2\n",
        "_bucket{le=\"+Inf\"} 3\n",
        "_sum 100.0035",
        "_count 3\n",
        "_bucket{phase=\"apply\",le=\"60\"} 2\n",
        "_sum{phase=\"apply\"} 100.0035",
        "_count{phase=\"apply\"} 3\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        cr_assert_not_null(strstr(page.text, lines[i]), "%s in %s", lines[i], page.text);
    }
    page_free(&page);
}

static void nothing(struct metrics_page *page, void *context)
{
    (void)page;
    (void)context;
}

Test(metrics, addresses)
{
    static const char *const good[] = { "127.0.0.1:0", "localhost:0", "[::1]:0" };
    static const char *const bad[] = { "127.0.0.1",       "host.example:1", ":1", "[::1:1",
                                       "127.0.0.1:70000", "127.0.0.1:x",    "" };
    struct metrics *metrics = NULL;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct metrics_options options = { good[i], nothing, NULL };
        struct baton_status st = metrics_create(&options, &metrics);
        cr_assert(baton_ok(&st), "%s: %s", good[i], st.message);
        cr_assert_neq(metrics_port(metrics), 0);
        metrics_destroy(metrics);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct metrics_options options = { bad[i], nothing, NULL };
        struct baton_status st = metrics_create(&options, &metrics);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", bad[i]);
        cr_assert_null(metrics);
    }
}

/* Whether the start of a server there is warned of. */
static bool is_warned_of(const char *listen)
{
    char text[1024] = "";
    int ends[2];
    int kept = dup(STDERR_FILENO);
    struct metrics_options options = { listen, NULL, NULL };
    struct metrics *metrics = NULL;
    cr_assert_eq(pipe(ends), 0);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    struct baton_status st = metrics_create(&options, &metrics);
    cr_assert_geq(dup2(kept, STDERR_FILENO), 0);
    (void)close(ends[1]);
    cr_assert(baton_ok(&st), "%s", st.message);
    ssize_t size = read(ends[0], text, sizeof(text) - 1);
    (void)close(ends[0]);
    (void)close(kept);
    metrics_destroy(metrics);
    return size > 0 && strstr(text, "other machines reach this page") != NULL &&
           strstr(text, listen) != NULL;
}

Test(metrics, who_lets_other_machines_ask_is_warned)
{
    cr_assert(is_warned_of("0.0.0.0:0"));
    cr_assert_not(is_warned_of("127.0.0.1:0"));
    cr_assert_not(is_warned_of("127.8.8.8:0"));
    cr_assert_not(is_warned_of("[::1]:0"));
}
