/* check_model.c -- the truth about several models in one fleet: nothing of one reaches the other; see check.h.
 *
 * Weights know whose they are: each content was published by one model's trainer.  Numbers do not,
 * since every model counts its versions and rolls from 1; so a number is judged with its digest, or
 * by whether its model has one of it at all. */
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/cover.h"

/* No content, or one of this model. */
static bool is_of(const struct world *world, uint32_t model, const char *digest)
{
    uint32_t content = content_of(digest);
    return content == 0 || !world->versions[content].used ||
           world->versions[content].model == model;
}

/* What only a lost store knew has no number any more. */
static bool has_seq(const struct world *world, uint32_t model, uint64_t seq)
{
    return seq == 0 || world->went_back || content_of_seq(world, model, seq) != 0;
}

static void crosses(struct world *world, const char *who, uint32_t model, const char *what)
{
    world_break(world, CHECK_MODELS, "%s is of model %s; %s another one", who, model_name(model),
                what);
}

/* --- what is sent, and what agents do with it --- */

static void check_version_sent(struct world *world, const struct group_goal *goal,
                               const struct version_record *version, const char *what)
{
    uint32_t model = model_of_group(world, goal->group);
    if (version != NULL &&
        (model_of_name(version->model) != model || !is_of(world, model, version->digest))) {
        crosses(world, goal->group, model, what);
    }
}

void check_models_sent(struct world *world, const struct action_send *send)
{
    for (size_t i = 0; send->kind == SEND_GOALS && i < send->message.goals.groups_count; i++) {
        const struct group_goal *goal = &send->message.goals.groups[i];
        check_version_sent(world, goal, goal->target, "it is to serve a version of");
        check_version_sent(world, goal, goal->stage, "it is to land a version of");
        check_version_sent(world, goal, goal->restore, "it is to keep a version of");
    }
    if (send->kind == SEND_TICKET) {
        const struct ticket_record *ticket = send->message.ticket.ticket;
        uint32_t model = model_of_group(world, send->message.ticket.group);
        if (!is_of(world, model, ticket->from_digest) || !is_of(world, model, ticket->to_digest)) {
            crosses(world, send->message.ticket.group, model, "it is sent a ticket for");
        }
    }
}

void check_models_op(struct world *world, const struct agent_group_config *config,
                     const struct agent_op *op)
{
    uint32_t model = model_of_name(config->model);
    if (!is_of(world, model, op->digest)) {
        crosses(world, config->name, model, "its engine is to hold a version of");
    }
}

void check_models_told(struct world *world, const struct agent_group_report *report)
{
    uint32_t model = model_of_group(world, report->group);
    if (model_of_name(report->model) != model || !is_of(world, model, report->committed.digest)) {
        crosses(world, report->group, model, "its agent reports");
    }
}

/* Both models of an agent at once. */
static void note_together(const struct node *node, const char *model)
{
    for (uint32_t g = 0; g < node->groups_count; g++) {
        if (strcmp(node->groups_config[g].model, model) != 0) {
            cover(COVER_MODELS, COVER_MODELS_ONE_AGENT);
            if (node->groups[g].ticket.open) {
                cover(COVER_MODELS, COVER_MODELS_TICKETS);
            }
        }
    }
}

void check_models_journal(struct world *world, const struct node *node,
                          const struct journal_record *record)
{
    const struct group_model *group = node_part((struct node *)node, record->group);
    if (record->kind == JOURNAL_SEQ) {
        uint32_t model = model_of_name(record->seq.model);
        if (!is_of(world, model, record->seq.version.digest)) {
            crosses(world, node->config.agent, model, "it saw a version of");
        }
    } else if (group != NULL && record->kind == JOURNAL_ACCEPT) {
        note_together(node, node->groups_config[group - node->groups].model);
    } else if (group != NULL && record->kind == JOURNAL_COMMIT) {
        uint32_t model = model_of_name(node->groups_config[group - node->groups].model);
        if (!is_of(world, model, record->commit.version.digest)) {
            crosses(world, record->group, model, "it commits a version of");
        }
    }
}

/* --- what is stored --- */

