/* journal_file.h -- the agent's journal on disk: lock, append with fsync, recover, compact.
 *
 * The state directory holds 'lock' (one running agent, its pid inside), 'format' (version of the
 * directory) and 'journal'.  Bytes are agent/core/journal.h's.
 *
 * Space for the open swaps is reserved ahead (posix_fallocate), so that a full disk refuses the
 * next ticket, never the middle of a swap: journal_file_space() is told to the core after each
 * append.  A failed append is fatal to the caller: see action.h.
 *
 * Depends on: agent/core/journal.h, api/base.  Threads: one caller at a time.
 * Ownership: the caller destroys what it opened. */
#ifndef AGENT_SHELL_JOURNAL_FILE_H
#define AGENT_SHELL_JOURNAL_FILE_H

#include "agent/core/event.h"
#include "agent/core/journal.h"

struct journal_file;

/* Called for each record, in order. */
typedef void journal_replay_fn(void *context, const struct journal_record *record);
/* Writes the index-th record of the live state; false past the last. */
typedef bool journal_source_fn(void *context, uint32_t index, struct journal_record *record);

/* Locks the directory (made if it is not there), recovers the journal and replays it; a new or
 * empty one gets a random incarnation first.  A torn tail is cut with a warning.
 * FAILED_PRECONDITION IN_USE: another agent runs there, with its pid.
 * FAILED_PRECONDITION INCOMPATIBLE: a state directory of another version.
 * DATA_LOSS: the journal is damaged in its middle; the message names the offset. */
BATON_MUST_USE struct baton_status journal_file_open(const char *directory,
                                                     journal_replay_fn *replay, void *context,
                                                     struct journal_file **out);
/* Unlocks. */
void journal_file_close(struct journal_file *journal);

/* Appends and fdatasyncs one record.  '*took_ns' may be null.  After a failure the journal accepts
 * nothing any more: the caller must end. */
BATON_MUST_USE struct baton_status journal_file_append(struct journal_file *journal,
                                                       const struct journal_record *record,
                                                       uint64_t *took_ns);

/* What is left of the reserve; tries to extend it first. */
enum agent_journal_space journal_file_space(struct journal_file *journal);

/* True once the file is large enough for compaction to be worth it. */
bool journal_file_wants_compaction(const struct journal_file *journal);

/* Rewrites the journal as the records of 'source': new file, fsync, rename, fsync of the directory.
 * On failure (a full disk) the old file stays in use. */
BATON_MUST_USE struct baton_status journal_file_compact(struct journal_file *journal,
                                                        journal_source_fn *source, void *context);

/* Bytes of records in the file. */
uint64_t journal_file_size(const struct journal_file *journal);

#endif /* journal_file.h */
