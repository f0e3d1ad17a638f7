/* transport_conformance.h -- what the rows of the transport suite share.
 *
 * A bench holds one backend under test: its table, a reader transport, and an object of known
 * bytes that the reader can reach, in a directory or in a peer's memory, as the backend's
 * capabilities say.
 *
 * Depends on: transport/host, checkpoint_maker.h.  Threads: one, but where a row says otherwise. */
#ifndef TESTS_CONFORMANCE_TRANSPORT_CONFORMANCE_H
#define TESTS_CONFORMANCE_TRANSPORT_CONFORMANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/include/baton/transport_plugin.h"

enum { OBJECT_BYTES = (3 << 20) + 5 };

struct bench {
    const struct baton_transport_plugin *plugin;
    char config[2048];
    struct baton_tp_attr attr;

    uint8_t *object; /* The known bytes. */
    struct baton_tp *reader;
    struct baton_tp *peer; /* Null for a directory. */
    struct baton_tp_mem *exported;
    uint8_t address[BATON_TP_ADDRESS_BYTES_MAX];
    uint32_t address_bytes;
    uint8_t key[BATON_TP_KEY_BYTES_MAX];
    uint32_t key_bytes;

    uint8_t *buffer; /* Registered at the reader; OBJECT_BYTES long. */
    struct baton_tp_mem *mem;
};

/* A row: returns null if the rule holds, else what is wrong. */
typedef const char *row_fn(struct bench *bench);

struct row {
    const char *name;
    uint64_t needs; /* Capabilities without which the row is skipped. */
    row_fn *run;
};

/* Rows by subject, each list ended by a null name. */
extern const struct row transfer_rows[];
extern const struct row export_rows[];

/* The transfer that reads 'bytes' from 'offset' of the object to the start of the buffer. */
struct baton_tp_transfer bench_transfer(const struct bench *bench, uint64_t offset, uint64_t bytes,
                                        uint64_t op_id);

/* Polls until one completion comes; false after 10 s. */
bool bench_poll(struct baton_tp *tp, const struct bench *bench, struct baton_tp_completion *out);

/* Starts with 'fn' and waits for the end; an immediate failure becomes the completion's result. */
struct baton_tp_completion bench_do(const struct bench *bench,
                                    int (*fn)(struct baton_tp *, const struct baton_tp_transfer *),
                                    const struct baton_tp_transfer *transfer);

#endif /* transport_conformance.h */
