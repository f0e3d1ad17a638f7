/* record_codec.h -- records as text: one JSON object each, by tables of fields.
 *
 * {"format":1,"kind":"group",...}: names in camelCase; enums as words (controller/core/words.h);
 * numbers that JSON readers may round (above 2^63 - 1) as decimal strings.  Members that are not
 * known are ignored, so that an older build reads what a newer one wrote within one format; a
 * missing one is zero.  A member of the wrong type or out of range is refused with record and
 * field (DATA_LOSS); a later format, or a word that only a later release knows, as
 * FAILED_PRECONDITION INCOMPATIBLE.
 *
 * To store a new member: a row in record_codec.c; the round-trip test finds a forgotten one.
 *
 * Depends on: controller/core/record.h, words.h; jansson inside.  Threads: any.
 * Ownership: the encoder gives text of malloc(); the caller frees it. */
#ifndef CONTROLLER_STORE_RECORD_CODEC_H
#define CONTROLLER_STORE_RECORD_CODEC_H

#include "api/base/status.h"
#include "controller/core/record.h"

/* What is written; it and all before it are read. */
enum { RECORD_FORMAT = 1 };

/* Null: out of memory. */
char *record_encode(struct record_ref record);
/* Fills 'out', which is zeroed first.  'key' names the record in messages. */
BATON_MUST_USE struct baton_status record_decode(enum record_kind kind, const char *key,
                                                 const char *text, union record_body *out);

/* The same for lines of the event log (number and time are kept apart by the store). */
char *log_entry_encode(const struct log_entry *entry);
BATON_MUST_USE struct baton_status log_entry_decode(const char *text, struct log_entry *out);

/* The same for another struct that a table describes (archive_text.c). */
struct field_table;
char *fields_encode(const struct field_table *fields, const void *body, const char *kind);
BATON_MUST_USE struct baton_status fields_decode(const struct field_table *fields, const char *kind,
                                                 const char *text, void *out);

#endif /* record_codec.h */
