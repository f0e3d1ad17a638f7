/* local_protocol.h -- the frames between libbaton and the agent on its node.
 *
 * A frame is a header of 8 bytes (u32le size of the body, u8 kind, three zero bytes) and a body.  Both
 * sides use this codec: pure, bounded, strict (a body must be used up to its last byte; text is UTF-8
 * without control characters).  Numbers are little endian, text is framed (u32le size, bytes).
 *
 * A conversation: HELLO and WELCOME agree on the version.  Then, one after the other, any of
 *   ASK_INFO -> INFO;  PING -> PONG;
 *   OPERATE -> OPERATED*, RESULT: break-glass, for the agent's own user and root only;
 *   PUBLISH_DIRECTORY -> PROGRESS*, RESULT;
 *   PUBLISH_BEGIN -> PROGRESS*, ACCEPTED or RESULT; after ACCEPTED the client sends entries:
 *     SEGMENT (a sealed memfd goes along) with the TENSOR and FILE entries that lie in it, or TENSOR and
 *     FILE entries each followed by its bytes in DATA frames;
 *     then exactly one COMMIT or CANCEL -> PROGRESS*, RESULT.
 * A publish gets exactly one RESULT.  One that fails early gets it before the client's COMMIT or CANCEL,
 * which then has no answer of its own; entries in between are read and dropped.  CANCEL stops a publish
 * at any time; it is ignored where none is under way.
 *
 * Depends on: api/base.  Pure; nothing allocates.  Threads: values only.  Ownership: DATA borrows. */
#ifndef BATON_CLIENT_LOCAL_PROTOCOL_H
#define BATON_CLIENT_LOCAL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/limits.h"
#include "api/base/status.h"

enum {
    LOCAL_VERSION = 1,        /* The newest that this code speaks, and the oldest. */
    LOCAL_MAGIC = 0x4e544142, /* "BATN" */
    LOCAL_HEADER_BYTES = 8,
    LOCAL_DATA_BYTES_MAX = 1 << 20, /* Of one DATA frame. */
    LOCAL_BODY_BYTES_MAX = LOCAL_DATA_BYTES_MAX,
    LOCAL_MESSAGE_BYTES_MAX = 16 << 10, /* Header and body of any frame but DATA. */
    /* 56 leaves room for ".publish" within BATON_REQUEST_ID_BYTES. */
    LOCAL_REQUEST_ID_BYTES = 56,
    LOCAL_PATH_BYTES = 4096,
    LOCAL_REASON_BYTES = 32,
    LOCAL_OPERATED_BYTES = 12 << 10,
    LOCAL_DTYPE_BYTES = 16,
    LOCAL_SEGMENT_ALIGN = 64, /* Where entries begin inside a segment. */
};

enum local_kind {
    LOCAL_KIND_HELLO = 1,
    LOCAL_KIND_WELCOME,
    LOCAL_KIND_PING,
    LOCAL_KIND_PONG,
    LOCAL_KIND_ASK_INFO,
    LOCAL_KIND_INFO,
    LOCAL_KIND_PUBLISH_DIRECTORY,
    LOCAL_KIND_PUBLISH_BEGIN,
    LOCAL_KIND_ACCEPTED,
    LOCAL_KIND_SEGMENT,
    LOCAL_KIND_TENSOR,
    LOCAL_KIND_FILE,
    LOCAL_KIND_DATA,
    LOCAL_KIND_COMMIT,
    LOCAL_KIND_CANCEL,
    LOCAL_KIND_PROGRESS,
    LOCAL_KIND_RESULT,
    LOCAL_KIND_OPERATE,
    LOCAL_KIND_OPERATED,
    LOCAL_KIND_END /* One past the last. */
};

/* Client: which versions it speaks and who it is ("python 4711"). */
struct local_hello {
    uint32_t magic;
    uint32_t version_min;
    uint32_t version_max;
    char client[128];
};

/* Agent: the version to speak. */
struct local_welcome {
    uint32_t version;
    bool takes_segments; /* Memory may be passed as a descriptor. */
    char agent[BATON_NAME_BYTES];
    char software[32];
};

struct local_info {
    bool connected; /* To the controller. */
    uint32_t publishing;
    char agent[BATON_NAME_BYTES];
    char software[32];
    char controller[BATON_TEXT_BYTES];
    char directory[BATON_PATH_BYTES]; /* Empty: no store, the agent cannot be a source. */
};

