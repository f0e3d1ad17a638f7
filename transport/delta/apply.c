/* apply.c -- one pass over the start's files, with a row of decoders. */
#include "transport/delta/apply.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/delta/decoder.h"
#include "transport/delta/pool.h"
#include "transport/delta/staging.h"
#include "transport/delta/tensor_input.h"
#include "transport/model/file_io.h"

enum { FRAME_SLACK_BYTES = 1 << 10 };

/* A delta of the chain and its part in the tensor at hand. */
struct step {
    const struct delta_version *version;
    struct delta_decoder *decoder;     /* Made when first needed. */
    const struct delta_tensor *tensor; /* Null: leaves the tensor as it is. */
    uint8_t *frame;
};

struct applier;

/* What each thread has for itself. */
struct worker {
    struct applier *applier;
    struct tensor_input input;
    int out_fd;            /* Of 'out_shard'; -1: none. */
    const char *out_shard; /* Whose name the start owns. */
    struct step steps[DELTA_CHAIN_MAX];
    struct chunk_digester digester;
    uint64_t changed_tensors;
    uint8_t piece[DELTA_PIECE_BYTES];
};

struct applier {
    const struct delta_apply_options *options;
    struct delta_chain *chain;
    struct checkpoint *start;
    struct manifest *manifest;
    struct staging *staging;                /* Null: only verify. */
    const struct checkpoint_tensor **order; /* By shard and place. */
    struct worker *workers[DELTA_THREADS_MAX];
    unsigned workers_count;
    struct delta_applied result;
};

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
}

static struct baton_status in_step(struct baton_status st, const struct step *step)
{
    return baton_status_in(st, "%.100s: %.40s: tensor '%.80s'", step->version->dir,
                           step->tensor->shard, step->tensor->name);
}

static struct baton_status open_out(struct worker *worker, const char *shard)
{
    if (worker->out_fd >= 0 && strcmp(worker->out_shard, shard) == 0) {
        return baton_status_ok();
    }
    if (worker->out_fd >= 0) {
        close(worker->out_fd);
        worker->out_fd = -1;
    }
    worker->out_shard = shard;
    return staging_reopen(worker->applier->staging, shard, &worker->out_fd);
}

static struct baton_status write_out(struct worker *worker, const char *shard, size_t size,
                                     uint64_t at)
{
    if (worker->applier->staging == NULL) {
        return baton_status_ok();
    }
    struct baton_status st = open_out(worker, shard);
    return baton_ok(&st) ? file_write_at(worker->out_fd,
                                         (struct baton_bytes){ worker->piece, size }, at, shard)
                         : st;
}

/* Bytes of a shard that belong to no tensor: its header. */
static struct baton_status copy_range(struct worker *worker, const char *shard, uint64_t at,
                                      uint64_t end)
{
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && at < end) {
        size_t size = end - at < DELTA_PIECE_BYTES ? (size_t)(end - at) : DELTA_PIECE_BYTES;
        st = tensor_input_read(&worker->input, shard, at, worker->piece, size);
        if (baton_ok(&st)) {
            st = write_out(worker, shard, size, at);
        }
        at += size;
    }
    return st;
}

/* --- one tensor through all deltas --- */

/* No payload of this tensor takes more, compressed or not: a header that says so is refused before
 * memory is taken for it. */
static uint64_t frame_bytes_max(enum delta_encoding encoding, uint64_t tensor_bytes)
{
    uint64_t payload = encoding == DELTA_ENCODING_XOR ? tensor_bytes : 4 + 5 * tensor_bytes;
    return payload + payload / 128 + FRAME_SLACK_BYTES;
}

static struct baton_status read_frame(struct step *step, uint64_t tensor_bytes)
{
    const struct delta_tensor *tensor = step->tensor;
    struct file_opened file;
    if (tensor->frame_bytes > frame_bytes_max(step->version->index.encoding, tensor_bytes)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "a frame of %llu bytes is too long for a tensor of %llu",
                                 (unsigned long long)tensor->frame_bytes,
                                 (unsigned long long)tensor_bytes);
    }
    step->frame = malloc(tensor->frame_bytes);
    if (step->frame == NULL) {
        return no_memory();
    }
    struct baton_status st =
        file_open_read(step->version->dir_fd, tensor->shard, false, tensor->shard, &file);
    if (!baton_ok(&st)) {
        return st;
    }
    st = file_read_at(file.fd, step->frame, tensor->frame_bytes, tensor->offset, tensor->shard);
    close(file.fd);
    return st;
}

