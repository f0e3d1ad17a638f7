/* flow_sleep.c -- colocated training wants the device: gates shut, engines asleep, and back; see flow.h.
 *
 * What sleeps has no weights any more, whatever it says: FALLING is durable before the first engine is
 * told, and from then on only a rejoin ticket, which brings the weights and verifies them, opens a gate.
 * Sleep and wake are no calls of the plug-in and carry no fence: one without an answer rules out
 * that incarnation (rule 2), also one of an earlier life of the agent. */
#include <string.h>

#include "agent/core/flow.h"
#include "agent/core/member.h"
#include "agent/core/ops.h"
#include "agent/core/tickets.h"
#include "api/base/mutant.h"

bool flow_wants_sleep(const struct group *group)
{
    enum journal_sleep mark = group->ledger->sleep;
    /* Until somebody says what the group should do, it stays as it is. */
    return group->goal.given ? group->goal.sleep
                             : mark == JOURNAL_SLEEP_FALLING || mark == JOURNAL_SLEEP_ASLEEP;
}

void flow_sleep_mark(struct agent *agent, struct group *group, enum journal_sleep mark)
{
    struct journal_record record = group_record(group, JOURNAL_SLEEP);
    record.sleep.mark = mark;
    record.sleep.members = flow_members(group);
    agent_write(agent, &record);
    group->sleep_doubt = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        group->engines[i].resident[0] = '\0';
        group->engines[i].level = AGENT_LEVEL_NONE;
        group->engines[i].unproved = false;
    }
    group->changed = true;
}

void flow_sleep(struct agent *agent, struct group *group)
{
    group_note(agent, group, false, "FallsAsleep", "its gate is shut, then its engines sleep");
    group->message[0] = '\0';
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    phase_enter(agent, group, PHASE_SLEEP_SHUT);
}

void flow_sleep_shut(struct agent *agent, struct group *group)
{
    group->message[0] = '\0';
    group->blocked = "GROUP_ASLEEP";
    group->deadline_ns =
        agent->now_ns + group->goal.sleep_drain_ns + agent->config.times.restore_bound;
    flow_sleep_mark(agent, group, JOURNAL_SLEEP_FALLING);
    phase_enter(agent, group, PHASE_SLEEP);
}

static void show(struct group *group, const char *text)
{
    if (strcmp(group->message, text) != 0 || strcmp(group->blocked, "GROUP_ASLEEP") != 0) {
        text_print(group->message, sizeof group->message, "%s", text);
        group->blocked = "GROUP_ASLEEP";
        group->changed = true;
    }
}

/* The first one; null: none. */
static const struct engine *left_dead(const struct group *group)
{
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        if (flow_is_left_dead(group, &group->engines[i])) {
            return &group->engines[i];
        }
    }
    return NULL;
}

static void rest(struct agent *agent, struct group *group)
{
    char text[BATON_TEXT_BYTES] = "asleep: its engines released their memory";
    const struct engine *dead = left_dead(group);
    if (dead != NULL) {
        text_print(text, sizeof text,
                   "asleep: memory is released; the process of engine %s has ended and starts when "
                   "it is woken",
                   dead->config->name);
    }
    group->message[0] = '\0';
    show(group, text);
    group->deadline_ns = AGENT_NEVER;
    phase_enter(agent, group, PHASE_ASLEEP);
}

void flow_slept(struct agent *agent, struct group *group)
{
    flow_sleep_mark(agent, group, JOURNAL_SLEEP_ASLEEP);
    group_note(agent, group, false, "Asleep", "all its engines released their memory");
    rest(agent, group);
}

/* An engine that said no is awake, or partly so: it is asked again later, behind shut gates. */
void flow_sleep_failed(struct agent *agent, struct group *group)
{
    char why[BATON_TEXT_BYTES];
    if (MUTANT(SLEEP_BELIEVED)) {
        flow_slept(agent, group);
        return;
    }
    text_print(why, sizeof why, "does not sleep: %.180s", group->message);
    group_note(agent, group, true, "SleepFailed", "%s", why);
    show(group, why);
    group->deadline_ns = AGENT_NEVER;
    group->rest_until_ns = agent->now_ns + baton_backoff_next_ns(&group->rest, &agent->random);
    phase_enter(agent, group, PHASE_SLEEPLESS);
}

