/* version_digest.c -- canonical entries: write, read, check, digest in order. */
#include "transport/model/version_digest.h"

#include <string.h>

#include "api/base/limits.h"

/* Kind, three frames, rank, dimensions, size, digest: more than any entry needs. */
enum { ENTRY_BYTES_MAX = 2 * BATON_TENSOR_NAME_BYTES + 256 };

static const char *kind_name(enum manifest_kind kind)
{
    return kind == MANIFEST_KIND_FILE ? "file" : "tensor";
}

static struct baton_status invalid(enum manifest_kind kind, struct baton_bytes name,
                                   const char *what)
{
    int shown = (int)(name.size < 200 ? name.size : 200);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                             "manifest: %s '%.*s': %s", kind_name(kind), shown,
                             (const char *)name.data, what);
}

static bool has_control(struct baton_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < 0x20 || text.data[i] == 0x7f) {
            return true;
        }
    }
    return false;
}

/* Bytes of the UTF-8 sequence at the start of 'text' (RFC 3629); 0 if there is none. */
static size_t utf8_sequence(struct baton_bytes text)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint8_t lead = text.data[0];
    size_t size = lead < 0x80       ? 1
                  : lead >> 5 == 6  ? 2
                  : lead >> 4 == 14 ? 3
                  : lead >> 3 == 30 ? 4
                                    : 0;
    if (size <= 1 || size > text.size) {
        return size > text.size ? 0 : size;
    }
    uint32_t value = lead & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if (text.data[i] >> 6 != 2) {
            return 0;
        }
        value = value << 6 | (text.data[i] & 0x3fu);
    }
    bool surrogate = value >= 0xd800 && value <= 0xdfff;
    return value < least[size] || value > 0x10ffff || surrogate ? 0 : size;
}

static bool is_utf8(struct baton_bytes text)
{
    while (text.size > 0) {
        size_t size = utf8_sequence(text);
        if (size == 0) {
            return false;
        }
        text.data += size;
        text.size -= size;
    }
    return true;
}

static bool is_plain_name(struct baton_bytes name)
{
    if (baton_bytes_equal(name, baton_bytes_of(".")) ||
        baton_bytes_equal(name, baton_bytes_of(".."))) {
        return false;
    }
    return memchr(name.data, '/', name.size) == NULL && memchr(name.data, '\\', name.size) == NULL;
}

struct baton_status manifest_name_check(enum manifest_kind kind, struct baton_bytes name)
{
    if (name.size == 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "manifest: a %s has an empty name", kind_name(kind));
    }
    if (name.size >= BATON_TENSOR_NAME_BYTES) {
        return invalid(kind, name, "the name is longer than 511 bytes");
    }
    if (has_control(name)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "manifest: the name of a %s holds a control character",
                                 kind_name(kind));
    }
    if (!is_utf8(name)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "manifest: the name of a %s is not UTF-8", kind_name(kind));
    }
    if (kind == MANIFEST_KIND_FILE && !is_plain_name(name)) {
        return invalid(kind, name, "not a plain file name");
    }
    return baton_status_ok();
}

static struct baton_status check_tensor(const struct manifest_entry *entry)
{
    uint64_t bytes = 0;
    if ((unsigned)entry->dtype >= TENSOR_DTYPE_COUNT) {
        return invalid(entry->kind, entry->name, "dtype: unknown");
    }
    if (entry->shape.rank > BATON_TENSOR_RANK_MAX) {
        return invalid(entry->kind, entry->name, "shape: more than 8 dimensions");
    }
    if (!tensor_shape_bytes(&entry->shape, entry->dtype, &bytes)) {
        return invalid(entry->kind, entry->name, "shape: its size overflows or ends within a byte");
    }
    if (bytes != entry->bytes) {
        return invalid(entry->kind, entry->name, "bytes: not what dtype and shape need");
    }
    if (entry->atomic_set.size >= BATON_TENSOR_NAME_BYTES || has_control(entry->atomic_set) ||
        !is_utf8(entry->atomic_set)) {
        return invalid(entry->kind, entry->name,
                       "atomicSet: too long, with a control character, or not UTF-8");
    }
    return baton_status_ok();
}

