/* rules.h -- a layout from a mesh of ranks and rules by name.
 *
 * A mesh names axes (pp, tp, ep, fsdp, dp ...); a rank's number is its coordinates', first axis
 * slowest.  For each tensor the first rule that fits says along which axis it is cut, into which
 * local it goes beside which others, on which stage it lives, and whether it is an expert's; an axis
 * that the mesh does not have has size 1, and along all other axes ranks hold the same.  The number
 * behind "layers." in a name is its layer, that behind "experts." its expert.
 *
 * Experts may have a mesh of their own over the same ranks (ETP and EP beside TP and DP).  Which
 * expert sits in which slot is a map, for all layers or for one; an expert may sit in several.
 *
 * FSDP cuts what is left after that: by rows (each parameter's first dimension, in chunks as
 * torch.chunk makes them) or flat (the elements of a local, padded to a multiple).
 *
 * Depends on: layout.h, names.h.  Pure: all memory from the given arena.  Threads: an object belongs
 * to one thread.  Ownership: a spec borrows all it points to, for the call only. */
#ifndef TRANSPORT_LAYOUT_RULES_H
#define TRANSPORT_LAYOUT_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/layout/layout.h"

enum { LAYOUT_AXES_MAX = 8, LAYOUT_MEMBERS_MAX = 1 << 14, LAYOUT_EXPERTS_MAX = 1 << 14 };

struct layout_axis {
    const char *name;
    uint32_t size;
};

struct layout_mesh {
    struct layout_axis axes[LAYOUT_AXES_MAX];
    uint32_t count;
};

/* How tensors of one local follow each other. */
enum layout_fuse {
    LAYOUT_FUSE_CONCAT, /* Each is cut, then they follow each other: vLLM's qkv and gate_up, Megatron's
                          * fc1 ("stride 2"). */
    LAYOUT_FUSE_GROUPED, /* 'groups' times a share of each, then the whole is cut: Megatron's qkv. */
    LAYOUT_FUSE_PAIRED,  /* Each is cut, then their rows take turns. */
};

enum layout_stage {
    LAYOUT_STAGE_AUTO, /* Its layer's; without a layer, every one. */
    LAYOUT_STAGE_FIRST,
    LAYOUT_STAGE_LAST,
    LAYOUT_STAGE_EVERY,
};

enum layout_fsdp {
    LAYOUT_FSDP_ROWS,
    LAYOUT_FSDP_FLAT,
};

struct layout_rule {
    const char *match; /* Stars stand for any text. */
    const char *into;  /* The local's name, $1 to $9 are the stars; null: the tensor's own. */
    uint32_t order;    /* Among the tensors of a local. */
    enum layout_fuse fuse;
    uint32_t groups;
    const char *shard; /* An axis; null: whole. */
    uint32_t dim;      /* What is cut: 0 rows, 1 columns ... */
    uint32_t unit;     /* Rows that stay together (a head); fewer units than ranks are shared. */
    uint32_t pad_to;   /* Rows are padded to so many before the cut. */
    bool is_expert;    /* Placed by the map of experts, in their mesh. */
    bool is_stacked;   /* All slots of a rank in one local. */
    bool is_copied; /* If it is tied: has memory of its own all the same (the last stage's head). */
    enum layout_stage stage;
    const char *atomic; /* $1 to $9 as in 'into'; null: as the tensor says. */
    uint32_t flags;     /* enum layout_tensor_flag, added to the tensor's. */
};

/* Which expert is in which slot: slots[rank along the axis * per_rank + slot]; LAYOUT_NONE: an empty
 * one. */
struct layout_experts {
    uint32_t layer; /* LAYOUT_NONE: all that have no map of their own. */
    uint32_t per_rank;
    const uint32_t *slots;
    size_t slots_count;
};

struct layout_name_change {
    enum layout_name_rule kind;
    const char *match;
    const char *into;
};

struct layout_spec {
    const char *name;
    struct layout_mesh mesh;
    struct layout_mesh expert_mesh; /* No axes: the same. */
    const char *stage_axis;         /* Null: "pp". */
    const uint32_t *stage_layers;   /* Layers of each stage; null: as even as can be. */
    uint32_t layers;                /* Of the model; for even stages. */
    const char *expert_axis;        /* Null: "ep". */
    uint32_t experts;               /* Of a layer; without maps, ranks get equal runs of them. */
    const struct layout_experts *maps;
    size_t maps_count;
    const char *fsdp_axis; /* Null: none. */
    enum layout_fsdp fsdp;
    const struct layout_tensor_options *tensors;
    size_t tensors_count;
    const struct layout_rule *rules;
    size_t rules_count;
    const struct layout_name_change *changes;
    size_t changes_count;
};

/* Builds and seals.  Refused, naming the tensor: what cannot be cut evenly (say 'unit' or
 * 'padTo'), tensors or rules that do not fit into one local, a layer without a stage, an expert without a
 * slot. */
BATON_MUST_USE struct baton_status layout_expand(const struct layout_spec *spec,
                                                 struct baton_arena *arena, struct layout **out);

/* Ranks of a mesh; 0 if they are more than LAYOUT_RANKS_MAX or an axis is empty. */
uint32_t layout_mesh_ranks(const struct layout_mesh *mesh);

#endif /* rules.h */
