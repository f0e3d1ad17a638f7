/* guard.h -- the agent's side of the page that it shares with an engine's guard, and the token.
 *
 * Maps the page (making it where it is missing), writes the agent's section so that a reader never
 * sees half of a change, and reads the guard's section.  What the guard itself makes of the page is
 * asked over HTTP (vllm.h): a page that was written proves nothing.
 *
 * Depends on: api/base, guard_page.h, engine.h.
 * Threads: one writer; a page is written by one agent (which holds its state directory's lock).
 * Ownership: engine_guard_open/close. */
#ifndef AGENT_ENGINE_GUARD_H
#define AGENT_ENGINE_GUARD_H

#include <stdint.h>

#include "agent/engine/engine.h"
#include "agent/engine/guard_page.h"
#include "api/base/status.h"

/* 64 hexadecimal digits and an end. */
enum { ENGINE_TOKEN_TEXT_BYTES = 65, ENGINE_TOKEN_BYTES_MAX = 129 };

struct engine_guard;

/* The guard's section, as it is now.  'boots' 0: no guard has ever started with this page. */
struct engine_guard_view {
    uint64_t boots;
    char incarnation[BATON_UID_TEXT_BYTES];
    uint32_t pid;
    uint32_t held;
    uint32_t active;
};

/* Maps the page at 'path'; makes it (mode 0600, gate shut) if it is not there.  A file of another
 * size, magic or layout is refused and left alone. */
BATON_MUST_USE struct baton_status engine_guard_open(const char *path, struct engine_guard **out);
void engine_guard_close(struct engine_guard *guard);

/* Writes the agent's section.  A write that an earlier agent's death left half done is finished by
 * this one. */
void engine_guard_write(struct engine_guard *guard, const struct engine_gate_order *order);

/* The page itself, for whoever plays the guard in a test; belongs to the guard object. */
const struct guard_page *engine_guard_page(const struct engine_guard *guard);

void engine_guard_read(const struct engine_guard *guard, struct engine_guard_view *out);

/* Reads the token of the file at 'path'; makes it (mode 0600, 256 random bits) if it is not there.  A
 * file that others may read, or that holds anything but one line of printable characters, is
 * refused. */
BATON_MUST_USE struct baton_status engine_token_load(const char *path,
                                                     char out[ENGINE_TOKEN_BYTES_MAX]);

#endif /* guard.h */
