/* layout_file_test.c -- layout files: what is read, and what is refused with file, line and key. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/layout/plan.h"
#include "transport/layout_file/layout_file.h"
#include "transport/layout_file/schema.h"

enum { ARENA_BYTES = 32 << 20, PAGE_BYTES = 1 << 16 };

static struct baton_arena arena_make(void)
{
    return baton_arena_of(malloc(ARENA_BYTES), ARENA_BYTES);
}

static const char small[] = "apiVersion: baton/v1\n"
                            "kind: Layout\n"
                            "metadata: {name: small}\n"
                            "mesh: [{axis: pp, size: 2}, {axis: tp, size: 2}]\n"
                            "ranksPerLink: 4\n"
                            "tensors:\n"
                            "- {name: 'layers.{layer}.q', dtype: BF16, shape: [4, 2], layers: 3}\n"
                            "- {name: 'layers.{layer}.k', dtype: BF16, shape: [1, 2], layers: 3}\n"
                            "- {name: 'layers.{layer}.experts.{expert}.w', dtype: F8_E4M3, "
                            "shape: [4, 4], layers: 3, experts: 2, "
                            "scale: 'layers.{layer}.experts.{expert}.s', block: [2, 4]}\n"
                            "- {name: 'layers.{layer}.experts.{expert}.s', dtype: F32, "
                            "shape: [2, 1], layers: 3, experts: 2}\n"
                            "rules:\n"
                            "- {match: '*.q', into: '$1.qk', shard: tp, unit: 1}\n"
                            "- {match: '*.k', into: '$1.qk', shard: tp, unit: 1, order: 1}\n"
                            "- {match: '*.experts.*', expert: true, shard: tp, cast: true}\n"
                            "stages: {layers: [1, 2]}\n"
                            "rename: [{match: 'model.*', into: '$1'}]\n"
                            "drop: ['*.inv_freq']\n";

/* All that a file may say arrives. */
Test(layout_file, reads_rules)
{
    struct baton_arena arena = arena_make();
    struct layout_file file;
    struct baton_status st = layout_file_parse("small.yaml", small, &arena, &file);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_str_eq(layout_name(file.layout), "small");
    cr_expect_eq(file.ranks_per_link, 4);
    cr_expect_eq(layout_ranks_count(file.layout), 4);
    cr_expect_eq(layout_tensors_count(file.layout), 3 + 3 + 6 + 6);
    /* Per layer: half of q and k's row (3 rows of 2), half of two experts (16 of 1 byte), scales. */
    uint64_t layer = 3 * 2 * 2 + 2 * 8 + 2 * 4;
    cr_expect_eq(layout_rank_bytes(file.layout, 0), layer);
    cr_expect_eq(layout_rank_bytes(file.layout, 3), 2 * layer);
    const char *match, *into;
    cr_expect(layout_name_rule_get(file.layout, LAYOUT_RULE_RENAME, 0, &match, &into));
    cr_expect_str_eq(into, "$1");
    cr_expect(layout_name_rule_get(file.layout, LAYOUT_RULE_DROP, 0, &match, &into));
    cr_expect_str_eq(match, "*.inv_freq");
    uint32_t number = layout_tensor_find(file.layout, "layers.2.experts.1.w");
    cr_assert_neq(number, LAYOUT_NONE);
    const struct layout_tensor *tensor = layout_tensor_get(file.layout, number);
    cr_expect_str_eq(layout_text(file.layout, tensor->scale), "layers.2.experts.1.s");
    cr_expect_eq(tensor->flags, LAYOUT_CAST);
    free(arena.data);
}

/* A scalar has a shape without sizes, and its one element everywhere. */
Test(layout_file, reads_a_scalar)
{
    static const char text[] = "apiVersion: baton/v1\n"
                               "kind: Layout\n"
                               "metadata: {name: s}\n"
                               "mesh: [{axis: tp, size: 2}]\n"
                               "tensors: [{name: scale, dtype: F32, shape: []}]\n";
    struct baton_arena arena = arena_make();
    struct layout_file file;
    struct baton_status st = layout_file_parse("scalar.yaml", text, &arena, &file);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(layout_rank_bytes(file.layout, 0), 4);
    cr_expect_eq(layout_rank_bytes(file.layout, 1), 4);
    free(arena.data);
}

