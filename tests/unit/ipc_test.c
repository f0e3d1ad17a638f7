/* ipc_test.c -- backend "ipc" between two processes: bytes, rights, and the death of either side. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/unit/checkpoint_maker.h"
#include "transport/include/baton/transport.h"

enum { BYTES = (20 << 20) + 7, LEFT_OUT = 11, DEATHS = 20 };

/* What an exporter tells its peers. */
struct offer {
    uint8_t address[BATON_TP_ADDRESS_BYTES_MAX];
    uint8_t key[BATON_TP_KEY_BYTES_MAX];
    uint32_t address_bytes;
    uint32_t key_bytes;
};

struct exporter {
    pid_t pid;
    int orders; /* A byte each: 'w' withdraw, 'r' report the first byte. */
    int answers;
    struct offer offer;
};

static struct baton_transport *open_ipc(void)
{
    struct baton_transport *transport = NULL;
    struct baton_status st = baton_transport_open(BATON_IPC_PLUGIN, "{}", &transport);
    cr_assert(baton_ok(&st), "%s", st.message);
    return transport;
}

static struct baton_tp_mem *share(struct baton_transport *transport, uint8_t *bytes, uint64_t size,
                                  struct offer *out)
{
    struct baton_tp_mem *mem = NULL;
    struct baton_status st =
        baton_transport_register(transport, bytes, size, (struct baton_bytes){ NULL, 0 },
                                 BATON_TP_ACCESS_READ | BATON_TP_ACCESS_WRITE, &mem);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = baton_transport_address(transport, out->address, &out->address_bytes);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = baton_transport_key(transport, mem, out->key, &out->key_bytes);
    cr_assert(baton_ok(&st), "%s", st.message);
    return mem;
}

static void must_write(int fd, const void *from, size_t bytes)
{
    if (write(fd, from, bytes) != (ssize_t)bytes) {
        _exit(3);
    }
}

/* The child: exports the pattern and does as it is told until its orders end. */
static void export_until_told(int orders, int answers)
{
    struct baton_transport *transport = open_ipc();
    uint8_t *bytes = maker_bytes(BYTES);
    struct offer offer = { .key_bytes = 0 };
    struct baton_tp_mem *mem = share(transport, bytes, BYTES - LEFT_OUT, &offer);
    must_write(answers, &offer, sizeof(offer));
    char order = 0;
    while (read(orders, &order, 1) == 1) {
        if (order == 'w') {
            baton_transport_release(transport, mem);
            mem = NULL;
        }
        must_write(answers, bytes, 1);
    }
    baton_transport_release(transport, mem);
    baton_transport_close(transport);
    free(bytes);
    _exit(0);
}

