/* manifest_json.c -- baton.manifest.json: writing, and strict reading. */
#include <stdlib.h>
#include <string.h>

#include "transport/model/json_input.h"
#include "transport/model/manifest.h"

enum { DEPTH_MAX = 4 };

static struct baton_status bad(const char *where, size_t index, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED, "%s: %s[%zu]: %s",
                             MANIFEST_FILE_NAME, where, index, what);
}

static struct baton_status bad_top(const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED, "%s: %s",
                             MANIFEST_FILE_NAME, what);
}

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "%s: out of memory",
                             MANIFEST_FILE_NAME);
}

static json_t *shape_to_json(const struct tensor_shape *shape)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < shape->rank; i++) {
        json_array_append_new(array, json_integer((json_int_t)shape->dims[i]));
    }
    return array;
}

static json_t *tensor_to_json(const struct manifest_tensor *tensor)
{
    char digest[BATON_DIGEST_TEXT_BYTES];
    digest_format(tensor->digest, digest);
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:s}", "name", tensor->name, "dtype",
                     tensor_dtype_name(tensor->dtype), "shape", shape_to_json(&tensor->shape),
                     "atomicSet", tensor->atomic_set, "digest", digest, "file", tensor->file);
}

static json_t *file_to_json(const struct manifest_file *file)
{
    char digest[BATON_DIGEST_TEXT_BYTES];
    digest_format(file->digest, digest);
    return json_pack("{s:s, s:I, s:s}", "name", file->name, "bytes", (json_int_t)file->bytes,
                     "digest", digest);
}

struct baton_status manifest_encode_json(const struct manifest *manifest, char **out,
                                         size_t *out_bytes)
{
    char digest[BATON_DIGEST_TEXT_BYTES];
    json_t *tensors = json_array();
    json_t *files = json_array();
    int failed = 0;
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        failed |= json_array_append_new(tensors, tensor_to_json(&manifest->tensors[i]));
    }
    for (size_t i = 0; i < manifest->files_count; i++) {
        failed |= json_array_append_new(files, file_to_json(&manifest->files[i]));
    }
    digest_format(manifest->digest, digest);
    json_t *top = json_pack("{s:i, s:s, s:o, s:o}", "format", (int)MANIFEST_JSON_FORMAT,
                            "versionDigest", digest, "tensors", tensors, "files", files);
    char *text = top == NULL || failed != 0 ? NULL : json_dumps(top, JSON_COMPACT);
    json_decref(top);
    if (text == NULL) {
        /* jansson refuses what is not UTF-8 with the same null as a lack of memory. */
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "%s: a name is not UTF-8, or memory is short", MANIFEST_FILE_NAME);
    }
    *out = text;
    *out_bytes = strlen(text);
    return baton_status_ok();
}

static bool read_digest(const json_t *value, struct digest *out)
{
    return json_is_string(value) && digest_parse(json_string_value(value), out);
}

/* Returns what is wrong with the shape, or null. */
static const char *read_shape(const json_t *value, struct tensor_shape *out)
{
    if (!json_is_array(value) || json_array_size(value) > BATON_TENSOR_RANK_MAX) {
        return "shape: not an array of at most 8 numbers";
    }
    out->rank = (uint32_t)json_array_size(value);
    for (uint32_t i = 0; i < out->rank; i++) {
        if (!json_input_u64(json_array_get(value, i), &out->dims[i])) {
            return "shape: a dimension is not a whole number in [0, 2^63)";
        }
    }
    return NULL;
}

/* Returns what is wrong with the object, or null. */
static const char *read_tensor(json_t *value, struct manifest_tensor *out)
{
    static const char *const known[] = { "name",   "dtype", "shape", "atomicSet",
                                         "digest", "file",  NULL };
    struct baton_bytes dtype;
    if (!json_is_object(value)) {
        return "not an object";
    }
    if (json_input_unknown_key(value, known) != NULL) {
        return "has a key that is not one of name, dtype, shape, atomicSet, digest, file";
    }
    out->name = json_string_value(json_object_get(value, "name"));
    out->atomic_set = json_string_value(json_object_get(value, "atomicSet"));
    out->file = json_string_value(json_object_get(value, "file"));
    if (out->name == NULL || out->atomic_set == NULL || out->file == NULL) {
        return "name, atomicSet and file must be strings";
    }
    struct baton_status file = manifest_name_check(MANIFEST_KIND_FILE, baton_bytes_of(out->file));
    if (!baton_ok(&file)) {
        return "file: not a plain file name";
    }
    if (!json_input_text(json_object_get(value, "dtype"), &dtype) ||
        !tensor_dtype_parse(dtype, &out->dtype)) {
        return "dtype: unknown";
    }
    if (!read_digest(json_object_get(value, "digest"), &out->digest)) {
        return "digest: not 32 lower-case hexadecimal digits";
    }
    return read_shape(json_object_get(value, "shape"), &out->shape);
}

