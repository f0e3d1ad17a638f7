/* groups.c -- groups: what their leaders report, what they committed, where they should go. */
#include <string.h>

#include "api/base/backoff.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

struct group *group_add(struct controller *core, const struct group_record *record)
{
    struct group *group = table_take(&core->groups_table);
    if (group == NULL) {
        return NULL;
    }
    group->r = *record;
    group->engines = core->engines +
                     (size_t)table_place(&core->groups_table, group) * BATON_ENGINES_PER_GROUP_MAX;
    group->ticket_number_seen = record->ticket_number;
    group->owner_term_seen = record->owner_term;
    group->ticket_print = record->ticket_open ? ticket_fingerprint(&record->ticket) : 0;
    order_key_write_name(group->order_key, record->model, record->name);
    index_insert(&core->groups, group);
    index_insert(&core->groups_ordered, group);
    follow_note_group(core, group);
    return group;
}

struct group *group_find(const struct controller *core, const char *name)
{
    return index_find(&core->groups, name == NULL ? "" : name);
}

void group_remove(struct controller *core, struct group *group)
{
    baton_assert(!group->r.ticket_open);
    order_forget(core, group);
    soak_forget(core, group);
    follow_forget_group(core, group);
    index_remove(&core->groups, group);
    index_remove(&core->groups_ordered, group);
    marks_remove(core, RECORD_GROUP, group);
}

uint32_t groups_first(const struct controller *core, const char *model)
{
    char key[ORDER_KEY_BYTES];
    order_key_write_name(key, model, "");
    return index_lower_bound(&core->groups_ordered, key);
}

struct group *groups_at(const struct controller *core, uint32_t place, const char *model)
{
    if (place >= core->groups_ordered.count) {
        return NULL;
    }
    struct group *group = core->groups_ordered.objects[place];
    return strcmp(group->r.model, model) == 0 ? group : NULL;
}

static void log_state(struct controller *core, const struct group *group, enum group_state before,
                      enum group_state after)
{
    struct object_ref ref = ref_group(group);
    const char *message = group->live.message;
    const char *was =
        before == GROUP_STATE_NONE ? "UNKNOWN" : words_get(&words_group_state, before);
    const char *is = words_get(&words_group_state, after);
    const char *colon = message[0] == '\0' ? "" : ": ";
    if (after == GROUP_STATE_OUT || after == GROUP_STATE_STAGE_FAILED) {
        log_warn(core, &ref, "GroupState", "%s -> %s%s%s", was, is, colon, message);
    } else {
        log_add(core, &ref, "GroupState", NULL, "%s -> %s%s%s", was, is, colon, message);
    }
}

/* Numbers that only rise follow what an agent has seen (rule 5: our store may have gone back). */
static void raise_numbers(struct controller *core, struct group *group)
{
    if (group->live.highest_ticket > group->r.ticket_number) {
        group->r.ticket_number = group->live.highest_ticket;
        marks_put(core, RECORD_GROUP, group);
    }
    if (group->live.owner_term > group->r.owner_term) {
        group->r.owner_term = group->live.owner_term + 1;
        marks_put(core, RECORD_GROUP, group);
    }
}

static bool engines_equal(const struct group *group, const struct group_report *report)
{
    for (uint32_t i = 0; i < report->engines_count; i++) {
        if (memcmp(&group->engines[i], &report->engines[i], sizeof(struct engine_info)) != 0) {
            return false;
        }
    }
    return true;
}

/* Copies the report; true if anything changed. */
static bool copy_report(struct group *group, const struct group_report *report)
{
    struct group_report copy = *report;
    copy.engines = group->engines;
    copy.told = NULL; /* Borrowed; rebuild_note() has seen it. */
    bool same = group->known && group->live.engines_count == report->engines_count &&
                engines_equal(group, report) && memcmp(&group->live, &copy, sizeof(copy)) == 0;
    if (!same) {
        memcpy(group->engines, report->engines, report->engines_count * sizeof(struct engine_info));
        group->live = copy;
        group->known = true;
    }
    return !same;
}

