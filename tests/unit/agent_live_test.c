/* agent_live_test.c -- stories of swaps with open gates: what is made durable before what, and what
 * follows when the one call fails, hangs or lies. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/agent_world.h"

static struct agent_policy *policy(struct world *world)
{
    return &world->groups[0].ticket.policy;
}

static struct world *staged(uint32_t engines)
{
    struct world *world = world_create(1, engines, 1);
    world_serve(world, 1);
    world_goals(world, 0, 1, 2);
    world_run(world, 2 * S);
    cr_assert(world_serves(world, 0, 1));
    policy(world)->live = true;
    policy(world)->kv = AGENT_KV_KEEP;
    world->kv_kept = true;
    world->engines[0][0].shuts = 0;
    return world;
}

static const struct agent_swap_record *swap(struct world *world, uint64_t for_ns)
{
    world_ticket(world, 0, 2, false);
    world_run(world, for_ns);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(!world->groups[0].ticket_open, "the ticket has no outcome");
    return &world->groups[0].outcome;
}

static void expect(const struct world *world, enum agent_outcome outcome, uint64_t serves)
{
    const struct world_group *group = &world->groups[0];
    cr_assert_eq(group->outcome.outcome, outcome, "%s: %s",
                 agent_outcome_name(group->outcome.outcome), group->outcome.message);
    cr_assert(world_serves(world, 0, serves), "%s: %s", agent_group_state_name(group->report.state),
              group->message);
    cr_assert_eq(world_committed(world, 0), serves);
}

/* No gate is shut, nothing is paused, no KV is dropped; label and page follow COMMIT. */
Test(agent_live, shuts_nothing)
{
    struct world *world = staged(1);
    struct world_engine *engine = &world->engines[0][0];
    uint32_t pauses = engine->calls[AGENT_OP_PAUSE];
    uint32_t updates = engine->calls[AGENT_OP_UPDATE];
    uint32_t resets = engine->calls[AGENT_OP_INVALIDATE];
    engine->active = 4;
    const struct agent_swap_record *record = swap(world, 3 * S);
    expect(world, AGENT_OUTCOME_COMMITTED, 2);
    cr_assert_eq(engine->shuts, 0);
    cr_assert_eq(engine->calls[AGENT_OP_PAUSE], pauses);
    cr_assert_eq(engine->calls[AGENT_OP_UPDATE], updates);
    cr_assert_eq(engine->calls[AGENT_OP_INVALIDATE], resets);
    cr_assert_eq(engine->calls[AGENT_OP_LIVE], 1);
    cr_assert_eq(engine->gate_version, 2);
    cr_assert_str_eq(engine->label, "2");
    cr_assert_eq(record->phases.shut_ns, 0);
    cr_assert_eq(record->phases.apply_ns, 2 * MS);
    cr_assert_eq(record->level, AGENT_LEVEL_RESIDENT);
    world_destroy(world);
}

/* LIVE_INTENT names the ticket, both versions and a step, and is on the disk when the call is made. */
Test(agent_live, intent_is_durable_before_the_call)
{
    struct world *world = staged(1);
    world->counting = true;
    world->crash_mode = CRASH_BEFORE;
    for (uint32_t at = 1; at < 30; at++) {
        uint32_t calls = world->engines[0][0].calls[AGENT_OP_LIVE];
        world->crash_at = at;
        world_ticket(world, 0, 2, false);
        world_run(world, 3 * S);
        bool called = world->engines[0][0].calls[AGENT_OP_LIVE] > calls;
        cr_assert(!called || world->journal_counts[JOURNAL_LIVE_INTENT] > 0,
                  "called before LIVE_INTENT, crash at %u", at);
        if (called) {
            break;
        }
        world_destroy(world);
        world = staged(1);
        world->counting = true;
        world->crash_mode = CRASH_BEFORE;
    }
    const struct journal_record *record = &world->journal_last[JOURNAL_LIVE_INTENT];
    cr_assert_eq(world->journal_counts[JOURNAL_LIVE_INTENT], 1);
    cr_assert_eq(record->intent.step, 1);
    cr_assert_eq(record->intent.from.seq, 1);
    cr_assert_eq(record->intent.to.seq, 2);
    cr_assert_str_eq(record->intent.ticket_uid, world->groups[0].ticket.uid);
    world_destroy(world);
}

