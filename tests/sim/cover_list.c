/* cover_list.c -- what a run must have reached, and why some of it cannot be.
 *
 * To add: nothing for a verb, a disturbance, a blocked reason (they are counted by their tables); an
 * excuse needs its reason in words. */
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"
#include "tests/sim/peek.h"
#include "tests/sim/plan.h"
#include "tests/sim/verbs.h"

struct excuse {
    enum cover_kind kind;
    uint32_t value;
    const char *why;
};

static const struct excuse excuses[] = {
    { COVER_BLOCKED, BLOCKED_NO_TRANSPORT, "all sources of a world can be reached" },
    { COVER_BLOCKED, BLOCKED_STORE_UNAVAILABLE, "while the store is away nobody can ask" },
    { COVER_BLOCKED, BLOCKED_ENGINE_UNGUARDED,
      "an unguarded group is advisory; it is not blocked" },
    { COVER_SAMPLE, SAMPLE_UNIT_UNKNOWN, "the bound of every policy is in publishes" },
    { COVER_OUTCOME, AGENT_OUTCOME_NONE, "it is no outcome" },
    { COVER_JOURNAL, 0, "it is no kind" },
};

static const char *excuse_of(enum cover_kind kind, uint32_t value)
{
    for (size_t i = 0; i < sizeof(excuses) / sizeof(excuses[0]); i++) {
        if (excuses[i].kind == kind && excuses[i].value == value) {
            return excuses[i].why;
        }
    }
    return NULL;
}

struct report {
    FILE *out;
    bool all;
    uint32_t missing;
};

static void look(struct report *report, enum cover_kind kind, uint32_t value, const char *what,
                 const char *name)
{
    uint64_t count = cover_counters()[(uint32_t)kind * COVER_VALUES + value];
    const char *excuse = excuse_of(kind, value);
    if (count == 0 && excuse == NULL) {
        fprintf(report->out, "never reached: %s %s\n", what, name);
        report->missing++;
    } else if (count > 0 && excuse != NULL) {
        fprintf(report->out, "reached, and has an excuse: %s %s: %s\n", what, name, excuse);
        report->missing++;
    } else if (report->all && count == 0) {
        fprintf(report->out, "%12s  %s %s: %s\n", "-", what, name, excuse);
    } else if (report->all) {
        fprintf(report->out, "%12llu  %s %s\n", (unsigned long long)count, what, name);
    }
}

static void look_words(struct report *report, enum cover_kind kind, const struct word_table *table,
                       uint32_t first, const char *what)
{
    for (uint32_t i = first; i < table->count; i++) {
        if (words_get(table, i)[0] != '\0') {
            look(report, kind, i, what, words_get(table, i));
        }
    }
}

static void look_states(struct report *report)
{
    for (uint32_t i = 1; i < words_group_state.count; i++) {
        bool told = i != GROUP_STATE_UNKNOWN && i != GROUP_STATE_RETIRED;
        if (told && words_get(&words_group_state, i)[0] != '\0') {
            look(report, COVER_GROUP_STATE, i, "state", words_get(&words_group_state, i));
        }
    }
}

