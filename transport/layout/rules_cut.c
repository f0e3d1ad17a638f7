/* rules_cut.c -- what one coordinate along the cut axis holds of the members of a slot. */
#include <string.h>

#include "transport/layout/rules_state.h"

enum { STRETCHES_FIRST = 64 };

static struct stretch *add_stretch(struct expansion *e)
{
    if (e->stretches_count == e->stretches_capacity) {
        uint32_t capacity =
            e->stretches_capacity == 0 ? STRETCHES_FIRST : 2 * e->stretches_capacity;
        struct stretch *grown = baton_arena_take(e->arena, capacity, sizeof(*grown));
        if (grown == NULL) {
            return NULL;
        }
        if (e->stretches_count > 0) {
            memcpy(grown, e->stretches, e->stretches_count * sizeof(*grown));
        }
        e->stretches = grown;
        e->stretches_capacity = capacity;
    }
    return &e->stretches[e->stretches_count++];
}

/* Appends a box, or padding, behind what is there. */
static bool append(struct expansion *e, uint32_t tensor, uint32_t rank, const struct box *box,
                   uint64_t pad)
{
    uint64_t elements = tensor != LAYOUT_NONE ? box_volume(rank, box) : pad;
    if (elements == 0) {
        return true;
    }
    struct stretch *stretch = add_stretch(e);
    if (stretch == NULL) {
        return false;
    }
    *stretch = (struct stretch){ .tensor = tensor, .offset = e->elements, .elements = elements };
    if (tensor != LAYOUT_NONE) {
        stretch->box = *box;
    }
    e->elements += elements;
    return true;
}

/* Elements of one row of a box, also where it has no rows. */
static uint64_t row_of(uint32_t rank, const struct box *box)
{
    struct box line = *box;
    line.extent[0] = 1;
    return box_volume(rank, &line);
}

static struct box whole_of(const struct tensor_shape *shape)
{
    struct box box;
    memset(&box, 0, sizeof(box));
    for (uint32_t d = 0; d < shape->rank; d++) {
        box.extent[d] = (uint32_t)shape->dims[d];
    }
    return box;
}

/* The rows (or columns) of a member for a coordinate: begin, how many are real, how many are
 * padding. */
struct range {
    uint32_t begin;
    uint32_t real;
    uint32_t pad;
};

static struct baton_status range_of(const struct expansion *e, const struct member *member,
                                    const struct place *place, struct range *out)
{
    const struct layout_rule *rule = member->rule;
    const struct tensor_shape *shape = &e->spec->tensors[member->tensor].shape;
    uint32_t rows = (uint32_t)shape->dims[rule->dim];
    uint32_t padded = rule->pad_to > rows ? rule->pad_to : rows;
    uint32_t unit = rule->unit > 0 ? rule->unit : 1;
    if (padded % unit != 0) {
        return rules_refuse(e, member->tensor, "%u rows are not whole units of %u", padded, unit);
    }
    uint32_t units = padded / unit;
    uint32_t shards = rule->shard != NULL ? place->shards : 1;
    uint32_t shard = rule->shard != NULL ? place->shard : 0;
    uint32_t each = padded / shards;
    out->begin = shard * each;
    if (rule->unit > 0 && units > 0 && units < shards && shards % units == 0) {
        each = unit; /* Several ranks share one. */
        out->begin = shard / (shards / units) * unit;
    } else if (units % shards != 0) {
        return rules_refuse(e, member->tensor,
                            "%u units of %u do not go evenly into %u shards (say unit or padTo)",
                            units, unit, shards);
    }
    uint32_t end = out->begin + each < rows ? out->begin + each : rows;
    out->real = end > out->begin ? end - out->begin : 0;
    out->pad = each - out->real;
    return baton_status_ok();
}