static void note_stage_progress(struct controller *core, struct model *model,
                                const struct group_report *before, const struct group *group)
{
    bool landed_more = group->live.staged_bytes > before->staged_bytes ||
                       group->live.staging_seq != before->staging_seq;
    bool staged = group->live.state == GROUP_STATE_STAGED && before->state != GROUP_STATE_STAGED;
    if (model != NULL && (landed_more || staged)) {
        roll_note_progress(core, model);
    }
}

/* What the last ticket failed on is over by the leader's own word: the next one need not wait. */
static bool is_ready_again(const struct group_report *before, const struct group *group)
{
    bool joins = group->live.state == GROUP_STATE_JOINING && before->state == GROUP_STATE_OUT;
    bool freed = before->blocked[0] != '\0' && group->live.blocked[0] == '\0';
    return joins || freed;
}

void group_take_report(struct controller *core, struct group *group,
                       const struct group_report *report)
{
    struct group_report before = group->live;
    rebuild_note(core, report);
    enum group_state state_before = group->known ? group->live.state : GROUP_STATE_NONE;
    if (!copy_report(group, report)) {
        return;
    }
    marks_change(core, RECORD_GROUP, group);
    if (state_before != group->live.state) {
        goals_touch_group(core, group); /* What to land next depends on it. */
        log_state(core, group, state_before, group->live.state);
    }
    if (memcmp(before.members, group->live.members, sizeof(before.members)) != 0) {
        follow_note_members(core, group);
    }
    if (!text_equal(before.ticket_uid, group->live.ticket_uid)) {
        goals_touch_group(core, group); /* One that is to sleep may sleep from now on. */
    }
    retire_settle(core, group);
    if (is_ready_again(&before, group)) {
        group->retry_ns = 0;
    }
    raise_numbers(core, group);
    group_take_committed(core, group, report->committed_seq, report->committed_digest);
    note_stage_progress(core, group_model(core, group), &before, group);
    barrier_tell(core, group);
    group_touch(core, group);
}

void group_take_committed(struct controller *core, struct group *group, uint64_t seq,
                          const char *digest)
{
    group->live.committed_seq = seq;
    text_copy(group->live.committed_digest, sizeof(group->live.committed_digest), digest);
    if (seq == 0) {
        return; /* Its journal is new; what we know of the old one stays its target. */
    }
    bool same = group->r.committed_seq == seq && text_equal(group->r.committed_digest, digest);
    if (same) {
        return;
    }
    group->r.committed_seq = seq;
    text_copy(group->r.committed_digest, sizeof(group->r.committed_digest), digest);
    marks_put(core, RECORD_GROUP, group);
    struct model *model = group_model(core, group);
    if (model == NULL) {
        return;
    }
    goals_touch_group(core, group);
    group_touch(core, group);
    model_raise_floor(core, model, seq);
    const struct version *version = version_find(core, group->r.model, seq);
    if (version != NULL && !text_equal(version->r.digest, digest)) {
        struct object_ref ref = ref_group(group);
        log_warn(core, &ref, "DigestMismatch",
                 "it committed version %llu as %s, which is not ours (%s)", (unsigned long long)seq,
                 digest, version->r.digest);
    }
}

void group_back_off(struct controller *core, struct group *group)
{
    struct baton_backoff backoff = baton_backoff_of(S_NS, 60 * S_NS);
    baton_assert(group->r.failures > 0);
    backoff.failures = group->r.failures - 1;
    group->retry_ns = core->now_ns + baton_backoff_next_ns(&backoff, &core->jitter);
    wake_first(core, &core->retry_due_ns, group->retry_ns);
}

