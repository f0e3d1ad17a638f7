/* chain.c -- from a checkpoint's version to the target's. */
#include "transport/delta/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "transport/model/file_io.h"
#include "transport/model/json_input.h"

enum { STATE_BYTES_MAX = 64 << 10, STATE_DEPTH_MAX = 4 };

static struct baton_status bad_state(const char *file, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID, "%s: %s",
                             file, what);
}

static struct baton_status read_json(int dir_fd, const char *name, json_t **out)
{
    struct baton_bytes text;
    struct baton_status st = file_read_all(dir_fd, name, STATE_BYTES_MAX, name, &text);
    if (!baton_ok(&st)) {
        return st;
    }
    st = baton_status_in(json_input_parse(text, STATE_DEPTH_MAX, out), "%s", name);
    free((void *)(uintptr_t)text.data);
    return st;
}

static struct baton_status read_number(int dir_fd, const char *name, json_t **top,
                                       uint64_t *version)
{
    struct baton_status st = read_json(dir_fd, name, top);
    if (!baton_ok(&st)) {
        return st;
    }
    const char *text = json_string_value(json_object_get(*top, "version"));
    if (text == NULL || !delta_version_parse(text, version)) {
        json_decref(*top);
        *top = NULL;
        return bad_state(name, "version: not a version number");
    }
    return st;
}

/* The digest counts only for the version that it was written with: other tools move the number. */
static struct baton_status read_identity(int dir_fd, struct delta_state *state)
{
    json_t *top = NULL;
    uint64_t version = 0;
    if (faccessat(dir_fd, DELTA_IDENTITY_NAME, F_OK, 0) != 0) {
        return baton_status_ok();
    }
    struct baton_status st = read_number(dir_fd, DELTA_IDENTITY_NAME, &top, &version);
    if (!baton_ok(&st)) {
        return st;
    }
    const char *text = json_string_value(json_object_get(top, "digest"));
    if (text == NULL || !digest_parse(text, &state->digest)) {
        st = bad_state(DELTA_IDENTITY_NAME, "digest: not 32 lower-case hexadecimal digits");
    }
    state->has_digest = baton_ok(&st) && version == state->version;
    json_decref(top);
    return st;
}

static struct baton_status read_state(int dir_fd, struct delta_state *state)
{
    json_t *top = NULL;
    if (faccessat(dir_fd, DELTA_STATE_DIR, F_OK, 0) != 0) {
        return baton_status_ok();
    }
    if (faccessat(dir_fd, DELTA_STATE_NAME, F_OK, 0) != 0) {
        struct baton_status st = baton_status_make(
            BATON_FAILED_PRECONDITION, BATON_REASON_CHECKPOINT_INVALID,
            DELTA_STATE_DIR " is there without state.json: a reader left it half changed");
        return baton_status_hint(st, "begin from the base");
    }
    struct baton_status st = read_number(dir_fd, DELTA_STATE_NAME, &top, &state->version);
    json_decref(top);
    state->has_version = baton_ok(&st);
    return baton_ok(&st) ? read_identity(dir_fd, state) : st;
}

struct baton_status delta_state_read(const char *checkpoint, struct delta_state *out)
{
    int dir_fd = -1;
    struct delta_state state = { .version = 0 };
    struct baton_status st = file_open_directory(checkpoint, &dir_fd);
    if (!baton_ok(&st)) {
        return st;
    }
    st = baton_status_in(read_state(dir_fd, &state), "%.150s", checkpoint);
    close(dir_fd);
    if (baton_ok(&st)) {
        *out = state;
    }
    return st;
}

/* Where a file cannot be locked, its readers cannot lock it either. */
struct baton_status delta_state_lock(const char *checkpoint, int *out)
{
    char path[BATON_PATH_BYTES];
    int length = snprintf(path, sizeof(path), "%s/" DELTA_LOCK_NAME, checkpoint);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.200s: the path is too long", checkpoint);
    }
    *out = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*out < 0 || flock(*out, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
        return baton_status_ok();
    }
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                             "%.200s: another reader is changing it", path);
}