static struct baton_status begin_step(struct step *step, uint64_t tensor_bytes)
{
    if (step->decoder == NULL) {
        step->decoder = delta_decoder_create();
    }
    struct baton_status st = step->decoder == NULL ? no_memory() : read_frame(step, tensor_bytes);
    if (!baton_ok(&st)) {
        return st;
    }
    return delta_decoder_begin(
        step->decoder, step->version->index.encoding, step->version->index.checksum,
        (struct baton_bytes){ step->frame, step->tensor->frame_bytes }, tensor_bytes);
}

static struct baton_status begin_tensor(struct worker *worker,
                                        const struct checkpoint_tensor *tensor)
{
    struct baton_status st = baton_status_ok();
    bool changes = false;
    for (size_t i = 0; baton_ok(&st) && i < worker->applier->chain->deltas_count; i++) {
        struct step *step = &worker->steps[i];
        step->version = worker->applier->chain->deltas[i];
        step->tensor = delta_version_find(step->version, tensor->name);
        if (step->tensor != NULL) {
            st = in_step(begin_step(step, tensor->bytes), step);
            changes = true;
        }
    }
    worker->changed_tensors += changes;
    return st;
}

static struct baton_status next_piece(struct worker *worker, size_t size)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < worker->applier->chain->deltas_count; i++) {
        struct step *step = &worker->steps[i];
        if (step->tensor != NULL) {
            st = in_step(delta_decoder_next(step->decoder, worker->piece, size), step);
        }
    }
    chunk_digester_add(&worker->digester, (struct baton_bytes){ worker->piece, size });
    return st;
}

static struct baton_status run_tensor(struct worker *worker, const struct checkpoint_tensor *tensor)
{
    struct baton_status st = begin_tensor(worker, tensor);
    for (uint64_t at = 0; baton_ok(&st) && at < tensor->bytes;) {
        uint64_t left = tensor->bytes - at;
        size_t size = left < DELTA_PIECE_BYTES ? (size_t)left : DELTA_PIECE_BYTES;
        st = tensor_input_read(&worker->input, tensor->shard, tensor->offset + at, worker->piece,
                               size);
        if (baton_ok(&st)) {
            st = next_piece(worker, size);
        }
        if (baton_ok(&st)) {
            st = write_out(worker, tensor->shard, size, tensor->offset + at);
        }
        at += size;
    }
    for (size_t i = 0; baton_ok(&st) && i < worker->applier->chain->deltas_count; i++) {
        struct step *step = &worker->steps[i];
        if (step->tensor != NULL) {
            st = in_step(delta_decoder_finish(step->decoder, step->tensor->checksum), step);
        }
    }
    return st;
}

static struct baton_status apply_tensor(void *argument, size_t item)
{
    struct worker *worker = argument;
    const struct applier *applier = worker->applier;
    const struct checkpoint_tensor *tensor = applier->order[item];
    chunk_digester_init(&worker->digester);
    struct baton_status st = run_tensor(worker, tensor);
    for (size_t i = 0; i < applier->chain->deltas_count; i++) {
        free(worker->steps[i].frame);
        worker->steps[i].frame = NULL;
        worker->steps[i].tensor = NULL;
    }
    /* The manifest is sorted as the checkpoint's tensors are; each has one thread. */
    applier->manifest->tensors[tensor - applier->start->tensors].digest =
        chunk_digester_finish(&worker->digester);
    return st;
}

/* --- all files --- */

static int compare_places(const void *a, const void *b)
{
    const struct checkpoint_tensor *left = *(const struct checkpoint_tensor *const *)a;
    const struct checkpoint_tensor *right = *(const struct checkpoint_tensor *const *)b;
    int by_shard = strcmp(left->shard, right->shard);
    if (by_shard != 0) {
        return by_shard;
    }
    if (left->offset != right->offset) {
        return left->offset < right->offset ? -1 : 1;
    }
    /* An empty tensor before the one that starts at its place. */
    return left->bytes < right->bytes ? -1 : left->bytes > right->bytes;
}

static void sort_tensors(struct applier *applier)
{
    const struct checkpoint *start = applier->start;
    for (size_t i = 0; i < start->tensors_count; i++) {
        applier->order[i] = &start->tensors[i];
        applier->result.bytes += start->tensors[i].bytes;
    }
    if (start->tensors_count > 0) {
        qsort(applier->order, start->tensors_count, sizeof(struct checkpoint_tensor *),
              compare_places);
    }
}

/* Copies what lies around a shard's tensors, which begin at '*next', and moves it past them. */
static struct baton_status copy_around(struct applier *applier, const struct checkpoint_file *shard,
                                       size_t *next)
{
    struct worker *worker = applier->workers[0];
    struct baton_status st = baton_status_ok();
    uint64_t at = 0;
    for (; baton_ok(&st) && *next < applier->start->tensors_count &&
           strcmp(applier->order[*next]->shard, shard->name) == 0;
         (*next)++) {
        const struct checkpoint_tensor *tensor = applier->order[*next];
        st = copy_range(worker, shard->name, at, tensor->offset);
        at = tensor->offset + tensor->bytes;
    }
    return baton_ok(&st) ? copy_range(worker, shard->name, at, shard->bytes) : st;
}