static void check_model_kept(struct world *world, const struct model_record *record)
{
    uint32_t model = model_of_name(record->name);
    if (!has_seq(world, model, record->newest_seq) ||
        !has_seq(world, model, record->promoted_seq) ||
        !has_seq(world, model, record->previous_promoted_seq)) {
        crosses(world, "a record", model, "it names a version of");
    }
}

static void check_version_kept(struct world *world, const struct version_record *record)
{
    uint32_t model = model_of_name(record->model);
    if (!is_of(world, model, record->digest) || !has_seq(world, model, record->parent_seq)) {
        crosses(world, "a version", model, "its weights or its parent are of");
    }
}

static void check_group_kept(struct world *world, const struct group_record *record)
{
    uint32_t model = model_of_group(world, record->name);
    const struct ticket_record *ticket = &record->ticket;
    bool swaps = record->ticket_open;
    if (model_of_name(record->model) != model || !is_of(world, model, record->committed_digest) ||
        !has_seq(world, model, record->target_seq)) {
        crosses(world, record->name, model, "its record is of");
    }
    if (swaps &&
        (!is_of(world, model, ticket->from_digest) || !is_of(world, model, ticket->to_digest))) {
        crosses(world, record->name, model, "its ticket is of");
    }
}

static void check_kept(struct world *world, const struct record_op *op)
{
    if (op->record.kind == RECORD_MODEL) {
        check_model_kept(world, op->record.body);
    } else if (op->record.kind == RECORD_VERSION) {
        check_version_kept(world, op->record.body);
    } else if (op->record.kind == RECORD_GROUP) {
        check_group_kept(world, op->record.body);
    } else if (op->record.kind == RECORD_ROLL) {
        const struct roll_record *roll = op->record.body;
        uint32_t model = model_of_name(roll->model);
        if (!has_seq(world, model, roll->to_seq) || !has_seq(world, model, roll->promoted_seq)) {
            crosses(world, "a roll", model, "it goes to a version of");
        }
    } else if (op->record.kind == RECORD_SLOT_LEASE) {
        const struct slot_lease_record *lease = op->record.body;
        const struct slot_lease_record *old = disk_find(&world->disk, RECORD_SLOT_LEASE, op->key);
        uint32_t model = model_of_name(lease->model);
        if (!has_seq(world, model, lease->seq) ||
            (old != NULL && model_of_name(old->model) != model)) {
            crosses(world, "a lease of slots", model, "it held a version or slots of");
        }
    }
}

/* The model that the request in work is about; SIM_MODELS: of none, or of whatever an agent leads. */
static uint32_t model_of_request(const struct world *world, const struct request *request)
{
    const char *group = request->group != NULL ? request->group : "";
    const char *uid = request->version_uid != NULL ? request->version_uid : "";
    if (request->agent != NULL && request->agent[0] != '\0') {
        return SIM_MODELS;
    }
    if (group[0] != '\0') {
        return model_of_group(world, group);
    }
    const struct version_record *version = disk_find(&world->disk, RECORD_VERSION, uid);
    return model_of_name(version != NULL ? version->model : request->model);
}

void check_models_asked(const struct world *world, struct head *head, const struct event *event)
{
    bool asked = event->kind == EVENT_REQUEST;
    head->about = asked ? model_of_request(world, &event->body.request) : SIM_MODELS;
}

/* By the policy's progressAction, which holds the model and may quarantine what it left. */
static bool is_taken_back(const struct transaction *transaction, const char *model)
{
    bool is = false;
    for (size_t i = 0; i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        const struct roll_record *roll = op->record.body;
        is |= op->record.kind == RECORD_ROLL && !op->remove && strcmp(roll->model, model) == 0 &&
              roll->state == ROLL_STATE_ROLLED_BACK;
    }
    return is;
}

