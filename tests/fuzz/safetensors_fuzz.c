/* safetensors_fuzz.c -- foreign headers and indexes: no crash, no leak, and what is taken is sound.
 *
 * First byte: 'f' the rest is a whole file, 'i' an index, else a header of a file whose data is as
 * long as the next two bytes say. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/model/safetensors.h"

/* What every accepted header must satisfy: the tensors tile the data. */
static void check(const struct safetensors *parsed, uint64_t file_bytes)
{
    uint64_t end = parsed->data_begin;
    for (size_t i = 0; i < parsed->tensors_count; i++) {
        const struct safetensors_tensor *tensor = &parsed->tensors[i];
        uint64_t bytes = 0;
        if (tensor->begin != end || tensor->name[0] == '\0' ||
            !tensor_shape_bytes(&tensor->shape, tensor->dtype, &bytes) || bytes != tensor->bytes) {
            abort();
        }
        end += tensor->bytes;
    }
    if (end != file_bytes) {
        abort();
    }
}

static void parse(struct baton_bytes header, uint64_t file_bytes)
{
    struct safetensors *parsed = NULL;
    struct baton_status st = safetensors_parse("fuzz", header, file_bytes, &parsed);
    if (baton_ok(&st)) {
        check(parsed, file_bytes);
        safetensors_destroy(parsed);
    } else if (st.message[0] == '\0') {
        abort();
    }
}

static void parse_file(struct baton_bytes file)
{
    uint8_t prefix[SAFETENSORS_PREFIX_BYTES] = { 0 };
    uint64_t header_bytes = 0;
    memcpy(prefix, file.data, file.size < sizeof(prefix) ? file.size : sizeof(prefix));
    struct baton_status st = safetensors_header_bytes("fuzz", prefix, file.size, &header_bytes);
    if (baton_ok(&st)) {
        parse((struct baton_bytes){ file.data + sizeof(prefix), header_bytes }, file.size);
    }
}

static void parse_index(struct baton_bytes text)
{
    struct safetensors_index *index = NULL;
    struct baton_status st = safetensors_index_parse("fuzz", text, &index);
    if (!baton_ok(&st)) {
        return;
    }
    for (size_t i = 0; i < index->places_count; i++) {
        const char *shard = safetensors_index_find(index, index->places[i].tensor);
        if (shard == NULL || strchr(shard, '/') != NULL) {
            abort();
        }
    }
    safetensors_index_destroy(index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) {
        return 0;
    }
    struct baton_bytes rest = { data + 1, size - 1 };
    if (data[0] == 'f') {
        parse_file(rest);
    } else if (data[0] == 'i') {
        parse_index(rest);
    } else {
        uint64_t data_bytes = (uint64_t)data[1] | (uint64_t)data[2] << 8;
        parse((struct baton_bytes){ data + 3, size - 3 }, 8 + size - 3 + data_bytes);
    }
    return 0;
}
