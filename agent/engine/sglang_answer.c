#include "agent/engine/sglang_answer.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { SUM_DIGITS = 16, SIZE_MAX_KNOWN = 65536 };

static struct baton_status malformed(const char *what, const char *field)
{
    return baton_status_make(BATON_ABORTED, BATON_REASON_MALFORMED, "the engine's answer: %s: %s",
                             field, what);
}

/* An object, or null. */
static json_t *parse(struct baton_bytes body)
{
    json_t *root = json_loadb((const char *)body.data, body.size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) {
        json_decref(root);
        return NULL;
    }
    return root;
}

static bool text_of(const json_t *object, const char *key, char *out, size_t out_bytes)
{
    const json_t *value = json_object_get(object, key);
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value) &&
           baton_text_copy(out, out_bytes, json_string_value(value));
}

static bool size_of(const json_t *object, const char *key, uint32_t *out)
{
    const json_t *value = json_object_get(object, key);
    json_int_t found = json_integer_value(value);
    *out = json_is_integer(value) && found > 0 && found <= SIZE_MAX_KNOWN ? (uint32_t)found : 0;
    return *out != 0;
}

static bool is_set(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value != NULL && !json_is_null(value) && !json_is_false(value);
}

static struct baton_status sizes_fill(const json_t *root, struct sglang_server *out)
{
    const struct {
        const char *key;
        uint32_t *size;
    } rows[] = { { "tp_size", &out->tp },
                 { "dp_size", &out->dp },
                 { "pp_size", &out->pp },
                 { "nnodes", &out->nodes },
                 { "tokenizer_worker_num", &out->frontends } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!size_of(root, rows[i].key, rows[i].size)) {
            return malformed("must be a number above 0", rows[i].key);
        }
    }
    return baton_status_ok();
}

/* No two starts take equally long to the nanosecond; the seed is drawn anew unless it was given. */
static struct baton_status incarnation_fill(const json_t *root, struct sglang_server *out)
{
    const json_t *took = json_object_get(json_object_get(root, "startup_time"), "tokenizer_e2e");
    const json_t *seed = json_object_get(root, "random_seed");
    if (!json_is_number(took) || json_number_value(took) <= 0 ||
        json_number_value(took) > SIZE_MAX_KNOWN) {
        return malformed("must be a number of seconds", "startup_time.tokenizer_e2e");
    }
    int length = snprintf(out->incarnation, sizeof out->incarnation, "%u-%.9f",
                          (unsigned)json_integer_value(seed), json_number_value(took));
    return length > 0 && (size_t)length < sizeof out->incarnation
               ? baton_status_ok()
               : malformed("is too long", "startup_time.tokenizer_e2e");
}

static struct baton_status server_fill(const json_t *root, struct sglang_server *out)
{
    char word[BATON_NAME_BYTES] = "";
    if (!text_of(root, "version", out->software, sizeof out->software)) {
        return malformed("must be a text that is not too long", "version");
    }
    if (!text_of(root, "device", word, sizeof word)) {
        return malformed("must be a text that is not too long", "device");
    }
    out->cpu = strcmp(word, "cpu") == 0;
    out->quantized = is_set(root, "quantization");
    out->draft = is_set(root, "speculative_algorithm");
    out->disaggregated =
        text_of(root, "disaggregation_mode", word, sizeof word) && strcmp(word, "null") != 0;
    out->external_kv = is_set(root, "hicache_storage_backend");
    out->memory_saver = is_set(root, "enable_memory_saver");
    struct baton_status st = sizes_fill(root, out);
    return baton_ok(&st) ? incarnation_fill(root, out) : st;
}

struct baton_status sglang_answer_server(struct baton_bytes body, struct sglang_server *out)
{
    json_t *root = parse(body);
    struct sglang_server server = { .cpu = false };
    if (root == NULL) {
        return malformed("is not a JSON object", "body");
    }
    struct baton_status st = server_fill(root, &server);
    json_decref(root);
    if (baton_ok(&st)) {
        *out = server;
    }
    return st;
}

bool sglang_answer_has_route(struct baton_bytes body, const char *path)
{
    json_t *root = parse(body);
    bool has = json_is_object(json_object_get(json_object_get(root, "paths"), path));
    json_decref(root);
    return has;
}

static bool is_sum(const json_t *value)
{
    const char *text = json_string_value(value);
    return text != NULL && json_string_length(value) == SUM_DIGITS &&
           strspn(text, "0123456789abcdef") == SUM_DIGITS;
}

static struct baton_status sums_walk(const json_t *root, sglang_sum_fn each, void *context)
{
    json_t *ranks = json_object_get(root, "ranks");
    json_t *sums = json_object_get(json_array_get(ranks, 0), "checksums");
    const char *name = NULL;
    json_t *value = NULL;
    if (!json_is_true(json_object_get(root, "success"))) {
        return malformed("must be true", "success");
    }
    if (json_array_size(ranks) != 1) {
        return malformed("must have one rank", "ranks");
    }
    if (json_object_size(sums) == 0) {
        return malformed("must have tensors", "ranks[0].checksums");
    }
    json_object_foreach(sums, name, value)
    {
        if (!is_sum(value)) {
            return malformed("must be texts of 16 hexadecimal digits", "ranks[0].checksums");
        }
        if (!each(context, name, json_string_value(value))) {
            break;
        }
    }
    return baton_status_ok();
}

struct baton_status sglang_answer_sums(struct baton_bytes body, sglang_sum_fn each, void *context)
{
    json_t *root = parse(body);
    if (root == NULL) {
        return malformed("is not a JSON object", "body");
    }
    struct baton_status st = sums_walk(root, each, context);
    json_decref(root);
    return st;
}

void sglang_answer_hide_paths(const char *text, char *out, size_t out_bytes)
{
    size_t used = 0;
    while (*text != '\0' && used + 2 < out_bytes) {
        size_t spaces = strspn(text, " ");
        size_t word = strcspn(text + spaces, " ");
        bool path = memchr(text + spaces, '/', word) != NULL;
        const char *shown = path ? "(path)" : text + spaces;
        size_t length = path ? sizeof "(path)" - 1 : word;
        if (spaces > 0) {
            out[used++] = ' ';
        }
        length = length < out_bytes - 1 - used ? length : out_bytes - 1 - used;
        memcpy(out + used, shown, length);
        used += length;
        text += spaces + word;
    }
    out[used] = '\0';
}
