/* transport_exports.c -- rows on memory that peers reach: writing, rights, and loss. */
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/transport_conformance.h"

enum { TARGET_BYTES = 4096 };

/* Registers 'target' at the peer and aims a transfer of the reader's buffer at it. */
static bool aim(struct bench *bench, uint8_t *target, uint32_t access, struct baton_tp_mem **mem,
                struct baton_tp_transfer *transfer)
{
    static uint8_t key[BATON_TP_KEY_BYTES_MAX];
    struct baton_tp_memory memory = { sizeof(memory), target, TARGET_BYTES, NULL, 0, access };
    uint32_t key_bytes = sizeof(key);
    if (bench->plugin->mem_register(bench->peer, &memory, mem) != BATON_TP_OK ||
        bench->plugin->key(bench->peer, *mem, key, &key_bytes) != BATON_TP_OK) {
        return false;
    }
    *transfer = bench_transfer(bench, 0, 100, 21);
    transfer->key = key;
    transfer->key_bytes = key_bytes;
    return true;
}

static const char *writes_exactly_its_range(struct bench *bench)
{
    uint8_t target[TARGET_BYTES] = { 0 };
    struct baton_tp_mem *mem = NULL;
    struct baton_tp_transfer transfer;
    if (!aim(bench, target, BATON_TP_ACCESS_WRITE, &mem, &transfer)) {
        return "writable memory was not registered";
    }
    memset(bench->buffer, 0x5a, 100);
    transfer.remote_offset = 50;
    struct baton_tp_completion done = bench_do(bench, bench->plugin->put, &transfer);
    struct baton_tp_completion got = bench_do(bench, bench->plugin->get, &transfer);
    transfer.remote_offset = TARGET_BYTES - 10;
    struct baton_tp_completion beyond = bench_do(bench, bench->plugin->put, &transfer);
    bench->plugin->mem_release(bench->peer, mem);
    if (done.result != BATON_TP_OK || done.bytes != 100 || target[49] != 0 || target[50] != 0x5a ||
        target[149] != 0x5a || target[150] != 0) {
        return "put() did not write exactly its range";
    }
    if (got.result != BATON_TP_E_DENIED) {
        return "memory that may only be written was read";
    }
    return beyond.result == BATON_TP_E_CORRUPT && beyond.bytes == 10
               ? NULL
               : "a put() beyond the end is not CORRUPT with the bytes that fitted";
}

static const char *denies_writing_what_may_be_read(struct bench *bench)
{
    struct baton_tp_transfer transfer = bench_transfer(bench, 0, 10, 22);
    memset(bench->buffer, 0x77, 10);
    struct baton_tp_completion done = bench_do(bench, bench->plugin->put, &transfer);
    return done.result == BATON_TP_E_DENIED && bench->object[0] != 0x77
               ? NULL
               : "memory that may only be read was written";
}

static const char *hides_released_memory(struct bench *bench)
{
    uint8_t target[TARGET_BYTES] = { 0 };
    struct baton_tp_mem *mem = NULL;
    struct baton_tp_transfer transfer;
    if (!aim(bench, target, BATON_TP_ACCESS_READ, &mem, &transfer)) {
        return "readable memory was not registered";
    }
    struct baton_tp_completion before = bench_do(bench, bench->plugin->get, &transfer);
    bench->plugin->mem_release(bench->peer, mem);
    struct baton_tp_completion after = bench_do(bench, bench->plugin->get, &transfer);
    if (before.result != BATON_TP_OK) {
        return "registered memory cannot be read";
    }
    return after.result < 0 ? NULL : "released memory was read";
}

static const char *hides_private_memory(struct bench *bench)
{
    uint8_t target[TARGET_BYTES] = { 0 };
    uint8_t key[BATON_TP_KEY_BYTES_MAX];
    uint32_t key_bytes = sizeof(key);
    struct baton_tp_mem *mem = NULL;
    struct baton_tp_memory memory = { sizeof(memory), target, TARGET_BYTES, NULL, 0, 0 };
    if (bench->plugin->mem_register(bench->peer, &memory, &mem) != BATON_TP_OK) {
        return "private memory was not registered";
    }
    int result = bench->plugin->key(bench->peer, mem, key, &key_bytes);
    bench->plugin->mem_release(bench->peer, mem);
    return result < 0 ? NULL : "private memory has a key";
}

static const char *survives_the_loss_of_a_peer(struct bench *bench)
{
    struct baton_tp *peer = NULL;
    struct baton_tp_mem *mem = NULL;
    struct baton_tp_memory memory = { sizeof(memory),      bench->object, OBJECT_BYTES, NULL, 0,
                                      BATON_TP_ACCESS_READ };
    uint8_t address[BATON_TP_ADDRESS_BYTES_MAX];
    uint32_t address_bytes = sizeof(address);
    struct baton_tp_transfer transfer = bench_transfer(bench, 0, 10, 23);
    if (bench->plugin->open(NULL, bench->config, &peer) != BATON_TP_OK ||
        bench->plugin->mem_register(peer, &memory, &mem) != BATON_TP_OK ||
        bench->plugin->address(peer, address, &address_bytes) != BATON_TP_OK) {
        return "a third transport was not opened";
    }
    transfer.peer = address;
    transfer.peer_bytes = address_bytes;
    int accepted = bench->plugin->get(bench->reader, &transfer);
    bench->plugin->mem_release(peer, mem);
    bench->plugin->close(peer);
    struct baton_tp_completion done;
    if (accepted < 0 || !bench_poll(bench->reader, bench, &done)) {
        return "a transfer from a lost peer was not reported";
    }
    bool told = done.result == BATON_TP_E_UNREACHABLE || done.result == BATON_TP_E_PEER_LOST;
    return told ? NULL : "a lost peer is neither UNREACHABLE nor PEER_LOST";
}

const struct row export_rows[] = {
    { "writes exactly its range", BATON_TP_CAP_PUT | BATON_TP_CAP_GET | BATON_TP_CAP_EXPORT,
      writes_exactly_its_range },
    { "denies writing what may be read", BATON_TP_CAP_PUT | BATON_TP_CAP_EXPORT,
      denies_writing_what_may_be_read },
    { "hides released memory", BATON_TP_CAP_GET | BATON_TP_CAP_EXPORT, hides_released_memory },
    { "hides private memory", BATON_TP_CAP_EXPORT, hides_private_memory },
    { "survives the loss of a peer", BATON_TP_CAP_GET | BATON_TP_CAP_EXPORT,
      survives_the_loss_of_a_peer },
    { NULL, 0, NULL },
};
