/* rules_place.c -- the coordinates of a container, FSDP's cut, and the ranks that hold it. */
#include <string.h>

#include "transport/layout/rules_state.h"

static uint32_t axis_of(const struct layout_mesh *mesh, const char *name)
{
    for (uint32_t a = 0; name != NULL && a < mesh->count; a++) {
        if (strcmp(mesh->axes[a].name, name) == 0) {
            return a;
        }
    }
    return LAYOUT_NONE;
}

static uint32_t size_of(const struct layout_mesh *mesh, uint32_t axis)
{
    return axis != LAYOUT_NONE ? mesh->axes[axis].size : 1;
}

/* --- ranks --- */

/* All ranks whose coordinates are as fixed, ascending, as a set. */
static struct baton_status set_of(struct expansion *e, const struct place *place, uint32_t *out)
{
    size_t used = e->arena->used;
    uint32_t ranks = 1;
    for (uint32_t a = 0; a < place->mesh->count; a++) {
        ranks *= place->fixed[a] == LAYOUT_NONE ? place->mesh->axes[a].size : 1;
    }
    uint32_t *list = baton_arena_take(e->arena, ranks, sizeof(*list));
    uint32_t count = 1;
    if (list == NULL) {
        return rules_full(e);
    }
    list[0] = 0; /* Grows by one axis after the other; stays ascending. */
    for (uint32_t a = 0; a < place->mesh->count; a++) {
        uint32_t size = place->mesh->axes[a].size;
        uint32_t fixed = place->fixed[a];
        uint32_t times = fixed == LAYOUT_NONE ? size : 1;
        for (uint32_t i = count; i > 0; i--) {
            for (uint32_t c = times; c > 0; c--) {
                list[(i - 1) * times + c - 1] =
                    list[i - 1] * size + (fixed == LAYOUT_NONE ? c - 1 : fixed);
            }
        }
        count *= times;
    }
    uint32_t before = layout_sets_count(e->layout);
    struct baton_status st = layout_add_set(e->layout, (struct layout_ranks){ list, count }, out);
    if (baton_ok(&st) && before == layout_sets_count(e->layout)) {
        e->arena->used = used;
    }
    return st;
}

/* --- FSDP --- */

/* The part of a local that goes to one rank. */
struct window {
    uint32_t local;
    uint64_t begin;
    uint64_t end;
};

static struct baton_status add_box(struct expansion *e, const struct stretch *stretch,
                                   const struct box *box, uint64_t offset, uint32_t local)
{
    struct layout_piece_options piece = { stretch->tensor, local, *box, offset, stretch->pitch };
    return layout_add_piece(e->layout, &piece);
}

/* A range of a box's elements, in row-major order, as boxes; each is added as a piece. */
struct range {
    uint32_t rank;
    uint64_t begin;
    uint64_t end;
    uint64_t offset; /* Of the range's first element in the local. */
};

static struct baton_status add_range(struct expansion *e, const struct stretch *stretch,
                                     struct range range, struct box box, uint32_t d, uint32_t local)
{
    uint64_t inner = 1;
    for (uint32_t i = d + 1; i < range.rank; i++) {
        inner *= box.extent[i];
    }
    if (range.rank == 0 || (range.begin == 0 && range.end == inner * box.extent[d])) {
        return add_box(e, stretch, &box, range.offset, local);
    }
    uint64_t first = range.begin / inner; /* Rows that the range touches. */
    uint64_t at = range.begin;
    struct baton_status st = baton_status_ok();
    for (uint64_t row = first; at < range.end && baton_ok(&st);) {
        uint64_t row_end = (row + 1) * inner;
        struct box part = box;
        struct range rest = { range.rank, at - row * inner,
                              (range.end < row_end ? range.end : row_end) - row * inner,
                              range.offset + (at - range.begin) };
        part.begin[d] = box.begin[d] + (uint32_t)row;
        if (rest.begin == 0 && rest.end == inner) { /* Whole rows, as many as there are. */
            uint64_t whole = (range.end - at) / inner;
            part.extent[d] = (uint32_t)whole;
            st = add_box(e, stretch, &part, rest.offset, local);
            row += whole;
            at += whole * inner;
            continue;
        }
        part.extent[d] = 1;
        st = add_range(e, stretch, rest, part, d + 1, local);
        at += rest.end - rest.begin;
        row++;
    }
    return st;
}

