/* root.c -- the list of sealed versions, pins, budget and claims of a landing root. */
#include "transport/landing/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/base/random.h"
#include "transport/landing/holding.h"
#include "transport/model/file_io.h"
#include "transport/model/manifest.h"

static struct baton_status take_lock(struct landing_root *root)
{
    root->lock_fd = openat(root->dir_fd, ".lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (root->lock_fd < 0) {
        return baton_status_errno(errno, "open .lock in", root->dir);
    }
    if (flock(root->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        struct baton_status st =
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                              "landing %.250s: another process has it", root->dir);
        return baton_status_hint(st,
                                 "stop the other agent, or give this one a directory of its own");
    }
    return baton_status_ok();
}

static struct baton_status open_root(const struct landing_root_options *options,
                                     struct landing_root *root)
{
    /* Room for the slash and a version's name, so that landing_path() cannot fail. */
    if (strlen(options->dir) + 1 + BATON_DIGEST_TEXT_BYTES > BATON_PATH_BYTES ||
        !baton_text_copy(root->dir, sizeof(root->dir), options->dir)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "landing %.200s...: the path is too long", options->dir);
    }
    if (mkdir(root->dir, 0755) != 0 && errno != EEXIST) {
        return baton_status_errno(errno, "make directory", root->dir);
    }
    struct baton_status st = file_open_directory(root->dir, &root->dir_fd);
    if (baton_ok(&st)) {
        st = take_lock(root);
    }
    return baton_ok(&st) ? root_restore(root) : st;
}

struct baton_status landing_root_open(const struct landing_root_options *options,
                                      struct landing_root **out)
{
    struct landing_root *root = calloc(1, sizeof(*root));
    if (root == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "landing: out of memory");
    }
    pthread_mutex_init(&root->lock, NULL);
    root->dir_fd = -1;
    root->lock_fd = -1;
    root->budget_bytes = options->budget_bytes;
    struct baton_status st = open_root(options, root);
    if (!baton_ok(&st)) {
        landing_root_close(root);
        return st;
    }
    *out = root;
    return st;
}

void landing_root_close(struct landing_root *root)
{
    if (root == NULL) {
        return;
    }
    if (root->lock_fd >= 0) {
        close(root->lock_fd);
    }
    if (root->dir_fd >= 0) {
        close(root->dir_fd);
    }
    pthread_mutex_destroy(&root->lock);
    free(root->versions);
    free(root);
}

/* Under the lock. */
static struct landing_version *find_version(const struct landing_root *root, struct digest digest)
{
    for (size_t i = 0; i < root->versions_count; i++) {
        if (digest_equal(root->versions[i].digest, digest)) {
            return &root->versions[i];
        }
    }
    return NULL;
}

/* Under the lock. */
static bool add_version(struct landing_root *root, struct digest digest, uint64_t bytes)
{
    if (root->versions_count == root->versions_capacity) {
        size_t wanted = root->versions_capacity == 0 ? 16 : root->versions_capacity * 2;
        void *grown = realloc(root->versions, wanted * sizeof(*root->versions));
        if (grown == NULL) {
            return false;
        }
        root->versions = grown;
        root->versions_capacity = wanted;
    }
    root->versions[root->versions_count++] = (struct landing_version){ digest, bytes, 0 };
    root->sealed_bytes += bytes;
    return true;
}

struct baton_status root_list_version(struct landing_root *root, struct digest digest,
                                      uint64_t bytes)
{
    pthread_mutex_lock(&root->lock);
    bool added = find_version(root, digest) != NULL || add_version(root, digest, bytes);
    pthread_mutex_unlock(&root->lock);
    return added ? baton_status_ok()
                 : baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                     "landing %.250s: out of memory", root->dir);
}

size_t landing_list(struct landing_root *root, struct landing_version *out, size_t out_max)
{
    pthread_mutex_lock(&root->lock);
    size_t count = root->versions_count;
    for (size_t i = 0; i < count && i < out_max; i++) {
        out[i] = root->versions[i];
    }
    pthread_mutex_unlock(&root->lock);
    return count;
}

bool landing_has(struct landing_root *root, struct digest digest)
{
    pthread_mutex_lock(&root->lock);
    bool found = find_version(root, digest) != NULL;
    pthread_mutex_unlock(&root->lock);
    return found;
}

void landing_path(const struct landing_root *root, struct digest digest, char out[BATON_PATH_BYTES])
{
    char text[BATON_DIGEST_TEXT_BYTES];
    size_t length = strlen(root->dir);
    digest_format(digest, text);
    memcpy(out, root->dir, length);
    out[length] = '/';
    memcpy(out + length + 1, text, sizeof(text));
}

uint64_t landing_used_bytes(struct landing_root *root)
{
    pthread_mutex_lock(&root->lock);
    uint64_t used = root->sealed_bytes + root->reserved_bytes;
    pthread_mutex_unlock(&root->lock);
    return used;
}

