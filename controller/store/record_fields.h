/* record_fields.h -- which members the stored structs have; see record_fields.c.
 *
 * Depends on: controller/core.  Threads: constant.  Ownership: static. */
#ifndef CONTROLLER_STORE_RECORD_FIELDS_H
#define CONTROLLER_STORE_RECORD_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "controller/core/record.h"
#include "controller/core/words.h"

enum field_kind {
    FIELD_TEXT,
    FIELD_U64,
    FIELD_U32,
    FIELD_BOOL,
    FIELD_DOUBLE,
    FIELD_WORD,   /* An enum; 'words' names its numbers. */
    FIELD_STRUCT, /* 'fields' describes it. */
    FIELD_LIST,   /* 'size' structs of 'fields' at most; a uint32_t at 'count_offset' says how many.
                   */
};

struct field_table;

struct field {
    const char *name;
    enum field_kind kind;
    size_t offset;
    size_t size; /* TEXT: bytes with the end; LIST: most items. */
    const struct word_table *words;
    const struct field_table *fields;
    size_t count_offset;
};

struct field_table {
    const struct field *rows;
    size_t count;
    size_t struct_bytes;
};

/* Of the records of a kind; never null. */
const struct field_table *record_fields(enum record_kind kind);
/* "model", "group", ...; what the record calls itself in the store. */
const char *record_kind_word(enum record_kind kind);
/* Its inverse; false: no kind is called so. */
bool record_kind_find(const char *word, enum record_kind *out);
extern const struct field_table log_entry_fields;

#endif /* record_fields.h */
