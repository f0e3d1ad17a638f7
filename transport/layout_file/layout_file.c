/* layout_file.c -- see layout_file.h. */
#include "transport/layout_file/layout_file.h"

#include <errno.h>
#include <sys/stat.h>

#include "transport/layout_file/schema.h"
#include "transport/model/checkpoint.h"

/* From the parsed file, which is freed. */
static struct baton_status take(const char *name, void *loaded, struct baton_arena *arena,
                                struct layout_file *out)
{
    const struct file_layout *file = loaded;
    struct layout_file made = { .ranks_per_link =
                                    file->ranks_per_link > 0 ? file->ranks_per_link : 1 };
    struct baton_status st = layout_file_convert(file, arena, &made.layout);
    baton_config_free(&layout_file_schema, loaded);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "%s", name);
    }
    *out = made;
    return st;
}

struct baton_status layout_file_parse(const char *name, const char *text, struct baton_arena *arena,
                                      struct layout_file *out)
{
    void *loaded = NULL;
    struct baton_status st = baton_config_parse(name, text, &layout_file_schema, &loaded);
    return baton_ok(&st) ? take(name, loaded, arena, out) : st;
}

/* Each tensor of a checkpoint whole, on rank 0. */
static struct baton_status read_checkpoint(const char *path, struct baton_arena *arena,
                                           struct layout_file *out)
{
    struct checkpoint *checkpoint;
    struct baton_status st = checkpoint_open(path, CHECKPOINT_PARTIAL, &checkpoint);
    if (!baton_ok(&st)) {
        return st;
    }
    struct layout_tensor_options *tensors =
        baton_arena_take(arena, checkpoint->tensors_count, sizeof(*tensors));
    struct layout_file made = { .ranks_per_link = 1 };
    if (tensors == NULL) {
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                               "%s: too many tensors for %zu bytes", path, arena->capacity);
    } else {
        for (size_t i = 0; i < checkpoint->tensors_count; i++) {
            tensors[i] = (struct layout_tensor_options){ .name = checkpoint->tensors[i].name,
                                                         .dtype = checkpoint->tensors[i].dtype,
                                                         .shape = checkpoint->tensors[i].shape };
        }
        const struct layout_spec spec = { .name = "checkpoint",
                                          .tensors = tensors,
                                          .tensors_count = checkpoint->tensors_count };
        st = layout_expand(&spec, arena, &made.layout);
    }
    checkpoint_close(checkpoint);
    if (baton_ok(&st)) {
        *out = made;
    }
    return st;
}

struct baton_status layout_file_read(const char *path, struct baton_arena *arena,
                                     struct layout_file *out)
{
    struct stat info;
    void *loaded = NULL;
    if (stat(path, &info) != 0) {
        return baton_status_errno(errno, "open", path);
    }
    if (S_ISDIR(info.st_mode)) {
        return read_checkpoint(path, arena, out);
    }
    struct baton_status st = baton_config_load(path, &layout_file_schema, &loaded);
    return baton_ok(&st) ? take(path, loaded, arena, out) : st;
}
