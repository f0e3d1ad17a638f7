/* config.h -- the shape of a Qwen3 dense model, read from a checkpoint's config.json.
 *
 * Only what the forward pass needs.  A checkpoint that asks for something that this engine does
 * not compute (sliding windows, biases, scaled rotary positions, another activation) is refused
 * by name, never computed wrongly.
 *
 * Depends on: jansson.  Threads: values only.  Ownership: none. */
#ifndef TESTS_MINIENGINE_CONFIG_H
#define TESTS_MINIENGINE_CONFIG_H

#include <stdint.h>

#include "tests/miniengine/trouble.h"

enum { CONFIG_EOS_MAX = 8, CONFIG_LAYERS_MAX = 256 };

struct model_config {
    uint32_t hidden;
    uint32_t layers;
    uint32_t heads;    /* Query heads. */
    uint32_t kv_heads; /* Key and value heads; divides 'heads'. */
    uint32_t head_dim;
    uint32_t intermediate;
    uint32_t vocab;
    uint32_t positions_max;
    float rope_theta;
    float norm_epsilon;
    bool tied; /* The output layer uses the embedding's rows. */
    uint32_t eos[CONFIG_EOS_MAX];
    uint32_t eos_count;
};

/* Reads DIR/config.json (and eos ids from DIR/generation_config.json if it is there). */
bool config_load(const char *dir, struct model_config *out, struct trouble *why);

#endif /* config.h */
