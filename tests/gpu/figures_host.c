/* figures_host.c -- host to device: straight from pinned memory, and through the host path from
 * pageable memory and from a file on tmpfs, as a landing is one. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "tests/gpu/rig.h"
#include "transport/cuda/host_path.h"

#define GIB (UINT64_C(1) << 30)
enum { RUNS = 7, TENSORS = 399, SLOT = 4 << 20, WORKERS = 12 };

struct link {
    struct host_path *path;
    uint8_t *device;
    uint8_t *host;
    uint64_t bytes;
    int landing; /* A file on tmpfs. */
};

static void work_straight(struct rig *rig, void *self)
{
    struct link *link = self;
    rig_must(rig, rig->cuda->copy(link->device, link->host, link->bytes, rig->stream), "copy");
}

/* 'host' null: from the landing. */
static void send(const struct link *link, const uint8_t *host)
{
    struct host_path_piece pieces[TENSORS];
    uint64_t each = link->bytes / TENSORS / 512 * 512;
    for (uint32_t i = 0; i < TENSORS; i++) {
        uint64_t bytes = i + 1 < TENSORS ? each : link->bytes - each * i;
        pieces[i] = (struct host_path_piece){ .host = host == NULL ? NULL : host + each * i,
                                              .device = link->device + each * i,
                                              .bytes = bytes,
                                              .offset = each * i,
                                              .fd = link->landing };
    }
    struct baton_status st = host_path_send(link->path, pieces, TENSORS,
                                            baton_clock_monotonic_ns() + 60 * BATON_NS_PER_S);
    if (!baton_ok(&st)) {
        printf("not ok - host path: %s\n", st.message);
        exit(2);
    }
}

static void work_pageable(struct rig *rig, void *self)
{
    struct link *link = self;
    rig_wait(rig);
    send(link, link->host);
}

static void work_landing(struct rig *rig, void *self)
{
    struct link *link = self;
    rig_wait(rig);
    send(link, NULL);
}

static double rate(struct rig *rig, struct link *link, void (*work)(struct rig *, void *))
{
    return (double)link->bytes / rig_time(rig, work, link, RUNS) / 1e9;
}

static int make_landing(const struct link *link)
{
    char name[] = "/dev/shm/baton-gpu-XXXXXX";
    int fd = mkstemp(name);
    for (uint64_t at = 0; fd >= 0 && at < link->bytes;) {
        ssize_t written = write(fd, link->host + at, link->bytes - at);
        if (written <= 0) {
            break;
        }
        at += (uint64_t)written;
    }
    if (fd < 0 || unlink(name) != 0 || lseek(fd, 0, SEEK_END) != (off_t)link->bytes) {
        perror(name);
        exit(2);
    }
    return fd;
}

/* Pinning memory that is there, in GB/s: what a landing that stays pays once. */
static void pin(struct rig *rig, struct link *link, double anchor)
{
    uint8_t *mapped = mmap(NULL, link->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, link->landing, 0);
    uint64_t begin = baton_clock_monotonic_ns();
    rig_must(rig, rig->cuda->host_register(mapped, link->bytes), "host_register");
    double seconds = (double)(baton_clock_monotonic_ns() - begin) / 1e9;
    uint8_t *unpinned = link->host;
    link->host = mapped;
    double straight = rate(rig, link, work_straight);
    link->host = unpinned;
    rig_must(rig, rig->cuda->host_unregister(mapped), "host_unregister");
    munmap(mapped, link->bytes);
    rig_figure(rig, (struct figure){ "host_register", "GB/s", "copy from pinned memory",
                                     (double)link->bytes / seconds / 1e9, anchor, 0 });
    rig_figure(rig, (struct figure){ "host_registered_landing", "GB/s", "copy from pinned memory",
                                     straight, anchor, 0.9 * anchor });
}

void figures_host(struct rig *rig)
{
    struct link link = { .bytes = 4 * GIB };
    struct host_path_options options = { 0, WORKERS, SLOT };
    struct baton_status st = host_path_create(rig->cuda, options, &link.path);
    if (!baton_ok(&st)) {
        printf("not ok - host path: %s\n", st.message);
        exit(2);
    }
    link.device = rig_device(rig, link.bytes);
    rig_must(rig, rig->cuda->host_alloc((void **)&link.host, link.bytes), "host_alloc");
    memset(link.host, 0x5A, link.bytes);
    double anchor = rate(rig, &link, work_straight);
    rig_must(rig, rig->cuda->host_free(link.host), "host_free");
    link.host = rig_host(rig, link.bytes);
    link.landing = make_landing(&link);
    const char *name = "copy from pinned memory";
    rig_figure(rig, (struct figure){ "host_pageable_driver", "GB/s", name,
                                     rate(rig, &link, work_straight), anchor, 0 });
    rig_figure(rig, (struct figure){ "host_path_pageable", "GB/s", name,
                                     rate(rig, &link, work_pageable), anchor, 0.9 * anchor });
    rig_figure(rig, (struct figure){ "host_path_landing", "GB/s", name,
                                     rate(rig, &link, work_landing), anchor, 0.9 * anchor });
    pin(rig, &link, anchor);
    close(link.landing);
    free(link.host);
    host_path_destroy(link.path);
    rig_free(rig, link.device);
}
