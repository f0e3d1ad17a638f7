/* capability_test.c -- who may pull what: signed, read back, and every way in which that can be wrong. */
#include "transport/capability/capability.h"

#include <criterion/criterion.h>
#include <string.h>

static struct capability sample(void)
{
    struct capability capability = {
        .node = "node-b", .identity = "spiffe://lab/agent/node-b", .issued_s = 1000, .ends_s = 1600
    };
    memset(capability.version.bytes, 7, sizeof(capability.version.bytes));
    return capability;
}

static void expect_refused(struct baton_status st, const char *why)
{
    cr_assert_eq(st.code, BATON_PERMISSION_DENIED, "%s", st.message);
    cr_assert_not_null(strstr(st.message, why), "%s", st.message);
}

/* What was signed comes back as it was, and only under the key that signed it. */
Test(capability, signed_and_opened)
{
    uint8_t bytes[CAPABILITY_BYTES_MAX];
    struct capability_signer *signer = capability_signer_create();
    struct capability_signer *other = capability_signer_create();
    struct capability_key keys[2] = { capability_signer_key(other), capability_signer_key(signer) };
    struct capability in = sample();
    struct capability out;
    size_t size = capability_sign(signer, &in, bytes);
    struct baton_status st = capability_open((struct baton_bytes){ bytes, size }, keys, 2, &out);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(out.node, in.node);
    cr_assert_str_eq(out.identity, in.identity);
    cr_assert_eq(out.ends_s, in.ends_s);
    cr_assert(digest_equal(out.version, in.version));
    expect_refused(capability_open((struct baton_bytes){ bytes, size }, keys, 1, &out),
                   "did not tell of");
    cr_assert_str_eq(out.node, "node-b", "what it claims is for the record");
    capability_signer_destroy(signer);
    capability_signer_destroy(other);
}

/* Any changed bit is found: in what is said as in the signature. */
Test(capability, every_changed_bit_is_found)
{
    uint8_t bytes[CAPABILITY_BYTES_MAX];
    struct capability_signer *signer = capability_signer_create();
    struct capability_key key = capability_signer_key(signer);
    struct capability in = sample();
    struct capability out;
    size_t size = capability_sign(signer, &in, bytes);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        struct baton_status st =
            capability_open((struct baton_bytes){ bytes, size }, &key, 1, &out);
        cr_assert_not(baton_ok(&st), "bit %zu", bit);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    for (size_t cut = 0; cut < size; cut++) {
        struct baton_status st = capability_open((struct baton_bytes){ bytes, cut }, &key, 1, &out);
        cr_assert_not(baton_ok(&st), "%zu bytes", cut);
    }
    capability_signer_destroy(signer);
}

/* The largest names fit; what is said of time and version is checked to the second and the bit. */
Test(capability, time_and_version)
{
    struct capability capability = sample();
    struct digest other = capability.version;
    other.bytes[15] ^= 1;
    struct baton_status st = capability_check_time(&capability, 1600 + CAPABILITY_SKEW_S);
    cr_assert(baton_ok(&st));
    st = capability_check_time(&capability, 1000 - CAPABILITY_SKEW_S);
    cr_assert(baton_ok(&st));
    expect_refused(capability_check_time(&capability, 1601 + CAPABILITY_SKEW_S), "expired");
    expect_refused(capability_check_time(&capability, 999 - CAPABILITY_SKEW_S), "begins in");
    expect_refused(capability_check_version(&capability, other), "another version");
    st = capability_check_version(&capability, capability.version);
    cr_assert(baton_ok(&st));
}

/* Names that are no text are kept out of every record: one byte of them in a message to the controller would end the
 * session of the agent that tells of it. */
Test(capability, only_printable_names_are_read)
{
    static const char bad[] = { '\x01', ' ', '\n', '\x7f', '\x80', '\xff' };
    uint8_t bytes[CAPABILITY_BYTES_MAX];
    struct capability_signer *signer = capability_signer_create();
    struct capability_key key = capability_signer_key(signer);
    struct capability out;
    for (size_t i = 0; i < sizeof(bad); i++) {
        struct capability in = sample();
        in.node[2] = bad[i];
        size_t size = capability_sign(signer, &in, bytes);
        struct baton_status st =
            capability_open((struct baton_bytes){ bytes, size }, &key, 1, &out);
        cr_assert_eq(st.reason, BATON_REASON_MALFORMED, "node, %zu: %s", i, st.message);
        cr_assert_str_eq(out.node, "");
        in = sample();
        in.identity[2] = bad[i];
        size = capability_sign(signer, &in, bytes);
        st = capability_open((struct baton_bytes){ bytes, size }, &key, 1, &out);
        cr_assert_eq(st.reason, BATON_REASON_MALFORMED, "identity, %zu: %s", i, st.message);
        cr_assert_str_eq(out.identity, "");
    }
    capability_signer_destroy(signer);
}

Test(capability, the_longest_names_fit)
{
    uint8_t bytes[CAPABILITY_BYTES_MAX];
    struct capability_signer *signer = capability_signer_create();
    struct capability_key key = capability_signer_key(signer);
    struct capability in = sample();
    struct capability out;
    memset(in.node, 'n', sizeof(in.node) - 1);
    in.node[sizeof(in.node) - 1] = '\0';
    memset(in.identity, 'i', sizeof(in.identity) - 1);
    in.identity[sizeof(in.identity) - 1] = '\0';
    size_t size = capability_sign(signer, &in, bytes);
    struct baton_status st = capability_open((struct baton_bytes){ bytes, size }, &key, 1, &out);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(out.identity, in.identity);
    capability_signer_destroy(signer);
}
