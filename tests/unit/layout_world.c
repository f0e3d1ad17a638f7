/* layout_world.c -- see layout_world.h. */
#include "tests/unit/layout_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t below(struct baton_random *random, uint32_t bound)
{
    return (uint32_t)baton_random_below(random, bound);
}

void world_tensors(struct baton_random *random, struct world_side *side)
{
    static const char *const names[WORLD_TENSORS_MAX] = { "a", "b", "c", "d" };
    static const char *const sets[] = { NULL, NULL, "x", "y" };
    memset(side, 0, sizeof(*side));
    side->tensors_count = 1 + below(random, WORLD_TENSORS_MAX);
    for (uint32_t t = 0; t < side->tensors_count; t++) {
        struct layout_tensor_options *tensor = &side->tensors[t];
        *tensor = (struct layout_tensor_options){ .name = names[t],
                                                  .dtype = below(random, 2) == 0 ? TENSOR_DTYPE_BF16
                                                                                 : TENSOR_DTYPE_F32,
                                                  .atomic = sets[below(random, 4)] };
        tensor->shape.rank = below(random, 4);
        for (uint32_t d = 0; d < tensor->shape.rank; d++) {
            tensor->shape.dims[d] = 1 + below(random, 6);
        }
    }
}

static uint32_t add_local(struct baton_random *random, struct world_side *side,
                          enum tensor_dtype dtype)
{
    uint32_t local = side->locals_count++;
    side->locals[local].dtype = dtype;
    for (uint32_t r = 0; r < 6; r++) {
        if (below(random, 3) == 0 || (r == 5 && side->locals[local].ranks_count == 0)) {
            side->locals[local].ranks[side->locals[local].ranks_count++] = r;
        }
    }
    return local;
}

/* Lays a box at the end of a new local or of the last one; rows may be interleaved with those of the
 * box before. */
static void place(struct baton_random *random, struct world_side *side, uint32_t t,
                  const struct box *box)
{
    uint32_t rank = side->tensors[t].shape.rank;
    enum tensor_dtype dtype = side->tensors[t].dtype;
    uint64_t volume = box_volume(rank, box);
    uint32_t local = side->locals_count;
    if (local == 0 || below(random, 2) == 0 || side->locals[local - 1].dtype != dtype) {
        local = add_local(random, side, dtype);
    } else {
        local--;
    }
    if (below(random, 8) == 0) {
        uint64_t elements = 1 + below(random, 3);
        side->pads[side->pads_count].local = local;
        side->pads[side->pads_count].offset = side->locals[local].elements;
        side->pads[side->pads_count++].elements = elements;
        side->locals[local].elements += elements;
    }
    struct layout_piece_options *piece = &side->pieces[side->pieces_count++];
    *piece = (struct layout_piece_options){ t, local, *box, side->locals[local].elements, 0 };
    side->locals[local].elements += volume;
    struct layout_piece_options *before = side->pieces_count > 1 ? piece - 1 : NULL;
    if (before != NULL && before->local == local && before->pitch == 0 && rank > 0 &&
        side->tensors[before->tensor].shape.rank > 0 && before->box.extent[0] == box->extent[0] &&
        below(random, 2) == 0) {
        uint64_t rows = box->extent[0];
        uint64_t before_volume = box_volume(side->tensors[before->tensor].shape.rank, &before->box);
        if (before->offset + before_volume == piece->offset) {
            before->pitch = piece->pitch = (uint32_t)((before_volume + volume) / rows);
            piece->offset = before->offset + before_volume / rows;
        }
    }
}

/* Cuts a box in two again and again, and places the parts. */
static void cut(struct baton_random *random, struct world_side *side, uint32_t t, struct box box,
                int depth)
{
    uint32_t rank = side->tensors[t].shape.rank;
    uint32_t d = rank > 0 ? below(random, rank) : 0;
    if (depth == 0 || rank == 0 || box.extent[d] < 2) {
        place(random, side, t, &box);
        if (below(random, 6) == 0) {
            place(random, side, t, &box); /* Once more, elsewhere. */
        }
        return;
    }
    struct box first = box;
    first.extent[d] = 1 + below(random, box.extent[d] - 1);
    box.begin[d] += first.extent[d];
    box.extent[d] -= first.extent[d];
    cut(random, side, t, first, depth - 1);
    cut(random, side, t, box, depth - 1);
}

