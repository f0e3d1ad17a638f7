/* etcd_batch.c -- see etcd_batch.h. */
#include "controller/store/etcd_batch.h"

#include <stdlib.h>
#include <string.h>

struct etcd_batch etcd_batch_of(uint32_t ops_max, size_t bytes_max)
{
    struct etcd_batch batch = { .ops_max = ops_max, .bytes_max = bytes_max };
    batch.status = baton_status_ok();
    batch.keys = calloc(ops_max, sizeof(uint64_t));
    if (batch.keys == NULL) {
        batch.status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                         "store: out of memory");
    }
    return batch;
}

void etcd_batch_free(struct etcd_batch *batch)
{
    for (size_t i = 0; i < batch->parts_count; i++) {
        etcd_text_free(&batch->parts[i]);
    }
    free(batch->parts);
    free(batch->keys);
    *batch = (struct etcd_batch){ 0 };
}

void etcd_op_put(struct etcd_text *text, const char *key, const char *value)
{
    etcd_text_add(text, "{\"request_put\":{\"key\":");
    etcd_text_base64(text, key, strlen(key));
    etcd_text_add(text, ",\"value\":");
    etcd_text_base64(text, value, strlen(value));
    etcd_text_add(text, "}}");
}

void etcd_op_remove(struct etcd_text *text, const char *key, const char *end)
{
    etcd_text_add(text, "{\"request_delete_range\":{\"key\":");
    etcd_text_base64(text, key, strlen(key));
    if (end != NULL) {
        etcd_text_add(text, ",\"range_end\":");
        etcd_text_base64(text, end, strlen(end));
    }
    etcd_text_add(text, "}}");
}

/* FNV-1a.  Two keys of one hash only begin a part that need not be. */
static uint64_t hash_of(const char *key)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *at = key; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    }
    return hash;
}

static bool has_key(const struct etcd_batch *batch, uint64_t hash)
{
    for (uint32_t i = 0; i < batch->keys_count; i++) {
        if (batch->keys[i] == hash) {
            return true;
        }
    }
    return false;
}

static bool begin_part(struct etcd_batch *batch)
{
    struct etcd_text *parts =
        realloc(batch->parts, (batch->parts_count + 1) * sizeof(struct etcd_text));
    if (parts == NULL) {
        return false;
    }
    batch->parts = parts;
    batch->parts[batch->parts_count++] = (struct etcd_text){ 0 };
    batch->keys_count = 0;
    return true;
}

/* Adds an operation; takes over its text. */
static void add(struct etcd_batch *batch, const char *key, struct etcd_text *op)
{
    uint64_t hash = hash_of(key);
    const struct etcd_text *last =
        batch->parts_count == 0 ? NULL : &batch->parts[batch->parts_count - 1];
    bool fits = last != NULL && last->size + 1 + op->size <= batch->bytes_max &&
                batch->keys_count < batch->ops_max && !has_key(batch, hash);
    if (op->size > batch->bytes_max) {
        batch->status = baton_status_hint(
            baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                              "store: %s takes %zu bytes in a request of at most %zu", key,
                              op->size, batch->bytes_max),
            "raise maxRequestBytes of the store's address, and etcd's --max-request-bytes");
    } else if (op->failed || (!fits && !begin_part(batch))) {
        batch->status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                          "store: out of memory");
    } else {
        struct etcd_text *part = &batch->parts[batch->parts_count - 1];
        etcd_text_add(part, part->size == 0 ? "" : ",");
        etcd_text_bytes(part, op->data, op->size);
        batch->keys[batch->keys_count++] = hash;
    }
    etcd_text_free(op);
}

void etcd_batch_put(struct etcd_batch *batch, const char *key, const char *value)
{
    struct etcd_text op = { 0 };
    if (baton_ok(&batch->status)) {
        etcd_op_put(&op, key, value);
        add(batch, key, &op);
    }
}

void etcd_batch_remove(struct etcd_batch *batch, const char *key, const char *end)
{
    struct etcd_text op = { 0 };
    if (baton_ok(&batch->status)) {
        etcd_op_remove(&op, key, end);
        add(batch, key, &op);
    }
}
