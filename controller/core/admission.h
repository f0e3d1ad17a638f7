/* admission.h -- which groups may take a request now: for routers and rollout managers.
 *
 * A group is ready when all of this holds at the revision of the answer: it serves with its gate
 * open and read back; what it serves was verified; it committed a version of ours (seq and digest);
 * every one of its engines is reachable; no operator took it out of routing; its guard is real (not
 * advisory); and no ticket is open.  The last one makes the answer true and not just recent: without
 * a ticket a group cannot change its version, so until the next revision it serves that version or
 * nobody.  While a ticket is open its leader may commit before we hear of it.
 *
 * What a caller asks for is a struct admission_query.  A query that no ready group meets is refused
 * with VERSION_NOT_READY; an older version is never given instead.
 *
 * Cost: whether anything is ready is O(versions that are kept); a list is O(groups of the model).
 *
 * Depends on: view.h, lag.h.  Threads: that of controller_step().  Ownership: the caller's structs. */
#ifndef CONTROLLER_CORE_ADMISSION_H
#define CONTROLLER_CORE_ADMISSION_H

#include "api/base/status.h"
#include "controller/core/lag.h"
#include "controller/core/view.h"

struct group;

/* OK, NOT_FOUND, or which member is wrong ('*field' names it, else null). */
struct baton_status view_admission_check(const struct controller *core,
                                         const struct admission_query *query, const char **field);

/* Whether a group on this version meets the query. */
bool view_admission_meets(const struct controller *core, const struct admission_query *query,
                          const struct version_record *version);

/* Whether a group may take requests at all, and this one meets the query.  '*version' is the record
 * of what it serves. */
bool view_admission_group(const struct controller *core, const struct admission_query *query,
                          const struct group_record *group, const struct version_record **version);

/* The newest version below 'below' that meets the query and that a ready group serves; 0: none. */
uint64_t view_admission_next(const struct controller *core, const struct admission_query *query,
                             uint64_t below);

/* Groups that meet the query. */
uint32_t view_admission_count(const struct controller *core, const struct admission_query *query);

/* The refusal of a query that nobody meets.  '*retry_ns': when it is worth another try, if anything
 * is under way that will help; 0: not known. */
struct baton_status view_admission_refusal(const struct controller *core,
                                           const struct admission_query *query, uint64_t *retry_ns);

/* --- for the core's modules --- */

bool admission_group_is_ready(const struct controller *core, const struct group *group);

#endif /* admission.h */