/* The design's table of states (3), as a controller sees it: an agent tells its last state only. */
static const enum group_state transitions[][2] = {
    { GROUP_STATE_UNKNOWN, GROUP_STATE_JOINING },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_SERVING },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_STAGING },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_STAGED },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_STAGE_FAILED },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_PAUSING },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_APPLYING },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_RESUMING },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_OUT },
    { GROUP_STATE_UNKNOWN, GROUP_STATE_ASLEEP },
    { GROUP_STATE_JOINING, GROUP_STATE_UNKNOWN },
    { GROUP_STATE_JOINING, GROUP_STATE_SERVING },
    { GROUP_STATE_JOINING, GROUP_STATE_PAUSING },
    { GROUP_STATE_JOINING, GROUP_STATE_RESUMING },
    { GROUP_STATE_JOINING, GROUP_STATE_OUT },
    { GROUP_STATE_JOINING, GROUP_STATE_ASLEEP },
    { GROUP_STATE_SERVING, GROUP_STATE_UNKNOWN },
    { GROUP_STATE_SERVING, GROUP_STATE_JOINING },
    { GROUP_STATE_SERVING, GROUP_STATE_STAGING },
    { GROUP_STATE_SERVING, GROUP_STATE_STAGED },
    { GROUP_STATE_SERVING, GROUP_STATE_STAGE_FAILED },
    { GROUP_STATE_SERVING, GROUP_STATE_OUT },
    { GROUP_STATE_STAGING, GROUP_STATE_JOINING },
    { GROUP_STATE_STAGING, GROUP_STATE_STAGED },
    { GROUP_STATE_STAGING, GROUP_STATE_STAGE_FAILED },
    { GROUP_STATE_STAGING, GROUP_STATE_OUT },
    { GROUP_STATE_STAGED, GROUP_STATE_UNKNOWN },
    { GROUP_STATE_STAGED, GROUP_STATE_JOINING },
    { GROUP_STATE_STAGED, GROUP_STATE_SERVING },
    { GROUP_STATE_STAGED, GROUP_STATE_STAGING },
    { GROUP_STATE_STAGED, GROUP_STATE_STAGE_FAILED },
    { GROUP_STATE_STAGED, GROUP_STATE_PAUSING },
    { GROUP_STATE_STAGED, GROUP_STATE_OUT },
    { GROUP_STATE_STAGE_FAILED, GROUP_STATE_JOINING },
    { GROUP_STATE_STAGE_FAILED, GROUP_STATE_SERVING },
    { GROUP_STATE_STAGE_FAILED, GROUP_STATE_STAGING },
    { GROUP_STATE_STAGE_FAILED, GROUP_STATE_STAGED },
    { GROUP_STATE_PAUSING, GROUP_STATE_JOINING },
    { GROUP_STATE_PAUSING, GROUP_STATE_APPLYING },
    { GROUP_STATE_PAUSING, GROUP_STATE_RESTORING },
    { GROUP_STATE_PAUSING, GROUP_STATE_OUT },
    { GROUP_STATE_APPLYING, GROUP_STATE_JOINING },
    { GROUP_STATE_APPLYING, GROUP_STATE_RESUMING },
    { GROUP_STATE_APPLYING, GROUP_STATE_RESTORING },
    { GROUP_STATE_APPLYING, GROUP_STATE_OUT },
    { GROUP_STATE_RESUMING, GROUP_STATE_SERVING },
    { GROUP_STATE_RESUMING, GROUP_STATE_STAGED },
    { GROUP_STATE_RESUMING, GROUP_STATE_OUT },
    { GROUP_STATE_RESTORING, GROUP_STATE_STAGED },
    { GROUP_STATE_RESTORING, GROUP_STATE_OUT },
    { GROUP_STATE_OUT, GROUP_STATE_UNKNOWN },
    { GROUP_STATE_OUT, GROUP_STATE_JOINING },
    { GROUP_STATE_OUT, GROUP_STATE_SERVING },
    { GROUP_STATE_OUT, GROUP_STATE_ASLEEP },
    { GROUP_STATE_ASLEEP, GROUP_STATE_JOINING },
};

static void look_transitions(struct report *report)
{
    for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%s -> %s",
                       words_get(&words_group_state, transitions[i][0]),
                       words_get(&words_group_state, transitions[i][1]));
        look(report, COVER_TRANSITION, transitions[i][0] * COVER_STATES + transitions[i][1],
             "transition", name);
    }
}

/* A phase is reached when it was entered from any other one. */
static void look_phases(struct report *report)
{
    for (uint32_t to = 1; to < peek_phases(); to++) {
        uint64_t count = 0;
        for (uint32_t from = 0; from < peek_phases(); from++) {
            count += cover_counters()[COVER_PHASE * COVER_VALUES + from * 64 + to];
        }
        if (count == 0) {
            fprintf(report->out, "never reached: phase %s\n", peek_phase_name(to));
            report->missing++;
        }
    }
}

static void look_tables(struct report *report)
{
    for (uint32_t i = 0; i < verbs_count(); i++) {
        look(report, COVER_VERB, i, "verb", verbs_at(i)->name);
    }
    look(report, COVER_VERB, verbs_count(), "verb", "publish");
    for (uint32_t i = 0; i < plan_kinds(); i++) {
        look(report, COVER_FATE, i, "disturbance", plan_name(i));
    }
    for (uint32_t i = AGENT_OUTCOME_COMMITTED; i <= AGENT_OUTCOME_OUT; i++) {
        look(report, COVER_OUTCOME, i, "outcome", agent_outcome_name((enum agent_outcome)i));
    }
    for (uint32_t i = AGENT_PEER_WATCH; i < AGENT_PEER_VERBS; i++) {
        look(report, COVER_PEER, i, "command to a member",
             agent_peer_verb_name((enum agent_peer_verb)i));
    }
    for (uint32_t i = 0; i <= AGENT_VERB_DETACH; i++) {
        look(report, COVER_OPERATE, i, "break-glass", agent_verb_name((enum agent_verb)i));
    }
    for (uint32_t i = 1; i < JOURNAL_KIND_END; i++) {
        const char *name = journal_kind_name((enum journal_kind)i);
        if (name != NULL && strcmp(name, journal_kind_name((enum journal_kind)0)) != 0) {
            look(report, COVER_JOURNAL, i, "journal record", name);
        }
    }
}

static void look_routers(struct report *report)
{
    static const char *const faults[RF_KINDS] = { "an answer", "a refusal", "a late answer",
                                                  "silence", "no router" };
    static const char *const whens[] = { "before a pause", "before a gate opens" };
    for (uint32_t i = 0; i < RF_KINDS * 2U; i++) {
        look(report, COVER_ROUTER, i, faults[i / 2], whens[i % 2]);
    }
}

