/* checkpoint.h -- a Hugging Face checkpoint directory, read strictly: which tensors are where.
 *
 * Reads headers only; no tensor byte.  Accepted: one model.safetensors, or
 * model.safetensors.index.json with all of its shards.  Refused: a missing shard, a *.safetensors
 * that the index does not name, a tensor in another shard than the index says or in two, and all
 * that safetensors.h refuses.  Symbolic links are followed (the Hub's cache consists of them), except
 * in a CHECKPOINT_FOREIGN; what they lead to must be regular files.
 *
 * Files that belong to the version besides tensors (config, tokenizer, code): every regular file
 * of the directory itself that is not hidden and is not a weight file (.safetensors .bin .pt .pth
 * .ckpt .gguf .h5 .msgpack .onnx), the index, a text for people (.md), or ours ("baton." in
 * front).
 *
 * Depends on: safetensors.h, manifest.h, file_io.h.  Does I/O: not for cores.  Threads: an object
 * belongs to one thread.  Ownership: a checkpoint owns its strings until checkpoint_close(). */
#ifndef TRANSPORT_MODEL_CHECKPOINT_H
#define TRANSPORT_MODEL_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/status.h"
#include "transport/model/manifest.h"
#include "transport/model/text_pool.h"

#define CHECKPOINT_INDEX_NAME "model.safetensors.index.json"

enum { CHECKPOINT_FILES_MAX = 1024, CHECKPOINT_FILE_BYTES_MAX = 1 << 30 };

struct checkpoint_tensor {
    const char *name;
    enum tensor_dtype dtype;
    struct tensor_shape shape;
    const char *shard; /* File name within the directory. */
    uint64_t offset;   /* Of the first byte, from the file's. */
    uint64_t bytes;
};

struct checkpoint_file {
    const char *name;
    uint64_t bytes;
};

struct checkpoint {
    const char *dir;
    bool follows_links;
    struct checkpoint_tensor *tensors; /* Sorted bytewise by name. */
    size_t tensors_count;
    struct checkpoint_file *files; /* Sorted bytewise by name; no safetensors, no index. */
    size_t files_count;
    struct checkpoint_file *shards; /* Sorted bytewise by name. */
    size_t shards_count;

    /* Private. */
    size_t tensors_capacity;
    struct text_pool texts;
};

enum checkpoint_kind {
    CHECKPOINT_WHOLE,   /* config.json must be there. */
    CHECKPOINT_PARTIAL, /* Some tensors of a model; files are optional. */
    CHECKPOINT_FOREIGN, /* As CHECKPOINT_PARTIAL; a symbolic link is refused, 'dir' itself too. */
    CHECKPOINT_FILES,   /* Only the files besides tensors; shards are not looked at. */
};

BATON_MUST_USE struct baton_status checkpoint_open(const char *dir, enum checkpoint_kind kind,
                                                   struct checkpoint **out);
void checkpoint_close(struct checkpoint *checkpoint);

/* Null if there is none. */
const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *checkpoint,
                                                const char *name);

/* A sorted manifest of what the directory holds; all digests are zero and it is not sealed. */
BATON_MUST_USE struct baton_status checkpoint_to_manifest(const struct checkpoint *checkpoint,
                                                          struct manifest **out);

#endif /* checkpoint.h */
