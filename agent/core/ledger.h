/* ledger.h -- the durable facts of an agent: what its journal says, in memory.
 *
 * Changed by records only: ledger_apply() is used alike for the replay at start and for each record
 * that the core writes, so that what is recovered is what was known.  It decides nothing.
 *
 * Depends on: journal.h, config.h.  Threads: one.
 * Ownership: names are borrowed from the configuration's copy in the core. */
#ifndef AGENT_CORE_LEDGER_H
#define AGENT_CORE_LEDGER_H

#include "agent/core/config.h"
#include "agent/core/journal.h"

/* An ended ticket is remembered so that its repetition is answered; the oldest one goes. */
enum { LEDGER_OUTCOMES_MAX = 4 };

struct ledger_outcome {
    struct agent_swap_record record;
    bool stored; /* By the controller. */
    bool told;   /* In this session; not durable. */
};

struct ledger_group {
    const struct agent_group_config *config;
    uint64_t highest_ticket;
    uint64_t owner_term;

    struct agent_version committed;
    enum agent_level level;
    struct journal_members members; /* Engines that were verified for it. */
    bool salted;                    /* Requests of 'committed' have a cache salt of their own. */
    bool needs_ticket;              /* Resident bytes are in doubt: only a rejoin ticket opens. */

    bool open; /* A ticket was accepted and has no outcome yet. */
    struct agent_ticket ticket;
    struct journal_members ticket_members; /* When it was accepted. */
    uint64_t step;                         /* Of the last INTENT or LIVE_INTENT; 0: none. */
    bool live; /* It was a LIVE_INTENT: gates may be open, on 'from' or on 'to'. */
    bool ticket_committed;
    enum journal_barrier barrier; /* Of a ticket of a barrier. */

    struct ledger_outcome outcomes[LEDGER_OUTCOMES_MAX]; /* Oldest first. */
    uint32_t outcomes_count;
    enum journal_sleep sleep;
    struct journal_members sleep_members; /* Of that mark. */
    bool detached; /* An operator ended this agent's driving under the present owner term. */
    enum agent_verb operated; /* Last of an operator's verbs; STATUS: none. */
    char operated_by[BATON_NAME_BYTES];
    uint64_t operated_wall_ns;
    char taints[BATON_ENGINES_PER_GROUP_MAX][BATON_UID_TEXT_BYTES]; /* By engine. */
};

struct ledger_seq {
    char model[BATON_NAME_BYTES];
    struct agent_version version;
};

struct ledger {
    char incarnation[BATON_UID_TEXT_BYTES];
    struct agent_epoch epoch;
    uint64_t life; /* As leader of other agents; 0: none yet. */
    struct ledger_seq seqs[BATON_GROUPS_PER_AGENT_MAX]; /* A model an agent serves at most. */
    uint32_t seqs_count;
    struct ledger_group *groups; /* In config order. */
    uint32_t groups_count;
};

/* Applies one record.  Records of groups and engines that the configuration no longer has are
 * dropped: false. */
bool ledger_apply(struct ledger *ledger, const struct journal_record *record);

/* The group of this name; null if there is none. */
struct ledger_group *ledger_find(const struct ledger *ledger, const char *group);

/* The remembered outcome of this ticket; null if there is none. */
struct ledger_outcome *ledger_outcome_find(struct ledger_group *group, const char *ticket_uid);

/* Highest seq of this model that was seen; null: none. */
const struct ledger_seq *ledger_seq_find(const struct ledger *ledger, const char *model);

/* As agent_snapshot(). */
bool ledger_snapshot(const struct ledger *ledger, uint32_t index, struct journal_record *out);

#endif /* ledger.h */
