/* safetensors_test.c -- headers and indexes: what is taken, and what is refused with which
 * words. */
#include <criterion/criterion.h>
#include <string.h>

#include "transport/model/safetensors.h"

#define T(name, dtype, shape, begin, end)                                                          \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

static struct baton_status parse(const char *header, uint64_t data_bytes, struct safetensors **out)
{
    struct baton_bytes bytes = baton_bytes_of(header);
    return safetensors_parse("m.safetensors", bytes, 8 + bytes.size + data_bytes, out);
}

static void expect_refused(const char *header, uint64_t data_bytes, const char *words)
{
    struct safetensors *parsed = NULL;
    struct baton_status st = parse(header, data_bytes, &parsed);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT, "%s", header);
    cr_expect_eq(st.reason, BATON_REASON_CHECKPOINT_INVALID, "%s", header);
    cr_expect_not_null(strstr(st.message, words), "%s: got '%s'", header, st.message);
    cr_expect_not_null(strstr(st.message, "m.safetensors"), "%s", st.message);
    safetensors_destroy(parsed);
}

/* Header order is free; scalars, empty tensors, metadata and trailing spaces are fine. */
Test(safetensors, takes_a_good_header)
{
    struct safetensors *parsed = NULL;
    struct baton_status st =
        parse("{\"__metadata__\":{\"format\":\"pt\"}," T("b", "BF16", "[2,3]", 4, 16) "," T(
                  "a", "F32", "[]", 0, 4) "," T("e", "I64", "[0]", 4, 4) "}   ",
              16, &parsed);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(parsed->tensors_count, 3);
    cr_expect_str_eq(parsed->tensors[0].name, "a");
    cr_expect_str_eq(parsed->tensors[1].name, "e");
    cr_expect_str_eq(parsed->tensors[2].name, "b");
    cr_expect_eq(parsed->tensors[2].begin, parsed->data_begin + 4);
    cr_expect_eq(parsed->tensors[2].bytes, 12);
    cr_expect_eq(parsed->tensors[2].shape.dims[1], 3);
    safetensors_destroy(parsed);
}

Test(safetensors, takes_a_file_without_tensors)
{
    struct safetensors *parsed = NULL;
    struct baton_status st = parse("{}", 0, &parsed);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(parsed->tensors_count, 0);
    safetensors_destroy(parsed);
}

/* One owner for each byte. */
Test(safetensors, refuses_what_does_not_tile)
{
    expect_refused("{" T("k", "U8", "[4]", 0, 4) "," T("v", "U8", "[4]", 0, 4) "}", 4, "overlap");
    expect_refused("{" T("k", "U8", "[4]", 0, 4) "," T("v", "U8", "[4]", 2, 6) "}", 6, "'v'");
    expect_refused("{" T("k", "U8", "[4]", 0, 4) "," T("v", "U8", "[2]", 6, 8) "}", 8, "gap");
    expect_refused("{" T("k", "U8", "[4]", 4, 8) "}", 8, "the header");
    expect_refused("{" T("k", "U8", "[4]", 0, 4) "}", 3, "short by 1 bytes");
    expect_refused("{" T("k", "U8", "[4]", 0, 4) "}", 6, "too long by 2 bytes");
    expect_refused("{}", 1, "trailing bytes");
}

