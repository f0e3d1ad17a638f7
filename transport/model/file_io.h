/* file_io.h -- reading and writing regular files whole or at an offset, with errors that name them.
 *
 * The one place of transport/ that turns short reads, EINTR, pipes and directories posing as files
 * into statuses.  'label' is what messages call the file.
 *
 * Depends on: api/base.  Does I/O: not for cores.  Threads: any.  Ownership: descriptors and heap
 * blocks go to the caller (close(), free()). */
#ifndef TRANSPORT_MODEL_FILE_IO_H
#define TRANSPORT_MODEL_FILE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

struct file_opened {
    int fd;
    uint64_t bytes; /* Size at the time of opening. */
};

/* Opens a regular file below 'dir_fd' for reading.  Anything else (pipe, device, directory) is
 * refused without waiting for it; a symbolic link too unless 'follow_links'. */
BATON_MUST_USE struct baton_status file_open_read(int dir_fd, const char *name, bool follow_links,
                                                  const char *label, struct file_opened *out);

/* Opens a directory. */
BATON_MUST_USE struct baton_status file_open_directory(const char *path, int *out);
/* The same, but the path's last part may be no symbolic link (PERMISSION_DENIED). */
BATON_MUST_USE struct baton_status file_open_directory_itself(const char *path, int *out);

/* Reads exactly 'size' bytes; TRUNCATED (DATA_LOSS) if the file ends before. */
BATON_MUST_USE struct baton_status file_read_at(int fd, void *out, size_t size, uint64_t offset,
                                                const char *label);
/* Writes exactly all 'bytes'. */
BATON_MUST_USE struct baton_status file_write_at(int fd, struct baton_bytes bytes, uint64_t offset,
                                                 const char *label);

/* Reads a whole file of at most 'limit' bytes; '*out' gets one terminating zero more than
 * '*size'. */
BATON_MUST_USE struct baton_status file_read_all(int dir_fd, const char *name, size_t limit,
                                                 const char *label, struct baton_bytes *out);

#endif /* file_io.h */
