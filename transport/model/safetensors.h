/* safetensors.h -- a strict, bounded reader of safetensors headers and shard indexes.
 *
 * Works on bytes that it is given; files are read by checkpoint.h.  A file is: u64le header length,
 * header (JSON), data.  Accepted is only what every reader understands alike: the tensors' ranges
 * tile the data without gap or overlap and end with the file, sizes follow from dtype and shape,
 * no name and no key is there twice, no key is unknown.  Header order is free.  Every message names
 * the file, the tensor and the field.
 *
 * Depends on: api/base, dtype.h, jansson (private).  Allocates: not for cores.  Threads: an object
 * belongs to one thread.  Ownership: results own their strings until destroy. */
#ifndef TRANSPORT_MODEL_SAFETENSORS_H
#define TRANSPORT_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"
#include "transport/model/dtype.h"
#include "transport/model/text_pool.h"

/* The length field in front of the header. */
enum { SAFETENSORS_PREFIX_BYTES = 8, SAFETENSORS_INDEX_BYTES_MAX = 256 << 20 };

struct safetensors_tensor {
    const char *name;
    enum tensor_dtype dtype;
    struct tensor_shape shape;
    uint64_t begin; /* From the first byte of the file. */
    uint64_t bytes;
};

struct safetensors {
    struct safetensors_tensor *tensors; /* In the order of their bytes. */
    size_t tensors_count;
    uint64_t data_begin; /* First byte after the header. */
    struct text_pool texts;
};

/* A row of an index: which shard holds a tensor. */
struct safetensors_place {
    const char *tensor;
    const char *shard; /* A plain file name that ends in ".safetensors". */
};

struct safetensors_index {
    struct safetensors_place *places; /* Sorted bytewise by tensor. */
    size_t places_count;
    const char **shards; /* Sorted bytewise, each once. */
    size_t shards_count;
    struct text_pool texts;
};

/* Reads the length field.  Fails if the header would be longer than the limit or than the file. */
BATON_MUST_USE struct baton_status safetensors_header_bytes(
    const char *file, const uint8_t prefix[SAFETENSORS_PREFIX_BYTES], uint64_t file_bytes,
    uint64_t *out);

/* Parses the header (without the length field) of a file of 'file_bytes' bytes. 'file' is for
 * messages. */
BATON_MUST_USE struct baton_status safetensors_parse(const char *file, struct baton_bytes header,
                                                     uint64_t file_bytes, struct safetensors **out);
void safetensors_destroy(struct safetensors *parsed);

/* Parses a model.safetensors.index.json. */
BATON_MUST_USE struct baton_status safetensors_index_parse(const char *file,
                                                           struct baton_bytes text,
                                                           struct safetensors_index **out);
void safetensors_index_destroy(struct safetensors_index *index);
/* The shard of this tensor, or null. */
const char *safetensors_index_find(const struct safetensors_index *index, const char *tensor);

#endif /* safetensors.h */
