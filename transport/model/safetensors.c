/* safetensors.c -- the header: parse each tensor, sort by bytes, check that they tile the data. */
#include "transport/model/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "transport/model/json_input.h"
#include "transport/model/version_digest.h"

enum { HEADER_DEPTH_MAX = 3 };

static struct baton_status bad_file(const char *file, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID, "%.120s: %s",
                             file, what);
}

static struct baton_status bad_tensor(const char *file, const char *tensor, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                             "%.80s: tensor '%.100s': %s", file, tensor, what);
}

struct baton_status safetensors_header_bytes(const char *file,
                                             const uint8_t prefix[SAFETENSORS_PREFIX_BYTES],
                                             uint64_t file_bytes, uint64_t *out)
{
    struct baton_reader reader =
        baton_reader_of((struct baton_bytes){ prefix, SAFETENSORS_PREFIX_BYTES });
    uint64_t header_bytes = baton_read_u64le(&reader);
    if (file_bytes < SAFETENSORS_PREFIX_BYTES) {
        return bad_file(file, "truncated: shorter than the 8 bytes of the header length");
    }
    if (header_bytes > BATON_SAFETENSORS_HEADER_BYTES_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "%.120s: header length %llu is above the limit of %d bytes; is it "
                                 "a safetensors file?",
                                 file, (unsigned long long)header_bytes,
                                 (int)BATON_SAFETENSORS_HEADER_BYTES_MAX);
    }
    if (header_bytes > file_bytes - SAFETENSORS_PREFIX_BYTES) {
        return baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
            "%.120s: truncated: header length %llu, but the file has %llu bytes", file,
            (unsigned long long)header_bytes, (unsigned long long)file_bytes);
    }
    *out = header_bytes;
    return baton_status_ok();
}

/* Returns what is wrong with the shape, or null. */
static const char *read_shape(const json_t *value, struct tensor_shape *out)
{
    if (!json_is_array(value)) {
        return "shape: missing or not an array";
    }
    if (json_array_size(value) > BATON_TENSOR_RANK_MAX) {
        return "shape: more than 8 dimensions";
    }
    out->rank = (uint32_t)json_array_size(value);
    for (uint32_t i = 0; i < out->rank; i++) {
        if (!json_input_u64(json_array_get(value, i), &out->dims[i])) {
            return "shape: a dimension is not a whole number in [0, 2^63)";
        }
    }
    return NULL;
}

/* Returns what is wrong with the range, or null; 'begin' comes back from the data's first byte. */
static const char *read_offsets(const json_t *value, struct safetensors_tensor *out)
{
    uint64_t end = 0;
    if (!json_is_array(value) || json_array_size(value) != 2 ||
        !json_input_u64(json_array_get(value, 0), &out->begin) ||
        !json_input_u64(json_array_get(value, 1), &end)) {
        return "data_offsets: not two whole numbers in [0, 2^63)";
    }
    if (end < out->begin) {
        return "data_offsets: ends before it begins";
    }
    out->bytes = end - out->begin;
    return NULL;
}

static struct baton_status check_size(const char *file, const struct safetensors_tensor *tensor)
{
    uint64_t needed = 0;
    char shape[TENSOR_SHAPE_TEXT_BYTES];
    if (!tensor_shape_bytes(&tensor->shape, tensor->dtype, &needed)) {
        return bad_tensor(file, tensor->name, "shape: its size overflows or ends within a byte");
    }
    if (needed == tensor->bytes) {
        return baton_status_ok();
    }
    tensor_shape_format(&tensor->shape, shape);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                             "%.80s: tensor '%.80s': data_offsets: %llu bytes, but %s of %.60s "
                             "needs %llu",
                             file, tensor->name, (unsigned long long)tensor->bytes,
                             tensor_dtype_name(tensor->dtype), shape, (unsigned long long)needed);
}

static struct baton_status read_tensor(const char *file, json_t *value,
                                       struct safetensors_tensor *out)
{
    static const char *const known[] = { "dtype", "shape", "data_offsets", NULL };
    struct baton_bytes dtype;
    if (!json_is_object(value)) {
        return bad_tensor(file, out->name, "not a JSON object");
    }
    const char *unknown = json_input_unknown_key(value, known);
    if (unknown != NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "%.80s: tensor '%.100s': unknown key '%.60s'", file, out->name,
                                 unknown);
    }
    if (!json_input_text(json_object_get(value, "dtype"), &dtype)) {
        return bad_tensor(file, out->name, "dtype: missing or not a string");
    }
    if (!tensor_dtype_parse(dtype, &out->dtype)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "%.80s: tensor '%.100s': dtype: '%.40s' is unknown", file,
                                 out->name, (const char *)dtype.data);
    }
    const char *wrong = read_shape(json_object_get(value, "shape"), &out->shape);
    if (wrong == NULL) {
        wrong = read_offsets(json_object_get(value, "data_offsets"), out);
    }
    return wrong != NULL ? bad_tensor(file, out->name, wrong) : check_size(file, out);
}

static struct baton_status read_metadata(const char *file, json_t *value)
{
    const char *key;
    json_t *text;
    if (!json_is_object(value)) {
        return bad_file(file, "__metadata__: not a JSON object");
    }
    json_object_foreach(value, key, text)
    {
        if (!json_is_string(text)) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                     "%.120s: __metadata__: '%.60s' is not a string", file, key);
        }
    }
    return baton_status_ok();
}

