/* bytes_test.c -- reader and writer never leave their bounds and stay failed; hexadecimal; CRC. */
#include "api/base/bytes.h"

#include <criterion/criterion.h>
#include <string.h>

Test(bytes, what_is_written_is_read)
{
    uint8_t memory[64];
    struct baton_writer writer = baton_writer_of(memory, sizeof(memory));
    baton_write_u8(&writer, 7);
    baton_write_u32le(&writer, 0xdeadbeef);
    baton_write_u64le(&writer, UINT64_MAX - 1);
    baton_write_framed(&writer, baton_bytes_of("name"));
    cr_assert(baton_writer_ok(&writer));
    struct baton_reader reader = baton_reader_of((struct baton_bytes){ memory, writer.size });
    cr_assert_eq(baton_read_u8(&reader), 7);
    cr_assert_eq(baton_read_u32le(&reader), 0xdeadbeef);
    cr_assert_eq(baton_read_u64le(&reader), UINT64_MAX - 1);
    cr_assert(baton_bytes_equal(baton_read_framed(&reader, 4), baton_bytes_of("name")));
    cr_assert_not(reader.failed);
    cr_assert_eq(reader.left.size, 0);
}

Test(bytes, a_reader_that_failed_stays_failed_and_gives_zeros)
{
    const uint8_t memory[] = { 1, 2, 3 };
    struct baton_reader reader = baton_reader_of((struct baton_bytes){ memory, sizeof(memory) });
    cr_assert_eq(baton_read_u32le(&reader), 0);
    cr_assert(reader.failed);
    cr_assert_eq(baton_read_u8(&reader), 0, "also what would have fitted");
}

Test(bytes, a_frame_longer_than_its_limit_or_its_bytes_is_refused)
{
    const uint8_t memory[] = { 5, 0, 0, 0, 'a', 'b', 'c', 'd', 'e' };
    struct baton_reader reader = baton_reader_of((struct baton_bytes){ memory, sizeof(memory) });
    cr_assert_eq(baton_read_framed(&reader, 4).size, 0);
    cr_assert(reader.failed);
    reader = baton_reader_of((struct baton_bytes){ memory, sizeof(memory) - 1 });
    cr_assert_eq(baton_read_framed(&reader, 100).size, 0);
    cr_assert(reader.failed);
}

Test(bytes, a_full_writer_counts_on_without_writing)
{
    uint8_t memory[6] = { 0 };
    struct baton_writer writer = baton_writer_of(memory, 4);
    baton_write_u32le(&writer, 1);
    baton_write_u8(&writer, 0xff);
    cr_assert_not(baton_writer_ok(&writer));
    cr_assert_eq(writer.size, 5);
    cr_assert_eq(memory[4], 0);
}

Test(bytes, hexadecimal_takes_exactly_its_digits)
{
    uint8_t out[2];
    char text[5];
    cr_assert(baton_hex_decode("0aFf", out, 2));
    cr_assert_eq(out[0], 0x0a);
    cr_assert_eq(out[1], 0xff);
    baton_hex_encode(out, 2, text);
    cr_assert_str_eq(text, "0aff");
    cr_assert_not(baton_hex_decode("0af", out, 2));
    cr_assert_not(baton_hex_decode("0aff0", out, 2));
    cr_assert_not(baton_hex_decode("0axf", out, 2));
}

Test(bytes, text_that_does_not_fit_gives_an_empty_copy)
{
    char out[4];
    cr_assert(baton_text_copy(out, sizeof(out), "abc"));
    cr_assert_str_eq(out, "abc");
    cr_assert_not(baton_text_copy(out, sizeof(out), "abcd"));
    cr_assert_str_empty(out);
}

/* RFC 3720, B.4: the published examples. */
Test(bytes, crc32c_of_the_published_examples)
{
    uint8_t zeros[32] = { 0 };
    cr_assert_eq(baton_crc32c(0, zeros, sizeof(zeros)), 0x8a9136aa);
    cr_assert_eq(baton_crc32c(0, "123456789", 9), 0xe3069283);
    cr_assert_eq(baton_crc32c(baton_crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
}
