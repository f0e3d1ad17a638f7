/* transport_test.c -- the host: finding backends, refusing bad ones, deadlines, results. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/host/registry.h"
#include "transport/include/baton/transport.h"

Test(transport, finds_backends)
{
    struct baton_transport *transport = NULL;
    struct baton_status st = baton_transport_open("memory", "{}", &transport);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_str_eq(baton_transport_name(transport), "memory");
    cr_expect((baton_transport_attr(transport).caps & BATON_TP_CAP_EXPORT) != 0);
    baton_transport_close(transport);
    st = baton_transport_open("carrier_pigeon", "{}", &transport);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    cr_expect_not_null(strstr(st.message, "carrier_pigeon"), "%s", st.message);
    st = baton_transport_open("/nonexistent/backend.so", "{}", &transport);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    cr_expect_not_null(strstr(st.message, "backend.so"), "%s", st.message);
    st = baton_transport_open("file", "{\"directory\":\"/nonexistent\"}", &transport);
    cr_expect_eq(st.code, BATON_UNAVAILABLE);
    st = baton_transport_open("file", "{}", &transport);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
}

/* A library that is no plugin is refused by name. */
Test(transport, refuses_a_library_that_is_no_plugin)
{
    struct baton_transport *transport = NULL;
    char *dir = maker_directory();
    char *path = maker_join(dir, "no.so");
    maker_write_text(dir, "no.so", "not a library");
    struct baton_status st = baton_transport_open(path, "{}", &transport);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    free(path);
    maker_remove(dir);
}

static void expect_incompatible(struct baton_transport_plugin plugin, const char *words)
{
    struct baton_status st = registry_check(&plugin, "test");
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.message, words), "%s", st.message);
}

/* Tables that break the rules. */
Test(transport, refuses_bad_tables)
{
    const struct baton_transport_plugin *good = NULL;
    struct baton_status st = registry_find("memory", &good);
    cr_assert(baton_ok(&st));
    struct baton_transport_plugin bad = *good;
    bad.abi_major = 2;
    expect_incompatible(bad, "major 1");
    bad = *good;
    bad.size = 8;
    expect_incompatible(bad, "major 1");
    bad = *good;
    bad.name = "Bad Name";
    expect_incompatible(bad, "[a-z0-9_]");
    bad.name = "";
    expect_incompatible(bad, "[a-z0-9_]");
    bad = *good;
    bad.poll = NULL;
    expect_incompatible(bad, "lacks");
    bad = *good;
    bad.size = offsetof(struct baton_transport_plugin, poll);
    expect_incompatible(bad, "lacks");
    bad = *good;
    bad.get = NULL;
    st = registry_check_caps(&bad, BATON_TP_CAP_GET);
    cr_expect_not_null(strstr(st.message, "promises GET"), "%s", st.message);
    bad.put = NULL;
    st = registry_check_caps(&bad, BATON_TP_CAP_PUT);
    cr_expect_not_null(strstr(st.message, "promises PUT"), "%s", st.message);
    bad.cancel = NULL;
    st = registry_check_caps(&bad, BATON_TP_CAP_CANCEL);
    cr_expect_not_null(strstr(st.message, "promises CANCEL"), "%s", st.message);
    bad.length = NULL;
    st = registry_check_caps(&bad, BATON_TP_CAP_LENGTH);
    cr_expect_not_null(strstr(st.message, "promises LENGTH"), "%s", st.message);
    bad.key = NULL;
    st = registry_check_caps(&bad, BATON_TP_CAP_EXPORT);
    cr_expect_not_null(strstr(st.message, "promises EXPORT"), "%s", st.message);
    st = registry_check_caps(&bad, UINT64_C(1) << 60);
    cr_expect(baton_ok(&st), "unknown bits are ignored");
}

/* What a backend cannot do is refused before it is asked. */
Test(transport, checks_capabilities)
{
    char *dir = maker_directory();
    char config[1024];
    struct baton_transport *transport = NULL;
    struct baton_tp_mem *mem = NULL;
    uint8_t byte = 0;
    bool accepted = true;
    snprintf(config, sizeof(config), "{\"directory\":\"%s\"}", dir);
    struct baton_status st = baton_transport_open("file", config, &transport);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = baton_transport_register(transport, &byte, 1, baton_bytes_of("x"), BATON_TP_ACCESS_READ,
                                  &mem);
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED);
    struct baton_transport_range range = { { NULL, 0 }, baton_bytes_of("x"), 0 };
    st = baton_transport_put(transport, range, (struct baton_transport_local){ NULL, 0, 1 }, 1,
                             &accepted);
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED);
    cr_expect_not(accepted);
    st = baton_transport_get(transport, range,
                             (struct baton_transport_local){ NULL, 0, UINT64_MAX }, 1, &accepted);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT);
    uint8_t address[BATON_TP_ADDRESS_BYTES_MAX];
    uint32_t address_bytes = 9;
    st = baton_transport_address(transport, address, &address_bytes);
    cr_expect(baton_ok(&st) && address_bytes == 0);
    baton_transport_close(transport);
    maker_remove(dir);
}

/* Every result has a meaning; an unknown one counts as INTERNAL. */
Test(transport, names_results)
{
    struct baton_transport *transport = NULL;
    struct baton_status st = baton_transport_open("memory", NULL, &transport);
    cr_assert(baton_ok(&st), "%s", st.message);
    static const enum baton_code codes[] = {
        BATON_INVALID_ARGUMENT, BATON_UNAVAILABLE, BATON_UNAVAILABLE, BATON_DATA_LOSS,
        BATON_UNIMPLEMENTED,    BATON_INTERNAL,    BATON_CANCELLED,   BATON_PERMISSION_DENIED,
    };
    for (int i = 0; i < 8; i++) {
        st = baton_transport_result(transport, -(i + 1), "the object");
        cr_expect_eq(st.code, codes[i], "%d", -(i + 1));
        cr_expect_not_null(strstr(st.message, "the object"));
    }
    st = baton_transport_result(transport, -1000, "x");
    cr_expect_eq(st.code, BATON_INTERNAL);
    baton_transport_close(transport);
}

/* A backend that never reports is given up at our deadline. */
Test(transport, gives_up_at_the_deadline, .timeout = 20)
{
    char *dir = maker_directory();
    char config[1024];
    struct baton_transport *transport = NULL;
    struct baton_tp_mem *mem = NULL;
    uint8_t bytes[8] = { 0 };
    maker_write_text(dir, "object", "12345678");
    snprintf(config, sizeof(config),
             "{\"backend\":\"file\",\"config\":{\"directory\":\"%s\"},\"fault\":\"hang\",\"at\":2}",
             dir);
    struct baton_status st = baton_transport_open(BATON_FAULT_HOOK, config, &transport);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = baton_transport_register(transport, bytes, 8, (struct baton_bytes){ NULL, 0 }, 0, &mem);
    cr_assert(baton_ok(&st), "%s", st.message);
    struct baton_transport_range range = { { NULL, 0 }, baton_bytes_of("object"), 0 };
    struct baton_transport_local local = { mem, 0, 8 };
    st = baton_transport_get_wait(transport, range, local, 10 * BATON_NS_PER_S);
    cr_expect(baton_ok(&st) && memcmp(bytes, "12345678", 8) == 0, "%s", st.message);
    st = baton_transport_get_wait(transport, range, local, 20 * BATON_NS_PER_MS);
    cr_expect_eq(st.code, BATON_DEADLINE_EXCEEDED);
    cr_expect_not_null(strstr(st.message, "object"), "%s", st.message);
    baton_transport_close(transport);
    maker_remove(dir);
}
