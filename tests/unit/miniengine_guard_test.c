/* The guard's decisions, row by row of the engine contract, without HTTP. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/guard_page.h"
#include "tests/miniengine/guard.h"

static char folder[64];
static char page_path[80];
static char token_path[80];
static struct guard guard;

static void setup(void)
{
    struct trouble why;
    (void)snprintf(folder, sizeof folder, "%s/guard-test-XXXXXX", P_tmpdir);
    cr_assert_not_null(mkdtemp(folder));
    (void)snprintf(page_path, sizeof page_path, "%s/page", folder);
    (void)snprintf(token_path, sizeof token_path, "%s/token", folder);
    FILE *file = fopen(token_path, "w");
    (void)fputs("secret\nsecond line\n", file);
    (void)fclose(file);
    cr_assert(guard_open(&guard, page_path, token_path, &why), "%s", why.message);
}

static void teardown(void)
{
    guard_close(&guard);
    (void)unlink(page_path);
    (void)unlink(token_path);
    (void)rmdir(folder);
}

TestSuite(guard, .init = setup, .fini = teardown);

static void set_gate(uint32_t gate, uint64_t version)
{
    guard.page->gate = gate;
    guard.page->version = version;
    guard.page->hold_max = 2;
    guard.page->hold_ms = 100;
    guard.page->opened_for = guard.page->boots;
}

static enum guard_verdict ask(const char *path, const char *token, struct guard_ticket *ticket)
{
    struct guard_request request = { .method = "GET", .path = path, .token = token };
    return guard_ask(&guard, &request, 1000, ticket);
}

Test(guard, a_new_page_is_private_and_boots_shut)
{
    struct stat info;
    struct guard_ticket ticket = { 0 };
    cr_assert_eq(stat(page_path, &info), 0);
    cr_assert_eq(info.st_mode & 0777, 0600);
    cr_assert_eq(info.st_size, GUARD_PAGE_BYTES);
    cr_assert_eq(guard.page->magic, GUARD_PAGE_MAGIC);
    cr_assert_eq(guard.page->boots, 1);
    cr_assert_eq(guard_read(&guard).gate, GUARD_GATE_SHUT);
    cr_assert_eq(ask("/v1/completions", NULL, &ticket), GUARD_REFUSES);
    cr_assert_eq(ticket.code, 503);
}

Test(guard, each_start_is_another_incarnation)
{
    uint8_t before[16];
    struct guard second;
    memcpy(before, guard.page->boot_id, sizeof before);
    set_gate(GUARD_GATE_OPEN, 3);
    cr_assert(guard_open(&second, page_path, token_path, NULL));
    cr_assert_eq(second.page->boots, 2);
    cr_assert_neq(memcmp(before, second.page->boot_id, sizeof before), 0);
    cr_assert_eq(guard_read(&second).gate, GUARD_GATE_SHUT, "opened for the one before");
    cr_assert_eq(guard_read(&second).version, 3);
    guard_close(&second);
}

Test(guard, paths_are_open_generation_or_control)
{
    static const struct {
        const char *path;
        enum guard_verdict shut, open;
        int code;
    } rows[] = {
        { "/health", GUARD_PASSES, GUARD_PASSES, 0 },
        { "/v1/models", GUARD_PASSES, GUARD_PASSES, 0 },
        { "/metrics", GUARD_PASSES, GUARD_PASSES, 0 },
        { "/v1/completions", GUARD_REFUSES, GUARD_PASSES, 503 },
        { "/v1/models/m", GUARD_REFUSES, GUARD_PASSES, 503 },
        { "/inference/v1/generate", GUARD_REFUSES, GUARD_PASSES, 503 },
        { "/generate", GUARD_REFUSES, GUARD_PASSES, 503 },
        { "/pause", GUARD_REFUSES, GUARD_REFUSES, 403 },
        { "/docs", GUARD_REFUSES, GUARD_REFUSES, 403 },
        { "/baton/guard", GUARD_REFUSES, GUARD_REFUSES, 403 },
        { "/v1", GUARD_REFUSES, GUARD_REFUSES, 403 },
        { "/healthy", GUARD_REFUSES, GUARD_REFUSES, 403 },
        { "//v1/completions", GUARD_REFUSES, GUARD_REFUSES, 403 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct guard_ticket shut = { 0 };
        struct guard_ticket open = { 0 };
        set_gate(GUARD_GATE_SHUT, 0);
        cr_assert_eq(ask(rows[i].path, NULL, &shut), rows[i].shut, "%s", rows[i].path);
        cr_assert_eq(shut.code, rows[i].code, "%s", rows[i].path);
        set_gate(GUARD_GATE_OPEN, 1);
        cr_assert_eq(ask(rows[i].path, NULL, &open), rows[i].open, "%s", rows[i].path);
        guard_leave(&guard, &open);
    }
}

Test(guard, only_the_whole_token_is_right)
{
    static const char *const wrong[] = { "", "s", "secre", "secrets", "SECRET", "second line" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct guard_ticket ticket = { 0 };
        cr_assert_eq(ask("/pause", wrong[i], &ticket), GUARD_REFUSES, "'%s'", wrong[i]);
    }
    struct guard_ticket ticket = { 0 };
    cr_assert_eq(ask("/pause", "secret", &ticket), GUARD_PASSES);
    cr_assert_eq(ask("/baton/guard", "secret", &ticket), GUARD_ANSWERS);
    cr_assert_eq(ask("/v1/completions", "secret", &ticket), GUARD_PASSES, "a probe");
    cr_assert_eq(guard.page->active, 1);
    guard_leave(&guard, &ticket);
    cr_assert_eq(guard.page->active, 0);
}

Test(guard, hold_is_bounded_in_number_and_time)
{
    struct guard_ticket tickets[3] = { { 0 } };
    struct guard_request request = { .method = "POST", .path = "/v1/completions" };
    set_gate(GUARD_GATE_HOLD, 1);
    cr_assert_eq(guard_ask(&guard, &request, 1000, &tickets[0]), GUARD_WAITS);
    cr_assert_eq(guard_ask(&guard, &request, 1000, &tickets[1]), GUARD_WAITS);
    cr_assert_eq(guard_ask(&guard, &request, 1000, &tickets[2]), GUARD_REFUSES, "full");
    cr_assert_eq(tickets[2].code, 503);
    cr_assert_eq(guard.page->held, 2);
    cr_assert_eq(guard_ask(&guard, &request, 1099, &tickets[0]), GUARD_WAITS);
    cr_assert_eq(guard_ask(&guard, &request, 1100, &tickets[0]), GUARD_REFUSES, "too long");
    cr_assert_eq(guard.page->held, 1, "its place is free");
    guard_leave(&guard, &tickets[1]);
    cr_assert_eq(guard.page->held, 0, "so is that of a client that left");
}

Test(guard, versions_are_demanded_after_the_hold)
{
    struct guard_ticket ticket = { 0 };
    struct guard_request request = { .method = "POST",
                                     .path = "/v1/completions",
                                     .min_version = "2" };
    set_gate(GUARD_GATE_HOLD, 1);
    cr_assert_eq(guard_ask(&guard, &request, 1000, &ticket), GUARD_WAITS);
    set_gate(GUARD_GATE_OPEN, 2);
    cr_assert_eq(guard_ask(&guard, &request, 1001, &ticket), GUARD_PASSES);
    cr_assert_eq(ticket.version, 2);
    cr_assert_eq(guard.page->active, 1);
    guard_leave(&guard, &ticket);
    request.min_version = "3";
    cr_assert_eq(guard_ask(&guard, &request, 1002, &ticket), GUARD_REFUSES);
    cr_assert_eq(ticket.code, 409);
    static const char *const bad[] = { "", "x", "-1", "+1", " 1", "1 ", "18446744073709551616" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        request.min_version = bad[i];
        cr_assert_eq(guard_ask(&guard, &request, 1003, &ticket), GUARD_REFUSES, "'%s'", bad[i]);
        cr_assert_eq(ticket.code, 400, "'%s'", bad[i]);
    }
    request.min_version = NULL;
    request.exact_version = "18446744073709551615";
    cr_assert_eq(guard_ask(&guard, &request, 1004, &ticket), GUARD_REFUSES);
    cr_assert_eq(ticket.code, 409, "the largest number is one");
}

Test(guard, a_page_that_is_being_written_reads_shut)
{
    set_gate(GUARD_GATE_OPEN, 1);
    cr_assert_eq(guard_read(&guard).gate, GUARD_GATE_OPEN);
    guard.page->sequence = 1;
    cr_assert_eq(guard_read(&guard).gate, GUARD_GATE_SHUT);
    guard.page->sequence = 2;
    cr_assert_eq(guard_read(&guard).gate, GUARD_GATE_OPEN);
    guard.page->gate = 3;
    cr_assert_eq(guard_read(&guard).gate, GUARD_GATE_SHUT, "an unknown word");
}

Test(guard, another_layout_stays_shut_and_is_not_written)
{
    struct guard second;
    set_gate(GUARD_GATE_OPEN, 1);
    guard.page->layout = 2;
    cr_assert_eq(guard_read(&guard).gate, GUARD_GATE_SHUT);
    cr_assert(guard_open(&second, page_path, NULL, NULL));
    cr_assert_eq(second.page->boots, 1);
    cr_assert_eq(guard_read(&second).gate, GUARD_GATE_SHUT);
    guard_close(&second);
}

Test(guard, without_a_token_nothing_is_trusted)
{
    struct guard second;
    struct guard_ticket ticket = { 0 };
    struct guard_request request = { .method = "GET", .path = "/pause", .token = "" };
    cr_assert(guard_open(&second, page_path, "/nonexistent/token", NULL));
    cr_assert_eq(guard_ask(&second, &request, 0, &ticket), GUARD_REFUSES);
    guard_close(&second);
}
