/* agent/engine/guard: the page's writer and the token file. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/guard.h"

static char directory[64];
static char path[128];

static void begin(void)
{
    (void)snprintf(directory, sizeof directory, "/tmp/engine_guard_XXXXXX");
    cr_assert_not_null(mkdtemp(directory));
    (void)snprintf(path, sizeof path, "%s/file", directory);
}

static void end(void)
{
    (void)unlink(path);
    (void)rmdir(directory);
}

static struct guard_page *map(void)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *page = mmap(NULL, GUARD_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(page != MAP_FAILED);
    (void)close(fd);
    return page;
}

static void file_make(const char *text, size_t bytes, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    cr_assert(fd >= 0 && fchmod(fd, mode) == 0 && write(fd, text, bytes) == (ssize_t)bytes);
    (void)close(fd);
}

TestSuite(guard, .init = begin, .fini = end);

Test(guard, makes_a_page_that_is_shut_and_writes_it)
{
    struct engine_guard *guard = NULL;
    struct stat info;
    struct baton_status st = engine_guard_open(path, &guard);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert(stat(path, &info) == 0);
    cr_expect_eq(info.st_mode & 0777, 0600);
    struct guard_page *page = map();
    cr_expect(page->magic == GUARD_PAGE_MAGIC && page->layout == GUARD_PAGE_LAYOUT);
    cr_expect_eq(page->gate, GUARD_GATE_SHUT);
    struct engine_gate_order order = {
        .gate = GUARD_GATE_HOLD, .version = 9, .boots = 4, .hold_max = 64, .hold_ms = 5000
    };
    engine_guard_write(guard, &order);
    cr_expect_eq(page->sequence, 2);
    cr_expect(page->gate == GUARD_GATE_HOLD && page->version == 9 && page->opened_for == 4 &&
              page->hold_max == 64 && page->hold_ms == 5000);
    /* An agent that died while it wrote leaves an odd sequence; the next write ends it. */
    page->sequence = 7;
    engine_guard_write(guard, &order);
    cr_expect_eq(page->sequence, 8);
    engine_guard_close(guard);
    (void)munmap(page, GUARD_PAGE_BYTES);
}

Test(guard, opens_an_existing_page_and_keeps_what_it_says)
{
    struct engine_guard *guard = NULL;
    struct engine_guard_view view;
    struct baton_status st = engine_guard_open(path, &guard);
    cr_assert(baton_ok(&st));
    engine_guard_close(guard);
    struct guard_page *page = map();
    page->boots = 3;
    page->boot_id[0] = 0xab;
    page->active = 2;
    page->gate = GUARD_GATE_OPEN;
    st = engine_guard_open(path, &guard);
    cr_assert(baton_ok(&st), "%s", st.message);
    engine_guard_read(guard, &view);
    cr_expect(view.boots == 3 && view.active == 2);
    cr_expect_str_eq(view.incarnation, "ab000000000000000000000000000000");
    cr_expect_eq(page->gate, GUARD_GATE_OPEN, "opening a page changes no gate");
    engine_guard_close(guard);
    (void)munmap(page, GUARD_PAGE_BYTES);
}

Test(guard, refuses_files_that_are_no_page_and_leaves_them_alone)
{
    struct engine_guard *guard = NULL;
    char bytes[GUARD_PAGE_BYTES] = "something else";
    file_make(bytes, 10, 0600);
    struct baton_status st = engine_guard_open(path, &guard);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_not_null(strstr(st.message, path), "the file is named: %s", st.message);
    file_make(bytes, sizeof bytes, 0600);
    st = engine_guard_open(path, &guard);
    cr_expect_eq(st.reason, BATON_REASON_INCOMPATIBLE);
    cr_expect_null(guard);
    struct guard_page *page = map();
    cr_expect_eq(memcmp(page, bytes, sizeof bytes), 0);
    (void)munmap(page, GUARD_PAGE_BYTES);
    (void)unlink(path);
    cr_assert_eq(symlink("/dev/null", path), 0);
    st = engine_guard_open(path, &guard);
    cr_expect(!baton_ok(&st), "a link is not followed");
}

Test(guard, makes_a_token_once)
{
    char first[ENGINE_TOKEN_BYTES_MAX];
    char second[ENGINE_TOKEN_BYTES_MAX];
    struct stat info;
    struct baton_status st = engine_token_load(path, first);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(strlen(first), ENGINE_TOKEN_TEXT_BYTES - 1);
    cr_expect_eq(strspn(first, "0123456789abcdef"), ENGINE_TOKEN_TEXT_BYTES - 1);
    cr_assert(stat(path, &info) == 0);
    cr_expect_eq(info.st_mode & 0777, 0600);
    st = engine_token_load(path, second);
    cr_assert(baton_ok(&st));
    cr_expect_str_eq(first, second);
    (void)unlink(path);
    st = engine_token_load(path, second);
    cr_assert(baton_ok(&st));
    cr_expect_str_neq(first, second);
}

Test(guard, refuses_tokens_that_others_may_read_or_that_are_no_line)
{
    static const char *const BAD[] = { "", "\n", "two words\n", "a\nb\n", "tab\there" };
    char token[ENGINE_TOKEN_BYTES_MAX];
    file_make("word\n", 5, 0600);
    struct baton_status st = engine_token_load(path, token);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_str_eq(token, "word");
    file_make("word\n", 5, 0640);
    st = engine_token_load(path, token);
    cr_expect_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_expect_null(strstr(st.message, "word"), "no token in a message: %s", st.message);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        file_make(BAD[i], strlen(BAD[i]), 0600);
        st = engine_token_load(path, token);
        cr_expect_eq(st.code, BATON_FAILED_PRECONDITION, "%zu", i);
    }
    char longest[ENGINE_TOKEN_BYTES_MAX + 8];
    memset(longest, 'x', sizeof longest);
    file_make(longest, sizeof longest, 0600);
    st = engine_token_load(path, token);
    cr_expect_eq(st.code, BATON_FAILED_PRECONDITION);
}