/* Rows of a stretch whose rows take turns with others'; the window begins and ends between rows. */
static struct baton_status add_rows(struct expansion *e, const struct stretch *stretch,
                                    const struct window *window, bool *fits)
{
    uint64_t base = stretch->offset / stretch->pitch * stretch->pitch;
    uint64_t rows = stretch->box.extent[0];
    uint64_t begin = window->begin > base ? window->begin - base : 0;
    uint64_t end = window->end > base ? window->end - base : 0;
    end = end < rows * stretch->pitch ? end : rows * stretch->pitch;
    *fits = true;
    if (begin >= end) {
        return baton_status_ok();
    }
    *fits = begin % stretch->pitch == 0 && end % stretch->pitch == 0;
    if (!*fits) {
        return baton_status_ok();
    }
    struct box box = stretch->box;
    box.begin[0] += (uint32_t)(begin / stretch->pitch);
    box.extent[0] = (uint32_t)((end - begin) / stretch->pitch);
    return add_box(e, stretch, &box, stretch->offset + begin - window->begin, window->local);
}

static struct baton_status add_stretch(struct expansion *e, const struct stretch *stretch,
                                       const struct window *window)
{
    uint64_t begin = stretch->offset > window->begin ? stretch->offset : window->begin;
    uint64_t end = stretch->offset + stretch->elements;
    end = end < window->end ? end : window->end;
    if (stretch->pitch != 0) {
        bool fits;
        struct baton_status st = add_rows(e, stretch, window, &fits);
        return fits || !baton_ok(&st) ? st
                                      : rules_refuse(e, stretch->tensor,
                                                     "FSDP would cut between rows that take turns");
    }
    if (begin >= end) {
        return baton_status_ok();
    }
    if (stretch->tensor == LAYOUT_NONE) {
        return layout_add_pad(e->layout, window->local, begin - window->begin, end - begin);
    }
    struct range range = { e->spec->tensors[stretch->tensor].shape.rank, begin - stretch->offset,
                           end - stretch->offset, begin - window->begin };
    return add_range(e, stretch, range, stretch->box, 0, window->local);
}

struct baton_status rules_give(struct expansion *e, const char *name, const struct place *place)
{
    struct place at = *place;
    uint32_t parts = size_of(place->mesh, place->fsdp_axis);
    bool is_flat = e->spec->fsdp == LAYOUT_FSDP_FLAT;
    uint64_t row = is_flat || parts == 1 ? 1 : e->row;
    uint64_t chunk = (e->elements / row + parts - 1) / parts * row;
    struct baton_status st = baton_status_ok();
    enum tensor_dtype dtype = TENSOR_DTYPE_COUNT;
    for (uint32_t i = 0; i < e->stretches_count && dtype == TENSOR_DTYPE_COUNT; i++) {
        if (e->stretches[i].tensor != LAYOUT_NONE) {
            dtype = e->spec->tensors[e->stretches[i].tensor].dtype;
        }
    }
    dtype = dtype == TENSOR_DTYPE_COUNT ? e->spec->tensors[e->order[0]->tensor].dtype : dtype;
    for (uint32_t f = 0; f < parts && baton_ok(&st); f++) {
        struct window window = { 0, f * chunk, (f + 1) * chunk };
        uint64_t end = window.end < e->elements ? window.end : e->elements;
        uint32_t set = 0;
        if (window.begin >= end && !(is_flat && parts > 1 && chunk > 0)) {
            break; /* Nothing is left for the last ones. */
        }
        if (place->fsdp_axis != LAYOUT_NONE) {
            at.fixed[place->fsdp_axis] = f;
        }
        uint64_t begin = window.begin < end ? window.begin : end;
        uint64_t elements = is_flat && parts > 1 ? chunk : end - begin;
        st = set_of(e, &at, &set);
        if (baton_ok(&st)) {
            st = layout_add_local(e->layout, name, dtype, elements, set, &window.local);
        }
        for (uint32_t i = 0; i < e->stretches_count && baton_ok(&st); i++) {
            st = add_stretch(e, &e->stretches[i], &window);
        }
        if (baton_ok(&st) && end - begin < elements) {
            st = layout_add_pad(e->layout, window.local, end - begin, elements - (end - begin));
        }
    }
    return st;
}

/* --- coordinates --- */

