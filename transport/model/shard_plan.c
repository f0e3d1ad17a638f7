/* shard_plan.c -- deterministic safetensors headers for a manifest. */
#include "transport/model/shard_plan.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/model/safetensors.h"

enum { HEADER_ALIGN_BYTES = 64 };

/* A tensor with what its place in the files depends on. */
struct slot {
    const struct manifest_tensor *tensor;
    size_t index; /* In the manifest. */
};

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "shard plan: out of memory");
}

static int compare_slots(const void *a, const void *b)
{
    const struct slot *left = a;
    const struct slot *right = b;
    int order = strcmp(left->tensor->file, right->tensor->file);
    if (order != 0) {
        return order;
    }
    uint32_t left_bits = tensor_dtype_bits(left->tensor->dtype);
    uint32_t right_bits = tensor_dtype_bits(right->tensor->dtype);
    if (left_bits != right_bits) {
        return left_bits > right_bits ? -1 : 1;
    }
    return strcmp(left->tensor->name, right->tensor->name);
}

static json_t *tensor_json(const struct manifest_tensor *tensor, uint64_t begin)
{
    json_t *shape = json_array();
    for (uint32_t i = 0; i < tensor->shape.rank; i++) {
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape.dims[i]));
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor_dtype_name(tensor->dtype), "shape",
                     shape, "data_offsets", (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
}

/* Length field, JSON, spaces up to the alignment. */
static struct baton_status frame_header(const char *text, struct shard *shard)
{
    size_t text_bytes = strlen(text);
    size_t all = SAFETENSORS_PREFIX_BYTES + text_bytes;
    size_t padded = (all + HEADER_ALIGN_BYTES - 1) / HEADER_ALIGN_BYTES * HEADER_ALIGN_BYTES;
    if (padded - SAFETENSORS_PREFIX_BYTES > BATON_SAFETENSORS_HEADER_BYTES_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.120s: its header would be longer than the 100 MiB that readers "
                                 "accept; spread the tensors over more files",
                                 shard->file);
    }
    shard->header = malloc(padded);
    if (shard->header == NULL) {
        return no_memory();
    }
    struct baton_writer writer = baton_writer_of(shard->header, padded);
    baton_write_u64le(&writer, padded - SAFETENSORS_PREFIX_BYTES);
    baton_write_bytes(&writer, (struct baton_bytes){ (const uint8_t *)text, text_bytes });
    memset(shard->header + writer.size, ' ', padded - writer.size);
    shard->header_bytes = padded;
    return baton_status_ok();
}

/* Plans the file of the first of 'slots'; 'count' of them share it. */
static struct baton_status plan_shard(struct shard_plan *plan, const struct slot *slots,
                                      size_t count)
{
    struct shard *shard = &plan->shards[plan->shards_count];
    json_t *top = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    uint64_t begin = 0;
    int failed = top == NULL;
    for (size_t i = 0; !failed && i < count; i++) {
        const struct manifest_tensor *tensor = slots[i].tensor;
        failed = json_object_set_new(top, tensor->name, tensor_json(tensor, begin));
        plan->places[slots[i].index] = (struct shard_place){ plan->shards_count, begin };
        begin += tensor->bytes;
    }
    char *text = failed ? NULL : json_dumps(top, JSON_COMPACT);
    json_decref(top);
    if (text == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "%.120s: a tensor's name is not UTF-8, or memory is short",
                                 slots[0].tensor->file);
    }
    shard->file = slots[0].tensor->file;
    struct baton_status st = frame_header(text, shard);
    free(text);
    if (!baton_ok(&st)) {
        return st;
    }
    for (size_t i = 0; i < count; i++) {
        plan->places[slots[i].index].offset += shard->header_bytes;
    }
    shard->file_bytes = shard->header_bytes + begin;
    plan->shards_count++;
    return baton_status_ok();
}

static size_t count_same_file(const struct slot *slots, size_t count)
{
    size_t same = 1;
    while (same < count && strcmp(slots[same].tensor->file, slots[0].tensor->file) == 0) {
        same++;
    }
    return same;
}

static struct baton_status plan_slots(struct shard_plan *plan, const struct slot *slots,
                                      size_t count)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < count;) {
        size_t same = count_same_file(slots + i, count - i);
        if (plan->shards_count == BATON_SHARDS_MAX) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                     "more than %d shards (BATON_SHARDS_MAX)",
                                     (int)BATON_SHARDS_MAX);
        }
        st = plan_shard(plan, slots + i, same);
        i += same;
    }
    return st;
}

