/* client_protocol_test.c -- the codec between libbaton and the agent. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/client/baton.h"
#include "api/client/local_protocol.h"

static void set(char *out, size_t out_bytes, const char *text)
{
    (void)snprintf(out, out_bytes, "%s", text);
}

/* One message of each kind, with every field set. */
static void fill_publish(struct local_publish *publish, bool has_directory)
{
    set(publish->model, sizeof(publish->model), "m-1");
    set(publish->request_id, sizeof(publish->request_id), "r-1");
    publish->optimizer_step = 1;
    publish->rollout_iteration = 2;
    publish->samples_trained = 3;
    publish->parent_seq = 4;
    publish->bytes_expected = UINT64_MAX;
    publish->partial = true;
    set(publish->reason, sizeof(publish->reason), "f\xc3\xbcr den Test");
    set(publish->requested_by, sizeof(publish->requested_by), "me");
    set(publish->directory, sizeof(publish->directory), has_directory ? "/c" : "");
}

static void fill_entry(struct local_entry *entry, enum local_kind kind)
{
    entry->is_inline = true;
    set(entry->name, sizeof(entry->name), "model.embed.weight");
    entry->bytes = 24;
    entry->offset = 64;
    if (kind == LOCAL_KIND_TENSOR) {
        set(entry->dtype, sizeof(entry->dtype), "BF16");
        entry->rank = 2;
        entry->dims[0] = 3;
        entry->dims[1] = 4;
    }
}

static void fill_result(struct local_result *result)
{
    result->code = BATON_NOT_FOUND;
    set(result->reason, sizeof(result->reason), "BAD_FIELD");
    set(result->message, sizeof(result->message), "no such model");
    set(result->hint, sizeof(result->hint), "apply it");
    result->repeated = true;
    set(result->model, sizeof(result->model), "m");
    result->seq = 5;
    set(result->uid, sizeof(result->uid), "u");
    set(result->digest, sizeof(result->digest), "d");
    result->bytes = 6;
    result->bytes_carried = 7;
    result->tensors = 8;
    result->files = 9;
    set(result->directory, sizeof(result->directory), "/v");
}

static void fill_info(struct local_info *info)
{
    info->connected = true;
    info->publishing = 2;
    set(info->agent, sizeof(info->agent), "a");
    set(info->software, sizeof(info->software), "0.1.0");
    set(info->controller, sizeof(info->controller), "c:1");
    set(info->directory, sizeof(info->directory), "/v");
}

static struct local_message example(enum local_kind kind)
{
    struct local_message m;
    memset(&m, 0, sizeof(m));
    m.kind = kind;
    switch (kind) {
    case LOCAL_KIND_HELLO: m.as.hello = (struct local_hello){ LOCAL_MAGIC, 1, 2, "python" }; break;
    case LOCAL_KIND_WELCOME: m.as.welcome = (struct local_welcome){ 1, true, "a", "0.1" }; break;
    case LOCAL_KIND_PING:
    case LOCAL_KIND_PONG: m.as.token = 0x0123456789abcdef; break;
    case LOCAL_KIND_INFO: fill_info(&m.as.info); break;
    case LOCAL_KIND_PUBLISH_DIRECTORY: fill_publish(&m.as.publish, true); break;
    case LOCAL_KIND_PUBLISH_BEGIN: fill_publish(&m.as.publish, false); break;
    case LOCAL_KIND_SEGMENT: m.as.segment.bytes = 4096; break;
    case LOCAL_KIND_TENSOR:
    case LOCAL_KIND_FILE: fill_entry(&m.as.entry, kind); break;
    case LOCAL_KIND_DATA: m.as.data = baton_bytes_of("bytes"); break;
    case LOCAL_KIND_PROGRESS:
        m.as.progress = (struct local_progress){ BATON_PHASE_COPYING, 1, 2, 3, "x" };
        break;
    case LOCAL_KIND_RESULT: fill_result(&m.as.result); break;
    case LOCAL_KIND_OPERATE:
        m.as.operate = (struct local_operate){ "resume", "g0", "root, by hand" };
        break;
    case LOCAL_KIND_OPERATED: set(m.as.operated.text, sizeof(m.as.operated.text), "{}"); break;
    case LOCAL_KIND_ASK_INFO:
    case LOCAL_KIND_ACCEPTED:
    case LOCAL_KIND_COMMIT:
    case LOCAL_KIND_CANCEL:
    case LOCAL_KIND_END: break;
    }
    return m;
}

