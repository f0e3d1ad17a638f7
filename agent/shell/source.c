/* source.c -- the source's life, its sink, and what it forgets. */
#include "agent/shell/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/shell/source_work.h"
#include "api/base/clock.h"
#include "api/base/log.h"

static const char module[] = "source";

enum { PUBLISHES_DEFAULT = 4, RETAIN_GRACE_DEFAULT_S = 600, VERSIONS_SEEN_MAX = 4096 };

/* --- directories --- */

void source_remove_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        return;
    }
    for (struct dirent *item = readdir(dir); item != NULL; item = readdir(dir)) {
        (void)unlinkat(fd, item->d_name, 0); /* "." and ".." are refused by the system. */
    }
    (void)closedir(dir);
    if (rmdir(path) != 0) {
        struct baton_status st = baton_status_errno(errno, "rmdir", path);
        baton_log_status(BATON_LOG_WARN, module, "a temporary directory stays", &st);
    }
}

static struct baton_status make_directory(const char *path)
{
    if (mkdir(path, 0755) == 0 || errno == EEXIST) {
        return baton_status_ok();
    }
    struct baton_status st = baton_status_errno(errno, "mkdir", path);
    return baton_status_hint(st, "Make its parent, writable for the agent");
}

/* Removes the files of uploads that a crash interrupted; other agents' are theirs. */
static void remove_leftovers(const struct source *source)
{
    char prefix[BATON_NAME_BYTES + 16];
    (void)snprintf(prefix, sizeof(prefix), ".files-%s-", source->agent);
    size_t prefix_length = strlen(prefix);
    DIR *dir = opendir(source->directory);
    if (dir == NULL) {
        return;
    }
    for (struct dirent *item = readdir(dir); item != NULL; item = readdir(dir)) {
        /* Six letters of mkdtemp() follow: the agent "a" leaves what "a-b" made. */
        if (strncmp(item->d_name, prefix, prefix_length) == 0 &&
            strlen(item->d_name) == prefix_length + 6) {
            char path[BATON_PATH_BYTES + 512];
            (void)snprintf(path, sizeof(path), "%s/%s", source->directory, item->d_name);
            source_remove_directory(path);
        }
    }
    (void)closedir(dir);
}

/* --- life --- */

static uint64_t half_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 2 : UINT64_MAX;
}

static struct baton_status check_directory(const struct source_options *options)
{
    if (options->directory == NULL || options->directory[0] != '/') {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "versions.directory: '%.200s' is not an absolute path",
                                 options->directory == NULL ? "" : options->directory);
    }
    if (strpbrk(options->directory, "\"\\") != NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "versions.directory: '%.200s' has a quote or a backslash",
                                 options->directory);
    }
    return baton_status_ok();
}

static struct baton_status fill(struct source *source, const struct source_options *options)
{
    struct baton_status st = check_directory(options);
    if (!baton_ok(&st)) {
        return st;
    }
    int written = snprintf(source->root_directory, sizeof(source->root_directory), "%s/%s",
                           options->directory, options->agent);
    if (!baton_text_copy(source->agent, sizeof(source->agent), options->agent) || written < 0 ||
        (size_t)written >= sizeof(source->root_directory) ||
        !baton_text_copy(source->directory, sizeof(source->directory), options->directory)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "versions.directory: '%.120s' with agent '%.64s' is too long",
                                 options->directory, options->agent);
    }
    (void)snprintf(source->controller, sizeof(source->controller), "%s",
                   options->controller != NULL ? options->controller : "");
    source->client = options->client;
    source->snapshot_bytes_max =
        options->snapshot_bytes_max != 0 ? options->snapshot_bytes_max : half_of_memory();
    source->controller_wait_ns =
        options->controller_wait_ns != 0 ? options->controller_wait_ns : 60 * BATON_NS_PER_S;
    source->retain_grace_s =
        options->retain_grace_s != 0 ? options->retain_grace_s : RETAIN_GRACE_DEFAULT_S;
    source->publishes_max =
        options->publishes_max != 0 ? options->publishes_max : PUBLISHES_DEFAULT;
    if (source->publishes_max > SOURCE_PUBLISHES_MOST) {
        source->publishes_max = SOURCE_PUBLISHES_MOST;
    }
    return st;
}

static struct baton_status open_root(struct source *source, uint64_t budget_bytes)
{
    struct baton_status st = make_directory(source->directory);
    if (!baton_ok(&st)) {
        return st;
    }
    remove_leftovers(source);
    struct landing_root_options options = { source->root_directory, budget_bytes };
    return landing_root_open(&options, &source->root);
}

static void init_waiting(struct source *source)
{
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&source->lock, NULL);
    (void)pthread_cond_init(&source->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
}

