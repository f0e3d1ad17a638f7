/* config.c -- see config.h. */
#include "tests/miniengine/config.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* One number of the file that must be there, and the range in which it makes sense. */
struct field {
    const char *name;
    uint32_t *value;
    uint32_t max;
};

static bool read_fields(const json_t *root, const struct field *fields, size_t count,
                        struct trouble *why)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(root, fields[i].name);
        json_int_t number = json_integer_value(value);
        if (!json_is_integer(value) || number < 1 || number > (json_int_t)fields[i].max) {
            return trouble_set(why, "BAD_REQUEST", NULL,
                               "config.json: '%s' must be a whole number from 1 to %u",
                               fields[i].name, fields[i].max);
        }
        *fields[i].value = (uint32_t)number;
    }
    return true;
}

/* Newer checkpoints keep theta in rope_parameters, older ones at the top. */
static bool read_rope(const json_t *root, struct model_config *out, struct trouble *why)
{
    const json_t *group = json_object_get(root, "rope_parameters");
    const json_t *theta = json_object_get(json_is_object(group) ? group : root, "rope_theta");
    const json_t *kind = json_object_get(group, "rope_type");
    if (json_is_string(kind) && strcmp(json_string_value(kind), "default") != 0) {
        return trouble_set(why, "BAD_REQUEST", NULL, "config.json: rope_type '%s' is not computed",
                           json_string_value(kind));
    }
    const json_t *scaling = json_object_get(root, "rope_scaling");
    if (scaling != NULL && !json_is_null(scaling)) {
        return trouble_set(why, "BAD_REQUEST", NULL, "config.json: rope_scaling is not computed");
    }
    out->rope_theta = json_is_number(theta) ? (float)json_number_value(theta) : 10000.0F;
    return true;
}

static void add_eos(const json_t *value, struct model_config *out)
{
    for (uint32_t i = 0; i < out->eos_count; i++) {
        if (out->eos[i] == (uint32_t)json_integer_value(value)) {
            return;
        }
    }
    if (json_is_integer(value) && out->eos_count < CONFIG_EOS_MAX) {
        out->eos[out->eos_count++] = (uint32_t)json_integer_value(value);
    }
}

static void read_eos(const json_t *root, struct model_config *out)
{
    const json_t *eos = json_object_get(root, "eos_token_id");
    add_eos(eos, out);
    for (size_t i = 0; i < json_array_size(eos); i++) {
        add_eos(json_array_get(eos, i), out);
    }
}

static bool refuse_unknown(const json_t *root, struct trouble *why)
{
    const char *act = json_string_value(json_object_get(root, "hidden_act"));
    if (act != NULL && strcmp(act, "silu") != 0) {
        return trouble_set(why, "BAD_REQUEST", NULL, "config.json: hidden_act '%s' is not computed",
                           act);
    }
    if (json_is_true(json_object_get(root, "attention_bias")) ||
        json_is_true(json_object_get(root, "use_sliding_window"))) {
        return trouble_set(why, "BAD_REQUEST", NULL,
                           "config.json: attention_bias and use_sliding_window are not computed");
    }
    const char *type = json_string_value(json_object_get(root, "model_type"));
    if (type == NULL || strcmp(type, "qwen3") != 0) {
        return trouble_set(why, "BAD_REQUEST", NULL, "config.json: model_type must be qwen3");
    }
    return true;
}

static bool read_model(const json_t *root, struct model_config *out, struct trouble *why)
{
    const struct field fields[] = {
        { "hidden_size", &out->hidden, 1U << 16 },
        { "num_hidden_layers", &out->layers, CONFIG_LAYERS_MAX },
        { "num_attention_heads", &out->heads, 1U << 10 },
        { "num_key_value_heads", &out->kv_heads, 1U << 10 },
        { "head_dim", &out->head_dim, 1U << 10 },
        { "intermediate_size", &out->intermediate, 1U << 18 },
        { "vocab_size", &out->vocab, 1U << 18 },
        { "max_position_embeddings", &out->positions_max, 1U << 20 },
    };
    if (!refuse_unknown(root, why) || !read_rope(root, out, why) ||
        !read_fields(root, fields, sizeof fields / sizeof fields[0], why)) {
        return false;
    }
    if (out->heads % out->kv_heads != 0 || out->head_dim % 2 != 0) {
        return trouble_set(why, "BAD_REQUEST", NULL,
                           "config.json: num_key_value_heads must divide num_attention_heads and "
                           "head_dim must be even");
    }
    const json_t *epsilon = json_object_get(root, "rms_norm_eps");
    out->norm_epsilon = json_is_number(epsilon) ? (float)json_number_value(epsilon) : 1e-6F;
    out->tied = json_is_true(json_object_get(root, "tie_word_embeddings"));
    read_eos(root, out);
    return true;
}

bool config_load(const char *dir, struct model_config *out, struct trouble *why)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL) {
        return trouble_set(why, "LANDING_UNREADABLE", NULL, "%s: %s", path, error.text);
    }
    memset(out, 0, sizeof *out);
    bool ok = read_model(root, out, why);
    json_decref(root);
    (void)snprintf(path, sizeof path, "%s/generation_config.json", dir);
    root = ok ? json_load_file(path, 0, NULL) : NULL;
    if (root != NULL) {
        read_eos(root, out);
        json_decref(root);
    }
    return ok;
}
