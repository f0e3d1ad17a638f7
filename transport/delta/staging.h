/* staging.h -- a directory that appears whole or not at all.
 *
 * It is written under a hidden name beside its place, every file is flushed to the disk, and one
 * rename puts it there.  A process that dies leaves a hidden directory, which the next one of the
 * same name clears; while one is at work, another gets IN_USE.  Nothing is ever replaced.  Where
 * directories cannot be locked (NFS), each process has a hidden directory of its own, the first to
 * rename wins, and what a dead one left stays until somebody removes it.
 *
 * Depends on: api/base, file_io.h.  Does I/O: not for cores.  Threads: an object belongs to one
 * thread.  Ownership: staging_close() frees, and removes what was not committed. */
#ifndef TRANSPORT_DELTA_STAGING_H
#define TRANSPORT_DELTA_STAGING_H

#include "api/base/bytes.h"
#include "api/base/status.h"

struct staging;

/* Begins directory 'name' of the existing directory 'parent'.  ALREADY_EXISTS: it is there;
 * FAILED_PRECONDITION IN_USE: another process writes it. */
BATON_MUST_USE struct baton_status staging_open(const char *parent, const char *name,
                                                struct staging **out);
void staging_close(struct staging *staging);

/* The directory that is being written. */
int staging_fd(const struct staging *staging);
/* A new file in it, open for writing: staging_end_file() or close(). */
BATON_MUST_USE struct baton_status staging_create(struct staging *staging, const char *name,
                                                  int *out);
/* A file of it once more, for writing. */
BATON_MUST_USE struct baton_status staging_reopen(struct staging *staging, const char *name,
                                                  int *out);
/* Flushes the file to the disk and closes it, also on failure. */
BATON_MUST_USE struct baton_status staging_end_file(int fd, const char *name);
/* A whole small file. */
BATON_MUST_USE struct baton_status staging_write(struct staging *staging, const char *name,
                                                 struct baton_bytes bytes);
/* A subdirectory; 'name' of the functions above may then be "<sub>/<file>". */
BATON_MUST_USE struct baton_status staging_subdirectory(struct staging *staging, const char *name);
BATON_MUST_USE struct baton_status staging_rename(struct staging *staging, const char *from,
                                                  const char *to);

/* Puts the directory in its place, durably. */
BATON_MUST_USE struct baton_status staging_commit(struct staging *staging);

#endif /* staging.h */
