/* lag.h -- how far one version is behind another, along the lineage.
 *
 * A lineage is the tree of a model's published versions: each has one parent.  Almost always the
 * parent of version n is n - 1; a place where it is not (a branch after an undo, a gap after a lost
 * store) is a "jump".  Only jumps are kept, so the path between any two versions is known for as
 * long as LAG_JUMPS_MAX branches go, also when the records of the versions between are gone.
 *
 * The lag of a served version is counted on the path from the newest version down to it: in
 * publishes (steps of the path), and in optimizer steps, samples and seconds (difference of what
 * the two versions say of themselves).  A served version that is not on that path is UNRELATED: a
 * subtraction of numbers would mean nothing.
 *
 * Everything here is a pure function of its arguments.  Cost: O(jumps), at most LAG_JUMPS_MAX.
 *
 * Depends on: record.h.  Threads: any.  Ownership: none. */
#ifndef CONTROLLER_CORE_LAG_H
#define CONTROLLER_CORE_LAG_H

#include "controller/core/record.h"

/* Numbers as in api/proto LineageRelation. */
enum lag_relation {
    LAG_RELATION_NONE,      /* No published version is served. */
    LAG_RELATION_CURRENT,   /* It is the newest one. */
    LAG_RELATION_BEHIND,    /* It is on the path to the newest one. */
    LAG_RELATION_UNRELATED, /* It is on another branch, or of another lineage. */
};

/* What a version says of itself; zero members are not known. */
struct version_point {
    uint64_t seq;
    uint64_t optimizer_step;
    uint64_t samples_trained;
    uint64_t published_wall_ns;
};

struct lag {
    enum lag_relation relation;
    bool known[LAG_UNITS_END];     /* Publishes: whenever CURRENT or BEHIND. */
    uint64_t units[LAG_UNITS_END]; /* By enum lag_unit; seconds are whole ones. */
};

struct version_point lag_point_of(const struct version_record *version);

/* A version was published; 'before' is the newest one until now (0: none). */
void lineage_add(struct lineage *lineage, uint64_t seq, uint64_t parent, uint64_t before);

/* Publishes from 'ancestor' to 'descendant' (0 for the same one); false if it is not an ancestor,
 * or lies before what is remembered. */
bool lineage_distance(const struct lineage *lineage, uint64_t ancestor, uint64_t descendant,
                      uint64_t *out);

/* Notes that 'seq' was undone, or that an operator wants it all the same. */
void lineage_undo(struct lineage *lineage, uint64_t seq);
void lineage_redo(struct lineage *lineage, uint64_t seq);
bool lineage_is_undone(const struct lineage *lineage, uint64_t seq);

/* Lag of 'served' behind 'head'. */
struct lag lag_between(const struct lineage *lineage, const struct version_point *served,
                       const struct version_point *head);

/* Whether a lag is above a limit; UNRELATED is above every limit, a lag whose unit is not known is
 * counted in publishes of at least one (CURRENT is never above). */
bool lag_is_above(const struct lag *lag, enum lag_unit unit, uint64_t limit);

#endif /* lag.h */
