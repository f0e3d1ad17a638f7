/* scan.c -- see scan.h.  Encoding: the protobuf documentation, "Encoding". */
#include "api/wire/scan.h"

#include <string.h>

#include "api/wire/path.h"

enum { DEPTH_CEILING = 100 };

enum wire_type { VARINT = 0, FIXED64 = 1, LENGTH = 2, GROUP_BEGIN = 3, GROUP_END = 4, FIXED32 = 5 };

struct scan {
    uint32_t depth_max;
    size_t memory;
};

/* The bytes of one message while they are read. */
struct frame {
    const ProtobufCMessageDescriptor *type;
    const struct wire_path *path; /* Of this message. */
    struct baton_bytes left;
    uint32_t depth;
    unsigned next; /* Index of the field that is expected: fields mostly come in order. */
};

/* --- text --- */

static size_t ascii_prefix(struct baton_bytes text)
{
    size_t at = 0;
    for (; at + 8 <= text.size; at += 8) {
        uint64_t word;
        memcpy(&word, text.data + at, 8);
        uint64_t zeros = (word - UINT64_C(0x0101010101010101)) & ~word;
        if (((word | zeros) & UINT64_C(0x8080808080808080)) != 0) {
            break;
        }
    }
    return at;
}

/* Length of the sequence at 'at'; 0 if it is none. */
static size_t sequence(struct baton_bytes text, size_t at)
{
    uint8_t lead = text.data[at];
    if (lead < 0x80) {
        return lead == 0 ? 0 : 1;
    }
    size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || length > text.size - at) {
        return 0;
    }
    for (size_t i = 1; i < length; i++) {
        if ((text.data[at + i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    uint8_t second = text.data[at + 1];
    bool is_short = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    bool is_surrogate = lead == 0xED && second >= 0xA0;
    bool is_above = lead == 0xF4 && second >= 0x90;
    return is_short || is_surrogate || is_above ? 0 : length;
}

bool wire_text_is_valid(struct baton_bytes text)
{
    size_t at = ascii_prefix(text);
    while (at < text.size) {
        size_t length = sequence(text, at);
        if (length == 0) {
            return false;
        }
        at += length;
    }
    return true;
}

/* True if only bytes that go on a character follow: the text was cut within one. */
static bool is_cut(struct baton_bytes text, size_t at)
{
    if (text.data[at] < 0xC2 || text.data[at] >= 0xF5 || text.size - at > 3) {
        return false;
    }
    for (size_t i = at + 1; i < text.size; i++) {
        if ((text.data[i] & 0xC0) != 0x80) {
            return false;
        }
    }
    return true;
}

void wire_text_clean(char *text)
{
    struct baton_bytes bytes = baton_bytes_of(text);
    for (size_t at = ascii_prefix(bytes); at < bytes.size;) {
        size_t length = sequence(bytes, at);
        if (length == 0 && is_cut(bytes, at)) {
            text[at] = '\0';
            return;
        }
        if (length == 0) {
            text[at] = '?';
        }
        at += length == 0 ? 1 : length;
    }
}

/* --- fields --- */

static bool take_varint(struct baton_bytes *left, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < 10 && i < left->size; i++) {
        uint8_t byte = left->data[i];
        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80) {
            left->data += i + 1;
            left->size -= i + 1;
            *out = value;
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct baton_bytes *left, uint64_t size, struct baton_bytes *out)
{
    if (size > left->size) {
        return false;
    }
    *out = (struct baton_bytes){ left->data, (size_t)size };
    left->data += size;
    left->size -= (size_t)size;
    return true;
}

static const ProtobufCFieldDescriptor *find_field(struct frame *frame, uint32_t id)
{
    const ProtobufCMessageDescriptor *type = frame->type;
    for (unsigned i = frame->next; i < type->n_fields && i < frame->next + 2; i++) {
        if (type->fields[i].id == id) {
            frame->next = i;
            return &type->fields[i];
        }
    }
    unsigned low = 0;
    unsigned high = type->n_fields;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (type->fields[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == type->n_fields || type->fields[low].id != id) {
        return NULL;
    }
    frame->next = low;
    return &type->fields[low];
}

static enum wire_type expected_wire_type(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return LENGTH;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: break;
    }
    return VARINT;
}

static struct baton_status malformed(const struct frame *frame, const char *what)
{
    return wire_path_status(frame->path, frame->type->name, BATON_INVALID_ARGUMENT,
                            BATON_REASON_MALFORMED, "%s", what);
}

static struct baton_status scan_message(struct scan *scan, struct frame *frame);

static struct baton_status scan_part(struct scan *scan, const struct frame *frame,
                                     const ProtobufCFieldDescriptor *field, struct baton_bytes body)
{
    struct wire_path path = { .up = frame->path, .name = field->name };
    if (frame->depth >= scan->depth_max) {
        return wire_path_status(&path, NULL, BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                "is nested deeper than %u messages", (unsigned)scan->depth_max);
    }
    struct frame part = {
        .type = field->descriptor, .path = &path, .left = body, .depth = frame->depth + 1
    };
    scan->memory += part.type->sizeof_message + 16;
    return scan_message(scan, &part);
}

/* One length-delimited value of a known field. */
static struct baton_status scan_body(struct scan *scan, const struct frame *frame,
                                     const ProtobufCFieldDescriptor *field, struct baton_bytes body)
{
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return scan_part(scan, frame, field, body);
    }
    if (field->type == PROTOBUF_C_TYPE_STRING && !wire_text_is_valid(body)) {
        struct wire_path path = { .up = frame->path, .name = field->name };
        return wire_path_status(&path, NULL, BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                "is not UTF-8 text, or has a zero byte");
    }
    scan->memory += body.size + 16;
    return baton_status_ok();
}

static bool wire_type_fits(const ProtobufCFieldDescriptor *field, enum wire_type wire)
{
    enum wire_type expected = expected_wire_type(field->type);
    bool is_packed =
        field->label == PROTOBUF_C_LABEL_REPEATED && expected != LENGTH && wire == LENGTH;
    return wire == expected || is_packed;
}

/* Steps over a value that is not length-delimited. */
static bool skip_fixed(struct baton_bytes *left, enum wire_type wire)
{
    uint64_t varint;
    struct baton_bytes fixed;
    return wire == VARINT ? take_varint(left, &varint)
                          : take_bytes(left, wire == FIXED64 ? 8 : 4, &fixed);
}

static struct baton_status scan_field(struct scan *scan, struct frame *frame)
{
    uint64_t tag;
    if (!take_varint(&frame->left, &tag) || tag > UINT32_MAX || tag >> 3 == 0) {
        return malformed(frame, "a field's tag is cut off or out of range");
    }
    enum wire_type wire = (enum wire_type)(tag & 7);
    if (wire > FIXED32 || wire == GROUP_BEGIN || wire == GROUP_END) {
        return malformed(frame, "has a group or an unknown wire type");
    }
    const ProtobufCFieldDescriptor *field = find_field(frame, (uint32_t)(tag >> 3));
    if (field != NULL && !wire_type_fits(field, wire)) {
        struct wire_path path = { .up = frame->path, .name = field->name };
        return wire_path_status(&path, NULL, BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                "is encoded as another type");
    }
    scan->memory += field == NULL ? sizeof(ProtobufCMessageUnknownField) + 16 : 8;
    if (wire != LENGTH) {
        return skip_fixed(&frame->left, wire) ? baton_status_ok()
                                              : malformed(frame, "a field's value is cut off");
    }
    uint64_t size;
    struct baton_bytes body;
    if (!take_varint(&frame->left, &size) || !take_bytes(&frame->left, size, &body)) {
        return malformed(frame, "a field is longer than the message");
    }
    if (field == NULL) {
        scan->memory += body.size;
        return baton_status_ok();
    }
    return scan_body(scan, frame, field, body);
}

static struct baton_status scan_message(struct scan *scan, struct frame *frame)
{
    while (frame->left.size > 0) {
        struct baton_status st = scan_field(scan, frame);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

struct baton_status wire_scan(const ProtobufCMessageDescriptor *type, struct baton_bytes bytes,
                              uint32_t depth_max, size_t *memory)
{
    struct scan scan = {
        .depth_max = depth_max < DEPTH_CEILING ? depth_max : DEPTH_CEILING,
        .memory = type->sizeof_message + 16,
    };
    struct frame frame = { .type = type, .left = bytes, .depth = 1 };
    struct baton_status st = scan_message(&scan, &frame);
    *memory = scan.memory;
    return st;
}
