/* decoder.c -- a frame unpacked piece by piece: xor needs one reader of it, overwrite two, one at
 * the positions and one at the values. */
#include "transport/delta/decoder.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_getFrameHeader(). */
#include <zstd.h>

#include "transport/delta/checksum.h"
#include "transport/delta/diff_kernel.h"

enum {
    WINDOW_LOG_MAX = 27, /* What the format's other readers take. */
    CURSOR_BYTES = 32 << 10,
    COUNT_BYTES = 4,
    POSITION_BYTES = 4
};

/* A place in the unpacked payload. */
struct cursor {
    ZSTD_DCtx *zstd;
    ZSTD_inBuffer in;
    bool ended; /* The frame's last byte was unpacked. */
    size_t at;  /* In 'bytes'. */
    size_t filled;
    uint8_t bytes[CURSOR_BYTES];
};

struct delta_decoder {
    enum delta_encoding encoding;
    uint64_t tensor_bytes;
    uint64_t done;
    struct delta_summer summer;
    const struct diff_kernel *kernel;
    struct cursor first;  /* Xor: the payload.  Overwrite: the positions. */
    struct cursor second; /* Overwrite: the values. */
    uint64_t changes_left;
    uint64_t position; /* Of the next change; UINT64_MAX: none is left. */
    uint8_t x[DELTA_PIECE_BYTES];
};

BATON_PRINTF(1, 2) static struct baton_status malformed(const char *fmt, ...)
{
    char text[160];
    va_list arguments;
    va_start(arguments, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, arguments);
    va_end(arguments);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED, "%s", text);
}

static struct baton_status damaged(size_t code)
{
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED, "zstd frame: %s",
                             ZSTD_getErrorName(code));
}

