/* version.c -- index, shards and headers of a version brought together. */
#include "transport/delta/version.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/model/checkpoint.h"
#include "transport/model/file_io.h"

enum { DIGESTS_BYTES_MAX = 64 << 10 };

static struct baton_status no_memory(const char *dir)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "%.200s: out of memory",
                             dir);
}

static struct baton_status bad_tensor(const char *file, const char *tensor, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                             "%.60s: tensor '%.100s': %s", file, tensor, what);
}

/* Reads a whole file of the directory itself; foreign directories may hold links. */
static struct baton_status read_file(const struct delta_version *version, const char *name,
                                     size_t limit, struct baton_bytes *out)
{
    struct file_opened file;
    struct baton_status st = file_open_read(version->dir_fd, name, false, name, &file);
    if (!baton_ok(&st)) {
        return st;
    }
    if (file.bytes > limit) {
        close(file.fd);
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.100s: %llu bytes, above the limit of %zu", name,
                                 (unsigned long long)file.bytes, limit);
    }
    uint8_t *data = malloc(file.bytes + 1);
    st = data == NULL ? no_memory(name) : file_read_at(file.fd, data, file.bytes, 0, name);
    close(file.fd);
    if (!baton_ok(&st)) {
        free(data);
        return st;
    }
    *out = (struct baton_bytes){ data, file.bytes };
    return st;
}

static void free_bytes(struct baton_bytes bytes)
{
    free((void *)(uintptr_t)bytes.data);
}

static struct baton_status read_header(const struct delta_version *version, const char *shard,
                                       struct baton_bytes *header, struct safetensors **out)
{
    struct file_opened file;
    uint8_t prefix[SAFETENSORS_PREFIX_BYTES] = { 0 };
    uint64_t size = 0;
    struct baton_status st = file_open_read(version->dir_fd, shard, false, shard, &file);
    if (!baton_ok(&st)) {
        return st;
    }
    size_t there = file.bytes < sizeof(prefix) ? (size_t)file.bytes : sizeof(prefix);
    st = file_read_at(file.fd, prefix, there, 0, shard);
    if (baton_ok(&st)) {
        st = safetensors_header_bytes(shard, prefix, file.bytes, &size);
    }
    uint8_t *data = baton_ok(&st) ? malloc(size + 1) : NULL;
    if (baton_ok(&st)) {
        st = data == NULL ? no_memory(shard)
                          : file_read_at(file.fd, data, size, sizeof(prefix), shard);
    }
    if (baton_ok(&st)) {
        st = safetensors_parse(shard, (struct baton_bytes){ data, size }, file.bytes, out);
    }
    close(file.fd);
    if (!baton_ok(&st)) {
        free(data);
        return st;
    }
    *header = (struct baton_bytes){ data, size };
    return st;
}

static struct baton_status take_tensor(struct delta_version *version, const char *shard,
                                       const struct safetensors_tensor *from,
                                       struct delta_tensor **out)
{
    /* Names come from the map: a tensor that it lacks has no place. */
    struct delta_tensor *tensor = (struct delta_tensor *)delta_version_find(version, from->name);
    if (tensor == NULL) {
        return bad_tensor(shard, from->name, "not in the index's weight_map");
    }
    if (tensor->frame_bytes != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "tensor '%.100s' is in two shards, one of them %.60s", from->name,
                                 shard);
    }
    if (strcmp(tensor->shard, shard) != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                 "%.60s: tensor '%.100s': the index says that it is in %.60s",
                                 shard, from->name, tensor->shard);
    }
    if (from->dtype != TENSOR_DTYPE_U8 || from->shape.rank != 1 || from->bytes == 0) {
        return bad_tensor(shard, from->name, "a delta's tensor is a U8 vector that is not empty");
    }
    tensor->offset = from->begin;
    tensor->frame_bytes = from->bytes;
    *out = tensor;
    return baton_status_ok();
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(struct delta_tensor *const *)a)->name,
                  (*(struct delta_tensor *const *)b)->name);
}