/* The same file as JSON is the same layout. */
Test(layout_file, reads_json)
{
    struct baton_arena arena = arena_make();
    struct layout_file yaml, json;
    static const char text[] =
        "{\"metadata\": {\"name\": \"s\"}, \"mesh\": [{\"axis\": \"tp\", \"size\": 2}],\n"
        " \"tensors\": [{\"name\": \"w\", \"dtype\": \"BF16\", \"shape\": [4]}],\n"
        " \"rules\": [{\"match\": \"w\", \"shard\": \"tp\"}]}";
    struct baton_status st = layout_file_parse("s.json", text, &arena, &json);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = layout_file_parse("s.yaml",
                           "metadata: {name: s}\nmesh: [{axis: tp, size: 2}]\n"
                           "tensors: [{name: w, dtype: BF16, shape: [4]}]\n"
                           "rules: [{match: w, shard: tp}]\n",
                           &arena, &yaml);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect(digest_equal(layout_digest(yaml.layout), layout_digest(json.layout)));
    free(arena.data);
}

/* What is wrong is said with file, and line or key. */
Test(layout_file, refuses_by_key)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        { "metadata: {name: s}\ntensors: []\nmash: []\n", "f.yaml:3: Unexpected key: mash" },
        { "metadata: {name: s}\nkind: Model\n", "f.yaml: kind: 'Model' is unknown; write Layout" },
        { "metadata: {name: s}\n", "f.yaml: layout s: tensors: none, or more than a million" },
        { "metadata: {name: s}\ntensors: [{name: w, dtype: BF17, shape: [1]}]\n",
          "f.yaml: tensors.dtype: 'BF17' is unknown; write a name as safetensors has it, such as "
          "BF16 or F8_E4M3" },
        { "metadata: {name: s}\ntensors: [{name: w, dtype: BF16, shape: [1]}]\n"
          "rules: [{match: w, fuse: glue}]\n",
          "f.yaml: rules.fuse: 'glue' is unknown; write concat, grouped or paired" },
        { "metadata: {name: s}\ntensors: [{name: w, dtype: BF16, shape: [3]}]\n"
          "mesh: [{axis: tp, size: 2}]\nrules: [{match: w, shard: tp}]\n",
          "f.yaml: layout s: w: 3 units of 1 do not go evenly into 2 shards (say unit or padTo)" },
        { "metadata: {name: s}\ntensors: [{name: w, dtype: BF16, shape: [3]}]\n"
          "mesh: [{axis: tp, size: 0}]\n",
          "f.yaml: layout s: mesh: an axis is empty, or there are more than 65536 ranks" },
        { "metadata: {name: s}\nmesh: [{axis: ep, size: 2}]\n"
          "experts: {maps: [{slots: [0, 1, 2]}]}\n"
          "tensors: [{name: experts.0.w, dtype: BF16, shape: [3]}]\n",
          "f.yaml: experts.maps[0].slots: 3 slots do not go evenly into 2 ranks" },
        { "metadata: {name: s}\nmesh: [{axis: pp, size: 2}]\nstages: {layers: [1, 2, 3]}\n"
          "tensors: [{name: w, dtype: BF16, shape: [3]}]\n",
          "f.yaml: stages.layers: 3 numbers for 2 stages" },
        { "metadata: {name: s}\nranksPerLink: 4294967295\n",
          "f.yaml: ranksPerLink: 4294967295 is more than 65536" },
        { "metadata: {name: s}\nexperts: {count: 16385}\n"
          "tensors: [{name: w, dtype: BF16, shape: [3]}]\n",
          "f.yaml: layout s: experts: more than 16384" },
        { "metadata: {name: s}\nfamily: {kind: dense, layers: 1}\n",
          "f.yaml: family.hidden: must be given, and not be 0" },
    };
    struct baton_arena arena = arena_make();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct layout_file file;
        baton_arena_reset(&arena);
        struct baton_status st = layout_file_parse("f.yaml", rows[i].text, &arena, &file);
        cr_expect(!baton_ok(&st), "row %zu", i);
        cr_expect_str_eq(st.message, rows[i].message);
    }
    struct layout_file file;
    struct baton_status st = layout_file_read("/nowhere/f.yaml", &arena, &file);
    cr_expect_eq(st.code, BATON_NOT_FOUND);
    free(arena.data);
}