static bool is_disturbed(struct agent *agent, struct group *group)
{
    flow_look(agent, group);
    if (group->entered) {
        return true;
    }
    if (group->offered) {
        tickets_refuse_offer(agent, group, "the group is asleep");
    }
    if (!flow_wants_sleep(group)) {
        flow_wake(agent, group);
        return true;
    }
    return false;
}

void flow_asleep_wait(struct agent *agent, struct group *group)
{
    (void)is_disturbed(agent, group);
}

void flow_sleepless_wait(struct agent *agent, struct group *group)
{
    if (!is_disturbed(agent, group) && agent->now_ns >= group->rest_until_ns) {
        flow_sleep(agent, group);
    }
}

void flow_wake(struct agent *agent, struct group *group)
{
    group_note(agent, group, false, "Wakes", "its engines get their memory back, then its weights");
    group->message[0] = '\0';
    group->blocked = "";
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    flow_sleep_mark(agent, group, JOURNAL_SLEEP_WAKING);
    phase_enter(agent, group, PHASE_WAKE);
}

/* From here on it is as any group whose residents are in doubt: COMMIT alone ends that. */
void flow_woken(struct agent *agent, struct group *group)
{
    flow_sleep_mark(agent, group, JOURNAL_SLEEP_AWAKE);
    if (MUTANT(WAKE_TRUSTS)) {
        flow_trust(group, &group->ledger->committed);
        group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
        flow_resume(agent, group);
        return;
    }
    group->deadline_ns = agent->now_ns + agent->config.times.restore_bound;
    phase_enter(agent, group, PHASE_SHUT);
}

/* The agent died while it had told engines to sleep or to wake: such a call may still be under way in
 * an incarnation of then. */
static bool taint_doubted(struct agent *agent, struct group *group)
{
    const struct journal_members *members = &group->ledger->sleep_members;
    bool doubted = false;
    for (uint32_t i = 0; i < group->config->engines_count && i < members->count; i++) {
        struct engine *engine = &group->engines[i];
        if (members->incarnations[i][0] != '\0' &&
            strcmp(engine->facts.incarnation, members->incarnations[i]) == 0) {
            group_trouble(group, "the agent was restarted while engines fell asleep or woke up");
            flow_taint(agent, group, engine);
            doubted = true;
        }
    }
    group->sleep_doubt = false;
    return doubted;
}

bool flow_sleep_doubted(struct agent *agent, struct group *group)
{
    if (!group->sleep_doubt || !taint_doubted(agent, group)) {
        return false;
    }
    flow_out(agent, group);
    return true;
}

/* A journal that is new knows nothing of a sleep, and a pause is all that can be seen of it. */
bool flow_may_sleep(const struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    bool paused = false;
    for (uint32_t i = 0; i < group->config->engines_count; i++) {
        paused |= group->engines[i].facts.paused;
    }
    bool told = ledger->sleep != JOURNAL_SLEEP_NONE && ledger->sleep != JOURNAL_SLEEP_AWAKE;
    return told || (ledger->committed.seq == 0 && paused);
}

bool flow_join_asleep(struct agent *agent, struct group *group)
{
    const struct ledger_group *ledger = group->ledger;
    bool slept = flow_may_sleep(group) || peers_may_sleep(group);
    if (flow_wants_sleep(group) && ledger->sleep == JOURNAL_SLEEP_ASLEEP &&
        flow_same_incarnations(group, &ledger->sleep_members) &&
        group->config->followers_count == 0) {
        rest(agent, group);
    } else if (flow_wants_sleep(group)) {
        flow_sleep_shut(agent, group);
    } else if (slept) {
        flow_wake(agent, group);
    } else {
        return false;
    }
    return true;
}
