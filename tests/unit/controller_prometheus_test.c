/* controller_prometheus_test.c -- what answers of Prometheus are worth. */
#include <criterion/criterion.h>
#include <string.h>

#include "controller/shell/prometheus.h"

static struct baton_status read_text(uint32_t code, const char *text, double *out)
{
    return prometheus_read(code, baton_bytes_of(text), out);
}

static void expect_number(const char *text, double wanted)
{
    double got = -1;
    struct baton_status st = read_text(200, text, &got);
    cr_expect(baton_ok(&st), "%s: %s", text, st.message);
    cr_expect_eq(got, wanted, "%s: %g", text, got);
}

static void expect_none(uint32_t code, const char *text, const char *says)
{
    double got = -1;
    struct baton_status st = read_text(code, text, &got);
    cr_expect_not(baton_ok(&st), "%s was taken", text);
    cr_expect_not_null(strstr(st.message, says), "%s: %s", text, st.message);
    cr_expect_eq(got, -1);
}

Test(prometheus, one_number)
{
    expect_number("{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":"
                  "[{\"metric\":{\"model\":\"m\"},\"value\":[1700000000.1,\"0.25\"]}]}}",
                  0.25);
    expect_number("{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":"
                  "[1700000000,\"-3e2\"]},\"warnings\":[\"w\"]}",
                  -300);
}

Test(prometheus, no_number_and_why)
{
    expect_none(400,
                "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error at 1\"}",
                "parse error at 1");
    expect_none(200, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}",
                "0 samples");
    expect_none(200,
                "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":"
                "[{\"value\":[1,\"1\"]},{\"value\":[1,\"2\"]}]}}",
                "2 samples");
    expect_none(200, "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[]}}",
                "matrix");
    expect_none(200,
                "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":"
                "[1,\"NaN\"]}}",
                "NaN");
    expect_none(200,
                "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":"
                "[1,\"1 apple\"]}}",
                "no number");
    expect_none(502, "<html>Bad gateway</html>", "502 without JSON");
    expect_none(200, "[1,2]", "200 without JSON");
    expect_none(200, "", "without JSON");
    expect_none(200, "{}", "no status");
    expect_none(200, "{\"status\":\"success\",\"data\":[]}", "?");
}
