/* frame.c -- see frame.h. */
#include "transport/p2p/frame.h"

#include "transport/capability/capability.h"

/* "BPR1" and "BPA1", little endian. */
enum { REQUEST_MAGIC = 0x31525042, ANSWER_MAGIC = 0x31415042 };

static void write_frame(uint32_t magic, uint32_t word, uint32_t short_number, uint64_t number,
                        uint8_t out[FRAME_BYTES])
{
    struct baton_writer writer = baton_writer_of(out, FRAME_BYTES);
    baton_write_u32le(&writer, magic);
    baton_write_u32le(&writer, word);
    baton_write_u32le(&writer, short_number);
    baton_write_u64le(&writer, number);
    baton_assert(writer.size == FRAME_BYTES);
}

void frame_write_request(const struct frame_request *request, uint8_t out[FRAME_BYTES])
{
    write_frame(REQUEST_MAGIC, request->verb, request->wait_ms, request->number, out);
}

void frame_write_answer(const struct frame_answer *answer, uint8_t out[FRAME_BYTES])
{
    write_frame(ANSWER_MAGIC, answer->code, answer->text_bytes, answer->number, out);
}

static struct baton_status malformed(const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED, "p2p: %s", what);
}

struct baton_status frame_read_request(const uint8_t bytes[FRAME_BYTES], struct frame_request *out)
{
    struct baton_reader reader = baton_reader_of((struct baton_bytes){ bytes, FRAME_BYTES });
    if (baton_read_u32le(&reader) != REQUEST_MAGIC) {
        return malformed("no request of this protocol");
    }
    uint32_t verb = baton_read_u32le(&reader);
    uint32_t wait_ms = baton_read_u32le(&reader);
    uint64_t number = baton_read_u64le(&reader);
    if (verb < FRAME_HELLO || verb > FRAME_CHUNK) {
        return malformed("an unknown verb");
    }
    if (verb == FRAME_HELLO &&
        (number <= BATON_DIGEST_BYTES || number > BATON_DIGEST_BYTES + CAPABILITY_BYTES_MAX)) {
        return malformed("a hello of no possible length");
    }
    *out =
        (struct frame_request){ (enum frame_verb)verb,
                                wait_ms < FRAME_WAIT_MS_MAX ? wait_ms : FRAME_WAIT_MS_MAX, number };
    return baton_status_ok();
}

struct baton_status frame_read_answer(const uint8_t bytes[FRAME_BYTES], struct frame_answer *out)
{
    struct baton_reader reader = baton_reader_of((struct baton_bytes){ bytes, FRAME_BYTES });
    if (baton_read_u32le(&reader) != ANSWER_MAGIC) {
        return malformed("no answer of this protocol");
    }
    uint32_t code = baton_read_u32le(&reader);
    uint32_t text_bytes = baton_read_u32le(&reader);
    uint64_t number = baton_read_u64le(&reader);
    if (code < FRAME_OK || code > FRAME_FAILED) {
        return malformed("an unknown answer");
    }
    if (text_bytes > FRAME_TEXT_MAX || (code == FRAME_OK && text_bytes != 0)) {
        return malformed("an answer with too much text");
    }
    *out = (struct frame_answer){ (enum frame_code)code, text_bytes, number };
    return baton_status_ok();
}
