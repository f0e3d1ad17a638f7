/* index.c -- JSON of the disk-delta format. */
#include "transport/delta/index.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "transport/delta/checksum.h"
#include "transport/model/json_input.h"

enum { INDEX_DEPTH_MAX = 8, HEADER_DEPTH_MAX = 3, DIGESTS_FORMAT = 1 };

BATON_PRINTF(2, 3)
static struct baton_status invalid(const char *file, const char *fmt, ...)
{
    char text[200];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, arguments);
    va_end(arguments);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID, "%.120s: %s",
                             file, text);
}

static struct baton_status parse(const char *file, struct baton_bytes text, unsigned depth,
                                 json_t **out)
{
    struct baton_status st = json_input_parse(text, depth, out);
    st.reason = baton_ok(&st) ? BATON_REASON_NONE : BATON_REASON_CHECKPOINT_INVALID;
    return baton_status_in(st, "%.120s", file);
}

/* "000003" or 3: readers of the format take what turns into a whole number. */
static bool read_version(const json_t *value, uint64_t *out)
{
    if (json_is_string(value)) {
        return delta_version_parse(json_string_value(value), out);
    }
    return json_input_u64(value, out) && *out <= DELTA_VERSION_MAX;
}

static struct baton_status read_word(const char *file, const json_t *metadata, const char *key,
                                     const char **out)
{
    *out = json_string_value(json_object_get(metadata, key));
    return *out == NULL ? invalid(file, "metadata: %s: missing or not a string", key)
                        : baton_status_ok();
}

static struct baton_status unknown_word(const char *file, const char *key, const char *word,
                                        const char *known)
{
    struct baton_status st = invalid(file, "metadata: %s: '%.40s' is unknown", key, word);
    return baton_status_hint(st, "known: %s", known);
}

static struct baton_status read_words(const char *file, const json_t *metadata,
                                      struct delta_index *out)
{
    const char *encoding, *compression, *checksum;
    struct baton_status st = read_word(file, metadata, "delta_encoding", &encoding);
    if (baton_ok(&st)) {
        st = read_word(file, metadata, "compression_format", &compression);
    }
    if (baton_ok(&st)) {
        st = read_word(file, metadata, "checksum_format", &checksum);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (!delta_encoding_parse(encoding, &out->encoding)) {
        return unknown_word(file, "delta_encoding", encoding, "xor, overwrite");
    }
    if (strcmp(compression, DELTA_COMPRESSION) != 0) {
        return unknown_word(file, "compression_format", compression, DELTA_COMPRESSION);
    }
    if (!delta_checksum_parse(checksum, &out->checksum)) {
        return unknown_word(file, "checksum_format", checksum, "xxh3-128, blake3, adler32");
    }
    return st;
}

/* A delta that lost its encoding must not pass for a full version. */
static struct baton_status check_full(const char *file, const json_t *metadata)
{
    static const char *const words[] = { "base_version", "compression_format", "checksum_format" };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (json_object_get(metadata, words[i]) != NULL) {
            return invalid(file, "metadata: delta_encoding: missing, and there is %s", words[i]);
        }
    }
    return baton_status_ok();
}

static struct baton_status read_index(const char *file, const json_t *top, struct delta_index *out)
{
    const json_t *metadata = json_object_get(top, "metadata");
    if (!json_is_object(top)) {
        return invalid(file, "not a JSON object");
    }
    if (metadata != NULL && !json_is_object(metadata)) {
        return invalid(file, "metadata: not a JSON object");
    }
    if (json_object_get(metadata, "delta_encoding") == NULL) {
        return check_full(file, metadata);
    }
    out->is_delta = true;
    if (!read_version(json_object_get(metadata, "version"), &out->version)) {
        return invalid(file, "metadata: version: missing or not a version number");
    }
    if (!read_version(json_object_get(metadata, "base_version"), &out->base_version)) {
        return invalid(file, "metadata: base_version: missing or not a version number");
    }
    return read_words(file, metadata, out);
}

