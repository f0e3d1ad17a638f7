/* encoder.c -- marks of changed bytes to zstd blocks, or to positions and values.
 *
 * A frame of blocks that were compressed apart is valid as long as no block refers to one before it
 * (RFC 8878, 3.1.1).  Ours do not: each is the first of a frame of its own, and every match is "the
 * byte before, again", which is the first of the offsets that a decoder starts with and which never
 * leaves its place, since each match has a literal in front. */
#include "transport/delta/encoder.h"

#include <stdlib.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_compressSequences(): stable since 1.5.0. */
#include <zstd.h>

#include "transport/delta/checksum.h"
#include "transport/delta/diff_kernel.h"

enum {
    LEVEL = 1,   /* The level of the format's other writers. */
    RUN_MIN = 8, /* Zeros that are worth a match. */
    MARKS = DELTA_PIECE_BYTES / 64,
    SEQUENCES_MAX = DELTA_PIECE_BYTES / (RUN_MIN + 1) + 2,
    BLOCK_HEADER_BYTES = 3,
    FRAME_HEADER_BYTES_MAX = 14,
    WINDOW_BYTES = 512 << 10, /* As the other writers' level has it. */
    WINDOW_DESCRIPTOR = (19 - 10) << 3,
    FRAME_ROOM_MIN = 64 << 10
};

enum block_type { BLOCK_RAW, BLOCK_RLE, BLOCK_COMPRESSED };

struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

struct delta_encoder {
    enum delta_encoding encoding;
    uint64_t tensor_bytes;
    uint64_t done;
    uint64_t changed;
    struct delta_summer summer;
    const struct diff_kernel *kernel;
    ZSTD_CCtx *blocks; /* For sequences. */
    ZSTD_CCtx *whole;  /* For an overwrite payload. */
    struct buffer frame;
    size_t last_block;     /* Where the newest block's header is in 'frame'. */
    struct buffer payload; /* Overwrite: count and positions, then the values too. */
    struct buffer values;
    uint8_t x[DELTA_PIECE_BYTES]; /* old ^ new of a piece. */
    uint64_t marks[MARKS];
    ZSTD_Sequence sequences[SEQUENCES_MAX];
    uint8_t scratch[DELTA_PIECE_BYTES + 4096]; /* More than ZSTD_compressBound() of a piece. */
};

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "out of memory");
}

static bool make_room(struct buffer *buffer, size_t more)
{
    if (buffer->capacity - buffer->size >= more) {
        return true;
    }
    size_t wanted = buffer->capacity * 2 + FRAME_ROOM_MIN;
    wanted = wanted - buffer->size < more ? buffer->size + more : wanted;
    uint8_t *grown = realloc(buffer->data, wanted);
    if (grown == NULL) {
        return false;
    }
    buffer->data = grown;
    buffer->capacity = wanted;
    return true;
}

/* Into room that is there. */
static void append(struct buffer *buffer, const void *data, size_t size)
{
    if (size > 0) { /* Else there may be no data. */
        memcpy(buffer->data + buffer->size, data, size);
        buffer->size += size;
    }
}

static void append_le(struct buffer *buffer, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        buffer->data[buffer->size++] = (uint8_t)(value >> (8 * i));
    }
}

struct delta_encoder *delta_encoder_create(void)
{
    /* The running digest wants more alignment than calloc() gives; the size is a multiple of it. */
    struct delta_encoder *encoder = aligned_alloc(_Alignof(struct delta_encoder), sizeof(*encoder));
    if (encoder == NULL) {
        return NULL;
    }
    memset(encoder, 0, sizeof(*encoder));
    encoder->kernel = delta_kernel();
    encoder->blocks = ZSTD_createCCtx();
    encoder->whole = ZSTD_createCCtx();
    if (encoder->blocks == NULL || encoder->whole == NULL) {
        delta_encoder_destroy(encoder);
        return NULL;
    }
    /* Small tables: none of them is used, but each is cleared for every block. */
    static const int parameters[][2] = { { ZSTD_c_compressionLevel, LEVEL },
                                         { ZSTD_c_blockDelimiters,
                                           ZSTD_sf_explicitBlockDelimiters },
                                         { ZSTD_c_contentSizeFlag, 0 },
                                         { ZSTD_c_windowLog, 17 },
                                         { ZSTD_c_hashLog, 6 },
                                         { ZSTD_c_strategy, ZSTD_fast } };
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        size_t code = ZSTD_CCtx_setParameter(encoder->blocks, (ZSTD_cParameter)parameters[i][0],
                                             parameters[i][1]);
        baton_assert(!ZSTD_isError(code));
    }
    return encoder;
}

