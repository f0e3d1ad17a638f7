/* flow_join.c -- from a started agent, or engines that came back, to SERVING; see flow.h. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/operate.h"
#include "agent/core/ops.h"
#include "agent/core/tickets.h"
#include "api/base/mutant.h"

bool flow_same_incarnations(const struct group *group, const struct journal_members *members)
{
    if (members->count != group->config->engines_count) {
        return false;
    }
    for (uint32_t i = 0; i < members->count; i++) {
        const char *now = group->engines[i].facts.incarnation;
        if (now[0] == '\0' || strcmp(now, members->incarnations[i]) != 0) {
            return false;
        }
    }
    return true;
}

bool flow_all_resident(const struct group *group, const char *digest)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (digest[0] == '\0' || strcmp(group->engines[i].resident, digest) != 0) {
            return false;
        }
    }
    return true;
}

void flow_serve(struct agent *agent, struct group *group)
{
    group->deadline_ns = AGENT_NEVER;
    group->closed_ns = 0;
    group->recovering = false;
    group->serving_since_ns = agent->now_ns;
    group->message[0] = '\0';
    group->blocked = "";
    group->changed = true;
    phase_enter(agent, group, PHASE_SERVING);
}

/* The same incarnations as in the journal, and no call since that could have changed them:
 * residents are what the journal says, until they are read back. */
void flow_trust(struct group *group, const struct agent_version *version)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        memcpy(engine->resident, version->digest, sizeof engine->resident);
        engine->level = group->ledger->level;
        engine->unproved = engine->facts.way_in == AGENT_WAY_IN_PLUGIN;
    }
}

bool flow_all_gates_open(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct agent_engine_facts *facts = &group->engines[i].facts;
        if (facts->guarded && facts->gate != AGENT_GATE_OPEN) {
            return false;
        }
    }
    return true;
}

/* The agent died between INTENT and COMMIT.  A call may have been on its way: the plug-in's fence
 * makes it void; without the plug-in flow_out() sees to it that the incarnation is not used any more. */
static void recover_intent(struct agent *agent, struct group *group)
{
    if (MUTANT(RECOVERY_TRUSTS) && !group->ledger->ticket.rejoin) {
        flow_trust(group, &group->ledger->committed);
        flow_reopen(agent, group, AGENT_OUTCOME_APPLY_FAILED);
        return;
    }
    bool fenced = true;
    group_trouble(group, "the agent was restarted while weights were changing");
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        engine->touched = true;
        engine->restored = false;
        fenced &= engine->facts.way_in == AGENT_WAY_IN_PLUGIN;
    }
    if (fenced && !group->ledger->ticket.rejoin && !flow_barrier_binds(group)) {
        flow_restore(agent, group);
    } else {
        flow_out(agent, group);
    }
}

/* Rule 1: the accepted ticket of an earlier life gets its outcome, by how far the journal came. */
static void recover(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    bool fits = ledger->ticket_committed || ledger->ticket.rejoin ||
                agent_version_equal(&ledger->committed, &ledger->ticket.from);
    if (!fits || !flow_same_incarnations(group, &ledger->ticket_members)) {
        group_trouble(group, fits ? "an engine was restarted while a swap was open"
                                  : "the journal's open swap does not start from its last COMMIT");
        flow_out(agent, group);
    } else if (flow_barrier_binds(group) && (ledger->ticket_committed || ledger->step == 0)) {
        group_trouble(group, "in doubt: the agent was restarted while it waited in a barrier");
        flow_out(agent, group);
    } else if (ledger->ticket_committed) {
        flow_trust(group, &ledger->committed);
        group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
        flow_resume(agent, group);
    } else if (ledger->step > 0 && ledger->live && flow_is_live(group)) {
        flow_live_recover(agent, group);
    } else if (ledger->step > 0) {
        recover_intent(agent, group);
    } else if (ledger->ticket.rejoin) {
        group_trouble(group, "the agent was restarted before anything was changed");
        flow_out(agent, group);
    } else {
        flow_trust(group, &ledger->committed);
        group_trouble(group, "the agent was restarted before any weight was touched");
        flow_reopen(agent, group, AGENT_OUTCOME_PAUSE_TIMEOUT);
    }
}

/* Rule 10: a swap may have ended after COMMIT with a label that was not written, behind open gates. */
static bool is_labelled_otherwise(const struct group *group)
{
    char label[BATON_NAME_BYTES];
    bool otherwise = false;
    text_print(label, sizeof label, "%llu", (unsigned long long)group->ledger->committed.seq);
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const char *shown = group->engines[i].facts.label;
        bool none = shown[0] == '\0' || strcmp(shown, "-") == 0;
        otherwise |= !none && strcmp(shown, label) != 0;
    }
    return otherwise;
}

