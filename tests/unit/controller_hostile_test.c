/* controller_hostile_test.c -- agents that tell what no agent should: numbers that nobody counts to, floors of models and events
 * about objects that are not theirs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/arena.h"
#include "tests/unit/controller_world.h"

#define TOO_HIGH ((UINT64_C(1) << 62) + 1)

static struct world *serving(void)
{
    struct world *world = world_new();
    struct policy_spec spec = { .max_unavailable = "1" };
    struct baton_status st = world_apply(world, "m", &spec);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), 1);
    world_fleet(world, "m", 2);
    world_play(world);
    return world;
}

/* A number of a group's report, by name. */
struct number_row {
    const char *field;
    size_t offset;
};
#define ROW(kind, member)                                                                          \
    {                                                                                              \
#member, offsetof(struct kind, member)                                                     \
    }

static const struct number_row report_rows[] = {
    ROW(group_report, committed_seq),  ROW(group_report, staging_seq),
    ROW(group_report, staged_bytes),   ROW(group_report, owner_term),
    ROW(group_report, highest_ticket),
};
enum { REPORT_ROWS = sizeof(report_rows) / sizeof(report_rows[0]) };

static void set(void *of, const struct number_row *row, uint64_t value)
{
    memcpy((char *)of + row->offset, &value, sizeof(value));
}

/* The session ended, and the agent is told who said what. */
static void expect_closed(const struct played_agent *agent, const char *group, const char *field)
{
    cr_assert_eq(agent->session, 0, "%s", field);
    cr_assert_eq(agent->closed.code, BATON_INVALID_ARGUMENT, "%s", field);
    cr_assert_not_null(strstr(agent->closed.message, agent->name), "%s", agent->closed.message);
    cr_assert_not_null(strstr(agent->closed.message, group), "%s", agent->closed.message);
    cr_assert_not_null(strstr(agent->closed.message, field), "%s", agent->closed.message);
}

/* What was told moved nothing: the next version is the next one. */
static void expect_unmoved(struct world *world)
{
    world_restart(world);
    for (uint32_t i = 0; i < world->agents_count; i++) {
        cr_assert(world_connect(world, &world->agents[i]));
    }
    cr_assert_eq(world_publish(world, "m"), 2);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), 2);
}

/* In a report and in a Hello, at the end of the numbers and just above the bound. */
Test(hostile, numbers_of_groups)
{
    const uint64_t values[] = { UINT64_MAX, TOO_HIGH };
    for (uint32_t i = 0; i < 2 * REPORT_ROWS; i++) {
        const struct number_row *row = &report_rows[i / 2];
        struct world *world = serving();
        struct played_agent *a0 = world_agent(world, "a0");
        struct group_report before = a0->groups[0].report;
        set(&a0->groups[0].report, row, values[i % 2]);
        world_report(world, a0, NULL, 0);
        expect_closed(a0, "g0", row->field);
        cr_assert_not(world_connect(world, a0), "%s", row->field);
        expect_closed(a0, "g0", row->field);
        a0->groups[0].report = before;
        expect_unmoved(world);
        world_free(world);
    }
}

static const struct number_row outcome_rows[] = {
    ROW(ticket_outcome, committed_seq),
    ROW(ticket_outcome, epoch.generation),
    ROW(ticket_outcome, epoch.n),
    ROW(ticket_outcome, record.ticket_number),
    ROW(ticket_outcome, record.from_seq),
    ROW(ticket_outcome, record.to_seq),
    ROW(ticket_outcome, record.bytes),
    ROW(ticket_outcome, record.phases.queue_ns),
    ROW(ticket_outcome, record.phases.shut_ns),
    ROW(ticket_outcome, record.phases.barrier_ns),
};

Test(hostile, numbers_of_outcomes)
{
    for (size_t i = 0; i < sizeof(outcome_rows) / sizeof(outcome_rows[0]); i++) {
        struct world *world = serving();
        cr_assert_eq(world_publish(world, "m"), 2);
        struct played_agent *a0 = world_agent(world, "a0");
        world_report(world, a0, NULL, 0);
        cr_assert(world_record(world, "g0")->ticket_open);
        struct ticket_outcome told =
            world_outcome(world_group(world, "g0"), SWAP_OUTCOME_COMMITTED);
        set(&told, &outcome_rows[i], UINT64_MAX);
        world_report(world, a0, &told, 1);
        expect_closed(a0, "g0", outcome_rows[i].field);
        cr_assert(world_record(world, "g0")->ticket_open, "it ended nothing");
        world_free(world);
    }
}

