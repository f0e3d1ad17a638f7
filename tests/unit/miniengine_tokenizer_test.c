/* Byte-level tokens and the text that is made of them. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/miniengine/tokenizer.h"

Test(tokenizer, broken_utf8_becomes_replacement_characters)
{
    static const struct {
        const char *bytes, *text;
    } rows[] = {
        { "plain", "plain" },
        { "\xC3\xA9", "\xC3\xA9" },
        { "\xF0\x9F\x8E\xB5", "\xF0\x9F\x8E\xB5" },
        { "a\x80z", "a\xEF\xBF\xBDz" },
        { "\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD" },                 /* An overlong zero. */
        { "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" }, /* Half a surrogate pair. */
        { "\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "\xE2\x82", "\xEF\xBF\xBD\xEF\xBF\xBD" },
    };
    char out[64];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t bytes = strlen(rows[i].bytes);
        cr_assert_eq(tokenizer_to_utf8(rows[i].bytes, bytes, true, out), bytes);
        cr_assert_str_eq(out, rows[i].text, "row %zu", i);
    }
    cr_assert_eq(tokenizer_to_utf8("\0", 1, true, out), 1);
    cr_assert_str_eq(out, "\xEF\xBF\xBD", "a zero byte cannot end a JSON text early");
}

Test(tokenizer, an_unfinished_character_waits)
{
    char out[16];
    cr_assert_eq(tokenizer_to_utf8("a\xE2\x82", 3, false, out), 1);
    cr_assert_str_eq(out, "a");
    cr_assert_eq(tokenizer_to_utf8("\xE2\x82\xAC", 3, false, out), 3);
    cr_assert_str_eq(out, "\xE2\x82\xAC");
    cr_assert_eq(tokenizer_to_utf8("\xE2(", 2, false, out), 2, "this will never be finished");
}
