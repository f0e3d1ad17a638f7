/* peer_take.c -- messages of agents of one group as commands and results; see peer_message.h. */
#include <stdio.h>
#include <string.h>

#include "agent/shell/message_text.h"
#include "agent/shell/peer_message.h"
#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/swap_peer.pb-c.h"

static struct agent_fence fence_of(const Baton__V1__Fence *from)
{
    struct agent_fence fence = { .step = 0 };
    if (from != NULL) {
        fence.epoch.generation = from->epoch != NULL ? from->epoch->generation : 0;
        fence.epoch.n = from->epoch != NULL ? from->epoch->n : 0;
        fence.owner_term = from->owner_term;
        fence.ticket = from->ticket_number;
        fence.step = from->step;
    }
    return fence;
}

/* --- commands --- */

static enum agent_peer_verb verb_of_verify(Baton__V1__PeerPurpose purpose)
{
    switch (purpose) {
    case BATON__V1__PEER_PURPOSE__PEER_PURPOSE_SWAP: return AGENT_PEER_VERIFY;
    case BATON__V1__PEER_PURPOSE__PEER_PURPOSE_RESTORE: return AGENT_PEER_BACK_VERIFY;
    case BATON__V1__PEER_PURPOSE__PEER_PURPOSE_COMPARE: return AGENT_PEER_COMPARE;
    case BATON__V1__PEER_PURPOSE__PEER_PURPOSE_KNOW: return AGENT_PEER_KNOW;
    case BATON__V1__PEER_PURPOSE__PEER_PURPOSE_UNSPECIFIED:
    case _BATON__V1__PEER_PURPOSE_IS_INT_SIZE: break;
    }
    return AGENT_PEER_NONE;
}

/* NONE: of a kind that this agent does not know. */
static enum agent_peer_verb verb_of(const Baton__V1__PeerCommand *from)
{
    bool back = from->purpose == BATON__V1__PEER_PURPOSE__PEER_PURPOSE_RESTORE;
    switch (from->command_case) {
    case BATON__V1__PEER_COMMAND__COMMAND_STAGE: return AGENT_PEER_WATCH;
    case BATON__V1__PEER_COMMAND__COMMAND_PAUSE: return AGENT_PEER_PAUSE;
    case BATON__V1__PEER_COMMAND__COMMAND_APPLY: return AGENT_PEER_UPDATE;
    case BATON__V1__PEER_COMMAND__COMMAND_VERIFY: return verb_of_verify(from->purpose);
    case BATON__V1__PEER_COMMAND__COMMAND_INVALIDATE: return AGENT_PEER_INVALIDATE;
    case BATON__V1__PEER_COMMAND__COMMAND_COMMIT: return AGENT_PEER_COMMIT;
    case BATON__V1__PEER_COMMAND__COMMAND_LABEL: return AGENT_PEER_LABEL;
    case BATON__V1__PEER_COMMAND__COMMAND_OPEN_GATE:
        return back ? AGENT_PEER_REOPEN : AGENT_PEER_OPEN;
    case BATON__V1__PEER_COMMAND__COMMAND_SHUT_GATE: return AGENT_PEER_SHUT;
    case BATON__V1__PEER_COMMAND__COMMAND_RESTORE: return AGENT_PEER_BACK_UPDATE;
    case BATON__V1__PEER_COMMAND__COMMAND_ASK_OUTCOME: return AGENT_PEER_ASK;
    case BATON__V1__PEER_COMMAND__COMMAND_PREPARE:
        return back ? AGENT_PEER_BACK_FENCE : AGENT_PEER_FENCE;
    case BATON__V1__PEER_COMMAND__COMMAND_HOLD_GATE:
        return back ? AGENT_PEER_BACK_SHUT : AGENT_PEER_CLOSE;
    case BATON__V1__PEER_COMMAND__COMMAND_REPORT: return AGENT_PEER_CONFIRM;
    case BATON__V1__PEER_COMMAND__COMMAND_MARK: return AGENT_PEER_MARK;
    case BATON__V1__PEER_COMMAND__COMMAND_RESUME:
        return back ? AGENT_PEER_REOPEN_RESUME : AGENT_PEER_RESUME;
    case BATON__V1__PEER_COMMAND__COMMAND_PROBE:
        return back ? AGENT_PEER_BACK_PROBE : AGENT_PEER_PROBE;
    case BATON__V1__PEER_COMMAND__COMMAND_END: return AGENT_PEER_END;
    case BATON__V1__PEER_COMMAND__COMMAND_SLEEP: return AGENT_PEER_SLEEP;
    case BATON__V1__PEER_COMMAND__COMMAND_WAKE: return AGENT_PEER_WAKE;
    case BATON__V1__PEER_COMMAND__COMMAND__NOT_SET:
    case _BATON__V1__PEER_COMMAND__COMMAND__CASE_IS_INT_SIZE: break;
    }
    return AGENT_PEER_NONE;
}

