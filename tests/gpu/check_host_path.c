/* check_host_path.c -- pageable memory and files to the device through pinned slots: every byte, and every way
 * to fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/gpu/rig.h"
#include "transport/cuda/host_path.h"

enum { PIECES = 300, PIECE_MAX = 3 << 20, SLOT = 1 << 20, WORKERS = 5 };

/* Pieces of one buffer, or of a file of the same bytes, cut at random, in random order; their targets with gaps between. */
struct cut {
    uint8_t *host;
    uint8_t *device;
    uint8_t *expected;
    uint64_t bytes;
    int fd; /* The same bytes as 'host'. */
    struct host_path_piece pieces[PIECES];
};

static struct cut cut_create(struct rig *rig)
{
    struct cut cut = { .bytes = (uint64_t)PIECES * (PIECE_MAX + 64) };
    cut.host = rig_host(rig, cut.bytes);
    cut.device = rig_device(rig, cut.bytes);
    cut.expected = malloc(cut.bytes);
    memset(cut.expected, RIG_POISON, cut.bytes);
    cut.fd = memfd_create("pieces", MFD_CLOEXEC);
    if (cut.fd < 0 || write(cut.fd, cut.host, cut.bytes) != (ssize_t)cut.bytes) {
        perror("memfd");
        exit(2);
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        uint64_t at = (uint64_t)i * (PIECE_MAX + 64) + baton_random_below(&rig->random, 64);
        uint64_t small = baton_random_below(&rig->random, 3);
        uint64_t bytes = baton_random_below(&rig->random, small > 0 ? 5000 : PIECE_MAX);
        uint64_t from = baton_random_below(&rig->random, cut.bytes - bytes);
        cut.pieces[i] = (struct host_path_piece){ .host = i % 2 == 0 ? cut.host + from : NULL,
                                                  .device = cut.device + at,
                                                  .bytes = bytes,
                                                  .offset = from,
                                                  .fd = cut.fd };
        memcpy(cut.expected + at, cut.host + from, bytes);
    }
    return cut;
}

static void cut_free(struct rig *rig, struct cut *cut)
{
    close(cut->fd);
    rig_free(rig, cut->device);
    free(cut->host);
    free(cut->expected);
}

static bool arrives(struct rig *rig, struct host_path *path, const struct cut *cut)
{
    uint64_t deadline = baton_clock_monotonic_ns() + 60 * BATON_NS_PER_S;
    rig_must(rig, rig->cuda->fill(cut->device, RIG_POISON, cut->bytes, rig->stream), "fill");
    rig_wait(rig);
    struct baton_status st = host_path_send(path, cut->pieces, PIECES, deadline);
    uint8_t *got = rig_download(rig, cut->device, cut->bytes);
    bool holds = baton_ok(&st) && rig_equal("sent pieces", got, cut->expected, cut->bytes);
    printf("%s", baton_ok(&st) ? "" : st.message);
    free(got);
    return holds;
}

static bool refuses_null(struct host_path *path, struct cut *cut)
{
    void *target = cut->pieces[7].device;
    uint64_t bytes = cut->pieces[7].bytes;
    cut->pieces[7].device = NULL;
    cut->pieces[7].bytes = 100;
    struct baton_status st = host_path_send(path, cut->pieces, PIECES, UINT64_MAX);
    cut->pieces[7].device = target;
    cut->pieces[7].bytes = bytes;
    return st.code == BATON_INTERNAL && strstr(st.message, "piece 7 of 300") != NULL;
}

/* A file that lost its end, and one that is none. */
static bool refuses_files(struct host_path *path, struct cut *cut)
{
    struct host_path_piece piece = cut->pieces[9];
    cut->pieces[9].offset = cut->bytes - 50;
    cut->pieces[9].bytes = 51;
    struct baton_status st = host_path_send(path, cut->pieces, PIECES, UINT64_MAX);
    bool holds = st.code == BATON_DATA_LOSS && strstr(st.message, "piece 9 of 300") != NULL;
    cut->pieces[9].fd = -1;
    st = host_path_send(path, cut->pieces, PIECES, UINT64_MAX);
    cut->pieces[9] = piece;
    return holds && !baton_ok(&st) && strstr(st.message, "pread") != NULL;
}

void check_host_path(struct rig *rig)
{
    struct host_path_options options = { 0, WORKERS, SLOT };
    struct host_path *path = NULL;
    struct cut cut = cut_create(rig);
    struct baton_status st = host_path_create(rig->cuda, options, &path);
    rig_verdict(rig, "host path: 300 pieces arrive",
                baton_ok(&st) && arrives(rig, path, &cut) && arrives(rig, path, &cut));
    rig_verdict(rig, "host path: a piece without a target is named", refuses_null(path, &cut));
    rig_verdict(rig, "host path: files that cannot be read are named", refuses_files(path, &cut));
    st = host_path_send(path, cut.pieces, PIECES, 1);
    rig_verdict(rig, "host path: a deadline that is over is an answer",
                st.code == BATON_DEADLINE_EXCEEDED);
    rig_verdict(rig, "host path: it works on after failures", arrives(rig, path, &cut));
    host_path_destroy(path);
    options.device = 1000;
    st = host_path_create(rig->cuda, options, &path);
    rig_verdict(rig, "host path: a device that is not there is refused",
                st.code == BATON_INTERNAL && strstr(st.message, "device") != NULL);
    options.workers = HOST_PATH_WORKERS_MAX + 1;
    st = host_path_create(rig->cuda, options, &path);
    rig_verdict(rig, "host path: too many workers are refused", st.code == BATON_INVALID_ARGUMENT);
    rig_must(rig, rig->cuda->use(0), "use");
    cut_free(rig, &cut);
}
