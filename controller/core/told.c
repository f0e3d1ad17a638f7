/* told.c -- what an agent tells, looked at before anything is changed by it.
 *
 * Nobody counts to TOLD_MAX: a higher number is a damaged or a hostile message, and what is counted on from it would come
 * round.  Our own numbers are believed however high, else an agent that told TOLD_MAX would lock out all that are told what
 * comes after it.
 *
 * An agent speaks for itself and its groups: floors of other models and events about other objects are not taken from it. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

#define TOLD_MAX (UINT64_C(1) << 62)

struct told_number {
    const char *field;
    uint64_t told;
    uint64_t ours; /* That we know already; 0: none. */
};

static struct baton_status check_numbers(const char *whose, const struct told_number *numbers,
                                         size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t most = numbers[i].ours > TOLD_MAX ? numbers[i].ours : TOLD_MAX;
        if (numbers[i].told > most) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                     "%s%s: %llu is above 2^62: nobody counts so far", whose,
                                     numbers[i].field, (unsigned long long)numbers[i].told);
        }
    }
    return baton_status_ok();
}
#define CHECK_NUMBERS(whose, numbers)                                                              \
    check_numbers((whose), (numbers), sizeof(numbers) / sizeof((numbers)[0]))

/* Highest seq of the model that we know of. */
static uint64_t floor_of(const struct controller *core, const char *model)
{
    const struct model *found = model_find(core, model);
    return found == NULL ? 0 : found->r.seq_floor;
}

static struct baton_status bad_report(const struct group_report *report, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "report of group %.63s: %s", report->group, what);
}

static struct baton_status check_group_numbers(const struct controller *core,
                                               const struct group_report *report)
{
    char whose[BATON_TEXT_BYTES];
    const struct group *group = group_find(core, report->group);
    uint64_t floor = floor_of(core, report->model);
    uint64_t committed = group == NULL ? 0 : group->r.committed_seq;
    const struct told_number numbers[] = {
        { "committed_seq", report->committed_seq, committed > floor ? committed : floor },
        { "staging_seq", report->staging_seq, floor },
        { "staged_bytes", report->staged_bytes, 0 },
        { "highest_ticket", report->highest_ticket, group == NULL ? 0 : group->r.ticket_number },
        { "owner_term", report->owner_term, group == NULL ? 0 : group->r.owner_term },
        { "committed_version.bytes", report->told == NULL ? 0 : report->told->bytes, 0 },
    };
    text_format(whose, sizeof(whose), "report of group %s: ", report->group);
    return CHECK_NUMBERS(whose, numbers);
}

struct baton_status told_check_group(const struct controller *core,
                                     const struct group_report *report)
{
    if (!text_is_name(report->group)) {
        return bad_report(report, "group: not a name");
    }
    if (!text_is_name(report->model)) {
        return bad_report(report, "model: not a name");
    }
    bool state_known = words_get(&words_group_state, (uint32_t)report->state)[0] != '\0';
    if (!state_known || report->state == GROUP_STATE_UNKNOWN ||
        report->state == GROUP_STATE_RETIRED) {
        return bad_report(report, "state: not one that an agent reports");
    }
    if (report->committed_seq != 0 && !text_is_digest(report->committed_digest)) {
        return bad_report(report, "committed_digest: not 32 hexadecimal digits");
    }
    if (report->engines_count > BATON_ENGINES_PER_GROUP_MAX) {
        return bad_report(report, "engines: more than 16");
    }
    return check_group_numbers(core, report);
}

static struct baton_status check_phases(const char *whose, const struct swap_phases *phases)
{
    const struct told_number numbers[] = {
        { "record.phases.queue_ns", phases->queue_ns, 0 },
        { "record.phases.stage_ns", phases->stage_ns, 0 },
        { "record.phases.pause_ns", phases->pause_ns, 0 },
        { "record.phases.apply_ns", phases->apply_ns, 0 },
        { "record.phases.finalize_ns", phases->finalize_ns, 0 },
        { "record.phases.verify_ns", phases->verify_ns, 0 },
        { "record.phases.invalidate_ns", phases->invalidate_ns, 0 },
        { "record.phases.commit_ns", phases->commit_ns, 0 },
        { "record.phases.label_ns", phases->label_ns, 0 },
        { "record.phases.probe_ns", phases->probe_ns, 0 },
        { "record.phases.open_ns", phases->open_ns, 0 },
        { "record.phases.shut_ns", phases->shut_ns, 0 },
        { "record.phases.engine_ns", phases->engine_ns, 0 },
        { "record.phases.journal_ns", phases->journal_ns, 0 },
        { "record.phases.barrier_ns", phases->barrier_ns, 0 },
    };
    return CHECK_NUMBERS(whose, numbers);
}

