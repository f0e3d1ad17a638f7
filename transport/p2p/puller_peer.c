/* puller_peer.c -- one connection to one peer; see puller.h. */
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "transport/p2p/puller_state.h"

enum { CHUNK_WAIT_MS = 1000 };

static uint64_t deadline_of(const struct feed *feed, uint32_t wait_ms)
{
    return baton_clock_monotonic_ns() + feed->puller->options.stall_ns + wait_ms * BATON_NS_PER_MS;
}

static struct baton_status refusal_of(const struct frame_answer *answer, const char *text)
{
    switch (answer->code) {
    case FRAME_REFUSED:
        return baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED, "%s", text);
    case FRAME_NOT_HERE: return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "%s", text);
    case FRAME_BAD: return baton_status_make(BATON_INTERNAL, BATON_REASON_NONE, "%s", text);
    case FRAME_NOT_YET:
    case FRAME_BUSY:
    case FRAME_FAILED:
    case FRAME_OK: break;
    }
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE, "%s", text);
}

static struct baton_status read_answer(struct feed *feed, uint64_t deadline_ns,
                                       struct frame_answer *out)
{
    uint8_t head[FRAME_BYTES];
    char text[FRAME_TEXT_MAX + 1];
    struct baton_status st = channel_read(feed->channel, head, sizeof(head), deadline_ns);
    if (baton_ok(&st)) {
        st = frame_read_answer(head, out);
    }
    if (!baton_ok(&st) || out->code == FRAME_OK) {
        return st;
    }
    st = channel_read(feed->channel, text, out->text_bytes, deadline_ns);
    text[baton_ok(&st) ? out->text_bytes : 0] = '\0';
    return baton_ok(&st) ? refusal_of(out, text) : st;
}

struct baton_status feed_ask(struct feed *feed, const struct frame_request *request,
                             struct frame_answer *out)
{
    uint8_t head[FRAME_BYTES];
    uint64_t deadline_ns = deadline_of(feed, request->wait_ms);
    *out = (struct frame_answer){ .code = FRAME_FAILED };
    frame_write_request(request, head);
    struct baton_status st =
        channel_write(feed->channel, (struct baton_bytes){ head, sizeof(head) }, deadline_ns);
    return baton_ok(&st) ? read_answer(feed, deadline_ns, out) : st;
}

struct baton_status feed_read(struct feed *feed, void *out, size_t size)
{
    return channel_read(feed->channel, out, size, deadline_of(feed, 0) + size * 10U);
}

/* The version and the capability, in one write with their head. */
static struct baton_status say_hello(struct feed *feed, struct frame_answer *out)
{
    const struct puller_options *options = &feed->puller->options;
    uint8_t bytes[FRAME_BYTES + BATON_DIGEST_BYTES + 512];
    size_t body = BATON_DIGEST_BYTES + options->capability.size;
    struct frame_request request = { FRAME_HELLO, 0, body };
    baton_assert(FRAME_BYTES + body <= sizeof(bytes));
    frame_write_request(&request, bytes);
    memcpy(bytes + FRAME_BYTES, options->version.bytes, BATON_DIGEST_BYTES);
    memcpy(bytes + FRAME_BYTES + BATON_DIGEST_BYTES, options->capability.data,
           options->capability.size);
    struct baton_status st = channel_write(
        feed->channel, (struct baton_bytes){ bytes, FRAME_BYTES + body }, deadline_of(feed, 0));
    return baton_ok(&st) ? read_answer(feed, deadline_of(feed, 0), out) : st;
}

struct baton_status feed_dial(struct feed *feed, uint32_t peer)
{
    const struct puller_options *options = &feed->puller->options;
    struct frame_answer answer = { .code = FRAME_FAILED };
    feed->peer = peer;
    struct baton_status st = channel_dial(options->peers[peer].address, options->tls,
                                          deadline_of(feed, 0), &feed->channel);
    if (baton_ok(&st)) {
        st = say_hello(feed, &answer);
    }
    if (!baton_ok(&st)) {
        feed_hang_up(feed);
        return st;
    }
    feed->whole = answer.number == FRAME_WHOLE;
    return st;
}

void feed_hang_up(struct feed *feed)
{
    channel_close(feed->channel);
    feed->channel = NULL;
    feed->asked = FEED_NONE;
    feed->held_chunk = FEED_NONE;
}