static struct baton_status not_here(const struct landing_root *root, struct digest digest)
{
    char text[BATON_DIGEST_TEXT_BYTES];
    digest_format(digest, text);
    return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                             "landing %.200s: version %s is not sealed here", root->dir, text);
}

struct baton_status landing_pin(struct landing_root *root, struct digest digest)
{
    pthread_mutex_lock(&root->lock);
    struct landing_version *version = find_version(root, digest);
    if (version != NULL) {
        version->pins++;
    }
    pthread_mutex_unlock(&root->lock);
    return version != NULL ? baton_status_ok() : not_here(root, digest);
}

void landing_unpin(struct landing_root *root, struct digest digest)
{
    pthread_mutex_lock(&root->lock);
    struct landing_version *version = find_version(root, digest);
    baton_assert(version != NULL && version->pins > 0);
    version->pins--;
    pthread_mutex_unlock(&root->lock);
}

/* Under the lock: hides the version by a rename and drops it from the list. */
static struct baton_status hide_version(struct landing_root *root, struct digest digest,
                                        char trash[ROOT_NAME_BYTES])
{
    char name[BATON_DIGEST_TEXT_BYTES];
    struct landing_version *version = find_version(root, digest);
    digest_format(digest, name);
    if (version == NULL) {
        return not_here(root, digest);
    }
    if (version->pins > 0) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_HELD,
                                 "landing %.200s: version %s is pinned %u times", root->dir, name,
                                 version->pins);
    }
    snprintf(trash, ROOT_NAME_BYTES, "%s%s", ROOT_TRASH_PREFIX, name);
    if (renameat(root->dir_fd, name, root->dir_fd, trash) != 0) {
        return baton_status_errno(errno, "rename", root->dir);
    }
    root->sealed_bytes -= version->bytes;
    *version = root->versions[--root->versions_count];
    return baton_status_ok();
}

struct baton_status landing_remove(struct landing_root *root, struct digest digest)
{
    char trash[ROOT_NAME_BYTES];
    pthread_mutex_lock(&root->lock);
    struct baton_status st = hide_version(root, digest, trash);
    pthread_mutex_unlock(&root->lock);
    if (baton_ok(&st)) {
        holding_lose(root, digest);
        root_delete_directory(root, trash);
    }
    return st;
}

struct baton_status landing_load_manifest(struct landing_root *root, struct digest digest,
                                          struct manifest **out)
{
    char path[BATON_DIGEST_TEXT_BYTES + sizeof(MANIFEST_FILE_NAME) + 1];
    char name[BATON_DIGEST_TEXT_BYTES];
    struct baton_bytes text;
    if (!landing_has(root, digest)) {
        return not_here(root, digest);
    }
    digest_format(digest, name);
    snprintf(path, sizeof(path), "%s/%s", name, MANIFEST_FILE_NAME);
    struct baton_status st =
        file_read_all(root->dir_fd, path, MANIFEST_JSON_BYTES_MAX, path, &text);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "landing %.120s", root->dir);
    }
    struct manifest *manifest = NULL;
    st = manifest_decode_json(text, &manifest);
    free((void *)(uintptr_t)text.data);
    if (baton_ok(&st) && !digest_equal(manifest->digest, digest)) {
        manifest_destroy(manifest);
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                 "landing %.120s: the manifest in %s is of another version",
                                 root->dir, name);
    }
    if (!baton_ok(&st)) {
        return baton_status_in(st, "landing %.120s: %s", root->dir, name);
    }
    *out = manifest;
    return st;
}

static uint64_t free_bytes(const struct landing_root *root)
{
    struct statvfs info;
    if (fstatvfs(root->dir_fd, &info) != 0) {
        return 0;
    }
    return (uint64_t)info.f_bavail * info.f_frsize;
}

struct baton_status root_no_space(struct landing_root *root, uint64_t bytes)
{
    uint64_t used = landing_used_bytes(root);
    uint64_t available = free_bytes(root);
    const char *limit = "file system";
    if (root->budget_bytes > 0 &&
        (used >= root->budget_bytes || root->budget_bytes - used < available)) {
        available = used >= root->budget_bytes ? 0 : root->budget_bytes - used;
        limit = "budget";
    }
    struct baton_status st =
        baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE,
                          "landing %.180s: needs %llu bytes, %llu are free (%s)", root->dir,
                          (unsigned long long)bytes, (unsigned long long)available, limit);
    return baton_status_hint(st, "drop a version that is no longer needed, or enlarge the landing");
}

/* Under the lock. */
static bool fits_budget(const struct landing_root *root, uint64_t bytes)
{
    uint64_t used = root->sealed_bytes + root->reserved_bytes;
    return root->budget_bytes == 0 ||
           (bytes <= root->budget_bytes && used <= root->budget_bytes - bytes);
}