/* An agent's restart disturbs nobody: what serves by the journal goes on serving. */
static void decide(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    if (member_follows(group)) {
        member_decide(agent, group);
        return;
    }
    if (ledger->open) {
        recover(agent, group);
        return;
    }
    group->deadline_ns = AGENT_NEVER;
    bool known = ledger->committed.seq != 0 && !ledger->needs_ticket &&
                 flow_same_incarnations(group, &ledger->members);
    if (known && flow_all_gates_open(group) && peers_serve(group) &&
        !is_labelled_otherwise(group)) {
        flow_trust(group, &ledger->committed);
        flow_serve(agent, group);
    } else {
        phase_enter(agent, group, PHASE_SHUT);
    }
}

static void name_missing(struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        if (engine->needs_recreate) {
            group_trouble(group, "engine %s must be recreated", engine->config->name);
        } else if (!engine->known) {
            group_trouble(group, "engine %s cannot be reached at %s", engine->config->name,
                          engine->config->endpoint);
        }
    }
    peers_name_missing(group);
}

void flow_attach_wait(struct agent *agent, struct group *group)
{
    bool recreate = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        recreate |= group->engines[i].needs_recreate;
    }
    bool gathered = !recreate && flow_gather(agent, group);
    group->in_doubt = resolve_is_needed(group);
    if (gathered && !group->in_doubt) {
        decide(agent, group);
    } else if (recreate || group->in_doubt || agent->now_ns >= group->deadline_ns) {
        name_missing(group);
        flow_out(agent, group);
    }
}

void flow_join(struct agent *agent, struct group *group)
{
    group->message[0] = '\0';
    group->changed = true;
    if (flow_sleep_doubted(agent, group)) {
        return;
    }
    if (member_follows(group)) {
        phase_enter(agent, group, PHASE_MEMBER_SHUT);
        return;
    }
    if (flow_join_asleep(agent, group)) {
        return;
    }
    if (group->goal.drain) {
        flow_drain_shut(agent, group);
        return;
    }
    if (!peers_have(group, group->goal.target.digest) || group->goal.target.seq == 0 ||
        !landings_has(&agent->landings, group->goal.target.digest)) {
        phase_enter(agent, group, PHASE_AWAIT_TARGET);
        return;
    }
    group->compared = group->goal.target;
    phase_enter(agent, group, PHASE_COMPARE);
}

void flow_compare_ended(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    group->message[0] = '\0';
    if (group->goal.drain || flow_wants_sleep(group) ||
        !agent_version_equal(&group->compared, &group->goal.target)) {
        flow_join(agent, group);
    } else if (MUTANT(JOIN_TRUSTS) && ledger->committed.seq != 0) {
        flow_trust(group, &ledger->committed);
        group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
        flow_resume(agent, group);
    } else if (flow_all_resident(group, group->compared.digest) && !ledger->needs_ticket &&
               agent_version_equal(&ledger->committed, &group->compared) &&
               flow_same_incarnations(group, &ledger->members) && peers_agree(group)) {
        group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
        flow_resume(agent, group);
    } else {
        phase_enter(agent, group, PHASE_AWAIT_TICKET);
    }
}

static void show_blocked(struct group *group, const char *blocked, const char *message)
{
    if (strcmp(group->blocked, blocked) != 0 || strcmp(group->message, message) != 0) {
        group->blocked = blocked;
        text_print(group->message, sizeof group->message, "%s", message);
        group->changed = true;
    }
}

static void show_trouble(struct group *group, const struct landing *row)
{
    show_blocked(group, row->no_room ? "NO_MEMORY" : "STAGE_FAILED", row->trouble);
}

static void show_member(struct group *group)
{
    const struct peer *peer = peers_cannot_land(group);
    char why[BATON_TEXT_BYTES];
    text_print(why, sizeof why, "member %s: %.150s", peer->config->agent, peer->state.message);
    show_blocked(group,
                 strcmp(peer->state.blocked, "NO_MEMORY") == 0             ? "NO_MEMORY"
                 : strcmp(peer->state.blocked, "INCOMPATIBLE_LAYOUT") == 0 ? "INCOMPATIBLE_LAYOUT"
                                                                           : "STAGE_FAILED",
                 why);
}

static void show_landing(const struct agent *agent, struct group *group)
{
    const struct landing *row = landings_find(&agent->landings, group->goal.target.digest);
    if (group->goal.target.seq == 0) {
        show_blocked(group, "NO_VERSION", "no version was published for it");
    } else if (row != NULL && row->backoff.failures >= LANDING_TRIES) {
        show_trouble(group, row);
    } else if (peers_cannot_land(group) != NULL) {
        show_member(group);
    } else {
        show_blocked(group, "STAGING", "its target is being landed");
    }
}

