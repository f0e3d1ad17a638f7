/* link_take.c -- the controller's messages as events; see link_message.h. */
#include "agent/shell/link_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shell/message_text.h"
#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/agent_session.pb-c.h"

void link_memory_free(struct link_memory *memory)
{
    for (size_t i = 0; i < memory->count; i++) {
        free(memory->blocks[i]);
    }
    memory->count = 0;
}

void *link_memory_take(struct link_memory *memory, size_t count, size_t size)
{
    void *block = calloc(count > 0 ? count : 1, size);
    baton_assert(block != NULL && memory->count < LINK_BLOCKS_MAX);
    memory->blocks[memory->count++] = block;
    return block;
}

static struct agent_epoch epoch_of(const Baton__V1__Epoch *epoch)
{
    return epoch != NULL ? (struct agent_epoch){ epoch->generation, epoch->n }
                         : (struct agent_epoch){ 0, 0 };
}

static struct baton_status welcome_from(const Baton__V1__Welcome *from, struct agent_event *out,
                                        struct link_memory *memory)
{
    struct agent_group_floor *floors = link_memory_take(memory, from->n_floors, sizeof(*floors));
    out->kind = AGENT_EVENT_WELCOME;
    out->welcome.epoch = epoch_of(from->epoch);
    out->welcome.lease_ns = from->lease_ms * BATON_NS_PER_MS;
    out->welcome.floors = floors;
    out->welcome.floors_count = (uint32_t)from->n_floors;
    for (size_t i = 0; i < from->n_floors; i++) {
        const struct text_row rows[] = { TEXT("floors.group", floors[i].group,
                                              from->floors[i]->group) };
        floors[i].ticket_number = from->floors[i]->ticket_number;
        floors[i].owner_term = from->floors[i]->owner_term;
        struct baton_status st = COPY_TEXTS(rows);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status holders_from(const Baton__V1__VersionGoal *from,
                                        struct agent_version_goal *out, struct link_memory *memory)
{
    if (from->n_holders > BATON_HOLDERS_MAX) {
        return message_bad("holders", "too many");
    }
    struct agent_holder *holders = link_memory_take(memory, from->n_holders, sizeof(*holders));
    struct baton_status st = baton_status_ok();
    out->holders = holders;
    out->holders_count = (uint32_t)from->n_holders;
    for (size_t i = 0; baton_ok(&st) && i < from->n_holders; i++) {
        const struct text_row rows[] = {
            TEXT("holders.agent", holders[i].agent, from->holders[i]->agent),
            TEXT("holders.address", holders[i].address, from->holders[i]->address),
        };
        holders[i].last = from->holders[i]->last;
        st = COPY_TEXTS(rows);
    }
    return st;
}

struct baton_status link_goal_from(const void *message, struct agent_version_goal *out,
                                   struct link_memory *memory)
{
    const Baton__V1__VersionGoal *from = message;
    if (from == NULL) {
        return baton_status_ok();
    }
    if (from->n_sources > BATON_SOURCES_PER_VERSION_MAX) {
        return message_bad("sources", "too many");
    }
    struct agent_source *sources = link_memory_take(memory, from->n_sources, sizeof(*sources));
    const struct text_row rows[] = { TEXT("digest", out->version.digest, from->digest),
                                     TEXT("uid", out->uid, from->uid) };
    out->version.seq = from->seq;
    out->bytes = from->bytes;
    out->sources = sources;
    out->sources_count = (uint32_t)from->n_sources;
    struct baton_status st = COPY_TEXTS(rows);
    for (size_t i = 0; baton_ok(&st) && i < from->n_sources; i++) {
        const struct text_row source[] = {
            TEXT("sources.backend", sources[i].backend, from->sources[i]->backend),
            TEXT("sources.location", sources[i].location, from->sources[i]->location),
            TEXT("sources.agent", sources[i].agent, from->sources[i]->agent)
        };
        st = COPY_TEXTS(source);
    }
    return baton_ok(&st) ? holders_from(from, out, memory) : st;
}

static struct baton_status group_goal_from(const Baton__V1__GroupGoal *from,
                                           struct agent_group_goal *out, struct link_memory *memory)
{
    const struct text_row rows[] = { TEXT("groups.group", out->group, from->group) };
    out->owner_term = from->owner_term;
    out->drain = from->drain;
    out->sleep = from->sleep;
    out->sleep_drain_ns = from->sleep_drain_ms * BATON_NS_PER_MS;
    struct baton_status st = COPY_TEXTS(rows);
    if (baton_ok(&st)) {
        st = link_goal_from(from->target, &out->target, memory);
    }
    if (baton_ok(&st)) {
        st = link_goal_from(from->stage, &out->stage, memory);
    }
    return baton_ok(&st) ? link_goal_from(from->restore, &out->restore, memory) : st;
}

static struct baton_status droppable_from(const Baton__V1__Goals *from, struct agent_goals *goals,
                                          struct link_memory *memory)
{
    char(*digests)[BATON_DIGEST_TEXT_BYTES] =
        link_memory_take(memory, from->n_droppable, sizeof(*digests));
    goals->droppable = (const char(*)[BATON_DIGEST_TEXT_BYTES])digests;
    goals->droppable_count = (uint32_t)from->n_droppable;
    for (size_t i = 0; i < from->n_droppable; i++) {
        if (!baton_text_copy(digests[i], sizeof(digests[i]), from->droppable[i])) {
            return message_bad("droppable", "is no digest");
        }
    }
    return baton_status_ok();
}

static struct baton_status follows_from(const Baton__V1__Goals *from, struct agent_goals *goals,
                                        struct link_memory *memory)
{
    if (from->n_follows > BATON_FOLLOWED_VERSIONS_MAX) {
        return message_bad("follows", "too many");
    }
    struct agent_version_goal *follows =
        link_memory_take(memory, from->n_follows, sizeof(*follows));
    struct baton_status st = baton_status_ok();
    goals->follows = follows;
    goals->follows_count = (uint32_t)from->n_follows;
    for (size_t i = 0; baton_ok(&st) && i < from->n_follows; i++) {
        st = link_goal_from(from->follows[i], &follows[i], memory);
    }
    return st;
}

static struct baton_status goals_from(const Baton__V1__Goals *from, struct agent_event *out,
                                      struct link_memory *memory)
{
    if (from->n_groups > BATON_GROUPS_PER_AGENT_MAX) {
        return message_bad("groups", "too many");
    }
    struct agent_goals *goals = link_memory_take(memory, 1, sizeof(*goals));
    struct agent_group_goal *groups = link_memory_take(memory, from->n_groups, sizeof(*groups));
    out->kind = AGENT_EVENT_GOALS;
    out->goals = goals;
    goals->revision = from->revision;
    goals->epoch = epoch_of(from->epoch);
    goals->groups = groups;
    goals->groups_count = (uint32_t)from->n_groups;
    struct baton_status st = droppable_from(from, goals, memory);
    if (baton_ok(&st)) {
        st = follows_from(from, goals, memory);
    }
    for (size_t i = 0; baton_ok(&st) && i < from->n_groups; i++) {
        st = group_goal_from(from->groups[i], &groups[i], memory);
    }
    return st;
}

/* A word of the policy to its number; false for an unknown one. */
static bool find_word(const char *const *words, size_t count, const char *word, unsigned *out)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static struct baton_status unknown_word(const char *field, const char *word)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "%s: \"%.40s\" is unknown to this agent; it is older than the "
                             "controller",
                             field, word);
}

