#include "agent/engine/sglang_landing.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/engine/sglang_answer.h"
#include "api/base/clock.h"
#include "transport/model/checkpoint.h"
#include "transport/model/digest.h"
#include "transport/model/file_io.h"
#include "transport/model/manifest.h"

enum { PIECE_BYTES = 1 << 20, PARTS_MAX = 3, SUM_BYTES = 8, VOCABULARY_PAD = 64 };

struct sglang_landing {
    char path[BATON_PATH_BYTES];
    int directory;
    struct checkpoint *files;
    struct manifest *manifest;
    struct sglang_limit limit;
    uint8_t *piece; /* PIECE_BYTES of the tensor at hand. */
};

static struct baton_status blame(struct sglang_fault *fault, const char *code, const char *tensor,
                                 struct baton_status st)
{
    (void)baton_text_copy(fault->code, sizeof fault->code, code);
    (void)baton_text_copy(fault->tensor, sizeof fault->tensor, tensor);
    return st;
}

static struct baton_status unfit(struct sglang_fault *fault, const char *code, const char *tensor)
{
    return blame(fault, code, tensor,
                 baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                   "%s: %.200s", code, tensor));
}

/* --- bytes ------------------------------------------------------------------------------------- */

typedef void (*piece_fn)(void *context, struct baton_bytes piece);

static struct baton_status limit_check(const struct sglang_limit *limit)
{
    if (limit->http != NULL && http_aborted(limit->http)) {
        return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "aborted");
    }
    return baton_clock_monotonic_ns() < limit->deadline_ns
               ? baton_status_ok()
               : baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_NONE,
                                   "its bytes were not all read in time");
}

static struct baton_status tensor_read(const struct sglang_landing *landing,
                                       const struct checkpoint_tensor *tensor, piece_fn each,
                                       void *context)
{
    struct file_opened file = { .fd = -1 };
    struct baton_status st =
        file_open_read(landing->directory, tensor->shard, false, tensor->shard, &file);
    for (uint64_t at = 0; baton_ok(&st) && at < tensor->bytes; at += PIECE_BYTES) {
        uint64_t left = tensor->bytes - at;
        size_t size = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        st = limit_check(&landing->limit);
        if (baton_ok(&st)) {
            st = file_read_at(file.fd, landing->piece, size, tensor->offset + at, tensor->shard);
        }
        if (baton_ok(&st)) {
            each(context, (struct baton_bytes){ landing->piece, size });
        }
        if (!baton_ok(&st) || size == left) {
            break;
        }
    }
    if (file.fd >= 0) {
        (void)close(file.fd);
    }
    return st;
}

static void digest_add(void *context, struct baton_bytes piece)
{
    chunk_digester_add(context, piece);
}

static struct baton_status digest_check(const struct sglang_landing *landing,
                                        const struct manifest_tensor *promised,
                                        struct sglang_fault *fault)
{
    struct chunk_digester digester;
    const struct checkpoint_tensor *tensor = checkpoint_find(landing->files, promised->name);
    chunk_digester_init(&digester);
    struct baton_status st = tensor_read(landing, tensor, digest_add, &digester);
    if (st.code == BATON_CANCELLED || st.code == BATON_DEADLINE_EXCEEDED) {
        return st;
    }
    if (!baton_ok(&st)) {
        return blame(fault, "LANDING_UNREADABLE", promised->name, st);
    }
    if (!digest_equal(chunk_digester_finish(&digester), promised->digest)) {
        st = blame(fault, "DIGEST_MISMATCH", promised->name,
                   baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                     "landing: the bytes of %.200s are not those of its digest",
                                     promised->name));
    }
    return st;
}

/* --- layout ------------------------------------------------------------------------------------ */

/* Both sorted bytewise by name; what 'is' lacks or has too much, or has otherwise than 'must'. */
static struct baton_status layout_check(const struct manifest *must, const struct manifest *is,
                                        struct sglang_fault *fault)
{
    size_t at = 0;
    for (size_t i = 0; i < must->tensors_count; i++, at++) {
        const struct manifest_tensor *want = &must->tensors[i];
        const struct manifest_tensor *have = at < is->tensors_count ? &is->tensors[at] : NULL;
        int order = have == NULL ? 1 : strcmp(have->name, want->name);
        if (order < 0) {
            return unfit(fault, "UNEXPECTED_TENSOR", have->name);
        }
        if (order > 0) {
            return unfit(fault, "MISSING_TENSOR", want->name);
        }
        if (have->dtype != want->dtype) {
            return unfit(fault, "DTYPE_MISMATCH", want->name);
        }
        if (!tensor_shape_equal(&have->shape, &want->shape)) {
            return unfit(fault, "SHAPE_MISMATCH", want->name);
        }
    }
    return at < is->tensors_count ? unfit(fault, "UNEXPECTED_TENSOR", is->tensors[at].name)
                                  : baton_status_ok();
}