/* Each member is cut, then they follow each other. */
static struct baton_status concat(struct expansion *e, const struct member *member,
                                  const struct place *place)
{
    const struct tensor_shape *shape = &e->spec->tensors[member->tensor].shape;
    struct box box = whole_of(shape);
    struct range range = { 0 };
    uint32_t dim = member->rule->dim;
    uint64_t pad = 0;
    if (member->rule->shard != NULL || member->rule->pad_to > 0) {
        if (dim >= shape->rank) {
            return rules_refuse(e, member->tensor, "its rule cuts dimension %u, which is not there",
                                dim);
        }
        struct baton_status st = range_of(e, member, place, &range);
        if (!baton_ok(&st)) {
            return st;
        }
        uint64_t row = box_volume(shape->rank, &box) / (box.extent[dim] > 0 ? box.extent[dim] : 1);
        box.begin[dim] = range.begin;
        box.extent[dim] = range.real;
        pad = range.pad * row;
        if (pad > 0 && dim != 0) {
            return rules_refuse(e, member->tensor, "only rows can be padded");
        }
    }
    if (e->row == 0 && shape->rank > 0 && shape->dims[0] > 0) {
        e->row = row_of(shape->rank, &box);
    }
    bool fits =
        (range.real == 0 && range.pad > 0) || append(e, member->tensor, shape->rank, &box, 0);
    fits = fits && append(e, LAYOUT_NONE, 0, NULL, pad);
    return fits ? baton_status_ok() : rules_full(e);
}

/* 'groups' times a share of each; then a run of the rows of it all. */
static struct baton_status grouped(struct expansion *e, const struct member **members,
                                   uint32_t count, const struct place *place)
{
    uint32_t groups = members[0]->rule->groups;
    uint64_t total = 0;
    for (uint32_t m = 0; m < count; m++) {
        const struct tensor_shape *shape = &e->spec->tensors[members[m]->tensor].shape;
        if (groups == 0 || groups > LAYOUT_MEMBERS_MAX || shape->rank == 0 ||
            shape->dims[0] % groups != 0) {
            return rules_refuse(e, members[m]->tensor, "its rows do not go evenly into %u groups",
                                groups);
        }
        total += shape->dims[0];
    }
    if (total % place->shards != 0) {
        return rules_refuse(e, members[0]->tensor,
                            "%llu fused rows do not go evenly into %u shards",
                            (unsigned long long)total, place->shards);
    }
    uint64_t begin = total / place->shards * place->shard;
    uint64_t end = begin + total / place->shards;
    uint64_t at = 0;
    for (uint32_t g = 0; g < groups; g++) {
        for (uint32_t m = 0; m < count; m++) {
            const struct tensor_shape *shape = &e->spec->tensors[members[m]->tensor].shape;
            uint32_t rows = (uint32_t)shape->dims[0] / groups;
            uint64_t from = at > begin ? at : begin;
            uint64_t to = at + rows < end ? at + rows : end;
            struct box box = whole_of(shape);
            e->row = row_of(shape->rank, &box);
            if (from < to) {
                box.begin[0] = g * rows + (uint32_t)(from - at);
                box.extent[0] = (uint32_t)(to - from);
                if (!append(e, members[m]->tensor, shape->rank, &box, 0)) {
                    return rules_full(e);
                }
            }
            at += rows;
        }
    }
    return baton_status_ok();
}

/* Each is cut, then row 0 of all, row 1 of all, and so on. */
static struct baton_status paired(struct expansion *e, const struct member **members,
                                  uint32_t count, const struct place *place)
{
    uint32_t first = e->stretches_count;
    uint64_t base = e->elements;
    uint64_t rows = 0, pitch = 0;
    for (uint32_t m = 0; m < count; m++) {
        struct baton_status st = concat(e, members[m], place);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    for (uint32_t i = first; i < e->stretches_count; i++) {
        const struct stretch *stretch = &e->stretches[i];
        if (stretch->tensor == LAYOUT_NONE || stretch->box.extent[0] == 0 ||
            (rows != 0 && rows != stretch->box.extent[0])) {
            return rules_refuse(e, members[0]->tensor,
                                "rows take turns only among tensors with as many, without padding");
        }
        rows = stretch->box.extent[0];
        pitch += stretch->elements / rows;
    }
    for (uint32_t i = first; i < e->stretches_count; i++) {
        e->stretches[i].pitch = (uint32_t)pitch;
        e->stretches[i].offset = base;
        base += e->stretches[i].elements / rows;
    }
    e->row = pitch;
    return baton_status_ok();
}

struct baton_status rules_cut(struct expansion *e, const struct member **members, uint32_t count,
                              const struct place *place)
{
    enum layout_fuse fuse = members[0]->rule->fuse;
    struct baton_status st = baton_status_ok();
    if (fuse == LAYOUT_FUSE_GROUPED) {
        return grouped(e, members, count, place);
    }
    if (fuse == LAYOUT_FUSE_PAIRED) {
        return paired(e, members, count, place);
    }
    for (uint32_t m = 0; m < count && baton_ok(&st); m++) {
        st = concat(e, members[m], place);
    }
    return st;
}
