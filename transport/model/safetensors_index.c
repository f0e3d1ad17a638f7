/* safetensors_index.c -- model.safetensors.index.json: which shard holds which tensor. */
#include <stdlib.h>
#include <string.h>

#include "transport/model/json_input.h"
#include "transport/model/safetensors.h"
#include "transport/model/version_digest.h"

enum { INDEX_DEPTH_MAX = 8 };

static struct baton_status bad_file(const char *file, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID, "%.120s: %s",
                             file, what);
}

static struct baton_status bad_tensor(const char *file, const char *tensor, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                             "%.80s: weight_map: tensor '%.100s': %s", file, tensor, what);
}

static struct baton_status no_memory(const char *file)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "%.120s: out of memory",
                             file);
}

static bool ends_in(const char *text, const char *end)
{
    size_t text_length = strlen(text);
    size_t end_length = strlen(end);
    return text_length >= end_length && strcmp(text + text_length - end_length, end) == 0;
}

static int compare_places(const void *a, const void *b)
{
    const struct safetensors_place *left = a;
    const struct safetensors_place *right = b;
    return strcmp(left->tensor, right->tensor);
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct baton_status add_place(const char *file, const char *tensor, const json_t *value,
                                     struct safetensors_index *index)
{
    const char *shard = json_string_value(value);
    struct baton_status st = manifest_name_check(MANIFEST_KIND_TENSOR, baton_bytes_of(tensor));
    if (!baton_ok(&st)) {
        return bad_tensor(file, tensor, "name: empty, too long, or with a control character");
    }
    if (shard == NULL) {
        return bad_tensor(file, tensor, "the shard is not a string");
    }
    st = manifest_name_check(MANIFEST_KIND_FILE, baton_bytes_of(shard));
    if (!baton_ok(&st) || shard[0] == '.' || !ends_in(shard, ".safetensors")) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "%.80s: weight_map: tensor '%.80s': '%.80s' is not a plain name "
                                 "that ends in .safetensors",
                                 file, tensor, shard);
    }
    struct safetensors_place *place = &index->places[index->places_count];
    place->tensor = text_pool_copy(&index->texts, tensor, strlen(tensor));
    place->shard = text_pool_copy(&index->texts, shard, strlen(shard));
    if (place->tensor == NULL || place->shard == NULL) {
        return no_memory(file);
    }
    index->places_count++;
    return baton_status_ok();
}

static struct baton_status read_map(const char *file, json_t *map, struct safetensors_index *index)
{
    const char *tensor;
    json_t *value;
    size_t count = json_object_size(map);
    if (count > BATON_TENSORS_MAX) {
        return bad_file(file, "weight_map: more than 1048576 tensors (BATON_TENSORS_MAX)");
    }
    index->places = calloc(count + 1, sizeof(*index->places));
    index->shards = calloc(count + 1, sizeof(*index->shards));
    if (index->places == NULL || index->shards == NULL) {
        return no_memory(file);
    }
    json_object_foreach(map, tensor, value)
    {
        struct baton_status st = add_place(file, tensor, value, index);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

/* Sorts the rows, and makes the list of shards, each once. */
static struct baton_status sort_shards(const char *file, struct safetensors_index *index)
{
    size_t kept = 0;
    for (size_t i = 0; i < index->places_count; i++) {
        index->shards[i] = index->places[i].shard;
    }
    qsort(index->places, index->places_count, sizeof(*index->places), compare_places);
    qsort(index->shards, index->places_count, sizeof(*index->shards), compare_texts);
    for (size_t i = 0; i < index->places_count; i++) {
        if (kept == 0 || strcmp(index->shards[kept - 1], index->shards[i]) != 0) {
            index->shards[kept++] = index->shards[i];
        }
    }
    index->shards_count = kept;
    if (kept > BATON_SHARDS_MAX) {
        return bad_file(file, "weight_map: more than 4096 shards (BATON_SHARDS_MAX)");
    }
    return baton_status_ok();
}

static struct baton_status read_index(const char *file, json_t *top,
                                      struct safetensors_index *index)
{
    json_t *map = json_object_get(top, "weight_map");
    if (!json_is_object(top) || !json_is_object(map)) {
        return bad_file(file, "weight_map: missing or not a JSON object");
    }
    struct baton_status st = read_map(file, map, index);
    return baton_ok(&st) ? sort_shards(file, index) : st;
}

struct baton_status safetensors_index_parse(const char *file, struct baton_bytes text,
                                            struct safetensors_index **out)
{
    json_t *top = NULL;
    if (text.size > SAFETENSORS_INDEX_BYTES_MAX) {
        return bad_file(file, "longer than 256 MiB");
    }
    struct baton_status st = json_input_parse(text, INDEX_DEPTH_MAX, &top);
    if (!baton_ok(&st)) {
        st.reason = BATON_REASON_CHECKPOINT_INVALID;
        return baton_status_in(st, "%.120s", file);
    }
    struct safetensors_index *index = calloc(1, sizeof(*index));
    st = index == NULL ? no_memory(file) : read_index(file, top, index);
    json_decref(top);
    if (!baton_ok(&st)) {
        safetensors_index_destroy(index);
        return st;
    }
    *out = index;
    return baton_status_ok();
}

void safetensors_index_destroy(struct safetensors_index *index)
{
    if (index != NULL) {
        text_pool_deinit(&index->texts);
        free(index->places);
        free(index->shards);
        free(index);
    }
}

const char *safetensors_index_find(const struct safetensors_index *index, const char *tensor)
{
    struct safetensors_place key = { tensor, NULL };
    if (index->places_count == 0) {
        return NULL;
    }
    const struct safetensors_place *place =
        bsearch(&key, index->places, index->places_count, sizeof(key), compare_places);
    return place == NULL ? NULL : place->shard;
}