/* Returns what is wrong with the object, or null. */
static const char *read_file(json_t *value, struct manifest_file *out)
{
    static const char *const known[] = { "name", "bytes", "digest", NULL };
    if (!json_is_object(value)) {
        return "not an object";
    }
    if (json_input_unknown_key(value, known) != NULL) {
        return "has a key that is not one of name, bytes, digest";
    }
    out->name = json_string_value(json_object_get(value, "name"));
    if (out->name == NULL) {
        return "name: not a string";
    }
    if (!json_input_u64(json_object_get(value, "bytes"), &out->bytes)) {
        return "bytes: not a whole number in [0, 2^63)";
    }
    if (!read_digest(json_object_get(value, "digest"), &out->digest)) {
        return "digest: not 32 lower-case hexadecimal digits";
    }
    return NULL;
}

static struct baton_status add_tensors(const json_t *array, struct manifest *manifest)
{
    const char *last = NULL;
    for (size_t i = 0; i < json_array_size(array); i++) {
        struct manifest_tensor tensor;
        memset(&tensor, 0, sizeof(tensor));
        const char *wrong = read_tensor(json_array_get(array, i), &tensor);
        if (wrong == NULL && last != NULL && strcmp(last, tensor.name) >= 0) {
            wrong = "not sorted bytewise by name, or the name is there twice";
        }
        if (wrong != NULL) {
            return bad("tensors", i, wrong);
        }
        struct baton_status st = manifest_add_tensor(manifest, &tensor);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "%s: tensors[%zu]", MANIFEST_FILE_NAME, i);
        }
        last = tensor.name;
    }
    return baton_status_ok();
}

static struct baton_status add_files(const json_t *array, struct manifest *manifest)
{
    const char *last = NULL;
    for (size_t i = 0; i < json_array_size(array); i++) {
        struct manifest_file file;
        memset(&file, 0, sizeof(file));
        const char *wrong = read_file(json_array_get(array, i), &file);
        if (wrong == NULL && last != NULL && strcmp(last, file.name) >= 0) {
            wrong = "not sorted bytewise by name, or the name is there twice";
        }
        if (wrong != NULL) {
            return bad("files", i, wrong);
        }
        struct baton_status st = manifest_add_file(manifest, &file);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "%s: files[%zu]", MANIFEST_FILE_NAME, i);
        }
        last = file.name;
    }
    return baton_status_ok();
}

static struct baton_status check_top(json_t *top)
{
    static const char *const known[] = { "format", "versionDigest", "tensors", "files", NULL };
    uint64_t format = 0;
    if (!json_is_object(top)) {
        return bad_top("not a JSON object");
    }
    if (!json_input_u64(json_object_get(top, "format"), &format)) {
        return bad_top("format: missing or not a number");
    }
    if (format != MANIFEST_JSON_FORMAT) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                 "%s: format %llu is not known; this build reads 1",
                                 MANIFEST_FILE_NAME, (unsigned long long)format);
    }
    const char *unknown = json_input_unknown_key(top, known);
    if (unknown != NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "%s: unknown key '%.80s'", MANIFEST_FILE_NAME, unknown);
    }
    if (!json_is_array(json_object_get(top, "tensors")) ||
        !json_is_array(json_object_get(top, "files"))) {
        return bad_top("tensors and files must be arrays");
    }
    return baton_status_ok();
}

static struct baton_status check_digest(const struct digest *said, const struct digest *computed)
{
    char is[BATON_DIGEST_TEXT_BYTES];
    char should[BATON_DIGEST_TEXT_BYTES];
    if (digest_equal(*said, *computed)) {
        return baton_status_ok();
    }
    digest_format(*said, should);
    digest_format(*computed, is);
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                             "%s: versionDigest is %s, but its entries give %s", MANIFEST_FILE_NAME,
                             should, is);
}

static struct baton_status decode(json_t *top, struct manifest *manifest)
{
    struct digest said;
    struct baton_status st = check_top(top);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!read_digest(json_object_get(top, "versionDigest"), &said)) {
        return bad_top("versionDigest: not 32 lower-case hexadecimal digits");
    }
    st = add_tensors(json_object_get(top, "tensors"), manifest);
    if (baton_ok(&st)) {
        st = add_files(json_object_get(top, "files"), manifest);
    }
    if (baton_ok(&st)) {
        st = manifest_seal(manifest);
        st = baton_status_in(st, "%s", MANIFEST_FILE_NAME);
    }
    return baton_ok(&st) ? check_digest(&said, &manifest->digest) : st;
}

struct baton_status manifest_decode_json(struct baton_bytes text, struct manifest **out)
{
    json_t *top = NULL;
    if (text.size > MANIFEST_JSON_BYTES_MAX) {
        return bad_top("longer than 512 MiB");
    }
    struct baton_status st = json_input_parse(text, DEPTH_MAX, &top);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%s", MANIFEST_FILE_NAME);
    }
    struct manifest *manifest = manifest_create();
    st = manifest == NULL ? no_memory() : decode(top, manifest);
    json_decref(top);
    if (!baton_ok(&st)) {
        manifest_destroy(manifest);
        return st;
    }
    *out = manifest;
    return baton_status_ok();
}