struct baton_status delta_index_parse(const char *file, struct baton_bytes text,
                                      struct delta_index *out)
{
    json_t *top = NULL;
    struct delta_index index = { false, 0, 0, DELTA_ENCODING_XOR, DELTA_CHECKSUM_XXH3_128 };
    struct baton_status st = parse(file, text, INDEX_DEPTH_MAX, &top);
    if (!baton_ok(&st)) {
        return st;
    }
    st = read_index(file, top, &index);
    json_decref(top);
    if (baton_ok(&st)) {
        *out = index;
    }
    return st;
}

static struct baton_status read_digest(const char *file, const json_t *top, const char *key,
                                       struct digest *out)
{
    const char *text = json_string_value(json_object_get(top, key));
    if (text == NULL || !digest_parse(text, out)) {
        return invalid(file, "%s: not 32 lower-case hexadecimal digits", key);
    }
    return baton_status_ok();
}

struct baton_status delta_digests_parse(const char *file, struct baton_bytes text,
                                        struct delta_digests *out)
{
    uint64_t format = 0;
    json_t *top = NULL;
    struct delta_digests digests;
    struct baton_status st = parse(file, text, INDEX_DEPTH_MAX, &top);
    if (!baton_ok(&st)) {
        return st;
    }
    if (!json_input_u64(json_object_get(top, "format"), &format) || format != DIGESTS_FORMAT) {
        st = invalid(file, "format: missing or not %d", (int)DIGESTS_FORMAT);
    }
    if (baton_ok(&st)) {
        st = read_digest(file, top, "base_digest", &digests.base);
    }
    if (baton_ok(&st)) {
        st = read_digest(file, top, "result_digest", &digests.result);
    }
    json_decref(top);
    if (baton_ok(&st)) {
        *out = digests;
    }
    return st;
}

void delta_digests_write(FILE *out, const struct delta_digests *digests)
{
    char base[BATON_DIGEST_TEXT_BYTES], result[BATON_DIGEST_TEXT_BYTES];
    digest_format(digests->base, base);
    digest_format(digests->result, result);
    (void)fprintf(out, "{\"format\": %d, \"base_digest\": \"%s\", \"result_digest\": \"%s\"}\n",
                  (int)DIGESTS_FORMAT, base, result);
}

/* The tensor of this name in a list that is sorted by name, or null. */
static struct delta_tensor *find(struct delta_tensor *const *tensors, size_t count,
                                 const char *name)
{
    size_t low = 0;
    while (low < count) {
        size_t middle = low + (count - low) / 2;
        int order = strcmp(name, tensors[middle]->name);
        if (order == 0) {
            return tensors[middle];
        }
        low = order > 0 ? middle + 1 : low;
        count = order > 0 ? count : middle;
    }
    return NULL;
}

static struct baton_status take_checksums(const char *file, json_t *metadata,
                                          enum delta_checksum kind,
                                          struct delta_tensor *const *tensors, size_t count)
{
    const char *name;
    json_t *value;
    json_object_foreach(metadata, name, value)
    {
        struct delta_tensor *tensor = find(tensors, count, name);
        const char *text = json_string_value(value);
        if (tensor == NULL) {
            return invalid(file, "__metadata__: '%.80s' is no tensor of this shard", name);
        }
        if (text == NULL || !delta_checksum_is_text(kind, text)) {
            return invalid(file, "tensor '%.80s': checksum: not %s in lower-case digits", name,
                           delta_checksum_name(kind));
        }
        (void)baton_text_copy(tensor->checksum, sizeof(tensor->checksum), text);
    }
    for (size_t i = 0; i < count; i++) {
        if (tensors[i]->checksum[0] == '\0') {
            return invalid(file, "tensor '%.80s': checksum: missing in __metadata__",
                           tensors[i]->name);
        }
    }
    return baton_status_ok();
}

struct baton_status delta_header_checksums(const char *file, struct baton_bytes header,
                                           enum delta_checksum kind,
                                           struct delta_tensor *const *tensors,
                                           size_t tensors_count)
{
    json_t *top = NULL;
    struct baton_status st = parse(file, header, HEADER_DEPTH_MAX, &top);
    if (baton_ok(&st)) {
        st = take_checksums(file, json_object_get(top, "__metadata__"), kind, tensors,
                            tensors_count);
        json_decref(top);
    }
    return st;
}

