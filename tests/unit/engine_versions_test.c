/* The table of vLLM's versions, and what is said of an engine that is left to reload_weights. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/vllm_versions.h"

Test(versions, are_read_by_their_minor_number)
{
    cr_expect_eq(vllm_minor("0.32.0"), 32);
    cr_expect_eq(vllm_minor("0.33.1rc2.dev3+g12"), 33);
    cr_expect_gt(vllm_minor("1.0.0"), VLLM_MINOR_NEWEST);
    cr_expect_eq(vllm_minor("nightly"), 0);
    cr_expect_eq(vllm_minor("32"), 0);
    cr_expect_eq(vllm_minor(""), 0);
}

Test(versions, have_what_the_table_says_from_its_first_on)
{
    char before[16];
    char first[16];
    for (int i = 0; i < VLLM_FEATURES_COUNT; i++) {
        const struct vllm_feature_row *row = &vllm_features[i];
        cr_assert_eq((int)row->feature, i, "rows are found by feature");
        cr_assert(row->what[0] != '\0' && row->source[0] != '\0');
        (void)snprintf(before, sizeof before, "0.%u.9", row->since - 1);
        (void)snprintf(first, sizeof first, "0.%u.0", row->since);
        cr_expect(!vllm_has(before, row->feature), "%s in %s", row->what, before);
        cr_expect(vllm_has(first, row->feature), "%s in %s", row->what, first);
    }
    cr_expect_leq(vllm_features[VLLM_LABEL].since, VLLM_MINOR_OLDEST, "it is needed of all");
    cr_expect_leq(vllm_features[VLLM_TRUE_RESET].since, VLLM_MINOR_OLDEST, "it is needed of all");
}

static const char *reason(const char *software, const char *backend)
{
    static char text[256];
    vllm_reload_reason(software, backend, text, sizeof text);
    return text;
}

Test(versions, say_why_only_reload_is_left)
{
    cr_expect_not_null(strstr(reason("0.32.0", ""), "no weight-transfer backend"));
    cr_expect_not_null(strstr(reason("0.29.0", "nccl"), "refused: 0.29.0"));
    cr_expect_not_null(strstr(reason("0.29.0", "nccl"), "0.30"));
    cr_expect_null(strstr(reason("0.30.0", "nccl"), "refused"));
    cr_expect_not_null(strstr(reason("0.30.0", "nccl"), "does not send"));
    cr_expect_not_null(strstr(reason("0.32.0", "ipc"), "\"ipc\""));
}