struct delta_decoder *delta_decoder_create(void)
{
    /* The running digest wants more alignment than calloc() gives; the size is a multiple of it. */
    struct delta_decoder *decoder = aligned_alloc(_Alignof(struct delta_decoder), sizeof(*decoder));
    if (decoder == NULL) {
        return NULL;
    }
    memset(decoder, 0, sizeof(*decoder));
    decoder->kernel = delta_kernel();
    decoder->first.zstd = ZSTD_createDCtx();
    decoder->second.zstd = ZSTD_createDCtx();
    if (decoder->first.zstd == NULL || decoder->second.zstd == NULL) {
        delta_decoder_destroy(decoder);
        return NULL;
    }
    (void)ZSTD_DCtx_setParameter(decoder->first.zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    (void)ZSTD_DCtx_setParameter(decoder->second.zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
    return decoder;
}

void delta_decoder_destroy(struct delta_decoder *decoder)
{
    if (decoder != NULL) {
        (void)ZSTD_freeDCtx(decoder->first.zstd);
        (void)ZSTD_freeDCtx(decoder->second.zstd);
        free(decoder);
    }
}

/* One frame, nothing else, whose payload has the size that its header says. */
static struct baton_status check_frame(struct baton_bytes frame, uint64_t *payload)
{
    ZSTD_frameHeader header;
    size_t code = ZSTD_getFrameHeader(&header, frame.data, frame.size);
    if (ZSTD_isError(code) || code != 0) {
        return malformed("not a zstd frame%s", code != 0 && !ZSTD_isError(code) ? ": cut" : "");
    }
    if (header.frameType != ZSTD_frame) {
        return malformed("a skippable zstd frame");
    }
    if (header.dictID != 0) {
        return malformed("a zstd frame that needs dictionary %u", header.dictID);
    }
    if (header.frameContentSize == ZSTD_CONTENTSIZE_UNKNOWN) {
        return malformed("a zstd frame without its content's size");
    }
    if (header.windowSize > UINT64_C(1) << WINDOW_LOG_MAX) {
        return malformed("a zstd window of %llu bytes; at most 128 MiB are taken",
                         header.windowSize);
    }
    size_t frame_bytes = ZSTD_findFrameCompressedSize(frame.data, frame.size);
    if (ZSTD_isError(frame_bytes)) {
        return malformed("zstd frame: %s", ZSTD_getErrorName(frame_bytes));
    }
    if (frame_bytes != frame.size) {
        return malformed("%zu bytes follow the zstd frame", frame.size - frame_bytes);
    }
    *payload = header.frameContentSize;
    return baton_status_ok();
}

static struct baton_status cursor_open(struct cursor *cursor, struct baton_bytes frame)
{
    size_t code = ZSTD_DCtx_reset(cursor->zstd, ZSTD_reset_session_only);
    cursor->in = (ZSTD_inBuffer){ frame.data, frame.size, 0 };
    cursor->ended = false;
    cursor->at = 0;
    cursor->filled = 0;
    return ZSTD_isError(code) ? damaged(code) : baton_status_ok();
}

/* Unpacks at most 'size' bytes, at least one unless the frame is at its end. */
static struct baton_status unpack(struct cursor *cursor, uint8_t *out, size_t size, size_t *got)
{
    ZSTD_outBuffer to = { out, size, 0 };
    while (to.pos < size && !cursor->ended) {
        size_t before = to.pos + cursor->in.pos;
        size_t code = ZSTD_decompressStream(cursor->zstd, &to, &cursor->in);
        if (ZSTD_isError(code)) {
            return damaged(code);
        }
        if (code != 0 && to.pos + cursor->in.pos == before) {
            return malformed("the zstd frame is cut");
        }
        cursor->ended = code == 0;
    }
    *got = to.pos;
    return baton_status_ok();
}

static struct baton_status unpack_all(struct cursor *cursor, uint8_t *out, size_t size)
{
    size_t got = 0;
    struct baton_status st = unpack(cursor, out, size, &got);
    if (baton_ok(&st) && got < size) {
        return malformed("the payload is shorter than its frame says");
    }
    return st;
}

/* The next 'size' bytes (a few) of the payload, through the cursor's buffer. */
static struct baton_status cursor_take(struct cursor *cursor, size_t size, const uint8_t **out)
{
    if (cursor->filled - cursor->at < size) {
        size_t got = 0;
        size_t kept = cursor->filled - cursor->at;
        memmove(cursor->bytes, cursor->bytes + cursor->at, kept);
        struct baton_status st =
            unpack(cursor, cursor->bytes + kept, sizeof(cursor->bytes) - kept, &got);
        cursor->at = 0;
        cursor->filled = kept + got;
        if (!baton_ok(&st)) {
            return st;
        }
        if (cursor->filled < size) {
            return malformed("the payload is shorter than its frame says");
        }
    }
    *out = cursor->bytes + cursor->at;
    cursor->at += size;
    return baton_status_ok();
}

static struct baton_status cursor_skip(struct cursor *cursor, uint64_t size)
{
    struct baton_status st = baton_status_ok();
    const uint8_t *skipped;
    while (baton_ok(&st) && size > 0) {
        size_t now = size < CURSOR_BYTES ? (size_t)size : CURSOR_BYTES;
        st = cursor_take(cursor, now, &skipped);
        size -= now;
    }
    return st;
}

static uint32_t u32le(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

/* Moves on to the next change; they ascend and lie within the tensor. */
static struct baton_status next_position(struct delta_decoder *decoder, bool is_first)
{
    const uint8_t *from;
    if (decoder->changes_left == 0) {
        decoder->position = UINT64_MAX;
        return baton_status_ok();
    }
    struct baton_status st = cursor_take(&decoder->first, POSITION_BYTES, &from);
    if (!baton_ok(&st)) {
        return st;
    }
    uint32_t position = u32le(from);
    if (position >= decoder->tensor_bytes) {
        return malformed("position %u lies past the tensor's %llu bytes", position,
                         (unsigned long long)decoder->tensor_bytes);
    }
    if (!is_first && position <= decoder->position) {
        return malformed("position %u follows %llu: they must ascend", position,
                         (unsigned long long)decoder->position);
    }
    decoder->position = position;
    decoder->changes_left--;
    return st;
}

static struct baton_status begin_overwrite(struct delta_decoder *decoder, struct baton_bytes frame,
                                           uint64_t payload)
{
    const uint8_t *from = NULL;
    uint64_t count = payload < COUNT_BYTES ? 0 : (payload - COUNT_BYTES) / (POSITION_BYTES + 1);
    if (decoder->tensor_bytes > DELTA_OVERWRITE_TENSOR_BYTES_MAX ||
        payload != COUNT_BYTES + count * (POSITION_BYTES + 1) || count > decoder->tensor_bytes) {
        return malformed("an overwrite payload of %llu bytes does not fit a tensor of %llu",
                         (unsigned long long)payload, (unsigned long long)decoder->tensor_bytes);
    }
    struct baton_status st = cursor_take(&decoder->first, COUNT_BYTES, &from);
    if (baton_ok(&st) && u32le(from) != count) {
        return malformed("the payload counts %u changes, its size says %llu", u32le(from),
                         (unsigned long long)count);
    }
    decoder->changes_left = count;
    if (baton_ok(&st)) {
        st = cursor_open(&decoder->second, frame);
    }
    if (baton_ok(&st)) {
        st = cursor_skip(&decoder->second, COUNT_BYTES + count * POSITION_BYTES);
    }
    return baton_ok(&st) ? next_position(decoder, true) : st;
}

struct baton_status delta_decoder_begin(struct delta_decoder *decoder, enum delta_encoding encoding,
                                        enum delta_checksum checksum, struct baton_bytes frame,
                                        uint64_t tensor_bytes)
{
    uint64_t payload = 0;
    decoder->encoding = encoding;
    decoder->tensor_bytes = tensor_bytes;
    decoder->done = 0;
    delta_summer_init(&decoder->summer, checksum);
    struct baton_status st = check_frame(frame, &payload);
    if (baton_ok(&st)) {
        st = cursor_open(&decoder->first, frame);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (encoding == DELTA_ENCODING_OVERWRITE) {
        return begin_overwrite(decoder, frame, payload);
    }
    if (payload != tensor_bytes) {
        return malformed("an xor payload of %llu bytes for a tensor of %llu",
                         (unsigned long long)payload, (unsigned long long)tensor_bytes);
    }
    return st;
}

static struct baton_status next_overwrite(struct delta_decoder *decoder, uint8_t *bytes,
                                          size_t size)
{
    const uint8_t *value;
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && decoder->position < decoder->done + size) {
        st = cursor_take(&decoder->second, 1, &value);
        if (baton_ok(&st)) {
            bytes[decoder->position - decoder->done] = *value;
            st = next_position(decoder, false);
        }
    }
    return st;
}

struct baton_status delta_decoder_next(struct delta_decoder *decoder, uint8_t *bytes, size_t size)
{
    baton_assert(size <= decoder->tensor_bytes - decoder->done);
    struct baton_status st = baton_status_ok();
    while (baton_ok(&st) && size > 0) {
        size_t piece = size < DELTA_PIECE_BYTES ? size : DELTA_PIECE_BYTES;
        if (decoder->encoding == DELTA_ENCODING_OVERWRITE) {
            st = next_overwrite(decoder, bytes, piece);
        } else {
            st = unpack_all(&decoder->first, decoder->x, piece);
            decoder->kernel->patch(bytes, decoder->x, baton_ok(&st) ? piece : 0);
        }
        delta_summer_add(&decoder->summer, (struct baton_bytes){ bytes, piece });
        decoder->done += piece;
        bytes += piece;
        size -= piece;
    }
    return st;
}

/* Nothing is left of the payload; its last block may still have to be closed. */
static struct baton_status check_end(struct cursor *cursor)
{
    uint8_t more = 0;
    size_t got = 0;
    if (cursor->filled > cursor->at) {
        return malformed("the payload is longer than its frame says");
    }
    struct baton_status st = unpack(cursor, &more, sizeof(more), &got);
    if (baton_ok(&st) && (got != 0 || cursor->in.pos != cursor->in.size)) {
        return malformed("the payload is longer than its frame says");
    }
    return st;
}

struct baton_status delta_decoder_finish(struct delta_decoder *decoder, const char *checksum)
{
    char found[DELTA_CHECKSUM_TEXT_BYTES];
    baton_assert(decoder->done == decoder->tensor_bytes);
    struct baton_status st = check_end(
        decoder->encoding == DELTA_ENCODING_OVERWRITE ? &decoder->second : &decoder->first);
    if (!baton_ok(&st)) {
        return st;
    }
    delta_summer_finish(&decoder->summer, found);
    if (strcmp(found, checksum) != 0) {
        st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH,
                               "%s of the new bytes is %.64s, the version says %.64s",
                               delta_checksum_name(decoder->summer.kind), found, checksum);
        return baton_status_hint(st, "the base is not the one that the delta was made from, or the "
                                     "delta is damaged");
    }
    return st;
}
