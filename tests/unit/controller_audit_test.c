/* controller_audit_test.c -- the audit: what is written, how much is kept, what is answered. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/wire/wire.h"
#include "baton/v1/audit.pb-c.h"
#include "baton/v1/fleet.pb-c.h"
#include "controller/shell/audit.h"
#include "tests/unit/controller_shell_fixture.h"

enum { PATH = 64, FILES_MAX = 8 };

/* A folder with the audit's file. */
struct place {
    char folder[32];
    char file[PATH];
};

static struct place make_place(void)
{
    struct place place = { .folder = "/tmp/baton-audit-XXXXXX" };
    cr_assert_not_null(mkdtemp(place.folder));
    (void)snprintf(place.file, sizeof(place.file), "%s/a.jsonl", place.folder);
    return place;
}

static void remove_place(const struct place *place)
{
    char path[PATH + 16];
    (void)unlink(place->file);
    for (int i = 1; i < FILES_MAX; i++) {
        (void)snprintf(path, sizeof(path), "%s.%d", place->file, i);
        (void)unlink(path);
    }
    cr_assert_eq(rmdir(place->folder), 0);
}

static struct audit *open_audit(const struct place *place, uint64_t rotate_bytes)
{
    struct audit_options options = { place->file, rotate_bytes, 2 };
    struct audit *audit = NULL;
    struct baton_status st = audit_create(&options, &audit);
    cr_assert(baton_ok(&st), "%s", st.message);
    return audit;
}

static void write_entry(struct audit *audit, const char *who, const struct baton_status *status)
{
    struct audit_entry entry = { .principal = who,
                                 .method = "baton.v1.Fleet/Cordon",
                                 .object = "group/g0",
                                 .reason = "line\nbreak \"quoted\" \"number\":\"999\"",
                                 .revision_before = 4,
                                 .revision_after = 5,
                                 .status = status };
    audit_write(audit, &entry);
}

/* The file as text; "" if there is none. */
static void read_file(const char *path, char *out, size_t out_bytes)
{
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(out, 1, out_bytes - 1, file) : 0;
    out[size] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

/* One line an entry, for its owner alone; numbers go on after a restart, behind a line that a crash tore. */
Test(controller_audit, lines_and_numbers)
{
    char text[4096];
    struct stat st;
    struct place place = make_place();
    struct baton_status good = baton_status_ok();
    struct audit *audit = open_audit(&place, AUDIT_ROTATE_BYTES);
    write_entry(audit, "ada", &good);
    write_entry(audit, "bob", &good);
    audit_destroy(audit);
    cr_assert_eq(stat(place.file, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0600);
    int fd = open(place.file, O_WRONLY | O_APPEND | O_CLOEXEC);
    cr_assert_eq(write(fd, "{\"number\":\"3\",\"prin", 19), 19);
    (void)close(fd);
    audit = open_audit(&place, AUDIT_ROTATE_BYTES);
    write_entry(audit, "eve", &good);
    audit_destroy(audit);
    read_file(place.file, text, sizeof(text));
    cr_assert_eq(count_of(text, "\n"), 4, "%s", text);
    cr_assert_not_null(strstr(text, "\n{\"number\":\"3\",\"at\""), "%s", text);
    cr_assert_not_null(strstr(text, "\"outcome\":\"OK\""));
    remove_place(&place);
}

/* However much is written, there are no more than keep + 1 files of their size; the newest entries are in them. */
Test(controller_audit, files_are_bounded)
{
    enum { ROTATE = 64 << 10, ENTRIES = 2000 };
    char path[PATH + 16];
    struct stat st;
    struct place place = make_place();
    struct baton_status good = baton_status_ok();
    struct audit *audit = open_audit(&place, ROTATE);
    for (int i = 0; i < ENTRIES; i++) {
        write_entry(audit, "ada", &good);
    }
    audit_destroy(audit);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), i == 0 ? "%s" : "%s.%d", place.file, i);
        cr_assert_eq(stat(path, &st), 0, "%s", path);
        cr_assert_leq(st.st_size, ROTATE);
        cr_assert_gt(st.st_size, 0);
    }
    (void)snprintf(path, sizeof(path), "%s.3", place.file);
    cr_assert_neq(stat(path, &st), 0, "%s is one too many", path);
    audit = open_audit(&place, ROTATE);
    write_entry(audit, "last", &good);
    audit_destroy(audit);
    char *text = malloc(ROTATE + 1);
    read_file(place.file, text, ROTATE + 1);
    cr_assert_not_null(strstr(text, "{\"number\":\"2001\""));
    free(text);
    remove_place(&place);
}

