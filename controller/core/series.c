/* series.c -- see series.h. */
#include "controller/core/series.h"

#include <string.h>

#include "controller/core/core.h"
#include "controller/core/staleness.h"
#include "controller/core/text.h"

static const struct {
    uint64_t period_s;
    uint32_t first;  /* Of its chunks. */
    uint32_t chunks; /* One more than it promises. */
} tiers[SERIES_TIERS] = { { 10, 0, 7 }, { 60, 7, 25 }, { 600, 32, 35 } };

uint64_t series_period_s(uint32_t tier)
{
    return tiers[tier].period_s;
}

bool series_tier_of(uint64_t period_s, uint32_t *out)
{
    for (uint32_t tier = 0; tier < SERIES_TIERS; tier++) {
        if (tiers[tier].period_s == period_s) {
            *out = tier;
            return true;
        }
    }
    return false;
}

uint32_t series_points_max(uint32_t tier)
{
    return tiers[tier].chunks * SERIES_CHUNK_POINTS + SERIES_PENDING;
}

/* --- objects --- */

static void clear(struct series_chunk *chunk)
{
    chunk->marks = (struct marks){ 0 };
    chunk->r.points_count = 0;
    chunk->used = false;
}

struct series *series_of(struct controller *core, const char *model)
{
    struct series *series = index_find(&core->series, model);
    if (series != NULL) {
        return series;
    }
    series = table_take(&core->series_table);
    if (series == NULL) {
        return NULL;
    }
    size_t place = table_place(&core->series_table, series);
    text_copy(series->model, sizeof(series->model), model);
    series->chunks = core->series_chunks + place * SERIES_CHUNKS;
    for (uint32_t i = 0; i < SERIES_CHUNKS; i++) {
        clear(&series->chunks[i]);
    }
    index_insert(&core->series, series);
    return series;
}

static struct series_chunk *chunk_of(struct series *series, uint32_t tier, uint64_t number)
{
    return &series->chunks[tiers[tier].first + number % tiers[tier].chunks];
}

bool series_load(struct controller *core, const struct series_chunk_record *record)
{
    struct series *series = series_of(core, record->model);
    if (series == NULL || record->tier >= SERIES_TIERS ||
        record->points_count > SERIES_CHUNK_POINTS) {
        return false;
    }
    struct series_chunk *chunk = chunk_of(series, record->tier, record->number);
    chunk->r = *record;
    chunk->used = true;
    uint64_t last = record->points_count == 0 ? 0 : record->points[record->points_count - 1].slot;
    if (last > series->last_slot[record->tier]) {
        series->last_slot[record->tier] = last;
    }
    return true;
}

/* --- storing --- */

static void store_point(struct controller *core, struct series *series, uint32_t tier,
                        const struct series_point *point)
{
    uint64_t number = point->slot / SERIES_CHUNK_POINTS;
    struct series_chunk *chunk = chunk_of(series, tier, number);
    if (!chunk->used || chunk->r.number != number) {
        memset(&chunk->r, 0, sizeof(chunk->r));
        text_copy(chunk->r.model, sizeof(chunk->r.model), series->model);
        chunk->r.tier = tier;
        chunk->r.number = number;
        chunk->r.place = (uint32_t)(number % tiers[tier].chunks);
        chunk->used = true;
    }
    /* Slots rise and a chunk has as many places as slots. */
    baton_assert(chunk->r.points_count < SERIES_CHUNK_POINTS);
    chunk->r.points[chunk->r.points_count++] = *point;
    marks_put(core, RECORD_SERIES, chunk);
}

static void flush(struct controller *core, struct series *series)
{
    for (uint32_t tier = 0; tier < SERIES_TIERS; tier++) {
        for (uint32_t i = 0; i < series->pending_count[tier]; i++) {
            store_point(core, series, tier, &series->pending[tier][i]);
        }
        series->pending_count[tier] = 0;
    }
}

static void append(struct controller *core, struct series *series, uint32_t tier,
                   const struct series_point *point)
{
    if (series->pending_count[tier] == SERIES_PENDING) {
        flush(core, series);
    }
    series->pending[tier][series->pending_count[tier]++] = *point;
    series->last_slot[tier] = point->slot;
}

/* --- sampling --- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Into a coarser point under way. */
static void merge(struct series_sum *sum, const struct series_point *point)
{
    struct series_point *all = &sum->point;
    sum->points++;
    sum->means += point->mean_publishes;
    all->mean_publishes = sum->means / sum->points;
    all->groups = point->groups;
    all->newest_seq = point->newest_seq;
    all->max_publishes = larger(all->max_publishes, point->max_publishes);
    all->max_optimizer_steps = larger(all->max_optimizer_steps, point->max_optimizer_steps);
    all->max_samples = larger(all->max_samples, point->max_samples);
    all->max_seconds = larger(all->max_seconds, point->max_seconds);
    all->max_age_seconds = larger(all->max_age_seconds, point->max_age_seconds);
    all->groups_over_bound = (uint32_t)larger(all->groups_over_bound, point->groups_over_bound);
}