struct landing_root *source_root(struct source *source)
{
    return source->root;
}

struct baton_status source_create(const struct source_options *options, struct source **out)
{
    struct source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for the source");
    }
    init_waiting(source);
    struct baton_status st = fill(source, options);
    if (baton_ok(&st)) {
        st = open_root(source, options->budget_bytes);
    }
    if (!baton_ok(&st)) {
        source_destroy(source);
        return baton_status_in(st, "versions");
    }
    *out = source;
    return st;
}

void source_destroy(struct source *source)
{
    if (source == NULL) {
        return;
    }
    if (source->root != NULL) {
        landing_root_close(source->root);
    }
    (void)pthread_cond_destroy(&source->changed);
    (void)pthread_mutex_destroy(&source->lock);
    free(source);
}

/* --- the sink --- */

static void info(void *context, struct local_info *out)
{
    struct source *source = context;
    memset(out, 0, sizeof(*out));
    out->connected = atomic_load(&source->is_connected);
    out->publishing = atomic_load(&source->publishing);
    memcpy(out->agent, source->agent, sizeof(out->agent));
    (void)snprintf(out->software, sizeof(out->software), "%s", BATON_VERSION);
    memcpy(out->controller, source->controller, sizeof(out->controller));
    memcpy(out->directory, source->directory, sizeof(out->directory));
}

static struct baton_status directory(void *context, const struct local_publish *request,
                                     const struct local_feedback *feedback,
                                     struct local_result *out)
{
    struct source *source = context;
    struct source_work *work = calloc(1, sizeof(*work));
    if (work == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for a publish");
    }
    work->source = source;
    work->request = request;
    atomic_fetch_add(&source->publishing, 1);
    struct baton_status st = source_run(work, source_publish, feedback, out);
    atomic_fetch_sub(&source->publishing, 1);
    free(work);
    return st;
}

struct local_sink source_sink(struct source *source)
{
    return (struct local_sink){ .context = source,
                                .info = info,
                                .directory = directory,
                                .begin = source_upload_begin,
                                .segment = source_upload_segment,
                                .entry = source_upload_entry,
                                .data = source_upload_data,
                                .commit = source_upload_commit,
                                .drop = source_upload_drop };
}

void source_set_connected(struct source *source, bool is_connected)
{
    atomic_store(&source->is_connected, is_connected);
}

/* --- retention --- */

static bool is_listed(struct digest digest, const struct digest *kept, size_t kept_count)
{
    for (size_t i = 0; i < kept_count; i++) {
        if (digest_equal(digest, kept[i])) {
            return true;
        }
    }
    return false;
}

/* When a version was sealed; now for one that cannot be asked. */
static time_t sealed_at(const struct source *source, struct digest digest)
{
    char path[BATON_PATH_BYTES];
    landing_path(source->root, digest, path);
    struct stat about;
    return stat(path, &about) == 0 ? about.st_mtime : time(NULL);
}

static time_t newest_of(const struct source *source, const struct landing_version *versions,
                        size_t count)
{
    time_t newest = 0;
    for (size_t i = 0; i < count; i++) {
        time_t at = sealed_at(source, versions[i].digest);
        newest = at > newest ? at : newest;
    }
    return newest;
}

static struct baton_status remove_unlisted(struct source *source, const struct digest *kept,
                                           size_t kept_count, size_t *deleted)
{
    struct landing_version *versions = calloc(VERSIONS_SEEN_MAX, sizeof(*versions));
    if (versions == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory to list versions");
    }
    size_t count = landing_list(source->root, versions, VERSIONS_SEEN_MAX);
    count = count < VERSIONS_SEEN_MAX ? count : VERSIONS_SEEN_MAX;
    time_t newest = newest_of(source, versions, count);
    time_t oldest_kept = time(NULL) - (time_t)source->retain_grace_s;
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; i < count && baton_ok(&st); i++) {
        time_t at = sealed_at(source, versions[i].digest);
        if (versions[i].pins > 0 || at >= newest || at > oldest_kept ||
            is_listed(versions[i].digest, kept, kept_count)) {
            continue;
        }
        st = landing_remove(source->root, versions[i].digest);
        *deleted += baton_ok(&st) ? 1 : 0;
    }
    free(versions);
    return st;
}

struct baton_status source_retain(struct source *source, const struct digest *kept,
                                  size_t kept_count, size_t *deleted)
{
    size_t count = 0;
    struct baton_status st = baton_status_ok();
    (void)pthread_mutex_lock(&source->lock);
    if (source->copying == 0) {
        st = remove_unlisted(source, kept, kept_count, &count);
    }
    (void)pthread_mutex_unlock(&source->lock);
    if (deleted != NULL) {
        *deleted = count;
    }
    return st;
}