Test(hostile, digest_of_an_outcome)
{
    struct world *world = serving();
    cr_assert_eq(world_publish(world, "m"), 2);
    struct played_agent *a0 = world_agent(world, "a0");
    world_report(world, a0, NULL, 0);
    struct ticket_outcome told = world_outcome(world_group(world, "g0"), SWAP_OUTCOME_COMMITTED);
    strcpy(told.committed_digest, "no digest");
    world_report(world, a0, &told, 1);
    expect_closed(a0, "g0", "committed_digest");
    world_free(world);
}

Test(hostile, numbers_of_a_hello)
{
    struct world *world = serving();
    struct played_agent *a0 = world_agent(world, "a0");
    a0->highest_epoch.n = UINT64_MAX;
    cr_assert_not(world_connect(world, a0));
    expect_closed(a0, "", "highest_epoch.n");
    a0->highest_epoch = (struct epoch){ TOO_HIGH, 0 };
    cr_assert_not(world_connect(world, a0));
    expect_closed(a0, "", "highest_epoch.generation");
    a0->highest_epoch = (struct epoch){ 0, 0 };
    strcpy(a0->floors[0].model, "m");
    a0->floors[0].seq = UINT64_MAX;
    a0->floors_count = 1;
    cr_assert_not(world_connect(world, a0));
    expect_closed(a0, "seq_floors of model m", "seq");
    a0->floors_count = 0;
    expect_unmoved(world);
    world_free(world);
}

/* The highest numbers that may be told lock nobody out: what is counted on from them is ours. */
Test(hostile, highest_numbers_go_on)
{
    struct world *world = world_new();
    struct played_agent *a0 = world_agent(world, "a0");
    struct played_group *g0 = world_add_group(a0, "g0", "m");
    strcpy(a0->floors[0].model, "m");
    a0->floors[0].seq = TOO_HIGH - 1;
    a0->floors_count = 1;
    g0->report.highest_ticket = TOO_HIGH - 1;
    g0->report.owner_term = TOO_HIGH - 1;
    cr_assert(world_connect(world, a0));
    struct baton_status st = world_apply(world, "m", NULL);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "m"), TOO_HIGH);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), TOO_HIGH);
    cr_assert_eq(world_record(world, "g0")->ticket_number, TOO_HIGH);
    world_restart(world);
    a0->floors[0].seq = TOO_HIGH;
    g0->report.highest_ticket = TOO_HIGH;
    g0->report.owner_term = world_record(world, "g0")->owner_term;
    cr_assert(world_connect(world, a0), "%s", a0->closed.message);
    cr_assert_eq(world_publish(world, "m"), TOO_HIGH + 1);
    world_play(world);
    cr_assert_eq(world_committed(world, "g0"), TOO_HIGH + 1);
    world_free(world);
}

/* An agent is believed about models of its groups: neither does it fence us nor raise another model's numbers. */
Test(hostile, floors_of_other_models)
{
    struct world *world = serving();
    struct baton_status st = world_apply(world, "other", NULL);
    cr_assert(baton_ok(&st));
    struct played_agent *a0 = world_agent(world, "a0");
    strcpy(a0->floors[0].model, "other");
    a0->floors[0].seq = 900;
    strcpy(a0->floors[1].model, "later");
    a0->floors[1].seq = 900;
    a0->floors_count = 2;
    cr_assert(world_connect(world, a0));
    cr_assert_eq(world->generation_floor, 0, "nothing says that the store went back");
    cr_assert_eq(world_publish(world, "other"), 1);
    st = world_apply(world, "later", NULL);
    cr_assert(baton_ok(&st));
    cr_assert_eq(world_publish(world, "later"), 1);
    world_free(world);
}

/* ... but once the store went back, an agent that only follows a group of a model may be the last that saw its
 * versions, as the leader's disk may be lost. */
