/* landings.c -- see landings.h. */
#include "agent/core/landings.h"

#include <string.h>

#include "agent/core/state.h"
#include "api/base/mutant.h"

/* A leader's word may be here before the controller's about the same version. */
#define HINT_WAIT_NS UINT64_C(1000000000)

struct landing *landings_find(const struct landings *landings, const char *digest)
{
    for (uint32_t i = 0; i < landings->rows_max; i++) {
        struct landing *row = &landings->rows[i];
        if (row->state != LANDING_FREE && strcmp(row->goal.version.digest, digest) == 0) {
            return row;
        }
    }
    return NULL;
}

bool landings_has(const struct landings *landings, const char *digest)
{
    const struct landing *row = landings_find(landings, digest);
    return row != NULL && row->state == LANDING_HERE;
}

static struct landing *add(struct agent *agent, const char *digest, enum landing_state state)
{
    for (uint32_t i = 0; i < agent->landings.rows_max; i++) {
        struct landing *row = &agent->landings.rows[i];
        if (row->state == LANDING_FREE) {
            memset(row, 0, sizeof *row);
            row->state = state;
            row->backoff =
                baton_backoff_of(agent->config.times.retry_first, agent->config.times.retry_max);
            (void)baton_text_copy(row->goal.version.digest, sizeof row->goal.version.digest,
                                  digest);
            return row;
        }
    }
    agent_note(agent, true, "agent/landing", "TableFull",
               "the table of landed versions is full (%u); version %s is ignored",
               agent->landings.rows_max, digest);
    return NULL;
}

static void take_holders(struct landing *row, const struct agent_holder *holders, uint32_t count)
{
    row->goal.holders_count = 0;
    row->goal.holders = row->holders_kept;
    while (row->goal.holders_count < count && row->goal.holders_count < BATON_HOLDERS_MAX) {
        row->holders_kept[row->goal.holders_count] = holders[row->goal.holders_count];
        row->goal.holders_count++;
    }
}

/* For a row that no group of this agent's own has holders for; false if there is no hint. */
static bool take_hint(const struct landings *landings, struct landing *row)
{
    for (uint32_t i = 0; row->goal.holders_count == 0 && i < landings->hints_count; i++) {
        const struct landing_hint *hint = &landings->hints[i];
        if (strcmp(hint->digest, row->goal.version.digest) == 0) {
            take_holders(row, hint->holders, hint->holders_count);
            return true;
        }
    }
    return false;
}

void landings_take_hints(struct agent *agent, const struct agent_version_goal *goals,
                         uint32_t count)
{
    struct landings *landings = &agent->landings;
    landings->hints_count = 0;
    for (uint32_t i = 0; i < count && i < BATON_FOLLOWED_VERSIONS_MAX; i++) {
        struct landing_hint *hint = &landings->hints[landings->hints_count++];
        (void)baton_text_copy(hint->digest, sizeof hint->digest, goals[i].version.digest);
        hint->holders_count = goals[i].holders_count;
        for (uint32_t k = 0; k < hint->holders_count; k++) {
            hint->holders[k] = goals[i].holders[k];
        }
    }
    for (uint32_t i = 0; i < landings->rows_max; i++) {
        struct landing *row = &landings->rows[i];
        if (row->state == LANDING_WAITING && take_hint(landings, row) && row->began_ns == 0) {
            row->retry_ns = agent->now_ns;
        }
    }
}

bool landings_want(struct agent *agent, const struct agent_version_goal *goal, bool hinted)
{
    struct landing *row = landings_find(&agent->landings, goal->version.digest);
    bool fresh = false;
    if (row == NULL) {
        row = add(agent, goal->version.digest, LANDING_WAITING);
        fresh = row != NULL;
    }
    if (row == NULL) {
        return false;
    }
    row->goal = *goal;
    row->goal.sources_count = 0;
    row->goal.sources = row->sources_kept;
    while (row->goal.sources_count < goal->sources_count &&
           row->goal.sources_count < BATON_SOURCES_PER_VERSION_MAX) {
        row->sources_kept[row->goal.sources_count] = goal->sources[row->goal.sources_count];
        row->goal.sources_count++;
    }
    take_holders(row, goal->holders, goal->holders_count);
    if (hinted && !take_hint(&agent->landings, row) && fresh) {
        row->retry_ns = agent->now_ns + HINT_WAIT_NS;
    }
    return true;
}

/* Somebody may give it. */
static bool can_come(const struct landing *row)
{
    return row->goal.sources_count > 0 || row->goal.holders_count > 0;
}

void landings_allow_drop(struct landings *landings, const char (*digests)[BATON_DIGEST_TEXT_BYTES],
                         uint32_t digests_count)
{
    for (uint32_t i = 0; i < landings->rows_max; i++) {
        landings->rows[i].droppable = false;
    }
    for (uint32_t i = 0; i < digests_count; i++) {
        struct landing *row = landings_find(landings, digests[i]);
        if (row != NULL) {
            row->droppable = true;
        }
    }
}