Test(safetensors, refuses_bad_offsets)
{
    expect_refused("{" T("k", "U8", "[4]", 4, 0) "}", 4, "ends before it begins");
    expect_refused("{" T("k", "U8", "[4]", -4, 0) "}", 4, "data_offsets");
    expect_refused("{" T("k", "U8", "[4]", 0.0, 4) "}", 4, "data_offsets");
    expect_refused("{" T("k", "U8", "[4]", 0, 18446744073709551615) "}", 4, "header");
    expect_refused("{" T("k", "U8", "[4]", 0, 9223372036854775807) "}", 4, "needs 4");
    expect_refused("{\"k\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0]}}", 4,
                   "data_offsets");
    expect_refused("{\"k\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "data_offsets");
}

Test(safetensors, refuses_sizes_that_do_not_fit)
{
    expect_refused("{" T("k", "F32", "[1]", 0, 3) "}", 3, "needs 4");
    expect_refused("{" T("k", "F32", "[]", 0, 0) "}", 0, "needs 4");
    expect_refused("{" T("k", "U8", "[4294967296,4294967296]", 0, 0) "}", 0, "overflows");
    expect_refused("{" T("k", "U8", "[4294967296,4294967296,0]", 0, 0) "}", 0, "overflows");
    expect_refused("{" T("k", "F4", "[3]", 0, 2) "}", 2, "within a byte");
    expect_refused("{" T("k", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, "more than 8");
    expect_refused("{" T("k", "U8", "[-1]", 0, 1) "}", 1, "shape");
    expect_refused("{" T("k", "U8", "[1.5]", 0, 1) "}", 1, "shape");
    expect_refused("{" T("k", "U8", "3", 0, 3) "}", 3, "shape");
}

Test(safetensors, refuses_unknown_types_and_keys)
{
    expect_refused("{" T("k", "bf16", "[1]", 0, 2) "}", 2, "'bf16' is unknown");
    expect_refused("{" T("k", "I4", "[2]", 0, 1) "}", 1, "'I4' is unknown");
    expect_refused("{\"k\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "dtype");
    expect_refused("{\"k\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1,
                   "unknown key 'x'");
    expect_refused("{\"k\":[]}", 0, "not a JSON object");
    expect_refused("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
    expect_refused("{\"__metadata__\":[]}", 0, "__metadata__");
}

Test(safetensors, refuses_double_names)
{
    expect_refused("{" T("k", "U8", "[2]", 0, 2) "," T("k", "U8", "[2]", 2, 4) "}", 4, "duplicate");
    expect_refused("{" T("k", "U8", "[2]", 0, 2) "," T("k", "U8", "[2]", 0, 2) "}", 2, "duplicate");
    expect_refused("{\"k\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],"
                   "\"data_offsets\":[0,1]}}",
                   1, "duplicate");
}

Test(safetensors, refuses_what_is_no_header)
{
    expect_refused("", 0, "'{'");
    expect_refused(" {}", 0, "'{'");
    expect_refused("{", 0, "header");
    expect_refused("{} x", 0, "header");
    expect_refused("{\"a\":{\"b\":{\"c\":{}}}}", 0, "nested deeper");
    expect_refused("{\"\xff\":1}", 0, "header");
    expect_refused("{" T("", "U8", "[1]", 0, 1) "}", 1, "name");
    expect_refused("{" T("a\\u0001", "U8", "[1]", 0, 1) "}", 1, "control");
    expect_refused("{" T("a\\u0000b", "U8", "[1]", 0, 1) "}", 1, "header");
}

/* The length field is judged before anything of that length is read. */
Test(safetensors, checks_the_length_field)
{
    uint64_t bytes = 0;
    const uint8_t million[8] = { 0x40, 0x42, 0x0f };
    const uint8_t two[8] = { 2 };
    const uint8_t huge[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
    struct baton_status st = safetensors_header_bytes("f", million, 100, &bytes);
    cr_expect_not_null(strstr(st.message, "truncated"), "%s", st.message);
    st = safetensors_header_bytes("f", two, 7, &bytes);
    cr_expect_not_null(strstr(st.message, "truncated"), "%s", st.message);
    st = safetensors_header_bytes("f", two, 0, &bytes);
    cr_expect_eq(st.reason, BATON_REASON_CHECKPOINT_INVALID);
    st = safetensors_header_bytes("f", huge, UINT64_MAX, &bytes);
    cr_expect_not_null(strstr(st.message, "limit"), "%s", st.message);
    st = safetensors_header_bytes("f", two, 10, &bytes);
    cr_expect(baton_ok(&st) && bytes == 2);
}

static void expect_index_refused(const char *text, const char *words)
{
    struct safetensors_index *index = NULL;
    struct baton_status st = safetensors_index_parse("i.json", baton_bytes_of(text), &index);
    cr_expect_eq(st.reason, BATON_REASON_CHECKPOINT_INVALID, "%s", text);
    cr_expect_not_null(strstr(st.message, words), "%s: got '%s'", text, st.message);
    safetensors_index_destroy(index);
}

Test(safetensors_index, takes_a_good_index)
{
    struct safetensors_index *index = NULL;
    struct baton_status st = safetensors_index_parse(
        "i.json",
        baton_bytes_of(
            "{\"metadata\":{\"total_size\":1,\"x\":{\"y\":[1]}},\"weight_map\":"
            "{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\",\"c\":\"2.safetensors\"}}"),
        &index);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(index->shards_count, 2);
    cr_expect_str_eq(index->shards[1], "2.safetensors");
    cr_expect_str_eq(safetensors_index_find(index, "c"), "2.safetensors");
    cr_expect_null(safetensors_index_find(index, "d"));
    safetensors_index_destroy(index);
}

Test(safetensors_index, refuses_bad_ones)
{
    expect_index_refused("[]", "weight_map");
    expect_index_refused("{}", "weight_map");
    expect_index_refused("{\"weight_map\":[]}", "weight_map");
    expect_index_refused("{\"weight_map\":{\"a\":1}}", "not a string");
    expect_index_refused("{\"weight_map\":{\"a\":\"../s.safetensors\"}}", "plain name");
    expect_index_refused("{\"weight_map\":{\"a\":\"x/s.safetensors\"}}", "plain name");
    expect_index_refused("{\"weight_map\":{\"a\":\"x\\\\s.safetensors\"}}", "plain name");
    expect_index_refused("{\"weight_map\":{\"a\":\"..\"}}", "plain name");
    expect_index_refused("{\"weight_map\":{\"a\":\".safetensors\"}}", "plain name");
    expect_index_refused("{\"weight_map\":{\"a\":\"s.bin\"}}", "plain name");
    expect_index_refused("{\"weight_map\":{\"a\":\"s.safetensors\",\"a\":\"s.safetensors\"}}",
                         "duplicate");
    expect_index_refused("{\"weight_map\":{\"\":\"s.safetensors\"}}", "name");
}
