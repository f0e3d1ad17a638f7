/* journal_payload.h -- the bytes inside a journal's frame: kind, group, and the kind's own fields.
 *
 * Integers are little endian, texts are framed.  One function a kind describes its fields for both
 * directions, so that encoder and decoder cannot drift apart.
 *
 * Depends on: journal.h.  Used by: journal.c.  Threads: values only.  Ownership: all borrowed. */
#ifndef AGENT_CORE_JOURNAL_PAYLOAD_H
#define AGENT_CORE_JOURNAL_PAYLOAD_H

#include "agent/core/journal.h"

/* Writes the payload; returns its size, 0 if it does not fit or a member is out of range. */
size_t journal_payload_encode(const struct journal_record *record, uint8_t *out, size_t capacity);

/* Reads a payload that must be consumed whole; false if it is anything else. */
bool journal_payload_decode(struct baton_bytes payload, struct journal_record *record);

#endif /* journal_payload.h */
