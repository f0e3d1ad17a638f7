/* cuda_open_test.c -- what a program without a GPU, without the plug-in or with another's hears. */
#include <criterion/criterion.h>
#include <string.h>

#include "transport/cuda/cuda_open.h"

/* Each way to be without a GPU is an answer with a reason. */
Test(cuda_open, says_why_there_is_none)
{
    const struct baton_cuda *cuda = NULL;
    struct baton_status st = cuda_open("/nowhere/baton_cuda.so", &cuda);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    cr_expect_not_null(strstr(st.message, "/nowhere/baton_cuda.so"), "%s", st.message);
    st = cuda_open(BATON_OTHER_PLUGIN, &cuda);
    cr_expect_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.hint, "baton_cuda.so"), "%s", st.hint);
    cr_expect_null(cuda);
}

#ifdef BATON_CUDA_PLUGIN
/* The real plug-in loads without a driver, and then says that it has no device. */
Test(cuda_open, loads_the_plugin_that_was_built)
{
    const struct baton_cuda *cuda = NULL;
    struct baton_status st = cuda_open(BATON_CUDA_PLUGIN, &cuda);
    if (baton_ok(&st)) {
        int count = 0;
        cr_assert_eq(cuda->devices(&count), BATON_CUDA_OK);
        cr_expect_gt(count, 0);
        st = cuda_status(cuda, BATON_CUDA_E_INVALID, "a call");
        cr_expect_eq(st.code, BATON_INTERNAL);
        cr_expect_not_null(strstr(st.message, "a call: an argument"), "%s", st.message);
    } else {
        cr_expect_eq(st.code, BATON_FAILED_PRECONDITION, "%s", st.message);
        cr_expect_eq(st.reason, BATON_REASON_NONE, "%s", st.message);
        cr_expect_not_null(strstr(st.message, "driver"), "%s", st.message);
        cr_expect_null(cuda);
    }
}
#endif
