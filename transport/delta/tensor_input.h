/* tensor_input.h -- reading the tensors of an opened checkpoint in pieces; private to this folder.
 *
 * Reads with pread(), never through a mapping: a file that is cut while it is read is an error, not
 * a signal.  One file is open at a time.
 *
 * Depends on: checkpoint.h, file_io.h.  Does I/O.  Threads: an object belongs to one thread.
 * Ownership: the checkpoint stays the caller's. */
#ifndef TRANSPORT_DELTA_TENSOR_INPUT_H
#define TRANSPORT_DELTA_TENSOR_INPUT_H

#include "transport/model/checkpoint.h"
#include "transport/model/digest.h"

struct tensor_input {
    const struct checkpoint *checkpoint;
    int dir_fd;
    int fd;            /* Of 'shard'; -1: none. */
    const char *shard; /* Whose name the checkpoint owns. */
};

BATON_MUST_USE struct baton_status tensor_input_open(const struct checkpoint *checkpoint,
                                                     struct tensor_input *out);
/* Also of one that was never opened, if it is zeroed. */
void tensor_input_close(struct tensor_input *input);

/* Reads 'size' bytes from 'offset' of a shard. */
BATON_MUST_USE struct baton_status tensor_input_read(struct tensor_input *input, const char *shard,
                                                     uint64_t offset, uint8_t *out, size_t size);

/* Digest of a file of the directory that is no shard, and its bytes if 'copy_fd' is not -1. */
BATON_MUST_USE struct baton_status tensor_input_file(struct tensor_input *input, const char *name,
                                                     int copy_fd, struct digest *out);

#endif /* tensor_input.h */
