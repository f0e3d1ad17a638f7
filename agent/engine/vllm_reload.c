/* update without the plug-in: reload_weights from the landing, as a checkpoint directory.
 *
 * A path that cannot be loaded destroys the engine, so everything that can be known of it is checked
 * before the engine hears of it.  There are no fences and no read-back here: the level is "landed",
 * and no answer means that the engine must be recreated. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/engine/vllm.h"
#include "api/base/clock.h"

enum { MANIFEST_BYTES_MAX = 1 << 30 };

static struct baton_status file_open(int directory, const char *landing, const char *name, int *out)
{
    struct stat info;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return baton_status_in(baton_status_errno(errno, "open", name), "landing %s", landing);
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0 ||
        info.st_size > MANIFEST_BYTES_MAX) {
        (void)close(fd);
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_CHECKPOINT_INVALID,
                                 "landing %s: %s is empty, too large or no file", landing, name);
    }
    *out = fd;
    return baton_status_ok();
}

static struct baton_status json_read(int directory, const char *landing, const char *name,
                                     json_t **out)
{
    int fd = -1;
    struct baton_status st = file_open(directory, landing, name, &fd);
    if (!baton_ok(&st)) {
        return st;
    }
    json_t *root = json_loadfd(fd, JSON_REJECT_DUPLICATES, NULL);
    (void)close(fd);
    if (!json_is_object(root)) {
        json_decref(root);
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_MALFORMED,
                                 "landing %s: %s is no JSON object", landing, name);
    }
    *out = root;
    return st;
}

/* Every file that a tensor or the manifest names must be there and readable. */
static struct baton_status tensors_check(int directory, const char *landing, const json_t *tensors)
{
    const char *last = "";
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(tensors, i), "file"));
        if (name == NULL || strchr(name, '/') != NULL) {
            return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_MALFORMED,
                                     "landing %s: tensors[%zu].file is missing or wrong", landing,
                                     i);
        }
        if (strcmp(name, last) == 0) {
            continue;
        }
        last = name;
        if (faccessat(directory, name, R_OK, 0) != 0) {
            return baton_status_in(baton_status_errno(errno, "read", name), "landing %s", landing);
        }
    }
    return json_array_size(tensors) > 0
               ? baton_status_ok()
               : baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_MALFORMED,
                                   "landing %s: the manifest has no tensors", landing);
}

static struct baton_status landing_check(int directory, const char *landing, const char *digest)
{
    json_t *config = NULL;
    json_t *manifest = NULL;
    struct baton_status st = json_read(directory, landing, "config.json", &config);
    json_decref(config);
    if (baton_ok(&st)) {
        st = json_read(directory, landing, "baton.manifest.json", &manifest);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    const char *found = json_string_value(json_object_get(manifest, "versionDigest"));
    if (found == NULL || strcmp(found, digest) != 0) {
        st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                               "landing %s holds version %.40s, not %.40s", landing,
                               found != NULL ? found : "(none)", digest);
    } else {
        st = tensors_check(directory, landing, json_object_get(manifest, "tensors"));
    }
    json_decref(manifest);
    return st;
}

static struct baton_status landing_check_path(const char *landing, const char *digest)
{
    int directory = open(landing, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return baton_status_errno(errno, "open landing", landing);
    }
    struct baton_status st = landing_check(directory, landing, digest);
    (void)close(directory);
    return st;
}

static struct baton_status reload_call(struct engine *engine, const char *landing,
                                       uint64_t deadline_ns)
{
    json_t *root = json_pack("{s:s}", "weights_path", landing);
    char *kwargs = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (kwargs == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "the landing's path is not UTF-8");
    }
    struct baton_status st = vllm_rpc(engine, "reload_weights", kwargs, deadline_ns);
    free(kwargs);
    return st;
}

struct baton_status vllm_reload(struct engine *engine, const char *landing, const char *digest,
                                uint64_t deadline_ns, struct engine_update *result)
{
    struct baton_status st = landing_check_path(landing, digest);
    if (!baton_ok(&st)) {
        result->restored = true;
        (void)baton_text_copy(result->error_code, sizeof result->error_code, "LANDING_UNREADABLE");
        return st;
    }
    uint64_t began = baton_clock_monotonic_ns();
    st = reload_call(engine, landing, deadline_ns);
    result->answered = engine->exchange.answer.outcome != HTTP_NO_ANSWER;
    result->restored = engine->exchange.answer.outcome == HTTP_NOT_SENT;
    result->load_ns = baton_clock_monotonic_ns() - began;
    if (!baton_ok(&st)) {
        (void)baton_text_copy(result->error_code, sizeof result->error_code, "LOAD_FAILED");
        return st;
    }
    st = answer_nulls(exchange_body(&engine->exchange), engine->found.world_size);
    if (baton_ok(&st)) {
        st = vllm_in_step(engine, deadline_ns);
    }
    result->in_step = st.reason != BATON_REASON_ENGINE_LIED;
    result->ok = baton_ok(&st);
    result->level = result->ok ? ENGINE_LEVEL_LANDED : ENGINE_LEVEL_NONE;
    return st;
}