/* The next code point of valid UTF-8; moves '*text' past it. */
static uint32_t next_code_point(const char **text)
{
    const uint8_t *at = (const uint8_t *)*text;
    unsigned size = at[0] < 0x80 ? 1 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    uint32_t value = size == 1 ? at[0] : at[0] & (0x7fu >> size);
    for (unsigned i = 1; i < size && at[i] != '\0'; i++) {
        value = value << 6 | (at[i] & 0x3fu);
    }
    *text += size;
    return value;
}

/* As Python's json.dumps: ASCII only. */
static void write_ascii(FILE *out, const char *text)
{
    (void)fputc('"', out);
    while (*text != '\0') {
        uint32_t c = next_code_point(&text);
        if (c == '"' || c == '\\') {
            (void)fprintf(out, "\\%c", (int)c);
        } else if (c >= 0x20 && c < 0x7f) {
            (void)fputc((int)c, out);
        } else if (c < 0x10000) {
            (void)fprintf(out, "\\u%04x", c);
        } else {
            (void)fprintf(out, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                          0xdc00 + ((c - 0x10000) & 0x3ff));
        }
    }
    (void)fputc('"', out);
}

void delta_index_write(FILE *out, const struct delta_index *index,
                       const struct delta_tensor *tensors, size_t tensors_count)
{
    char version[DELTA_NAME_BYTES], base[DELTA_NAME_BYTES];
    delta_version_text(index->version, version);
    delta_version_text(index->base_version, base);
    (void)fprintf(out,
                  "{\"metadata\": {\"version\": \"%s\", \"base_version\": \"%s\", "
                  "\"delta_encoding\": \"%s\", \"compression_format\": \"%s\", "
                  "\"checksum_format\": \"%s\"}, \"weight_map\": {",
                  version, base, delta_encoding_name(index->encoding), DELTA_COMPRESSION,
                  delta_checksum_name(index->checksum));
    for (size_t i = 0; i < tensors_count; i++) {
        (void)fputs(i == 0 ? "" : ", ", out);
        write_ascii(out, tensors[i].name);
        (void)fprintf(out, ": \"%s\"", tensors[i].shard);
    }
    (void)fputs("}}", out);
}

/* Names have no control characters (manifest_name_check()): two characters need an escape. */
static void write_utf8(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)fputc('\\', out);
        }
        (void)fputc(*text, out);
    }
    (void)fputc('"', out);
}

static void write_header_json(FILE *out, const struct delta_tensor *tensors, size_t count)
{
    uint64_t at = 0;
    (void)fputs("{\"__metadata__\":{", out);
    for (size_t i = 0; i < count; i++) {
        (void)fputs(i == 0 ? "" : ",", out);
        write_utf8(out, tensors[i].name);
        (void)fprintf(out, ":\"%s\"", tensors[i].checksum);
    }
    (void)fputc('}', out);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = tensors[i].frame_bytes;
        (void)fputc(',', out);
        write_utf8(out, tensors[i].name);
        (void)fprintf(out, ":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}",
                      (unsigned long long)size, (unsigned long long)at,
                      (unsigned long long)(at + size));
        at += size;
    }
    (void)fputc('}', out);
}

struct baton_status delta_header_make(const struct delta_tensor *tensors, size_t tensors_count,
                                      char **out, size_t *out_bytes)
{
    static const char prefix[SAFETENSORS_PREFIX_BYTES] = { 0 };
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    bool failed = file == NULL || fwrite(prefix, 1, sizeof(prefix), file) != sizeof(prefix);
    if (file != NULL) {
        write_header_json(file, tensors, tensors_count);
        failed = fflush(file) != 0 || failed;
        (void)fprintf(file, "%*s", (int)((8 - size % 8) % 8), "");
        failed = fclose(file) != 0 || failed;
    }
    if (failed) {
        free(text);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
    }
    struct baton_writer writer = baton_writer_of((uint8_t *)text, sizeof(prefix));
    baton_write_u64le(&writer, size - sizeof(prefix));
    *out = text;
    *out_bytes = size;
    return baton_status_ok();
}
