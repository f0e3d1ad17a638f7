/* layout.c -- building and reading a layout; see layout.h. */
#include "transport/layout/layout.h"

#include <string.h>

#include "transport/layout/layout_state.h"

struct baton_status layout_full(const struct layout *layout)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "layout %.80s: its memory of %zu bytes is full", layout->name,
                             layout->arena->capacity);
}

static struct baton_status bad(const struct layout *layout, const char *what, const char *name)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "layout %.80s: %.160s: %s", layout->name, name, what);
}

struct layout *layout_create(struct baton_arena *arena, const char *name)
{
    struct layout *layout = baton_arena_take(arena, 1, sizeof(*layout));
    size_t name_bytes = strlen(name) + 1;
    char *copy = baton_arena_take(arena, name_bytes, 1);
    if (layout == NULL || copy == NULL) {
        return NULL;
    }
    memcpy(copy, name, name_bytes);
    layout->arena = arena;
    layout->name = copy;
    intern_init(&layout->texts, arena);
    intern_init(&layout->shapes, arena);
    intern_init(&layout->boxes, arena);
    intern_init(&layout->sets, arena);
    intern_init(&layout->patterns, arena);
    pool_init(&layout->tensors, arena, sizeof(struct layout_tensor));
    pool_init(&layout->locals, arena, sizeof(struct layout_local));
    pool_init(&layout->added, arena, sizeof(struct layout_piece));
    pool_init(&layout->pads, arena, sizeof(struct layout_pad));
    pool_init(&layout->rules, arena, sizeof(struct layout_name_rule_row));
    pool_init(&layout->tensor_by_text, arena, sizeof(uint32_t));
    return layout;
}

/* The number of a text; LAYOUT_NONE for null. */
static struct baton_status add_text(struct layout *layout, const char *text, uint32_t *out)
{
    *out = LAYOUT_NONE;
    if (text == NULL) {
        return baton_status_ok();
    }
    *out = intern_add(&layout->texts, text, strlen(text));
    while (*out != LAYOUT_NONE && layout->tensor_by_text.count <= *out) {
        uint32_t *tensor = pool_add(&layout->tensor_by_text);
        if (tensor == NULL) {
            return layout_full(layout);
        }
        *tensor = LAYOUT_NONE;
    }
    return *out != LAYOUT_NONE ? baton_status_ok() : layout_full(layout);
}

struct baton_status layout_add_set(struct layout *layout, struct layout_ranks ranks, uint32_t *out)
{
    bool ascends = ranks.count > 0;
    for (size_t i = 1; i < ranks.count; i++) {
        ascends = ascends && ranks.ranks[i - 1] < ranks.ranks[i];
    }
    if (!ascends || ranks.ranks[ranks.count - 1] >= LAYOUT_RANKS_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "layout %.80s: a set of ranks must ascend, not be empty, and end "
                                 "below %d",
                                 layout->name, LAYOUT_RANKS_MAX);
    }
    *out = intern_add(&layout->sets, ranks.ranks, ranks.count * sizeof(*ranks.ranks));
    if (*out == LAYOUT_NONE) {
        return layout_full(layout);
    }
    if (ranks.ranks[ranks.count - 1] >= layout->ranks_count) {
        layout->ranks_count = ranks.ranks[ranks.count - 1] + 1;
    }
    return baton_status_ok();
}

static struct baton_status check_tensor(const struct layout *layout,
                                        const struct layout_tensor_options *tensor)
{
    uint64_t bytes;
    if (tensor->name == NULL || tensor->name[0] == '\0' ||
        strlen(tensor->name) >= BATON_TENSOR_NAME_BYTES) {
        return bad(layout, "a tensor's name has 1 to 511 bytes",
                   tensor->name != NULL ? tensor->name : "");
    }
    if (!tensor_shape_bytes(&tensor->shape, tensor->dtype, &bytes)) {
        return bad(layout, "its shape has no size", tensor->name);
    }
    for (uint32_t d = 0; d < tensor->shape.rank; d++) {
        if (tensor->shape.dims[d] >= UINT32_MAX) {
            return bad(layout, "a dimension of 2^32 or more", tensor->name);
        }
    }
    if (tensor->scale != NULL &&
        (tensor->shape.rank < 2 || tensor->block[0] == 0 || tensor->block[1] == 0)) {
        return bad(layout, "scales by block need two dimensions and a block's rows and columns",
                   tensor->name);
    }
    return baton_status_ok();
}

