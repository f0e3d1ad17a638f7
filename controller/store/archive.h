/* archive.h -- a store's content to a file and back: backup, restore, moving to another backend.
 *
 * An export is one consistent snapshot, also beside a running controller.
 *
 * An import fills an empty store from a whole archive.  It begins a generation above all that the
 * archive knows (design 3 rule 5): tickets of before are void, and the controller that starts on it
 * waits until all agents restated what they have seen.  Its first transaction writes a cluster record
 * that names the archive ('importing'), its last one the archive's own: in between, whatever happens,
 * store_load() refuses the store, so that no controller serves on it.  Only another import of the same archive
 * is taken then, and finishes it.
 *
 * Depends on: store.h, archive_text.h.  Threads: one.  Ownership: files and stores are the caller's.
 * Errors: those of both. */
#ifndef CONTROLLER_STORE_ARCHIVE_H
#define CONTROLLER_STORE_ARCHIVE_H

#include "controller/store/archive_text.h"
#include "controller/store/store.h"

/* What was written. */
struct archive_report {
    struct archive_end end;
    uint64_t generation; /* Of the archive; after an import: the store's new one. */
};

/* Writes all of 'reader' (store_open_reader()); 'software' goes to the first line. */
struct archive_note {
    struct store_start start;
    uint64_t wall_ns;
    const char *software;
};
BATON_MUST_USE struct baton_status store_export(struct store *reader,
                                                const struct archive_note *note, FILE *file,
                                                struct archive_report *out);

/* Reads 'file', which can be rewound, to its end before it opens the store at 'address'; a file that
 * is not whole changes nothing.  FAILED_PRECONDITION IN_USE: the store holds something already, or a
 * process has it; TRUNCATED: another archive's import was cut off there.  It keeps the store for
 * itself like a controller: by the file's lock, or by etcd's fencing. */
BATON_MUST_USE struct baton_status store_import(FILE *file, const char *address, uint64_t wall_ns,
                                                struct archive_report *out);

#endif /* archive.h */
