/* layout_file.h -- layouts from YAML or JSON files, and from checkpoint directories.
 *
 * A file says mesh, tensors or a family, and rules (deploy/docs/layouts.md); JSON is read as YAML.  A
 * directory is read as a checkpoint: one rank that holds each tensor whole.
 *
 * Depends on: transport/layout, transport/model, api/config.  Does I/O: the shell part of
 * transport/layout.  Threads: any.  Ownership: the layout's memory is the arena's. */
#ifndef TRANSPORT_LAYOUT_FILE_LAYOUT_FILE_H
#define TRANSPORT_LAYOUT_FILE_LAYOUT_FILE_H

#include "api/base/arena.h"
#include "api/base/status.h"
#include "transport/layout/layout.h"

struct layout_file {
    struct layout *layout; /* Sealed. */
    uint32_t ranks_per_link;
};

/* Reads what 'path' leads to.  Messages begin with the path, and with the line where there is
 * one. */
BATON_MUST_USE struct baton_status layout_file_read(const char *path, struct baton_arena *arena,
                                                    struct layout_file *out);
/* The same from a file's text; 'name' stands for the path. */
BATON_MUST_USE struct baton_status layout_file_parse(const char *name, const char *text,
                                                     struct baton_arena *arena,
                                                     struct layout_file *out);

#endif /* layout_file.h */