static struct baton_status take_shard(struct delta_version *version, const char *shard,
                                      const struct safetensors *parsed, struct baton_bytes header)
{
    struct delta_tensor **list = calloc(parsed->tensors_count + 1, sizeof(struct delta_tensor *));
    struct baton_status st = list == NULL ? no_memory(shard) : baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < parsed->tensors_count; i++) {
        st = take_tensor(version, shard, &parsed->tensors[i], &list[i]);
    }
    if (baton_ok(&st)) {
        qsort(list, parsed->tensors_count, sizeof(struct delta_tensor *), compare_names);
        st = delta_header_checksums(shard, header, version->index.checksum, list,
                                    parsed->tensors_count);
    }
    free(list);
    return st;
}

static struct baton_status read_shard(struct delta_version *version, const char *shard)
{
    struct safetensors *parsed = NULL;
    struct baton_bytes header = { NULL, 0 };
    struct baton_status st = read_header(version, shard, &header, &parsed);
    if (baton_ok(&st)) {
        st = take_shard(version, shard, parsed, header);
    }
    free_bytes(header);
    safetensors_destroy(parsed);
    return st;
}

static bool map_has_shard(const struct safetensors_index *map, const char *name)
{
    for (size_t i = 0; i < map->shards_count; i++) {
        if (strcmp(map->shards[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Other readers apply, or ignore, a shard that the index does not name; both are wrong for us. */
static struct baton_status check_strays(const struct delta_version *version)
{
    static const char ending[] = ".safetensors";
    int own_fd = openat(version->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = own_fd < 0 ? NULL : fdopendir(own_fd);
    struct baton_status st = baton_status_ok();
    const struct dirent *entry;
    if (dir == NULL) {
        st = baton_status_errno(errno, "list directory", version->dir);
        if (own_fd >= 0) {
            close(own_fd);
        }
        return st;
    }
    while (baton_ok(&st) && (entry = readdir(dir)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length >= sizeof(ending) - 1 &&
            strcmp(entry->d_name + length - (sizeof(ending) - 1), ending) == 0 &&
            !map_has_shard(version->map, entry->d_name)) {
            st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                                   "%.100s: a shard that the index does not name", entry->d_name);
        }
    }
    closedir(dir);
    return st;
}

/* Makes room for the tensors of the map, which is sorted by name. */
static struct baton_status list_tensors(struct delta_version *version)
{
    const struct safetensors_index *map = version->map;
    version->tensors = calloc(map->places_count + 1, sizeof(*version->tensors));
    if (version->tensors == NULL) {
        return no_memory(CHECKPOINT_INDEX_NAME);
    }
    for (size_t i = 0; i < map->places_count; i++) {
        version->tensors[i].name = map->places[i].tensor;
        version->tensors[i].shard = map->places[i].shard;
    }
    version->tensors_count = map->places_count;
    return baton_status_ok();
}

static struct baton_status check_numbers(const struct delta_version *version)
{
    const struct delta_index *index = &version->index;
    if (index->version != version->number) {
        return baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
            CHECKPOINT_INDEX_NAME ": metadata: version: %llu in the directory of version %llu",
            (unsigned long long)index->version, (unsigned long long)version->number);
    }
    if (index->base_version + 1 != index->version) {
        return baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
            CHECKPOINT_INDEX_NAME ": metadata: base_version: %llu is not the version before %llu",
            (unsigned long long)index->base_version, (unsigned long long)index->version);
    }
    return baton_status_ok();
}

static struct baton_status read_delta(struct delta_version *version)
{
    struct baton_status st = check_numbers(version);
    if (baton_ok(&st)) {
        st = list_tensors(version);
    }
    if (baton_ok(&st)) {
        st = check_strays(version);
    }
    for (size_t i = 0; baton_ok(&st) && i < version->map->shards_count; i++) {
        st = read_shard(version, version->map->shards[i]);
    }
    for (size_t i = 0; baton_ok(&st) && i < version->tensors_count; i++) {
        const struct delta_tensor *tensor = &version->tensors[i];
        if (tensor->frame_bytes == 0) {
            st = bad_tensor(tensor->shard, tensor->name, "missing; the index says that it is here");
        }
    }
    return st;
}

static struct baton_status read_digests(struct delta_version *version)
{
    struct baton_bytes text;
    if (faccessat(version->dir_fd, DELTA_DIGESTS_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        return baton_status_ok();
    }
    struct baton_status st = read_file(version, DELTA_DIGESTS_NAME, DIGESTS_BYTES_MAX, &text);
    if (baton_ok(&st)) {
        st = delta_digests_parse(DELTA_DIGESTS_NAME, text, &version->digests);
        version->has_digests = baton_ok(&st);
        free_bytes(text);
    }
    return st;
}

static struct baton_status read_version(struct delta_version *version)
{
    struct baton_bytes text;
    if (faccessat(version->dir_fd, CHECKPOINT_INDEX_NAME, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        return baton_status_ok(); /* Full, or nothing: checkpoint_open() says which. */
    }
    struct baton_status st =
        read_file(version, CHECKPOINT_INDEX_NAME, SAFETENSORS_INDEX_BYTES_MAX, &text);
    if (!baton_ok(&st)) {
        return st;
    }
    st = delta_index_parse(CHECKPOINT_INDEX_NAME, text, &version->index);
    if (baton_ok(&st) && version->index.is_delta) {
        st = safetensors_index_parse(CHECKPOINT_INDEX_NAME, text, &version->map);
    }
    free_bytes(text);
    if (baton_ok(&st) && version->index.is_delta) {
        st = read_delta(version);
    }
    return baton_ok(&st) && version->index.is_delta ? read_digests(version) : st;
}

static struct baton_status open_directory(struct delta_version *version, const char *publication,
                                          uint64_t number)
{
    char name[DELTA_NAME_BYTES];
    char path[BATON_PATH_BYTES + DELTA_NAME_BYTES];
    delta_version_name(number, name);
    int length = snprintf(path, sizeof(path), "%s/%s", publication, name);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.200s: the path is too long", publication);
    }
    version->number = number;
    version->dir = text_pool_copy(&version->texts, path, (size_t)length);
    if (version->dir == NULL) {
        return no_memory(path);
    }
    return file_open_directory_itself(path, &version->dir_fd);
}

struct baton_status delta_version_open(const char *publication, uint64_t number,
                                       struct delta_version **out)
{
    struct delta_version *version = calloc(1, sizeof(*version));
    if (version == NULL) {
        return no_memory(publication);
    }
    version->dir_fd = -1;
    struct baton_status st = open_directory(version, publication, number);
    if (baton_ok(&st)) {
        st = baton_status_in(read_version(version), "%.120s", version->dir);
        /* The directory is there: a file that it lacks makes it broken, not absent. */
        if (st.code == BATON_NOT_FOUND) {
            st.code = BATON_INVALID_ARGUMENT;
            st.reason = BATON_REASON_CHECKPOINT_INVALID;
        }
    }
    if (!baton_ok(&st)) {
        delta_version_close(version);
        return st;
    }
    *out = version;
    return st;
}

void delta_version_close(struct delta_version *version)
{
    if (version != NULL) {
        if (version->dir_fd >= 0) {
            close(version->dir_fd);
        }
        safetensors_index_destroy(version->map);
        text_pool_deinit(&version->texts);
        free(version->tensors);
        free(version);
    }
}

static int compare_to_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const struct delta_tensor *)tensor)->name);
}

const struct delta_tensor *delta_version_find(const struct delta_version *version, const char *name)
{
    return version->tensors_count == 0 ? NULL
                                       : bsearch(name, version->tensors, version->tensors_count,
                                                 sizeof(*version->tensors), compare_to_name);
}
