/* layout.h -- which box of which global tensor each rank holds, and where in its own memory.
 *
 * A layout is built once and then sealed.  Its words:
 *   tensor   a global tensor under its canonical (checkpoint) name, with dtype and shape;
 *   set      ranks that hold the same things;
 *   local    one stretch of memory that every rank of a set has, e.g. its part of a fused
 *            qkv_proj.weight; counted in elements, so that any view of it is the same;
 *   piece    a box of a tensor inside a local: at 'offset', its elements in row-major order, rows
 *            (the first dimension) 'pitch' elements apart, which is how interleaved rows are said;
 *   pad      elements of a local that belong to no tensor (padded vocabulary, padded shards).
 * Sealing proves that the layout holds: every element of every tensor is on some rank, every element
 * of every local belongs to exactly one piece or pad, scales lie where their values lie, ties end at
 * a tensor of the same shape and dtype that is no tie.  Refused is what does not, naming tensor, rank and range.
 *
 * After sealing, a tensor's pieces with equal boxes are one *holding*: equal sources, or places that
 * one copy serves.
 *
 * Depends on: api/base, transport/model/dtype.h, digest.h.  Pure: no I/O, all memory from the arena
 * that it was given; a full arena is RESOURCE_EXHAUSTED LIMIT.  Threads: an object belongs to one
 * thread, or to many readers once sealed.  Ownership: the arena's owner keeps it as long as the
 * layout; texts and lists that are given are copied. */
#ifndef TRANSPORT_LAYOUT_LAYOUT_H
#define TRANSPORT_LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/arena.h"
#include "api/base/status.h"
#include "transport/layout/box.h"
#include "transport/model/digest.h"
#include "transport/model/dtype.h"

#define LAYOUT_NONE UINT32_MAX

enum {
    LAYOUT_RANKS_MAX = 1 << 16,
    LAYOUT_LOCAL_ELEMENTS_LOG2_MAX = 48,
    LAYOUT_ELEMENTS_LOG2_MAX = 54
};

enum layout_tensor_flag {
    LAYOUT_KEEP = 1, /* Target: keeps what it has; no source is asked. */
    LAYOUT_CAST = 2, /* Target: takes another dtype and converts. */
};

/* What a caller says of a tensor.  Texts end with a zero; null: none. */
struct layout_tensor_options {
    const char *name;
    enum tensor_dtype dtype;
    struct tensor_shape shape;
    const char *atomic; /* Tensors that travel in one bucket. */
    const char *tied;   /* Another tensor whose data this one shares. */
    const char *scale;  /* The tensor that holds its scales, one for each block. */
    uint32_t block[2];  /* Rows and columns of a block (of the last two dimensions). */
    uint32_t flags;     /* enum layout_tensor_flag */
};

/* Members are numbers of the tables below; LAYOUT_NONE: none. */
struct layout_tensor {
    uint32_t name;
    uint32_t dtype;
    uint32_t shape;
    uint32_t atomic;
    uint32_t tied;
    uint32_t scale;
    uint32_t block[2];
    uint32_t flags;
    uint32_t first_holding; /* After sealing: its holdings, in order of their boxes' numbers. */
    uint32_t holdings_count;
    uint32_t pattern; /* Equal for tensors that are cut alike. */
};

struct layout_local {
    uint32_t name;
    uint32_t set;
    uint32_t dtype;
    uint32_t unused;
    uint64_t elements;
    uint64_t pad_elements;
};

struct layout_piece {
    uint64_t offset;
    uint32_t tensor;
    uint32_t local;
    uint32_t box;
    uint32_t pitch; /* 0: rows follow each other. */
};

struct layout_holding {
    uint32_t box;
    uint32_t first_piece;
    uint32_t pieces_count;
    uint32_t set; /* All ranks of all pieces. */
};

/* Ranks, ascending, each once. */
struct layout_ranks {
    const uint32_t *ranks;
    size_t count;
};

/* What is done with a name: given to a target layout, used by plans. */
enum layout_name_rule {
    LAYOUT_RULE_DROP,   /* A source tensor that nobody here wants is left out. */
    LAYOUT_RULE_RENAME, /* A source tensor is called 'into' here. */
};