Test(hostile, floors_of_a_followed_model_after_the_store_went_back)
{
    struct world *world = serving();
    struct baton_status st = world_apply(world, "other", NULL);
    cr_assert(baton_ok(&st));
    struct played_agent *a0 = world_agent(world, "a0");
    strcpy(a0->floors[0].model, "other");
    a0->floors[0].seq = 9;
    a0->floors_count = 1;
    world_restart_generation(world);
    cr_assert(view_floors_pending(world->core));
    cr_assert(world_connect(world, a0));
    cr_assert(world_connect(world, world_agent(world, "a1")));
    cr_assert_not(view_floors_pending(world->core));
    cr_assert_eq(world_publish(world, "other"), 10);
    world_free(world);
}

/* An agent may learn of a version from its group's leader after its Hello left: it has restated only when it
 * speaks under our epoch, from which on it takes nothing of before. */
Test(hostile, a_hello_alone_restates_nothing)
{
    struct world *world = serving();
    struct played_agent *a1 = world_agent(world, "a1");
    world_restart_generation(world);
    cr_assert(world_connect(world, world_agent(world, "a0")));
    cr_assert(world_hello(world, a1));
    cr_assert(view_floors_pending(world->core), "a1 may never have had our answer");
    world_disconnect(world, a1);
    strcpy(a1->floors[0].model, "m");
    a1->floors[0].seq = 12;
    a1->floors_count = 1;
    cr_assert(world_connect(world, a1));
    cr_assert_not(view_floors_pending(world->core));
    cr_assert_eq(world_publish(world, "m"), 13);
    world_free(world);
}

/* --- what a store holds, and trainers tell --- */

/* A floor that an earlier release took from an agent: the next publish is refused, also after a restart. */
Test(hostile, stored_floor_at_the_end)
{
    struct world *world = serving();
    for (size_t i = 0; i < world->kept_count; i++) {
        if (world->kept[i].kind == RECORD_MODEL) {
            world->kept[i].body.model.seq_floor = UINT64_MAX;
        }
    }
    for (int life = 0; life < 2; life++) {
        char uid[BATON_UID_TEXT_BYTES];
        world_restart(world);
        world_seal(world, "m", uid);
        struct baton_status st = world_publish_uid(world, uid, NULL);
        cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
        cr_assert_not_null(strstr(st.message, "model m"), "%s", st.message);
    }
    world_free(world);
}

/* What the core says to a record. */
static struct baton_status load(const struct world *world, const struct record_ref *record)
{
    static const uint8_t seed[CONTROLLER_SEED_BYTES] = { 1 };
    size_t bytes = controller_bytes(&world->limits);
    void *memory = malloc(bytes);
    cr_assert_not_null(memory);
    struct baton_arena arena = baton_arena_of(memory, bytes);
    struct controller *core = controller_init(&arena, &world->limits, seed);
    struct event event = { .kind = EVENT_LOAD, .now_ns = SEC, .wall_ns = SEC };
    event.body.load = *record;
    (void)controller_step(core, &event);
    struct baton_status st = controller_load_status(core);
    free(memory);
    return st;
}

Test(hostile, stored_numbers_that_cannot_be)
{
    struct world *world = serving();
    struct group_record group = *world_record(world, "g0");
    struct model_record model = *view_model_find(world->core, "m");
    struct baton_status st = load(world, &(struct record_ref){ RECORD_GROUP, &group });
    cr_assert(baton_ok(&st), "%s", st.message);
    st = load(world, &(struct record_ref){ RECORD_MODEL, &model });
    cr_assert(baton_ok(&st), "%s", st.message);
    group.ticket_number = UINT64_MAX;
    st = load(world, &(struct record_ref){ RECORD_GROUP, &group });
    cr_assert_eq(st.code, BATON_DATA_LOSS);
    cr_assert_not_null(strstr(st.message, "group g0"), "%s", st.message);
    group.ticket_number = 1;
    group.owner_term = UINT64_MAX;
    st = load(world, &(struct record_ref){ RECORD_GROUP, &group });
    cr_assert_eq(st.code, BATON_DATA_LOSS);
    model.newest_seq = model.seq_floor + 1;
    st = load(world, &(struct record_ref){ RECORD_MODEL, &model });
    cr_assert_eq(st.code, BATON_DATA_LOSS);
    cr_assert_not_null(strstr(st.message, "model m"), "%s", st.message);
    world_free(world);
}

