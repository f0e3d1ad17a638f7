/* rules.c -- which tensors go into which local; see rules.h. */
#include "transport/layout/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "transport/layout/names.h"
#include "transport/layout/rules_state.h"

static const struct layout_rule whole_rule = { .match = "*" };

struct baton_status rules_full(const struct expansion *e)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "layout %.80s: its memory of %zu bytes is full", e->spec->name,
                             e->arena->capacity);
}

struct baton_status rules_refuse(const struct expansion *e, uint32_t tensor, const char *fmt, ...)
{
    char what[160];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                             "layout %.60s: %.90s: %s", e->spec->name,
                             e->spec->tensors[tensor].name, what);
}

uint32_t layout_mesh_ranks(const struct layout_mesh *mesh)
{
    uint64_t ranks = 1;
    for (uint32_t a = 0; a < mesh->count && ranks <= LAYOUT_RANKS_MAX; a++) {
        ranks *= mesh->axes[a].size;
    }
    return ranks <= LAYOUT_RANKS_MAX ? (uint32_t)ranks : 0;
}

/* --- experts --- */

const struct layout_experts *rules_map(const struct expansion *e, uint32_t layer)
{
    const struct layout_experts *found = NULL;
    for (size_t i = 0; i < e->spec->maps_count; i++) {
        const struct layout_experts *map = &e->spec->maps[i];
        if (map->layer == layer) {
            return map;
        }
        found = map->layer == LAYOUT_NONE ? map : found;
    }
    return found;
}

uint32_t rules_slots(const struct expansion *e, uint32_t layer, uint32_t ranks)
{
    const struct layout_experts *map = rules_map(e, layer);
    return map != NULL ? map->per_rank : (e->spec->experts + ranks - 1) / ranks;
}

uint32_t rules_expert_in(const struct expansion *e, uint32_t layer, uint32_t slot)
{
    const struct layout_experts *map = rules_map(e, layer);
    return map != NULL ? map->slots[slot] : slot; /* Past the last expert: an empty slot. */
}

/* --- collecting --- */

static const struct layout_rule *find_rule(const struct expansion *e, const char *name,
                                           struct name_match *match)
{
    for (size_t i = 0; i < e->spec->rules_count; i++) {
        if (names_match(e->spec->rules[i].match, name, match)) {
            return &e->spec->rules[i];
        }
    }
    (void)names_match(whole_rule.match, name, match);
    return &whole_rule;
}

/* Adds the tensor to the layout, with what its rule says of it. */
static struct baton_status add_tensor(struct expansion *e, uint32_t t,
                                      const struct layout_rule *rule,
                                      const struct name_match *match)
{
    struct layout_tensor_options options = e->spec->tensors[t];
    char atomic[BATON_TENSOR_NAME_BYTES];
    uint32_t number = LAYOUT_NONE;
    options.flags |= rule->flags;
    if (rule->atomic != NULL) {
        if (!names_write(rule->atomic, match, atomic, sizeof(atomic))) {
            return rules_refuse(e, t, "its rule's atomic set '%.60s' is no name", rule->atomic);
        }
        options.atomic = atomic;
    }
    struct baton_status st = layout_add_tensor(e->layout, &options, &number);
    if (baton_ok(&st)) {
        baton_assert(number == t);
    }
    return st;
}

static struct baton_status add_member(struct expansion *e, uint32_t t,
                                      const struct layout_rule *rule, const char *local)
{
    const char *name = e->spec->tensors[t].name;
    uint32_t expert = LAYOUT_NONE, layer = LAYOUT_NONE;
    if (rule->is_expert && !names_number(name, "experts.", &expert)) {
        return rules_refuse(e, t, "its rule is for experts, but no number follows 'experts.'");
    }
    (void)names_number(name, "layers.", &layer); /* Without a number: of no layer. */
    uint32_t number = intern_add(&e->names, local, strlen(local));
    bool is_new = number == e->containers.count;
    struct container *container = number == POOL_NONE ? NULL
                                  : is_new            ? pool_add(&e->containers)
                                                      : pool_get(&e->containers, number);
    struct member *member = container != NULL ? pool_add(&e->members) : NULL;
    if (member == NULL) {
        return rules_full(e);
    }
    uint32_t index = e->members.count - 1;
    *member = (struct member){ t, expert, rule, LAYOUT_NONE };
    if (is_new) {
        *container = (struct container){ number, index, index, 0, layer };
    } else {
        ((struct member *)pool_get(&e->members, container->last))->next = index;
    }
    container->last = index;
    container->count++;
    if (container->count > LAYOUT_MEMBERS_MAX || container->layer != layer) {
        return rules_refuse(e, t, "its rule puts %s into one local",
                            container->layer != layer ? "tensors of several layers"
                                                      : "too many tensors");
    }
    return baton_status_ok();
}

