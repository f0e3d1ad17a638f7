/* landing.c -- see landing.h.  Tensors are kept in memory once read: what was verified is what is
 * loaded, even if the directory goes away in between. */
#include "tests/miniengine/landing.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/model/checkpoint.h"
#include "transport/model/digest.h"
#include "transport/model/file_io.h"

struct landing {
    struct checkpoint *checkpoint;
    int dir_fd;
    uint8_t **tensors; /* By index in the checkpoint; null: not read yet. */
};

/* A failure of transport/model as one of ours. */
static bool failed(const struct baton_status *status, const char *code, const char *tensor,
                   struct trouble *why)
{
    bool damaged = status->reason == BATON_REASON_DIGEST_MISMATCH;
    return trouble_set(why, damaged ? "DIGEST_MISMATCH" : code, tensor, "%s", status->message);
}

bool landing_open(const char *dir, struct landing **out, struct trouble *why)
{
    struct landing *landing = calloc(1, sizeof *landing);
    if (landing == NULL) {
        return trouble_set(why, "INTERNAL", NULL, "out of memory");
    }
    landing->dir_fd = -1;
    struct baton_status status = checkpoint_open(dir, CHECKPOINT_WHOLE, &landing->checkpoint);
    if (baton_ok(&status)) {
        status = file_open_directory(dir, &landing->dir_fd);
    }
    if (!baton_ok(&status)) {
        landing_close(landing);
        return failed(&status, "LANDING_UNREADABLE", NULL, why);
    }
    landing->tensors = calloc(landing->checkpoint->tensors_count + 1, sizeof *landing->tensors);
    if (landing->tensors == NULL) {
        landing_close(landing);
        return trouble_set(why, "INTERNAL", NULL, "out of memory");
    }
    *out = landing;
    return true;
}

void landing_close(struct landing *landing)
{
    if (landing == NULL) {
        return;
    }
    for (size_t i = 0; landing->tensors != NULL && i < landing->checkpoint->tensors_count; i++) {
        free(landing->tensors[i]);
    }
    free(landing->tensors);
    if (landing->dir_fd >= 0) {
        close(landing->dir_fd);
    }
    checkpoint_close(landing->checkpoint);
    free(landing);
}

static bool read_tensor(struct landing *landing, size_t index, struct trouble *why)
{
    const struct checkpoint_tensor *tensor = &landing->checkpoint->tensors[index];
    uint8_t *data = malloc(tensor->bytes + 1);
    if (data == NULL) {
        return trouble_set(why, "INTERNAL", tensor->name, "out of memory");
    }
    struct file_opened file;
    struct baton_status status =
        file_open_read(landing->dir_fd, tensor->shard, true, tensor->shard, &file);
    if (baton_ok(&status)) {
        status = file_read_at(file.fd, data, tensor->bytes, tensor->offset, tensor->shard);
        close(file.fd);
    }
    if (!baton_ok(&status)) {
        free(data);
        return failed(&status, "LANDING_UNREADABLE", tensor->name, why);
    }
    landing->tensors[index] = data;
    return true;
}

static bool tensor_bytes(struct landing *landing, const struct checkpoint_tensor *tensor,
                         struct baton_bytes *out, struct trouble *why)
{
    size_t index = (size_t)(tensor - landing->checkpoint->tensors);
    if (landing->tensors[index] == NULL && !read_tensor(landing, index, why)) {
        return false;
    }
    *out = (struct baton_bytes){ .data = landing->tensors[index], .size = tensor->bytes };
    return true;
}

bool landing_source(struct landing *landing, const char *name, struct weights_source *out,
                    struct trouble *why)
{
    const struct checkpoint_tensor *tensor = checkpoint_find(landing->checkpoint, name);
    struct baton_bytes bytes;
    if (tensor == NULL) {
        return trouble_set(why, "MISSING_TENSOR", name, "the checkpoint has no such tensor");
    }
    if (!tensor_bytes(landing, tensor, &bytes, why)) {
        return false;
    }
    out->dtype = tensor_dtype_name(tensor->dtype);
    out->data = bytes.data;
    return true;
}

