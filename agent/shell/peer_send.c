/* peer_send.c -- commands and results of agents of one group as messages; see peer_message.h. */
#include "agent/shell/peer_message.h"

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/swap_peer.pb-c.h"

#define SWAP    BATON__V1__PEER_PURPOSE__PEER_PURPOSE_SWAP
#define RESTORE BATON__V1__PEER_PURPOSE__PEER_PURPOSE_RESTORE
#define COMPARE BATON__V1__PEER_PURPOSE__PEER_PURPOSE_COMPARE
#define KNOW    BATON__V1__PEER_PURPOSE__PEER_PURPOSE_KNOW

static Baton__V1__Fence *fence_message(const struct agent_fence *fence, void *root)
{
    Baton__V1__Fence *message = baton_wire_part(root, &baton__v1__fence__descriptor);
    message->epoch = baton_wire_part(root, &baton__v1__epoch__descriptor);
    message->epoch->generation = fence->epoch.generation;
    message->epoch->n = fence->epoch.n;
    message->owner_term = fence->owner_term;
    message->ticket_number = fence->ticket;
    message->step = fence->step;
    return message;
}

static void fill_stage(const struct agent_peer_command *command, Baton__V1__PeerCommand *message,
                       void *root)
{
    message->command_case = BATON__V1__PEER_COMMAND__COMMAND_STAGE;
    message->stage = baton_wire_part(root, &baton__v1__peer_stage__descriptor);
    if (command->target != NULL) {
        message->stage->target = link_goal_message(command->target, root);
    }
    if (command->stage != NULL) {
        message->stage->stage = link_goal_message(command->stage, root);
    }
    if (command->restore != NULL) {
        message->stage->restore = link_goal_message(command->restore, root);
    }
    message->stage->sleep = command->sleep;
}

static void fill_verify(const struct agent_version *version, Baton__V1__PeerPurpose purpose,
                        Baton__V1__PeerCommand *message, void *root)
{
    message->command_case = BATON__V1__PEER_COMMAND__COMMAND_VERIFY;
    message->purpose = purpose;
    message->verify = baton_wire_part(root, &baton__v1__peer_verify__descriptor);
    message->verify->digest = baton_wire_text(root, version->digest);
    message->verify->seq = version->seq;
}

static void fill_commit(const struct agent_peer_command *command, Baton__V1__PeerCommand *message,
                        void *root)
{
    message->command_case = BATON__V1__PEER_COMMAND__COMMAND_COMMIT;
    message->commit = baton_wire_part(root, &baton__v1__peer_commit__descriptor);
    message->commit->seq = command->version.seq;
    message->commit->digest = baton_wire_text(root, command->version.digest);
}

static void fill_end(const struct agent_peer_command *command, Baton__V1__PeerCommand *message,
                     void *root)
{
    message->command_case = BATON__V1__PEER_COMMAND__COMMAND_END;
    message->end = baton_wire_part(root, &baton__v1__peer_end__descriptor);
    message->end->outcome = (Baton__V1__SwapOutcome)command->outcome;
    message->end->seq = command->version.seq;
    message->end->digest = baton_wire_text(root, command->version.digest);
    message->end->committed = command->committed;
}

static void fill_open(const struct agent_peer_command *command, Baton__V1__PeerPurpose purpose,
                      Baton__V1__PeerCommand *message, void *root)
{
    message->command_case = BATON__V1__PEER_COMMAND__COMMAND_OPEN_GATE;
    message->purpose = purpose;
    message->open_gate = baton_wire_part(root, &baton__v1__peer_open_gate__descriptor);
    message->open_gate->seq = command->version.seq;
    message->open_gate->outcome = (Baton__V1__SwapOutcome)command->outcome;
}