static struct exporter start_exporter(void)
{
    int down[2];
    int up[2];
    cr_assert(pipe(down) == 0 && pipe(up) == 0);
    struct exporter exporter = { .pid = fork() };
    cr_assert_geq(exporter.pid, 0);
    if (exporter.pid == 0) {
        close(down[1]);
        close(up[0]);
        export_until_told(down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    exporter.orders = down[1];
    exporter.answers = up[0];
    cr_assert_eq(read(up[0], &exporter.offer, sizeof(exporter.offer)),
                 (ssize_t)sizeof(exporter.offer));
    return exporter;
}

static char order(const struct exporter *exporter, char what)
{
    char answer = 0;
    cr_assert_eq(write(exporter->orders, &what, 1), 1);
    cr_assert_eq(read(exporter->answers, &answer, 1), 1);
    return answer;
}

/* By signal, or, with 0, because its orders end. */
static void end_exporter(struct exporter *exporter, int number)
{
    close(exporter->orders);
    cr_assert(number == 0 || kill(exporter->pid, number) == 0);
    cr_assert_eq(waitpid(exporter->pid, NULL, 0), exporter->pid);
    close(exporter->answers);
}

static struct baton_transport_range range_of(const struct offer *offer, uint64_t offset)
{
    return (struct baton_transport_range){ { offer->address, offer->address_bytes },
                                           { offer->key, offer->key_bytes },
                                           offset };
}

static struct baton_status get(struct baton_transport *transport, const struct offer *offer,
                               struct baton_tp_mem *mem, uint64_t bytes)
{
    return baton_transport_get_wait(transport, range_of(offer, 0),
                                    (struct baton_transport_local){ mem, 0, bytes },
                                    600 * BATON_NS_PER_S);
}

static struct baton_tp_mem *local(struct baton_transport *transport, uint8_t *bytes)
{
    struct baton_tp_mem *mem = NULL;
    struct baton_status st =
        baton_transport_register(transport, bytes, BYTES, (struct baton_bytes){ NULL, 0 }, 0, &mem);
    cr_assert(baton_ok(&st), "%s", st.message);
    return mem;
}

/* All bytes of another process, in slices, and back into it. */
Test(ipc, reads_and_writes_another_process)
{
    struct exporter exporter = start_exporter();
    struct baton_transport *transport = open_ipc();
    uint8_t *expected = maker_bytes(BYTES);
    uint8_t *got = calloc(1, BYTES);
    struct baton_tp_mem *mem = local(transport, got);
    uint64_t length = 0;
    struct baton_status st = baton_transport_length_wait(transport, range_of(&exporter.offer, 0),
                                                         600 * BATON_NS_PER_S, &length);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(length, BYTES - LEFT_OUT);
    st = get(transport, &exporter.offer, mem, BYTES - LEFT_OUT);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(memcmp(got, expected, BYTES - LEFT_OUT), 0);
    cr_expect_eq(got[BYTES - LEFT_OUT], 0, "wrote beyond the range");
    st = get(transport, &exporter.offer, mem, BYTES);
    cr_expect_eq(st.code, BATON_DATA_LOSS, "%s", st.message);

    bool accepted = false;
    struct baton_tp_completion done;
    uint32_t count = 0;
    got[0] = 0xA7;
    st = baton_transport_put(transport, range_of(&exporter.offer, 0),
                             (struct baton_transport_local){ mem, 0, 1 }, 5, &accepted);
    cr_assert(baton_ok(&st) && accepted);
    while (count == 0) {
        st = baton_transport_poll(transport, &done, 1, &count);
        cr_assert(baton_ok(&st));
    }
    cr_expect_eq(done.result, BATON_TP_OK);
    cr_expect_eq((uint8_t)order(&exporter, 'r'), 0xA7);
    baton_transport_close(transport);
    end_exporter(&exporter, 0);
    free(expected);
    free(got);
}

/* What was withdrawn is not read, though the memory is still there. */
Test(ipc, hides_what_another_process_withdrew)
{
    struct exporter exporter = start_exporter();
    struct baton_transport *transport = open_ipc();
    uint8_t *got = calloc(1, BYTES);
    struct baton_tp_mem *mem = local(transport, got);
    struct baton_status st = get(transport, &exporter.offer, mem, 100);
    cr_expect(baton_ok(&st), "%s", st.message);
    (void)order(&exporter, 'w');
    st = get(transport, &exporter.offer, mem, 100);
    cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    baton_transport_close(transport);
    end_exporter(&exporter, 0);
    free(got);
}

/* Withdrawn while a put is half done: no later slice is written, whatever that memory is by then. */
Test(ipc, writes_nothing_into_what_was_withdrawn)
{
    enum { SLICE = 8 << 20 };
    struct baton_transport *owner = open_ipc();
    struct baton_transport *writer = open_ipc();
    uint8_t *target = calloc(1, BYTES);
    uint8_t *source = malloc(BYTES);
    struct offer offer = { .key_bytes = 0 };
    struct baton_tp_completion done = { 0, 0, 0, 0 };
    bool accepted = false;
    uint32_t count = 0;
    memset(source, 0xA7, BYTES);
    struct baton_tp_mem *shared = share(owner, target, BYTES, &offer);
    struct baton_status st = baton_transport_put(
        writer, range_of(&offer, 0),
        (struct baton_transport_local){ local(writer, source), 0, BYTES }, 9, &accepted);
    cr_assert(baton_ok(&st) && accepted);
    st = baton_transport_poll(writer, &done, 1, &count);
    cr_assert(baton_ok(&st) && count == 0, "one poll copied more than a slice");
    baton_transport_release(owner, shared);
    while (count == 0) {
        st = baton_transport_poll(writer, &done, 1, &count);
        cr_assert(baton_ok(&st));
    }
    cr_expect_eq(done.result, BATON_TP_E_PEER_LOST);
    cr_expect_eq(target[SLICE - 1], 0xA7);
    cr_expect_eq(target[SLICE], 0, "written after it was withdrawn");
    baton_transport_close(writer);
    baton_transport_close(owner);
    free(source);
    free(target);
}

/* A child that was forked lets its copy go, as interpreters do at their end: what its parent exports stays. */
Test(ipc, a_forked_child_withdraws_nothing)
{
    struct baton_transport *owner = open_ipc();
    struct baton_transport *reader = open_ipc();
    uint8_t *bytes = maker_bytes(BYTES);
    uint8_t *got = calloc(1, BYTES);
    struct offer offer = { .key_bytes = 0 };
    (void)share(owner, bytes, BYTES, &offer);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        baton_transport_close(owner);
        _exit(0);
    }
    cr_assert_eq(waitpid(pid, NULL, 0), pid);
    struct baton_status st = get(reader, &offer, local(reader, got), BYTES);
    cr_expect(baton_ok(&st), "%s", st.message);
    cr_expect_eq(memcmp(got, bytes, BYTES), 0);
    baton_transport_close(reader);
    baton_transport_close(owner);
    free(bytes);
    free(got);
}

/* Killed between two transfers, with its board still mapped here, and before the first one. */
Test(ipc, survives_an_exporter_that_was_killed)
{
    struct baton_transport *transport = open_ipc();
    uint8_t *got = calloc(1, BYTES);
    struct baton_tp_mem *mem = local(transport, got);
    for (int i = 0; i < DEATHS; i++) {
        struct exporter exporter = start_exporter();
        struct baton_status st = baton_status_ok();
        if (i % 2 == 0) {
            st = get(transport, &exporter.offer, mem, 100);
            cr_expect(baton_ok(&st), "%s", st.message);
        }
        end_exporter(&exporter, SIGKILL);
        st = get(transport, &exporter.offer, mem, 100);
        cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
        /* Its board would still tell, if it were asked. */
        uint64_t length = 0;
        st = baton_transport_length_wait(transport, range_of(&exporter.offer, 0),
                                         600 * BATON_NS_PER_S, &length);
        cr_expect_eq(st.code, BATON_UNAVAILABLE, "%s", st.message);
    }
    baton_transport_close(transport);
    free(got);
}

/* Killed while a transfer is half done: it ends, and not with OK. */
Test(ipc, tells_an_exporter_that_dies_during_a_transfer)
{
    struct exporter exporter = start_exporter();
    struct baton_transport *transport = open_ipc();
    uint8_t *got = calloc(1, BYTES);
    struct baton_tp_mem *mem = local(transport, got);
    struct baton_tp_completion done = { 0, 0, 0, 0 };
    bool accepted = false;
    uint32_t count = 0;
    struct baton_status st = baton_transport_get(
        transport, range_of(&exporter.offer, 0),
        (struct baton_transport_local){ mem, 0, BYTES - LEFT_OUT }, 9, &accepted);
    cr_assert(baton_ok(&st) && accepted);
    st = baton_transport_poll(transport, &done, 1, &count);
    cr_assert(baton_ok(&st) && count == 0, "one poll copied more than a slice");
    end_exporter(&exporter, SIGKILL);
    while (count == 0) {
        st = baton_transport_poll(transport, &done, 1, &count);
        cr_assert(baton_ok(&st));
    }
    cr_expect_eq(done.result, BATON_TP_E_PEER_LOST);
    cr_expect_lt(done.bytes, (uint64_t)(BYTES - LEFT_OUT));
    baton_transport_close(transport);
    free(got);
}

/* A reader's death leaves nothing behind: the exporter serves the next one. */
Test(ipc, serves_on_after_a_reader_was_killed)
{
    struct exporter exporter = start_exporter();
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        cr_assert_geq(pid, 0);
        if (pid == 0) {
            struct baton_transport *transport = open_ipc();
            uint8_t *got = calloc(1, BYTES);
            struct baton_tp_mem *mem = local(transport, got);
            struct baton_status st = get(transport, &exporter.offer, mem, BYTES - LEFT_OUT);
            _exit(baton_ok(&st) && kill(getpid(), SIGKILL) == 0 ? 1 : 2);
        }
        int how = 0;
        cr_assert_eq(waitpid(pid, &how, 0), pid);
        cr_expect(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    }
    struct baton_transport *transport = open_ipc();
    uint8_t *got = calloc(1, BYTES);
    struct baton_status st = get(transport, &exporter.offer, local(transport, got), 100);
    cr_expect(baton_ok(&st), "%s", st.message);
    baton_transport_close(transport);
    end_exporter(&exporter, 0);
    free(got);
}

/* A process number that was given again, another descriptor, another transport: never its bytes. */
Test(ipc, refuses_addresses_that_are_not_the_peers)
{
    struct exporter exporter = start_exporter();
    struct baton_transport *transport = open_ipc();
    uint8_t *got = calloc(1, BYTES);
    struct baton_tp_mem *mem = local(transport, got);
    for (uint32_t i = 0; i < exporter.offer.address_bytes; i++) {
        struct offer wrong = exporter.offer;
        wrong.address[i] ^= 1;
        struct baton_status st = get(transport, &wrong, mem, 100);
        cr_expect(!baton_ok(&st), "byte %u of the address does not count", i);
    }
    for (uint32_t i = 0; i < exporter.offer.key_bytes; i++) {
        struct offer wrong = exporter.offer;
        wrong.key[i] ^= 1;
        struct baton_status st = get(transport, &wrong, mem, 100);
        cr_expect_eq(st.code, BATON_UNAVAILABLE, "byte %u of the key does not count", i);
    }
    baton_transport_close(transport);
    end_exporter(&exporter, 0);
    free(got);
}

/* Many more registrations than there are slots, and as many at once as there are. */
Test(ipc, gives_slots_again)
{
    enum { SLOTS = 4096 };
    struct baton_transport *transport = open_ipc();
    static uint8_t byte = 1;
    static struct baton_tp_mem *mems[SLOTS];
    struct offer offer = { .key_bytes = 0 };
    for (int i = 0; i < 3 * SLOTS; i++) {
        baton_transport_release(transport, share(transport, &byte, 1, &offer));
    }
    for (int i = 0; i < SLOTS; i++) {
        mems[i] = share(transport, &byte, 1, &offer);
    }
    struct baton_tp_mem *more = NULL;
    struct baton_bytes none = { NULL, 0 };
    struct baton_status st =
        baton_transport_register(transport, &byte, 1, none, BATON_TP_ACCESS_READ, &more);
    cr_expect_eq(st.code, BATON_INTERNAL, "%s", st.message);
    baton_transport_release(transport, mems[17]);
    st = baton_transport_register(transport, &byte, 1, none, BATON_TP_ACCESS_READ, &more);
    cr_expect(baton_ok(&st), "%s", st.message);
    baton_transport_close(transport);
}

/* Without a GPU it says so; with one it can do more. */
Test(ipc, says_why_there_is_no_gpu)
{
    struct baton_transport *transport = NULL;
    struct baton_status st =
        baton_transport_open(BATON_IPC_PLUGIN, "{\"cuda\":\"/nowhere/baton_cuda.so\"}", &transport);
    cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "%s", st.message);
    st = baton_transport_open(BATON_IPC_PLUGIN, "{\"device\":-1}", &transport);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT, "%s", st.message);
#ifdef BATON_CUDA_PLUGIN
    st = baton_transport_open(BATON_IPC_PLUGIN, "{\"cuda\":\"" BATON_CUDA_PLUGIN "\"}", &transport);
    if (baton_ok(&st)) {
        cr_expect((baton_transport_attr(transport).caps & BATON_TP_CAP_CUDA_MEMORY) != 0);
        baton_transport_close(transport);
    } else {
        cr_expect_eq(st.code, BATON_UNIMPLEMENTED, "%s", st.message);
    }
#endif
}
