/* nccl_test.c -- what backend "nccl" says of its configuration, and of a machine without a GPU. */
#include <criterion/criterion.h>
#include <string.h>

#include "transport/include/baton/transport.h"

static struct baton_status open_nccl(const char *config)
{
    struct baton_transport *transport = NULL;
    struct baton_status st = baton_transport_open(BATON_NCCL_PLUGIN, config, &transport);
    cr_expect(!baton_ok(&st), "%s was taken", config);
    cr_expect_null(transport);
    return st;
}

Test(nccl, refuses_bad_configurations)
{
    static const char *const bad[] = {
        "[",
        "7",
        "{}",
        "{\"cuda\":\"/x.so\"}",
        "{\"cuda\":\"/x.so\",\"ranks\":2,\"rank\":2}",
        "{\"cuda\":\"/x.so\",\"ranks\":2,\"rank\":-1}",
        "{\"cuda\":\"/x.so\",\"ranks\":\"2\"}",
        "{\"cuda\":7,\"ranks\":2}",
        "{\"cuda\":\"/x.so\",\"ranks\":2,\"timeoutMs\":3600001}",
        "{\"cuda\":\"/x.so\",\"ranks\":2,\"noSuchKey\":1}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct baton_status st = open_nccl(bad[i]);
        cr_expect_eq(st.code, BATON_INVALID_ARGUMENT, "%s: %s", bad[i], st.message);
    }
}

/* What is missing is an answer. */
Test(nccl, says_what_is_missing)
{
    struct baton_status st = open_nccl("{\"cuda\":\"/nowhere/baton_cuda.so\",\"ranks\":1}");
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "%s", st.message);
    st = open_nccl("{\"cuda\":\"" BATON_CUDA_PLUGIN
                   "\",\"library\":\"/nowhere/libnccl.so\",\"ranks\":1}");
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "%s", st.message);
    st = open_nccl("{\"cuda\":\"" BATON_CUDA_PLUGIN "\",\"library\":\"" BATON_CUDA_PLUGIN
                   "\",\"ranks\":1}");
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "%s", st.message);
}