static struct baton_status check_target(const char *checkpoint, uint64_t from, uint64_t target)
{
    if (from == target) {
        return baton_status_make(BATON_ALREADY_EXISTS, BATON_REASON_NONE,
                                 "%.200s: is at version %llu already", checkpoint,
                                 (unsigned long long)from);
    }
    if (from > target) {
        struct baton_status st =
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                              "%.200s: is at version %llu, past %llu; nothing was done", checkpoint,
                              (unsigned long long)from, (unsigned long long)target);
        return baton_status_hint(st, "to go back, begin from the base or a full version");
    }
    return baton_status_ok();
}

static void reverse(struct delta_chain *chain)
{
    for (size_t i = 0; i < chain->deltas_count / 2; i++) {
        struct delta_version *kept = chain->deltas[i];
        chain->deltas[i] = chain->deltas[chain->deltas_count - 1 - i];
        chain->deltas[chain->deltas_count - 1 - i] = kept;
    }
}

static struct baton_status collect(struct delta_chain *chain, const char *publication,
                                   uint64_t target)
{
    for (uint64_t number = target; number > chain->from.version; number--) {
        struct delta_version *version = NULL;
        if (chain->deltas_count == DELTA_CHAIN_MAX) {
            struct baton_status st = baton_status_make(
                BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                "more than %d versions from %llu to %llu", (int)DELTA_CHAIN_MAX,
                (unsigned long long)chain->from.version, (unsigned long long)target);
            return baton_status_hint(st, "apply in steps");
        }
        struct baton_status st = delta_version_open(publication, number, &version);
        if (!baton_ok(&st)) {
            return st;
        }
        if (!version->index.is_delta) {
            chain->full = version;
            chain->start_dir = version->dir;
            chain->start = number;
            break;
        }
        chain->deltas[chain->deltas_count++] = version;
    }
    reverse(chain);
    return baton_status_ok();
}

static struct baton_status check_base(const struct delta_chain *chain)
{
    const struct delta_version *first = chain->deltas_count > 0 ? chain->deltas[0] : NULL;
    if (chain->full != NULL || first == NULL || !first->has_digests || !chain->from.has_digest ||
        digest_equal(first->digests.base, chain->from.digest)) {
        return baton_status_ok();
    }
    struct baton_status st = baton_status_make(
        BATON_FAILED_PRECONDITION, BATON_REASON_DIGEST_MISMATCH,
        "%.140s: not the version that %.100s was made from", chain->start_dir, first->dir);
    return baton_status_hint(st, "begin from the base that the publisher began from");
}

struct baton_status delta_chain_open(const char *publication, const char *checkpoint,
                                     uint64_t target, struct delta_chain **out)
{
    struct delta_chain *chain = calloc(1, sizeof(*chain));
    if (chain == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
    }
    chain->lock_fd = -1;
    struct baton_status st = delta_state_lock(checkpoint, &chain->lock_fd);
    if (baton_ok(&st)) {
        st = delta_state_read(checkpoint, &chain->from);
    }
    if (baton_ok(&st)) {
        st = check_target(checkpoint, chain->from.version, target);
    }
    chain->start_dir = checkpoint;
    chain->start = chain->from.version;
    if (baton_ok(&st)) {
        st = collect(chain, publication, target);
    }
    if (baton_ok(&st)) {
        st = check_base(chain);
    }
    if (!baton_ok(&st)) {
        delta_chain_close(chain);
        return st;
    }
    *out = chain;
    return st;
}

void delta_chain_close(struct delta_chain *chain)
{
    if (chain != NULL) {
        for (size_t i = 0; i < chain->deltas_count; i++) {
            delta_version_close(chain->deltas[i]);
        }
        delta_version_close(chain->full);
        if (chain->lock_fd >= 0) {
            close(chain->lock_fd);
        }
        free(chain);
    }
}
