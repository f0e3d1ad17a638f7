/* etcd_text.h -- a growing text, for requests: JSON pieces and base64.
 *
 * After memory ran out it stays failed and further steps do nothing, so that a builder checks once,
 * at its end.
 *
 * Depends on: api/base.  Threads: an object belongs to one thread.  Ownership: etcd_text_free(). */
#ifndef CONTROLLER_STORE_ETCD_TEXT_H
#define CONTROLLER_STORE_ETCD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/status.h"

struct etcd_text {
    char *data; /* Terminated once something was added; else null. */
    size_t size;
    size_t capacity;
    bool failed;
};

void etcd_text_bytes(struct etcd_text *text, const char *bytes, size_t size);
void etcd_text_add(struct etcd_text *text, const char *piece);
BATON_PRINTF(2, 3) void etcd_text_format(struct etcd_text *text, const char *fmt, ...);
/* Adds 'bytes' in base64, in quotes. */
void etcd_text_base64(struct etcd_text *text, const char *bytes, size_t size);
/* Wipes and frees; 'text' is empty again. */
void etcd_text_free(struct etcd_text *text);

/* Length of 'size' bytes in base64. */
size_t etcd_base64_size(size_t size);
/* Decodes strict base64 (padded, nothing else in it) into 'out', which has room for 'size' / 4 * 3
 * bytes; false: it is none. */
bool etcd_base64_decode(const char *text, size_t size, char *out, size_t *out_size);

#endif /* etcd_text.h */
