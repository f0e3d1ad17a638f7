/* journal_fuzz.c -- foreign bytes as a journal: as a file, and as the payload of a good frame.
 *
 * First byte: 'p' the rest is one payload behind a frame that holds, else a file without its
 * header.  Whatever is accepted must be written again as the same bytes (members that came after an
 * older journal follow behind them), and a core must take it. */
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent.h"
#include "agent/core/journal_payload.h"

enum { IMAGE_BYTES = 1 << 16 };

static struct agent *make_core(void **memory)
{
    static struct agent_engine_config engine = { .name = "e0" };
    static struct agent_group_config group = { .name = "g0", .model = "m", .engines_count = 1 };
    struct agent_config config = { .agent = "a0", .groups = &group, .groups_count = 1 };
    group.engines = &engine;
    config.times = agent_times_default();
    *memory = malloc(agent_size(&config));
    return agent_init(*memory, &config, 1);
}

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* An older journal's record ends before the members that came later: they are written behind it. */
static void write_again(const struct journal_record *record, struct baton_bytes payload)
{
    uint8_t out[JOURNAL_RECORD_BYTES_MAX];
    uint8_t twice[JOURNAL_RECORD_BYTES_MAX];
    size_t size = journal_payload_encode(record, out, sizeof out);
    must(size >= payload.size && memcmp(out, payload.data, payload.size) == 0);
    struct journal_record again;
    must(journal_payload_decode((struct baton_bytes){ out, size }, &again));
    must(journal_payload_encode(&again, twice, sizeof twice) == size);
    must(memcmp(out, twice, size) == 0);
}

static void decode_payload(struct baton_bytes payload)
{
    struct journal_record record;
    if (journal_payload_decode(payload, &record)) {
        write_again(&record, payload);
        void *memory;
        struct agent *agent = make_core(&memory);
        (void)agent_step(
            agent, &(struct agent_event){ .kind = AGENT_EVENT_RECOVERED, .recovered = &record });
        (void)agent_step(agent, &(struct agent_event){ .kind = AGENT_EVENT_STARTED });
        free(memory);
    }
}

static void walk_file(struct baton_bytes bytes)
{
    static uint8_t image[IMAGE_BYTES];
    size_t size = bytes.size < sizeof image - JOURNAL_HEADER_BYTES
                      ? bytes.size
                      : sizeof image - JOURNAL_HEADER_BYTES;
    struct journal_cursor cursor;
    struct journal_record record;
    bool more = true;
    journal_header_encode(image);
    memcpy(image + JOURNAL_HEADER_BYTES, bytes.data, size);
    struct baton_status st =
        journal_cursor_init(&cursor, (struct baton_bytes){ image, JOURNAL_HEADER_BYTES + size });
    uint64_t before = 0;
    while (baton_ok(&st) && more) {
        before = cursor.offset;
        st = journal_cursor_next(&cursor, &record, &more);
        must(!baton_ok(&st) || !more || cursor.offset > before);
        must(cursor.offset <= cursor.file.size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct baton_bytes rest = { data + 1, size - 1 };
    if (data[0] == 'p') {
        decode_payload(rest);
    } else {
        walk_file(rest);
    }
    return 0;
}
