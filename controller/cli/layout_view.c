/* layout_view.c -- see layout_view.h. */
#include "controller/cli/layout_view.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/print.h"
#include "controller/cli/yaml.h"

static bool is_structured(const struct cli *cli)
{
    return cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML;
}

/* Prints a value and drops it. */
static void print_value(const struct cli *cli, json_t *value)
{
    if (cli->output == CLI_OUTPUT_YAML) {
        cli_yaml_print(stdout, value);
    } else {
        (void)json_dumpf(value, stdout, JSON_INDENT(2));
        (void)putchar('\n');
    }
    json_decref(value);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static const char *digest_text(struct digest digest, char out[BATON_DIGEST_TEXT_BYTES])
{
    digest_format(digest, out);
    return out;
}

/* "0-3,8": a set of ranks. */
static const char *ranks_text(struct layout_ranks ranks, char out[CLI_CELL_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < ranks.count && used + 32 < CLI_CELL_BYTES;) {
        size_t end = i;
        while (end + 1 < ranks.count && ranks.ranks[end + 1] == ranks.ranks[end] + 1) {
            end++;
        }
        used += (size_t)snprintf(out + used, CLI_CELL_BYTES - used, end > i ? "%s%u-%u" : "%s%u",
                                 used > 0 ? "," : "", ranks.ranks[i], ranks.ranks[end]);
        i = end + 1;
        if (i < ranks.count && used + 32 >= CLI_CELL_BYTES) {
            (void)snprintf(out + used, CLI_CELL_BYTES - used, ",...");
        }
    }
    return out;
}

/* --- show --- */

/* What each rank has. */
struct totals {
    uint64_t *bits;
    uint64_t *pad_bits;
    uint32_t *locals;
};

static void add_totals(const struct layout *layout, struct totals *totals)
{
    for (uint32_t l = 0; l < layout_locals_count(layout); l++) {
        const struct layout_local *local = layout_local_get(layout, l);
        struct layout_ranks set = layout_set(layout, local->set);
        uint32_t bits = tensor_dtype_bits((enum tensor_dtype)local->dtype);
        for (size_t r = 0; r < set.count; r++) {
            totals->bits[set.ranks[r]] += local->elements * bits;
            totals->pad_bits[set.ranks[r]] += local->pad_elements * bits;
            totals->locals[set.ranks[r]]++;
        }
    }
}

static void show_ranks(const struct cli *cli, const struct layout *layout,
                       const struct totals *totals)
{
    char digest[BATON_DIGEST_TEXT_BYTES], bytes[CLI_CELL_BYTES], pad[CLI_CELL_BYTES];
    (void)printf("layout %s: %u tensors on %u ranks, digest %s\n", layout_name(layout),
                 layout_tensors_count(layout), layout_ranks_count(layout),
                 digest_text(layout_digest(layout), digest));
    if (!cli->no_headers) {
        (void)printf("%-6s %-8s %-12s %s\n", "RANK", "LOCALS", "BYTES", "PADDING");
    }
    for (uint32_t r = 0; r < layout_ranks_count(layout); r++) {
        cli_text_bytes(totals->bits[r] / 8, bytes);
        cli_text_bytes(totals->pad_bits[r] / 8, pad);
        (void)printf("%-6u %-8u %-12s %s\n", r, totals->locals[r], bytes, pad);
    }
}

static json_t *ranks_value(const struct layout *layout, const struct totals *totals)
{
    char digest[BATON_DIGEST_TEXT_BYTES];
    json_t *ranks = json_array();
    for (uint32_t r = 0; r < layout_ranks_count(layout); r++) {
        json_array_append_new(ranks, json_pack("{s:o, s:o, s:o, s:o}", "rank", number(r), "locals",
                                               number(totals->locals[r]), "bytes",
                                               number(totals->bits[r] / 8), "paddingBytes",
                                               number(totals->pad_bits[r] / 8)));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "name", layout_name(layout), "digest",
                     digest_text(layout_digest(layout), digest), "tensors",
                     number(layout_tensors_count(layout)), "ranks", ranks);
}

/* One piece of a rank: a row, or an object. */
static void show_piece(const struct cli *cli, const struct layout *layout, uint32_t p,
                       json_t *pieces)
{
    const struct layout_piece *piece = layout_piece_get(layout, p);
    const struct layout_tensor *tensor = layout_tensor_get(layout, piece->tensor);
    const struct layout_local *local = layout_local_get(layout, piece->local);
    char box[BOX_TEXT_BYTES], ranks[CLI_CELL_BYTES];
    const char *dtype = tensor_dtype_name((enum tensor_dtype)local->dtype);
    box_format(layout_shape(layout, tensor->shape)->rank, layout_box(layout, piece->box), box);
    (void)ranks_text(layout_set(layout, local->set), ranks);
    if (is_structured(cli)) {
        json_array_append_new(pieces, json_pack("{s:s, s:s, s:o, s:s, s:s, s:o, s:s}", "local",
                                                layout_text(layout, local->name), "dtype", dtype,
                                                "offset", number(piece->offset), "tensor",
                                                layout_text(layout, tensor->name), "box", box,
                                                "pitch", number(piece->pitch), "ranks", ranks));
    } else {
        (void)printf("%-52s %-8s %12" PRIu64 "  %s %s%s%s\n", layout_text(layout, local->name),
                     dtype, piece->offset, layout_text(layout, tensor->name), box,
                     cli->output == CLI_OUTPUT_WIDE ? "  ranks " : "",
                     cli->output == CLI_OUTPUT_WIDE ? ranks : "");
    }
}

static void show_rank(const struct cli *cli, const struct layout *layout, uint32_t rank)
{
    json_t *pieces = json_array();
    if (!is_structured(cli) && !cli->no_headers) {
        (void)printf("%-52s %-8s %12s  %s\n", "LOCAL", "DTYPE", "OFFSET", "TENSOR");
    }
    for (uint32_t p = 0; p < layout_pieces_count(layout); p++) {
        const struct layout_local *local =
            layout_local_get(layout, layout_piece_get(layout, p)->local);
        if (layout_ranks_have(layout_set(layout, local->set), rank)) {
            show_piece(cli, layout, p, pieces);
        }
    }
    if (is_structured(cli)) {
        print_value(cli, json_pack("{s:s, s:o, s:O}", "name", layout_name(layout), "rank",
                                   number(rank), "pieces", pieces));
    }
    json_decref(pieces);
}

void cli_layout_show(const struct cli *cli, const struct layout *layout, uint32_t rank)
{
    if (rank != LAYOUT_NONE) {
        show_rank(cli, layout, rank);
        return;
    }
    size_t ranks = layout_ranks_count(layout);
    struct totals totals = { calloc(ranks, sizeof(uint64_t)), calloc(ranks, sizeof(uint64_t)),
                             calloc(ranks, sizeof(uint32_t)) };
    if (totals.bits != NULL && totals.pad_bits != NULL && totals.locals != NULL) {
        add_totals(layout, &totals);
        if (is_structured(cli)) {
            print_value(cli, ranks_value(layout, &totals));
        } else {
            show_ranks(cli, layout, &totals);
        }
    }
    free(totals.bits);
    free(totals.pad_bits);
    free(totals.locals);
}

/* --- check --- */

void cli_layout_check(const struct cli *cli, const struct layout *layout)
{
    uint32_t tensors = layout_tensors_count(layout), ranks = layout_ranks_count(layout);
    char digest[BATON_DIGEST_TEXT_BYTES];
    if (is_structured(cli)) {
        print_value(cli, json_pack("{s:s, s:s, s:b, s:o, s:o}", "name", layout_name(layout),
                                   "digest", digest_text(layout_digest(layout), digest), "holds", 1,
                                   "tensors", number(tensors), "ranks", number(ranks)));
    } else if (!cli->quiet) {
        (void)printf("layout %s holds: %u tensors on %u ranks, no gap, no overlap\n",
                     layout_name(layout), tensors, ranks);
    }
}

/* --- diff --- */

/* A list of differences, printed as it grows or at the end. */
struct differences {
    const struct cli *cli;
    json_t *rows;
    size_t count;
};

static void differ(struct differences *differences, const char *tensor, const char *what)
{
    differences->count++;
    if (is_structured(differences->cli)) {
        json_array_append_new(differences->rows,
                              json_pack("{s:s, s:s}", "tensor", tensor, "difference", what));
    } else if (!differences->cli->quiet) {
        (void)printf("%s: %s\n", tensor, what);
    }
}

/* True if both say of a tensor that the same ranks hold the same boxes. */
static bool is_cut_alike(const struct layout *a, const struct layout_tensor *x,
                         const struct layout *b, const struct layout_tensor *y)
{
    uint32_t rank = layout_shape(a, x->shape)->rank;
    uint32_t found = 0;
    for (uint32_t i = 0; i < x->holdings_count && x->holdings_count == y->holdings_count; i++) {
        const struct layout_holding *one = layout_holding_get(a, x->first_holding + i);
        struct layout_ranks have = layout_set(a, one->set);
        for (uint32_t k = 0; k < y->holdings_count; k++) {
            const struct layout_holding *other = layout_holding_get(b, y->first_holding + k);
            struct layout_ranks want = layout_set(b, other->set);
            found += box_equal(rank, layout_box(a, one->box), layout_box(b, other->box)) &&
                     have.count == want.count &&
                     memcmp(have.ranks, want.ranks, have.count * sizeof(*have.ranks)) == 0;
        }
    }
    return found == x->holdings_count && x->holdings_count == y->holdings_count;
}

/* True if both are none, or the same text. */
static bool is_same_text(const struct layout *a, uint32_t x, const struct layout *b, uint32_t y)
{
    return x == LAYOUT_NONE || y == LAYOUT_NONE ? x == y
                                                : strcmp(layout_text(a, x), layout_text(b, y)) == 0;
}

/* What else is said of a tensor that plans depend on; null: nothing that differs. */
static const char *said_otherwise(const struct layout *a, const struct layout_tensor *x,
                                  const struct layout *b, const struct layout_tensor *y)
{
    return !is_same_text(a, x->tied, b, y->tied) ? "tied to another tensor"
           : !is_same_text(a, x->scale, b, y->scale) ||
                   memcmp(x->block, y->block, sizeof(x->block)) != 0
               ? "other scales"
           : !is_same_text(a, x->atomic, b, y->atomic)  ? "another atomic set"
           : ((x->flags ^ y->flags) & LAYOUT_KEEP) != 0 ? "kept by one only"
           : ((x->flags ^ y->flags) & LAYOUT_CAST) != 0 ? "cast by one only"
                                                        : NULL;
}

/* True if both change names by the same rules, in the same order. */
static bool has_same_rules(const struct layout *a, const struct layout *b,
                           enum layout_name_rule kind)
{
    for (uint32_t i = 0;; i++) {
        const char *match[2], *into[2];
        bool is_in_a = layout_name_rule_get(a, kind, i, &match[0], &into[0]);
        bool is_in_b = layout_name_rule_get(b, kind, i, &match[1], &into[1]);
        if (!is_in_a || !is_in_b) {
            return is_in_a == is_in_b;
        }
        if (strcmp(match[0], match[1]) != 0 || strcmp(into[0], into[1]) != 0) {
            return false;
        }
    }
}

static void diff_tensor(struct differences *differences, const struct layout *a,
                        const struct layout *b, uint32_t t)
{
    const struct layout_tensor *x = layout_tensor_get(a, t);
    const char *name = layout_text(a, x->name);
    uint32_t other = layout_tensor_find(b, name);
    char what[2 * TENSOR_SHAPE_TEXT_BYTES + 64];
    if (other == LAYOUT_NONE) {
        (void)snprintf(what, sizeof(what), "only in %.100s", layout_name(a));
        differ(differences, name, what);
        return;
    }
    const struct layout_tensor *y = layout_tensor_get(b, other);
    const struct tensor_shape *have = layout_shape(a, x->shape), *want = layout_shape(b, y->shape);
    if (!tensor_shape_equal(have, want)) {
        char first[TENSOR_SHAPE_TEXT_BYTES], second[TENSOR_SHAPE_TEXT_BYTES];
        tensor_shape_format(have, first);
        tensor_shape_format(want, second);
        (void)snprintf(what, sizeof(what), "shape %s, %s", first, second);
        differ(differences, name, what);
    } else if (x->dtype != y->dtype) {
        (void)snprintf(what, sizeof(what), "dtype %s, %s",
                       tensor_dtype_name((enum tensor_dtype)x->dtype),
                       tensor_dtype_name((enum tensor_dtype)y->dtype));
        differ(differences, name, what);
    } else if (!is_cut_alike(a, x, b, y)) {
        (void)snprintf(what, sizeof(what), "cut or placed differently (%u and %u boxes)",
                       x->holdings_count, y->holdings_count);
        differ(differences, name, what);
    } else if (said_otherwise(a, x, b, y) != NULL) {
        differ(differences, name, said_otherwise(a, x, b, y));
    }
}

bool cli_layout_diff(const struct cli *cli, const struct layout *a, const struct layout *b)
{
    struct differences differences = { cli, json_array(), 0 };
    bool is_same = digest_equal(layout_digest(a), layout_digest(b));
    for (uint32_t t = 0; t < layout_tensors_count(a) && !is_same; t++) {
        diff_tensor(&differences, a, b, t);
    }
    for (uint32_t t = 0; t < layout_tensors_count(b) && !is_same; t++) {
        const char *name = layout_text(b, layout_tensor_get(b, t)->name);
        if (layout_tensor_find(a, name) == LAYOUT_NONE) {
            char what[128];
            (void)snprintf(what, sizeof(what), "only in %.100s", layout_name(b));
            differ(&differences, name, what);
        }
    }
    if (!has_same_rules(a, b, LAYOUT_RULE_RENAME)) {
        differ(&differences, "*", "other rename rules");
    }
    if (!has_same_rules(a, b, LAYOUT_RULE_DROP)) {
        differ(&differences, "*", "other drop rules");
    }
    if (is_structured(cli)) {
        print_value(cli, json_pack("{s:b, s:O}", "same", differences.count == 0, "differences",
                                   differences.rows));
    } else if (!cli->quiet) {
        (void)printf(differences.count > 0 ? "%zu differences\n"
                     : is_same             ? "the same layout\n"
                                           : "the same boxes on the same ranks, in other locals\n",
                     differences.count);
    }
    json_decref(differences.rows);
    return differences.count > 0;
}

/* --- plan --- */

static json_t *figures_value(const struct layout_plan *plan, const struct layout *source,
                             const struct layout *target)
{
    const struct layout_plan_figures *f = layout_plan_figures(plan);
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, "
        "s:o}",
        "source", layout_name(source), "target", layout_name(target), "tensors", number(f->tensors),
        "cast", number(f->cast), "tied", number(f->tied), "kept", number(f->kept), "dropped",
        number(f->dropped), "copies", number(layout_plan_copies_count(plan)), "buckets",
        number(layout_plan_buckets_count(plan)), "bytes", number(f->bytes), "deliveredBytes",
        number(f->delivered_bytes), "bottleneckBytes", number(f->bottleneck), "bottleneckLink",
        number(f->bottleneck_link), "bottleneckSide", f->bottleneck_is_source ? "source" : "target",
        "lowerBoundBytes", number(f->lower_bound), "sourceLinkBytesMax", number(f->egress_max),
        "sourceLinkBytesBound", number(f->egress_bound), "bucketBytesMax",
        number(f->bucket_bytes_max));
}

