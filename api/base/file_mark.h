/* file_mark.h -- whether a file is another one than at the last look.
 *
 * By inode, size and time of change: files are replaced by a rename.
 *
 * Depends on: the C library.  Threads: the caller's lock.  Ownership: none. */
#ifndef API_BASE_FILE_MARK_H
#define API_BASE_FILE_MARK_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

/* How a file was at the last look; zero: never looked at. */
struct baton_file_mark {
    struct timespec changed;
    ino_t inode;
    off_t size;
};

/* Notes how the file is now; true if that is not how it was.  False, and nothing is noted, where it cannot be
 * looked at: it may be in the middle of being replaced. */
bool baton_file_has_changed(const char *path, struct baton_file_mark *mark);

#endif /* file_mark.h */