void world_cut(struct baton_random *random, struct world_side *side)
{
    for (uint32_t t = 0; t < side->tensors_count; t++) {
        uint32_t times = 1 + (below(random, 4) == 0); /* Twice: cut in another way, too. */
        for (uint32_t i = 0; i < times; i++) {
            struct box box;
            memset(&box, 0, sizeof(box));
            for (uint32_t d = 0; d < side->tensors[t].shape.rank; d++) {
                box.extent[d] = (uint32_t)side->tensors[t].shape.dims[d];
            }
            cut(random, side, t, box, (int)below(random, 4));
        }
    }
}

void world_damage(struct baton_random *random, struct world_side *side)
{
    struct layout_piece_options *piece = &side->pieces[below(random, side->pieces_count)];
    switch (below(random, 4)) {
    case 0: *piece = side->pieces[--side->pieces_count]; break;
    case 1: piece->offset += piece->offset == 0 ? 1 : UINT64_MAX; break;
    case 2: side->locals[piece->local].elements++; break;
    default: {
        uint32_t rank = side->tensors[piece->tensor].shape.rank;
        uint32_t d = rank > 0 ? below(random, rank) : 0;
        piece->box.extent[d] -= rank > 0 && piece->box.extent[d] > 1;
        break;
    }
    }
}

/* Calls 'each' with the flat number of every element of a piece and where it lies in its local. */
typedef void element_fn(void *context, uint64_t element, uint64_t place);

static void walk(const struct tensor_shape *shape, const struct layout_piece_options *piece,
                 element_fn *each, void *context)
{
    uint64_t volume = box_volume(shape->rank, &piece->box);
    for (uint64_t i = 0; i < volume; i++) {
        uint64_t rest = i, element = 0, weight = 1;
        uint64_t row = shape->rank > 0 ? volume / piece->box.extent[0] : 1;
        for (uint32_t d = shape->rank; d > 0; d--) {
            element += (piece->box.begin[d - 1] + rest % piece->box.extent[d - 1]) * weight;
            weight *= shape->dims[d - 1];
            rest /= piece->box.extent[d - 1];
        }
        uint64_t inside = piece->pitch == 0 ? i : i / row * piece->pitch + i % row;
        each(context, element, piece->offset + inside);
    }
}

struct tally {
    uint32_t *tensor;
    uint32_t *local;
    uint64_t local_elements;
    bool is_outside;
};

static void count_element(void *context, uint64_t element, uint64_t place)
{
    struct tally *tally = context;
    if (place >= tally->local_elements) {
        tally->is_outside = true;
        return;
    }
    tally->tensor[element]++;
    tally->local[place]++;
}

enum { TALLY = 4096 };

bool world_holds(const struct world_side *side)
{
    static uint32_t tensors[WORLD_TENSORS_MAX][TALLY], locals[WORLD_LOCALS_MAX][TALLY];
    bool holds = true;
    memset(tensors, 0, sizeof(tensors));
    memset(locals, 0, side->locals_count * sizeof(locals[0]));
    for (uint32_t i = 0; i < side->pieces_count; i++) {
        const struct layout_piece_options *piece = &side->pieces[i];
        struct tally tally = { tensors[piece->tensor], locals[piece->local],
                               side->locals[piece->local].elements, false };
        walk(&side->tensors[piece->tensor].shape, piece, count_element, &tally);
        holds = holds && !tally.is_outside;
    }
    for (uint32_t i = 0; i < side->pads_count; i++) {
        for (uint64_t e = 0; e < side->pads[i].elements; e++) {
            locals[side->pads[i].local][side->pads[i].offset + e]++;
        }
    }
    for (uint32_t t = 0; t < side->tensors_count; t++) {
        uint64_t volume = 1;
        for (uint32_t d = 0; d < side->tensors[t].shape.rank; d++) {
            volume *= side->tensors[t].shape.dims[d];
        }
        for (uint64_t e = 0; e < volume; e++) {
            holds = holds && tensors[t][e] > 0;
        }
    }
    for (uint32_t l = 0; l < side->locals_count; l++) {
        for (uint64_t e = 0; e < side->locals[l].elements; e++) {
            holds = holds && locals[l][e] == 1;
        }
    }
    return holds;
}

