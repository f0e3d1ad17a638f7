/* delta_bench.c -- a tensor's delta made and applied on one core: BF16, 2 % of the words changed
 * by one step of their last place, as a trainer's step changes them; xor, XXH3-128.
 *
 * In memory (`delta_encode`, `delta_decode`) against reading both tensors, which is the limit, and
 * against the same steps one after another (`..._steps`): xor, ZSTD_compress at level 1 and XXH3,
 * as the format's other writers do; ZSTD_decompress, xor and XXH3.  As directories on tmpfs
 * (`delta_publish`, `delta_apply`, with the digests of the whole) against reading both, or copying
 * one, in the same pieces.  Times are CPU times of the thread: GB of the new tensor a second. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#include "tests/bench/ratio.h"
#include "transport/delta/apply.h"
#include "transport/delta/decoder.h"
#include "transport/delta/encoder.h"
#include "transport/delta/publish.h"

enum { DATA_BYTES = 256 << 20, TENSORS = 8, PAIRS = 7, RUN_SECONDS_MAX = 600 };

static uint8_t *old, *now, *work;
static uint8_t *frame;
static size_t frame_capacity;
static char *dir, *base, *next, *publication, *out;

static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void must(struct baton_status st)
{
    if (!baton_ok(&st)) {
        fprintf(stderr, "delta_bench: %s\n", st.message);
        abort();
    }
}

static void must_be(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "delta_bench: %s\n", what);
        abort();
    }
}

static void fill(void)
{
    uint64_t state = 88172645463325252u;
    uint16_t *a = (uint16_t *)old, *b = (uint16_t *)now;
    for (size_t i = 0; i < DATA_BYTES / 2; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        a[i] = (uint16_t)((state & 0x83ff) + 0x3800);
        bool changes = (state >> 20) % 50 == 0;
        b[i] = (uint16_t)(a[i] + (!changes ? 0 : (state >> 40 & 1) != 0 ? 1 : -1));
    }
}

/* --- in memory --- */

static double read_both(void)
{
    uint64_t sums[8] = { 0 };
    double begin = cpu_s();
    const uint64_t *a = (const uint64_t *)old, *b = (const uint64_t *)now;
    for (size_t i = 0; i < DATA_BYTES / 8; i += 8) {
        for (size_t j = 0; j < 8; j++) {
            sums[j] += a[i + j] ^ b[i + j];
        }
    }
    double seconds = cpu_s() - begin;
    must_be((sums[0] | sums[7]) != 0, "both tensors are the same");
    return seconds;
}

static double encode(void)
{
    static struct delta_encoder *encoder;
    struct delta_encoded encoded;
    encoder = encoder == NULL ? delta_encoder_create() : encoder;
    double begin = cpu_s();
    must(delta_encoder_begin(encoder, DELTA_ENCODING_XOR, DELTA_CHECKSUM_XXH3_128, DATA_BYTES));
    must(delta_encoder_add(encoder, old, now, DATA_BYTES));
    must(delta_encoder_finish(encoder, &encoded));
    double seconds = cpu_s() - begin;
    must_be(encoded.frame.size > 0 && encoded.frame.size < DATA_BYTES / 30, "a poor ratio");
    return seconds;
}

static double encode_steps(void)
{
    double begin = cpu_s();
    for (size_t i = 0; i < DATA_BYTES; i++) {
        work[i] = old[i] ^ now[i];
    }
    size_t size = ZSTD_compress(frame, frame_capacity, work, DATA_BYTES, 1);
    struct digest digest = digest_of((struct baton_bytes){ now, DATA_BYTES });
    double seconds = cpu_s() - begin;
    must_be(!ZSTD_isError(size) && digest.bytes[0] + size > 0, "zstd failed");
    return seconds;
}

