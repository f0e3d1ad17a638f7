/* archive.c -- batonctl store export|import|check: on the store itself, without a controller. */
#include "controller/store/archive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "controller/cli/cli.h"
#include "controller/store/audit.h"

enum { COPY_BYTES = 64 << 10, PATH_BYTES = 4096 };

typedef unsigned long long big;

/* --- export --- */

static struct baton_status export_all(const char *address, FILE *file, struct archive_report *out)
{
    struct store *store = NULL;
    struct archive_note note = { .wall_ns = baton_clock_wall_ns(), .software = BATON_VERSION };
    struct baton_status st = store_open_reader(address, &store, &note.start);
    if (baton_ok(&st)) {
        st = store_export(store, &note, file, out);
    }
    store_close(store);
    return st;
}

/* Until it is whole and on the disk, the file has another name: a backup of before stays. */
static struct baton_status export_file(const char *address, const char *path,
                                       struct archive_report *out)
{
    char part[PATH_BYTES];
    int length = snprintf(part, sizeof(part), "%s.part", path);
    if (length < 0 || (size_t)length >= sizeof(part)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "the path is too long");
    }
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (file == NULL) {
        return baton_status_errno(errno, "open", part);
    }
    struct baton_status st = export_all(address, file, out);
    if (baton_ok(&st) && fsync(fd) != 0) {
        st = baton_status_errno(errno, "fsync", part);
    }
    if (fclose(file) != 0 && baton_ok(&st)) {
        st = baton_status_errno(errno, "close", part);
    }
    if (baton_ok(&st) && rename(part, path) != 0) {
        st = baton_status_errno(errno, "rename", part);
    }
    if (!baton_ok(&st)) {
        (void)unlink(part);
    }
    return st;
}

static enum cli_exit run_export(struct cli *cli, const char *address, const char *path)
{
    struct archive_report report = { .generation = 0 };
    bool to_stdout = strcmp(path, "-") == 0;
    struct baton_status st =
        to_stdout ? export_all(address, stdout, &report) : export_file(address, path, &report);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    if (!cli->quiet) {
        (void)fprintf(to_stdout ? stderr : stdout,
                      "%llu records and %llu events of generation %llu exported, digest %s\n",
                      (big)report.end.records, (big)report.end.events, (big)report.generation,
                      report.end.digest);
    }
    return CLI_EXIT_OK;
}

/* --- import --- */

/* The whole of stdin in a file without a name: an archive is read twice. */
static FILE *copy_of_stdin(void)
{
    static char bytes[COPY_BYTES];
    FILE *file = tmpfile();
    size_t size = 1;
    while (file != NULL && size > 0) {
        size = fread(bytes, 1, sizeof(bytes), stdin);
        if (fwrite(bytes, 1, size, file) != size || ferror(stdin) != 0) {
            int number = errno;
            (void)fclose(file);
            errno = number;
            return NULL;
        }
    }
    if (file != NULL) {
        rewind(file);
    }
    return file;
}

static enum cli_exit run_import(struct cli *cli, const char *address, const char *path)
{
    struct archive_report report = { .generation = 0 };
    FILE *file = strcmp(path, "-") == 0 ? copy_of_stdin() : fopen(path, "re");
    if (file == NULL) {
        struct baton_status st = baton_status_errno(errno, "open", path);
        return cli_fail(&st);
    }
    struct baton_status st = store_import(file, address, baton_clock_wall_ns(), &report);
    (void)fclose(file);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    if (!cli->quiet) {
        (void)printf("%llu records and %llu events imported, the store's generation is %llu now\n",
                     (big)report.end.records, (big)report.end.events, (big)report.generation);
    }
    return CLI_EXIT_OK;
}

/* --- check --- */

static void print_finding(void *context, const char *object, const char *field, const char *text)
{
    (void)context;
    (void)printf("%s: %s: %s\n", object, field, text);
}

static enum cli_exit run_check(struct cli *cli, const char *address)
{
    struct store *store = NULL;
    struct store_start start;
    struct audit_report report = { .records = 0 };
    struct baton_status st = store_open_reader(address, &store, &start);
    if (baton_ok(&st)) {
        st = store_audit(store, &start, print_finding, NULL, &report);
    }
    store_close(store);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    if (!cli->quiet) {
        (void)fprintf(stderr, "%llu records and %llu events checked: %llu findings\n",
                      (big)report.records, (big)report.events, (big)report.findings);
    }
    return report.findings == 0 ? CLI_EXIT_OK : CLI_EXIT_FINDINGS;
}

enum cli_exit cli_store_archive(struct cli *cli, const char *action, const char *address)
{
    bool check = strcmp(action, "check") == 0;
    if (address == NULL) {
        return cli_usage("%s of which store? say --store ADDRESS, as the controller's", action);
    }
    if (cli->words_count != (check ? 1 : 2)) {
        return cli_usage(check ? "check takes no file" : "%s takes a FILE, or - for a stream",
                         action);
    }
    if (check) {
        return run_check(cli, address);
    }
    return strcmp(action, "export") == 0 ? run_export(cli, address, cli->words[1])
                                         : run_import(cli, address, cli->words[1]);
}
