/* local_protocol.c -- the codec of local_protocol.h: one function for each kind of body. */
#include "api/client/local_protocol.h"

#include <stdio.h>
#include <string.h>

#include "api/client/baton.h"

/* Reads the members of a body and remembers which failed first. */
struct fields {
    struct baton_reader reader;
    const char *failed; /* Name of the first field that is wrong, or null. */
};

static const char *const kind_names[LOCAL_KIND_END] = {
    [LOCAL_KIND_HELLO] = "HELLO",
    [LOCAL_KIND_WELCOME] = "WELCOME",
    [LOCAL_KIND_PING] = "PING",
    [LOCAL_KIND_PONG] = "PONG",
    [LOCAL_KIND_ASK_INFO] = "ASK_INFO",
    [LOCAL_KIND_INFO] = "INFO",
    [LOCAL_KIND_PUBLISH_DIRECTORY] = "PUBLISH_DIRECTORY",
    [LOCAL_KIND_PUBLISH_BEGIN] = "PUBLISH_BEGIN",
    [LOCAL_KIND_ACCEPTED] = "ACCEPTED",
    [LOCAL_KIND_SEGMENT] = "SEGMENT",
    [LOCAL_KIND_TENSOR] = "TENSOR",
    [LOCAL_KIND_FILE] = "FILE",
    [LOCAL_KIND_DATA] = "DATA",
    [LOCAL_KIND_COMMIT] = "COMMIT",
    [LOCAL_KIND_CANCEL] = "CANCEL",
    [LOCAL_KIND_PROGRESS] = "PROGRESS",
    [LOCAL_KIND_RESULT] = "RESULT",
    [LOCAL_KIND_OPERATE] = "OPERATE",
    [LOCAL_KIND_OPERATED] = "OPERATED",
};

static const char *const phase_names[] = {
    "working", "queued", "sending", "copying", "sealing", "announcing",
};

const char *local_kind_name(enum local_kind kind)
{
    return kind >= LOCAL_KIND_HELLO && kind < LOCAL_KIND_END ? kind_names[kind] : "?";
}

const char *local_phase_name(uint32_t phase)
{
    size_t count = sizeof(phase_names) / sizeof(phase_names[0]);
    return phase < count ? phase_names[phase] : phase_names[0];
}

/* --- text --- */

/* Bytes of the UTF-8 sequence that this byte begins; 0 for a byte that begins none. */
static size_t sequence_bytes(uint8_t first)
{
    if (first < 0x80) {
        return first >= 0x20 && first != 0x7f ? 1 : 0;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        return 3;
    }
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF. */
static bool is_second_byte(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0: return second >= 0xa0 && second <= 0xbf;
    case 0xed: return second >= 0x80 && second <= 0x9f;
    case 0xf0: return second >= 0x90 && second <= 0xbf;
    case 0xf4: return second >= 0x80 && second <= 0x8f;
    default: return second >= 0x80 && second <= 0xbf;
    }
}

bool local_text_is_valid(struct baton_bytes bytes)
{
    size_t at = 0;
    while (at < bytes.size) {
        const uint8_t *here = bytes.data + at;
        size_t size = sequence_bytes(here[0]);
        if (size == 0 || size > bytes.size - at) {
            return false;
        }
        if (size > 1 && !is_second_byte(here[0], here[1])) {
            return false;
        }
        for (size_t i = 2; i < size; i++) {
            if (here[i] < 0x80 || here[i] > 0xbf) {
                return false;
            }
        }
        at += size;
    }
    return true;
}

/* --- reading --- */

static void fail(struct fields *in, const char *field)
{
    if (in->failed == NULL) {
        in->failed = field;
    }
}

static void check(struct fields *in, const char *field)
{
    if (in->reader.failed) {
        fail(in, field);
    }
}

static uint32_t take_u32(struct fields *in, const char *field)
{
    uint32_t value = baton_read_u32le(&in->reader);
    check(in, field);
    return value;
}

static uint64_t take_u64(struct fields *in, const char *field)
{
    uint64_t value = baton_read_u64le(&in->reader);
    check(in, field);
    return value;
}