/* Members by expert, then by their rules' order, then as they came. */
static void put_in_order(struct expansion *e, const struct container *container)
{
    uint32_t count = 0;
    for (uint32_t m = container->first; m != LAYOUT_NONE;) {
        const struct member *member = pool_get(&e->members, m);
        uint32_t at = count++;
        for (; at > 0 && (e->order[at - 1]->expert > member->expert ||
                          (e->order[at - 1]->expert == member->expert &&
                           e->order[at - 1]->rule->order > member->rule->order));
             at--) {
            e->order[at] = e->order[at - 1];
        }
        e->order[at] = member;
        m = member->next;
    }
}

/* What the members of a local must have in common, because it is read from the first one's rule:
 * where the local lies, along which axis it is cut, how its tensors follow each other. */
static const char *difference(const struct layout_rule *a, const struct layout_rule *b)
{
    bool is_cut_alike = a->shard == b->shard ||
                        (a->shard != NULL && b->shard != NULL && strcmp(a->shard, b->shard) == 0);
    return !is_cut_alike                                              ? "shard"
           : a->stage != b->stage                                     ? "stage"
           : a->is_expert != b->is_expert                             ? "expert"
           : a->is_stacked != b->is_stacked                           ? "stacked"
           : a->fuse != b->fuse                                       ? "fuse"
           : a->fuse == LAYOUT_FUSE_GROUPED && a->groups != b->groups ? "groups"
                                                                      : NULL;
}

static struct baton_status check_alike(const struct expansion *e, uint32_t count)
{
    const struct member *first = e->order[0];
    struct baton_status st = baton_status_ok();
    for (uint32_t m = 1; m < count && baton_ok(&st); m++) {
        const struct member *other = e->order[m];
        const char *what =
            e->spec->tensors[other->tensor].dtype != e->spec->tensors[first->tensor].dtype
                ? "dtype"
                : difference(first->rule, other->rule);
        if (what != NULL) {
            st = rules_refuse(e, other->tensor,
                              "does not fit into one local with %.60s: another '%s'",
                              e->spec->tensors[first->tensor].name, what);
        }
    }
    return st;
}

/* The stage of a container; LAYOUT_NONE: every one. */
static struct baton_status stage_of(const struct expansion *e, const struct container *container,
                                    uint32_t stages, uint32_t *out)
{
    enum layout_stage stage = e->order[0]->rule->stage;
    const struct layout_spec *spec = e->spec;
    *out = stage == LAYOUT_STAGE_FIRST ? 0 : stage == LAYOUT_STAGE_LAST ? stages - 1 : LAYOUT_NONE;
    if (stage != LAYOUT_STAGE_AUTO || container->layer == LAYOUT_NONE) {
        return baton_status_ok();
    }
    uint32_t begin = 0;
    for (uint32_t s = 0; s < stages; s++) {
        uint32_t layers = spec->stage_layers != NULL
                              ? spec->stage_layers[s]
                              : spec->layers / stages + (s < spec->layers % stages);
        if (container->layer < begin + layers) {
            *out = s;
            return baton_status_ok();
        }
        begin += layers;
    }
    if (stages == 1) {
        *out = 0;
        return baton_status_ok();
    }
    return rules_refuse(e, e->order[0]->tensor, "layer %u is on no stage: there are %u layers",
                        container->layer, begin);
}

/* The members of one expert: the first and how many. */
static uint32_t members_of(const struct expansion *e, uint32_t count, uint32_t expert,
                           const struct member ***out)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (e->order[middle]->expert < expert) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *out = &e->order[low];
    uint32_t found = 0;
    while (low + found < count && e->order[low + found]->expert == expert) {
        found++;
    }
    return found;
}

static void begin_sequence(struct expansion *e)
{
    e->stretches_count = 0;
    e->elements = 0;
    e->row = 0;
}

/* FSDP by rows keeps together: a slot of stacked experts, a row of the first tensor otherwise. */
static void find_row(struct expansion *e, uint32_t slots)
{
    if (e->order[0]->rule->is_stacked && slots > 0) {
        e->row = e->elements / slots;
    }
    e->row = e->row == 0 ? 1 : e->row;
}

/* An empty slot of stacked experts is as large as any other. */
static struct baton_status pad_slot(struct expansion *e, const struct container *container,
                                    const struct place *place)
{
    const struct member **members;
    uint32_t count = members_of(e, container->count, e->order[0]->expert, &members);
    uint32_t stretches = e->stretches_count;
    uint64_t before = e->elements;
    struct baton_status st = rules_cut(e, members, count, place);
    if (baton_ok(&st) && e->elements > before) {
        e->stretches_count = stretches + 1;
        e->stretches[stretches] = (struct stretch){ .tensor = LAYOUT_NONE,
                                                    .offset = before,
                                                    .elements = e->elements - before };
    }
    return st;
}