static struct baton_status stage_from(const Baton__V1__PeerStage *from,
                                      struct agent_peer_command *out, struct link_memory *memory)
{
    struct agent_version_goal *goals = link_memory_take(memory, 3, sizeof(*goals));
    struct baton_status st = link_goal_from(from->target, &goals[0], memory);
    if (baton_ok(&st)) {
        st = link_goal_from(from->stage, &goals[1], memory);
    }
    if (baton_ok(&st)) {
        st = link_goal_from(from->restore, &goals[2], memory);
    }
    out->target = from->target != NULL ? &goals[0] : NULL;
    out->stage = from->stage != NULL ? &goals[1] : NULL;
    out->restore = from->restore != NULL ? &goals[2] : NULL;
    out->sleep = from->sleep;
    return st;
}

static struct baton_status version_from(uint64_t seq, const char *digest, struct agent_version *out)
{
    out->seq = seq;
    return baton_text_copy(out->digest, sizeof(out->digest), digest)
               ? baton_status_ok()
               : message_bad("digest", "is too long");
}

static struct baton_status outcome_from(Baton__V1__SwapOutcome from, enum agent_outcome *out)
{
    if ((int)from < 0 || (int)from > AGENT_OUTCOME_OUT) {
        return message_bad("outcome", "is unknown to this agent");
    }
    *out = (enum agent_outcome)from;
    return baton_status_ok();
}

/* What a command says beside its name; the ticket says the rest. */
static struct baton_status members_from(const Baton__V1__PeerCommand *from,
                                        struct agent_peer_command *out, struct link_memory *memory)
{
    if (out->verb == AGENT_PEER_WATCH) {
        return stage_from(from->stage, out, memory);
    }
    if (out->verb == AGENT_PEER_ASK) {
        return baton_text_copy(out->asked, sizeof(out->asked), from->ask_outcome->ticket_uid)
                   ? baton_status_ok()
                   : message_bad("ask_outcome.ticket_uid", "is too long");
    }
    if (out->verb == AGENT_PEER_COMMIT) {
        return version_from(from->commit->seq, from->commit->digest, &out->version);
    }
    if (out->verb == AGENT_PEER_SLEEP) {
        out->drain_ns = from->sleep->drain_ms * BATON_NS_PER_MS;
        return baton_status_ok();
    }
    if (out->verb == AGENT_PEER_COMPARE) {
        return version_from(from->verify->seq, from->verify->digest, &out->version);
    }
    if (out->verb == AGENT_PEER_OPEN || out->verb == AGENT_PEER_REOPEN) {
        return outcome_from(from->open_gate->outcome, &out->outcome);
    }
    if (out->verb == AGENT_PEER_END) {
        struct baton_status st = outcome_from(from->end->outcome, &out->outcome);
        out->committed = from->end->committed;
        return baton_ok(&st) ? version_from(from->end->seq, from->end->digest, &out->version) : st;
    }
    return baton_status_ok();
}

struct baton_status peer_command_from(const void *request, struct agent_peer_command *out,
                                      struct link_memory *memory)
{
    const Baton__V1__PeerCommand *from = ((const Baton__V1__LinkRequest *)request)->command;
    memset(out, 0, sizeof(*out));
    if (from == NULL) {
        return message_bad("command", "is missing");
    }
    if (from->protocol > PEER_PROTOCOL) {
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "leader %.63s speaks protocol %u, this agent knows up to %d",
                              from->leader, from->protocol, PEER_PROTOCOL),
            "upgrade this agent");
    }
    const struct text_row rows[] = { TEXT("leader", out->leader, from->leader),
                                     TEXT("group", out->group, from->group),
                                     TEXT("model", out->model, from->model) };
    out->verb = verb_of(from);
    out->fence = fence_of(from->fence);
    out->timeout_ns = from->timeout_ms * BATON_NS_PER_MS;
    if (out->verb == AGENT_PEER_NONE) {
        return message_bad("command",
                           "is of a kind that this agent does not know; it needs an upgrade");
    }
    if (out->fence.step == 0 || from->leader[0] == '\0') {
        return message_bad(out->fence.step == 0 ? "fence.step" : "leader", "is missing");
    }
    struct baton_status st = COPY_TEXTS(rows);
    if (baton_ok(&st) && from->ticket != NULL) {
        st = link_ticket_from(from->ticket, &out->ticket);
    }
    return baton_ok(&st) ? members_from(from, out, memory) : st;
}

/* --- results --- */