static bool take_bool(struct fields *in, const char *field)
{
    uint8_t value = baton_read_u8(&in->reader);
    check(in, field);
    if (value > 1) {
        fail(in, field);
    }
    return value == 1;
}

/* Text of at most 'out_bytes' - 1 bytes. */
static void take_text(struct fields *in, const char *field, char *out, size_t out_bytes)
{
    struct baton_bytes text = baton_read_framed(&in->reader, out_bytes - 1);
    check(in, field);
    if (in->failed != NULL || !local_text_is_valid(text)) {
        fail(in, field);
        out[0] = '\0';
        return;
    }
    memcpy(out, text.data == NULL ? (const uint8_t *)"" : text.data, text.size);
    out[text.size] = '\0';
}

static void need_text(struct fields *in, const char *field, char *out, size_t out_bytes)
{
    take_text(in, field, out, out_bytes);
    if (out[0] == '\0') {
        fail(in, field);
    }
}

static void decode_hello(struct fields *in, struct local_hello *out)
{
    out->magic = take_u32(in, "magic");
    out->version_min = take_u32(in, "version_min");
    out->version_max = take_u32(in, "version_max");
    take_text(in, "client", out->client, sizeof(out->client));
    if (out->magic != LOCAL_MAGIC) {
        fail(in, "magic");
    }
    if (out->version_min == 0 || out->version_min > out->version_max) {
        fail(in, "version_min");
    }
}

static void decode_welcome(struct fields *in, struct local_welcome *out)
{
    out->version = take_u32(in, "version");
    out->takes_segments = take_bool(in, "takes_segments");
    take_text(in, "agent", out->agent, sizeof(out->agent));
    take_text(in, "software", out->software, sizeof(out->software));
}

static void decode_info(struct fields *in, struct local_info *out)
{
    out->connected = take_bool(in, "connected");
    out->publishing = take_u32(in, "publishing");
    take_text(in, "agent", out->agent, sizeof(out->agent));
    take_text(in, "software", out->software, sizeof(out->software));
    take_text(in, "controller", out->controller, sizeof(out->controller));
    take_text(in, "directory", out->directory, sizeof(out->directory));
}

static void decode_publish(struct fields *in, enum local_kind kind, struct local_publish *out)
{
    need_text(in, "model", out->model, sizeof(out->model));
    need_text(in, "request_id", out->request_id, sizeof(out->request_id));
    out->optimizer_step = take_u64(in, "optimizer_step");
    out->rollout_iteration = take_u64(in, "rollout_iteration");
    out->samples_trained = take_u64(in, "samples_trained");
    out->parent_seq = take_u64(in, "parent_seq");
    out->bytes_expected = take_u64(in, "bytes_expected");
    out->partial = take_bool(in, "partial");
    take_text(in, "reason", out->reason, sizeof(out->reason));
    take_text(in, "requested_by", out->requested_by, sizeof(out->requested_by));
    take_text(in, "directory", out->directory, sizeof(out->directory));
    bool wants_directory = kind == LOCAL_KIND_PUBLISH_DIRECTORY;
    if (wants_directory ? out->directory[0] != '/' : out->directory[0] != '\0') {
        fail(in, "directory");
    }
}

static void decode_entry(struct fields *in, enum local_kind kind, struct local_entry *out)
{
    out->is_inline = take_bool(in, "is_inline");
    need_text(in, "name", out->name, sizeof(out->name));
    memset(out->dims, 0, sizeof(out->dims));
    out->dtype[0] = '\0';
    out->rank = 0;
    if (kind == LOCAL_KIND_TENSOR) {
        need_text(in, "dtype", out->dtype, sizeof(out->dtype));
        out->rank = take_u32(in, "rank");
        if (out->rank > BATON_TENSOR_RANK_MAX) {
            fail(in, "rank");
            return;
        }
        for (uint32_t i = 0; i < out->rank; i++) {
            out->dims[i] = take_u64(in, "dims");
        }
    }
    out->bytes = take_u64(in, "bytes");
    out->offset = take_u64(in, "offset");
    if (out->offset > UINT64_MAX - out->bytes) {
        fail(in, "offset");
    }
}

