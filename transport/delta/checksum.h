/* checksum.h -- the format's checksum of a tensor: running, over the bytes of the new tensor.
 *
 * As text: lower-case hexadecimal digits.  xxh3-128: seed 0, canonical order, 32 digits (the same
 * as a plain digest of transport/model); blake3: unkeyed, 64 digits; adler32: start 1, 8 digits.
 *
 * Depends on: digest.h, blake3.h, zlib (adler32).  Threads: an object belongs to one thread.
 * Ownership: none. */
#ifndef TRANSPORT_DELTA_CHECKSUM_H
#define TRANSPORT_DELTA_CHECKSUM_H

#include "transport/delta/blake3.h"
#include "transport/delta/format.h"
#include "transport/model/digest.h"

struct delta_summer {
    enum delta_checksum kind;
    struct digest_stream xxh3;
    struct blake3 blake3;
    uint32_t adler;
};

void delta_summer_init(struct delta_summer *summer, enum delta_checksum kind);
void delta_summer_add(struct delta_summer *summer, struct baton_bytes bytes);
void delta_summer_finish(const struct delta_summer *summer, char out[DELTA_CHECKSUM_TEXT_BYTES]);

/* Whether 'text' could be a checksum of this kind: right length, lower-case digits. */
bool delta_checksum_is_text(enum delta_checksum kind, const char *text);

#endif /* checksum.h */
