/* file_mark_test.c -- a file that is replaced, rewritten or longer is another one; one that is gone is no news. */
#include "api/base/file_mark.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void append(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    cr_assert(file != NULL && fputs(text, file) >= 0);
    cr_assert_eq(fclose(file), 0);
}

static void set_time(const char *path, time_t seconds)
{
    struct timespec times[2] = { { seconds, 7 }, { seconds, 7 } };
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

Test(file_mark, tells_what_changed)
{
    char path[] = "/tmp/file_mark_XXXXXX";
    char next[sizeof(path) + 8];
    struct baton_file_mark mark = { .inode = 0 };
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    (void)close(fd);
    set_time(path, 1000);
    cr_assert(baton_file_has_changed(path, &mark), "never looked at");
    cr_assert_not(baton_file_has_changed(path, &mark));
    append(path, "more");
    set_time(path, 1000);
    cr_assert(baton_file_has_changed(path, &mark), "its size");
    set_time(path, 1001);
    cr_assert(baton_file_has_changed(path, &mark), "its time");
    (void)snprintf(next, sizeof(next), "%s.next", path);
    append(next, "more");
    set_time(next, 1001);
    cr_assert_eq(rename(next, path), 0);
    cr_assert(baton_file_has_changed(path, &mark), "its inode");
    cr_assert_not(baton_file_has_changed(path, &mark));
    cr_assert_eq(unlink(path), 0);
    cr_assert_not(baton_file_has_changed(path, &mark), "gone");
    append(path, "more");
    set_time(path, 1002);
    cr_assert(baton_file_has_changed(path, &mark));
    (void)unlink(path);
}
