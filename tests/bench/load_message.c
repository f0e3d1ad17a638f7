/* load_message.c -- what a played agent says; see load_agent.h. */
#include "api/wire/wire.h"
#include "tests/bench/load_agent.h"

static Baton__V1__Epoch *epoch_of(const Baton__V1__Epoch *epoch, void *root)
{
    Baton__V1__Epoch *message = baton_wire_part(root, &baton__v1__epoch__descriptor);
    message->generation = epoch->generation;
    message->n = epoch->n;
    return message;
}

static Baton__V1__Engine *engine_of(const struct load_agent *agent, uint32_t index, void *root)
{
    Baton__V1__Engine *engine = baton_wire_part(root, &baton__v1__engine__descriptor);
    engine->name = baton_wire_textf(root, "e%u", index);
    engine->group = baton_wire_text(root, agent->group);
    engine->kind = baton_wire_text(root, "vllm");
    engine->endpoint =
        baton_wire_textf(root, "http://%s.fleet.example:%u", agent->name, 8000 + index);
    engine->software = baton_wire_text(root, "vllm 0.11.0");
    engine->world_size = agent->shape->ranks;
    engine->way_in = baton_wire_text(root, "plugin");
    engine->way_in_reason = baton_wire_text(root, "the plug-in answered");
    engine->incarnation = baton_wire_textf(root, "%s.%u", agent->name, index);
    engine->label = baton_wire_textf(root, "m@%llu", (unsigned long long)agent->committed.seq);
    engine->gate = baton_wire_text(root, atomic_load(&agent->serving_seq) != 0 ? "open" : "shut");
    engine->owner_term = agent->owner_term;
    engine->recreate = baton_wire_text(root, "none");
    engine->reachable = true;
    return engine;
}

static Baton__V1__GroupReport *group_of(const struct load_agent *agent, void *root)
{
    Baton__V1__GroupReport *group = baton_wire_part(root, &baton__v1__group_report__descriptor);
    group->group = baton_wire_text(root, agent->group);
    group->model = baton_wire_text(root, "m");
    group->state = agent->state;
    group->committed_seq = agent->committed.seq;
    group->committed_digest = baton_wire_text(root, agent->committed.digest);
    group->staging_seq = agent->landed.seq;
    group->staged_bytes =
        agent->state == BATON__V1__GROUP_STATE__GROUP_STATE_STAGING ? 0 : agent->landed.bytes;
    group->gate_open = atomic_load(&agent->serving_seq) != 0;
    group->verify_level = BATON__V1__VERIFY_LEVEL__VERIFY_LEVEL_RESIDENT;
    group->highest_ticket = agent->ticket_number;
    group->owner_term = agent->owner_term;
    group->can_restore = true;
    group->n_engines = agent->shape->engines;
    group->engines = baton_wire_take(root, group->n_engines, sizeof(*group->engines));
    for (uint32_t i = 0; i < agent->shape->engines; i++) {
        group->engines[i] = engine_of(agent, i, root);
    }
    return group;
}

static Baton__V1__TicketOutcome *outcome_of(const struct load_agent *agent, void *root)
{
    Baton__V1__TicketOutcome *outcome =
        baton_wire_part(root, &baton__v1__ticket_outcome__descriptor);
    Baton__V1__SwapRecord *record = baton_wire_part(root, &baton__v1__swap_record__descriptor);
    outcome->group = baton_wire_text(root, agent->group);
    outcome->record = record;
    outcome->epoch = epoch_of(&agent->ticket_epoch, root);
    outcome->committed_seq = agent->committed.seq;
    outcome->committed_digest = baton_wire_text(root, agent->committed.digest);
    record->ticket_uid = baton_wire_text(root, agent->ticket_uid);
    record->ticket_number = agent->ticket_number;
    record->from_seq = agent->ticket_from;
    record->to_seq = agent->ticket_to.seq;
    record->outcome = BATON__V1__SWAP_OUTCOME__SWAP_OUTCOME_COMMITTED;
    record->bytes = agent->ticket_to.bytes;
    record->verify_level = BATON__V1__VERIFY_LEVEL__VERIFY_LEVEL_RESIDENT;
    record->phases = baton_wire_part(root, &baton__v1__swap_phases__descriptor);
    record->phases->apply_ns = (uint64_t)agent->shape->swap_ms * 500000 + 1;
    record->phases->shut_ns = (uint64_t)agent->shape->swap_ms * 1000000 + 1;
    return outcome;
}

static bool is_landing(const struct load_agent *agent)
{
    return agent->landed.seq != 0 && agent->state != BATON__V1__GROUP_STATE__GROUP_STATE_STAGING &&
           (agent->state != BATON__V1__GROUP_STATE__GROUP_STATE_JOINING ||
            agent->step_ns == UINT64_MAX);
}

static void add_landed(const struct load_agent *agent, Baton__V1__Report *report, void *root)
{
    report->landed_digests = baton_wire_take(root, 2, sizeof(*report->landed_digests));
    if (agent->committed.seq != 0) {
        report->landed_digests[report->n_landed_digests++] =
            baton_wire_text(root, agent->committed.digest);
        report->landing_used_bytes += agent->committed.bytes;
    }
    if (is_landing(agent)) {
        report->landed_digests[report->n_landed_digests++] =
            baton_wire_text(root, agent->landed.digest);
        report->landing_used_bytes += agent->landed.bytes;
    }
}

void *load_message_report(const struct load_agent *agent, bool group)
{
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    Baton__V1__Report *report = baton_wire_part(request, &baton__v1__report__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_REPORT;
    request->report = report;
    if (group) {
        report->groups = baton_wire_take(request, 1, sizeof(*report->groups));
        report->groups[report->n_groups++] = group_of(agent, request);
    }
    if (agent->outcome_due) {
        report->outcomes = baton_wire_take(request, 1, sizeof(*report->outcomes));
        report->outcomes[report->n_outcomes++] = outcome_of(agent, request);
    }
    add_landed(agent, report, request);
    return request;
}

void *load_message_hello(const struct load_agent *agent)
{
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    Baton__V1__Hello *hello = baton_wire_part(request, &baton__v1__hello__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_HELLO;
    request->hello = hello;
    hello->agent = baton_wire_text(request, agent->name);
    hello->protocol = 1;
    hello->software = baton_wire_text(request, "load");
    hello->journal_incarnation = baton_wire_text(request, agent->name);
    hello->highest_epoch = epoch_of(&agent->epoch, request);
    hello->address = baton_wire_textf(request, "%s.fleet.example:7071", agent->name);
    hello->landing_budget_bytes = UINT64_C(1) << 40;
    hello->groups = baton_wire_take(request, 1, sizeof(*hello->groups));
    hello->groups[hello->n_groups++] = group_of(agent, request);
    return request;
}

void *load_message_ack(uint64_t revision)
{
    Baton__V1__SessionRequest *request = baton_wire_new(&baton__v1__session_request__descriptor);
    request->message_case = BATON__V1__SESSION_REQUEST__MESSAGE_ACK;
    request->ack = baton_wire_part(request, &baton__v1__ack__descriptor);
    request->ack->revision = revision;
    return request;
}