static struct baton_status fill_plan(const struct manifest *manifest, struct shard_plan *plan)
{
    size_t count = manifest->tensors_count;
    struct slot *slots = calloc(count + 1, sizeof(*slots));
    plan->shards = calloc(BATON_SHARDS_MAX, sizeof(*plan->shards));
    plan->places = calloc(count + 1, sizeof(*plan->places));
    plan->places_count = count;
    if (slots == NULL || plan->shards == NULL || plan->places == NULL) {
        free(slots);
        return no_memory();
    }
    for (size_t i = 0; i < count; i++) {
        slots[i] = (struct slot){ &manifest->tensors[i], i };
    }
    qsort(slots, count, sizeof(*slots), compare_slots);
    struct baton_status st = plan_slots(plan, slots, count);
    free(slots);
    return st;
}

struct baton_status shard_plan_create(const struct manifest *manifest, struct shard_plan **out)
{
    struct shard_plan *plan = calloc(1, sizeof(*plan));
    struct baton_status st = plan == NULL ? no_memory() : fill_plan(manifest, plan);
    if (!baton_ok(&st)) {
        shard_plan_destroy(plan);
        return st;
    }
    *out = plan;
    return baton_status_ok();
}

void shard_plan_destroy(struct shard_plan *plan)
{
    if (plan == NULL) {
        return;
    }
    for (size_t i = 0; i < plan->shards_count; i++) {
        free(plan->shards[i].header);
    }
    free(plan->shards);
    free(plan->places);
    free(plan);
}

bool shard_plan_needs_index(const struct shard_plan *plan)
{
    return plan->shards_count != 1 || strcmp(plan->shards[0].file, "model.safetensors") != 0;
}

struct baton_status shard_plan_index_json(const struct shard_plan *plan,
                                          const struct manifest *manifest, char **out,
                                          size_t *out_bytes)
{
    json_t *map = json_object();
    uint64_t total = 0;
    int failed = map == NULL;
    for (size_t i = 0; !failed && i < plan->places_count; i++) {
        const struct shard *shard = &plan->shards[plan->places[i].shard];
        failed = json_object_set_new(map, manifest->tensors[i].name, json_string(shard->file));
        total += manifest->tensors[i].bytes;
    }
    json_t *top =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    char *text = failed || top == NULL ? NULL : json_dumps(top, JSON_INDENT(2));
    json_decref(top);
    if (text == NULL) {
        return no_memory();
    }
    *out = text;
    *out_bytes = strlen(text);
    return baton_status_ok();
}

/* Writes each tensor's shard number; returns how many shards there are. */
static size_t number_shards(const struct manifest *manifest, uint64_t shard_bytes_max,
                            size_t *numbered)
{
    size_t shard = 0;
    uint64_t filled = 0;
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        uint64_t bytes = manifest->tensors[i].bytes;
        if (filled > 0 && filled + bytes > shard_bytes_max) {
            shard++;
            filled = 0;
        }
        filled += bytes;
        numbered[i] = shard;
    }
    return shard + 1;
}

static const char *shard_name(struct manifest *manifest, size_t shard, size_t count)
{
    char name[64];
    if (count == 1) {
        return text_pool_copy(&manifest->texts, "model.safetensors", strlen("model.safetensors"));
    }
    int length = snprintf(name, sizeof(name), "model-%05zu-of-%05zu.safetensors", shard + 1, count);
    return text_pool_copy(&manifest->texts, name, (size_t)length);
}

struct baton_status shard_plan_assign(struct manifest *manifest, uint64_t shard_bytes_max)
{
    size_t *numbered = calloc(manifest->tensors_count + 1, sizeof(*numbered));
    if (numbered == NULL) {
        return no_memory();
    }
    size_t count = number_shards(manifest, shard_bytes_max, numbered);
    const char *name = NULL;
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        if (i == 0 || numbered[i] != numbered[i - 1]) {
            name = shard_name(manifest, numbered[i], count);
        }
        if (name == NULL) {
            free(numbered);
            return no_memory();
        }
        manifest->tensors[i].file = name;
    }
    free(numbered);
    return baton_status_ok();
}
