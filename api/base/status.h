/* status.h -- the one error type of this project.
 *
 * A status is a plain value: returned, never allocated, never kept in a thread-local.  Codes are
 * numerically the gRPC codes, so the RPC edge converts by copying.  'reason' names which of our own
 * failures it was (programs branch on it); 'message' is for people and names the field, file,
 * tensor or rank; 'hint', where there is one, says what to do next.
 *
 * Depends on: nothing.  Threads: values only.  Ownership: none. */
#ifndef BATON_BASE_STATUS_H
#define BATON_BASE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#define BATON_MUST_USE          __attribute__((warn_unused_result))
#define BATON_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* gRPC's status codes, same numbers; choose by what the caller should do next. */
enum baton_code {
    BATON_OK = 0,
    BATON_CANCELLED = 1,           /* Accept that it was given up. */
    BATON_UNKNOWN = 2,             /* Never made by us; only received. */
    BATON_INVALID_ARGUMENT = 3,    /* Fix the request. */
    BATON_DEADLINE_EXCEEDED = 4,   /* Accept that time ran out. */
    BATON_NOT_FOUND = 5,           /* Look elsewhere. */
    BATON_ALREADY_EXISTS = 6,      /* Look at what is there. */
    BATON_PERMISSION_DENIED = 7,   /* Use another identity. */
    BATON_RESOURCE_EXHAUSTED = 8,  /* Slow down, or raise the limit that the message names. */
    BATON_FAILED_PRECONDITION = 9, /* Do not retry until somebody acted. */
    BATON_ABORTED = 10,            /* Redo from reading the state. */
    BATON_OUT_OF_RANGE = 11,       /* Relist: the asked revision is gone, or not there yet. */
    BATON_UNIMPLEMENTED = 12,      /* Use a newer peer. */
    BATON_INTERNAL = 13,           /* Our bug. */
    BATON_UNAVAILABLE = 14,        /* Retry the same call with backoff. */
    BATON_DATA_LOSS = 15,          /* A checksum or a journal does not hold. */
    BATON_UNAUTHENTICATED = 16,    /* Log in. */
};

/* Which failure it was.  Append only; each has a name in status.c. */
enum baton_reason {
    BATON_REASON_NONE = 0,
    BATON_REASON_BAD_FIELD,          /* A field of a request or a key of a file is wrong. */
    BATON_REASON_LIMIT,              /* A number of limits.h was reached. */
    BATON_REASON_IO,                 /* A file or socket operation failed. */
    BATON_REASON_NO_SPACE,           /* A disk or tmpfs is full. */
    BATON_REASON_TRUNCATED,          /* Fewer bytes than announced. */
    BATON_REASON_MALFORMED,          /* Bytes that do not parse. */
    BATON_REASON_CHECKPOINT_INVALID, /* A checkpoint breaks the safetensors format or its index. */
    BATON_REASON_DIGEST_MISMATCH,    /* Bytes are not what their digest says. */
    BATON_REASON_STALE_EPOCH,        /* The sender's epoch is lower than one seen before. */
    BATON_REASON_STALE_TICKET,       /* The ticket is not the open one. */
    BATON_REASON_STALE_REVISION,     /* expected_revision does not hold. */
    BATON_REASON_COMPACTED,          /* A watch asked for a revision that is gone. */
    BATON_REASON_STORE_UNAVAILABLE,  /* The store refused or lost a write. */
    BATON_REASON_ENGINE_UNREACHABLE, /* No answer from the engine within our deadline. */
    BATON_REASON_ENGINE_REFUSED,     /* The engine answered with an error. */
    BATON_REASON_ENGINE_LIED,        /* The engine said yes and the read-back said no. */
    BATON_REASON_INCOMPATIBLE,       /* Wrong model, protocol or format version. */
    BATON_REASON_IN_USE,             /* Port, directory or name is taken. */
    BATON_REASON_HELD,               /* The object is held, suspended or paused. */
    BATON_REASON_BUDGET_FULL,        /* No availability left to spend. */
    BATON_REASON_SHUTTING_DOWN,      /* The daemon drains. */
    BATON_REASON_VERSION_NOT_READY,  /* No group is ready with a version that was asked for. */
    BATON_REASON_SESSION_EXPIRED,    /* A session's lease on its version is over. */
    BATON_REASON_SLOTS_FULL,         /* More samples now would be too stale when they are used. */
    BATON_REASON_NON_FINITE,         /* Weights hold NaN or infinity. */
    BATON_REASON_NOT_ALLOWED,        /* The caller's roles do not reach that. */
    BATON_REASON_NOT_LEADER,         /* Another controller leads: ask it. */
    BATON_REASON_COUNT
};

enum { BATON_STATUS_MESSAGE_BYTES = 320, BATON_STATUS_HINT_BYTES = 184 };

struct baton_status {
    enum baton_code code;
    enum baton_reason reason;                 /* NONE when 'code' is OK. */
    char message[BATON_STATUS_MESSAGE_BYTES]; /* Empty when OK; always terminated. */
    char hint[BATON_STATUS_HINT_BYTES];       /* What to do next; may be empty. */
};
_Static_assert(sizeof(struct baton_status) == 512, "eight cache lines; errors are rare");

static inline bool baton_ok(const struct baton_status *st)
{
    return st->code == BATON_OK;
}

/* Returns the OK status. */
BATON_MUST_USE struct baton_status baton_status_ok(void);

/* Returns a failure.  'code' must not be OK.  A message that does not fit is cut, never dropped. */
BATON_MUST_USE BATON_PRINTF(3, 4) struct baton_status
    baton_status_make(enum baton_code code, enum baton_reason reason, const char *fmt, ...);

/* Returns the failure that 'error_number' (an errno value) means, with the call's name and what it
 * was done to: "open /x/y: No such file or directory".  ENOSPC and EDQUOT become RESOURCE_EXHAUSTED
 * NO_SPACE, ENOENT NOT_FOUND, EEXIST ALREADY_EXISTS, EACCES and EPERM PERMISSION_DENIED, EADDRINUSE
 * FAILED_PRECONDITION IN_USE, the rest INTERNAL IO. */
BATON_MUST_USE struct baton_status baton_status_errno(int error_number, const char *call,
                                                      const char *object);

/* Puts "<context>: " before the message; keeps code, reason and hint.  OK stays OK. */
BATON_MUST_USE BATON_PRINTF(2, 3) struct baton_status
    baton_status_in(struct baton_status st, const char *fmt, ...);

/* Sets what to do next.  OK stays OK. */
BATON_MUST_USE BATON_PRINTF(2, 3) struct baton_status
    baton_status_hint(struct baton_status st, const char *fmt, ...);

/* Names as in the gRPC documentation ("NOT_FOUND") and in status.h ("BAD_FIELD").  Unknown numbers
 * give "UNKNOWN" and "NONE". */
const char *baton_code_name(enum baton_code code);
const char *baton_reason_name(enum baton_reason reason);

/* The reason of this name, NONE for an unknown one. */
enum baton_reason baton_reason_from_name(const char *name);

/* Reports a broken promise of our own code and aborts; the orchestrator restarts us and the journal
 * replays.  Assertions stay on in production. */
_Noreturn void baton_assert_failed(const char *file, int line, const char *condition);
#define baton_assert(condition)                                                                    \
    ((condition) ? (void)0 : baton_assert_failed(__FILE__, __LINE__, #condition))

#endif /* status.h */