static struct baton_status add_tensor(const char *file, const char *name, json_t *value,
                                      struct safetensors *parsed)
{
    struct safetensors_tensor *tensor = &parsed->tensors[parsed->tensors_count];
    struct baton_status st = manifest_name_check(MANIFEST_KIND_TENSOR, baton_bytes_of(name));
    if (!baton_ok(&st)) {
        return bad_tensor(file, name, "name: empty, too long, or with a control character");
    }
    tensor->name = text_pool_copy(&parsed->texts, name, strlen(name));
    if (tensor->name == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%.120s: out of memory", file);
    }
    st = read_tensor(file, value, tensor);
    parsed->tensors_count += baton_ok(&st);
    return st;
}

static struct baton_status read_header(const char *file, json_t *top, struct safetensors *parsed)
{
    const char *key;
    json_t *value;
    if (!json_is_object(top)) {
        return bad_file(file, "header: not a JSON object");
    }
    if (json_object_size(top) > BATON_TENSORS_MAX) {
        return bad_file(file, "header: more than 1048576 tensors (BATON_TENSORS_MAX)");
    }
    parsed->tensors = calloc(json_object_size(top) + 1, sizeof(*parsed->tensors));
    if (parsed->tensors == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%.120s: out of memory", file);
    }
    json_object_foreach(top, key, value)
    {
        struct baton_status st = strcmp(key, "__metadata__") == 0
                                     ? read_metadata(file, value)
                                     : add_tensor(file, key, value, parsed);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

/* By first byte; an empty tensor before the one that starts at its place; then by name. */
static int compare_ranges(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a;
    const struct safetensors_tensor *right = b;
    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    if (left->bytes != right->bytes) {
        return left->bytes < right->bytes ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

static struct baton_status bad_border(const char *file, const struct safetensors_tensor *before,
                                      const struct safetensors_tensor *at, uint64_t expected)
{
    return baton_status_make(
        BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
        "%.60s: tensor '%.70s': data_offsets: begins at %llu, %s %llu, where '%.70s' ends", file,
        at->name, (unsigned long long)at->begin,
        at->begin < expected ? "an overlap: before" : "a gap: after", (unsigned long long)expected,
        before != NULL ? before->name : "the header");
}

static struct baton_status check_end(const char *file, uint64_t end, uint64_t data_bytes)
{
    if (end == data_bytes) {
        return baton_status_ok();
    }
    bool is_short = end > data_bytes;
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                             "%.120s: %s by %llu bytes: the tensors need %llu bytes of data, the "
                             "file has %llu",
                             file, is_short ? "truncated: short" : "trailing bytes: too long",
                             (unsigned long long)(is_short ? end - data_bytes : data_bytes - end),
                             (unsigned long long)end, (unsigned long long)data_bytes);
}

/* One owner for each byte: each tensor begins where the one before it ends, the last ends with the
 * file.  Moves 'begin' to count from the file's first byte. */
static struct baton_status check_tiling(const char *file, struct safetensors *parsed,
                                        uint64_t data_bytes)
{
    uint64_t end = 0;
    const struct safetensors_tensor *before = NULL;
    qsort(parsed->tensors, parsed->tensors_count, sizeof(*parsed->tensors), compare_ranges);
    for (size_t i = 0; i < parsed->tensors_count; i++) {
        struct safetensors_tensor *tensor = &parsed->tensors[i];
        if (tensor->begin != end) {
            return bad_border(file, before, tensor, end);
        }
        end += tensor->bytes;
        before = tensor;
    }
    struct baton_status st = check_end(file, end, data_bytes);
    for (size_t i = 0; baton_ok(&st) && i < parsed->tensors_count; i++) {
        parsed->tensors[i].begin += parsed->data_begin;
    }
    return st;
}

static struct baton_status parse_into(const char *file, struct baton_bytes header,
                                      uint64_t file_bytes, struct safetensors *parsed)
{
    json_t *top = NULL;
    struct baton_status st = json_input_parse(header, HEADER_DEPTH_MAX, &top);
    if (!baton_ok(&st)) {
        st.reason = BATON_REASON_CHECKPOINT_INVALID;
        return baton_status_in(st, "%.120s: header", file);
    }
    st = read_header(file, top, parsed);
    json_decref(top);
    if (!baton_ok(&st)) {
        return st;
    }
    parsed->data_begin = SAFETENSORS_PREFIX_BYTES + header.size;
    return check_tiling(file, parsed, file_bytes - parsed->data_begin);
}

struct baton_status safetensors_parse(const char *file, struct baton_bytes header,
                                      uint64_t file_bytes, struct safetensors **out)
{
    if (header.size > BATON_SAFETENSORS_HEADER_BYTES_MAX ||
        file_bytes < SAFETENSORS_PREFIX_BYTES + header.size) {
        return bad_file(file, "header: longer than the file or the limit");
    }
    if (header.size == 0 || header.data[0] != '{') {
        return bad_file(file, "header: does not begin with '{'");
    }
    struct safetensors *parsed = calloc(1, sizeof(*parsed));
    if (parsed == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "%.120s: out of memory", file);
    }
    struct baton_status st = parse_into(file, header, file_bytes, parsed);
    if (!baton_ok(&st)) {
        safetensors_destroy(parsed);
        return st;
    }
    *out = parsed;
    return baton_status_ok();
}

void safetensors_destroy(struct safetensors *parsed)
{
    if (parsed != NULL) {
        text_pool_deinit(&parsed->texts);
        free(parsed->tensors);
        free(parsed);
    }
}