static struct baton_status begin_shards(struct applier *applier)
{
    struct baton_status st = baton_status_ok();
    size_t next = 0;
    for (size_t i = 0; baton_ok(&st) && i < applier->start->shards_count; i++) {
        int fd = -1;
        st = staging_create(applier->staging, applier->start->shards[i].name, &fd);
        if (baton_ok(&st)) {
            close(fd);
            st = copy_around(applier, &applier->start->shards[i], &next);
        }
    }
    return st;
}

/* Whoever wrote it: a flush covers the file. */
static struct baton_status end_shards(struct applier *applier)
{
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < applier->start->shards_count; i++) {
        int fd = -1;
        st = staging_reopen(applier->staging, applier->start->shards[i].name, &fd);
        if (baton_ok(&st)) {
            st = staging_end_file(fd, applier->start->shards[i].name);
        }
    }
    return st;
}

static struct baton_status apply_tensors(struct applier *applier)
{
    sort_tensors(applier);
    struct baton_status st = applier->staging == NULL ? baton_status_ok() : begin_shards(applier);
    if (baton_ok(&st)) {
        st = delta_pool_run((void *const *)applier->workers, applier->workers_count,
                            applier->start->tensors_count, apply_tensor);
    }
    for (unsigned i = 0; i < applier->workers_count; i++) {
        applier->result.changed_tensors += applier->workers[i]->changed_tensors;
    }
    return baton_ok(&st) && applier->staging != NULL ? end_shards(applier) : st;
}

static struct baton_status copy_file(struct applier *applier, const char *name, struct digest *out)
{
    int fd = -1;
    struct baton_status st =
        applier->staging == NULL ? baton_status_ok() : staging_create(applier->staging, name, &fd);
    if (!baton_ok(&st)) {
        return st;
    }
    st = tensor_input_file(&applier->workers[0]->input, name, fd, out);
    if (fd >= 0 && !baton_ok(&st)) {
        close(fd);
    }
    return fd >= 0 && baton_ok(&st) ? staging_end_file(fd, name) : st;
}

static struct baton_status copy_files(struct applier *applier)
{
    struct digest digest;
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; baton_ok(&st) && i < applier->manifest->files_count; i++) {
        struct manifest_file *file = &applier->manifest->files[i];
        st = copy_file(applier, file->name, &file->digest);
    }
    if (baton_ok(&st) &&
        faccessat(applier->workers[0]->input.dir_fd, CHECKPOINT_INDEX_NAME, F_OK, 0) == 0) {
        st = copy_file(applier, CHECKPOINT_INDEX_NAME, &digest);
    }
    return st;
}

/* --- the whole --- */

/* Every tensor of every delta is in the start: before anything is read or written. */
static struct baton_status check_names(const struct applier *applier)
{
    for (size_t i = 0; i < applier->chain->deltas_count; i++) {
        const struct delta_version *version = applier->chain->deltas[i];
        for (size_t j = 0; j < version->tensors_count; j++) {
            if (checkpoint_find(applier->start, version->tensors[j].name) == NULL) {
                return baton_status_make(
                    BATON_INVALID_ARGUMENT, BATON_REASON_CHECKPOINT_INVALID,
                    "%.90s: %.40s: tensor '%.80s': %.80s has none of this name", version->dir,
                    version->tensors[j].shard, version->tensors[j].name, applier->start->dir);
            }
        }
    }
    return baton_status_ok();
}

static struct baton_status check_digest(struct applier *applier)
{
    const struct delta_chain *chain = applier->chain;
    const struct delta_version *last =
        chain->deltas_count > 0 ? chain->deltas[chain->deltas_count - 1] : NULL;
    char found[BATON_DIGEST_TEXT_BYTES], wanted[BATON_DIGEST_TEXT_BYTES];
    struct baton_status st = manifest_seal(applier->manifest);
    if (!baton_ok(&st)) {
        return st;
    }
    applier->result.digest = applier->manifest->digest;
    if (last == NULL || !last->has_digests) {
        return st;
    }
    if (!digest_equal(last->digests.result, applier->result.digest)) {
        digest_format(applier->result.digest, found);
        digest_format(last->digests.result, wanted);
        st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                               "%.120s: the result's digest is %s, the publisher's is %s",
                               last->dir, found, wanted);
        return baton_status_hint(st, "a tensor or file that no delta changes is not the "
                                     "publisher's: begin from the right base");
    }
    applier->result.digest_checked = true;
    return st;
}