/* The frame of one encoder for all decodings; from the codec itself, or from level 1. */
static struct delta_encoded make_frame(struct delta_encoder *encoder)
{
    struct delta_encoded encoded;
    must(delta_encoder_begin(encoder, DELTA_ENCODING_XOR, DELTA_CHECKSUM_XXH3_128, DATA_BYTES));
    must(delta_encoder_add(encoder, old, now, DATA_BYTES));
    must(delta_encoder_finish(encoder, &encoded));
    return encoded;
}

static double decode(void)
{
    static struct delta_encoder *encoder;
    static struct delta_decoder *decoder;
    static struct delta_encoded encoded;
    if (encoder == NULL) {
        encoder = delta_encoder_create();
        decoder = delta_decoder_create();
        encoded = make_frame(encoder);
    }
    memcpy(work, old, DATA_BYTES);
    double begin = cpu_s();
    must(delta_decoder_begin(decoder, DELTA_ENCODING_XOR, DELTA_CHECKSUM_XXH3_128, encoded.frame,
                             DATA_BYTES));
    must(delta_decoder_next(decoder, work, DATA_BYTES));
    must(delta_decoder_finish(decoder, encoded.checksum));
    double seconds = cpu_s() - begin;
    must_be(memcmp(work, now, DATA_BYTES) == 0, "decoding gave other bytes");
    return seconds;
}

static double decode_steps(void)
{
    static size_t frame_bytes;
    static uint8_t *x;
    if (x == NULL) {
        x = malloc(DATA_BYTES);
        must_be(x != NULL, "out of memory");
        (void)encode_steps();
        frame_bytes = ZSTD_compress(frame, frame_capacity, work, DATA_BYTES, 1);
    }
    memcpy(work, old, DATA_BYTES);
    double begin = cpu_s();
    size_t size = ZSTD_decompress(x, DATA_BYTES, frame, frame_bytes);
    for (size_t i = 0; i < DATA_BYTES; i++) {
        work[i] ^= x[i];
    }
    struct digest digest = digest_of((struct baton_bytes){ work, DATA_BYTES });
    double seconds = cpu_s() - begin;
    must_be(size == DATA_BYTES && digest.bytes[0] + size > 0, "zstd failed");
    return seconds;
}

/* --- directories --- */

static void write_checkpoint(const char *path, const uint8_t *data)
{
    char name[512], header[2048];
    size_t at = 0, size = DATA_BYTES / TENSORS;
    must_be(mkdir(path, 0755) == 0, path);
    for (size_t i = 0; i < TENSORS; i++) {
        at += (size_t)snprintf(header + at, sizeof(header) - at,
                               "%s\"t%zu\":{\"dtype\":\"BF16\",\"shape\":[%zu],\"data_offsets\":"
                               "[%zu,%zu]}",
                               i == 0 ? "{" : ",", i, size / 2, i * size, (i + 1) * size);
    }
    header[at++] = '}';
    (void)snprintf(name, sizeof(name), "%s/model.safetensors", path);
    FILE *file = fopen(name, "wb");
    uint64_t length = at;
    must_be(file != NULL && fwrite(&length, 8, 1, file) == 1 && fwrite(header, 1, at, file) == at &&
                fwrite(data, 1, DATA_BYTES, file) == DATA_BYTES && fclose(file) == 0,
            name);
}

static void make_directories(void)
{
    dir = ratio_directory();
    base = ratio_join(dir, "base");
    next = ratio_join(dir, "next");
    publication = ratio_join(dir, "publication");
    out = ratio_join(dir, "out");
    write_checkpoint(base, old);
    write_checkpoint(next, now);
    must_be(mkdir(publication, 0755) == 0, publication);
}

static int open_weights(const char *path, const char *name, int flags)
{
    char *file = ratio_join(path, name);
    int fd = open(file, flags | O_CLOEXEC, 0644);
    must_be(fd >= 0, file);
    free(file);
    return fd;
}