/* --- chunks --- */

/* Requests for one chunk and for the one behind it, in one write; FEED_NONE: not for that. */
static struct baton_status ask_chunks(struct feed *feed, uint64_t chunk, uint64_t behind)
{
    const uint64_t chunks[2] = { chunk, behind };
    uint8_t bytes[2 * FRAME_BYTES];
    size_t size = 0;
    for (size_t i = 0; i < 2; i++) {
        if (chunks[i] != FEED_NONE) {
            struct frame_request request = { FRAME_CHUNK, CHUNK_WAIT_MS, chunks[i] };
            frame_write_request(&request, bytes + size);
            size += FRAME_BYTES;
        }
    }
    return channel_write(feed->channel, (struct baton_bytes){ bytes, size }, deadline_of(feed, 0));
}

static struct baton_status read_body(struct feed *feed, struct puller_room room,
                                     struct frame_answer *answer)
{
    struct baton_status st = read_answer(feed, deadline_of(feed, CHUNK_WAIT_MS), answer);
    if (baton_ok(&st) && answer->number != room.size) {
        st = baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED, "a chunk of another size");
    }
    if (baton_ok(&st)) {
        st = feed_read(feed, room.data, room.size);
    }
    if (!baton_ok(&st) && answer->code == FRAME_OK) {
        answer->code = FRAME_FAILED;
    }
    return st;
}

/* Reads what was asked for ahead into 'held', so that the next answer is that to the next request. */
static struct baton_status hold_asked(struct feed *feed)
{
    struct frame_answer answer = { .code = FRAME_FAILED };
    uint64_t chunk = feed->asked;
    feed->asked = FEED_NONE;
    struct baton_status st = read_answer(feed, deadline_of(feed, CHUNK_WAIT_MS), &answer);
    if (!baton_ok(&st)) {
        return answer.code == FRAME_NOT_YET ? baton_status_ok() : st;
    }
    if (answer.number > BATON_CHUNK_BYTES) {
        return baton_status_make(BATON_DATA_LOSS, BATON_REASON_TRUNCATED, "no chunk is so large");
    }
    if (feed->held == NULL) {
        feed->held = malloc(BATON_CHUNK_BYTES);
        baton_assert(feed->held != NULL);
    }
    st = feed_read(feed, feed->held, answer.number);
    feed->held_size = answer.number;
    feed->held_chunk = baton_ok(&st) ? chunk : FEED_NONE;
    return st;
}

/* What is held, if it is that chunk; in any case nothing is held any more. */
static bool take_held(struct feed *feed, uint64_t chunk, struct puller_room room)
{
    bool fits = feed->held_chunk == chunk && feed->held_size == room.size;
    if (fits) {
        memcpy(room.data, feed->held, room.size);
    }
    feed->held_chunk = FEED_NONE;
    return fits;
}

/* Somebody asked for another chunk than was expected: its answer comes first. */
static struct baton_status pass_asked(struct feed *feed, uint64_t chunk)
{
    return feed->asked != FEED_NONE && feed->asked != chunk ? hold_asked(feed) : baton_status_ok();
}

struct baton_status feed_chunk(struct feed *feed, uint64_t chunk, struct puller_room room,
                               struct frame_answer *out)
{
    *out = (struct frame_answer){ .code = FRAME_FAILED };
    struct baton_status st = pass_asked(feed, chunk);
    if (!baton_ok(&st)) {
        return st;
    }
    bool here = take_held(feed, chunk, room);
    bool sent = here || feed->asked == chunk;
    uint64_t behind = feed->ahead;
    feed->asked = FEED_NONE;
    feed->ahead = FEED_NONE;
    if (!sent || behind != FEED_NONE) {
        st = ask_chunks(feed, sent ? FEED_NONE : chunk, behind);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    if (!here) {
        st = read_body(feed, room, out);
    }
    feed->asked = behind;
    if (baton_ok(&st)) {
        out->code = FRAME_OK;
    } else if (out->code == FRAME_NOT_YET && behind != FEED_NONE) {
        struct baton_status next = hold_asked(feed);
        if (!baton_ok(&next)) {
            out->code = FRAME_FAILED;
            return next;
        }
    }
    return st;
}