/* Header and body of an example; DATA's bytes appended as the channel does. */
static size_t encode(const struct local_message *message, uint8_t *out)
{
    size_t size = local_message_encode(message, out);
    if (message->kind == LOCAL_KIND_DATA) {
        memcpy(out + size, message->as.data.data, message->as.data.size);
        size += message->as.data.size;
    }
    return size;
}

static struct baton_status decode(const uint8_t *bytes, size_t size, struct local_message *out)
{
    struct local_header header;
    struct baton_status st = local_header_decode(bytes, &header);
    if (!baton_ok(&st)) {
        return st;
    }
    cr_assert_eq(header.body_bytes, size - LOCAL_HEADER_BYTES);
    struct baton_bytes body = { bytes + LOCAL_HEADER_BYTES, header.body_bytes };
    return local_message_decode(header.kind, body, out);
}

/* Every kind survives the trip, member by member. */
Test(protocol, round_trip)
{
    for (int kind = LOCAL_KIND_HELLO; kind < LOCAL_KIND_END; kind++) {
        struct local_message sent = example((enum local_kind)kind);
        uint8_t bytes[LOCAL_MESSAGE_BYTES_MAX + 16];
        size_t size = encode(&sent, bytes);
        struct local_message got;
        memset(&got, 0, sizeof(got));
        struct baton_status st = decode(bytes, size, &got);
        cr_assert(baton_ok(&st), "%s: %s", local_kind_name(sent.kind), st.message);
        uint8_t again[LOCAL_MESSAGE_BYTES_MAX + 16];
        cr_assert_eq(encode(&got, again), size, "%s", local_kind_name(sent.kind));
        cr_assert_arr_eq(again, bytes, size, "%s", local_kind_name(sent.kind));
        if (sent.kind != LOCAL_KIND_DATA) {
            cr_assert_arr_eq((char *)&got.as, (char *)&sent.as, sizeof(sent.as), "%s",
                             local_kind_name(sent.kind));
        }
    }
}

/* A body that is cut anywhere, or longer than it should be, is refused and never read beyond. */
Test(protocol, cut_and_longer_bodies)
{
    for (int kind = LOCAL_KIND_HELLO; kind < LOCAL_KIND_END; kind++) {
        struct local_message sent = example((enum local_kind)kind);
        uint8_t bytes[LOCAL_MESSAGE_BYTES_MAX + 16];
        size_t body_bytes = encode(&sent, bytes) - LOCAL_HEADER_BYTES;
        struct local_message got;
        for (size_t cut = 0; cut < body_bytes && kind != LOCAL_KIND_DATA; cut++) {
            /* A copy of the exact size: the sanitizer sees a read beyond it. */
            uint8_t *exact = malloc(cut + 1);
            memcpy(exact, bytes + LOCAL_HEADER_BYTES, cut);
            struct baton_status st =
                local_message_decode(sent.kind, (struct baton_bytes){ exact, cut }, &got);
            cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s cut at %zu",
                         local_kind_name(sent.kind), cut);
            free(exact);
        }
        bytes[LOCAL_HEADER_BYTES + body_bytes] = 0;
        struct baton_bytes longer = { bytes + LOCAL_HEADER_BYTES, body_bytes + 1 };
        struct baton_status st = local_message_decode(sent.kind, longer, &got);
        cr_assert_eq(baton_ok(&st), kind == LOCAL_KIND_DATA, "%s", local_kind_name(sent.kind));
    }
}

static enum baton_code header_code(uint32_t size, uint8_t kind, uint8_t zero)
{
    uint8_t bytes[LOCAL_HEADER_BYTES] = { (uint8_t)size,
                                          (uint8_t)(size >> 8),
                                          (uint8_t)(size >> 16),
                                          (uint8_t)(size >> 24),
                                          kind,
                                          0,
                                          zero,
                                          0 };
    struct local_header header;
    return local_header_decode(bytes, &header).code;
}

/* A foreign client ("GET / HTTP") or a huge size never makes us read on. */
Test(protocol, headers)
{
    cr_assert_eq(header_code(16, LOCAL_KIND_PING, 0), BATON_OK);
    cr_assert_eq(header_code(16, 0, 0), BATON_INVALID_ARGUMENT);
    cr_assert_eq(header_code(16, LOCAL_KIND_END, 0), BATON_INVALID_ARGUMENT);
    cr_assert_eq(header_code(16, LOCAL_KIND_PING, 1), BATON_INVALID_ARGUMENT);
    cr_assert_eq(header_code(LOCAL_MESSAGE_BYTES_MAX, LOCAL_KIND_RESULT, 0),
                 BATON_INVALID_ARGUMENT);
    cr_assert_eq(header_code(LOCAL_DATA_BYTES_MAX, LOCAL_KIND_DATA, 0), BATON_OK);
    cr_assert_eq(header_code(LOCAL_DATA_BYTES_MAX + 1, LOCAL_KIND_DATA, 0), BATON_INVALID_ARGUMENT);
    cr_assert_eq(header_code(UINT32_MAX, LOCAL_KIND_DATA, 0), BATON_INVALID_ARGUMENT);
}