/* --- the page's example --- */

/* The n-th YAML block of a page, in a file of its own. */
static void write_block(const char *page, int number, char *path)
{
    static char text[PAGE_BYTES];
    FILE *file = fopen(page, "re");
    cr_assert_not_null(file, "%s", page);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    char *block = text;
    for (int i = 0; i <= number; i++) {
        block = strstr(block, "```yaml\n");
        cr_assert_not_null(block, "block %d of %s", number, page);
        block += 8;
    }
    char *end = strstr(block, "```");
    cr_assert_not_null(end);
    int descriptor = mkstemp(path);
    cr_assert_geq(descriptor, 0);
    cr_assert_eq(write(descriptor, block, (size_t)(end - block)), end - block);
    (void)close(descriptor);
}

/* deploy/docs/layouts.md: the example works, and the small model of tests/data goes into its
 * engine; every element of a rank comes from the checkpoint. */
Test(layout_file, documented_example_works)
{
    struct baton_arena arena = arena_make();
    char paths[2][32] = { "/tmp/layout-XXXXXX", "/tmp/layout-XXXXXX" };
    struct layout_file trainer, engine, checkpoint;
    struct layout_plan_options options = { 0 };
    struct layout_plan *plan;
    for (int i = 0; i < 2; i++) {
        write_block(BATON_DOCS "/layouts.md", i, paths[i]);
    }
    struct baton_status st = layout_file_read(paths[0], &arena, &trainer);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = layout_file_read(paths[1], &arena, &engine);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = layout_plan_create(trainer.layout, engine.layout, &options, &arena, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = layout_file_read(BATON_TEST_DATA "/qwen3-tiny/v2", &arena, &checkpoint);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = layout_plan_create(checkpoint.layout, engine.layout, &options, &arena, &plan);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_expect_eq(layout_plan_figures(plan)->tensors, layout_tensors_count(checkpoint.layout));
    for (int i = 0; i < 2; i++) {
        (void)unlink(paths[i]);
    }
    free(arena.data);
}

/* --- the JSON schema --- */

static const char *type_of(const cyaml_schema_value_t *value)
{
    switch ((int)value->type) {
    case CYAML_STRING: return "string";
    case CYAML_INT:
    case CYAML_UINT: return "integer";
    case CYAML_BOOL: return "boolean";
    case CYAML_SEQUENCE: return "array";
    case CYAML_MAPPING: return "object";
    default: return "?";
    }
}

static bool is_required(json_t *schema, const char *key)
{
    json_t *required = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(required); i++) {
        if (strcmp(json_string_value(json_array_get(required, i)), key) == 0) {
            return true;
        }
    }
    return false;
}

static void compare_schemas(const char *key, const cyaml_schema_value_t *value, json_t *schema)
{
    const char *type = json_string_value(json_object_get(schema, "type"));
    cr_assert_not_null(type, "%s: not in the schema", key);
    cr_expect_str_eq(type, type_of(value), "%s", key);
    if (value->type == CYAML_SEQUENCE) {
        compare_schemas(key, value->sequence.entry, json_object_get(schema, "items"));
    } else if (value->type == CYAML_MAPPING) {
        json_t *properties = json_object_get(schema, "properties");
        size_t count = 0;
        for (const cyaml_schema_field_t *f = value->mapping.fields; f->key != NULL; f++, count++) {
            compare_schemas(f->key, &f->value, json_object_get(properties, f->key));
            cr_expect_eq(is_required(schema, f->key), (f->value.flags & CYAML_FLAG_OPTIONAL) == 0,
                         "%s: required here, not there", f->key);
        }
        cr_expect_eq(json_object_size(properties), count, "%s: the schema has other keys", key);
        cr_expect(json_is_false(json_object_get(schema, "additionalProperties")), "%s", key);
    }
}

/* deploy/docs/layout.schema.json, for editors, has the keys that are read: no more, no less. */
Test(layout_file, schema_has_every_key)
{
    json_t *schema = json_load_file(BATON_DOCS "/layout.schema.json", 0, NULL);
    cr_assert_not_null(schema);
    compare_schemas("layout", &layout_file_schema, schema);
    json_decref(schema);
}