struct local_publish {
    char model[BATON_NAME_BYTES];
    char request_id[LOCAL_REQUEST_ID_BYTES]; /* Never empty. */
    uint64_t optimizer_step;
    uint64_t rollout_iteration;
    uint64_t samples_trained;
    uint64_t parent_seq;     /* 0: the newest. */
    uint64_t bytes_expected; /* 0: not known. */
    bool partial;
    char reason[BATON_TEXT_BYTES];
    char requested_by[128];
    char directory[LOCAL_PATH_BYTES]; /* PUBLISH_DIRECTORY: absolute; PUBLISH_BEGIN: empty. */
};

/* A memfd with as many bytes, sealed against writing and shrinking, goes with this frame. */
struct local_segment {
    uint64_t bytes;
};

/* A tensor or a file.  Files have no dtype and no shape. */
struct local_entry {
    bool is_inline; /* DATA frames follow; else it lies in the last segment. */
    char name[BATON_TENSOR_NAME_BYTES];
    char dtype[LOCAL_DTYPE_BYTES];
    uint32_t rank;
    uint64_t dims[BATON_TENSOR_RANK_MAX];
    uint64_t bytes;
    uint64_t offset; /* In the segment. */
};

struct local_progress {
    uint32_t phase; /* BATON_PHASE_* of baton.h. */
    uint64_t bytes_done;
    uint64_t bytes_total;
    uint64_t bytes_per_s;
    char detail[BATON_TENSOR_NAME_BYTES];
};

struct local_result {
    uint32_t code; /* gRPC's; the rest below counts only for 0. */
    char reason[LOCAL_REASON_BYTES];
    char message[BATON_STATUS_MESSAGE_BYTES];
    char hint[BATON_STATUS_HINT_BYTES];
    bool repeated; /* The request id had been published before. */
    char model[BATON_NAME_BYTES];
    uint64_t seq;
    char uid[BATON_UID_TEXT_BYTES];
    char digest[BATON_DIGEST_TEXT_BYTES];
    uint64_t bytes;
    uint64_t bytes_carried;
    uint64_t tensors;
    uint64_t files;
    char directory[BATON_PATH_BYTES];
};

/* Break-glass: "status", "resume", "restore" or "detach" of a group; all groups for "status". */
struct local_operate {
    char verb[16];
    char group[BATON_NAME_BYTES];
    char by[128]; /* Who asks, in the caller's words; the agent adds what the kernel says. */
};

/* One line of the answer: a JSON object for "status", else a sentence. */
struct local_operated {
    char text[LOCAL_OPERATED_BYTES];
};

struct local_message {
    enum local_kind kind;
    union {
        struct local_hello hello;
        struct local_welcome welcome;
        uint64_t token; /* PING, PONG. */
        struct local_info info;
        struct local_publish publish; /* PUBLISH_DIRECTORY, PUBLISH_BEGIN. */
        struct local_segment segment;
        struct local_entry entry; /* TENSOR, FILE. */
        struct baton_bytes data;
        struct local_progress progress;
        struct local_result result;
        struct local_operate operate;
        struct local_operated operated;
    } as; /* Nothing for ASK_INFO, ACCEPTED, COMMIT, CANCEL. */
};

struct local_header {
    enum local_kind kind;
    uint32_t body_bytes;
};

/* "PUBLISH_BEGIN"; "?" for other numbers.  Static. */
const char *local_kind_name(enum local_kind kind);
/* True for UTF-8 without control characters: what text fields may hold. */
bool local_text_is_valid(struct baton_bytes text);

/* "copying" for BATON_PHASE_COPYING, "working" for numbers that this code does not know.  Static. */
const char *local_phase_name(uint32_t phase);

/* Reads a header: INVALID_ARGUMENT MALFORMED for an unknown kind, bytes that must be zero, or a body
 * longer than its kind may have. */
BATON_MUST_USE struct baton_status local_header_decode(const uint8_t bytes[LOCAL_HEADER_BYTES],
                                                       struct local_header *out);

/* Reads a body.  INVALID_ARGUMENT, MALFORMED or BAD_FIELD, naming kind and field. */
BATON_MUST_USE struct baton_status local_message_decode(enum local_kind kind,
                                                        struct baton_bytes body,
                                                        struct local_message *out);

/* Writes header and body, at most LOCAL_MESSAGE_BYTES_MAX; returns their size. Of DATA it writes only
 * the header: the bytes follow from where they are. */
size_t local_message_encode(const struct local_message *message, uint8_t *out);

/* A failure of any kind as a result, and the reverse. */
void local_result_from_status(const struct baton_status *st, struct local_result *out);
BATON_MUST_USE struct baton_status local_result_status(const struct local_result *result);

#endif /* local_protocol.h */
