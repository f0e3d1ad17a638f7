/* controller_shell_report_test.c -- agents' words as the core's structs: bounds, texts that are cut, unknown words. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"
#include "controller/shell/report.h"

static Baton__V1__Report *new_report(size_t groups, size_t engines)
{
    Baton__V1__Report *report = baton_wire_new(&baton__v1__report__descriptor);
    report->n_groups = groups;
    report->groups = baton_wire_take(report, groups, sizeof(*report->groups));
    for (size_t i = 0; i < groups; i++) {
        Baton__V1__GroupReport *group =
            baton_wire_part(report, &baton__v1__group_report__descriptor);
        report->groups[i] = group;
        group->group = baton_wire_textf(report, "g%zu", i);
        group->model = baton_wire_text(report, "m");
        group->state = BATON__V1__GROUP_STATE__GROUP_STATE_SERVING;
        group->n_engines = engines;
        group->engines = baton_wire_take(report, engines, sizeof(*group->engines));
        for (size_t e = 0; e < engines; e++) {
            group->engines[e] = baton_wire_part(report, &baton__v1__engine__descriptor);
        }
    }
    return report;
}

static void expect_refused(Baton__V1__Report *report, const char *says)
{
    struct session_report got;
    struct report_memory memory = { NULL };
    memset(&got, 0, sizeof(got));
    struct baton_status st = report_from_message(report, &got, &memory);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st.message, says), "%s", st.message);
    report_memory_free(&memory);
    baton_wire_free(report);
}

/* As the agents of a store that was lost tell it: each group with what it committed. */
static void tell_versions(Baton__V1__Report *report, size_t sources)
{
    for (size_t i = 0; i < report->n_groups; i++) {
        Baton__V1__VersionGoal *version =
            baton_wire_part(report, &baton__v1__version_goal__descriptor);
        version->uid = baton_wire_text(report, "0123456789abcdef0123456789abcdef");
        version->n_sources = sources;
        version->sources = baton_wire_take(report, sources, sizeof(*version->sources));
        for (size_t k = 0; k < sources; k++) {
            version->sources[k] = baton_wire_part(report, &baton__v1__source__descriptor);
        }
        report->groups[i]->committed_version = version;
    }
}

static void add_outcomes(Baton__V1__Report *report, size_t count)
{
    report->n_outcomes = count;
    report->outcomes = baton_wire_take(report, count, sizeof(*report->outcomes));
    for (size_t i = 0; i < count; i++) {
        Baton__V1__TicketOutcome *outcome =
            baton_wire_part(report, &baton__v1__ticket_outcome__descriptor);
        outcome->record = baton_wire_part(report, &baton__v1__swap_record__descriptor);
        outcome->record->outcome = BATON__V1__SWAP_OUTCOME__SWAP_OUTCOME_COMMITTED;
        report->outcomes[i] = outcome;
    }
}

/* As a leader tells who follows in each of its groups. */
static void tell_members(Baton__V1__Report *report, size_t count, const char *last)
{
    for (size_t i = 0; i < report->n_groups; i++) {
        Baton__V1__GroupReport *group = report->groups[i];
        group->n_members = count;
        group->members = baton_wire_take(report, count, sizeof(*group->members));
        for (size_t k = 0; k < count; k++) {
            group->members[k] = baton_wire_text(report, k + 1 < count ? "a" : last);
        }
    }
}