static struct baton_status files_open(struct sglang_landing *landing)
{
    struct baton_status st = file_open_directory(landing->path, &landing->directory);
    return baton_ok(&st) ? checkpoint_open(landing->path, CHECKPOINT_WHOLE, &landing->files) : st;
}

static struct baton_status manifest_open(struct sglang_landing *landing)
{
    struct baton_bytes text = { 0 };
    struct baton_status st = file_read_all(landing->directory, MANIFEST_FILE_NAME,
                                           MANIFEST_JSON_BYTES_MAX, MANIFEST_FILE_NAME, &text);
    if (baton_ok(&st)) {
        st = manifest_decode_json(text, &landing->manifest);
        free((void *)(uintptr_t)text.data);
    }
    return st;
}

static struct baton_status version_check(const struct sglang_landing *landing, const char *digest,
                                         struct sglang_fault *fault)
{
    char found[BATON_DIGEST_TEXT_BYTES];
    digest_format(landing->manifest->digest, found);
    if (strcmp(found, digest) != 0) {
        return blame(fault, "DIGEST_MISMATCH", "",
                     baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                                       "the landing holds version %s, not %.40s", found, digest));
    }
    struct manifest *there = NULL;
    struct baton_status st = checkpoint_to_manifest(landing->files, &there);
    if (baton_ok(&st)) {
        st = layout_check(landing->manifest, there, fault);
    } else {
        st = blame(fault, "LANDING_UNREADABLE", "", st);
    }
    manifest_destroy(there);
    for (size_t i = 0; baton_ok(&st) && i < landing->manifest->tensors_count; i++) {
        st = digest_check(landing, &landing->manifest->tensors[i], fault);
    }
    return st;
}

struct baton_status sglang_landing_open(const char *path, const char *digest,
                                        const struct sglang_limit *limit,
                                        struct sglang_landing **out, struct sglang_fault *fault)
{
    struct sglang_landing *landing = calloc(1, sizeof *landing);
    *fault = (struct sglang_fault){ .code = "" };
    if (landing == NULL || (landing->piece = malloc(PIECE_BYTES)) == NULL) {
        free(landing);
        return blame(fault, "INTERNAL", "",
                     baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory"));
    }
    landing->directory = -1;
    landing->limit = *limit;
    (void)baton_text_copy(landing->path, sizeof landing->path, path);
    struct baton_status st = files_open(landing);
    if (baton_ok(&st)) {
        st = manifest_open(landing);
    }
    st = baton_ok(&st) ? version_check(landing, digest, fault)
                       : blame(fault, "LANDING_UNREADABLE", "", st);
    if (!baton_ok(&st)) {
        sglang_landing_close(landing);
        return baton_status_in(st, "landing");
    }
    *out = landing;
    return st;
}

void sglang_landing_close(struct sglang_landing *landing)
{
    if (landing == NULL) {
        return;
    }
    checkpoint_close(landing->files);
    manifest_destroy(landing->manifest);
    if (landing->directory >= 0) {
        (void)close(landing->directory);
    }
    free(landing->piece);
    free(landing);
}

struct baton_status sglang_landing_fits(const struct sglang_landing *landing, const char *serving,
                                        struct sglang_fault *fault)
{
    struct checkpoint *files = NULL;
    struct manifest *must = NULL;
    *fault = (struct sglang_fault){ .code = "" };
    struct baton_status st = checkpoint_open(serving, CHECKPOINT_WHOLE, &files);
    if (baton_ok(&st)) {
        st = checkpoint_to_manifest(files, &must);
    }
    if (baton_ok(&st)) {
        st = layout_check(must, landing->manifest, fault);
    } else {
        st = blame(fault, "INTERNAL", "",
                   baton_status_hint(
                       baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                                         "the checkpoint that the engine serves cannot be read "
                                         "here, so nobody knows what its model consists of"),
                       "start it from a local folder, or recreate it from {checkpoint}"));
    }
    manifest_destroy(must);
    checkpoint_close(files);
    return st;
}

/* --- residents --------------------------------------------------------------------------------- */

/* How SGLang names what it makes of several tensors, in their order. */
static const struct {
    const char *whole;
    const char *parts[PARTS_MAX];
} FUSED[] = {
    { ".qkv_proj.", { ".q_proj.", ".k_proj.", ".v_proj." } },
    { ".gate_up_proj.", { ".gate_proj.", ".up_proj." } },
};

struct comparison {
    const struct sglang_landing *landing;
    struct sglang_fault *fault;
    size_t used; /* Tensors of the landing that are in one of the engine's. */
    struct baton_status status;
    struct baton_status unknown; /* Of the first name that is not known; the others are compared. */
};

