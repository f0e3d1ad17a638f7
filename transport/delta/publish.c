/* publish.c -- the pass over two checkpoints, and the files of the version. */
#include "transport/delta/publish.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/delta/chain.h"
#include "transport/delta/encoder.h"
#include "transport/delta/pool.h"
#include "transport/delta/staging.h"
#include "transport/delta/tensor_input.h"
#include "transport/model/file_io.h"

enum { SHARD_TENSORS_MAX = 100000, TEMPORARY_BYTES = 32 };

static const uint64_t default_shard_bytes = UINT64_C(1) << 30;

/* A checkpoint; its manifest gets the digests while it is read. */
struct side {
    int lock_fd; /* As delta_state_lock() gives it. */
    struct checkpoint *checkpoint;
    struct manifest *manifest;
};

/* What a thread reads of a side. */
struct reader {
    struct side *side;
    struct tensor_input input;
    struct chunk_digester digester;
    uint8_t piece[DELTA_PIECE_BYTES];
};

struct publisher;

/* What each thread has for itself. */
struct worker {
    struct publisher *publisher;
    struct delta_encoder *encoder;
    struct reader base;
    struct reader next;
};

struct publisher {
    const struct delta_publish_options *options;
    uint64_t shard_bytes_max;
    struct staging *staging;
    struct side base;
    struct side next;
    struct worker *workers[DELTA_THREADS_MAX];
    unsigned workers_count;
    char (*shard_names)[DELTA_NAME_BYTES];

    /* Frames are taken in the order of the names: each thread waits for its turn. */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    size_t turn;
    bool has_failed;
    struct delta_tensor *tensors; /* Changed ones. */
    size_t tensors_count;
    size_t shard_first; /* The first of them whose frame is in 'frames'. */
    uint8_t *frames;    /* Of the shard at hand. */
    size_t frames_bytes;
    size_t frames_capacity;
    struct delta_published result;
};

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
}

/* A checkpoint that says its version must say this one. */
static struct baton_status check_marker(const char *dir, uint64_t version)
{
    struct delta_state state;
    struct baton_status st = delta_state_read(dir, &state);
    if (!baton_ok(&st) || !state.has_version || state.version == version) {
        return st;
    }
    st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                           "%.200s: says that it is version %llu, not %llu", dir,
                           (unsigned long long)state.version, (unsigned long long)version);
    return baton_status_hint(st, "correct --version or the directory; if its " DELTA_STATE_DIR
                                 " came with a copy, remove that");
}

static struct baton_status open_side(const char *dir, uint64_t version, struct side *side)
{
    struct baton_status st = delta_state_lock(dir, &side->lock_fd);
    if (baton_ok(&st)) {
        st = check_marker(dir, version);
    }
    if (baton_ok(&st)) {
        st = checkpoint_open(dir, CHECKPOINT_PARTIAL, &side->checkpoint);
    }
    return baton_ok(&st) ? checkpoint_to_manifest(side->checkpoint, &side->manifest) : st;
}

static void close_side(struct side *side)
{
    manifest_destroy(side->manifest);
    checkpoint_close(side->checkpoint);
    if (side->lock_fd >= 0) {
        close(side->lock_fd);
    }
}

static struct baton_status open_reader(struct side *side, struct reader *reader)
{
    reader->side = side;
    return tensor_input_open(side->checkpoint, &reader->input);
}

static struct baton_status add_worker(struct publisher *publisher)
{
    struct worker *worker = aligned_alloc(_Alignof(struct worker), sizeof(struct worker));
    if (worker == NULL) {
        return no_memory();
    }
    memset(worker, 0, sizeof(*worker));
    publisher->workers[publisher->workers_count++] = worker;
    worker->publisher = publisher;
    worker->encoder = delta_encoder_create();
    if (worker->encoder == NULL) {
        return no_memory();
    }
    struct baton_status st = open_reader(&publisher->base, &worker->base);
    return baton_ok(&st) ? open_reader(&publisher->next, &worker->next) : st;
}

static void free_worker(struct worker *worker)
{
    tensor_input_close(&worker->base.input);
    tensor_input_close(&worker->next.input);
    delta_encoder_destroy(worker->encoder);
    free(worker);
}

static struct baton_status file_differs(const char *name, const char *how)
{
    struct baton_status st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                               "file '%.100s' %s", name, how);
    return baton_status_hint(st, "a delta carries tensors only: publish a full version");
}