void group_forget(struct controller *core, struct group *group)
{
    if (!group->known) {
        return;
    }
    struct object_ref ref = ref_group(group);
    log_warn(core, &ref, "GroupState", "%s -> UNKNOWN: its agent %s is silent",
             words_get(&words_group_state, group->live.state), group->r.agent);
    group->known = false;
    memset(&group->live, 0, sizeof(group->live));
    marks_change(core, RECORD_GROUP, group);
    group_touch(core, group);
}

uint64_t group_committed(const struct group *group)
{
    return group->known ? group->live.committed_seq : group->r.committed_seq;
}

bool group_is_on(const struct controller *core, const struct group *group, uint64_t seq)
{
    const char *digest = group->known ? group->live.committed_digest : group->r.committed_digest;
    const struct version *version = version_find(core, group->r.model, seq);
    return group_committed(group) == seq &&
           (version == NULL || text_equal(version->r.digest, digest));
}

bool group_swaps_unknown(const struct group *group)
{
    const char *told = group->known ? group->live.ticket_uid : "";
    bool ours = group->r.ticket_open && text_equal(told, group->r.ticket.uid);
    return told[0] != '\0' && !ours;
}

bool group_is_available(const struct group *group)
{
    if (!group->known || !group->live.gate_open) {
        return false;
    }
    switch (group->live.state) {
    case GROUP_STATE_SERVING:
    case GROUP_STATE_STAGING:
    case GROUP_STATE_STAGED:
    case GROUP_STATE_STAGE_FAILED: return true;
    case GROUP_STATE_NONE:
    case GROUP_STATE_JOINING:
    case GROUP_STATE_PAUSING:
    case GROUP_STATE_APPLYING:
    case GROUP_STATE_RESUMING:
    case GROUP_STATE_RESTORING:
    case GROUP_STATE_OUT:
    case GROUP_STATE_UNKNOWN:
    case GROUP_STATE_ASLEEP:
    case GROUP_STATE_RETIRED: break;
    }
    return false;
}

bool group_lacks_live(const struct model *model, const struct group *group)
{
    return model->r.policy.swap.mode == POLICY_MODE_LIVE && group->known &&
           !group->live.can_swap_live;
}

uint64_t group_target(const struct controller *core, const struct model *model,
                      const struct group *group)
{
    if (group->r.ticket_open && group->r.ticket.rejoin) {
        return group->r.ticket.to_seq; /* Never re-aimed. */
    }
    uint64_t together = barrier_target(core, model, group);
    if (together != 0) {
        return together;
    }
    uint64_t committed = group->r.committed_seq;
    const struct version *version = version_find(core, group->r.model, committed);
    bool fits = version != NULL && !version->r.quarantined &&
                text_equal(version->r.digest, group->r.committed_digest);
    bool gave_up = group_sleeps(group) && !group->r.pinned && !group_is_available(group);
    if (fits && !group->r.as_new && !gave_up && !late_joins(core, model, group)) {
        return committed;
    }
    uint64_t promoted = quarantine_fallback(core, model);
    if (promoted != 0) {
        return promoted;
    }
    /* The model's first roll: groups that never served join at its version. */
    uint64_t first = model->active != NULL ? model->active->r.to_seq : committed;
    return quarantine_holds(core, model->r.name, first) ? 0 : first;
}

struct version *group_stage(const struct controller *core, const struct model *model,
                            const struct group *group)
{
    if (group->r.ticket_open) {
        return group->r.ticket.rejoin ? NULL
                                      : version_find(core, model->r.name, group->r.ticket.to_seq);
    }
    bool joins = !group->known || group->live.state == GROUP_STATE_JOINING ||
                 group->live.state == GROUP_STATE_OUT;
    bool stays = group->r.cordoned || group->r.pinned || group->r.retired || group->r.returning;
    if (model->active == NULL || joins || stays ||
        quarantine_holds(core, model->r.name, model->active->r.to_seq) ||
        group_is_on(core, group, model->active->r.to_seq)) {
        return NULL;
    }
    return version_find(core, model->r.name, model->active->r.to_seq);
}