struct baton_status told_check_outcome(const struct controller *core,
                                       const struct ticket_outcome *outcome)
{
    char whose[BATON_TEXT_BYTES];
    const struct group *group = group_find(core, outcome->group);
    uint64_t floor = group == NULL ? 0 : floor_of(core, group->r.model);
    const struct told_number numbers[] = {
        { "committed_seq", outcome->committed_seq, floor },
        { "epoch.generation", outcome->epoch.generation, core->epoch.generation },
        { "epoch.n", outcome->epoch.n, core->epoch.n },
        { "record.ticket_number", outcome->record.ticket_number,
          group == NULL ? 0 : group->r.ticket_number },
        { "record.from_seq", outcome->record.from_seq, floor },
        { "record.to_seq", outcome->record.to_seq, floor },
        { "record.bytes", outcome->record.bytes, 0 },
    };
    text_format(whose, sizeof(whose), "outcome of group %.63s: ", outcome->group);
    struct baton_status st = CHECK_NUMBERS(whose, numbers);
    if (baton_ok(&st) && outcome->committed_seq != 0 &&
        !text_is_digest(outcome->committed_digest)) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                               "%scommitted_digest: not 32 hexadecimal digits", whose);
    }
    return baton_ok(&st) ? check_phases(whose, &outcome->record.phases) : st;
}

struct baton_status told_check_hello(const struct controller *core,
                                     const struct session_hello *hello)
{
    const struct told_number numbers[] = {
        { "highest_epoch.generation", hello->highest_epoch.generation, core->epoch.generation },
        { "highest_epoch.n", hello->highest_epoch.n, core->epoch.n },
    };
    struct baton_status st = CHECK_NUMBERS("", numbers);
    for (size_t i = 0; baton_ok(&st) && i < hello->floors_count; i++) {
        const struct seq_floor *floor = &hello->floors[i];
        const struct told_number seq[] = { { "seq", floor->seq, floor_of(core, floor->model) } };
        char whose[BATON_TEXT_BYTES];
        text_format(whose, sizeof(whose), "seq_floors of model %.63s: ", floor->model);
        st = CHECK_NUMBERS(whose, seq);
    }
    return st;
}

bool told_has_model(const struct controller *core, const struct session_hello *hello,
                    const char *model)
{
    const struct agent *agent = agent_find(core, hello->agent);
    bool has = false;
    for (size_t i = 0; !has && i < hello->groups_count; i++) {
        has = text_equal(hello->groups[i].model, model);
    }
    for (uint32_t i = 0; !has && agent != NULL && i < agent->groups_count; i++) {
        has = text_equal(agent->groups[i]->r.model, model);
    }
    return has;
}

/* It leads the group, or its leader says that it drives one of the engines. */
static bool has_part_in(const struct agent *agent, const struct group *group)
{
    bool has = text_equal(group->r.agent, agent->r.name);
    for (uint32_t i = 0; !has && group->known && i < group->live.engines_count; i++) {
        has = text_equal(group->engines[i].agent, agent->r.name);
    }
    return has;
}

/* "group/NAME" of one of its groups. */
static bool is_own_group(const struct controller *core, const struct agent *agent,
                         const char *object)
{
    static const char kind[] = "group/";
    if (text_is_empty(object) || strncmp(object, kind, sizeof(kind) - 1) != 0) {
        return false;
    }
    const struct group *group = group_find(core, object + sizeof(kind) - 1);
    return group != NULL && has_part_in(agent, group);
}

void told_log(struct controller *core, const struct agent *agent,
              const struct session_report *report)
{
    struct object_ref ref = ref_agent(agent);
    char self[BATON_TEXT_BYTES];
    text_format(self, sizeof(self), "agent/%s", agent->r.name);
    size_t kept =
        report->events_count < TOLD_EVENTS_MAX ? report->events_count : (size_t)TOLD_EVENTS_MAX;
    for (size_t i = 0; i < kept; i++) {
        struct agent_event event = report->events[i];
        event.object = is_own_group(core, agent, event.object) ? event.object : self;
        log_foreign(core, &event, agent->r.name);
    }
    if (kept < report->events_count) {
        log_warn(core, &ref, "EventsLeftOut",
                 "%zu events of one report were left out: at most %d are taken",
                 report->events_count - kept, TOLD_EVENTS_MAX);
    }
}
