/* history.c -- swaps that ended: one small record each, written once, for traces of rolls and for
 * estimates.  Bounded: the oldest go first, a few with each step.
 *
 * Also here: the medians of a model's newest swaps. */
#include "controller/core/core.h"

enum { MEASURED_MAX = 31 };

struct swap_entry *history_load(struct controller *core, const struct history_record *record)
{
    struct swap_entry *entry = table_take(&core->swaps_table);
    if (entry != NULL) {
        entry->r = *record;
        text_format(entry->order_key, sizeof(entry->order_key), "%020llu/%s",
                    (unsigned long long)record->closed_wall_ns, record->swap.ticket_uid);
        index_insert(&core->swaps, entry);
    }
    return entry;
}

void history_add(struct controller *core, const struct group *group, const struct swap_record *swap)
{
    const struct ticket_record *ticket = &group->r.ticket;
    struct history_record record = { .roll_number = ticket->roll_number,
                                     .issued_wall_ns = ticket->issued_wall_ns,
                                     .closed_wall_ns = core->wall_ns,
                                     .swap = *swap };
    text_copy(record.group, sizeof(record.group), group->r.name);
    text_copy(record.model, sizeof(record.model), group->r.model);
    if (group->issued_ns != 0) {
        record.slot_ns = core->now_ns - group->issued_ns;
    } else if (core->wall_ns > ticket->issued_wall_ns) {
        record.slot_ns = core->wall_ns - ticket->issued_wall_ns;
    }
    struct swap_entry *entry = history_load(core, &record);
    struct model *model = model_find(core, group->r.model);
    if (entry != NULL) {
        marks_put(core, RECORD_SWAP, entry);
    }
    if (model != NULL) {
        model->measure.dirty = true;
    }
}

void history_settle(struct controller *core)
{
    for (uint32_t i = 0; i < CONTROLLER_SWAPS_A_STEP && core->swaps.count > core->limits.swaps_kept;
         i++) {
        struct swap_entry *oldest = core->swaps.objects[0];
        index_remove(&core->swaps, oldest);
        marks_remove(core, RECORD_SWAP, oldest);
    }
}

/* Insertion into a short sorted list. */
static void insert(uint64_t *values, uint32_t count, uint64_t value)
{
    uint32_t at = count;
    while (at > 0 && values[at - 1] > value) {
        values[at] = values[at - 1];
        at--;
    }
    values[at] = value;
}

void history_measure(struct controller *core, struct model *model)
{
    uint64_t slots[MEASURED_MAX];
    uint64_t pauses[MEASURED_MAX];
    uint64_t stages[MEASURED_MAX];
    uint32_t count = 0;
    uint32_t shuts = 0;
    if (!model->measure.dirty) {
        return;
    }
    for (uint32_t i = core->swaps.count; i > 0 && count < MEASURED_MAX; i--) {
        const struct swap_entry *entry = core->swaps.objects[i - 1];
        bool counts = entry->r.roll_number != 0 && text_equal(entry->r.model, model->r.name) &&
                      entry->r.swap.outcome == SWAP_OUTCOME_COMMITTED;
        if (counts) {
            insert(slots, count, entry->r.slot_ns);
            if (entry->r.swap.phases.shut_ns !=
                0) { /* A live swap shuts nothing: it says nothing of pauses. */
                insert(pauses, shuts++, entry->r.swap.phases.shut_ns);
            }
            insert(stages, count, entry->r.swap.phases.stage_ns);
            count++;
        }
    }
    model->measure = (struct measure){ 0 };
    if (count > 0) {
        model->measure.slot_ns = slots[count / 2];
        model->measure.pause_ns = shuts > 0 ? pauses[shuts / 2] : 0;
        model->measure.stage_ns = stages[count / 2];
    }
}