struct baton_status layout_add_tensor(struct layout *layout,
                                      const struct layout_tensor_options *tensor, uint32_t *out)
{
    struct layout_tensor row = { .dtype = (uint32_t)tensor->dtype,
                                 .block = { tensor->block[0], tensor->block[1] },
                                 .flags = tensor->flags };
    struct tensor_shape shape; /* Unused dimensions are zero: equal shapes are equal bytes. */
    struct baton_status st = check_tensor(layout, tensor);
    memset(&shape, 0, sizeof(shape));
    shape.rank = tensor->shape.rank;
    if (baton_ok(&st)) {
        memcpy(shape.dims, tensor->shape.dims, shape.rank * sizeof(shape.dims[0]));
        st = add_text(layout, tensor->name, &row.name);
    }
    if (baton_ok(&st)) {
        st = add_text(layout, tensor->atomic, &row.atomic);
    }
    if (baton_ok(&st)) {
        st = add_text(layout, tensor->tied, &row.tied);
    }
    if (baton_ok(&st)) {
        st = add_text(layout, tensor->scale, &row.scale);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    uint32_t *place = pool_get(&layout->tensor_by_text, row.name);
    if (*place != LAYOUT_NONE) {
        return bad(layout, "is there twice", tensor->name);
    }
    row.shape = intern_add(&layout->shapes, &shape, sizeof(shape));
    struct layout_tensor *added = row.shape != LAYOUT_NONE ? pool_add(&layout->tensors) : NULL;
    if (added == NULL) {
        return layout_full(layout);
    }
    *added = row;
    *out = *place = layout->tensors.count - 1;
    return baton_status_ok();
}

struct baton_status layout_add_local(struct layout *layout, const char *name,
                                     enum tensor_dtype dtype, uint64_t elements, uint32_t set,
                                     uint32_t *out)
{
    struct layout_local row = { .set = set, .dtype = (uint32_t)dtype, .elements = elements };
    if (elements >> LAYOUT_LOCAL_ELEMENTS_LOG2_MAX != 0) {
        return bad(layout, "a local of 2^48 elements or more", name);
    }
    layout->elements += elements;
    if (layout->elements >> LAYOUT_ELEMENTS_LOG2_MAX != 0) {
        return bad(layout, "locals of 2^54 elements or more", name);
    }
    struct baton_status st = add_text(layout, name, &row.name);
    if (!baton_ok(&st)) {
        return st;
    }
    struct layout_local *added = pool_add(&layout->locals);
    if (added == NULL) {
        return layout_full(layout);
    }
    *added = row;
    *out = layout->locals.count - 1;
    return st;
}

/* Elements from the first to behind the last; false if rows overlap or it overflows. */
static bool span_of(const struct layout_piece_options *piece, uint32_t rank, uint64_t *out)
{
    uint64_t volume = box_volume(rank, &piece->box);
    if (piece->pitch == 0 || rank == 0 || piece->box.extent[0] == 0) {
        *out = volume;
        return true;
    }
    uint64_t row = volume / piece->box.extent[0];
    *out = (uint64_t)(piece->box.extent[0] - 1) * piece->pitch + row;
    return row <= piece->pitch;
}

static bool cuts_bytes(const struct layout_piece_options *piece, uint32_t rank, uint32_t bits)
{
    uint64_t row = rank > 0 ? piece->box.extent[rank - 1] : 1;
    return (piece->offset * bits) % 8 != 0 || (row * bits) % 8 != 0 ||
           ((uint64_t)piece->pitch * bits) % 8 != 0 ||
           (rank > 0 && ((uint64_t)piece->box.begin[rank - 1] * bits) % 8 != 0);
}

struct baton_status layout_add_piece(struct layout *layout,
                                     const struct layout_piece_options *piece)
{
    const struct layout_tensor *tensor = pool_get(&layout->tensors, piece->tensor);
    const struct layout_local *local = pool_get(&layout->locals, piece->local);
    const struct tensor_shape *shape = intern_get(&layout->shapes, tensor->shape, NULL);
    struct box box, whole;
    uint64_t span = 0;
    memset(&box, 0, sizeof(box));
    memset(&whole, 0, sizeof(whole));
    for (uint32_t d = 0; d < shape->rank; d++) {
        whole.extent[d] = (uint32_t)shape->dims[d];
        box.begin[d] = piece->box.begin[d];
        box.extent[d] = piece->box.extent[d];
    }
    const char *fault = NULL;
    if (!box_contains(shape->rank, &whole, &box)) {
        fault = "lies outside of the tensor";
    } else if (box_volume(shape->rank, &box) == 0) {
        fault = "is empty";
    } else if (!span_of(piece, shape->rank, &span) || span > local->elements ||
               piece->offset > local->elements - span) {
        fault = "does not fit into its local";
    } else if (tensor->dtype != local->dtype) {
        fault = "has another dtype than its local";
    } else if (cuts_bytes(piece, shape->rank,
                          tensor_dtype_bits((enum tensor_dtype)tensor->dtype))) {
        fault = "begins or ends within a byte";
    }
    if (fault != NULL) {
        char text[BOX_TEXT_BYTES];
        box_format(shape->rank, &box, text);
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "layout %.60s: %.100s: %.60s on rank %u in %.60s %s", layout->name,
                                 layout_text(layout, tensor->name), text,
                                 layout_set(layout, local->set).ranks[0],
                                 layout_text(layout, local->name), fault);
    }
    struct layout_piece row = { piece->offset, piece->tensor, piece->local,
                                intern_add(&layout->boxes, &box, sizeof(box)), piece->pitch };
    struct layout_piece *added = row.box != LAYOUT_NONE ? pool_add(&layout->added) : NULL;
    if (added == NULL) {
        return layout_full(layout);
    }
    *added = row;
    return baton_status_ok();
}

