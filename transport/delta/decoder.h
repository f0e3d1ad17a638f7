/* decoder.h -- one tensor's delta: from its old bytes and a frame to its new bytes.
 *
 * The caller hands over the old bytes in pieces, in order; each comes back as new bytes in place.
 * Several decoders behind one another take a tensor over several versions in one pass.  New bytes
 * are worth something only once delta_decoder_finish() found the checksum right: until then the
 * caller keeps them apart from what is in use.
 *
 * A frame is foreign input.  Refused (INVALID_ARGUMENT MALFORMED): more or less than one zstd
 * frame, a skippable frame, a dictionary, no content size, a content size that is not the
 * payload's for this tensor, a window above 128 MiB, positions that do not ascend or leave the
 * tensor, a payload that ends early.  Memory stays below twice the window whatever the frame
 * claims.  Damage behind that is DATA_LOSS (zstd's own errors, DIGEST_MISMATCH).  Messages say
 * what is wrong; the caller adds file and tensor.
 *
 * Depends on: format.h, checksum.h, zstd.  Allocates: not for cores.  Threads: an object belongs
 * to one thread.  Ownership: the frame is the caller's and must stay until finish. */
#ifndef TRANSPORT_DELTA_DECODER_H
#define TRANSPORT_DELTA_DECODER_H

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "transport/delta/format.h"

struct delta_decoder;

/* Null without memory. */
struct delta_decoder *delta_decoder_create(void);
void delta_decoder_destroy(struct delta_decoder *decoder);

/* Starts a tensor of 'tensor_bytes' bytes.  After a failure anywhere the next begin starts anew. */
BATON_MUST_USE struct baton_status delta_decoder_begin(struct delta_decoder *decoder,
                                                       enum delta_encoding encoding,
                                                       enum delta_checksum checksum,
                                                       struct baton_bytes frame,
                                                       uint64_t tensor_bytes);
/* Turns the next old bytes into new ones. */
BATON_MUST_USE struct baton_status delta_decoder_next(struct delta_decoder *decoder, uint8_t *bytes,
                                                      size_t size);
/* After exactly 'tensor_bytes' bytes: the payload is used up, and the new bytes have this
 * checksum. */
BATON_MUST_USE struct baton_status delta_decoder_finish(struct delta_decoder *decoder,
                                                        const char *checksum);

#endif /* decoder.h */
