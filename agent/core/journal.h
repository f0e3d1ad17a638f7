/* journal.h -- the agent's durable records: what they are and how they look as bytes.
 *
 * Pure: encodes one record into a buffer, decodes one from a buffer, and walks a whole file image.
 * Reading and writing files is agent/shell/journal_file.h.
 *
 * A file is a header (magic, format version, CRC) and frames: u32le payload size, u32le CRC-32C of
 * index and payload, u64le index (from 1, rising by 1), payload.  A frame that is cut off at the
 * end of the file is a torn write: it never had an effect, since effects wait for the fsync; it is
 * cut with a warning.  Bytes that do not hold and have good frames after them are damage:
 * DATA_LOSS.
 *
 * Depends on: swap.h, api/base/bytes.h.  Threads: values only.  Ownership: all borrowed. */
#ifndef AGENT_CORE_JOURNAL_H
#define AGENT_CORE_JOURNAL_H

#include "agent/core/swap.h"
#include "api/base/bytes.h"
#include "api/base/status.h"

enum {
    JOURNAL_FORMAT = 1,
    JOURNAL_HEADER_BYTES = 16,
    JOURNAL_FRAME_BYTES = 16,        /* Before each payload. */
    JOURNAL_RECORD_BYTES_MAX = 4096, /* Frame and payload. */
};

/* Never renumbered; append only. */
enum journal_kind {
    JOURNAL_INCARNATION = 1,  /* First record: this journal's life. */
    JOURNAL_EPOCH,            /* Highest epoch seen; before it is obeyed. */
    JOURNAL_SEQ,              /* Highest seq of a model that was seen. */
    JOURNAL_FLOORS,           /* Highest ticket number and owner term of a group. */
    JOURNAL_ACCEPT,           /* A ticket is taken. */
    JOURNAL_REFUSE,           /* A ticket is refused for good. */
    JOURNAL_INTENT,           /* From here on weights, KV or label may change; raises the step. */
    JOURNAL_COMMIT,           /* The group's version changes here and nowhere else. */
    JOURNAL_OUTCOME,          /* A ticket has ended. */
    JOURNAL_OUTCOME_STORED,   /* The controller stored it. */
    JOURNAL_TAINT,            /* This incarnation of an engine may never serve again. */
    JOURNAL_BARRIER = 20,     /* What was promised or heard in the open ticket's barrier. */
    JOURNAL_LIFE = 30,        /* Of a leader of other agents; before its first command to them. */
    JOURNAL_OPERATE = 32,     /* An operator at this node asked for something out of order. */
    JOURNAL_SLEEP = 34,       /* How far engines are asleep, or awake again. */
    JOURNAL_LIVE_INTENT = 36, /* From here on weights may change while the gate is open; raises the
                               * step.  An INTENT after it: the gate was shut. */
    JOURNAL_KIND_END
};

/* The engines of a group, in config order, by incarnation; empty: not known. */
struct journal_members {
    uint32_t count;
    char incarnations[BATON_ENGINES_PER_GROUP_MAX][BATON_UID_TEXT_BYTES];
};

/* Of an open ticket of a barrier: the last thing promised or heard. */
enum journal_barrier {
    JOURNAL_BARRIER_NONE,   /* Nothing yet: it may give up by itself. */
    JOURNAL_BARRIER_SHUT,   /* Told to be shut: only a word of the controller moves it on. */
    JOURNAL_BARRIER_GO,     /* The old version is over. */
    JOURNAL_BARRIER_CANCEL, /* Back to the old version. */
    JOURNAL_BARRIER_OPEN,   /* Committed, and so have the others. */
};

/* How far a group is asleep.  From FALLING until the next COMMIT its engines hold no version. */
enum journal_sleep {
    JOURNAL_SLEEP_NONE,
    JOURNAL_SLEEP_FALLING, /* Engines may have been told to sleep. */
    JOURNAL_SLEEP_ASLEEP,  /* All of them sleep, read back. */
    JOURNAL_SLEEP_WAKING,  /* Engines may have been told to wake. */
    JOURNAL_SLEEP_AWAKE,   /* All are, with weights that count for nothing. */
};

