/* directory_source.c -- a checkpoint directory read through backend "file". */
#include "transport/landing/directory_source.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/model/file_io.h"

struct baton_status directory_source_open(const char *dir, enum checkpoint_kind kind,
                                          struct directory_source *out)
{
    struct directory_source source = { NULL, NULL };
    struct baton_status st = checkpoint_open(dir, kind, &source.checkpoint);
    if (!baton_ok(&st)) {
        return st;
    }
    json_t *config = json_pack("{s:s, s:b}", "directory", dir, "followLinks", 1);
    source.config = config == NULL ? NULL : json_dumps(config, JSON_COMPACT);
    json_decref(config);
    if (source.config == NULL) {
        directory_source_close(&source);
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "%.200s: the path is not UTF-8", dir);
    }
    *out = source;
    return st;
}

void directory_source_close(struct directory_source *source)
{
    checkpoint_close(source->checkpoint);
    free(source->config);
    *source = (struct directory_source){ NULL, NULL };
}

struct origin directory_source_origin(const struct directory_source *source, uint64_t timeout_ns)
{
    struct landing_source file = { "file", source->config, { NULL, 0 } };
    return (struct origin){ .source = file, .timeout_ns = timeout_ns };
}

void directory_source_place(const struct directory_source *source, struct job *job, size_t origin)
{
    const struct checkpoint *checkpoint = source->checkpoint;
    for (size_t i = 0; i < checkpoint->tensors_count; i++) {
        const struct checkpoint_tensor *from = &checkpoint->tensors[i];
        const struct manifest_tensor *tensor = manifest_find_tensor(job->manifest, from->name);
        if (tensor != NULL) {
            struct job_item *item = &job->items[tensor - job->manifest->tensors];
            item->origin = origin;
            item->place = (struct origin_place){ from->shard, from->offset, NULL };
        }
    }
    for (size_t i = 0; i < checkpoint->files_count; i++) {
        const struct manifest_file *file =
            manifest_find_file(job->manifest, checkpoint->files[i].name);
        if (file != NULL) {
            struct job_item *item =
                &job->items[job->manifest->tensors_count + (size_t)(file - job->manifest->files)];
            item->origin = origin;
            item->place = (struct origin_place){ file->name, 0, NULL };
        }
    }
}

struct baton_status directory_source_manifest(const char *dir, struct manifest **out)
{
    int dir_fd = -1;
    struct baton_bytes text = { NULL, 0 };
    struct baton_status st = file_open_directory(dir, &dir_fd);
    if (!baton_ok(&st)) {
        return st;
    }
    st = file_read_all(dir_fd, MANIFEST_FILE_NAME, MANIFEST_JSON_BYTES_MAX, MANIFEST_FILE_NAME,
                       &text);
    close(dir_fd);
    if (baton_ok(&st)) {
        st = manifest_decode_json(text, out);
        free((void *)(uintptr_t)text.data);
    }
    return baton_status_in(st, "%.150s", dir);
}