struct baton_status manifest_entry_check(const struct manifest_entry *entry)
{
    struct baton_status st = manifest_name_check(entry->kind, entry->name);
    if (!baton_ok(&st)) {
        return st;
    }
    if (entry->kind == MANIFEST_KIND_TENSOR) {
        return check_tensor(entry);
    }
    if (entry->bytes > INT64_MAX) {
        return invalid(entry->kind, entry->name, "bytes: larger than any file");
    }
    return baton_status_ok();
}

void manifest_entry_write(struct baton_writer *writer, const struct manifest_entry *entry)
{
    baton_write_framed(writer, entry->name);
    if (entry->kind == MANIFEST_KIND_TENSOR) {
        baton_write_framed(writer, baton_bytes_of(tensor_dtype_name(entry->dtype)));
        baton_write_u32le(writer, entry->shape.rank);
        for (uint32_t i = 0; i < entry->shape.rank; i++) {
            baton_write_u64le(writer, entry->shape.dims[i]);
        }
        baton_write_framed(writer, entry->atomic_set);
    } else {
        baton_write_u64le(writer, entry->bytes);
    }
    baton_write_bytes(writer,
                      (struct baton_bytes){ entry->digest.bytes, sizeof(entry->digest.bytes) });
}

void manifest_part_write(struct baton_writer *writer, const struct manifest_entry *entry)
{
    baton_write_u8(writer, (uint8_t)entry->kind);
    manifest_entry_write(writer, entry);
}

static struct baton_status read_shape(struct baton_reader *reader, struct manifest_entry *entry)
{
    struct baton_bytes dtype = baton_read_framed(reader, 32);
    if (!reader->failed && !tensor_dtype_parse(dtype, &entry->dtype)) {
        return invalid(entry->kind, entry->name, "dtype: unknown");
    }
    entry->shape.rank = baton_read_u32le(reader);
    if (entry->shape.rank > BATON_TENSOR_RANK_MAX) {
        return invalid(entry->kind, entry->name, "shape: more than 8 dimensions");
    }
    for (uint32_t i = 0; i < entry->shape.rank; i++) {
        entry->shape.dims[i] = baton_read_u64le(reader);
    }
    entry->atomic_set = baton_read_framed(reader, BATON_TENSOR_NAME_BYTES - 1);
    if (!reader->failed && !tensor_shape_bytes(&entry->shape, entry->dtype, &entry->bytes)) {
        return invalid(entry->kind, entry->name, "shape: its size overflows or ends within a byte");
    }
    return baton_status_ok();
}

static struct baton_status read_body(struct baton_reader *reader, struct manifest_entry *entry)
{
    if (entry->kind == MANIFEST_KIND_TENSOR) {
        return read_shape(reader, entry);
    }
    entry->bytes = baton_read_u64le(reader);
    return baton_status_ok();
}

struct baton_status manifest_part_read(struct baton_reader *reader, struct manifest_entry *out)
{
    struct manifest_entry entry;
    memset(&entry, 0, sizeof(entry));
    uint8_t kind = baton_read_u8(reader);
    if (!reader->failed && kind != MANIFEST_KIND_TENSOR && kind != MANIFEST_KIND_FILE) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "manifest part: an entry's kind is %u, not 1 or 2", kind);
    }
    entry.kind = kind == MANIFEST_KIND_FILE ? MANIFEST_KIND_FILE : MANIFEST_KIND_TENSOR;
    entry.name = baton_read_framed(reader, BATON_TENSOR_NAME_BYTES - 1);
    struct baton_status st = read_body(reader, &entry);
    if (!baton_ok(&st)) {
        return st;
    }
    struct baton_bytes digest = baton_read_bytes(reader, BATON_DIGEST_BYTES);
    if (reader->failed) {
        return baton_status_make(
            BATON_INVALID_ARGUMENT, BATON_REASON_TRUNCATED,
            "manifest part: ends within an entry, or a length is out of bounds");
    }
    memcpy(entry.digest.bytes, digest.data, sizeof(entry.digest.bytes));
    st = manifest_entry_check(&entry);
    if (baton_ok(&st)) {
        *out = entry;
    }
    return st;
}