/* Who is refused again and again writes one line, and cannot push others' lines out. */
Test(controller_audit, equal_refusals_are_counted)
{
    char text[8192];
    struct place place = make_place();
    struct baton_status refused =
        baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED, "no");
    struct audit *audit = open_audit(&place, AUDIT_ROTATE_BYTES);
    for (int i = 0; i < 100; i++) {
        write_entry(audit, "eve", &refused);
    }
    write_entry(audit, "mallory", &refused);
    audit_destroy(audit);
    read_file(place.file, text, sizeof(text));
    cr_assert_eq(count_of(text, "\"principal\":\"eve\""), 1, "%s", text);
    cr_assert_eq(count_of(text, "\"principal\":\"mallory\""), 1, "%s", text);
    remove_place(&place);
}

/* Whatever a caller varies in what fails, its lines are bounded; its next line that is written tells how many are not. */
Test(controller_audit, one_callers_failures_are_bounded)
{
    static char text[1 << 20];
    char object[32];
    struct place place = make_place();
    struct baton_status statuses[] = {
        baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED, "no"),
        baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "no"),
    };
    struct baton_status good = baton_status_ok();
    struct audit *audit = open_audit(&place, AUDIT_ROTATE_BYTES);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(object, sizeof(object), "group/g%d", i / 2);
        struct audit_entry entry = { .principal = "eve",
                                     .method = i % 2 == 0 ? "baton.v1.Models/Watch"
                                                          : "baton.v1.Models/Hold",
                                     .object = object,
                                     .status = &statuses[i % 2] };
        audit_write(audit, &entry);
    }
    write_entry(audit, "ada", &good);
    write_entry(audit, "bob", &statuses[1]);
    audit_destroy(audit);
    read_file(place.file, text, sizeof(text));
    cr_assert_geq(count_of(text, "\"principal\":\"eve\""), 200);
    cr_assert_lt(count_of(text, "\"principal\":\"eve\""), 1000);
    cr_assert_eq(count_of(text, "\"principal\":\"ada\""), 1);
    cr_assert_eq(count_of(text, "\"principal\":\"bob\""), 1);
    remove_place(&place);
}

/* What an agent tells counts as the agent's, whomever it names: nobody floods under others' names. */
Test(controller_audit, what_is_told_counts_as_the_tellers)
{
    static char text[1 << 20];
    char principal[32];
    struct place place = make_place();
    struct baton_status refused =
        baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED, "no");
    struct audit *audit = open_audit(&place, AUDIT_ROTATE_BYTES);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(principal, sizeof(principal), "spiffe://x/%d", i);
        struct audit_entry entry = { .principal = principal,
                                     .method = "p2p/Pull",
                                     .object = "agent/mallory",
                                     .status = &refused,
                                     .told_by = "agent/mallory" };
        audit_write(audit, &entry);
    }
    audit_destroy(audit);
    read_file(place.file, text, sizeof(text));
    cr_assert_geq(count_of(text, "p2p/Pull"), 200);
    cr_assert_lt(count_of(text, "p2p/Pull"), 1000);
    remove_place(&place);
}

/* Where the next file cannot be opened, no older one is lost for it, and writing goes on once it can. */
Test(controller_audit, a_next_file_that_cannot_be_opened_costs_no_older_one)
{
    enum { ROTATE = 64 << 10, ROOM = 1500 };
    static char text[ROTATE];
    char first[PATH + 16];
    char second[PATH + 16];
    struct stat st;
    struct rlimit limit;
    struct place place = make_place();
    struct baton_status good = baton_status_ok();
    struct audit *audit = open_audit(&place, ROTATE);
    (void)snprintf(first, sizeof(first), "%s.1", place.file);
    (void)snprintf(second, sizeof(second), "%s.2", place.file);
    do {
        write_entry(audit, "ada", &good);
        cr_assert_eq(stat(place.file, &st), 0);
    } while (st.st_size < ROTATE - ROOM);
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none = { 0, limit.rlim_max };
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 20; i++) {
        write_entry(audit, "lost", &good);
    }
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    write_entry(audit, "last", &good);
    audit_destroy(audit);
    cr_assert_eq(stat(first, &st), 0);
    cr_assert_geq(st.st_size, ROTATE - ROOM);
    cr_assert_neq(stat(second, &st), 0, "it was moved again");
    read_file(place.file, text, sizeof(text));
    cr_assert_eq(count_of(text, "\n"), 1, "%s", text);
    cr_assert_not_null(strstr(text, "\"principal\":\"last\""));
    remove_place(&place);
}

Test(controller_audit, a_file_that_cannot_be_is_told)
{
    struct audit_options options = { "/no/such/folder/a.jsonl", AUDIT_ROTATE_BYTES, 1 };
    struct audit *audit = NULL;
    struct baton_status st = audit_create(&options, &audit);
    cr_assert_eq(st.code, BATON_NOT_FOUND);
    cr_assert_not_null(strstr(st.message, "/no/such/folder/a.jsonl"));
    cr_assert_null(audit);
}

/* --- a controller --- */