static struct baton_status round_trip(struct local_message *message)
{
    uint8_t bytes[LOCAL_MESSAGE_BYTES_MAX];
    size_t size = local_message_encode(message, bytes);
    struct local_message got;
    return decode(bytes, size, &got);
}

static void expect_field(struct local_message message, const char *field)
{
    struct baton_status st = round_trip(&message);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "%s", field);
    cr_assert(strstr(st.message, field) != NULL, "%s: %s", field, st.message);
}

/* What may not be said is refused with the field's name. */
Test(protocol, wrong_fields)
{
    struct local_message m = example(LOCAL_KIND_HELLO);
    m.as.hello.magic = 1;
    expect_field(m, "'magic'");
    m = example(LOCAL_KIND_HELLO);
    m.as.hello.version_min = 3;
    expect_field(m, "'version_min'");
    m = example(LOCAL_KIND_PUBLISH_DIRECTORY);
    set(m.as.publish.directory, 4, "c");
    expect_field(m, "'directory'");
    m = example(LOCAL_KIND_PUBLISH_BEGIN);
    set(m.as.publish.directory, 4, "/c");
    expect_field(m, "'directory'");
    m = example(LOCAL_KIND_PUBLISH_BEGIN);
    m.as.publish.model[0] = '\0';
    expect_field(m, "'model'");
    m = example(LOCAL_KIND_PUBLISH_BEGIN);
    m.as.publish.request_id[0] = '\0';
    expect_field(m, "'request_id'");
    m = example(LOCAL_KIND_TENSOR);
    m.as.entry.offset = UINT64_MAX - 4;
    expect_field(m, "'offset'");
    m = example(LOCAL_KIND_TENSOR);
    m.as.entry.dtype[0] = '\0';
    expect_field(m, "'dtype'");
    m = example(LOCAL_KIND_RESULT);
    m.as.result.code = 17;
    expect_field(m, "'code'");
}

/* A rank beyond the limit is refused before its dimensions are read. */
Test(protocol, rank_beyond_the_limit)
{
    uint8_t body[64];
    struct baton_writer writer = baton_writer_of(body, sizeof(body));
    baton_write_u8(&writer, 0);
    baton_write_framed(&writer, baton_bytes_of("t"));
    baton_write_framed(&writer, baton_bytes_of("F32"));
    baton_write_u32le(&writer, BATON_TENSOR_RANK_MAX + 1);
    struct local_message got;
    struct baton_status st =
        local_message_decode(LOCAL_KIND_TENSOR, (struct baton_bytes){ body, writer.size }, &got);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert(strstr(st.message, "'rank'") != NULL, "%s", st.message);
}

/* Text goes into logs, JSON and gRPC: it must be UTF-8 without control characters. */
Test(protocol, text)
{
    const char *good[] = { "", "a b", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x90\x8e" };
    const char *bad[] = { "a\nb",
                          "\x7f",
                          "\x80",
                          "\xc0\xaf",
                          "\xc3",
                          "\xe0\x80\x80",
                          "\xed\xa0\x80",
                          "\xf4\x90\x80\x80",
                          "\xf5\x80\x80",
                          "\xe2\x82",
                          "\xf0\x80\x80\x80",
                          "\xe2\x28\xa1" };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert(local_text_is_valid(baton_bytes_of(good[i])), "good %zu", i);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_not(local_text_is_valid(baton_bytes_of(bad[i])), "bad %zu", i);
    }
}

/* A failure keeps code, reason, message and hint on its way to the client. */
Test(protocol, status_as_result)
{
    struct baton_status st =
        baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE, "disk full: \xff\n");
    st = baton_status_hint(st, "free some");
    struct local_message m = { .kind = LOCAL_KIND_RESULT };
    local_result_from_status(&st, &m.as.result);
    struct baton_status sent = round_trip(&m);
    cr_assert(baton_ok(&sent), "%s", sent.message);
    struct baton_status back = local_result_status(&m.as.result);
    cr_assert_eq(back.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(back.reason, BATON_REASON_NO_SPACE);
    cr_assert_str_eq(back.message, "disk full: ??");
    cr_assert_str_eq(back.hint, "free some");
}