struct journal_record {
    enum journal_kind kind;
    char group[BATON_NAME_BYTES]; /* All but INCARNATION, EPOCH, SEQ, LIFE. */
    union {
        char incarnation[BATON_UID_TEXT_BYTES]; /* INCARNATION. */
        struct agent_epoch epoch;               /* EPOCH. */
        uint64_t life;                          /* LIFE; rises. */
        struct {
            char model[BATON_NAME_BYTES];
            struct agent_version version;
        } seq; /* SEQ. */
        struct {
            uint64_t ticket_number;
            uint64_t owner_term;
        } floors; /* FLOORS. */
        struct {
            struct agent_ticket ticket;
            struct journal_members members;
        } accept; /* ACCEPT. */
        struct {
            char ticket_uid[BATON_UID_TEXT_BYTES];
            uint64_t step;
            struct agent_version from, to; /* LIVE_INTENT: either may be resident, on all ranks. */
        } intent;                          /* INTENT, LIVE_INTENT. */
        struct {
            char ticket_uid[BATON_UID_TEXT_BYTES];
            struct agent_version version;
            enum agent_level level;
            struct journal_members members;
            bool salted; /* Requests of this version have a cache salt of their own. */
        } commit;        /* COMMIT. */
        struct {
            struct agent_swap_record record;
            /* Ended between INTENT and COMMIT and was not restored: only a rejoin ticket helps. */
            bool needs_ticket;
        } outcome;                             /* OUTCOME; REFUSE, whose outcome is REFUSED. */
        char ticket_uid[BATON_UID_TEXT_BYTES]; /* OUTCOME_STORED. */
        struct {
            char engine[BATON_NAME_BYTES];
            char incarnation[BATON_UID_TEXT_BYTES];
        } taint; /* TAINT. */
        struct {
            char ticket_uid[BATON_UID_TEXT_BYTES];
            enum journal_barrier mark;
        } barrier; /* BARRIER. */
        struct {
            enum agent_verb verb;
            char by[BATON_NAME_BYTES];
            uint64_t wall_ns;
        } operate; /* OPERATE. */
        struct {
            enum journal_sleep mark;
            struct journal_members members;
        } sleep; /* SLEEP. */
    };
};

/* Where a walk over a journal's bytes stands. */
struct journal_cursor {
    struct baton_bytes file; /* The whole image. */
    uint64_t offset;         /* Of the next frame. */
    uint64_t index;          /* Of the last record read; 0: none. */
    bool torn;               /* The walk ended at a torn frame: cut the file at 'offset'. */
};

/* Writes the file header. */
void journal_header_encode(uint8_t out[JOURNAL_HEADER_BYTES]);

/* Writes frame and payload of 'record' as the index-th; returns its size, 0 if a text in it is not
 * terminated or 'capacity' (JOURNAL_RECORD_BYTES_MAX always suffices) is too small. */
size_t journal_record_encode(const struct journal_record *record, uint64_t index, uint8_t *out,
                             size_t capacity);

/* Starts a walk.  An image shorter than the header is torn at 0 (a crash at creation).
 * DATA_LOSS MALFORMED: not a journal; FAILED_PRECONDITION INCOMPATIBLE: another format version. */
BATON_MUST_USE struct baton_status journal_cursor_init(struct journal_cursor *cursor,
                                                       struct baton_bytes file);

/* Reads the next record; '*more' is false at the end or at a torn frame.  DATA_LOSS names the
 * offset and what is wrong there, and its hint says what to do; FAILED_PRECONDITION INCOMPATIBLE: a
 * whole record that this release cannot read. */
BATON_MUST_USE struct baton_status journal_cursor_next(struct journal_cursor *cursor,
                                                       struct journal_record *record, bool *more);

/* "ACCEPT". */
const char *journal_kind_name(enum journal_kind kind);

#endif /* journal.h */
