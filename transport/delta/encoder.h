/* encoder.h -- one tensor's delta: from its old and its new bytes to a frame and a checksum.
 *
 * Bytes come in pieces, in order; DELTA_PIECE_BYTES at a time is the fast way.  Nothing here knows
 * elements: a change is a byte that differs.  An encoder is used for one tensor after the other.
 *
 * An xor frame is put together piece by piece, each a zstd block: pieces without a change are four
 * bytes, in the others the zero runs are handed to zstd as matches (ZSTD_compressSequences()), so
 * it need not look for them.  Its memory is the frame's size.  Overwrite holds the whole payload,
 * 5 bytes a changed byte, until the end.
 *
 * Depends on: format.h, checksum.h, zstd.  Allocates: not for cores.  Threads: an object belongs
 * to one thread.  Ownership: what finish gives belongs to the encoder until the next begin. */
#ifndef TRANSPORT_DELTA_ENCODER_H
#define TRANSPORT_DELTA_ENCODER_H

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "transport/delta/format.h"

struct delta_encoded {
    struct baton_bytes frame; /* Empty if no byte changed: the tensor is then left out. */
    uint64_t changed_bytes;
    char checksum[DELTA_CHECKSUM_TEXT_BYTES]; /* Of the new bytes. */
};

struct delta_encoder;

/* Null without memory. */
struct delta_encoder *delta_encoder_create(void);
void delta_encoder_destroy(struct delta_encoder *encoder);

/* Starts a tensor of 'tensor_bytes' bytes.  INVALID_ARGUMENT: more than 'overwrite' can address. */
BATON_MUST_USE struct baton_status delta_encoder_begin(struct delta_encoder *encoder,
                                                       enum delta_encoding encoding,
                                                       enum delta_checksum checksum,
                                                       uint64_t tensor_bytes);
/* The next bytes, as many of both. */
BATON_MUST_USE struct baton_status delta_encoder_add(struct delta_encoder *encoder,
                                                     const uint8_t *old, const uint8_t *now,
                                                     size_t size);
/* After exactly 'tensor_bytes' bytes. */
BATON_MUST_USE struct baton_status delta_encoder_finish(struct delta_encoder *encoder,
                                                        struct delta_encoded *out);

#endif /* encoder.h */
