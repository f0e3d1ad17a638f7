/* log_test.c -- lines: JSON that parses, nothing that breaks a line, levels, the burst limit. */
#include "api/base/log.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char output[1 << 20];

/* Runs 'say' with stderr in a file and gives back what it printed. */
static size_t capture(void (*say)(void))
{
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    cr_assert_not_null(file);
    (void)dup2(fileno(file), STDERR_FILENO);
    say();
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    rewind(file);
    size_t size = fread(output, 1, sizeof(output) - 1, file);
    output[size] = '\0';
    (void)fclose(file);
    return size;
}

static void say_json(void)
{
    baton_log_configure(BATON_LOG_INFO, true);
    struct baton_log_field fields[] = { BATON_LOG_TEXT("group", "g\"0\n"),
                                        BATON_LOG_NUMBER("seq", -3) };
    baton_log_fields(BATON_LOG_INFO, "roll", "two\nlines", fields, 2);
}

Test(log, json_keeps_one_line_and_stable_keys)
{
    (void)capture(say_json);
    cr_assert_not_null(strstr(output,
                              "\"level\":\"info\",\"module\":\"roll\",\"message\":"
                              "\"two\\u000alines\",\"group\":\"g\\\"0\\u000a\",\"seq\":-3}\n"),
                       "%s", output);
    cr_assert_eq(strchr(output, '\n'), output + strlen(output) - 1);
}

static void say_below_the_level(void)
{
    baton_log_configure(BATON_LOG_WARN, false);
    baton_log(BATON_LOG_INFO, "m", "quiet");
    baton_log(BATON_LOG_ERROR, "m", "loud %d", 1);
}

Test(log, levels_drop_what_is_below)
{
    (void)capture(say_below_the_level);
    cr_assert_null(strstr(output, "quiet"));
    cr_assert_not_null(strstr(output, " error m: loud 1\n"));
}

static void say_long(void)
{
    baton_log_configure(BATON_LOG_INFO, true);
    char text[3 * BATON_LOG_LINE_BYTES];
    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct baton_log_field field = BATON_LOG_TEXT("big", text);
    baton_log_fields(BATON_LOG_INFO, "m", "long", &field, 1);
}

Test(log, a_line_is_bounded_and_ends)
{
    size_t size = capture(say_long);
    cr_assert_leq(size, BATON_LOG_LINE_BYTES);
    cr_assert_eq(output[size - 1], '\n');
}

static void say_much(void)
{
    baton_log_configure(BATON_LOG_INFO, false);
    for (int i = 0; i < 20 * BATON_LOG_BURST; i++) {
        baton_log(BATON_LOG_INFO, "storm", "line %d", i);
    }
}

/* Twenty bursts fit into far less than ten seconds, so most of them are dropped. */
Test(log, a_storm_is_cut)
{
    (void)capture(say_much);
    size_t lines = 0;
    for (const char *at = output; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    cr_assert(lines >= BATON_LOG_BURST && lines < 10 * BATON_LOG_BURST, "%zu lines", lines);
}

Test(log, level_words)
{
    enum baton_log_level level = BATON_LOG_ERROR;
    cr_assert(baton_log_level_parse("debug", &level));
    cr_assert_eq(level, BATON_LOG_DEBUG);
    cr_assert_not(baton_log_level_parse("chatty", &level));
}