static struct baton_status hooks_from(const Baton__V1__SwapPolicy *from, struct agent_policy *out)
{
    static const char *const when[] = { "beforePause", "afterProbe" };
    if (from->n_hooks > BATON_HOOKS_MAX) {
        return message_bad("policy.hooks", "too many");
    }
    out->hooks_count = (uint32_t)from->n_hooks;
    for (size_t i = 0; i < from->n_hooks; i++) {
        struct agent_hook *hook = &out->hooks[i];
        unsigned number = 0;
        if (!find_word(when, 2, from->hooks[i]->when, &number)) {
            return unknown_word("policy.hooks.when", from->hooks[i]->when);
        }
        hook->when = (enum agent_hook_when)number;
        if (!baton_text_copy(hook->url, sizeof(hook->url), from->hooks[i]->url)) {
            return message_bad("policy.hooks.url", "is too long");
        }
        struct baton_status st = baton_wire_duration_ns(
            from->hooks[i]->deadline, "policy.hooks.deadline", &hook->deadline_ns);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

static struct baton_status policy_from(const Baton__V1__SwapPolicy *from, struct agent_policy *out)
{
    static const char *const in_flight[] = { "keep", "wait", "abort" };
    static const char *const arrivals[] = { "hold", "refuse" };
    static const char *const kv[] = { "flush", "salt", "keep" };
    static const char *const expiry[] = { "giveUp", "abort", "keep", "" };
    static const char *const mode[] = { "pause", "live", "" };
    if (from == NULL) {
        return message_bad("policy", "is missing");
    }
    struct {
        const char *field;
        const char *const *words;
        size_t count;
        const char *word;
        unsigned number;
    } rows[] = {
        { "policy.in_flight", in_flight, 3, from->in_flight, 0 },
        { "policy.arrivals", arrivals, 2, from->arrivals, 0 },
        { "policy.kv", kv, 3, from->kv, 0 },
        { "policy.drain_expiry", expiry, 4, from->drain_expiry, 0 },
        { "policy.mode", mode, 3, from->mode, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!find_word(rows[i].words, rows[i].count, rows[i].word, &rows[i].number)) {
            return unknown_word(rows[i].field, rows[i].word);
        }
    }
    *out =
        (struct agent_policy){ .in_flight = (enum agent_in_flight)rows[0].number,
                               .arrivals = (enum agent_arrivals)rows[1].number,
                               .kv = (enum agent_kv)rows[2].number,
                               .drain_expiry = (enum agent_drain_expiry)(rows[3].number % 3),
                               .swap_deadline_ns = from->swap_deadline_ms * BATON_NS_PER_MS,
                               .drain_deadline_ns = from->drain_deadline_ms * BATON_NS_PER_MS,
                               .allow_recreate = from->allow_recreate,
                               .live = rows[4].number == 1,
                               .barrier_deadline_ns = from->barrier_deadline_ms * BATON_NS_PER_MS };
    return hooks_from(from, out);
}

/* Wall clocks of two machines: only for the record, and never below zero. */
static uint64_t queue_ns(const Baton__V1__Ticket *from)
{
    uint64_t issued_ns = 0;
    struct baton_status st = baton_wire_timestamp_ns(from->issued_at, "issued_at", &issued_ns);
    uint64_t now_ns = baton_clock_wall_ns();
    return baton_ok(&st) && issued_ns != 0 && now_ns > issued_ns ? now_ns - issued_ns : 0;
}

struct baton_status link_ticket_from(const void *message, struct agent_ticket *ticket)
{
    const Baton__V1__Ticket *from = message;
    const struct text_row rows[] = { TEXT("ticket.uid", ticket->uid, from->uid),
                                     TEXT("ticket.group", ticket->group, from->group),
                                     TEXT("ticket.from_digest", ticket->from.digest,
                                          from->from_digest),
                                     TEXT("ticket.to_digest", ticket->to.digest, from->to_digest) };
    ticket->number = from->number;
    ticket->epoch = epoch_of(from->epoch);
    ticket->owner_term = from->owner_term;
    ticket->from.seq = from->from_seq;
    ticket->to.seq = from->to_seq;
    ticket->rejoin = from->rejoin;
    ticket->resolve = from->resolve;
    ticket->barrier = from->barrier;
    ticket->queue_ns = queue_ns(from);
    /* Without them nothing can be answered; a policy that cannot be read is answered by a REFUSE. */
    struct baton_status st = COPY_TEXTS(rows);
    struct baton_status policy = policy_from(from->policy, &ticket->policy);
    if (!baton_ok(&policy)) {
        (void)snprintf(ticket->policy.unreadable, sizeof(ticket->policy.unreadable), "%.*s",
                       AGENT_UNREADABLE_BYTES - 1, policy.message);
    }
    return st;
}

static struct baton_status ticket_from(const Baton__V1__Ticket *from, struct agent_event *out,
                                       struct link_memory *memory)
{
    struct agent_ticket *ticket = link_memory_take(memory, 1, sizeof(*ticket));
    out->kind = AGENT_EVENT_TICKET;
    out->ticket = ticket;
    return link_ticket_from(from, ticket);
}

/* A word that only a newer controller knows means nothing here: the group goes on waiting. */
static void barrier_from(const Baton__V1__BarrierOrder *from, struct agent_event *out)
{
    out->kind = AGENT_EVENT_BARRIER;
    out->barrier.group = from->group;
    out->barrier.ticket_uid = from->ticket_uid;
    out->barrier.epoch = epoch_of(from->epoch);
    out->barrier.word = (enum agent_barrier_word)from->word;
}

const void *link_peer_access(const void *response)
{
    const Baton__V1__SessionResponse *message = response;
    bool is_it = message->message_case == BATON__V1__SESSION_RESPONSE__MESSAGE_PEER_ACCESS;
    return is_it ? message->peer_access : NULL;
}

struct baton_status link_event_from(const void *response, struct agent_event *out,
                                    struct link_memory *memory)
{
    const Baton__V1__SessionResponse *message = response;
    switch (message->message_case) {
    case BATON__V1__SESSION_RESPONSE__MESSAGE_WELCOME:
        return welcome_from(message->welcome, out, memory);
    case BATON__V1__SESSION_RESPONSE__MESSAGE_GOALS: return goals_from(message->goals, out, memory);
    case BATON__V1__SESSION_RESPONSE__MESSAGE_TICKET:
        return ticket_from(message->ticket, out, memory);
    case BATON__V1__SESSION_RESPONSE__MESSAGE_REVOKE:
        out->kind = AGENT_EVENT_REVOKE;
        out->revoke.group = message->revoke->group;
        out->revoke.ticket_uid = message->revoke->ticket_uid;
        out->revoke.epoch = epoch_of(message->revoke->epoch);
        return baton_status_ok();
    case BATON__V1__SESSION_RESPONSE__MESSAGE_OUTCOME_STORED:
        out->kind = AGENT_EVENT_OUTCOME_STORED;
        out->outcome_stored.group = message->outcome_stored->group;
        out->outcome_stored.ticket_uid = message->outcome_stored->ticket_uid;
        return baton_status_ok();
    case BATON__V1__SESSION_RESPONSE__MESSAGE_BARRIER:
        barrier_from(message->barrier, out);
        return baton_status_ok();
    case BATON__V1__SESSION_RESPONSE__MESSAGE_PEER_ACCESS: /* Never for the core. */
    case BATON__V1__SESSION_RESPONSE__MESSAGE__NOT_SET:
    case _BATON__V1__SESSION_RESPONSE__MESSAGE__CASE_IS_INT_SIZE: break;
    }
    return message_bad("message",
                       "is of a kind that this agent does not know; it needs an upgrade");
}