static void add_coarser(struct controller *core, struct series *series, uint32_t tier,
                        const struct series_point *point)
{
    struct series_sum *sum = &series->sums[tier];
    uint64_t slot = core->wall_ns / (tiers[tier].period_s * S_NS);
    if (sum->points > 0 && slot > sum->point.slot) {
        append(core, series, tier, &sum->point);
        memset(sum, 0, sizeof(*sum));
    }
    if (sum->points == 0 && slot <= series->last_slot[tier]) {
        return; /* The clock was set back, or a former life stored this period already. */
    }
    if (sum->points == 0) {
        sum->point.slot = slot;
    }
    merge(sum, point);
}

static void sample(struct controller *core, struct model *model)
{
    struct series *series = series_of(core, model->r.name);
    struct staleness_summary summary;
    struct series_point point = { .slot = core->wall_ns / (tiers[0].period_s * S_NS) };
    if (point.slot <= series->last_slot[0]) {
        return;
    }
    view_staleness_summary(core, &model->r, core->wall_ns, &summary);
    point.groups = summary.groups;
    point.groups_over_bound =
        summary.policy.bounded ? summary.groups_over_bound : summary.groups_unrelated;
    point.newest_seq = summary.newest_seq;
    point.max_publishes = summary.lags[LAG_PUBLISHES].max;
    point.mean_publishes = summary.lags[LAG_PUBLISHES].mean;
    point.max_optimizer_steps = summary.lags[LAG_OPTIMIZER_STEPS].max;
    point.max_samples = summary.lags[LAG_SAMPLES].max;
    point.max_seconds = summary.lags[LAG_SECONDS].max;
    point.max_age_seconds = summary.age.max;
    append(core, series, 0, &point);
    for (uint32_t tier = 1; tier < SERIES_TIERS; tier++) {
        add_coarser(core, series, tier, &point);
    }
}

void series_run(struct controller *core)
{
    if (core->now_ns < core->series_due_ns) {
        wake_at(core, core->series_due_ns);
        return;
    }
    core->series_due_ns = core->now_ns + SERIES_PERIOD_S * S_NS;
    core->series_unflushed++;
    bool store = core->series_unflushed >= SERIES_FLUSH_POINTS;
    for (uint32_t i = 0; i < core->models.count; i++) {
        struct model *model = core->models.objects[i];
        if (model->staleness->groups > 0 && model->r.newest_seq != 0) {
            sample(core, model);
        }
        if (store) {
            flush(core, series_of(core, model->r.name));
            staleness_flush(core, model);
        }
    }
    core->series_unflushed = store ? 0 : core->series_unflushed;
    wake_at(core, core->series_due_ns);
}

/* --- views --- */

struct copy {
    struct series_point *out;
    uint32_t count;
    uint64_t from; /* Slot. */
};

static void copy_points(struct copy *copy, const struct series_point *points, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (points[i].slot >= copy->from) {
            copy->out[copy->count++] = points[i];
        }
    }
}

uint32_t view_series(const struct controller *core, const struct model_record *model, uint32_t tier,
                     uint64_t since_wall_ns, struct series_point *out)
{
    struct series *series = index_find(&core->series, model->name);
    uint64_t period_ns = tiers[tier].period_s * S_NS;
    uint64_t now = core->wall_ns / period_ns;
    uint64_t kept = (uint64_t)(tiers[tier].chunks - 1) * SERIES_CHUNK_POINTS;
    struct copy copy = { out, 0, now > kept ? now - kept : 0 };
    uint64_t since = (since_wall_ns + period_ns - 1) / period_ns;
    copy.from = since > copy.from ? since : copy.from;
    if (series == NULL) {
        return 0;
    }
    uint64_t last = now / SERIES_CHUNK_POINTS;
    uint64_t span = tiers[tier].chunks - 1;
    for (uint64_t number = last > span ? last - span : 0; number <= last; number++) {
        const struct series_chunk *chunk = chunk_of(series, tier, number);
        if (chunk->used && chunk->r.number == number) {
            copy_points(&copy, chunk->r.points, chunk->r.points_count);
        }
    }
    copy_points(&copy, series->pending[tier], series->pending_count[tier]);
    return copy.count;
}

const struct series_chunk_record *view_series_chunk(const struct controller *core,
                                                    const struct model_record *model,
                                                    uint32_t place)
{
    const struct series *series = index_find(&core->series, model->name);
    bool stored = series != NULL && series->chunks[place].used;
    return stored ? &series->chunks[place].r : NULL;
}