struct baton_status layout_add_pad(struct layout *layout, uint32_t local, uint64_t offset,
                                   uint64_t elements)
{
    struct layout_local *owner = pool_get(&layout->locals, local);
    if (elements == 0 || elements > owner->elements || offset > owner->elements - elements) {
        return bad(layout, "a pad lies outside", layout_text(layout, owner->name));
    }
    struct layout_pad *pad = pool_add(&layout->pads);
    if (pad == NULL) {
        return layout_full(layout);
    }
    *pad = (struct layout_pad){ .offset = offset, .elements = elements, .local = local };
    owner->pad_elements += elements;
    return baton_status_ok();
}

struct baton_status layout_add_name_rule(struct layout *layout, enum layout_name_rule kind,
                                         const char *match, const char *into)
{
    struct layout_name_rule_row row = { .kind = (uint32_t)kind };
    struct baton_status st = add_text(layout, match, &row.match);
    if (baton_ok(&st)) {
        st = add_text(layout, into, &row.into);
    }
    struct layout_name_rule_row *added = baton_ok(&st) ? pool_add(&layout->rules) : NULL;
    if (added == NULL) {
        return baton_ok(&st) ? layout_full(layout) : st;
    }
    *added = row;
    return st;
}

void layout_set_gathered(struct layout *layout)
{
    layout->is_gathered = true;
}

/* --- digest --- */

static void digest_pool(struct digest_stream *stream, const struct pool *pool)
{
    digest_stream_add(stream, (struct baton_bytes){ (const uint8_t *)&pool->count, 4 });
    for (uint32_t i = 0; i < pool->count; i++) {
        digest_stream_add(stream, (struct baton_bytes){ pool_get(pool, i), pool->record_bytes });
    }
}

static void digest_intern(struct digest_stream *stream, const struct intern *table)
{
    for (uint32_t i = 0; i < intern_count(table); i++) {
        size_t size;
        const void *data = intern_get(table, i, &size);
        uint64_t framed = size;
        digest_stream_add(stream, (struct baton_bytes){ (const uint8_t *)&framed, sizeof(framed) });
        digest_stream_add(stream, (struct baton_bytes){ data, size });
    }
}

_Static_assert(sizeof(struct layout_tensor) == 12 * 4, "no padding: it is digested");
_Static_assert(sizeof(struct layout_local) == 32, "no padding: it is digested");
_Static_assert(sizeof(struct layout_piece) == 24, "no padding: it is digested");
_Static_assert(sizeof(struct layout_pad) == 24, "no padding: it is digested");

