/* layout_rules_random_test.c -- random meshes and rules against a naive reading that builds each rank's memory element by
 * element. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/layout_world.h"
#include "transport/layout/rules.h"

enum { ARENA_BYTES = 8 << 20, SPECS = 10000, MEMBERS_MAX = 3, EXPERTS_MAX = 6, SLOTS_MAX = 24 };

/* What is drawn; the spec is made of it, and the naive reading reads it. */
struct draw {
    struct layout_mesh mesh;
    uint32_t members;
    uint32_t rows[MEMBERS_MAX];
    uint32_t columns;
    enum layout_fuse fuse;
    uint32_t groups;
    int dim; /* -1: not cut. */
    uint32_t unit;
    uint32_t pad_to;
    uint32_t fsdp;
    bool is_flat;
    uint32_t experts; /* 0: none; else each member is there for each expert, stacked. */
    uint32_t per_rank;
    uint32_t slots[SLOTS_MAX];
};

static uint32_t below(struct baton_random *random, uint32_t bound)
{
    return (uint32_t)baton_random_below(random, bound);
}

static uint32_t axis_size(const struct draw *draw, const char *name)
{
    for (uint32_t a = 0; a < draw->mesh.count; a++) {
        if (strcmp(draw->mesh.axes[a].name, name) == 0) {
            return draw->mesh.axes[a].size;
        }
    }
    return 1;
}

/* The coordinate of a rank: the last axis counts up first. */
static uint32_t coordinate(const struct draw *draw, uint32_t rank, const char *name)
{
    uint32_t found = 0;
    for (uint32_t a = draw->mesh.count; a > 0; a--) {
        const struct layout_axis *axis = &draw->mesh.axes[a - 1];
        if (strcmp(axis->name, name) == 0) {
            found = rank % axis->size;
        }
        rank /= axis->size;
    }
    return found;
}

static void draw_mesh(struct baton_random *random, struct draw *draw)
{
    static const char *const names[] = { "dp", "tp", "fsdp", "ep" };
    uint32_t first = below(random, 4);
    draw->mesh.count = 1 + below(random, 4);
    for (uint32_t a = 0; a < draw->mesh.count; a++) { /* Distinct, in any turn. */
        draw->mesh.axes[a] = (struct layout_axis){ names[(first + a) % 4], 1 + below(random, 3) };
    }
}

static void draw_experts(struct baton_random *random, struct draw *draw)
{
    uint32_t ranks = axis_size(draw, "ep");
    draw->experts = 1 + below(random, EXPERTS_MAX);
    draw->per_rank = (draw->experts + ranks - 1) / ranks + below(random, 2);
    for (uint32_t s = 0; s < ranks * draw->per_rank; s++) { /* Each once, then any, or none. */
        draw->slots[s] = s < draw->experts       ? s
                         : below(random, 3) == 0 ? LAYOUT_NONE
                                                 : below(random, draw->experts);
    }
    for (uint32_t s = ranks * draw->per_rank; s > 1; s--) {
        uint32_t other = below(random, s);
        uint32_t kept = draw->slots[s - 1];
        draw->slots[s - 1] = draw->slots[other];
        draw->slots[other] = kept;
    }
}

static struct draw draw_spec(struct baton_random *random)
{
    struct draw draw = { .members = 1 + below(random, MEMBERS_MAX),
                         .dim = (int)below(random, 3) - 1 };
    draw_mesh(random, &draw);
    uint32_t shards = axis_size(&draw, "tp");
    draw.fuse = (enum layout_fuse)below(random, 3);
    draw.groups = 1 + below(random, 2);
    draw.columns = shards * (1 + below(random, 2));
    for (uint32_t m = 0; m < draw.members; m++) {
        draw.rows[m] = draw.groups * shards * (1 + below(random, 2));
    }
    if (draw.fuse == LAYOUT_FUSE_PAIRED) {
        draw.rows[1] = draw.rows[2] = draw.rows[0];
    } else if (draw.fuse == LAYOUT_FUSE_GROUPED) {
        draw.dim = 0;
    } else if (draw.dim == 0 && below(random, 3) == 0) {
        draw.unit = draw.rows[0]; /* One unit: all ranks share it. */
        draw.rows[1] = draw.rows[2] = draw.rows[0];
    } else if (draw.dim == 0 && below(random, 3) == 0) {
        draw.pad_to = shards * (draw.rows[0] / shards + 1);
        draw.members = 1;
    }
    draw.is_flat = draw.fuse != LAYOUT_FUSE_PAIRED && below(random, 2) == 0;
    if (below(random, 3) == 0 && draw.pad_to == 0) {
        draw_experts(random, &draw);
    }
    return draw;
}

