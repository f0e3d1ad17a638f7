/* series.h -- lag over time: a ring of points of each model in three widths.
 *
 * Every SERIES_PERIOD_S each model with groups gives a point: its largest and mean lags, its largest
 * age, groups over the bound.  Coarser points hold the largest of the finer ones, and the mean of
 * their means.  Points are stored in chunks that overwrite the oldest, once a minute and all models
 * in one transaction; a crash loses the points of the last minute.  Times without a point are times
 * in which no controller ran, or the clock was set back.
 *
 * Depends on: view.h.  Threads: that of controller_step().  Ownership: the core's. */
#ifndef CONTROLLER_CORE_SERIES_H
#define CONTROLLER_CORE_SERIES_H

#include "controller/core/view.h"

enum {
    SERIES_PERIOD_S = 10,
    SERIES_FLUSH_POINTS = 6, /* Stored together. */
    SERIES_TIERS = 3,
    SERIES_CHUNKS =
        7 + 25 + 35, /* Of one model: an hour, a day, two weeks, and one of each more. */
};

/* Seconds of a point: 10, 60, 600. */
uint64_t series_period_s(uint32_t tier);
/* The tier whose points are so wide; false for another width. */
bool series_tier_of(uint64_t period_s, uint32_t *out);

/* Most points that a tier keeps. */
uint32_t series_points_max(uint32_t tier);

/* Copies the points of a tier that are kept, oldest first, not before 'since_wall_ns'; 'out' holds
 * series_points_max() of them.  Also those that are not stored yet. */
uint32_t view_series(const struct controller *core, const struct model_record *model, uint32_t tier,
                     uint64_t since_wall_ns, struct series_point *out);

/* What is stored, by place, for tests; null: nothing at this place. */
const struct series_chunk_record *view_series_chunk(const struct controller *core,
                                                    const struct model_record *model,
                                                    uint32_t place);

#endif /* series.h */