static void look_samples(struct report *report)
{
    static const char *const faults[SAMPLE_FAULTS_END] = {
        "",          "no spans",    "version unknown", "unrelated",   "later than its consumer",
        "too stale", "quarantined", "undone",          "unit unknown"
    };
    for (uint32_t i = SAMPLE_NO_SPANS; i < SAMPLE_FAULTS_END; i++) {
        look(report, COVER_SAMPLE, i, "sample", faults[i]);
    }
}

static void look_deliveries(struct report *report)
{
    static const char *const names[DELIVERY_KINDS] = {
        [DELIVERY_DONE_UNANSWERED] = "done, its answer lost",
        [DELIVERY_UNDONE_UNANSWERED] = "not done, and no answer",
        [DELIVERY_SLOW] = "slow",
        [DELIVERY_SLOW_LEASE] = "slower than an agent's lease",
        [DELIVERY_DEPOSED_MEANWHILE] = "overtaken by another leader",
        [DELIVERY_LATE_DONE] = "after its controller gave up, before the next epoch",
        [DELIVERY_LATE_REFUSED] = "after the next epoch",
        [DELIVERY_TWICE] = "that came twice",
        [DELIVERY_AWAY] = "while the store is away",
        [DELIVERY_START_AWAY] = "not begun: no epoch while the store is away",
        [DELIVERY_SLOW_LOAD] = "before it a slow load",
        [DELIVERY_DIED] = "whose controller died meanwhile",
        [DELIVERY_TOLD] = "in doubt, and its caller is told",
        [DELIVERY_DEPOSED_LEARNS] = "by which a controller learns that it was deposed",
        [DELIVERY_DEPOSED_SENDS] = "whose messages a deposed controller sends",
        [DELIVERY_DEPOSED_CUT] = "of a deposed controller that reaches no store",
        [DELIVERY_TAKEN_BACK] = "in doubt, and the lead taken back",
        [DELIVERY_LOAD_OVERTAKEN] = "not begun: another leader came while it read the store",
        [DELIVERY_TORN] = "in parts",
        [DELIVERY_TORN_RESUMED] = "in parts, finished before its leader's next one",
        [DELIVERY_TORN_INHERITED] = "in parts, finished by the next leader",
        [DELIVERY_TORN_DROPPED] = "in parts, not decided, and dropped by the next leader",
    };
    for (uint32_t i = 0; i < DELIVERY_KINDS; i++) {
        look(report, COVER_DELIVERY, i, "commit", names[i]);
    }
}

static void look_engine_faults(struct report *report)
{
    static const char *const names[EF_KINDS] = { "none",  "fail",   "fail back", "hang",
                                                 "late",  "silent", "stuck",     "lie",
                                                 "stray", "die",    "slow" };
    for (uint32_t op = AGENT_OP_ATTACH; op < SIM_OPS; op++) {
        for (uint32_t fault = EF_FAIL; fault < EF_KINDS; fault++) {
            char name[64];
            bool strays = op == AGENT_OP_UPDATE || op == AGENT_OP_LIVE ||
                          (op == AGENT_OP_READBACK && fault == EF_STRAY);
            /* Asked for before a swap begins; plan.c leaves it alone. */
            bool aside = op == AGENT_OP_WARM;
            if (aside || ((fault == EF_FAIL_BACK || fault == EF_STRAY) && !strays)) {
                continue; /* plan.c makes these of updates and read-backs only. */
            }
            (void)snprintf(name, sizeof(name), "%s in %s", names[fault],
                           agent_op_name((enum agent_op_kind)op));
            look(report, COVER_ENGINE_FAULT, op * EF_KINDS + fault, "fault", name);
        }
    }
}

uint32_t cover_missing(FILE *out, bool all)
{
    struct report report = { out, all, 0 };
    look_states(&report);
    look_phases(&report);
    look_words(&report, COVER_BLOCKED, &words_blocked, 1, "blocked reason");
    look_words(&report, COVER_ROLL_STATE, &words_roll_state, 1, "roll state");
    look_tables(&report);
    look_engine_faults(&report);
    look_routers(&report);
    look_samples(&report);
    look(&report, COVER_MODELS, COVER_MODELS_ONE_AGENT, "two models", "at one agent");
    look(&report, COVER_MODELS, COVER_MODELS_TICKETS, "two models",
         "that swap at one agent at once");
    look(&report, COVER_MODELS, COVER_MODELS_LEASE, "two models", "and slots of the other one");
    look_deliveries(&report);
    look_transitions(&report);
    look(&report, COVER_TOGETHER, 1, "transaction", "of two messages");
    look(&report, COVER_TOGETHER, 3, "transaction", "of four messages");
    return report.missing;
}