static struct baton_status write_state(struct applier *applier)
{
    char version[DELTA_NAME_BYTES], digest[BATON_DIGEST_TEXT_BYTES];
    char text[160];
    delta_version_text(applier->options->version, version);
    digest_format(applier->result.digest, digest);
    struct baton_status st = staging_subdirectory(applier->staging, DELTA_STATE_DIR);
    if (baton_ok(&st)) {
        (void)snprintf(text, sizeof(text), "{\"version\": \"%s\", \"digest\": \"%s\"}\n", version,
                       digest);
        st = staging_write(applier->staging, DELTA_IDENTITY_NAME, baton_bytes_of(text));
    }
    if (baton_ok(&st)) {
        (void)snprintf(text, sizeof(text), "{\"version\": \"%s\"}", version);
        st = staging_write(applier->staging, DELTA_STATE_NAME, baton_bytes_of(text));
    }
    return st;
}

/* "a/b/c/" to "a/b" and "c". */
static struct baton_status open_staging(struct applier *applier)
{
    char path[BATON_PATH_BYTES];
    if (!baton_text_copy(path, sizeof(path), applier->options->out_dir)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%.200s: the path is too long", applier->options->out_dir);
    }
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        path[--length] = '\0';
    }
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return staging_open(".", path, &applier->staging);
    }
    *slash = '\0';
    return staging_open(slash == path ? "/" : path, slash + 1, &applier->staging);
}

static struct baton_status add_worker(struct applier *applier)
{
    struct worker *worker = aligned_alloc(_Alignof(struct worker), sizeof(struct worker));
    if (worker == NULL) {
        return no_memory();
    }
    memset(worker, 0, sizeof(*worker));
    worker->applier = applier;
    worker->out_fd = -1;
    applier->workers[applier->workers_count++] = worker;
    return tensor_input_open(applier->start, &worker->input);
}

static void free_worker(struct worker *worker)
{
    for (size_t i = 0; i < DELTA_CHAIN_MAX; i++) {
        delta_decoder_destroy(worker->steps[i].decoder);
    }
    if (worker->out_fd >= 0) {
        close(worker->out_fd);
    }
    tensor_input_close(&worker->input);
    free(worker);
}

static struct baton_status prepare(struct applier *applier)
{
    unsigned threads = applier->options->threads;
    threads = threads == 0 ? 1 : threads < DELTA_THREADS_MAX ? threads : DELTA_THREADS_MAX;
    /* A full version comes from the publisher; the checkpoint is the caller's own. */
    struct baton_status st = checkpoint_open(
        applier->chain->start_dir,
        applier->chain->full != NULL ? CHECKPOINT_FOREIGN : CHECKPOINT_PARTIAL, &applier->start);
    if (baton_ok(&st)) {
        st = checkpoint_to_manifest(applier->start, &applier->manifest);
    }
    if (baton_ok(&st)) {
        st = check_names(applier);
    }
    for (unsigned i = 0; baton_ok(&st) && i < threads; i++) {
        st = add_worker(applier);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    applier->order = calloc(applier->start->tensors_count + 1, sizeof(struct checkpoint_tensor *));
    return applier->order == NULL ? no_memory() : st;
}

static struct baton_status apply(struct applier *applier)
{
    const struct delta_apply_options *options = applier->options;
    struct baton_status st = delta_chain_open(options->publication, options->checkpoint,
                                              options->version, &applier->chain);
    if (baton_ok(&st)) {
        st = prepare(applier);
    }
    if (baton_ok(&st) && options->out_dir != NULL) {
        st = open_staging(applier);
    }
    if (baton_ok(&st)) {
        st = apply_tensors(applier);
    }
    if (baton_ok(&st)) {
        st = copy_files(applier);
    }
    if (baton_ok(&st)) {
        st = check_digest(applier);
    }
    if (!baton_ok(&st) || applier->staging == NULL) {
        return st;
    }
    st = write_state(applier);
    return baton_ok(&st) ? staging_commit(applier->staging) : st;
}

struct baton_status delta_apply(const struct delta_apply_options *options,
                                struct delta_applied *out)
{
    struct applier *applier = calloc(1, sizeof(*applier));
    if (applier == NULL) {
        return no_memory();
    }
    applier->options = options;
    struct baton_status st = apply(applier);
    if (baton_ok(&st)) {
        *out = applier->result;
        out->from = applier->chain->from.version;
        out->start = applier->chain->start;
        out->deltas_count = (unsigned)applier->chain->deltas_count;
    }
    for (unsigned i = 0; i < applier->workers_count; i++) {
        free_worker(applier->workers[i]);
    }
    staging_close(applier->staging);
    manifest_destroy(applier->manifest);
    checkpoint_close(applier->start);
    delta_chain_close(applier->chain);
    free(applier->order);
    free(applier);
    return st;
}