static void decode_progress(struct fields *in, struct local_progress *out)
{
    out->phase = take_u32(in, "phase");
    out->bytes_done = take_u64(in, "bytes_done");
    out->bytes_total = take_u64(in, "bytes_total");
    out->bytes_per_s = take_u64(in, "bytes_per_s");
    take_text(in, "detail", out->detail, sizeof(out->detail));
}

static void decode_result(struct fields *in, struct local_result *out)
{
    out->code = take_u32(in, "code");
    if (out->code > BATON_UNAUTHENTICATED) {
        fail(in, "code");
    }
    take_text(in, "reason", out->reason, sizeof(out->reason));
    take_text(in, "message", out->message, sizeof(out->message));
    take_text(in, "hint", out->hint, sizeof(out->hint));
    out->repeated = take_bool(in, "repeated");
    take_text(in, "model", out->model, sizeof(out->model));
    out->seq = take_u64(in, "seq");
    take_text(in, "uid", out->uid, sizeof(out->uid));
    take_text(in, "digest", out->digest, sizeof(out->digest));
    out->bytes = take_u64(in, "bytes");
    out->bytes_carried = take_u64(in, "bytes_carried");
    out->tensors = take_u64(in, "tensors");
    out->files = take_u64(in, "files");
    take_text(in, "directory", out->directory, sizeof(out->directory));
}

static void decode_operate(struct fields *in, struct local_operate *out)
{
    need_text(in, "verb", out->verb, sizeof(out->verb));
    take_text(in, "group", out->group, sizeof(out->group));
    take_text(in, "by", out->by, sizeof(out->by));
}

static void decode_data(struct fields *in, struct baton_bytes *out)
{
    *out = in->reader.left;
    in->reader.left = (struct baton_bytes){ NULL, 0 };
    if (out->size == 0) {
        fail(in, "data");
    }
}

static void decode_body(struct fields *in, struct local_message *out)
{
    switch (out->kind) {
    case LOCAL_KIND_HELLO: decode_hello(in, &out->as.hello); break;
    case LOCAL_KIND_WELCOME: decode_welcome(in, &out->as.welcome); break;
    case LOCAL_KIND_PING:
    case LOCAL_KIND_PONG: out->as.token = take_u64(in, "token"); break;
    case LOCAL_KIND_INFO: decode_info(in, &out->as.info); break;
    case LOCAL_KIND_PUBLISH_DIRECTORY:
    case LOCAL_KIND_PUBLISH_BEGIN: decode_publish(in, out->kind, &out->as.publish); break;
    case LOCAL_KIND_SEGMENT: out->as.segment.bytes = take_u64(in, "bytes"); break;
    case LOCAL_KIND_TENSOR:
    case LOCAL_KIND_FILE: decode_entry(in, out->kind, &out->as.entry); break;
    case LOCAL_KIND_DATA: decode_data(in, &out->as.data); break;
    case LOCAL_KIND_PROGRESS: decode_progress(in, &out->as.progress); break;
    case LOCAL_KIND_RESULT: decode_result(in, &out->as.result); break;
    case LOCAL_KIND_OPERATE: decode_operate(in, &out->as.operate); break;
    case LOCAL_KIND_OPERATED:
        need_text(in, "text", out->as.operated.text, sizeof(out->as.operated.text));
        break;
    case LOCAL_KIND_ASK_INFO:
    case LOCAL_KIND_ACCEPTED:
    case LOCAL_KIND_COMMIT:
    case LOCAL_KIND_CANCEL: break;
    case LOCAL_KIND_END: fail(in, "kind"); break;
    }
}

struct baton_status local_message_decode(enum local_kind kind, struct baton_bytes body,
                                         struct local_message *out)
{
    struct fields in = { .reader = baton_reader_of(body), .failed = NULL };
    out->kind = kind;
    decode_body(&in, out);
    if (in.failed != NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT,
                                 in.reader.failed ? BATON_REASON_MALFORMED : BATON_REASON_BAD_FIELD,
                                 "%s: field '%s' is wrong", local_kind_name(kind), in.failed);
    }
    if (in.reader.left.size != 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "%s: %zu bytes too many", local_kind_name(kind),
                                 in.reader.left.size);
    }
    return baton_status_ok();
}

