/* manifest_merge.c -- comparing two manifests, and making a whole of parent and partial. */
#include <string.h>

#include "transport/model/manifest.h"
#include "transport/model/references.h"

static struct baton_status differ(const char *name, const char *what)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                             "tensor '%.200s': %s", name, what);
}

static struct baton_status compare_tensor(const struct manifest_tensor *from,
                                          const struct manifest_tensor *to)
{
    if (from->dtype != to->dtype) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                 "tensor '%.200s': dtype is %s, not %s", to->name,
                                 tensor_dtype_name(to->dtype), tensor_dtype_name(from->dtype));
    }
    if (!tensor_shape_equal(&from->shape, &to->shape)) {
        char was[TENSOR_SHAPE_TEXT_BYTES];
        char is[TENSOR_SHAPE_TEXT_BYTES];
        tensor_shape_format(&from->shape, was);
        tensor_shape_format(&to->shape, is);
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                 "tensor '%.120s': shape is %.80s, not %.80s", to->name, is, was);
    }
    return baton_status_ok();
}

struct baton_status manifest_compare_layout(const struct manifest *from, const struct manifest *to)
{
    size_t i = 0;
    size_t k = 0;
    while (i < from->tensors_count || k < to->tensors_count) {
        if (i == from->tensors_count) {
            return differ(to->tensors[k].name, "is new; the served version has none of this name");
        }
        if (k == to->tensors_count) {
            return differ(from->tensors[i].name, "is missing; the served version has it");
        }
        int order = strcmp(from->tensors[i].name, to->tensors[k].name);
        if (order < 0) {
            return differ(from->tensors[i].name, "is missing; the served version has it");
        }
        if (order > 0) {
            return differ(to->tensors[k].name, "is new; the served version has none of this name");
        }
        struct baton_status st = compare_tensor(&from->tensors[i++], &to->tensors[k++]);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

/* Every tensor of 'partial' must replace one of 'parent' of the same kind. */
static struct baton_status check_partial(const struct manifest *parent,
                                         const struct manifest *partial)
{
    for (size_t i = 0; i < partial->tensors_count; i++) {
        const struct manifest_tensor *tensor = &partial->tensors[i];
        const struct manifest_tensor *old = manifest_find_tensor(parent, tensor->name);
        if (old == NULL) {
            return differ(tensor->name, "the parent has no tensor of this name to replace");
        }
        struct baton_status st = compare_tensor(old, tensor);
        if (!baton_ok(&st)) {
            return baton_status_in(st, "partial version");
        }
    }
    return baton_status_ok();
}

static struct baton_status add_tensors(const struct manifest *parent,
                                       const struct manifest *partial, struct manifest *whole)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < parent->tensors_count; i++) {
        struct manifest_tensor tensor = parent->tensors[i];
        const struct manifest_tensor *newer = manifest_find_tensor(partial, tensor.name);
        if (newer != NULL) {
            tensor.digest = newer->digest;
        }
        st = manifest_add_tensor(whole, &tensor);
    }
    return st;
}

static struct baton_status add_files(const struct manifest *parent, const struct manifest *partial,
                                     struct manifest *whole)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < partial->files_count; i++) {
        st = manifest_add_file(whole, &partial->files[i]);
    }
    for (size_t i = 0; baton_ok(&st) && i < parent->files_count; i++) {
        /* What the parent's weights should answer says nothing about these. */
        bool is_inherited = strcmp(parent->files[i].name, REFERENCES_FILE_NAME) != 0 &&
                            manifest_find_file(partial, parent->files[i].name) == NULL;
        if (is_inherited) {
            st = manifest_add_file(whole, &parent->files[i]);
        }
    }
    return st;
}

struct baton_status manifest_merge(const struct manifest *parent, const struct manifest *partial,
                                   struct manifest **out)
{
    struct baton_status st = check_partial(parent, partial);
    if (!baton_ok(&st)) {
        return st;
    }
    struct manifest *whole = manifest_create();
    if (whole == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "manifest: out of memory");
    }
    st = add_tensors(parent, partial, whole);
    if (baton_ok(&st)) {
        st = add_files(parent, partial, whole);
    }
    if (baton_ok(&st)) {
        st = manifest_seal(whole);
    }
    if (!baton_ok(&st)) {
        manifest_destroy(whole);
        return st;
    }
    *out = whole;
    return baton_status_ok();
}