static enum agent_way_in way_in_of(const char *name)
{
    return strcmp(name, "plugin") == 0   ? AGENT_WAY_IN_PLUGIN
           : strcmp(name, "reload") == 0 ? AGENT_WAY_IN_RELOAD
                                         : AGENT_WAY_IN_NONE;
}

/* Only to be shown and told on: what is too long is cut. */
#define CUT(out, text) (void)snprintf((out), sizeof(out), "%s", (text))

static void engine_from(const Baton__V1__Engine *from, struct agent_engine_report *out,
                        struct link_memory *memory)
{
    struct agent_engine_config *config = link_memory_take(memory, 1, sizeof(*config));
    struct agent_engine_facts *facts = link_memory_take(memory, 1, sizeof(*facts));
    CUT(config->name, from->name);
    CUT(config->kind, from->kind);
    CUT(config->endpoint, from->endpoint);
    config->recreate =
        strcmp(from->recreate, "exec") == 0 ? AGENT_RECREATE_EXEC : AGENT_RECREATE_NONE;
    CUT(facts->software, from->software);
    CUT(facts->way_in_reason, from->way_in_reason);
    CUT(facts->incarnation, from->incarnation);
    facts->world_size = from->world_size;
    facts->way_in = way_in_of(from->way_in);
    out->config = config;
    out->facts = facts;
    out->label = from->label;
    out->gate = from->gate;
    out->owner_term = from->owner_term;
    out->recreates = from->recreates;
    out->reachable = from->reachable;
}

static struct baton_status engines_from(const Baton__V1__PeerResult *from,
                                        struct agent_peer_state *out, struct link_memory *memory)
{
    if (from->n_engines > BATON_ENGINES_PER_GROUP_MAX) {
        return message_bad("engines", "too many");
    }
    struct agent_engine_report *engines =
        link_memory_take(memory, from->n_engines, sizeof(*engines));
    for (size_t i = 0; i < from->n_engines; i++) {
        engine_from(from->engines[i], &engines[i], memory);
    }
    out->engines = engines;
    out->engines_count = (uint32_t)from->n_engines;
    return baton_status_ok();
}

static void flags_from(const Baton__V1__PeerState *from, struct agent_peer_state *out)
{
    out->known = from->known;
    out->fence = fence_of(from->fence);
    out->committed.seq = from->committed_seq;
    out->needs_ticket = from->needs_ticket;
    out->may_sleep = from->may_sleep;
    out->open_from.seq = from->open_from_seq;
    out->open_to.seq = from->open_to_seq;
    out->prepared = from->prepared;
    out->open_committed = from->open_committed;
    out->ready = from->ready;
    out->serving = from->serving;
    out->out = from->out;
    out->busy = from->busy;
    out->can_restore = from->can_restore;
    out->advisory = from->advisory;
    out->staged_bytes = from->staged_bytes;
}

static struct baton_status state_from(const Baton__V1__PeerState *from,
                                      struct agent_peer_state *out)
{
    const struct text_row rows[] = {
        TEXT("committed_digest", out->committed.digest, from->committed_digest),
        TEXT("open_uid", out->open_uid, from->open_uid),
        TEXT("open_from_digest", out->open_from.digest, from->open_from_digest),
        TEXT("open_to_digest", out->open_to.digest, from->open_to_digest),
        TEXT("landed_target", out->landed[0], from->landed_target),
        TEXT("landed_stage", out->landed[1], from->landed_stage),
        TEXT("blocked", out->blocked, from->blocked),
    };
    if ((int)from->verify_level < 0 || (int)from->verify_level > AGENT_LEVEL_RESIDENT) {
        return message_bad("verify_level", "is unknown");
    }
    flags_from(from, out);
    out->level = (enum agent_level)from->verify_level;
    CUT(out->message, from->message);
    return COPY_TEXTS(rows);
}

struct baton_status peer_result_from(const void *response, struct agent_peer_result *out,
                                     struct link_memory *memory)
{
    const Baton__V1__PeerResult *from = ((const Baton__V1__LinkResponse *)response)->result;
    memset(out, 0, sizeof(*out));
    if (from == NULL || !baton_text_copy(out->group, sizeof(out->group), from->group)) {
        return message_bad(from == NULL ? "result" : "group",
                           from == NULL ? "is missing" : "is too long");
    }
    out->step = fence_of(from->fence).step;
    out->ok = from->ok;
    out->gone = from->gone;
    CUT(out->message, from->message);
    out->asked = (enum agent_peer_outcome)from->outcome;
    out->times.load_ns = from->apply_ns;
    out->times.finalize_ns = from->finalize_ns;
    out->times.verify_ns = from->verify_ns;
    out->held = from->held;
    struct baton_status st = engines_from(from, &out->state, memory);
    return baton_ok(&st) && from->state != NULL ? state_from(from->state, &out->state) : st;
}
