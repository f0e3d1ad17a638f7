/* record.c -- see record.h. */
#include "controller/core/record.h"

#include "controller/core/text.h"

static void roll_key(const struct roll_record *roll, char out[RECORD_KEY_BYTES])
{
    text_format(out, RECORD_KEY_BYTES, "%s/%llu", roll->model, (unsigned long long)roll->number);
}

static void swap_key(const struct history_record *swap, char out[RECORD_KEY_BYTES])
{
    text_format(out, RECORD_KEY_BYTES, "%s/%llu", swap->group,
                (unsigned long long)swap->swap.ticket_number);
}

static void series_key(const struct series_chunk_record *chunk, char out[RECORD_KEY_BYTES])
{
    text_format(out, RECORD_KEY_BYTES, "%s/%u/%u", chunk->model, chunk->tier, chunk->place);
}

static void session_key(const struct session_lease_record *lease, char out[RECORD_KEY_BYTES])
{
    text_format(out, RECORD_KEY_BYTES, "%s/%s", lease->model, lease->name);
}

void record_key(struct record_ref record, char out[RECORD_KEY_BYTES])
{
    const char *text = "cluster";
    switch (record.kind) {
    case RECORD_ROLL: roll_key(record.body, out); return;
    case RECORD_SWAP: swap_key(record.body, out); return;
    case RECORD_SERIES: series_key(record.body, out); return;
    case RECORD_SESSION_LEASE: session_key(record.body, out); return;
    case RECORD_SLOT_LEASE: text = ((const struct slot_lease_record *)record.body)->id; break;
    case RECORD_CLUSTER: break;
    case RECORD_MODEL: text = ((const struct model_record *)record.body)->name; break;
    case RECORD_VERSION: text = ((const struct version_record *)record.body)->uid; break;
    case RECORD_GROUP: text = ((const struct group_record *)record.body)->name; break;
    case RECORD_AGENT: text = ((const struct agent_record *)record.body)->name; break;
    case RECORD_STALENESS: text = ((const struct staleness_record *)record.body)->model; break;
    case RECORD_REQUEST: text = ((const struct request_record *)record.body)->id; break;
    case RECORD_KINDS_END: baton_assert(false);
    }
    text_copy(out, RECORD_KEY_BYTES, text);
}
