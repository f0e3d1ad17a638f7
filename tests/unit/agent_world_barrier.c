/* agent_world_barrier.c -- the controller's side of a barrier; see agent_world.h. */
#include <string.h>

#include "tests/unit/agent_world_engine.h"

void world_barrier(struct world *world, uint64_t to_seq)
{
    bool by_hand = world->barrier.by_hand;
    world->barrier = (struct world_barrier){ .on = true, .by_hand = by_hand, .to_seq = to_seq };
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        world->groups[i].ticket.policy.barrier_deadline_ns = 6 * S;
        world_ticket(world, i, to_seq, false);
        world->groups[i].ticket.barrier = true;
    }
}

void world_barrier_say(struct world *world, uint32_t group, enum agent_barrier_word word)
{
    struct world_barrier *barrier = &world->barrier;
    barrier->go |= word == AGENT_BARRIER_WORD_GO;
    barrier->cancelled |= word == AGENT_BARRIER_WORD_CANCEL;
    barrier->open |= word == AGENT_BARRIER_WORD_OPEN;
    world_event(world, (struct agent_event){ .kind = AGENT_EVENT_BARRIER,
                                             .barrier = { world->groups_config[group].name,
                                                          world->groups[group].ticket.uid,
                                                          world->epoch, word } });
}

static bool is_open(const struct world *world, uint32_t group)
{
    const struct world_group *of = &world->groups[group];
    return of->ticket_open && of->ticket.barrier;
}

/* All groups whose ticket is open stand there; some do. */
static bool all_stand(const struct world *world, enum agent_barrier_stand stand)
{
    bool all = true;
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        all &= !is_open(world, i) || world->groups[i].report.barrier == stand;
    }
    return all;
}

static bool any_ended(const struct world *world)
{
    bool ended = false;
    for (uint32_t i = 0; i < world->config.groups_count; i++) {
        ended |= !is_open(world, i);
    }
    return ended;
}

static void decide(struct world *world)
{
    struct world_barrier *barrier = &world->barrier;
    if (!barrier->go && !barrier->cancelled) {
        barrier->cancelled = any_ended(world);
        barrier->go = !barrier->cancelled && all_stand(world, AGENT_BARRIER_STAND_SHUT);
    }
    if (barrier->go && !barrier->open && all_stand(world, AGENT_BARRIER_STAND_COMMITTED)) {
        barrier->open = true;
        for (uint32_t i = 0; i < world->config.groups_count; i++) {
            world->groups[i].target_seq = barrier->to_seq; /* Stragglers join there. */
        }
        world->goals_due = true;
    }
}

static enum agent_barrier_word word_for(const struct world_barrier *barrier,
                                        enum agent_barrier_stand stand)
{
    if (barrier->cancelled) {
        return AGENT_BARRIER_WORD_CANCEL;
    }
    if (barrier->open && stand == AGENT_BARRIER_STAND_COMMITTED) {
        return AGENT_BARRIER_WORD_OPEN;
    }
    return barrier->go && stand == AGENT_BARRIER_STAND_SHUT ? AGENT_BARRIER_WORD_GO
                                                            : AGENT_BARRIER_WORD_NONE;
}

void world_barrier_run(struct world *world)
{
    struct world_barrier *barrier = &world->barrier;
    if (!barrier->on || barrier->by_hand || !world->session_open) {
        return;
    }
    decide(world);
    for (uint32_t i = 0; i < world->config.groups_count && world->session_open; i++) {
        enum agent_barrier_stand stand = world->groups[i].report.barrier;
        enum agent_barrier_word word = word_for(barrier, stand);
        uint32_t print = 1 + (uint32_t)stand * 4 + (uint32_t)word;
        if (is_open(world, i) && word != AGENT_BARRIER_WORD_NONE && barrier->answered[i] != print) {
            barrier->answered[i] = print;
            world_barrier_say(world, i, word);
        }
    }
}

bool world_barrier_forbids(const struct world *world, uint32_t group)
{
    const struct world_barrier *barrier = &world->barrier;
    return barrier->on && barrier->promised[group] && !barrier->cancelled && !barrier->open;
}