static Baton__V1__ListAuditResponse *list(struct controller_fixture *fixture, const char *object,
                                          const char *token, uint32_t page_size)
{
    Baton__V1__ListAuditRequest *request =
        baton_wire_new(&baton__v1__list_audit_request__descriptor);
    request->object = baton_wire_text(request, object);
    request->page_token = baton_wire_text(request, token);
    request->page_size = page_size;
    return controller_fixture_call(fixture, "baton.v1.Audit/List", request);
}

static struct baton_status cordon(struct controller_fixture *fixture, const char *group)
{
    Baton__V1__CordonRequest *request = baton_wire_new(&baton__v1__cordon_request__descriptor);
    request->group = baton_wire_text(request, group);
    request->options = baton_wire_part(request, &baton__v1__mutation_options__descriptor);
    request->options->reason = baton_wire_text(request, "because");
    request->options->requested_by = baton_wire_text(request, "ada@desk");
    return controller_fixture_try(fixture, "baton.v1.Fleet/Cordon", request);
}

/* Changes are there with who, what, why and the revisions, failed ones too; reads are not. */
Test(controller_audit, changes_are_found)
{
    struct place place = make_place();
    struct audit_options audit = { place.file, AUDIT_ROTATE_BYTES, 2 };
    struct controller_fixture fixture;
    controller_fixture_start_with(&fixture, (struct daemon_options){ .audit = &audit });
    controller_fixture_apply(&fixture, "m");
    struct baton_status st = cordon(&fixture, "nobody");
    cr_assert_eq(st.code, BATON_NOT_FOUND, "%s", st.message);
    controller_fixture_apply(&fixture, "n");
    Baton__V1__ListAuditResponse *all = list(&fixture, "", "", 0);
    cr_assert_eq(all->n_entries, 3);
    cr_assert_str_eq(all->entries[0]->object, "model/n");
    cr_assert_str_eq(all->entries[1]->method, "baton.v1.Fleet/Cordon");
    cr_assert_str_eq(all->entries[1]->object, "group/nobody");
    cr_assert_str_eq(all->entries[1]->outcome, "NOT_FOUND");
    cr_assert_str_eq(all->entries[1]->reason, "because");
    cr_assert_str_eq(all->entries[1]->requested_by, "ada@desk");
    cr_assert_str_eq(all->entries[1]->principal, "local");
    cr_assert_eq(all->entries[1]->revision_after, all->entries[1]->revision_before);
    cr_assert_str_eq(all->entries[2]->outcome, "OK");
    cr_assert_gt(all->entries[2]->revision_after, all->entries[2]->revision_before);
    baton_wire_free(all);
    Baton__V1__ListAuditResponse *one = list(&fixture, "model/m", "", 0);
    cr_assert_eq(one->n_entries, 1);
    cr_assert_str_empty(one->next_page_token);
    baton_wire_free(one);
    controller_fixture_stop(&fixture);
    remove_place(&place);
}

/* A disk that is full takes no entry: that is logged, and what was asked for is done all the same. */
Test(controller_audit, a_full_disk_stops_nothing)
{
    struct audit_options audit = { "/dev/full", AUDIT_ROTATE_BYTES, 2 };
    struct controller_fixture fixture;
    controller_fixture_start_with(&fixture, (struct daemon_options){ .audit = &audit });
    controller_fixture_apply(&fixture, "m");
    controller_fixture_apply(&fixture, "n");
    controller_fixture_stop(&fixture);
}

Test(controller_audit, pages_hold_each_entry_once)
{
    struct place place = make_place();
    struct audit_options audit = { place.file, AUDIT_ROTATE_BYTES, 2 };
    struct controller_fixture fixture;
    char token[64] = "";
    uint64_t expected = 5;
    controller_fixture_start_with(&fixture, (struct daemon_options){ .audit = &audit });
    for (int i = 0; i < 5; i++) {
        controller_fixture_apply(&fixture, "m");
    }
    do {
        Baton__V1__ListAuditResponse *page = list(&fixture, "", token, 2);
        for (size_t i = 0; i < page->n_entries; i++) {
            cr_assert_eq(page->entries[i]->number, expected--);
        }
        (void)snprintf(token, sizeof(token), "%s", page->next_page_token);
        baton_wire_free(page);
    } while (token[0] != '\0');
    cr_assert_eq(expected, 0);
    controller_fixture_stop(&fixture);
    remove_place(&place);
}

Test(controller_audit, without_one_that_is_said)
{
    struct controller_fixture fixture;
    controller_fixture_start(&fixture);
    struct baton_status st =
        controller_fixture_try(&fixture, "baton.v1.Audit/List",
                               baton_wire_new(&baton__v1__list_audit_request__descriptor));
    cr_assert_eq(st.code, BATON_FAILED_PRECONDITION);
    cr_assert_not_null(strstr(st.hint, "audit.file"));
    controller_fixture_stop(&fixture);
}
