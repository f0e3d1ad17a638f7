/* checkpoint_files.h -- which files of a checkpoint directory are shards, and which belong to the
 * version besides; private to checkpoint.c.
 *
 * Depends on: checkpoint.h.  Threads and ownership: as checkpoint.h. */
#ifndef TRANSPORT_MODEL_CHECKPOINT_FILES_H
#define TRANSPORT_MODEL_CHECKPOINT_FILES_H

#include <stdbool.h>

#include "api/base/status.h"

struct checkpoint;

/* Fills 'files' and 'shards' (without their sizes) from the directory, sorted by name. */
BATON_MUST_USE struct baton_status checkpoint_list_files(struct checkpoint *checkpoint, int dir_fd);
bool checkpoint_has_file(const struct checkpoint *checkpoint, const char *name);

#endif /* checkpoint_files.h */