/* 'name' with 'whole' replaced by 'part', in the landing; null if it is not there. */
static const struct checkpoint_tensor *part_find(const struct sglang_landing *landing,
                                                 const char *name, const char *whole,
                                                 const char *part)
{
    char other[BATON_TENSOR_NAME_BYTES];
    const char *at = strstr(name, whole);
    size_t before = (size_t)(at - name);
    size_t after = strlen(at) - strlen(whole);
    if (before + strlen(part) + after >= sizeof other) {
        return NULL;
    }
    memcpy(other, name, before);
    memcpy(other + before, part, strlen(part));
    memcpy(other + before + strlen(part), at + strlen(whole), after + 1);
    return checkpoint_find(landing->files, other);
}

/* The landing's tensors of which the engine's 'name' is made; 0: not known. */
static size_t parts_find(const struct sglang_landing *landing, const char *name,
                         const struct checkpoint_tensor *out[PARTS_MAX])
{
    out[0] = checkpoint_find(landing->files, name);
    if (out[0] != NULL) {
        return 1;
    }
    for (size_t i = 0; i < sizeof FUSED / sizeof FUSED[0]; i++) {
        size_t count = 0;
        if (strstr(name, FUSED[i].whole) == NULL) {
            continue;
        }
        while (count < PARTS_MAX && FUSED[i].parts[count] != NULL) {
            out[count] = part_find(landing, name, FUSED[i].whole, FUSED[i].parts[count]);
            if (out[count++] == NULL) {
                return 0;
            }
        }
        return count;
    }
    return 0;
}

static void sum_add(void *context, struct baton_bytes piece)
{
    (void)EVP_DigestUpdate(context, piece.data, piece.size);
}

/* SGLang fills rows of zeros up until the vocabulary is a multiple of 64. */
static void padding_add(const struct checkpoint_tensor *tensor, EVP_MD_CTX *sum)
{
    static const uint8_t ZEROS[4096];
    bool words = strstr(tensor->name, "embed_tokens.weight") != NULL ||
                 strcmp(tensor->name, "lm_head.weight") == 0;
    uint64_t rows = tensor->shape.rank == 2 ? tensor->shape.dims[0] : 0;
    if (!words || rows == 0 || rows % VOCABULARY_PAD == 0) {
        return;
    }
    uint64_t left = (VOCABULARY_PAD - rows % VOCABULARY_PAD) * (tensor->bytes / rows);
    while (left > 0) {
        size_t size = left < sizeof ZEROS ? (size_t)left : sizeof ZEROS;
        (void)EVP_DigestUpdate(sum, ZEROS, size);
        left -= size;
    }
}

/* SHA-256, of which SGLang shows the first eight bytes. */
static struct baton_status sum_of(const struct sglang_landing *landing,
                                  const struct checkpoint_tensor *const *parts, size_t parts_count,
                                  char out[2 * SUM_BYTES + 1])
{
    uint8_t sum[EVP_MAX_MD_SIZE] = { 0 };
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    struct baton_status st = baton_status_ok();
    if (context == NULL || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(context);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
    }
    for (size_t i = 0; baton_ok(&st) && i < parts_count; i++) {
        st = tensor_read(landing, parts[i], sum_add, context);
        padding_add(parts[i], context);
    }
    (void)EVP_DigestFinal_ex(context, sum, NULL);
    EVP_MD_CTX_free(context);
    baton_hex_encode(sum, SUM_BYTES, out);
    return st;
}

static bool compare_one(void *context, const char *name, const char *sum)
{
    struct comparison *comparison = context;
    const struct checkpoint_tensor *parts[PARTS_MAX];
    char expected[2 * SUM_BYTES + 1];
    size_t count = parts_find(comparison->landing, name, parts);
    comparison->used += count;
    if (count == 0) {
        if (baton_ok(&comparison->unknown)) {
            comparison->unknown = baton_status_make(
                BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                "the engine's tensor %.160s is of a name that is not known", name);
        }
        return true;
    }
    comparison->status = sum_of(comparison->landing, parts, count, expected);
    if (baton_ok(&comparison->status) && strcmp(expected, sum) != 0) {
        comparison->status =
            blame(comparison->fault, "VERIFY_FAILED", name,
                  baton_status_make(BATON_DATA_LOSS, BATON_REASON_ENGINE_LIED,
                                    "what is resident of %.160s is not the version's", name));
    }
    return baton_ok(&comparison->status);
}

struct baton_status sglang_landing_compare(const struct sglang_landing *landing,
                                           struct baton_bytes answer, struct sglang_fault *fault)
{
    struct comparison comparison = { landing, fault, 0, baton_status_ok(), baton_status_ok() };
    *fault = (struct sglang_fault){ .code = "" };
    struct baton_status st = sglang_answer_sums(answer, compare_one, &comparison);
    if (!baton_ok(&st) || !baton_ok(&comparison.status)) {
        return baton_ok(&st) ? comparison.status : st;
    }
    if (!baton_ok(&comparison.unknown)) {
        return comparison.unknown;
    }
    if (comparison.used != landing->manifest->tensors_count) {
        return baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
                                 "the engine tells of %zu tensors of the version's %zu",
                                 comparison.used, landing->manifest->tensors_count);
    }
    return st;
}