/* Commands that say all by their name, with their purpose. */
static const struct plain_row {
    enum agent_peer_verb verb;
    Baton__V1__PeerCommand__CommandCase what;
    const ProtobufCMessageDescriptor *type;
    Baton__V1__PeerPurpose purpose;
} PLAIN[] = {
#define ROW(verb, what, type, why)                                                                 \
    {                                                                                              \
        AGENT_PEER_##verb, BATON__V1__PEER_COMMAND__COMMAND_##what,                                \
            &baton__v1__peer_##type##__descriptor, (why)                                           \
    }
    ROW(SHUT, SHUT_GATE, shut_gate, SWAP),
    ROW(CLOSE, HOLD_GATE, hold_gate, SWAP),
    ROW(BACK_SHUT, HOLD_GATE, hold_gate, RESTORE),
    ROW(PAUSE, PAUSE, pause, SWAP),
    ROW(FENCE, PREPARE, prepare, SWAP),
    ROW(BACK_FENCE, PREPARE, prepare, RESTORE),
    ROW(UPDATE, APPLY, apply, SWAP),
    ROW(BACK_UPDATE, RESTORE, restore, RESTORE),
    ROW(INVALIDATE, INVALIDATE, invalidate, SWAP),
    ROW(CONFIRM, REPORT, report, SWAP),
    ROW(LABEL, LABEL, label, SWAP),
    ROW(MARK, MARK, mark, SWAP),
    ROW(RESUME, RESUME, resume, SWAP),
    ROW(REOPEN_RESUME, RESUME, resume, RESTORE),
    ROW(PROBE, PROBE, probe, SWAP),
    ROW(BACK_PROBE, PROBE, probe, RESTORE),
    ROW(SLEEP, SLEEP, sleep, SWAP),
    ROW(WAKE, WAKE, wake, SWAP),
#undef ROW
};

static void fill_plain(const struct agent_peer_command *command, Baton__V1__PeerCommand *message,
                       void *root)
{
    for (size_t i = 0; i < sizeof(PLAIN) / sizeof(PLAIN[0]); i++) {
        if (PLAIN[i].verb == command->verb) {
            message->command_case = PLAIN[i].what;
            message->purpose = PLAIN[i].purpose;
            message->pause = baton_wire_part(root, PLAIN[i].type); /* Of the union, any member. */
        }
    }
}

/* A sleep's drain; and texts that only help to read a capture, as the core goes by the ticket. */
static void fill_texts(const struct agent_peer_command *command, Baton__V1__PeerCommand *message,
                       void *root)
{
    if (command->verb == AGENT_PEER_UPDATE) {
        message->apply->digest = baton_wire_text(root, command->ticket.to.digest);
    } else if (command->verb == AGENT_PEER_BACK_UPDATE) {
        message->restore->digest = baton_wire_text(root, command->ticket.from.digest);
    } else if (command->verb == AGENT_PEER_LABEL) {
        message->label->label =
            baton_wire_textf(root, "%llu", (unsigned long long)command->version.seq);
    } else if (command->verb == AGENT_PEER_MARK) {
        message->mark->seq = command->version.seq;
    } else if (command->verb == AGENT_PEER_SLEEP) {
        message->sleep->drain_ms = command->drain_ns / BATON_NS_PER_MS;
    }
}

static void fill_ask(const struct agent_peer_command *command, Baton__V1__PeerCommand *message,
                     void *root)
{
    message->command_case = BATON__V1__PEER_COMMAND__COMMAND_ASK_OUTCOME;
    message->ask_outcome = baton_wire_part(root, &baton__v1__peer_ask_outcome__descriptor);
    message->ask_outcome->ticket_uid = baton_wire_text(root, command->asked);
}

static void fill_command(const struct agent_peer_command *command, Baton__V1__PeerCommand *message,
                         void *root)
{
    const struct agent_ticket *ticket = &command->ticket;
    enum agent_peer_verb verb = command->verb;
    if (verb == AGENT_PEER_WATCH) {
        fill_stage(command, message, root);
    } else if (verb == AGENT_PEER_ASK) {
        fill_ask(command, message, root);
    } else if (verb == AGENT_PEER_END) {
        fill_end(command, message, root);
    } else if (verb == AGENT_PEER_COMMIT) {
        fill_commit(command, message, root);
    } else if (verb == AGENT_PEER_COMPARE) {
        fill_verify(&command->version, COMPARE, message, root);
    } else if (verb == AGENT_PEER_KNOW || verb == AGENT_PEER_VERIFY) {
        fill_verify(&ticket->to, verb == AGENT_PEER_KNOW ? KNOW : SWAP, message, root);
    } else if (verb == AGENT_PEER_BACK_VERIFY) {
        fill_verify(&ticket->from, RESTORE, message, root);
    } else if (verb == AGENT_PEER_OPEN || verb == AGENT_PEER_REOPEN) {
        fill_open(command, verb == AGENT_PEER_OPEN ? SWAP : RESTORE, message, root);
    } else {
        fill_plain(command, message, root);
        fill_texts(command, message, root);
    }
}