/* The agent dies between LIVE_INTENT and COMMIT: what the ranks hold decides, and no gate is shut. */
Test(agent_live, after_a_crash_what_is_resident_decides)
{
    for (int swapped = 0; swapped < 2; swapped++) {
        struct world *world = staged(1);
        struct world_engine *engine = &world->engines[0][0];
        world_fault(engine, AGENT_OP_LIVE, swapped ? FAULT_SILENT : FAULT_HANG, 1);
        world_ticket(world, 0, 2, false);
        world_run(world, 200 * MS);
        cr_assert_eq(world->journal_counts[JOURNAL_LIVE_INTENT], 1);
        cr_assert_eq(world->journal_counts[JOURNAL_COMMIT], 1); /* The join's. */
        world_crash(world);
        world_start(world);
        world_run(world, 5 * S);
        cr_assert(world->violation[0] == '\0', "%s", world->violation);
        expect(world, swapped ? AGENT_OUTCOME_COMMITTED : AGENT_OUTCOME_APPLY_FAILED,
               swapped ? 2 : 1);
        cr_assert_eq(engine->shuts, 0);
        cr_assert_eq(world->journal_last[JOURNAL_LIVE_INTENT].intent.step, 2);
        world_destroy(world);
    }
}

/* All ranks put back: the old version serves on, and nobody noticed. */
Test(agent_live, ranks_that_went_back_serve_on)
{
    struct world *world = staged(1);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_FAIL_BACK, 1);
    const struct agent_swap_record *record = swap(world, 3 * S);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    cr_assert_str_eq(record->message, "engine e0: LIVE: rank 1: PEER_FAILED");
    cr_assert_eq(world->engines[0][0].shuts, 0);
    world_destroy(world);
}

/* A yes without a deed is found by the read-back. */
Test(agent_live, a_lie_is_found)
{
    struct world *world = staged(1);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_LIE, 1);
    (void)swap(world, 3 * S);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    cr_assert_eq(world->engines[0][0].shuts, 0);
    world_destroy(world);
}

/* No weight was touched: the ticket ends, and there is nothing to put back. */
Test(agent_live, what_cannot_be_prepared_is_not_begun)
{
    struct world *world = staged(1);
    world_fault(&world->engines[0][0], AGENT_OP_PREPARE, FAULT_FAIL, 1);
    const struct agent_swap_record *record = swap(world, 3 * S);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    cr_assert_str_eq(record->message, "engine e0: PREPARE: rank 1: MISSING_TENSOR");
    cr_assert_eq(world->journal_counts[JOURNAL_LIVE_INTENT], 0);
    cr_assert_eq(world->engines[0][0].calls[AGENT_OP_LIVE], 0);
    world_destroy(world);
}

/* Neither of both can be read back: the ordinary way back, with a shut gate and a pause first. */
Test(agent_live, what_cannot_be_known_is_shut_and_restored)
{
    struct world *world = staged(1);
    struct world_engine *engine = &world->engines[0][0];
    world_fault(engine, AGENT_OP_READBACK, FAULT_FAIL, 3);
    const struct agent_swap_record *record = swap(world, 10 * S);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    cr_assert_gt(engine->shuts, 0);
    cr_assert_gt(record->phases.shut_ns, 0);
    cr_assert_gt(engine->calls[AGENT_OP_PAUSE], 0);
    world_destroy(world);
}