struct baton_status local_header_decode(const uint8_t bytes[LOCAL_HEADER_BYTES],
                                        struct local_header *out)
{
    struct baton_reader reader = baton_reader_of((struct baton_bytes){ bytes, LOCAL_HEADER_BYTES });
    uint32_t size = baton_read_u32le(&reader);
    uint8_t kind = baton_read_u8(&reader);
    bool is_zero = bytes[5] == 0 && bytes[6] == 0 && bytes[7] == 0;
    if (kind < LOCAL_KIND_HELLO || kind >= LOCAL_KIND_END || !is_zero) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "not a frame of this protocol (kind %u)", kind);
    }
    size_t limit = kind == LOCAL_KIND_DATA ? LOCAL_DATA_BYTES_MAX
                                           : LOCAL_MESSAGE_BYTES_MAX - LOCAL_HEADER_BYTES;
    if (size > limit) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%s: a body of %u bytes, the limit is %zu",
                                 local_kind_name((enum local_kind)kind), size, limit);
    }
    out->kind = (enum local_kind)kind;
    out->body_bytes = size;
    return baton_status_ok();
}

/* --- writing --- */

static void put_text(struct baton_writer *out, const char *text)
{
    baton_write_framed(out, baton_bytes_of(text));
}

static void encode_hello(struct baton_writer *out, const struct local_hello *hello)
{
    baton_write_u32le(out, hello->magic);
    baton_write_u32le(out, hello->version_min);
    baton_write_u32le(out, hello->version_max);
    put_text(out, hello->client);
}

static void encode_welcome(struct baton_writer *out, const struct local_welcome *welcome)
{
    baton_write_u32le(out, welcome->version);
    baton_write_u8(out, welcome->takes_segments);
    put_text(out, welcome->agent);
    put_text(out, welcome->software);
}

static void encode_info(struct baton_writer *out, const struct local_info *info)
{
    baton_write_u8(out, info->connected);
    baton_write_u32le(out, info->publishing);
    put_text(out, info->agent);
    put_text(out, info->software);
    put_text(out, info->controller);
    put_text(out, info->directory);
}

static void encode_publish(struct baton_writer *out, const struct local_publish *publish)
{
    put_text(out, publish->model);
    put_text(out, publish->request_id);
    baton_write_u64le(out, publish->optimizer_step);
    baton_write_u64le(out, publish->rollout_iteration);
    baton_write_u64le(out, publish->samples_trained);
    baton_write_u64le(out, publish->parent_seq);
    baton_write_u64le(out, publish->bytes_expected);
    baton_write_u8(out, publish->partial);
    put_text(out, publish->reason);
    put_text(out, publish->requested_by);
    put_text(out, publish->directory);
}

static void encode_entry(struct baton_writer *out, enum local_kind kind,
                         const struct local_entry *entry)
{
    baton_write_u8(out, entry->is_inline);
    put_text(out, entry->name);
    if (kind == LOCAL_KIND_TENSOR) {
        put_text(out, entry->dtype);
        baton_write_u32le(out, entry->rank);
        for (uint32_t i = 0; i < entry->rank; i++) {
            baton_write_u64le(out, entry->dims[i]);
        }
    }
    baton_write_u64le(out, entry->bytes);
    baton_write_u64le(out, entry->offset);
}

static void encode_progress(struct baton_writer *out, const struct local_progress *progress)
{
    baton_write_u32le(out, progress->phase);
    baton_write_u64le(out, progress->bytes_done);
    baton_write_u64le(out, progress->bytes_total);
    baton_write_u64le(out, progress->bytes_per_s);
    put_text(out, progress->detail);
}

static void encode_result(struct baton_writer *out, const struct local_result *result)
{
    baton_write_u32le(out, result->code);
    put_text(out, result->reason);
    put_text(out, result->message);
    put_text(out, result->hint);
    baton_write_u8(out, result->repeated);
    put_text(out, result->model);
    baton_write_u64le(out, result->seq);
    put_text(out, result->uid);
    put_text(out, result->digest);
    baton_write_u64le(out, result->bytes);
    baton_write_u64le(out, result->bytes_carried);
    baton_write_u64le(out, result->tensors);
    baton_write_u64le(out, result->files);
    put_text(out, result->directory);
}