struct baton_status world_build(const struct world_side *side, const char *name,
                                struct baton_arena *arena, struct layout **out)
{
    struct layout *layout = layout_create(arena, name);
    struct baton_status st = baton_status_ok();
    uint32_t number;
    for (uint32_t t = 0; t < side->tensors_count && baton_ok(&st); t++) {
        st = layout_add_tensor(layout, &side->tensors[t], &number);
    }
    for (uint32_t l = 0; l < side->locals_count && baton_ok(&st); l++) {
        struct layout_ranks ranks = { side->locals[l].ranks, side->locals[l].ranks_count };
        uint32_t set;
        st = layout_add_set(layout, ranks, &set);
        if (baton_ok(&st)) {
            st = layout_add_local(layout, "local", side->locals[l].dtype, side->locals[l].elements,
                                  set, &number);
        }
    }
    for (uint32_t i = 0; i < side->pieces_count && baton_ok(&st); i++) {
        st = layout_add_piece(layout, &side->pieces[i]);
    }
    for (uint32_t i = 0; i < side->pads_count && baton_ok(&st); i++) {
        st = layout_add_pad(layout, side->pads[i].local, side->pads[i].offset,
                            side->pads[i].elements);
    }
    if (baton_ok(&st)) {
        st = layout_seal(layout);
    }
    *out = layout;
    return st;
}

/* --- memory of all ranks --- */

struct cell {
    uint64_t value; /* Tensor's number of the source and element, + 1; 0: nothing. */
    uint32_t writes;
};

struct memory {
    const struct layout *layout;
    struct cell **locals; /* By rank * locals + local; null: this rank does not have it. */
};

static struct cell **local_of(const struct memory *memory, uint32_t rank, uint32_t local)
{
    return &memory->locals[(size_t)rank * layout_locals_count(memory->layout) + local];
}

static struct memory memory_of(const struct layout *layout)
{
    uint32_t locals = layout_locals_count(layout);
    struct memory memory = { layout, calloc((size_t)layout_ranks_count(layout) * locals + 1,
                                            sizeof(*memory.locals)) };
    for (uint32_t l = 0; l < locals; l++) {
        const struct layout_local *local = layout_local_get(layout, l);
        struct layout_ranks set = layout_set(layout, local->set);
        for (size_t r = 0; r < set.count; r++) {
            *local_of(&memory, set.ranks[r], l) = calloc(local->elements + 1, sizeof(struct cell));
        }
    }
    return memory;
}

static void memory_free(struct memory *memory)
{
    size_t count = (size_t)layout_ranks_count(memory->layout) * layout_locals_count(memory->layout);
    for (size_t i = 0; i < count; i++) {
        free(memory->locals[i]);
    }
    free(memory->locals);
}

struct visit {
    struct cell *cells;
    uint64_t base;
    const char *fault; /* Of comparing. */
    bool is_comparing;
};

static void visit_element(void *context, uint64_t element, uint64_t place)
{
    struct visit *visit = context;
    struct cell *cell = &visit->cells[place];
    if (!visit->is_comparing) {
        cell->value = visit->base + element + 1;
    } else if (cell->writes != 1) {
        visit->fault = cell->writes == 0 ? "an element was not written" : "written twice";
    } else if (cell->value != visit->base + element + 1) {
        visit->fault = "a wrong element";
    }
}

/* Fills the source, or compares the target with what the source's tensors of the same name hold. */
static const char *visit_all(const struct memory *memory, const struct layout *source,
                             bool is_comparing)
{
    const struct layout *layout = memory->layout;
    struct visit visit = { .is_comparing = is_comparing };
    for (uint32_t i = 0; i < layout_pieces_count(layout); i++) {
        const struct layout_piece *piece = layout_piece_get(layout, i);
        const struct layout_tensor *tensor = layout_tensor_get(layout, piece->tensor);
        struct layout_ranks set = layout_set(layout, layout_local_get(layout, piece->local)->set);
        struct layout_piece_options options = { piece->tensor, piece->local,
                                                *layout_box(layout, piece->box), piece->offset,
                                                piece->pitch };
        uint32_t name = tensor->tied != LAYOUT_NONE ? tensor->tied : tensor->name;
        uint32_t number = layout_tensor_find(source, layout_text(layout, name));
        if (number == LAYOUT_NONE || (tensor->flags & LAYOUT_KEEP) != 0) {
            continue;
        }
        visit.base = (uint64_t)number << 40;
        for (size_t r = 0; r < set.count; r++) {
            visit.cells = *local_of(memory, set.ranks[r], piece->local);
            walk(layout_shape(layout, tensor->shape), &options, visit_element, &visit);
        }
    }
    return visit.fault;
}

static void copy_strided(const struct layout_strides *strides, const struct cell *from,
                         struct cell *to, uint32_t level)
{
    if (level == strides->levels) {
        for (uint64_t i = 0; i < strides->run_elements; i++) {
            to[i].value = from[i].value;
            to[i].writes++;
        }
        return;
    }
    for (uint64_t i = 0; i < strides->counts[level]; i++) {
        copy_strided(strides, from + i * strides->source_steps[level] * 8 / strides->source_bits,
                     to + i * strides->target_steps[level] * 8 / strides->target_bits, level + 1);
    }
}