/* One entry of the manifest against the checkpoint's header and bytes. */
static bool verify_tensor(struct landing *landing, const struct manifest_tensor *entry,
                          struct trouble *why)
{
    const struct checkpoint_tensor *tensor = checkpoint_find(landing->checkpoint, entry->name);
    struct baton_bytes bytes;
    if (tensor == NULL) {
        return trouble_set(why, "MISSING_TENSOR", entry->name,
                           "the manifest lists it, the checkpoint lacks it");
    }
    if (tensor->dtype != entry->dtype) {
        return trouble_set(why, "DTYPE_MISMATCH", entry->name, "manifest %s, checkpoint %s",
                           tensor_dtype_name(entry->dtype), tensor_dtype_name(tensor->dtype));
    }
    if (!tensor_shape_equal(&tensor->shape, &entry->shape)) {
        return trouble_set(why, "SHAPE_MISMATCH", entry->name, "manifest and checkpoint differ");
    }
    if (!tensor_bytes(landing, tensor, &bytes, why)) {
        return false;
    }
    struct chunk_digester digester;
    chunk_digester_init(&digester);
    chunk_digester_add(&digester, bytes);
    return digest_equal(chunk_digester_finish(&digester), entry->digest) ||
           trouble_set(why, "DIGEST_MISMATCH", entry->name,
                       "the bytes are not those of the manifest; land the version again");
}

static bool verify_all(struct landing *landing, const struct manifest *manifest,
                       const char *version_digest, struct trouble *why)
{
    char text[BATON_DIGEST_TEXT_BYTES];
    digest_format(manifest->digest, text);
    if (strcmp(text, version_digest) != 0) {
        return trouble_set(why, "DIGEST_MISMATCH", NULL, "the landing holds version %s, not %s",
                           text, version_digest);
    }
    for (size_t i = 0; i < manifest->tensors_count; i++) {
        if (!verify_tensor(landing, &manifest->tensors[i], why)) {
            return false;
        }
    }
    for (size_t i = 0; i < landing->checkpoint->tensors_count; i++) {
        const char *name = landing->checkpoint->tensors[i].name;
        if (manifest_find_tensor(manifest, name) == NULL) {
            return trouble_set(why, "UNEXPECTED_TENSOR", name, "the manifest does not list it");
        }
    }
    return true;
}

bool landing_verify(struct landing *landing, const char *version_digest, struct trouble *why)
{
    struct baton_bytes text;
    struct manifest *manifest = NULL;
    struct baton_status status = file_read_all(landing->dir_fd, MANIFEST_FILE_NAME,
                                               MANIFEST_JSON_BYTES_MAX, MANIFEST_FILE_NAME, &text);
    if (!baton_ok(&status)) {
        return failed(&status, "LANDING_UNREADABLE", NULL, why);
    }
    status = manifest_decode_json(text, &manifest);
    free((void *)(uintptr_t)text.data);
    if (!baton_ok(&status)) {
        return failed(&status, "LANDING_UNREADABLE", NULL, why);
    }
    bool ok = verify_all(landing, manifest, version_digest, why);
    manifest_destroy(manifest);
    return ok;
}

static bool match_tensor(const struct landing *landing, const struct weights_tensor *wanted,
                         const char *dtype, struct trouble *why)
{
    const struct checkpoint_tensor *tensor = checkpoint_find(landing->checkpoint, wanted->name);
    if (tensor == NULL) {
        return trouble_set(why, "MISSING_TENSOR", wanted->name,
                           "the model needs it, the checkpoint lacks it");
    }
    const char *found = tensor_dtype_name(tensor->dtype);
    if (!weights_dtype_known(found) || (dtype != NULL && strcmp(dtype, found) != 0)) {
        return trouble_set(why, "DTYPE_MISMATCH", wanted->name, "the checkpoint has %s, not %s",
                           found, dtype != NULL ? dtype : "BF16, F16 or F32");
    }
    struct tensor_shape shape = { .rank = wanted->rank };
    memcpy(shape.dims, wanted->shape, wanted->rank * sizeof shape.dims[0]);
    if (!tensor_shape_equal(&shape, &tensor->shape)) {
        char has[TENSOR_SHAPE_TEXT_BYTES];
        char needs[TENSOR_SHAPE_TEXT_BYTES];
        tensor_shape_format(&tensor->shape, has);
        tensor_shape_format(&shape, needs);
        return trouble_set(why, "SHAPE_MISMATCH", wanted->name, "the checkpoint has %s, not %s",
                           has, needs);
    }
    return true;
}

bool landing_match(const struct landing *landing, const struct weights_layout *layout,
                   const char (*dtypes)[LANDING_DTYPE_MAX], struct trouble *why)
{
    for (uint32_t i = 0; i < layout->tensors_count; i++) {
        if (!match_tensor(landing, &layout->tensors[i], dtypes != NULL ? dtypes[i] : NULL, why)) {
            return false;
        }
    }
    for (size_t i = 0; i < landing->checkpoint->tensors_count; i++) {
        const char *name = landing->checkpoint->tensors[i].name;
        if (weights_find(layout, name) == NULL) {
            return trouble_set(why, "UNEXPECTED_TENSOR", name, "the model has no such tensor");
        }
    }
    return true;
}