static void encode_body(struct baton_writer *out, const struct local_message *message)
{
    switch (message->kind) {
    case LOCAL_KIND_HELLO: encode_hello(out, &message->as.hello); break;
    case LOCAL_KIND_WELCOME: encode_welcome(out, &message->as.welcome); break;
    case LOCAL_KIND_PING:
    case LOCAL_KIND_PONG: baton_write_u64le(out, message->as.token); break;
    case LOCAL_KIND_INFO: encode_info(out, &message->as.info); break;
    case LOCAL_KIND_PUBLISH_DIRECTORY:
    case LOCAL_KIND_PUBLISH_BEGIN: encode_publish(out, &message->as.publish); break;
    case LOCAL_KIND_SEGMENT: baton_write_u64le(out, message->as.segment.bytes); break;
    case LOCAL_KIND_TENSOR:
    case LOCAL_KIND_FILE: encode_entry(out, message->kind, &message->as.entry); break;
    case LOCAL_KIND_PROGRESS: encode_progress(out, &message->as.progress); break;
    case LOCAL_KIND_RESULT: encode_result(out, &message->as.result); break;
    case LOCAL_KIND_OPERATE:
        put_text(out, message->as.operate.verb);
        put_text(out, message->as.operate.group);
        put_text(out, message->as.operate.by);
        break;
    case LOCAL_KIND_OPERATED: put_text(out, message->as.operated.text); break;
    case LOCAL_KIND_DATA: /* Its bytes go without this copy. */
    case LOCAL_KIND_ASK_INFO:
    case LOCAL_KIND_ACCEPTED:
    case LOCAL_KIND_COMMIT:
    case LOCAL_KIND_CANCEL:
    case LOCAL_KIND_END: break;
    }
}

size_t local_message_encode(const struct local_message *message, uint8_t *out)
{
    struct baton_writer body =
        baton_writer_of(out + LOCAL_HEADER_BYTES, LOCAL_MESSAGE_BYTES_MAX - LOCAL_HEADER_BYTES);
    encode_body(&body, message);
    /* Holds by the sizes of the structs: the largest (an OPERATED) is below 13 KiB. */
    baton_assert(baton_writer_ok(&body));
    bool is_data = message->kind == LOCAL_KIND_DATA;
    baton_assert(!is_data || message->as.data.size <= LOCAL_DATA_BYTES_MAX);
    struct baton_writer header = baton_writer_of(out, LOCAL_HEADER_BYTES);
    baton_write_u32le(&header, (uint32_t)(is_data ? message->as.data.size : body.size));
    baton_write_u32le(&header, (uint32_t)message->kind);
    return LOCAL_HEADER_BYTES + body.size;
}

/* --- results --- */

/* Copies text of ours so that the other side takes it: cut to size, odd bytes become '?'. */
static void copy_clean(char *out, size_t out_bytes, const char *text)
{
    (void)snprintf(out, out_bytes, "%s", text);
    if (local_text_is_valid(baton_bytes_of(out))) {
        return;
    }
    for (char *at = out; *at != '\0'; at++) {
        if (*at < 0x20 || *at > 0x7e) {
            *at = '?';
        }
    }
}

void local_result_from_status(const struct baton_status *st, struct local_result *out)
{
    memset(out, 0, sizeof(*out));
    out->code = (uint32_t)st->code;
    if (!baton_ok(st)) {
        copy_clean(out->reason, sizeof(out->reason), baton_reason_name(st->reason));
        copy_clean(out->message, sizeof(out->message), st->message);
        copy_clean(out->hint, sizeof(out->hint), st->hint);
    }
}

struct baton_status local_result_status(const struct local_result *result)
{
    if (result->code == BATON_OK) {
        return baton_status_ok();
    }
    struct baton_status st =
        baton_status_make((enum baton_code)result->code, baton_reason_from_name(result->reason),
                          "%s", result->message);
    return baton_status_hint(st, "%s", result->hint);
}