static void print_figures(const struct layout_plan *plan, const struct layout *source,
                          const struct layout *target)
{
    const struct layout_plan_figures *f = layout_plan_figures(plan);
    char a[CLI_CELL_BYTES], b[CLI_CELL_BYTES];
    cli_text_bytes(f->bytes, a);
    cli_text_bytes(f->delivered_bytes, b);
    (void)printf("plan from %s (%u ranks) to %s (%u ranks): %u tensors, %u cast, %u tied, %u kept, "
                 "%u dropped\n",
                 layout_name(source), layout_ranks_count(source), layout_name(target),
                 layout_ranks_count(target), f->tensors, f->cast, f->tied, f->kept, f->dropped);
    (void)printf("%s sent in %u copies, %s delivered to ranks that share them\n", a,
                 layout_plan_copies_count(plan), b);
    cli_text_bytes(f->bottleneck, a);
    cli_text_bytes(f->lower_bound, b);
    (void)printf("busiest link: %s link %u with %s; no plan has less than %s\n",
                 f->bottleneck_is_source ? "source" : "target", f->bottleneck_link, a, b);
    cli_text_bytes(f->egress_max, a);
    cli_text_bytes(f->egress_bound, b);
    (void)printf("source links: at most %s each; no plan has less than %s\n", a, b);
    cli_text_bytes(f->bucket_bytes_max, a);
    (void)printf("%u buckets, the largest of %s\n", layout_plan_buckets_count(plan), a);
}