static void on_done(struct agent *agent, struct landing *row)
{
    row->state = LANDING_HERE;
    row->took_ns = row->began_ns == 0 ? 0 : agent->now_ns - row->began_ns;
    row->trouble[0] = '\0';
    baton_backoff_reset(&row->backoff);
    agent->report_due = true;
}

static void on_failed(struct agent *agent, struct landing *row, const struct baton_status *status)
{
    row->state = LANDING_WAITING;
    row->landed_bytes = 0;
    row->retry_ns = agent->now_ns + baton_backoff_next_ns(&row->backoff, &agent->random);
    text_print(row->trouble, sizeof row->trouble, "%s", status->message);
    row->no_room = status->reason == BATON_REASON_NO_SPACE;
    agent_note(agent, true, "agent/landing", "LandingFailed", "version %llu: %s",
               (unsigned long long)row->goal.version.seq, status->message);
    agent->report_due = true;
}

void landings_on_event(struct agent *agent, const struct agent_landing_event *event)
{
    struct landing *row = landings_find(&agent->landings, event->digest);
    agent->landings.used_bytes = event->used_bytes;
    switch (event->state) {
    case AGENT_LANDING_DONE:
        row = row != NULL ? row : add(agent, event->digest, LANDING_HERE);
        if (row != NULL) {
            row->landed_bytes = event->bytes;
            on_done(agent, row);
        }
        break;
    case AGENT_LANDING_PROGRESS:
        if (row != NULL && row->state == LANDING_UNDER_WAY) {
            row->landed_bytes = event->bytes;
        }
        break;
    case AGENT_LANDING_FAILED:
        if (row != NULL && row->state == LANDING_UNDER_WAY) {
            on_failed(agent, row, &event->status);
        }
        break;
    case AGENT_LANDING_GONE:
        if (row != NULL && row->state == LANDING_HERE) {
            row->state = LANDING_WAITING;
            row->retry_ns = agent->now_ns;
            agent->report_due = true;
        }
        break;
    }
}

/* Rule 7: names that keep a version here, whatever the controller lists. */
static bool is_named(const struct group *group, const char *digest)
{
    const struct ledger_group *ledger = group->ledger;
    const char *const names[] = {
        group->goal.target.digest,
        group->goal.stage.digest,
        group->goal.restore.digest,
        ledger->committed.digest,
        ledger->open ? ledger->ticket.from.digest : "",
        ledger->open ? ledger->ticket.to.digest : "",
        group->offered ? group->offer.to.digest : "",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], digest) == 0) {
            return true;
        }
    }
    return false;
}

static void start(struct agent *agent, struct landing *row)
{
    row->state = LANDING_UNDER_WAY;
    row->landed_bytes = 0;
    if (row->began_ns == 0) {
        row->began_ns = agent->now_ns;
    }
    agent_push(agent, AGENT_ACTION_LAND)->land = &row->goal;
}

/* The action outlives the row, so its digest is copied. */
static void let_go(struct agent *agent, struct landing *row, enum agent_action_kind kind)
{
    char *digest = agent_scratch(agent, BATON_DIGEST_TEXT_BYTES, 1);
    memcpy(digest, row->goal.version.digest, BATON_DIGEST_TEXT_BYTES);
    agent_push(agent, kind)->digest = digest;
    memset(row, 0, sizeof *row);
    agent->report_due = true;
}

static void advance_row(struct agent *agent, struct landing *row)
{
    row->wanted = false;
    for (uint32_t i = 0; i < agent->config.groups_count; i++) {
        row->wanted |= is_named(&agent->groups[i], row->goal.version.digest);
    }
    bool spare = row->droppable && (!row->wanted || MUTANT(DROP_NAMED));
    if (row->state == LANDING_HERE && (spare || MUTANT(DROP_NAMED))) {
        let_go(agent, row, AGENT_ACTION_DROP);
    } else if (row->state == LANDING_UNDER_WAY && !row->wanted) {
        let_go(agent, row, AGENT_ACTION_LAND_CANCEL);
    } else if (row->state == LANDING_WAITING && !row->wanted) {
        memset(row, 0, sizeof *row);
    } else if (row->state == LANDING_WAITING && row->retry_ns <= agent->now_ns && can_come(row)) {
        start(agent, row);
    }
}

void landings_advance(struct agent *agent)
{
    if (agent->shutting_down) {
        return;
    }
    for (uint32_t i = 0; i < agent->landings.rows_max; i++) {
        if (agent->landings.rows[i].state != LANDING_FREE) {
            advance_row(agent, &agent->landings.rows[i]);
        }
    }
}

uint64_t landings_deadline_ns(const struct landings *landings)
{
    uint64_t deadline = AGENT_NEVER;
    for (uint32_t i = 0; i < landings->rows_max; i++) {
        const struct landing *row = &landings->rows[i];
        if (row->state == LANDING_WAITING && can_come(row) && row->retry_ns < deadline) {
            deadline = row->retry_ns;
        }
    }
    return deadline;
}