static double read_files(void)
{
    double begin = cpu_s();
    int fds[2] = { open_weights(base, "model.safetensors", O_RDONLY),
                   open_weights(next, "model.safetensors", O_RDONLY) };
    ssize_t size = 1;
    while (size > 0) {
        size = read(fds[0], work, DELTA_PIECE_BYTES);
        size = size > 0 ? read(fds[1], work + DELTA_PIECE_BYTES, DELTA_PIECE_BYTES) : size;
    }
    close(fds[0]);
    close(fds[1]);
    return cpu_s() - begin;
}

static double copy_file(void)
{
    double begin = cpu_s();
    int from = open_weights(base, "model.safetensors", O_RDONLY);
    int to = open_weights(dir, "copy", O_WRONLY | O_CREAT | O_TRUNC);
    ssize_t size = 1;
    while (size > 0) {
        size = read(from, work, DELTA_PIECE_BYTES);
        must_be(size <= 0 || write(to, work, (size_t)size) == size, "copy");
    }
    close(from);
    close(to);
    double seconds = cpu_s() - begin;
    char *copy = ratio_join(dir, "copy");
    unlink(copy);
    free(copy);
    return seconds;
}

static void remove_below(const char *path)
{
    const char *words[] = { "rm", "-rf", path, NULL };
    (void)ratio_time_command(words);
}

static double publish(void)
{
    struct delta_published made;
    struct delta_publish_options options = {
        .publication = publication, .base_dir = base, .next_dir = next, .version = 1
    };
    char *version = ratio_join(publication, "weight_v000001");
    remove_below(version);
    free(version);
    double begin = cpu_s();
    must(delta_publish(&options, &made));
    return cpu_s() - begin;
}

static double apply(void)
{
    struct delta_applied applied;
    struct delta_apply_options options = { publication, base, 1, out, 0 };
    remove_below(out);
    double begin = cpu_s();
    must(delta_apply(&options, &applied));
    double seconds = cpu_s() - begin;
    must_be(applied.digest_checked, "no digest was checked");
    return seconds;
}

struct figure {
    const char *name;
    const char *anchor;
    double target;
    double (*ours)(void);
    double (*theirs)(void);
};

static const struct figure figures[] = {
    { "delta_encode", "reading both tensors", 0.15, encode, read_both },
    { "delta_encode_steps", "xor, ZSTD_compress at level 1, XXH3-128", 2, encode, encode_steps },
    { "delta_decode", "reading both tensors", 0.2, decode, read_both },
    { "delta_decode_steps", "ZSTD_decompress, xor, XXH3-128", 2, decode, decode_steps },
    { "delta_publish", "reading both files", 0.35, publish, read_files },
    { "delta_apply", "copying the file", 0.4, apply, copy_file },
};

static int measure(const struct figure *figure)
{
    struct ratio ratio = { .name = figure->name,
                           .unit = "GB/s per core",
                           .anchor = figure->anchor,
                           .target = figure->target };
    (void)figure->ours();
    (void)figure->theirs();
    for (unsigned i = 0; i < PAIRS; i++) {
        double ours = figure->ours();
        double theirs = figure->theirs();
        ratio_add(&ratio, DATA_BYTES / 1e9 / ours, DATA_BYTES / 1e9 / theirs);
    }
    return ratio_print(&ratio);
}

int main(void)
{
    int missed = 0;
    alarm(RUN_SECONDS_MAX);
    old = aligned_alloc(4096, DATA_BYTES);
    now = aligned_alloc(4096, DATA_BYTES);
    work = aligned_alloc(4096, DATA_BYTES);
    frame_capacity = ZSTD_compressBound(DATA_BYTES);
    frame = malloc(frame_capacity);
    must_be(old != NULL && now != NULL && work != NULL && frame != NULL, "out of memory");
    fill();
    make_directories();
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        missed |= measure(&figures[i]);
    }
    ratio_remove(dir);
    return missed;
}