/* --- the naive reading --- */

struct memory {
    struct world_element elements[WORLD_ELEMENTS_MAX];
    uint64_t count;
};

static void push(struct memory *memory, uint32_t tensor, uint64_t element)
{
    memory->elements[memory->count++] = (struct world_element){ tensor, element };
}

static void push_row(const struct draw *draw, struct memory *memory, uint32_t tensor, uint32_t row,
                     uint32_t shard)
{
    uint32_t shards = axis_size(draw, "tp");
    uint32_t columns = draw->dim == 1 ? draw->columns / shards : draw->columns;
    uint32_t first = draw->dim == 1 ? shard * columns : 0;
    for (uint32_t c = 0; c < columns; c++) {
        push(memory, tensor, (uint64_t)row * draw->columns + first + c);
    }
}

/* The rows of a member for a shard, some of them perhaps behind its end (padding). */
static void rows_of(const struct draw *draw, uint32_t member, uint32_t shard, uint32_t *first,
                    uint32_t *count)
{
    uint32_t rows = draw->pad_to > draw->rows[member] ? draw->pad_to : draw->rows[member];
    uint32_t shards = axis_size(draw, "tp");
    bool is_cut = draw->dim == 0 && (draw->unit == 0 || draw->unit < rows || shards == 1);
    *count = is_cut ? rows / shards : rows;
    *first = is_cut ? shard * *count : 0;
}

/* One slot: members' tensors begin at 'tensor'. */
static void push_slot(const struct draw *draw, struct memory *memory, uint32_t tensor,
                      uint32_t shard)
{
    uint32_t first, count, shards = axis_size(draw, "tp");
    if (draw->fuse == LAYOUT_FUSE_GROUPED) {
        uint32_t total = 0, at = 0;
        for (uint32_t m = 0; m < draw->members; m++) {
            total += draw->rows[m];
        }
        for (uint32_t g = 0; g < draw->groups; g++) {
            for (uint32_t m = 0; m < draw->members; m++) {
                for (uint32_t i = 0; i < draw->rows[m] / draw->groups; i++, at++) {
                    if (at / (total / shards) == shard) {
                        push_row(draw, memory, tensor + m, g * (draw->rows[m] / draw->groups) + i,
                                 shard);
                    }
                }
            }
        }
        return;
    }
    bool is_paired = draw->fuse == LAYOUT_FUSE_PAIRED;
    rows_of(draw, 0, shard, &first, &count);
    for (uint32_t outer = 0; outer < (is_paired ? count : draw->members); outer++) {
        if (!is_paired) {
            rows_of(draw, outer, shard, &first, &count);
        }
        for (uint32_t inner = 0; inner < (is_paired ? draw->members : count); inner++) {
            uint32_t member = is_paired ? inner : outer;
            uint32_t row = first + (is_paired ? outer : inner);
            if (row < draw->rows[member]) {
                push_row(draw, memory, tensor + member, row, shard);
            } else {
                for (uint32_t c = 0; c < draw->columns; c++) {
                    push(memory, LAYOUT_NONE, 0);
                }
            }
        }
    }
}

/* All that a rank has before FSDP; 'row' is what FSDP by rows keeps together. */
static void push_all(const struct draw *draw, struct memory *memory, uint32_t rank, uint64_t *row)
{
    uint32_t shard = coordinate(draw, rank, "tp");
    uint32_t columns = draw->dim == 1 ? draw->columns / axis_size(draw, "tp") : draw->columns;
    memory->count = 0;
    *row = draw->fuse == LAYOUT_FUSE_PAIRED ? (uint64_t)columns * draw->members : columns;
    if (draw->experts == 0) {
        push_slot(draw, memory, 0, shard);
        return;
    }
    uint32_t first = coordinate(draw, rank, "ep") * draw->per_rank;
    for (uint32_t s = first; s < first + draw->per_rank; s++) {
        uint64_t before = memory->count;
        uint32_t expert = draw->slots[s] != LAYOUT_NONE ? draw->slots[s] : 0;
        push_slot(draw, memory, expert * draw->members, shard);
        for (uint64_t e = before; e < memory->count && draw->slots[s] == LAYOUT_NONE; e++) {
            memory->elements[e].tensor = LAYOUT_NONE;
        }
        *row = memory->count - before;
    }
}