/* Files besides the tensors are the same in both; digests them for the versions' digests. */
static struct baton_status compare_files(struct publisher *publisher)
{
    struct manifest *base = publisher->base.manifest;
    struct manifest *next = publisher->next.manifest;
    for (size_t i = 0; i < base->files_count || i < next->files_count; i++) {
        if (i >= base->files_count ||
            (i < next->files_count && strcmp(next->files[i].name, base->files[i].name) < 0)) {
            return file_differs(next->files[i].name, "is new");
        }
        if (i >= next->files_count || strcmp(next->files[i].name, base->files[i].name) != 0) {
            return file_differs(base->files[i].name, "is gone");
        }
        struct baton_status st = tensor_input_file(&publisher->workers[0]->base.input,
                                                   base->files[i].name, -1, &base->files[i].digest);
        if (baton_ok(&st)) {
            st = tensor_input_file(&publisher->workers[0]->next.input, next->files[i].name, -1,
                                   &next->files[i].digest);
        }
        if (!baton_ok(&st)) {
            return st;
        }
        if (!digest_equal(base->files[i].digest, next->files[i].digest)) {
            return file_differs(base->files[i].name, "differs");
        }
    }
    return baton_status_ok();
}

static struct baton_status read_piece(struct reader *reader, size_t tensor, uint64_t at,
                                      size_t size)
{
    const struct checkpoint_tensor *from = &reader->side->checkpoint->tensors[tensor];
    struct baton_status st =
        tensor_input_read(&reader->input, from->shard, from->offset + at, reader->piece, size);
    if (baton_ok(&st)) {
        chunk_digester_add(&reader->digester, (struct baton_bytes){ reader->piece, size });
    }
    return st;
}

static void keep_digest(struct reader *reader, size_t tensor)
{
    reader->side->manifest->tensors[tensor].digest = chunk_digester_finish(&reader->digester);
}

/* The tensors of both checkpoints are sorted by name, and the same. */
static struct baton_status encode_tensor(struct worker *worker, size_t tensor,
                                         struct delta_encoded *out)
{
    const struct delta_publish_options *options = worker->publisher->options;
    uint64_t bytes = worker->publisher->base.checkpoint->tensors[tensor].bytes;
    struct baton_status st =
        delta_encoder_begin(worker->encoder, options->encoding, options->checksum, bytes);
    chunk_digester_init(&worker->base.digester);
    chunk_digester_init(&worker->next.digester);
    for (uint64_t at = 0; baton_ok(&st) && at < bytes;) {
        size_t size = bytes - at < DELTA_PIECE_BYTES ? (size_t)(bytes - at) : DELTA_PIECE_BYTES;
        st = read_piece(&worker->base, tensor, at, size);
        if (baton_ok(&st)) {
            st = read_piece(&worker->next, tensor, at, size);
        }
        if (baton_ok(&st)) {
            st = delta_encoder_add(worker->encoder, worker->base.piece, worker->next.piece, size);
        }
        at += size;
    }
    if (!baton_ok(&st)) {
        return st;
    }
    keep_digest(&worker->base, tensor);
    keep_digest(&worker->next, tensor);
    return delta_encoder_finish(worker->encoder, out);
}

/* Shards get their final names once it is known how many there are. */
static void temporary_name(unsigned shard, char out[TEMPORARY_BYTES])
{
    (void)snprintf(out, TEMPORARY_BYTES, ".shard-%05u", shard);
}

static struct baton_status write_opened(struct publisher *publisher, int fd, const char *name)
{
    char *header = NULL;
    size_t header_bytes = 0;
    struct baton_status st = delta_header_make(publisher->tensors + publisher->shard_first,
                                               publisher->tensors_count - publisher->shard_first,
                                               &header, &header_bytes);
    if (baton_ok(&st)) {
        st = file_write_at(fd, (struct baton_bytes){ (const uint8_t *)header, header_bytes }, 0,
                           name);
        free(header);
    }
    if (baton_ok(&st)) {
        st = file_write_at(fd, (struct baton_bytes){ publisher->frames, publisher->frames_bytes },
                           header_bytes, name);
    }
    return st;
}

static struct baton_status end_shard(struct publisher *publisher)
{
    char name[TEMPORARY_BYTES];
    int fd = -1;
    if (publisher->shard_first == publisher->tensors_count) {
        return baton_status_ok();
    }
    if (publisher->result.shards_count == BATON_SHARDS_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "more than %d shards (BATON_SHARDS_MAX)", (int)BATON_SHARDS_MAX);
    }
    temporary_name(publisher->result.shards_count, name);
    struct baton_status st = staging_create(publisher->staging, name, &fd);
    if (!baton_ok(&st)) {
        return st;
    }
    st = write_opened(publisher, fd, name);
    if (!baton_ok(&st)) {
        close(fd);
        return st;
    }
    publisher->result.shards_count++;
    publisher->shard_first = publisher->tensors_count;
    publisher->frames_bytes = 0;
    return staging_end_file(fd, name);
}

