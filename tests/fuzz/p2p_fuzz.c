/* p2p_fuzz.c -- foreign bytes of the protocol between nodes: heads of requests and answers, and capabilities. */
#include <string.h>

#include "transport/capability/capability.h"
#include "transport/p2p/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is accepted must be written as it was read. */
static void try_request(const uint8_t *data)
{
    struct frame_request request;
    uint8_t again[FRAME_BYTES];
    struct baton_status st = frame_read_request(data, &request);
    if (baton_ok(&st)) {
        struct frame_request same;
        frame_write_request(&request, again);
        st = frame_read_request(again, &same);
        baton_assert(baton_ok(&st) && same.verb == request.verb && same.number == request.number &&
                     same.wait_ms == request.wait_ms && request.wait_ms <= FRAME_WAIT_MS_MAX);
    }
}

static void try_answer(const uint8_t *data)
{
    struct frame_answer answer;
    uint8_t again[FRAME_BYTES];
    struct baton_status st = frame_read_answer(data, &answer);
    if (baton_ok(&st)) {
        frame_write_answer(&answer, again);
        baton_assert(memcmp(again, data, sizeof(again)) == 0);
        baton_assert(answer.text_bytes <= FRAME_TEXT_MAX);
    }
}

/* Nobody but the signer makes a good one. */
static void try_capability(struct baton_bytes bytes)
{
    static const struct capability_key key = { .id = { 7, 7, 7, 7, 7, 7, 7, 7 } };
    struct capability capability;
    struct baton_status st = capability_open(bytes, &key, 1, &capability);
    baton_assert(!baton_ok(&st));
    baton_assert(memchr(capability.node, 0, sizeof(capability.node)) != NULL &&
                 memchr(capability.identity, 0, sizeof(capability.identity)) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= FRAME_BYTES) {
        try_request(data);
        try_answer(data);
    }
    try_capability((struct baton_bytes){ data, size });
    return 0;
}
