/* file_mark.c -- see file_mark.h. */
#include "api/base/file_mark.h"

#include <sys/stat.h>

bool baton_file_has_changed(const char *path, struct baton_file_mark *mark)
{
    struct stat now;
    if (stat(path, &now) != 0) {
        return false;
    }
    bool changed = now.st_ino != mark->inode || now.st_size != mark->size ||
                   now.st_mtim.tv_sec != mark->changed.tv_sec ||
                   now.st_mtim.tv_nsec != mark->changed.tv_nsec;
    *mark = (struct baton_file_mark){ now.st_mtim, now.st_ino, now.st_size };
    return changed;
}