static const char *perform_copy(const struct layout_plan *plan, uint32_t c,
                                const struct memory *from, const struct memory *to)
{
    const struct layout_copy *copy = layout_plan_copy(plan, c);
    const struct layout_piece *piece = layout_piece_get(from->layout, copy->source_piece);
    const struct layout_holding *holding = layout_holding_get(to->layout, copy->target_holding);
    struct cell *source = *local_of(from, copy->source_rank, piece->local);
    if (source == NULL) {
        return "the source rank does not have the piece";
    }
    for (uint32_t p = 0; p < holding->pieces_count; p++) {
        uint32_t number = holding->first_piece + p;
        struct layout_strides strides = layout_plan_strides(plan, c, number);
        uint32_t local = layout_piece_get(to->layout, number)->local;
        struct layout_ranks set = layout_set(to->layout, layout_local_get(to->layout, local)->set);
        for (size_t r = 0; r < set.count; r++) {
            copy_strided(&strides, source + strides.source_offset * 8 / strides.source_bits,
                         *local_of(to, set.ranks[r], local) +
                             strides.target_offset * 8 / strides.target_bits,
                         0);
        }
    }
    return NULL;
}

const char *world_perform(const struct layout *source, const struct layout *target,
                          const struct layout_plan *plan)
{
    struct memory from = memory_of(source);
    struct memory to = memory_of(target);
    const char *fault = visit_all(&from, source, false);
    for (uint32_t c = 0; c < layout_plan_copies_count(plan) && fault == NULL; c++) {
        fault = perform_copy(plan, c, &from, &to);
    }
    if (fault == NULL) {
        fault = visit_all(&to, source, true);
    }
    memory_free(&from);
    memory_free(&to);
    return fault;
}

/* --- contents --- */

struct listing {
    uint32_t tensor;
    struct world_element *out;
};

static void list_element(void *context, uint64_t element, uint64_t place)
{
    struct listing *listing = context;
    if (place < WORLD_ELEMENTS_MAX) {
        listing->out[place] = (struct world_element){ listing->tensor, element };
    }
}

uint64_t world_elements(const struct layout *layout, uint32_t rank, const char *local,
                        struct world_element out[WORLD_ELEMENTS_MAX])
{
    uint64_t elements = 0;
    for (uint32_t l = 0; l < layout_locals_count(layout); l++) {
        const struct layout_local *row = layout_local_get(layout, l);
        if (strcmp(layout_text(layout, row->name), local) != 0 ||
            !layout_ranks_have(layout_set(layout, row->set), rank)) {
            continue;
        }
        elements = row->elements;
        for (uint64_t e = 0; e < elements && e < WORLD_ELEMENTS_MAX; e++) {
            out[e] = (struct world_element){ LAYOUT_NONE, 0 };
        }
        for (uint32_t p = 0; p < layout_pieces_count(layout); p++) {
            const struct layout_piece *piece = layout_piece_get(layout, p);
            const struct layout_tensor *tensor = layout_tensor_get(layout, piece->tensor);
            struct layout_piece_options options = { piece->tensor, piece->local,
                                                    *layout_box(layout, piece->box), piece->offset,
                                                    piece->pitch };
            struct listing listing = { piece->tensor, out };
            if (piece->local == l) {
                walk(layout_shape(layout, tensor->shape), &options, list_element, &listing);
            }
        }
    }
    return elements;
}

const char *world_contents(const struct layout *layout, uint32_t rank, const char *local,
                           char out[WORLD_CONTENTS_BYTES])
{
    static struct world_element elements[WORLD_ELEMENTS_MAX];
    uint64_t count = world_elements(layout, rank, local, elements);
    size_t used = (size_t)snprintf(out, WORLD_CONTENTS_BYTES, "%s", count == 0 ? "-" : "");
    for (uint64_t e = 0; e < count && used + 32 < WORLD_CONTENTS_BYTES; e++) {
        const char *space = e > 0 ? " " : "";
        if (elements[e].tensor == LAYOUT_NONE) {
            used += (size_t)snprintf(out + used, WORLD_CONTENTS_BYTES - used, "%s.", space);
        } else {
            const struct layout_tensor *tensor = layout_tensor_get(layout, elements[e].tensor);
            used += (size_t)snprintf(out + used, WORLD_CONTENTS_BYTES - used, "%s%.12s%llu", space,
                                     layout_text(layout, tensor->name),
                                     (unsigned long long)elements[e].element);
        }
    }
    return out;
}
