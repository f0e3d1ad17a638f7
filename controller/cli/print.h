/* print.h -- results on stdout: aligned tables, JSON, YAML, names.
 *
 * Depends on: cli.h, api/wire, jansson.  Threads: one.  Ownership: all borrowed for the call. */
#ifndef CONTROLLER_CLI_PRINT_H
#define CONTROLLER_CLI_PRINT_H

#include <stddef.h>
#include <stdint.h>

#include "controller/cli/cli.h"

enum { CLI_CELL_BYTES = 160 };

/* One column of a table. */
struct cli_column {
    const char *title;
    bool wide; /* Only with -o wide. */
    void (*cell)(const void *message, char out[CLI_CELL_BYTES]);
};

/* A kind of object that can be listed, watched and printed. */
struct cli_kind {
    const char *plural;
    const char *singular;
    const char *list_method;
    const char *list_request; /* Message name. */
    const char *watch_method; /* Null: cannot be watched. */
    const char *watch_request;
    const char *item_field; /* In the watch's answer. */
    const struct cli_column *columns;
    size_t columns_count;
};

/* By plural or singular name; null for an unknown one. */
const struct cli_kind *cli_kind_find(const char *name);
extern const struct cli_kind cli_kinds[];
extern const size_t cli_kinds_count;

/* Prints messages in the form that 'cli' asks for.  JSON and YAML of a list are {"items": [...]},
 * of a single object the object. */
void cli_print_items(const struct cli *cli, const struct cli_kind *kind, void *const *items,
                     size_t count, bool is_list);

/* Prints one row without titles and at once (for -w); 'widths' keeps the columns aligned between
 * calls and must be zero before the first. */
void cli_print_row(const struct cli *cli, const struct cli_kind *kind, const void *item,
                   size_t widths[]);

/* Name of an object for -o name, "group/g0". */
void cli_item_name(const struct cli_kind *kind, const void *item, char out[CLI_CELL_BYTES]);

/* Prints any message as JSON or YAML. */
void cli_print_message(const struct cli *cli, const void *message);

/* Prints one message of many: each is a document of its own. */
void cli_print_stream(const struct cli *cli, const void *message);

/* --- texts for cells --- */

struct Google__Protobuf__Timestamp;
/* "3s", "12m", "4h", "2d" since then; "-" for none. */
void cli_text_age(const struct Google__Protobuf__Timestamp *at, char out[CLI_CELL_BYTES]);
/* "in 59d", "ended", "-". */
void cli_text_left(const struct Google__Protobuf__Timestamp *at, char out[CLI_CELL_BYTES]);
/* "12 ms", "1.3 s". */
void cli_text_duration(uint64_t ns, char out[CLI_CELL_BYTES]);
/* "1.2 MiB". */
void cli_text_bytes(uint64_t bytes, char out[CLI_CELL_BYTES]);
/* "v7", or "-" for 0. */
void cli_text_seq(uint64_t seq, char out[CLI_CELL_BYTES]);
/* The name of an enum value without the enum's prefix, "SERVING"; descriptor from the generated code. */
const char *cli_text_enum(const ProtobufCEnumDescriptor *descriptor, int value);

/* --- fields by name, so that one piece of code serves all kinds --- */

void cli_set_text(void *message, const char *field, const char *text);
void cli_set_u64(void *message, const char *field, uint64_t value);
/* Nothing where the message has no such field. */
void cli_set_bool(void *message, const char *field, bool value);
void cli_set_part(void *message, const char *field, void *part);
const char *cli_get_text(const void *message, const char *field);
uint64_t cli_get_u64(const void *message, const char *field);
void *cli_get_part(const void *message, const char *field);
/* The first repeated message field: the items of a list answer. */
void **cli_get_items(const void *message, size_t *count);

#endif /* print.h */