void delta_encoder_destroy(struct delta_encoder *encoder)
{
    if (encoder != NULL) {
        (void)ZSTD_freeCCtx(encoder->blocks);
        (void)ZSTD_freeCCtx(encoder->whole);
        free(encoder->frame.data);
        free(encoder->payload.data);
        free(encoder->values.data);
        free(encoder);
    }
}

/* Magic number, descriptor, window unless the frame is its own window, content size. */
static void write_frame_header(struct buffer *frame, uint64_t content)
{
    bool single = content <= WINDOW_BYTES;
    unsigned form = content > UINT32_MAX     ? 3u
                    : content >= 65536 + 256 ? 2u
                    : content >= 256         ? 1u
                                             : 0u;
    form = !single && form < 2 ? 2 : form;
    append_le(frame, ZSTD_MAGICNUMBER, 4);
    append_le(frame, form << 6 | (unsigned)single << 5, 1);
    if (!single) {
        append_le(frame, WINDOW_DESCRIPTOR, 1);
    }
    append_le(frame, form == 1 ? content - 256 : content, 1u << form);
}

struct baton_status delta_encoder_begin(struct delta_encoder *encoder, enum delta_encoding encoding,
                                        enum delta_checksum checksum, uint64_t tensor_bytes)
{
    if (encoding == DELTA_ENCODING_OVERWRITE && tensor_bytes > DELTA_OVERWRITE_TENSOR_BYTES_MAX) {
        struct baton_status st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                                   "%llu bytes: overwrite has 32-bit positions",
                                                   (unsigned long long)tensor_bytes);
        return baton_status_hint(st, "encode with xor");
    }
    encoder->encoding = encoding;
    encoder->tensor_bytes = tensor_bytes;
    encoder->done = 0;
    encoder->changed = 0;
    encoder->frame.size = 0;
    encoder->payload.size = 0;
    encoder->values.size = 0;
    delta_summer_init(&encoder->summer, checksum);
    if (!make_room(&encoder->frame, FRAME_HEADER_BYTES_MAX) || !make_room(&encoder->payload, 4)) {
        return no_memory();
    }
    if (encoding == DELTA_ENCODING_XOR) {
        write_frame_header(&encoder->frame, tensor_bytes);
    } else {
        append_le(&encoder->payload, 0, 4);
    }
    return baton_status_ok();
}

/* A block's header and its bytes. */
static struct baton_status add_block(struct delta_encoder *encoder, enum block_type type,
                                     size_t header_size, struct baton_bytes body)
{
    if (!make_room(&encoder->frame, BLOCK_HEADER_BYTES + body.size)) {
        return no_memory();
    }
    encoder->last_block = encoder->frame.size;
    append_le(&encoder->frame, (uint64_t)type << 1 | (uint64_t)header_size << 3,
              BLOCK_HEADER_BYTES);
    append(&encoder->frame, body.data, body.size);
    return baton_status_ok();
}

/* Takes the blocks out of a frame of zstd's. */
static struct baton_status add_blocks_of(struct delta_encoder *encoder, size_t frame_bytes)
{
    const uint8_t *data = encoder->scratch;
    size_t at = ZSTD_frameHeaderSize(data, frame_bytes);
    bool is_last = ZSTD_isError(at);
    while (!is_last && at + BLOCK_HEADER_BYTES <= frame_bytes) {
        uint32_t header = data[at] | (uint32_t)data[at + 1] << 8 | (uint32_t)data[at + 2] << 16;
        enum block_type type = (enum block_type)(header >> 1 & 3);
        size_t size = type == BLOCK_RLE ? 1 : header >> 3;
        baton_assert(at + BLOCK_HEADER_BYTES + size <= frame_bytes);
        struct baton_status st =
            add_block(encoder, type, header >> 3,
                      (struct baton_bytes){ data + at + BLOCK_HEADER_BYTES, size });
        if (!baton_ok(&st)) {
            return st;
        }
        at += BLOCK_HEADER_BYTES + size;
        is_last = (header & 1) != 0;
    }
    baton_assert(at == frame_bytes);
    return baton_status_ok();
}

/* Literals up to and with the first zero of a run, then the rest of the run as a match. */
static size_t find_sequences(struct delta_encoder *encoder, size_t size)
{
    ZSTD_Sequence *out = encoder->sequences;
    size_t count = 0;
    size_t taken = 0; /* Bytes that have a sequence. */
    size_t end = 0;   /* After the newest changed byte. */
    for (size_t word = 0; word <= size / 64; word++) {
        uint64_t marks = word * 64 < size ? encoder->marks[word] : 0;
        while (marks != 0) {
            size_t at = word * 64 + (size_t)__builtin_ctzll(marks);
            marks &= marks - 1;
            if (at - end >= RUN_MIN) {
                out[count++] = (ZSTD_Sequence){ .offset = 1,
                                                .litLength = (unsigned)(end + 1 - taken),
                                                .matchLength = (unsigned)(at - end - 1) };
                taken = at;
            }
            end = at + 1;
        }
    }
    if (size - end >= RUN_MIN) {
        out[count++] = (ZSTD_Sequence){ .offset = 1,
                                        .litLength = (unsigned)(end + 1 - taken),
                                        .matchLength = (unsigned)(size - end - 1) };
        taken = size;
    }
    out[count++] = (ZSTD_Sequence){ .litLength = (unsigned)(size - taken) };
    return count;
}