/* What only a verb changes, and the model of what it changes; SIM_MODELS: nothing. */
static uint32_t changed_by_verb(const struct transaction *transaction, const struct record_op *op,
                                const void *kept)
{
    if (kept == NULL) {
        return SIM_MODELS;
    }
    if (op->record.kind == RECORD_MODEL) {
        const struct model_record *new = op->record.body, *old = kept;
        bool changed = old->suspended != new->suspended || old->generation != new->generation ||
                       (old->held != new->held && !is_taken_back(transaction, new->name));
        return changed ? model_of_name(new->name) : SIM_MODELS;
    }
    if (op->record.kind == RECORD_VERSION) {
        const struct version_record *new = op->record.body, *old = kept;
        bool judged =
            old->quarantined != new->quarantined && !is_taken_back(transaction, new->model);
        return judged || old->pinned != new->pinned ? model_of_name(new->model) : SIM_MODELS;
    }
    if (op->record.kind == RECORD_GROUP) {
        const struct group_record *new = op->record.body, *old = kept;
        bool changed = old->cordoned != new->cordoned || old->drained != new->drained ||
                       old->pinned != new->pinned || old->asleep != new->asleep;
        return changed ? model_of_name(new->model) : SIM_MODELS;
    }
    return SIM_MODELS;
}

void check_models_stored(struct world *world, const struct head *head,
                         const struct transaction *transaction)
{
    for (size_t i = 0; i < transaction->ops_count; i++) {
        const struct record_op *op = &transaction->ops[i];
        if (op->remove) {
            continue;
        }
        check_kept(world, op);
        const void *kept = disk_find(&world->disk, op->record.kind, op->key);
        uint32_t model = changed_by_verb(transaction, op, kept);
        if (head->about < SIM_MODELS && model < SIM_MODELS && model != head->about) {
            crosses(world, op->key, model, "it is changed by a verb for");
        }
    }
}

/* --- what is answered and shown --- */

void check_models_answer(struct world *world, const struct call *call,
                         const struct object_ref *object)
{
    uint32_t model = call->model;
    bool named = object->kind == OBJECT_MODEL || object->kind == OBJECT_VERSION ||
                 object->kind == OBJECT_ROLL;
    if ((named && model_of_name(object->name) != model) ||
        (object->kind == OBJECT_GROUP && model_of_group(world, object->name) != model)) {
        crosses(world, "a client", model, "the answer is of");
    }
    const struct slot_lease_record *lease = disk_find(&world->disk, RECORD_SLOT_LEASE, object->uid);
    if (lease != NULL && model_of_name(lease->model) != model) {
        crosses(world, "a client", model, "the lease is of");
    }
}

void check_models_refused(const struct world *world, const struct call *call)
{
    for (uint32_t model = 0; model < world->models_count; model++) {
        bool slots = call->kind == REQUEST_SLOTS_ACQUIRE || call->kind == REQUEST_SLOTS_RELEASE;
        if (slots && model != call->model && call->uid[0] != '\0' &&
            strcmp(call->uid, world->models[model].lease) == 0) {
            cover(COVER_MODELS, COVER_MODELS_LEASE);
        }
    }
}

static void check_slots_shown(struct world *world, const struct head *head, uint32_t model)
{
    const struct model_record *record = view_model_find(head->core, model_name(model));
    struct slots_status shown;
    uint64_t held = 0;
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct slot_lease_record *lease = &world->disk.kept[i].body.slot_lease;
        bool counts =
            world->disk.kept[i].kind == RECORD_SLOT_LEASE && model_of_name(lease->model) == model;
        held += counts ? lease->held : 0;
    }
    if (record != NULL) {
        (void)view_slots_status(head->core, record, &shown);
        if (shown.held != held) {
            world_break(world, CHECK_MODELS, "model %s is said to hold %llu slots; it holds %llu",
                        model_name(model), (unsigned long long)shown.held,
                        (unsigned long long)held);
        }
    }
}

void check_models_shown(struct world *world, const struct head *head)
{
    for (uint32_t model = 0; model < world->models_count; model++) {
        const struct admission_query query = { .model = model_name(model) };
        check_slots_shown(world, head, model);
        for (uint32_t i = 0; i < view_groups_count(head->core); i++) {
            const struct group_record *group = view_group_at(head->core, i);
            const struct version_record *version = NULL;
            bool ready = view_admission_group(head->core, &query, group, &version);
            if (ready && (model_of_group(world, group->name) != model ||
                          !is_of(world, model, version->digest))) {
                crosses(world, group->name, model, "it is said to be ready for");
            }
        }
    }
}