/* Two spans whose sum would come round to no tokens at all. */
Test(hostile, tokens_of_a_sample)
{
    struct world *world = serving();
    const uint64_t half = UINT64_C(1) << 63;
    struct sample_span spans[] = { { 1, half }, { 1, half } };
    struct sample sample = { spans, 2, 0 };
    struct request request = { .kind = REQUEST_SAMPLES_REPORT, .model = "m" };
    request.body.samples = (struct request_samples){ SAMPLE_STAGE_COMPLETION, &sample, 1, 0 };
    struct baton_status st = world_call(world, &request);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st.message, "tokens"), "%s", st.message);
    spans[0].tokens = spans[1].tokens = SAMPLE_TOKENS_MAX;
    st = world_call(world, &request);
    cr_assert(baton_ok(&st), "%s", st.message);
    world_free(world);
}

/* --- events --- */

static void tell(struct world *world, const struct played_agent *agent,
                 const struct agent_event *events, size_t count)
{
    struct event event = { .kind = EVENT_SESSION_REPORT };
    event.body.report = (struct session_report){ .session = agent->session,
                                                 .events = events,
                                                 .events_count = count };
    world_step(world, &event);
}

Test(hostile, events_are_about_the_agent)
{
    struct world *world = serving();
    struct played_agent *a0 = world_agent(world, "a0");
    static const char *const own[] = { "group/g0", "agent/a0" };
    static const char *const foreign[] = { "model/other", "group/g1",    "group/none", "agent/a1",
                                           "agent/a00",   "version/m@1", "",           NULL };
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        char want[BATON_TEXT_BYTES];
        (void)snprintf(want, sizeof(want), "Said %s: so it is", own[i]);
        tell(world, a0, &(struct agent_event){ own[i], true, "Said", "so it is" }, 1);
        cr_assert_str_eq(world->last_log, want);
    }
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        tell(world, a0, &(struct agent_event){ foreign[i], true, "Said", "so it is" }, 1);
        cr_assert_str_eq(world->last_log, "Said agent/a0: so it is");
    }
    /* An agent that drives an engine of a group that another one leads. */
    struct played_group *g1 = world_group(world, "g1");
    strcpy(g1->engine.agent, "a0");
    world_report(world, world_agent(world, "a1"), NULL, 0);
    tell(world, a0, &(struct agent_event){ "group/g1", true, "Said", "so it is" }, 1);
    cr_assert_str_eq(world->last_log, "Said group/g1: so it is");
    world_free(world);
}

Test(hostile, too_many_events)
{
    enum { TOLD = 1000, TAKEN = 32 };
    static struct agent_event events[TOLD];
    struct world *world = serving();
    for (size_t i = 0; i < TOLD; i++) {
        events[i] = (struct agent_event){ "agent/a0", false, "Said", "so it is" };
    }
    uint32_t before = world->logs;
    tell(world, world_agent(world, "a0"), events, TOLD);
    cr_assert_eq(world->logs, before + TAKEN + 1);
    cr_assert_not_null(strstr(world->last_log, "EventsLeftOut agent/a0: 968 events"), "%s",
                       world->last_log);
    before = world->logs;
    tell(world, world_agent(world, "a0"), events, TAKEN);
    cr_assert_eq(world->logs, before + TAKEN);
    world_free(world);
}

/* An agent of a later protocol, and one of none, is told who is to be upgraded. */
Test(hostile, protocol_out_of_range)
{
    struct world *world = serving();
    struct played_agent *agent = world_agent(world, "a0");
    world_disconnect(world, agent);
    for (int away = -CONTROLLER_PROTOCOL; away <= 1; away += CONTROLLER_PROTOCOL + 1) {
        agent->protocol_away = away;
        cr_assert_not(world_connect(world, agent));
        cr_assert_eq(agent->closed.reason, BATON_REASON_INCOMPATIBLE);
        cr_assert_not_null(strstr(agent->closed.message,
                                  away < 0 ? "upgrade the agent" : "upgrade the controller"),
                           "%s", agent->closed.message);
    }
    agent->protocol_away = 0;
    cr_assert(world_connect(world, agent));
    world_free(world);
}
