/* leases.h -- what callers of Admission hold: sessions that keep a version, slots for samples.
 *
 * A lease lives until its time is over unless it is renewed.  It is stored before it is answered,
 * with LEASE_SLACK_PERCENT more time than was promised, so that most renewals need no write: it is
 * written again only when the promise would go beyond what is stored.  After a restart a lease
 * therefore lives at least as long as its holder was told, and at most that much longer.
 *
 * Sessions: while leases live on a version, a roll leaves one ready group on it (blocked reason
 * SESSION_LEASES), for at most the policy's sessions.maxHold since it first had to (restarts included); then they
 * expire. A lease that expired is kept for SESSION_TOLD_S, so that its holder is told, once it
 * comes back, that its version is gone, rather than be given another one.  An undo does not wait:
 * leases on the version that it leaves do not hold it.
 *
 * Slots: a sample that is dispatched now is consumed after those that hold a slot already and those
 * that were consumed towards the next publish.  With B samples consumed between publishes and a
 * bound of n publishes, its lag will be floor((held + consumed) / B), so there is
 *
 *     room = (n + 1) * B - held - consumed
 *
 * for more.  This holds for consumption in order of dispatch and B as the policy says; what an
 * individual sample's lag was in the end is told by judge.h.
 *
 * Depends on: view.h.  Threads: that of controller_step().  Ownership: the core's. */
#ifndef CONTROLLER_CORE_LEASES_H
#define CONTROLLER_CORE_LEASES_H

#include "api/base/status.h"
#include "controller/core/view.h"

enum {
    LEASE_SLACK_PERCENT = 50,
    LEASE_MS_MAX = 24 * 3600 * 1000,
    SESSION_TOLD_S = 600,
    STEP_LEASES_MAX = 256, /* That expire in one step. */
};

uint32_t view_sessions_count(const struct controller *core);
const struct session_lease_record *view_session_at(const struct controller *core, uint32_t index);
/* Null: there is none, or its end is forgotten. */
const struct session_lease_record *view_session_find(const struct controller *core,
                                                     const char *model, const char *name);
/* As it was promised. */
uint64_t view_session_expires_wall_ns(const struct controller *core,
                                      const struct session_lease_record *session);

uint32_t view_slot_leases_count(const struct controller *core);
const struct slot_lease_record *view_slot_lease_at(const struct controller *core, uint32_t index);
const struct slot_lease_record *view_slot_lease_find(const struct controller *core, const char *id);
uint64_t view_slot_lease_expires_wall_ns(const struct controller *core,
                                         const struct slot_lease_record *lease);

struct slots_status {
    uint64_t held;
    uint64_t consumed;
    uint64_t per_publish;
    uint64_t bound_publishes;
    uint64_t room;
    uint32_t leases;
};

/* FAILED_PRECONDITION if the model's policy does not say how many may be on the way. */
struct baton_status view_slots_status(const struct controller *core,
                                      const struct model_record *model, struct slots_status *out);

#endif /* leases.h */