static struct baton_status keep_frame(struct publisher *publisher, struct baton_bytes frame)
{
    size_t needed = publisher->frames_bytes + frame.size;
    if (needed > publisher->frames_capacity) {
        size_t wanted = needed + needed / 2;
        uint8_t *grown = realloc(publisher->frames, wanted);
        if (grown == NULL) {
            return no_memory();
        }
        publisher->frames = grown;
        publisher->frames_capacity = wanted;
    }
    memcpy(publisher->frames + publisher->frames_bytes, frame.data, frame.size);
    publisher->frames_bytes = needed;
    return baton_status_ok();
}

static struct baton_status add_tensor(struct publisher *publisher, const char *name,
                                      const struct delta_encoded *encoded)
{
    size_t in_shard = publisher->tensors_count - publisher->shard_first;
    struct baton_status st = baton_status_ok();
    if (in_shard > 0 &&
        (in_shard == SHARD_TENSORS_MAX ||
         publisher->frames_bytes + encoded->frame.size > publisher->shard_bytes_max)) {
        st = end_shard(publisher);
    }
    if (baton_ok(&st)) {
        st = keep_frame(publisher, encoded->frame);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct delta_tensor *tensor = &publisher->tensors[publisher->tensors_count++];
    *tensor =
        (struct delta_tensor){ .name = name,
                               .shard = publisher->shard_names[publisher->result.shards_count],
                               .frame_bytes = encoded->frame.size };
    memcpy(tensor->checksum, encoded->checksum, sizeof(tensor->checksum));
    publisher->result.delta_bytes += encoded->frame.size;
    publisher->result.changed_bytes += encoded->changed_bytes;
    return st;
}

/* Takes a tensor's frame once all before it are taken; after a failure none is. */
static struct baton_status take_in_turn(struct publisher *publisher, size_t item,
                                        const struct delta_encoded *encoded, struct baton_status st)
{
    const struct checkpoint_tensor *tensor = &publisher->base.checkpoint->tensors[item];
    pthread_mutex_lock(&publisher->lock);
    while (publisher->turn != item && !publisher->has_failed) {
        pthread_cond_wait(&publisher->moved, &publisher->lock);
    }
    if (!publisher->has_failed) {
        if (baton_ok(&st) && encoded->changed_bytes > 0) {
            st = add_tensor(publisher, tensor->name, encoded);
        }
        publisher->result.bytes += tensor->bytes;
        publisher->has_failed = !baton_ok(&st);
        publisher->turn++;
    }
    pthread_cond_broadcast(&publisher->moved);
    pthread_mutex_unlock(&publisher->lock);
    return baton_status_in(st, "tensor '%.100s'", tensor->name);
}

static struct baton_status encode_item(void *argument, size_t item)
{
    struct worker *worker = argument;
    struct delta_encoded encoded = { .changed_bytes = 0 };
    struct baton_status st = encode_tensor(worker, item, &encoded);
    return take_in_turn(worker->publisher, item, &encoded, st);
}

static struct baton_status encode_all(struct publisher *publisher)
{
    struct baton_status st =
        delta_pool_run((void *const *)publisher->workers, publisher->workers_count,
                       publisher->base.checkpoint->tensors_count, encode_item);
    publisher->result.tensors_count = publisher->base.checkpoint->tensors_count;
    publisher->result.changed_tensors = publisher->tensors_count;
    return baton_ok(&st) ? end_shard(publisher) : st;
}

static struct baton_status name_shards(struct publisher *publisher)
{
    unsigned count = publisher->result.shards_count;
    struct baton_status st = baton_status_ok();
    for (unsigned i = 0; baton_ok(&st) && i < count; i++) {
        char temporary[TEMPORARY_BYTES];
        temporary_name(i, temporary);
        delta_shard_name(i, count, publisher->shard_names[i]);
        st = staging_rename(publisher->staging, temporary, publisher->shard_names[i]);
    }
    return st;
}

static struct baton_status write_index(struct publisher *publisher)
{
    char *text = NULL;
    size_t size = 0;
    struct delta_index index = { true, publisher->options->version, publisher->options->version - 1,
                                 publisher->options->encoding, publisher->options->checksum };
    FILE *file = open_memstream(&text, &size);
    if (file == NULL) {
        return no_memory();
    }
    delta_index_write(file, &index, publisher->tensors, publisher->tensors_count);
    if (fclose(file) != 0) {
        free(text);
        return no_memory();
    }
    struct baton_status st = staging_write(publisher->staging, CHECKPOINT_INDEX_NAME,
                                           (struct baton_bytes){ (const uint8_t *)text, size });
    free(text);
    return st;
}

static struct baton_status write_digests(struct publisher *publisher)
{
    char text[256];
    FILE *file = fmemopen(text, sizeof(text), "w");
    if (file == NULL) {
        return no_memory();
    }
    delta_digests_write(file, &publisher->result.digests);
    (void)fclose(file);
    return staging_write(publisher->staging, DELTA_DIGESTS_NAME, baton_bytes_of(text));
}

static struct baton_status seal(struct publisher *publisher)
{
    struct baton_status st = manifest_seal(publisher->base.manifest);
    if (baton_ok(&st)) {
        st = manifest_seal(publisher->next.manifest);
    }
    publisher->result.digests.base = publisher->base.manifest->digest;
    publisher->result.digests.result = publisher->next.manifest->digest;
    return st;
}

/* The version before must give the base; an absent one, or one without digests, tells nothing. */
static struct baton_status check_chain(struct publisher *publisher)
{
    const struct delta_publish_options *options = publisher->options;
    struct delta_version *before = NULL;
    struct baton_status st =
        options->version == 1
            ? baton_status_ok()
            : delta_version_open(options->publication, options->version - 1, &before);
    if (st.code == BATON_NOT_FOUND || before == NULL) {
        return st.code == BATON_NOT_FOUND ? baton_status_ok() : st;
    }
    if (before->has_digests &&
        !digest_equal(before->digests.result, publisher->result.digests.base)) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_DIGEST_MISMATCH,
                               "%.140s: not the version that %.100s gives", options->base_dir,
                               before->dir);
        st = baton_status_hint(st, "name the checkpoint of version %llu as the base",
                               (unsigned long long)before->number);
    }
    delta_version_close(before);
    return st;
}

