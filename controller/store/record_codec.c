/* record_codec.c -- see record_codec.h. */
#include "controller/store/record_codec.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "controller/store/record_fields.h"

/* Texts come from agents too; what is not UTF-8 is stored as '?' rather than not at all. */
static json_t *encode_text(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes);
    json_t *value = json_stringn(text, length);
    if (value != NULL) {
        return value;
    }
    char *clean = strndup(text, length);
    for (size_t i = 0; clean != NULL && i < length; i++) {
        clean[i] = (clean[i] & 0x80) != 0 ? '?' : clean[i];
    }
    value = clean == NULL ? NULL : json_string(clean);
    free(clean);
    return value;
}

static json_t *encode_u64(uint64_t number)
{
    if (number <= INT64_MAX) {
        return json_integer((json_int_t)number);
    }
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return json_string(text);
}

static json_t *encode_double(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

static json_t *encode_struct(const struct field_table *fields, const uint8_t *body);

static json_t *encode_list(const struct field *field, const uint8_t *body)
{
    uint32_t count = 0;
    memcpy(&count, body + field->count_offset, sizeof(count));
    json_t *list = json_array();
    for (uint32_t i = 0; list != NULL && i < count && i < field->size; i++) {
        const uint8_t *item = body + field->offset + i * field->fields->struct_bytes;
        if (json_array_append_new(list, encode_struct(field->fields, item)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *encode_field(const struct field *field, const uint8_t *body)
{
    const uint8_t *at = body + field->offset;
    uint64_t u64 = 0;
    uint32_t u32 = 0;
    double real = 0;
    bool truth = false;
    switch (field->kind) {
    case FIELD_TEXT: return encode_text((const char *)at, field->size);
    case FIELD_U64: memcpy(&u64, at, sizeof(u64)); return encode_u64(u64);
    case FIELD_U32: memcpy(&u32, at, sizeof(u32)); return json_integer(u32);
    case FIELD_BOOL: memcpy(&truth, at, sizeof(truth)); return json_boolean(truth);
    case FIELD_DOUBLE: memcpy(&real, at, sizeof(real)); return encode_double(real);
    case FIELD_WORD:
        memcpy(&u32, at, sizeof(u32));
        return json_string(words_get(field->words, u32));
    case FIELD_STRUCT: return encode_struct(field->fields, at);
    case FIELD_LIST: return encode_list(field, body);
    }
    return NULL;
}

static json_t *encode_struct(const struct field_table *fields, const uint8_t *body)
{
    json_t *object = json_object();
    for (size_t i = 0; object != NULL && i < fields->count; i++) {
        json_t *value = encode_field(&fields->rows[i], body);
        if (json_object_set_new(object, fields->rows[i].name, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

char *fields_encode(const struct field_table *fields, const void *body, const char *kind)
{
    json_t *object = encode_struct(fields, body);
    bool named = object != NULL &&
                 json_object_set_new(object, "format", json_integer(RECORD_FORMAT)) == 0 &&
                 json_object_set_new(object, "recordKind", json_string(kind)) == 0;
    char *text = named ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    return text;
}

char *record_encode(struct record_ref record)
{
    return fields_encode(record_fields(record.kind), record.body, record_kind_word(record.kind));
}

char *log_entry_encode(const struct log_entry *entry)
{
    return fields_encode(&log_entry_fields, entry, "event");
}

/* Where a decoder is, for messages. */
struct place {
    const char *kind;
    const char *key;
};

static struct baton_status refuse(const struct place *place, const char *field, const char *what)
{
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED, "stored %s %.80s: %s: %s",
                             place->kind, place->key, field, what);
}

/* Nothing is damaged: a later release wrote it. */
static struct baton_status refuse_later(const struct place *place, const char *field,
                                        const char *what)
{
    struct baton_status st = refuse(place, field, what);
    st.code = BATON_FAILED_PRECONDITION;
    st.reason = BATON_REASON_INCOMPATIBLE;
    return baton_status_hint(st, "start the release that wrote the store, or restore a backup of "
                                 "before the upgrade");
}

static struct baton_status decode_text(const struct place *place, const struct field *field,
                                       const json_t *value, uint8_t *at)
{
    const char *text = json_string_value(value);
    if (text == NULL) {
        return refuse(place, field->name, "not a string");
    }
    if (!baton_text_copy((char *)at, field->size, text)) {
        return refuse(place, field->name, "too long");
    }
    return baton_status_ok();
}

static bool read_u64(const json_t *value, uint64_t *out)
{
    if (json_is_integer(value)) {
        json_int_t number = json_integer_value(value);
        *out = (uint64_t)number;
        return number >= 0;
    }
    const char *text = json_string_value(value);
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    *out = number;
    return errno == 0 && *end == '\0';
}

static struct baton_status decode_number(const struct place *place, const struct field *field,
                                         const json_t *value, uint8_t *at)
{
    uint64_t number = 0;
    if (!read_u64(value, &number)) {
        return refuse(place, field->name, "not a whole number from 0");
    }
    if (field->kind == FIELD_U64) {
        memcpy(at, &number, sizeof(number));
        return baton_status_ok();
    }
    if (number > UINT32_MAX) {
        return refuse(place, field->name, "above 2^32 - 1");
    }
    uint32_t small = (uint32_t)number;
    memcpy(at, &small, sizeof(small));
    return baton_status_ok();
}

static struct baton_status decode_bool(const struct place *place, const struct field *field,
                                       const json_t *value, uint8_t *at)
{
    if (!json_is_boolean(value)) {
        return refuse(place, field->name, "neither true nor false");
    }
    bool truth = json_is_true(value);
    memcpy(at, &truth, sizeof(truth));
    return baton_status_ok();
}

static struct baton_status decode_double(const struct place *place, const struct field *field,
                                         const json_t *value, uint8_t *at)
{
    if (!json_is_number(value) && !json_is_null(value)) {
        return refuse(place, field->name, "not a number");
    }
    double number = json_number_value(value);
    memcpy(at, &number, sizeof(number));
    return baton_status_ok();
}

static struct baton_status decode_word(const struct place *place, const struct field *field,
                                       const json_t *value, uint8_t *at)
{
    const char *word = json_string_value(value);
    uint32_t number = 0;
    if (word == NULL) {
        return refuse(place, field->name, "not a string");
    }
    if (word[0] != '\0' && !words_find(field->words, word, &number)) {
        return refuse_later(place, field->name, "a word that this release does not know");
    }
    memcpy(at, &number, sizeof(number));
    return baton_status_ok();
}

static struct baton_status decode_struct(const struct place *place,
                                         const struct field_table *fields, const json_t *object,
                                         uint8_t *body);

static struct baton_status decode_list(const struct place *place, const struct field *field,
                                       const json_t *value, uint8_t *body)
{
    size_t size = json_array_size(value);
    if (!json_is_array(value) || size > field->size) {
        return refuse(place, field->name, "not a list, or too long");
    }
    uint32_t count = (uint32_t)size;
    memcpy(body + field->count_offset, &count, sizeof(count));
    for (size_t i = 0; i < size; i++) {
        struct baton_status st =
            decode_struct(place, field->fields, json_array_get(value, i),
                          body + field->offset + i * field->fields->struct_bytes);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status decode_field(const struct place *place, const struct field *field,
                                        const json_t *value, uint8_t *body)
{
    uint8_t *at = body + field->offset;
    switch (field->kind) {
    case FIELD_TEXT: return decode_text(place, field, value, at);
    case FIELD_U64:
    case FIELD_U32: return decode_number(place, field, value, at);
    case FIELD_BOOL: return decode_bool(place, field, value, at);
    case FIELD_DOUBLE: return decode_double(place, field, value, at);
    case FIELD_WORD: return decode_word(place, field, value, at);
    case FIELD_STRUCT:
        return json_is_object(value) ? decode_struct(place, field->fields, value, at)
                                     : refuse(place, field->name, "not an object");
    case FIELD_LIST: return decode_list(place, field, value, body);
    }
    return baton_status_ok();
}

static struct baton_status decode_struct(const struct place *place,
                                         const struct field_table *fields, const json_t *object,
                                         uint8_t *body)
{
    for (size_t i = 0; i < fields->count; i++) {
        const json_t *value = json_object_get(object, fields->rows[i].name);
        if (value == NULL) {
            continue;
        }
        struct baton_status st = decode_field(place, &fields->rows[i], value, body);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status decode(const struct place *place, const struct field_table *fields,
                                  const char *text, uint8_t *body)
{
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(object)) {
        json_decref(object);
        return refuse(place, "body", "not a JSON object");
    }
    json_int_t format = json_integer_value(json_object_get(object, "format"));
    struct baton_status st = baton_status_ok();
    if (format > RECORD_FORMAT) {
        char what[64];
        (void)snprintf(what, sizeof(what), "%lld, this release knows up to %d", (long long)format,
                       (int)RECORD_FORMAT);
        st = refuse_later(place, "format", what);
    } else if (format < 1) {
        st = refuse(place, "format", "missing, or not a number from 1");
    } else {
        st = decode_struct(place, fields, object, body);
    }
    json_decref(object);
    return st;
}

struct baton_status record_decode(enum record_kind kind, const char *key, const char *text,
                                  union record_body *out)
{
    struct place place = { record_kind_word(kind), key };
    memset(out, 0, sizeof(*out));
    return decode(&place, record_fields(kind), text, (uint8_t *)out);
}

struct baton_status log_entry_decode(const char *text, struct log_entry *out)
{
    struct place place = { "event", "" };
    memset(out, 0, sizeof(*out));
    return decode(&place, &log_entry_fields, text, (uint8_t *)out);
}

struct baton_status fields_decode(const struct field_table *fields, const char *kind,
                                  const char *text, void *out)
{
    struct place place = { kind, "" };
    memset(out, 0, fields->struct_bytes);
    return decode(&place, fields, text, out);
}
