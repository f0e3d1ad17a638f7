/* text.h -- texts of fixed size: formatting, copying, checking, fingerprints.
 *
 * The one place of the core that formats; what does not fit is cut, never overrun.
 *
 * Depends on: api/base/status.h.  Threads: any.  Ownership: none. */
#ifndef CONTROLLER_CORE_TEXT_H
#define CONTROLLER_CORE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/limits.h"
#include "api/base/status.h"

/* Writes at most 'out_bytes' including the end. */
BATON_PRINTF(3, 4) void text_format(char *out, size_t out_bytes, const char *fmt, ...);

/* The same, from a list of arguments. */
__attribute__((format(printf, 3, 0))) void text_format_list(char *out, size_t out_bytes,
                                                            const char *fmt, va_list args);

/* Copies and ends; cuts what does not fit.  Null counts as empty. */
void text_copy(char *out, size_t out_bytes, const char *text);

/* Null counts as empty. */
bool text_is_empty(const char *text);
bool text_equal(const char *a, const char *b);

/* Characters before the first 'end', or before the text's own. */
size_t text_length_until(const char *text, char end);

/* 1 to 63 characters of [a-z0-9.-], first and last a letter or digit. */
bool text_is_name(const char *text);

/* 32 lower-case hexadecimal digits. */
bool text_is_digest(const char *text);

/* 128 bits of FNV-1a (two bases) over what was added: tells accidents apart, not attackers. */
struct fingerprint {
    uint64_t a;
    uint64_t b;
};

struct fingerprint fingerprint_of(uint64_t start);
void fingerprint_add_bytes(struct fingerprint *print, const void *data, size_t size);
void fingerprint_add_number(struct fingerprint *print, uint64_t number);
void fingerprint_add_text(struct fingerprint *print, const char *text);
void fingerprint_write(const struct fingerprint *print, char out[BATON_DIGEST_TEXT_BYTES]);

#endif /* text.h */
