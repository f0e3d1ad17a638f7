/* guard.h -- the gate before every route, as in deploy/docs/engine-contract.md, section 1.
 *
 * Decides; does not speak HTTP.  Reads the page that an agent writes (agent/engine/guard_page.h),
 * knows the agent's token, counts who waits and who is inside.
 *
 * Depends on: agent/engine/guard_page.h.  Threads: any; one struct guard for the process.
 * Ownership: guard_open maps the page, guard_close unmaps it. */
#ifndef TESTS_MINIENGINE_GUARD_H
#define TESTS_MINIENGINE_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/miniengine/trouble.h"

struct guard_page;

enum { GUARD_TOKEN_MAX = 256, GUARD_MESSAGE_MAX = 160 };

struct guard {
    struct guard_page *page; /* Null: unguarded, everything passes. */
    char token[GUARD_TOKEN_MAX];
    size_t token_length; /* 0: no token is right. */
};

/* What a request says about itself; header values may be null. */
struct guard_request {
    const char *method;
    const char *path;
    const char *token;
    const char *min_version;
    const char *exact_version;
};

enum guard_verdict {
    GUARD_PASSES,  /* Go on; for generation 'entered' says that guard_leave must follow. */
    GUARD_WAITS,   /* Ask again soon with the same ticket. */
    GUARD_ANSWERS, /* GET /baton/guard: answer 200 with guard_describe. */
    GUARD_REFUSES, /* 'code' and 'message'. */
};

/* One request's way through the gate; starts zeroed. */
struct guard_ticket {
    bool generation;   /* Answers carry x-baton-version. */
    bool entered;      /* Counted as active. */
    bool waiting;      /* Counted as held. */
    bool trusted;      /* Came with the right token. */
    uint64_t since_ms; /* When it began to wait. */
    uint64_t version;  /* When it passed, or was refused. */
    bool salted;       /* Its cache salt must name the version. */
    int code;
    char message[GUARD_MESSAGE_MAX];
};

/* The page as one consistent reading. */
struct guard_view {
    uint32_t gate; /* enum guard_gate, with openedFor taken into account. */
    uint32_t hold_max;
    uint64_t hold_ms;
    uint64_t version;
    bool salt;
};

/* Opens or makes the page and enters a new incarnation.  'token_path' may be null. */
bool guard_open(struct guard *guard, const char *page_path, const char *token_path,
                struct trouble *why);
void guard_close(struct guard *guard);

struct guard_view guard_read(const struct guard *guard);

/* 'now_ms' is any clock that does not jump. */
enum guard_verdict guard_ask(struct guard *guard, const struct guard_request *request,
                             uint64_t now_ms, struct guard_ticket *ticket);

/* Ends the request's way, wherever it stands: frees a place in the queue or inside. */
void guard_leave(struct guard *guard, struct guard_ticket *ticket);

/* The body of GET /baton/guard. */
void guard_describe(const struct guard *guard, char *out, size_t out_bytes);

#endif /* guard.h */