static struct baton_status collect(struct expansion *e)
{
    struct baton_status st = baton_status_ok();
    for (uint32_t t = 0; t < e->spec->tensors_count && baton_ok(&st); t++) {
        const char *name = e->spec->tensors[t].name;
        char local[BATON_TENSOR_NAME_BYTES];
        struct name_match match;
        const struct layout_rule *rule = find_rule(e, name, &match);
        st = add_tensor(e, t, rule, &match);
        if (!baton_ok(&st)) {
            break;
        }
        bool is_nowhere = ((rule->flags | e->spec->tensors[t].flags) & LAYOUT_KEEP) != 0 ||
                          (e->spec->tensors[t].tied != NULL && !rule->is_copied);
        if (is_nowhere) {
            continue; /* Has no memory that this layout speaks of. */
        }
        bool is_named = rule->into == NULL ? baton_text_copy(local, sizeof(local), name)
                                           : names_write(rule->into, &match, local, sizeof(local));
        st = is_named ? add_member(e, t, rule, local)
                      : rules_refuse(e, t, "its rule's local '%.60s' is no name", rule->into);
    }
    return st;
}

static struct baton_status check_spec(const struct layout_spec *spec)
{
    uint32_t ranks = layout_mesh_ranks(&spec->mesh);
    const char *fault = NULL;
    if (ranks == 0) {
        fault = "mesh: an axis is empty, or there are more than 65536 ranks";
    } else if (spec->expert_mesh.count > 0 && layout_mesh_ranks(&spec->expert_mesh) != ranks) {
        fault = "expertMesh: not as many ranks as the mesh has";
    } else if (spec->tensors_count == 0 || spec->tensors_count > BATON_TENSORS_MAX) {
        fault = "tensors: none, or more than a million";
    } else if (spec->experts > LAYOUT_EXPERTS_MAX) {
        fault = "experts: more than 16384";
    }
    return fault == NULL ? baton_status_ok()
                         : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                             "layout %.80s: %s", spec->name, fault);
}

struct baton_status layout_expand(const struct layout_spec *spec, struct baton_arena *arena,
                                  struct layout **out)
{
    struct expansion e = { .spec = spec, .arena = arena };
    struct baton_status st = check_spec(spec);
    if (!baton_ok(&st)) {
        return st;
    }
    e.layout = layout_create(arena, spec->name);
    e.order = baton_arena_take(arena, LAYOUT_MEMBERS_MAX, sizeof(*e.order));
    if (e.layout == NULL || e.order == NULL) {
        return rules_full(&e);
    }
    intern_init(&e.names, arena);
    pool_init(&e.members, arena, sizeof(struct member));
    pool_init(&e.containers, arena, sizeof(struct container));
    if (spec->fsdp_axis != NULL) {
        layout_set_gathered(e.layout);
    }
    st = collect(&e);
    for (uint32_t i = 0; i < e.containers.count && baton_ok(&st); i++) {
        st = rules_place(&e, pool_get(&e.containers, i));
    }
    for (size_t i = 0; i < spec->changes_count && baton_ok(&st); i++) {
        st = layout_add_name_rule(e.layout, spec->changes[i].kind, spec->changes[i].match,
                                  spec->changes[i].into);
    }
    if (baton_ok(&st)) {
        st = layout_seal(e.layout);
    }
    if (baton_ok(&st)) {
        *out = e.layout;
    }
    return st;
}