/* Compares a rank's part with what the layout says. */
static void compare(const struct draw *draw, const struct layout *layout, uint32_t rank,
                    uint64_t seed)
{
    static struct memory memory;
    static struct world_element have[WORLD_ELEMENTS_MAX];
    uint64_t row;
    push_all(draw, &memory, rank, &row);
    uint32_t parts = axis_size(draw, "fsdp"), part = coordinate(draw, rank, "fsdp");
    uint64_t unit = draw->is_flat ? 1 : row;
    uint64_t chunk = (memory.count / unit + parts - 1) / parts * unit;
    uint64_t begin = part * chunk < memory.count ? part * chunk : memory.count;
    uint64_t end = begin + chunk < memory.count ? begin + chunk : memory.count;
    uint64_t expected = draw->is_flat && parts > 1 ? chunk : end - begin;
    uint64_t count = world_elements(layout, rank, "local", have);
    cr_assert_eq(count, expected, "seed %llu rank %u: %llu elements, not %llu",
                 (unsigned long long)seed, rank, (unsigned long long)count,
                 (unsigned long long)expected);
    for (uint64_t e = 0; e < count; e++) {
        struct world_element want = { LAYOUT_NONE, 0 };
        if (begin + e < end) {
            want = memory.elements[begin + e];
        }
        bool is_same = have[e].tensor == want.tensor &&
                       (want.tensor == LAYOUT_NONE || have[e].element == want.element);
        cr_assert(is_same, "seed %llu rank %u element %llu: tensor %u element %llu, not %u %llu",
                  (unsigned long long)seed, rank, (unsigned long long)e, have[e].tensor,
                  (unsigned long long)have[e].element, want.tensor,
                  (unsigned long long)want.element);
    }
}

static struct baton_status expand(const struct draw *draw, struct baton_arena *arena,
                                  struct layout **out)
{
    static char names[EXPERTS_MAX * MEMBERS_MAX][32];
    struct layout_tensor_options tensors[EXPERTS_MAX * MEMBERS_MAX];
    struct layout_rule rules[MEMBERS_MAX];
    static const char *const matches[2][MEMBERS_MAX] = { { "m0", "m1", "m2" },
                                                         { "*.m0", "*.m1", "*.m2" } };
    uint32_t count = 0;
    for (uint32_t e = 0; e < (draw->experts > 0 ? draw->experts : 1); e++) {
        for (uint32_t m = 0; m < draw->members; m++, count++) {
            (void)snprintf(names[count], sizeof(names[0]),
                           draw->experts > 0 ? "experts.%u.m%u" : "m%u", draw->experts > 0 ? e : m,
                           m);
            tensors[count] =
                (struct layout_tensor_options){ .name = names[count],
                                                .dtype = TENSOR_DTYPE_BF16,
                                                .shape = { 2, { draw->rows[m], draw->columns } } };
        }
    }
    for (uint32_t m = 0; m < draw->members; m++) {
        rules[m] = (struct layout_rule){ .match = matches[draw->experts > 0][m],
                                         .into = "local",
                                         .order = m,
                                         .fuse = draw->fuse,
                                         .groups = draw->groups,
                                         .shard = draw->dim >= 0 ? "tp" : NULL,
                                         .dim = draw->dim > 0 ? 1 : 0,
                                         .unit = draw->unit,
                                         .pad_to = draw->pad_to,
                                         .is_expert = draw->experts > 0,
                                         .is_stacked = draw->experts > 0 };
    }
    const struct layout_experts map = { LAYOUT_NONE, draw->per_rank, draw->slots,
                                        (size_t)axis_size(draw, "ep") * draw->per_rank };
    const struct layout_spec spec = { .name = "random",
                                      .mesh = draw->mesh,
                                      .tensors = tensors,
                                      .tensors_count = count,
                                      .rules = rules,
                                      .rules_count = draw->members,
                                      .experts = draw->experts,
                                      .maps = &map,
                                      .maps_count = draw->experts > 0,
                                      .fsdp_axis = "fsdp",
                                      .fsdp = draw->is_flat ? LAYOUT_FSDP_FLAT : LAYOUT_FSDP_ROWS };
    return layout_expand(&spec, arena, out);
}

/* Ten thousand rules and meshes: each rank has exactly what a reading by the rules' words gives it. */
Test(layout_rules_random, every_rank_has_its_elements)
{
    struct baton_arena arena = baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
    for (uint64_t seed = 1; seed <= SPECS; seed++) {
        struct baton_random random;
        struct layout *layout;
        baton_random_seed(&random, seed);
        struct draw draw = draw_spec(&random);
        baton_arena_reset(&arena);
        struct baton_status st = expand(&draw, &arena, &layout);
        cr_assert(baton_ok(&st), "seed %llu: %s", (unsigned long long)seed, st.message);
        for (uint32_t r = 0; r < layout_mesh_ranks(&draw.mesh); r++) {
            compare(&draw, layout, r, seed);
        }
    }
    free(arena.data);
}