struct layout;

/* An empty layout; 'name' is for messages.  Null if the arena is full. */
struct layout *layout_create(struct baton_arena *arena, const char *name);

/* --- building; numbers come back in 'out' --- */

/* 'ranks' ascending, each below LAYOUT_RANKS_MAX; equal sets get equal numbers. */
BATON_MUST_USE struct baton_status layout_add_set(struct layout *layout, struct layout_ranks ranks,
                                                  uint32_t *out);
/* Refuses a name that is there, and a shape with a dimension of 2^32 or more. */
BATON_MUST_USE struct baton_status layout_add_tensor(struct layout *layout,
                                                     const struct layout_tensor_options *tensor,
                                                     uint32_t *out);
BATON_MUST_USE struct baton_status layout_add_local(struct layout *layout, const char *name,
                                                    enum tensor_dtype dtype, uint64_t elements,
                                                    uint32_t set, uint32_t *out);

/* What a caller says of a piece. */
struct layout_piece_options {
    uint32_t tensor;
    uint32_t local;
    struct box box;
    uint64_t offset;
    uint32_t pitch;
};

/* Refuses a box outside of its tensor, elements outside of the local, another dtype than the
 * local's, and a cut within a byte. */
BATON_MUST_USE struct baton_status layout_add_piece(struct layout *layout,
                                                    const struct layout_piece_options *piece);
BATON_MUST_USE struct baton_status layout_add_pad(struct layout *layout, uint32_t local,
                                                  uint64_t offset, uint64_t elements);
/* 'match' may hold '*' (any text); $1 to $9 in 'into' are what the stars stood for. */
BATON_MUST_USE struct baton_status layout_add_name_rule(struct layout *layout,
                                                        enum layout_name_rule kind,
                                                        const char *match, const char *into);

/* Ranks gather their shards before they use them (FSDP), so a value's scales may lie elsewhere. */
void layout_set_gathered(struct layout *layout);

/* Ends the building; proves what the head of this file says.  After a failure the layout is of no
 * use. */
BATON_MUST_USE struct baton_status layout_seal(struct layout *layout);

/* --- reading; numbers must be valid --- */

const char *layout_name(const struct layout *layout);
/* One more than the highest rank. */
uint32_t layout_ranks_count(const struct layout *layout);
uint32_t layout_tensors_count(const struct layout *layout);
uint32_t layout_locals_count(const struct layout *layout);
const struct layout_tensor *layout_tensor_get(const struct layout *layout, uint32_t tensor);
/* LAYOUT_NONE if there is none. */
uint32_t layout_tensor_find(const struct layout *layout, const char *name);
const struct layout_local *layout_local_get(const struct layout *layout, uint32_t local);
const char *layout_text(const struct layout *layout, uint32_t name);
const struct tensor_shape *layout_shape(const struct layout *layout, uint32_t shape);
const struct box *layout_box(const struct layout *layout, uint32_t box);
uint32_t layout_boxes_count(const struct layout *layout);
struct layout_ranks layout_set(const struct layout *layout, uint32_t set);
uint32_t layout_sets_count(const struct layout *layout);
/* After sealing. */
const struct layout_holding *layout_holding_get(const struct layout *layout, uint32_t holding);
const struct layout_piece *layout_piece_get(const struct layout *layout, uint32_t piece);
uint32_t layout_pieces_count(const struct layout *layout);
uint32_t layout_holdings_count(const struct layout *layout);
/* Of everything that was said; equal digests plan alike. */
struct digest layout_digest(const struct layout *layout);
/* Name rules in the order in which they were added; false past the end. */
bool layout_name_rule_get(const struct layout *layout, enum layout_name_rule kind, uint32_t index,
                          const char **match, const char **into);
/* Bytes of all locals of one rank, pads included. */
uint64_t layout_rank_bytes(const struct layout *layout, uint32_t rank);
bool layout_ranks_have(struct layout_ranks ranks, uint32_t rank);

#endif /* layout.h */