static struct baton_status add_xor(struct delta_encoder *encoder, size_t size, size_t changed)
{
    static const uint8_t zero = 0;
    if (changed == 0) {
        return add_block(encoder, BLOCK_RLE, size, (struct baton_bytes){ &zero, 1 });
    }
    size_t count = find_sequences(encoder, size);
    size_t made =
        ZSTD_compressSequences(encoder->blocks, encoder->scratch, sizeof(encoder->scratch),
                               encoder->sequences, count, encoder->x, size);
    if (ZSTD_isError(made)) {
        return baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "zstd: %s",
                                 ZSTD_getErrorName(made));
    }
    return add_blocks_of(encoder, made);
}

static struct baton_status add_overwrite(struct delta_encoder *encoder, const uint8_t *now,
                                         size_t size, size_t changed)
{
    if (!make_room(&encoder->payload, changed * 4) || !make_room(&encoder->values, changed)) {
        return no_memory();
    }
    for (size_t word = 0; changed > 0 && word * 64 < size; word++) {
        for (uint64_t marks = encoder->marks[word]; marks != 0; marks &= marks - 1) {
            size_t at = word * 64 + (size_t)__builtin_ctzll(marks);
            append_le(&encoder->payload, encoder->done + at, 4);
            encoder->values.data[encoder->values.size++] = now[at];
        }
    }
    return baton_status_ok();
}

struct baton_status delta_encoder_add(struct delta_encoder *encoder, const uint8_t *old,
                                      const uint8_t *now, size_t size)
{
    baton_assert(size <= encoder->tensor_bytes - encoder->done);
    while (size > 0) {
        size_t piece = size < DELTA_PIECE_BYTES ? size : DELTA_PIECE_BYTES;
        size_t changed = encoder->kernel->diff(old, now, piece, encoder->x, encoder->marks);
        delta_summer_add(&encoder->summer, (struct baton_bytes){ now, piece });
        struct baton_status st = encoder->encoding == DELTA_ENCODING_XOR
                                     ? add_xor(encoder, piece, changed)
                                     : add_overwrite(encoder, now, piece, changed);
        if (!baton_ok(&st)) {
            return st;
        }
        encoder->changed += changed;
        encoder->done += piece;
        old += piece;
        now += piece;
        size -= piece;
    }
    return baton_status_ok();
}

static struct baton_status finish_overwrite(struct delta_encoder *encoder)
{
    struct buffer *payload = &encoder->payload;
    uint64_t count = encoder->changed;
    if (count > UINT32_MAX) {
        struct baton_status st = baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
            "%llu changed bytes: overwrite counts them in 32 bits", (unsigned long long)count);
        return baton_status_hint(st, "encode with xor");
    }
    if (!make_room(payload, encoder->values.size)) {
        return no_memory();
    }
    append(payload, encoder->values.data, encoder->values.size);
    for (unsigned i = 0; i < 4; i++) {
        payload->data[i] = (uint8_t)(count >> (8 * i));
    }
    if (!make_room(&encoder->frame, ZSTD_compressBound(payload->size))) {
        return no_memory();
    }
    size_t made = ZSTD_compressCCtx(encoder->whole, encoder->frame.data, encoder->frame.capacity,
                                    payload->data, payload->size, LEVEL);
    if (ZSTD_isError(made)) {
        return baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "zstd: %s",
                                 ZSTD_getErrorName(made));
    }
    encoder->frame.size = made;
    return baton_status_ok();
}

struct baton_status delta_encoder_finish(struct delta_encoder *encoder, struct delta_encoded *out)
{
    baton_assert(encoder->done == encoder->tensor_bytes);
    struct baton_status st = baton_status_ok();
    struct delta_encoded encoded = { .changed_bytes = encoder->changed };
    if (encoder->changed > 0 && encoder->encoding == DELTA_ENCODING_OVERWRITE) {
        st = finish_overwrite(encoder);
    } else if (encoder->changed > 0) {
        encoder->frame.data[encoder->last_block] |= 1;
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (encoder->changed > 0) {
        encoded.frame = (struct baton_bytes){ encoder->frame.data, encoder->frame.size };
    }
    delta_summer_finish(&encoder->summer, encoded.checksum);
    *out = encoded;
    return st;
}
