/* stale.h -- the inside of staleness and admission: their objects, and what their modules offer the
 * others.
 *
 * Included by core.h, and through it by the files of this folder only.
 *
 * Depends on: lag.h, event.h.  Threads: one.  Ownership: everything is the core's. */
#ifndef CONTROLLER_CORE_STALE_H
#define CONTROLLER_CORE_STALE_H

#include "api/base/status.h"
#include "controller/core/event.h"
#include "controller/core/lag.h"

struct call;
struct controller;
struct fingerprint;
struct group;
struct model;
struct policy_spec;
struct version;

/* Change marks of an object within a step; consumed by emit.c. */
struct marks {
    bool listed;
    bool added;
    bool put;     /* Its record must be stored. */
    bool changed; /* Watches must hear of it. */
    bool removed; /* Its slot is given back when the next step begins. */
};

/* One of each model. */
struct staleness {
    struct staleness_record r;
    struct marks marks;
    uint32_t groups;
    uint32_t groups_foreign;
    uint32_t groups_unknown;
    uint32_t sessions;    /* Leases of the model, also those that are over. */
    uint32_t slot_leases; /* Of slots.c. */
    uint64_t slots_held;
    uint64_t hold_due_ns; /* When sessions may no longer hold a swap back; 0: none does. */
    bool dirty;           /* The two below are not stored as they are. */
    struct cost_bucket cost[COST_BUCKETS];
    struct sample_counter samples[SAMPLE_STAGES_END];
};

struct session_lease {
    struct session_lease_record r;
    struct marks marks;
    char key[RECORD_KEY_BYTES];
    uint64_t expires_ns;
};

struct slot_lease {
    struct slot_lease_record r;
    struct marks marks;
    uint64_t expires_ns;
};

struct series_chunk {
    struct series_chunk_record r;
    struct marks marks;
    bool used;
};

/* A coarser point under way. */
struct series_sum {
    uint32_t points;
    double means;
    struct series_point point;
};

enum { SERIES_PENDING = 8 };

/* Of one model; see series.h. */
struct series {
    char model[BATON_NAME_BYTES];
    struct series_chunk *chunks; /* SERIES_CHUNKS of them. */
    uint64_t last_slot[3];       /* Of each tier. */
    uint32_t pending_count[3];
    struct series_point pending[3][SERIES_PENDING]; /* Not stored yet. */
    struct series_sum sums[3];
};

/* --- policy_stale.c: the part of staleness, sessions and slots --- */
struct baton_status policy_parse_stale(struct call *call, struct update_policy *out);
bool policy_stale_equal(const struct update_policy *a, const struct update_policy *b);
void policy_stale_print(struct fingerprint *print, const struct policy_spec *spec);

/* --- staleness.c --- */
struct staleness *staleness_add(struct controller *core, const struct staleness_record *record);
void staleness_of_new_model(struct controller *core, struct model *model);
/* Finds the model's record, or makes it from the versions that are kept. */
void staleness_link(struct controller *core, struct model *model);
/* 'version' was published; 'before' was the newest until now. */
void staleness_published(struct controller *core, struct model *model,
                         const struct version *version, uint64_t before);
/* A roll is about to begin to 'to_seq'; an undo goes away from what is rolled or promoted now. */
void staleness_roll_begins(struct controller *core, struct model *model, uint64_t to_seq,
                           bool undo);
/* Counts the groups that this step touched anew; one group; all of a model. */
void staleness_note(struct controller *core);
void staleness_note_group(struct controller *core, struct group *group);
void staleness_note_model(struct controller *core, const struct model *model);
struct lag group_lag(const struct controller *core, const struct group *group);
/* Stores what is only written now and then; later, or at once for a call with a request id. */
void staleness_flush(struct controller *core, struct model *model);
void staleness_flush_later(struct controller *core, struct model *model, const char *request_id);

/* --- cost.c --- */
/* The open ticket of 'group' ends so. */
void cost_note_swap(struct controller *core, struct group *group, const struct swap_record *swap);
void cost_note_publish(struct controller *core, struct model *model);
void cost_note_tokens(struct controller *core, struct model *model, uint64_t tokens);

/* --- series.c --- */
struct series *series_of(struct controller *core, const char *model);
/* False: no room, or a record that breaks its own rules. */
bool series_load(struct controller *core, const struct series_chunk_record *record);
/* Takes points that are due, and stores them now and then. */
void series_run(struct controller *core);

/* --- samples.c --- */
struct baton_status samples_report(struct controller *core, struct call *call);

/* --- sessions.c --- */
struct session_lease *session_add(struct controller *core,
                                  const struct session_lease_record *record);
/* Counts what was loaded. */
void sessions_link(struct controller *core);
void sessions_expire(struct controller *core);
/* Whether leases need this group to stay as it is. */
bool sessions_hold(const struct controller *core, const struct model *model,
                   const struct group *group);
/* The same, when it would get a ticket: also ends leases that held it for too long. */
bool sessions_defer(struct controller *core, struct model *model, const struct group *group);
/* Looks again at models whose leases may hold no longer. */
void sessions_check_holds(struct controller *core);
struct baton_status sessions_resolve(struct controller *core, struct call *call);
/* When a stored lease ends, on our clock. */
uint64_t lease_expiry_ns(const struct controller *core, uint64_t expires_wall_ns);
/* Prolongs a lease; true if its record must be stored for it. */
bool lease_renew(struct controller *core, uint64_t ttl_ns, uint64_t *expires_ns,
                 uint64_t *stored_wall_ns);
void leases_wake(struct controller *core, uint64_t at_ns);

/* --- slots.c --- */
struct slot_lease *slot_lease_add(struct controller *core, const struct slot_lease_record *record);
void slots_link(struct controller *core);
void slots_published(struct model *model);
void slots_expire(struct controller *core);
struct baton_status slots_acquire(struct controller *core, struct call *call);
struct baton_status slots_release(struct controller *core, struct call *call);

#endif /* stale.h */
