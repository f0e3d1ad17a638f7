/* strays.c -- landed bytes that are of no version in the store: of versions that it forgot, of publishes that were never
 * finished.
 *
 * Nobody will ask for them, and nobody knows that: a version is unknown before its seal, and after a store was lost until it was
 * rebuilt from what agents restate.  So they may go only after limits.unknown_kept_ms without a break in one session, once
 * all agents restated in this leadership, while no version is open, nothing waits for `batonctl store rebuild`, and if nothing
 * that any group serves or swaps names them.  The agent keeps what its own journal names in any case (rule 7). */
#include "controller/core/fleet.h"
#include "controller/core/text.h"

enum { LOOK_AGAIN_S = 60 };

static bool any_version_is_open(const struct controller *core)
{
    for (uint32_t i = 0; i < core->versions.count; i++) {
        const struct version *version = core->versions.objects[i];
        if (version->r.state == VERSION_STATE_OPEN) {
            return true;
        }
    }
    return false;
}

static bool names(const struct group *group, const char *digest)
{
    const struct group_record *r = &group->r;
    bool ticketed = r->ticket_open && (text_equal(r->ticket.from_digest, digest) ||
                                       text_equal(r->ticket.to_digest, digest));
    return ticketed || text_equal(r->committed_digest, digest) ||
           (group->known && text_equal(group->live.committed_digest, digest));
}

/* By a group of any agent: this one may be the source that others restore from. */
static bool is_named(const struct controller *core, const char *digest)
{
    for (uint32_t i = 0; i < core->groups.count; i++) {
        if (names(core->groups.objects[i], digest)) {
            return true;
        }
    }
    return false;
}

static void look_again(struct controller *core, struct agent *agent, uint64_t at_ns)
{
    if (agent->landed_due_ns == 0 || at_ns < agent->landed_due_ns) {
        agent->landed_due_ns = at_ns;
    }
    wake_first(core, &core->strays_due_ns, at_ns);
}

bool stray_may_go(struct controller *core, struct agent *agent, uint32_t i)
{
    uint64_t *since_ns = &agent->landed_unknown_ns[i];
    *since_ns = *since_ns == 0 ? core->now_ns : *since_ns;
    uint64_t due_ns = *since_ns + core->limits.unknown_kept_ms * MS_NS;
    if (core->now_ns < due_ns) {
        look_again(core, agent, due_ns);
        return false;
    }
    bool safe = !core->cluster.floors_pending && floors_are_restated(core) &&
                !any_version_is_open(core) && rebuild_missing(core) == 0 &&
                !is_named(core, agent->landed[i]);
    if (!safe) {
        look_again(core, agent, core->now_ns + LOOK_AGAIN_S * S_NS);
    }
    return safe;
}

void strays_settle(struct controller *core)
{
    if (!wake_is_due(core, &core->strays_due_ns)) {
        return;
    }
    for (uint32_t i = 0; i < core->agents.count; i++) {
        struct agent *agent = core->agents.objects[i];
        if (agent->landed_due_ns == 0 || agent->session == 0) {
            continue;
        }
        if (core->now_ns >= agent->landed_due_ns) {
            agent->landed_due_ns = 0;
            goals_touch(core, agent);
        } else {
            wake_first(core, &core->strays_due_ns, agent->landed_due_ns);
        }
    }
}