void version_digester_init(struct version_digester *digester)
{
    memset(digester, 0, sizeof(*digester));
    digest_stream_init(&digester->stream);
}

/* Less than, equal to or greater than zero, bytewise; a prefix comes first. */
static int compare_bytes(struct baton_bytes a, struct baton_bytes b)
{
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    if (order != 0) {
        return order;
    }
    return (a.size > b.size) - (a.size < b.size);
}

static struct baton_status check_order(const struct version_digester *digester,
                                       const struct manifest_entry *entry)
{
    bool first_file = entry->kind == MANIFEST_KIND_FILE && digester->files_count == 0;
    if (entry->kind == MANIFEST_KIND_TENSOR && digester->files_count > 0) {
        return invalid(entry->kind, entry->name, "comes after a file; tensors come first");
    }
    if (first_file || digester->last_name_bytes == 0) {
        return baton_status_ok();
    }
    struct baton_bytes last = { digester->last_name, digester->last_name_bytes };
    int order = compare_bytes(last, entry->name);
    if (order == 0) {
        return invalid(entry->kind, entry->name, "the name is there twice");
    }
    if (order > 0) {
        return invalid(entry->kind, entry->name,
                       "out of order; entries are sorted bytewise by name");
    }
    return baton_status_ok();
}

static struct baton_status check_counts(const struct version_digester *digester,
                                        const struct manifest_entry *entry)
{
    if (digester->tensors_count + digester->files_count >= BATON_TENSORS_MAX) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "manifest: more than %d entries (BATON_TENSORS_MAX)",
                                 (int)BATON_TENSORS_MAX);
    }
    if (digester->bytes + entry->bytes > INT64_MAX) {
        return invalid(entry->kind, entry->name, "the sum of all sizes overflows");
    }
    return baton_status_ok();
}

struct baton_status version_digester_add(struct version_digester *digester,
                                         const struct manifest_entry *entry)
{
    uint8_t canonical[ENTRY_BYTES_MAX];
    struct baton_writer writer = baton_writer_of(canonical, sizeof(canonical));
    struct baton_status st = manifest_entry_check(entry);
    if (baton_ok(&st)) {
        st = check_order(digester, entry);
    }
    if (baton_ok(&st)) {
        st = check_counts(digester, entry);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    manifest_entry_write(&writer, entry);
    baton_assert(baton_writer_ok(&writer));
    digest_stream_add(&digester->stream, (struct baton_bytes){ canonical, writer.size });
    memcpy(digester->last_name, entry->name.data, entry->name.size);
    digester->last_name_bytes = (uint32_t)entry->name.size;
    digester->tensors_count += entry->kind == MANIFEST_KIND_TENSOR;
    digester->files_count += entry->kind == MANIFEST_KIND_FILE;
    digester->bytes += entry->bytes;
    return baton_status_ok();
}

struct baton_status version_digester_add_part(struct version_digester *digester,
                                              struct baton_bytes part)
{
    if (part.size > BATON_MANIFEST_PART_BYTES_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "manifest part: %zu bytes; at most %d "
                                 "(BATON_MANIFEST_PART_BYTES_MAX)",
                                 part.size, (int)BATON_MANIFEST_PART_BYTES_MAX);
    }
    struct baton_reader reader = baton_reader_of(part);
    while (reader.left.size > 0) {
        struct manifest_entry entry;
        struct baton_status st = manifest_part_read(&reader, &entry);
        if (baton_ok(&st)) {
            st = version_digester_add(digester, &entry);
        }
        if (!baton_ok(&st)) {
            return st;
        }
    }
    return baton_status_ok();
}

struct digest version_digester_finish(const struct version_digester *digester)
{
    return digest_stream_finish(&digester->stream);
}