/* The most that an agent may lead must fit. */
Test(controller_shell_report, takes_the_largest)
{
    Baton__V1__Report *report = new_report(BATON_GROUPS_PER_AGENT_MAX, BATON_ENGINES_PER_GROUP_MAX);
    tell_versions(report, BATON_SOURCES_PER_VERSION_MAX);
    tell_members(report, BATON_FOLLOWERS_PER_GROUP_MAX, "last");
    add_outcomes(report, BATON_GROUPS_PER_AGENT_MAX);
    struct session_report got;
    struct report_memory memory = { NULL };
    memset(&got, 0, sizeof(got));
    struct baton_status st = report_from_message(report, &got, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(got.groups_count, BATON_GROUPS_PER_AGENT_MAX);
    cr_assert_str_eq(got.groups[63].group, "g63");
    cr_assert_eq(got.groups[63].engines_count, BATON_ENGINES_PER_GROUP_MAX);
    cr_assert_eq(got.groups[63].told->sources_count, BATON_SOURCES_PER_VERSION_MAX);
    cr_assert_str_eq(got.groups[63].members[BATON_FOLLOWERS_PER_GROUP_MAX - 1], "last");
    cr_assert_eq(got.outcomes_count, BATON_GROUPS_PER_AGENT_MAX);
    report_memory_free(&memory);
    baton_wire_free(report);
    expect_refused(new_report(BATON_GROUPS_PER_AGENT_MAX + 1, 1), "groups: more than 64");
    expect_refused(new_report(1, BATON_ENGINES_PER_GROUP_MAX + 1), "groups.engines: more than 16");
    report = new_report(1, 1);
    tell_versions(report, BATON_SOURCES_PER_VERSION_MAX + 1);
    expect_refused(report, "groups.committed_version.sources: more than 8");
    report = new_report(1, 1);
    tell_members(report, BATON_FOLLOWERS_PER_GROUP_MAX + 1, "last");
    expect_refused(report, "groups.members: more than 15");
    report = new_report(1, 1);
    add_outcomes(report, BATON_GROUPS_PER_AGENT_MAX + 1);
    expect_refused(report, "outcomes: more than 64");
}

/* The first message of an agent that leads as many groups as it may, each with what it committed. */
Test(controller_shell_report, takes_the_largest_hello)
{
    Baton__V1__Report *groups = new_report(BATON_GROUPS_PER_AGENT_MAX, 1);
    tell_versions(groups, 1);
    Baton__V1__Hello *hello = baton_wire_new(&baton__v1__hello__descriptor);
    hello->n_groups = groups->n_groups;
    hello->groups = groups->groups;
    struct session_hello got;
    struct report_memory memory = { NULL };
    memset(&got, 0, sizeof(got));
    struct baton_status st = report_from_hello(hello, &got, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(got.groups_count, BATON_GROUPS_PER_AGENT_MAX);
    cr_assert_not_null(got.groups[63].told);
    report_memory_free(&memory);
    baton_wire_free(hello);
    baton_wire_free(groups);
}

Test(controller_shell_report, names_are_refused_and_messages_cut)
{
    Baton__V1__Report *report = new_report(1, 1);
    report->groups[0]->group = baton_wire_textf(report, "%0100d", 1);
    expect_refused(report, "groups.group: longer than 63");
    report = new_report(1, 1);
    tell_members(report, 1, "a23456789a123456789a123456789a123456789a123456789a123456789a1234");
    expect_refused(report, "groups.members: longer than 63");
    report = new_report(1, 1);
    report->groups[0]->state = (Baton__V1__GroupState)77;
    expect_refused(report, "groups.state: 77");
    /* 63 bytes would end within the 16th character of four bytes. */
    report = new_report(1, 1);
    Baton__V1__Engine *engine = report->groups[0]->engines[0];
    char label[17 * 4 + 1] = "";
    for (int i = 0; i < 17; i++) {
        (void)strcat(label, "\xf0\x9f\x98\x80");
    }
    engine->label = baton_wire_text(report, label);
    engine->way_in_reason = baton_wire_text(report, "whole \xc3\xa4");
    report->groups[0]->verify_level = (Baton__V1__VerifyLevel)42;
    struct session_report got;
    struct report_memory memory = { NULL };
    memset(&got, 0, sizeof(got));
    struct baton_status st = report_from_message(report, &got, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(strlen(got.groups[0].engines[0].label), 15 * 4);
    cr_assert_str_eq(got.groups[0].engines[0].way_in_reason, "whole \xc3\xa4");
    cr_assert_eq(got.groups[0].verify_level, VERIFY_LEVEL_NONE,
                 "a word that is new claims nothing");
    report_memory_free(&memory);
    baton_wire_free(report);
}

Test(controller_shell_report, outcome_needs_its_record)
{
    Baton__V1__Report *report = new_report(0, 0);
    report->n_outcomes = 1;
    report->outcomes = baton_wire_take(report, 1, sizeof(*report->outcomes));
    report->outcomes[0] = baton_wire_part(report, &baton__v1__ticket_outcome__descriptor);
    expect_refused(report, "outcomes.record: missing");
}
