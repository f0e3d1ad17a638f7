/* references.c -- see references.h. */
#include "transport/model/references.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "transport/model/file_io.h"
#include "transport/model/json_input.h"

enum { DEPTH_MAX = 4 };

static struct baton_status bad(size_t item, const char *key, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             REFERENCES_FILE_NAME ": references[%zu].%s: %s", item, key, what);
}

static struct baton_status read_prompt(const json_t *list, size_t item, struct reference *out)
{
    size_t count = json_array_size(list);
    if (count == 0 || count > REFERENCE_PROMPT_MAX) {
        return bad(item, "prompt", "must be a list of 1 to 1024 token ids");
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t id = 0;
        if (!json_input_u64(json_array_get(list, i), &id) || id > INT32_MAX) {
            return bad(item, "prompt", "holds something that is no token id");
        }
        out->prompt[i] = (uint32_t)id;
    }
    out->prompt_count = (uint32_t)count;
    return baton_status_ok();
}

static struct baton_status read_logprobs(const json_t *list, size_t item, struct reference *out)
{
    size_t count = json_array_size(list);
    if (count == 0 || count > REFERENCE_LOGPROBS_MAX) {
        return bad(item, "logprobs", "must be a list of 1 to 64 numbers");
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        double number = json_number_value(value);
        if (!json_is_number(value) || !__builtin_isfinite(number) || number > 0) {
            return bad(item, "logprobs", "holds something that is no number of at most 0");
        }
        out->logprobs[i] = number;
    }
    out->logprobs_count = (uint32_t)count;
    return baton_status_ok();
}

static struct baton_status read_item(json_t *object, size_t item, struct reference *out)
{
    static const char *const keys[] = { "prompt", "logprobs", "tolerance", NULL };
    const json_t *tolerance = json_object_get(object, "tolerance");
    const char *unknown = json_input_unknown_key(object, keys);
    if (!json_is_object(object) || unknown != NULL) {
        return bad(item, unknown != NULL ? unknown : "", "is not known here");
    }
    out->tolerance = json_number_value(tolerance);
    if (!json_is_number(tolerance) || !(out->tolerance > 0) ||
        !__builtin_isfinite(out->tolerance)) {
        return bad(item, "tolerance", "must be a number above 0");
    }
    struct baton_status st = read_prompt(json_object_get(object, "prompt"), item, out);
    return baton_ok(&st) ? read_logprobs(json_object_get(object, "logprobs"), item, out) : st;
}

static struct baton_status read_root(json_t *root, struct references *out)
{
    static const char *const keys[] = { "references", NULL };
    json_t *list = json_object_get(root, "references");
    out->count = json_array_size(list);
    if (!json_is_object(root) || json_input_unknown_key(root, keys) != NULL || out->count == 0 ||
        out->count > REFERENCES_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 REFERENCES_FILE_NAME
                                 ": must be {\"references\": [...]} with 1 to %d items",
                                 REFERENCES_MAX);
    }
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; i < out->count && baton_ok(&st); i++) {
        st = read_item(json_array_get(list, i), i, &out->items[i]);
    }
    return st;
}

struct baton_status references_parse(struct baton_bytes text, struct references **out)
{
    json_t *root = NULL;
    if (text.size > REFERENCES_BYTES_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 REFERENCES_FILE_NAME ": longer than %d bytes",
                                 REFERENCES_BYTES_MAX);
    }
    struct baton_status st = json_input_parse(text, DEPTH_MAX, &root);
    if (!baton_ok(&st)) {
        return baton_status_in(st, REFERENCES_FILE_NAME);
    }
    struct references *references = calloc(1, sizeof(*references));
    st = references == NULL ? baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                                REFERENCES_FILE_NAME ": out of memory")
                            : read_root(root, references);
    json_decref(root);
    if (!baton_ok(&st)) {
        references_destroy(references);
        return st;
    }
    *out = references;
    return st;
}

void references_destroy(struct references *references)
{
    free(references);
}

struct baton_status references_load(const char *dir, struct references **out)
{
    int dir_fd = -1;
    struct baton_bytes text = { NULL, 0 };
    struct baton_status st = file_open_directory(dir, &dir_fd);
    if (!baton_ok(&st)) {
        return st;
    }
    if (faccessat(dir_fd, REFERENCES_FILE_NAME, F_OK, 0) != 0) {
        st = baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "%.150s: no %s", dir,
                               REFERENCES_FILE_NAME);
    } else {
        st = file_read_all(dir_fd, REFERENCES_FILE_NAME, REFERENCES_BYTES_MAX, REFERENCES_FILE_NAME,
                           &text);
    }
    close(dir_fd);
    if (baton_ok(&st)) {
        st = references_parse(text, out);
        free((void *)(uintptr_t)text.data);
    }
    return st;
}