static struct baton_status write_version(struct publisher *publisher)
{
    char name[DELTA_NAME_BYTES];
    delta_version_name(publisher->options->version, name);
    struct baton_status st =
        staging_open(publisher->options->publication, name, &publisher->staging);
    if (baton_ok(&st)) {
        st = encode_all(publisher);
    }
    if (baton_ok(&st)) {
        st = seal(publisher);
    }
    if (baton_ok(&st)) {
        st = check_chain(publisher);
    }
    if (baton_ok(&st)) {
        st = name_shards(publisher);
    }
    if (baton_ok(&st)) {
        st = write_digests(publisher);
    }
    if (baton_ok(&st)) {
        st = write_index(publisher);
    }
    return baton_ok(&st) ? staging_commit(publisher->staging) : st;
}

static struct baton_status prepare(struct publisher *publisher)
{
    unsigned threads = publisher->options->threads;
    threads = threads == 0 ? 1 : threads < DELTA_THREADS_MAX ? threads : DELTA_THREADS_MAX;
    uint64_t version = publisher->options->version;
    struct baton_status st = open_side(publisher->options->base_dir, version - 1, &publisher->base);
    if (baton_ok(&st)) {
        st = open_side(publisher->options->next_dir, version, &publisher->next);
    }
    if (baton_ok(&st)) {
        st = manifest_compare_layout(publisher->base.manifest, publisher->next.manifest);
    }
    for (unsigned i = 0; baton_ok(&st) && i < threads; i++) {
        st = add_worker(publisher);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    publisher->shard_names = calloc(BATON_SHARDS_MAX + 1, sizeof(*publisher->shard_names));
    publisher->tensors =
        calloc(publisher->base.checkpoint->tensors_count + 1, sizeof(*publisher->tensors));
    return publisher->shard_names == NULL || publisher->tensors == NULL ? no_memory() : st;
}

static struct baton_status publish(struct publisher *publisher)
{
    struct baton_status st = prepare(publisher);
    if (baton_ok(&st)) {
        st = compare_files(publisher);
    }
    return baton_ok(&st) ? write_version(publisher) : st;
}

struct baton_status delta_publish(const struct delta_publish_options *options,
                                  struct delta_published *out)
{
    if (options->version == 0 || options->version > DELTA_VERSION_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "version: %llu; a delta has a number from 1 on",
                                 (unsigned long long)options->version);
    }
    struct publisher *publisher = calloc(1, sizeof(*publisher));
    if (publisher == NULL) {
        return no_memory();
    }
    publisher->options = options;
    publisher->base.lock_fd = -1;
    publisher->next.lock_fd = -1;
    publisher->shard_bytes_max =
        options->shard_bytes_max != 0 ? options->shard_bytes_max : default_shard_bytes;
    pthread_mutex_init(&publisher->lock, NULL);
    pthread_cond_init(&publisher->moved, NULL);
    struct baton_status st = publish(publisher);
    if (baton_ok(&st)) {
        *out = publisher->result;
    }
    staging_close(publisher->staging);
    for (unsigned i = 0; i < publisher->workers_count; i++) {
        free_worker(publisher->workers[i]);
    }
    close_side(&publisher->base);
    close_side(&publisher->next);
    pthread_cond_destroy(&publisher->moved);
    pthread_mutex_destroy(&publisher->lock);
    free(publisher->shard_names);
    free(publisher->tensors);
    free(publisher->frames);
    free(publisher);
    return st;
}
