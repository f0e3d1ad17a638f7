/* guard_page.h -- the page of memory that an agent shares with an engine's guard.
 *
 * The layout and its rules are in deploy/docs/engine-contract.md, section 1.  The agent writes the
 * first section, the guard the second; neither writes the other's.  The page is a file of
 * GUARD_PAGE_BYTES, mapped shared by both.
 *
 * Depends on: nothing.  Threads: one writer a section; any number of readers.  Ownership: whoever
 * mapped the page unmaps it. */
#ifndef AGENT_ENGINE_GUARD_PAGE_H
#define AGENT_ENGINE_GUARD_PAGE_H

#include <stdint.h>

enum { GUARD_PAGE_BYTES = 4096, GUARD_PAGE_LAYOUT = 1 };
#define GUARD_PAGE_MAGIC UINT32_C(0x31504742)

enum guard_gate {
    GUARD_GATE_SHUT = 0, /* Generation is refused: booted, out, or told so. */
    GUARD_GATE_OPEN = 1, /* Generation passes. */
    GUARD_GATE_HOLD = 2, /* A swap is under way: arrivals wait, bounded by hold_max and hold_ms. */
};

struct guard_page {
    uint32_t magic;
    uint32_t layout;

    /* Written by the agent. */
    _Atomic uint64_t sequence; /* Odd while the agent writes this section. */
    uint32_t gate;             /* enum guard_gate; counts only while opened_for equals boots. */
    uint32_t hold_max;
    uint64_t hold_ms;
    uint64_t opened_for;
    uint64_t version;
    uint32_t salt; /* 1: each request's cache salt names the version. */
    uint8_t agent_reserved[76];

    /* Written by the guard. */
    _Atomic uint64_t boots;
    uint8_t boot_id[16];
    uint32_t pid;
    _Atomic uint32_t held;
    _Atomic uint32_t active;
    uint8_t reserved[3932]; /* The guard's own: which API server processes are of this boot. */
};
_Static_assert(sizeof(struct guard_page) == GUARD_PAGE_BYTES, "the page is one file of 4 KiB");
_Static_assert(__builtin_offsetof(struct guard_page, boots) == 128,
               "engine-contract.md, section 1");
_Static_assert(__builtin_offsetof(struct guard_page, active) == 160,
               "engine-contract.md, section 1");

#endif /* guard_page.h */
