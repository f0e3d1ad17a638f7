/* frame.h -- the words of the protocol between nodes that pull and nodes that serve.
 *
 * One connection is for one version.  The puller's first request is HELLO, whose body is the version's digest and
 * the capability; then it asks for the manifest, the chunk table and chunks, one after the other, and each request
 * has one answer.  Request: "BPR1", u8 verb, 3 zeros, u32le wait, u64le number.  Answer: "BPA1", u8 code, 3 zeros,
 * u32le bytes of text, u64le number; then the text (a refusal, for people), then, with OK, 'number' bytes of body.
 * HELLO's OK has no body: its number says whether the version is whole there (FRAME_WHOLE).
 *
 * Pure.  Depends on: api/base.  Threads: any. */
#ifndef TRANSPORT_P2P_FRAME_H
#define TRANSPORT_P2P_FRAME_H

#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

enum {
    FRAME_BYTES = 20,
    FRAME_TEXT_MAX = 320,
    FRAME_WAIT_MS_MAX = 2000, /* Longest that a server waits for a chunk. */
    FRAME_WHOLE = 1,
};

enum frame_verb {
    FRAME_HELLO = 1, /* number: bytes of body that follow. */
    FRAME_MANIFEST,
    FRAME_TABLE,
    FRAME_CHUNK, /* number: which. */
};

enum frame_code {
    FRAME_OK = 1,
    FRAME_REFUSED,  /* The capability, or who shows it. */
    FRAME_NOT_YET,  /* It may come; ask again. */
    FRAME_NOT_HERE, /* It is gone. */
    FRAME_BUSY,     /* Too many connections. */
    FRAME_BAD,      /* Not a request of this protocol. */
    FRAME_FAILED,   /* The server could not read it. */
};

struct frame_request {
    enum frame_verb verb;
    uint32_t wait_ms; /* That the server may wait for it to come. */
    uint64_t number;
};

struct frame_answer {
    enum frame_code code;
    uint32_t text_bytes;
    uint64_t number;
};

void frame_write_request(const struct frame_request *request, uint8_t out[FRAME_BYTES]);
void frame_write_answer(const struct frame_answer *answer, uint8_t out[FRAME_BYTES]);

/* INVALID_ARGUMENT MALFORMED: another protocol, an unknown verb or code, a number out of bounds. */
BATON_MUST_USE struct baton_status frame_read_request(const uint8_t bytes[FRAME_BYTES],
                                                      struct frame_request *out);
BATON_MUST_USE struct baton_status frame_read_answer(const uint8_t bytes[FRAME_BYTES],
                                                     struct frame_answer *out);

#endif /* frame.h */