/* One coordinate along the expert axis: its slots, or the one expert of this container. */
static struct baton_status place_experts(struct expansion *e, const struct container *container,
                                         struct place *place, uint32_t rank, uint32_t per_rank)
{
    const char *name = intern_get(&e->names, container->name, NULL);
    bool is_stacked = e->order[0]->rule->is_stacked;
    struct baton_status st = baton_status_ok();
    uint32_t filled = 0;
    begin_sequence(e);
    for (uint32_t s = 0; s < per_rank && baton_ok(&st); s++) {
        const struct member **members;
        uint32_t expert = rules_expert_in(e, container->layer, rank * per_rank + s);
        uint32_t count = members_of(e, container->count, expert, &members);
        if (count > 0 && (is_stacked || filled == 0)) {
            st = rules_cut(e, members, count, place);
            filled++;
        } else if (is_stacked) {
            st = pad_slot(e, container, place);
            filled++;
        }
    }
    if (!baton_ok(&st) || filled == 0) {
        return st;
    }
    find_row(e, filled);
    return rules_give(e, name, place);
}

static struct baton_status place_shard(struct expansion *e, const struct container *container,
                                       struct place *place)
{
    uint32_t axis =
        axis_of(place->mesh, e->spec->expert_axis != NULL ? e->spec->expert_axis : "ep");
    struct baton_status st = baton_status_ok();
    if (!e->order[0]->rule->is_expert) {
        begin_sequence(e);
        st = rules_cut(e, e->order, container->count, place);
        if (baton_ok(&st) && e->elements > 0) {
            find_row(e, 0);
            st = rules_give(e, intern_get(&e->names, container->name, NULL), place);
        }
        return st;
    }
    uint32_t ranks = size_of(place->mesh, axis);
    uint32_t per_rank = rules_slots(e, container->layer, ranks);
    const struct layout_experts *map = rules_map(e, container->layer);
    if (map != NULL && map->slots_count != (size_t)ranks * per_rank) {
        return rules_refuse(e, e->order[0]->tensor,
                            "its map of experts has %zu slots, not %u for each of %u ranks",
                            map->slots_count, per_rank, ranks);
    }
    uint32_t first = 0, last = ranks;
    if (container->count > 0 && !e->order[0]->rule->is_stacked && map == NULL && per_rank > 0) {
        first = e->order[0]->expert / per_rank; /* Equal runs: it sits on one. */
        last = first + 1 < ranks ? first + 1 : ranks;
    }
    for (uint32_t r = first; r < last && baton_ok(&st); r++) {
        if (axis != LAYOUT_NONE) {
            place->fixed[axis] = r;
        }
        st = place_experts(e, container, place, r, per_rank);
    }
    return st;
}

struct baton_status rules_place(struct expansion *e, const struct container *container)
{
    put_in_order(e, container);
    struct baton_status st = check_alike(e, container->count);
    if (!baton_ok(&st)) {
        return st;
    }
    const struct layout_rule *rule = e->order[0]->rule;
    const struct layout_spec *spec = e->spec;
    struct place place = { .mesh = rule->is_expert && spec->expert_mesh.count > 0
                                       ? &spec->expert_mesh
                                       : &spec->mesh };
    uint32_t stage_axis = axis_of(place.mesh, spec->stage_axis != NULL ? spec->stage_axis : "pp");
    uint32_t stage = LAYOUT_NONE;
    memset(place.fixed, 0xff, sizeof(place.fixed));
    place.shard_axis = axis_of(place.mesh, rule->shard);
    place.fsdp_axis = axis_of(place.mesh, spec->fsdp_axis);
    place.shards = size_of(place.mesh, place.shard_axis);
    st = stage_of(e, container, size_of(place.mesh, stage_axis), &stage);
    if (stage_axis != LAYOUT_NONE) {
        place.fixed[stage_axis] = stage;
    }
    for (uint32_t s = 0; s < place.shards && baton_ok(&st); s++) {
        place.shard = s;
        if (place.shard_axis != LAYOUT_NONE) {
            place.fixed[place.shard_axis] = s;
        }
        st = place_shard(e, container, &place);
    }
    return st;
}
