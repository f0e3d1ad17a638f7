/* landings.h -- which versions are on this node, which are on their way, which may go.
 *
 * A table by digest, shared by the agent's groups.  It asks for a version until it is here (with
 * backoff), cancels what nobody wants any more, and drops only what the controller listed and no
 * group names (design 3, rule 7).
 *
 * Depends on: event.h, api/base.  Threads: one.  Ownership: memory is the core's arena's. */
#ifndef AGENT_CORE_LANDINGS_H
#define AGENT_CORE_LANDINGS_H

#include "agent/core/event.h"
#include "api/base/backoff.h"

/* More tries than this in a row that failed: STAGE_FAILED is shown; it goes on trying. */
enum { LANDING_TRIES = 3 };

enum landing_state {
    LANDING_FREE = 0, /* The row is unused. */
    LANDING_WAITING,  /* To be asked for at 'retry_ns'. */
    LANDING_UNDER_WAY,
    LANDING_HERE,
};

struct landing {
    enum landing_state state;
    struct agent_version_goal goal; /* 'sources' points to 'sources_kept'. */
    struct agent_source sources_kept[BATON_SOURCES_PER_VERSION_MAX];
    struct agent_holder holders_kept[BATON_HOLDERS_MAX]; /* Likewise. */
    uint64_t landed_bytes;
    bool wanted;    /* By some group's goal or open ticket. */
    bool droppable; /* Listed by the current goals. */
    uint64_t retry_ns;
    uint64_t began_ns;
    uint64_t took_ns; /* Asked for to verified. */
    struct baton_backoff backoff;
    char trouble[BATON_TEXT_BYTES]; /* Of the last failure. */
    bool no_room;                   /* It was the lack of room. */
};

/* Whom to pull a version from that a group's leader tells this agent to land; the controller says so. */
struct landing_hint {
    char digest[BATON_DIGEST_TEXT_BYTES];
    struct agent_holder holders[BATON_HOLDERS_MAX];
    uint32_t holders_count;
};

struct landings {
    struct landing *rows;
    uint32_t rows_max;
    uint64_t used_bytes;
    struct landing_hint hints[BATON_FOLLOWED_VERSIONS_MAX];
    uint32_t hints_count;
};

struct agent;

/* The row of this digest; null if there is none. */
struct landing *landings_find(const struct landings *landings, const char *digest);

/* True if the version of this digest is landed and verified. */
bool landings_has(const struct landings *landings, const char *digest);

/* Takes over a goal's version and its sources; false if the table is full.  'hinted': whom to pull it from is told by
 * landings_take_hints(), perhaps only in a moment. */
bool landings_want(struct agent *agent, const struct agent_version_goal *goal, bool hinted);
/* Replaces the hints before. */
void landings_take_hints(struct agent *agent, const struct agent_version_goal *goals,
                         uint32_t count);

/* Marks what the controller lets go; replaces the list before. */
void landings_allow_drop(struct landings *landings, const char (*digests)[BATON_DIGEST_TEXT_BYTES],
                         uint32_t digests_count);

/* Applies a LANDING event. */
void landings_on_event(struct agent *agent, const struct agent_landing_event *event);

/* Starts, cancels and drops what is due. */
void landings_advance(struct agent *agent);

/* When landings_advance() has something to do by itself. */
uint64_t landings_deadline_ns(const struct landings *landings);

#endif /* landings.h */