void *peer_command_message(const struct agent_peer_command *command)
{
    Baton__V1__LinkRequest *root = baton_wire_new(&baton__v1__link_request__descriptor);
    Baton__V1__PeerCommand *message = baton_wire_part(root, &baton__v1__peer_command__descriptor);
    root->command = message;
    message->leader = baton_wire_text(root, command->leader);
    message->protocol = PEER_PROTOCOL;
    message->group = baton_wire_text(root, command->group);
    message->model = baton_wire_text(root, command->model);
    message->fence = fence_message(&command->fence, root);
    message->timeout_ms = command->timeout_ns / BATON_NS_PER_MS;
    message->purpose = SWAP;
    if (command->ticket.uid[0] != '\0') {
        message->ticket_uid = baton_wire_text(root, command->ticket.uid);
        message->ticket = link_ticket_message(&command->ticket, root);
    }
    fill_command(command, message, root);
    return root;
}

static Baton__V1__PeerState *state_message(const struct agent_peer_state *state, void *root)
{
    Baton__V1__PeerState *message = baton_wire_part(root, &baton__v1__peer_state__descriptor);
    message->known = state->known;
    message->fence = fence_message(&state->fence, root);
    message->committed_seq = state->committed.seq;
    message->committed_digest = baton_wire_text(root, state->committed.digest);
    message->needs_ticket = state->needs_ticket;
    message->may_sleep = state->may_sleep;
    message->open_uid = baton_wire_text(root, state->open_uid);
    message->open_from_seq = state->open_from.seq;
    message->open_from_digest = baton_wire_text(root, state->open_from.digest);
    message->open_to_seq = state->open_to.seq;
    message->open_to_digest = baton_wire_text(root, state->open_to.digest);
    message->prepared = state->prepared;
    message->open_committed = state->open_committed;
    message->ready = state->ready;
    message->serving = state->serving;
    message->out = state->out;
    message->busy = state->busy;
    message->can_restore = state->can_restore;
    message->advisory = state->advisory;
    message->landed_target = baton_wire_text(root, state->landed[0]);
    message->landed_stage = baton_wire_text(root, state->landed[1]);
    message->staged_bytes = state->staged_bytes;
    message->verify_level = (Baton__V1__VerifyLevel)state->level;
    message->blocked = baton_wire_text(root, state->blocked);
    message->message = baton_wire_text(root, state->message);
    return message;
}

void *peer_result_message(const struct agent_peer_result *result)
{
    Baton__V1__LinkResponse *root = baton_wire_new(&baton__v1__link_response__descriptor);
    Baton__V1__PeerResult *message = baton_wire_part(root, &baton__v1__peer_result__descriptor);
    const struct agent_fence fence = { .step = result->step };
    root->result = message;
    message->group = baton_wire_text(root, result->group);
    message->fence = fence_message(&fence, root);
    message->ok = result->ok;
    message->gone = result->gone;
    message->message = baton_wire_text(root, result->message);
    message->outcome = (Baton__V1__PeerOutcome)result->asked;
    message->apply_ns = result->times.stage_ns + result->times.load_ns;
    message->finalize_ns = result->times.finalize_ns;
    message->verify_ns = result->times.verify_ns;
    message->held = result->held;
    message->state = state_message(&result->state, root);
    message->n_engines = result->state.engines_count;
    message->engines =
        baton_wire_take(root, result->state.engines_count, sizeof(*message->engines));
    for (uint32_t i = 0; i < result->state.engines_count; i++) {
        message->engines[i] = link_engine_message(result->group, &result->state.engines[i], root);
    }
    return root;
}