/* An engine that could neither go on nor back ended itself: it is recreated and joins. */
Test(agent_live, an_engine_that_ends_itself_is_recreated)
{
    struct world *world = staged(1);
    world_fault(&world->engines[0][0], AGENT_OP_LIVE, FAULT_FAIL, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 120 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    cr_assert(world_serves(world, 0, 1) || world_serves(world, 0, 2));
    cr_assert_gt(world->engines[0][0].lives, 1);
    world_destroy(world);
}

/* Nobody learns how the call ended before the group is OUT: as soon as its engine answers, the gate shuts. */
Test(agent_live, an_engine_that_was_away_too_long_is_shut)
{
    struct world *world = staged(1);
    struct world_engine *engine = &world->engines[0][0];
    world->engines_config[0][0].recreate = AGENT_RECREATE_NONE;
    world_fault(engine, AGENT_OP_LIVE, FAULT_SILENT, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 200 * MS);
    cr_assert_eq(world->journal_counts[JOURNAL_LIVE_INTENT], 1);
    world_crash(world);
    world_fault(engine, AGENT_OP_ATTACH, FAULT_HANG, 1000);
    world_start(world);
    world_run(world, 120 * S);
    cr_assert_eq(world->groups[0].outcome.outcome, AGENT_OUTCOME_OUT);
    world_fault(engine, AGENT_OP_ATTACH, FAULT_NONE, 0);
    world_run(world, 30 * S);
    cr_assert_not(world_engine_is_open(engine));
    cr_assert_str_eq(world->groups[0].blocked, "ENGINE_NEEDS_RECREATE");
    world_destroy(world);
}

/* An operator at the node is obeyed although the call came through. */
Test(agent_live, an_operator_has_it_put_back)
{
    struct world *world = staged(1);
    struct world_engine *engine = &world->engines[0][0];
    world_fault(engine, AGENT_OP_LIVE, FAULT_SILENT, 1);
    world_ticket(world, 0, 2, false);
    world_run(world, 200 * MS);
    cr_assert_eq(world->journal_counts[JOURNAL_LIVE_INTENT], 1);
    struct agent_event event = { .kind = AGENT_EVENT_OPERATE };
    event.operate = (struct agent_operate){ AGENT_VERB_RESTORE, "g0", "root (pid 1)" };
    world_event(world, event);
    cr_assert(world->operated.ok, "%s", world->operated.message);
    world_run(world, 60 * S);
    cr_assert(world->violation[0] == '\0', "%s", world->violation);
    expect(world, AGENT_OUTCOME_APPLY_FAILED, 1);
    cr_assert_eq(world->journal_last[JOURNAL_COMMIT].commit.version.seq, 1);
    world_destroy(world);
}

/* Refused for good, with the reason, rather than paused. */
Test(agent_live, what_cannot_be_live_is_refused)
{
    const struct {
        uint32_t engines;
        bool no_live;
        struct agent_policy policy;
        const char *why;
    } rows[] = {
        { 2, false, { .kv = AGENT_KV_KEEP }, "several engines" },
        { 1, true, { .kv = AGENT_KV_KEEP }, "its ranks form a pipeline" },
        { 1, false, { .kv = AGENT_KV_FLUSH }, "kv keep only" },
        { 1, false, { .kv = AGENT_KV_KEEP, .hooks_count = 1 }, "no gate shuts" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world *world = staged(rows[i].engines);
        struct world_engine *engine = &world->engines[0][0];
        engine->no_live = rows[i].no_live;
        policy(world)->kv = rows[i].policy.kv;
        policy(world)->hooks_count = rows[i].policy.hooks_count;
        if (rows[i].no_live) { /* It is asked anew by another life. */
            world_crash(world);
            world_start(world);
            world_run(world, 2 * S);
        }
        uint32_t updates = engine->calls[AGENT_OP_UPDATE];
        const struct agent_swap_record *record = swap(world, 3 * S);
        cr_assert_eq(record->outcome, AGENT_OUTCOME_REFUSED);
        cr_assert_not_null(strstr(record->message, rows[i].why), "%s", record->message);
        cr_assert(world_serves(world, 0, 1));
        cr_assert_eq(engine->calls[AGENT_OP_UPDATE], updates);
        cr_assert_eq(engine->calls[AGENT_OP_LIVE], 0);
        world_destroy(world);
    }
}