void flow_ticket_wait(struct agent *agent, struct group *group)
{
    flow_look(agent, group);
    if (group->entered) {
        return;
    }
    if (group->goal.drain || flow_wants_sleep(group)) {
        flow_join(agent, group);
        return;
    }
    if (group->offered && tickets_consider(agent, group)) {
        return;
    }
    bool landed = group->goal.target.seq != 0 &&
                  landings_has(&agent->landings, group->goal.target.digest) &&
                  peers_have(group, group->goal.target.digest);
    bool compared = group->phase == PHASE_AWAIT_TICKET &&
                    agent_version_equal(&group->compared, &group->goal.target);
    if (!landed) {
        show_landing(agent, group);
    } else if (!compared) {
        flow_join(agent, group);
    } else if (!operate_rejoin(agent, group)) {
        show_blocked(group, "", "waits for a rejoin ticket");
    }
}

/* Reads back what is served on the journal's word, once its bytes are here. */
static void prove(struct agent *agent, struct group *group)
{
    if (!landings_has(&agent->landings, group->ledger->committed.digest)) {
        return;
    }
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        struct engine *engine = &group->engines[i];
        if (engine->unproved && ops_is_idle(engine)) {
            engine->unproved = false;
            ops_start_aside(agent, engine, AGENT_OP_READBACK);
        }
    }
}

/* Somebody else wrote the page.  Residents are as verified, so the gate is opened again. */
static bool reopen_stray_gate(struct agent *agent, struct group *group)
{
    if (flow_all_gates_open(group)) {
        return false;
    }
    group_note(agent, group, true, "GateClosed", "a gate was found closed; it is opened again");
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    phase_enter(agent, group, PHASE_OPEN_REST);
    return true;
}

/* A pause that came to work after its swap had given up, or the agent's restart between: the engine
 * would serve nobody. */
static bool resume_stray_pause(struct agent *agent, struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        const struct engine *engine = &group->engines[i];
        if (engine->facts.paused) {
            group_note(agent, group, true, "EnginePaused",
                       "engine %s was found paused; it is resumed", engine->config->name);
            group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
            phase_enter(agent, group, PHASE_RESUME);
            return true;
        }
    }
    return false;
}

static void forget_old_troubles(const struct agent *agent, struct group *group)
{
    if (agent->now_ns - group->serving_since_ns < agent->config.times.steady) {
        return;
    }
    baton_backoff_reset(&group->rest);
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        group->engines[i].attempts = 0;
        group->engines[i].failures = 0;
        baton_backoff_reset(&group->engines[i].backoff);
    }
}

static void show_staging(const struct agent *agent, struct group *group)
{
    const struct landing *row = landings_find(&agent->landings, group->goal.stage.digest);
    const struct ledger_group *ledger = group->ledger;
    bool staged = group->goal.stage.seq != 0 && row != NULL;
    if (staged && agent_group_is_unfit(group, row->goal.version.digest)) {
        show_blocked(group, "INCOMPATIBLE_LAYOUT", group->unfit_message);
    } else if (staged && row->state != LANDING_HERE && row->backoff.failures >= LANDING_TRIES) {
        show_trouble(group, row);
    } else if (staged && peers_cannot_land(group) != NULL) {
        show_member(group);
    } else if (staged && row->state == LANDING_HERE && peers_can_restore(group) != true) {
        show_blocked(group, "NO_RESTORE_SOURCE",
                     "a member has not landed the version that the group serves");
    } else if (staged && row->state == LANDING_HERE &&
               !tickets_can_restore(agent, group, &ledger->committed)) {
        show_blocked(
            group, "NO_RESTORE_SOURCE",
            "the version that it serves is not landed and not its engines' boot checkpoint");
    } else {
        show_blocked(group, "", "");
    }
}

void flow_serving_wait(struct agent *agent, struct group *group)
{
    forget_old_troubles(agent, group);
    flow_look(agent, group);
    if (group->entered || reopen_stray_gate(agent, group) || resume_stray_pause(agent, group)) {
        return;
    }
    if (flow_wants_sleep(group) && !member_follows(group)) { /* Else its leader says when. */
        flow_sleep(agent, group);
        return;
    }
    if (group->goal.drain) {
        flow_drain(agent, group);
        return;
    }
    if (group->offered && tickets_consider(agent, group)) {
        return;
    }
    prove(agent, group);
    show_staging(agent, group);
}