/* Under the lock: takes a slot for the name and reserves the bytes. */
static struct baton_status take_slot(struct landing_root *root, const char *name, uint64_t bytes)
{
    size_t slot = ROOT_ACTIVE_MAX;
    for (size_t i = 0; i < ROOT_ACTIVE_MAX; i++) {
        if (strcmp(root->active[i], name) == 0) {
            return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                                     "landing %.200s: this version is being landed already",
                                     root->dir);
        }
        slot = root->active[i][0] == '\0' ? i : slot;
    }
    if (slot == ROOT_ACTIVE_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "landing %.200s: %d landings are under way", root->dir,
                                 (int)ROOT_ACTIVE_MAX);
    }
    snprintf(root->active[slot], ROOT_NAME_BYTES, "%s", name);
    root->reserved_bytes += bytes;
    return baton_status_ok();
}

static void free_slot(struct landing_root *root, const struct root_claim *claim)
{
    pthread_mutex_lock(&root->lock);
    for (size_t i = 0; i < ROOT_ACTIVE_MAX; i++) {
        if (strcmp(root->active[i], claim->name) == 0) {
            root->active[i][0] = '\0';
            root->reserved_bytes -= claim->bytes;
        }
    }
    pthread_mutex_unlock(&root->lock);
}

static void name_claim(const struct digest *digest, char out[ROOT_NAME_BYTES])
{
    char text[BATON_DIGEST_TEXT_BYTES];
    uint8_t random[BATON_DIGEST_BYTES];
    if (digest != NULL) {
        digest_format(*digest, text);
        snprintf(out, ROOT_NAME_BYTES, "%s%s", ROOT_RESUMABLE_PREFIX, text);
        return;
    }
    baton_random_secure(random, sizeof(random));
    baton_hex_encode(random, sizeof(random), text);
    snprintf(out, ROOT_NAME_BYTES, "%s%s", ROOT_IMPORT_PREFIX, text);
}

static struct baton_status open_claim(struct landing_root *root, struct root_claim *claim)
{
    if (mkdirat(root->dir_fd, claim->name, 0755) != 0 && errno != EEXIST) {
        return baton_status_errno(errno, "make directory in", root->dir);
    }
    claim->dir_fd = openat(root->dir_fd, claim->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (claim->dir_fd < 0) {
        return baton_status_errno(errno, "open directory in", root->dir);
    }
    return baton_status_ok();
}

struct baton_status root_claim(struct landing_root *root, const struct digest *digest,
                               uint64_t bytes, struct root_claim *out)
{
    struct root_claim claim = { .dir_fd = -1, .bytes = bytes };
    struct baton_status st = baton_status_ok();
    name_claim(digest, claim.name);
    /* What an interrupted try left is there already and need not be free. */
    uint64_t there = root_measure_directory(root, claim.name);
    pthread_mutex_lock(&root->lock);
    bool fits = fits_budget(root, bytes);
    if (fits) {
        st = take_slot(root, claim.name, bytes);
    }
    pthread_mutex_unlock(&root->lock);
    if (!fits) {
        return root_no_space(root, bytes);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t missing = bytes > there ? bytes - there : 0;
    if (missing > free_bytes(root)) {
        /* Interrupted landings of other versions give way. */
        landing_discard_unfinished(root, digest);
    }
    if (missing > free_bytes(root)) {
        free_slot(root, &claim);
        return root_no_space(root, missing);
    }
    st = open_claim(root, &claim);
    if (!baton_ok(&st)) {
        free_slot(root, &claim);
        return st;
    }
    *out = claim;
    return st;
}

void root_unclaim(struct landing_root *root, struct root_claim *claim, bool keep)
{
    close(claim->dir_fd);
    claim->dir_fd = -1;
    if (!keep) {
        root_delete_directory(root, claim->name);
    }
    free_slot(root, claim);
}

struct baton_status root_publish(struct landing_root *root, struct root_claim *claim,
                                 struct digest digest)
{
    char name[BATON_DIGEST_TEXT_BYTES];
    digest_format(digest, name);
    uint64_t bytes = root_measure_directory(root, claim->name);
    if (landing_has(root, digest)) {
        root_unclaim(root, claim, false);
        return baton_status_ok();
    }
    if (renameat(root->dir_fd, claim->name, root->dir_fd, name) != 0) {
        struct baton_status st = baton_status_errno(errno, "rename into", root->dir);
        root_unclaim(root, claim, false);
        /* Two imports of the same bytes may end together; the first one's copy serves both. */
        return landing_has(root, digest) ? baton_status_ok() : st;
    }
    if (fsync(root->dir_fd) != 0) {
        struct baton_status st = baton_status_errno(errno, "fsync", root->dir);
        root_unclaim(root, claim, true);
        return st;
    }
    root_unclaim(root, claim, true);
    return root_list_version(root, digest, bytes);
}