static void print_buckets(const struct layout_plan *plan)
{
    (void)printf("%-8s %-9s %-9s %s\n", "BUCKET", "TENSORS", "COPIES", "BYTES");
    for (uint32_t i = 0; i < layout_plan_buckets_count(plan); i++) {
        const struct layout_bucket *bucket = layout_plan_bucket(plan, i);
        char bytes[CLI_CELL_BYTES];
        cli_text_bytes(bucket->bytes, bytes);
        (void)printf("%-8u %-9u %-9u %s\n", i, bucket->tensors_count, bucket->copies_count, bytes);
    }
}

/* One copy: a row, or an object. */
static void show_copy(const struct cli *cli, const struct layout_plan *plan,
                      const struct layout *target, uint32_t c, json_t *copies)
{
    const struct layout_copy *copy = layout_plan_copy(plan, c);
    const struct layout_holding *holding = layout_holding_get(target, copy->target_holding);
    const struct layout_piece *piece = layout_piece_get(target, holding->first_piece);
    const struct layout_tensor *tensor = layout_tensor_get(target, piece->tensor);
    char box[BOX_TEXT_BYTES], ranks[CLI_CELL_BYTES];
    box_format(layout_shape(target, tensor->shape)->rank, layout_plan_box(plan, copy->box), box);
    (void)ranks_text(layout_set(target, holding->set), ranks);
    if (is_structured(cli)) {
        json_array_append_new(copies, json_pack("{s:o, s:s, s:s, s:s}", "from",
                                                number(copy->source_rank), "to", ranks, "tensor",
                                                layout_text(target, tensor->name), "box", box));
    } else {
        (void)printf("%-6u -> %-16s %s %s\n", copy->source_rank, ranks,
                     layout_text(target, tensor->name), box);
    }
}

void cli_layout_plan(const struct cli *cli, const struct layout *source,
                     const struct layout *target, const struct layout_plan *plan, bool has_copies)
{
    json_t *copies = json_array();
    if (!is_structured(cli)) {
        print_figures(plan, source, target);
    }
    if (cli->output == CLI_OUTPUT_WIDE) {
        print_buckets(plan);
    }
    for (uint32_t c = 0; has_copies && c < layout_plan_copies_count(plan); c++) {
        show_copy(cli, plan, target, c, copies);
    }
    if (is_structured(cli)) {
        json_t *value = figures_value(plan, source, target);
        if (has_copies) {
            json_object_set(value, "copyList", copies);
        }
        print_value(cli, value);
    }
    json_decref(copies);
}