static struct digest digest_all(const struct layout *layout)
{
    struct digest_stream stream;
    digest_stream_init(&stream);
    digest_intern(&stream, &layout->texts);
    digest_intern(&stream, &layout->shapes);
    digest_intern(&stream, &layout->boxes);
    digest_intern(&stream, &layout->sets);
    digest_pool(&stream, &layout->tensors);
    digest_pool(&stream, &layout->locals);
    digest_pool(&stream, &layout->added);
    digest_pool(&stream, &layout->pads);
    digest_pool(&stream, &layout->rules);
    return digest_stream_finish(&stream);
}

struct baton_status layout_seal(struct layout *layout)
{
    baton_assert(!layout->is_sealed);
    layout->digest = digest_all(layout);
    struct baton_status st = layout_group(layout);
    if (baton_ok(&st)) {
        st = layout_check(layout);
    }
    layout->is_sealed = baton_ok(&st);
    return st;
}

/* --- reading --- */

const char *layout_name(const struct layout *layout)
{
    return layout->name;
}

uint32_t layout_ranks_count(const struct layout *layout)
{
    return layout->ranks_count;
}

uint32_t layout_tensors_count(const struct layout *layout)
{
    return layout->tensors.count;
}

uint32_t layout_locals_count(const struct layout *layout)
{
    return layout->locals.count;
}

const struct layout_tensor *layout_tensor_get(const struct layout *layout, uint32_t tensor)
{
    return pool_get(&layout->tensors, tensor);
}

uint32_t layout_tensor_find(const struct layout *layout, const char *name)
{
    uint32_t text = intern_find(&layout->texts, name, strlen(name));
    return text != LAYOUT_NONE ? *(uint32_t *)pool_get(&layout->tensor_by_text, text) : LAYOUT_NONE;
}

const struct layout_local *layout_local_get(const struct layout *layout, uint32_t local)
{
    return pool_get(&layout->locals, local);
}

const char *layout_text(const struct layout *layout, uint32_t name)
{
    return intern_get(&layout->texts, name, NULL);
}

const struct tensor_shape *layout_shape(const struct layout *layout, uint32_t shape)
{
    return intern_get(&layout->shapes, shape, NULL);
}

const struct box *layout_box(const struct layout *layout, uint32_t box)
{
    return intern_get(&layout->boxes, box, NULL);
}

uint32_t layout_boxes_count(const struct layout *layout)
{
    return intern_count(&layout->boxes);
}

struct layout_ranks layout_set(const struct layout *layout, uint32_t set)
{
    struct layout_ranks ranks;
    ranks.ranks = intern_get(&layout->sets, set, &ranks.count);
    ranks.count /= sizeof(*ranks.ranks);
    return ranks;
}

uint32_t layout_sets_count(const struct layout *layout)
{
    return intern_count(&layout->sets);
}

const struct layout_holding *layout_holding_get(const struct layout *layout, uint32_t holding)
{
    return &layout->holdings[holding];
}

uint32_t layout_holdings_count(const struct layout *layout)
{
    return layout->holdings_count;
}

const struct layout_piece *layout_piece_get(const struct layout *layout, uint32_t piece)
{
    return &layout->pieces[piece];
}

uint32_t layout_pieces_count(const struct layout *layout)
{
    return layout->added.count;
}

struct digest layout_digest(const struct layout *layout)
{
    return layout->digest;
}

bool layout_name_rule_get(const struct layout *layout, enum layout_name_rule kind, uint32_t index,
                          const char **match, const char **into)
{
    for (uint32_t i = 0; i < layout->rules.count; i++) {
        const struct layout_name_rule_row *row = pool_get(&layout->rules, i);
        if (row->kind == (uint32_t)kind && index-- == 0) {
            *match = layout_text(layout, row->match);
            *into = row->into != LAYOUT_NONE ? layout_text(layout, row->into) : "";
            return true;
        }
    }
    return false;
}

uint64_t layout_rank_bytes(const struct layout *layout, uint32_t rank)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < layout->locals.count; i++) {
        const struct layout_local *local = pool_get(&layout->locals, i);
        if (layout_ranks_have(layout_set(layout, local->set), rank)) {
            bits += local->elements * tensor_dtype_bits((enum tensor_dtype)local->dtype);
        }
    }
    return bits / 8;
}

bool layout_ranks_have(struct layout_ranks ranks, uint32_t rank)
{
    size_t low = 0;
    size_t high = ranks.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranks.ranks[middle] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ranks.count && ranks.ranks[low] == rank;
}
