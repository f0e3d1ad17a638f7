/* rig.c -- memory, verdicts, times. */
#include "tests/gpu/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rig rig_open(const char *plugin)
{
    struct rig rig = { 0 };
    struct baton_cuda_device device;
    struct baton_status st = cuda_open(plugin, &rig.cuda);
    if (!baton_ok(&st)) {
        printf("skip - gpu: %s\n", st.message);
        exit(0);
    }
    baton_random_seed(&rig.random, 20261201);
    rig_must(&rig, rig.cuda->device(0, &device), "device 0");
    rig_must(&rig, rig.cuda->use(0), "use");
    rig_must(&rig, rig.cuda->stream_create(&rig.stream), "stream");
    printf("{\"name\":\"device\",\"value\":\"%s\",\"capability\":%d,\"processors\":%d,\"free_gb\":"
           "%.1f}\n",
           device.name, device.capability, device.processors, (double)device.free_bytes / 1e9);
    return rig;
}

void rig_close(struct rig *rig)
{
    rig_must(rig, rig->cuda->stream_destroy(rig->stream), "stream_destroy");
}

void rig_must(const struct rig *rig, int result, const char *what)
{
    if (result != BATON_CUDA_OK) {
        printf("not ok - %s: %s (%d)\n", what, rig->cuda->describe(result), result);
        exit(2);
    }
}

uint8_t *rig_host(struct rig *rig, uint64_t bytes)
{
    uint8_t *host = malloc(bytes + sizeof(uint64_t));
    if (host == NULL) {
        abort();
    }
    for (uint64_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = baton_random_u64(&rig->random);
        memcpy(host + i, &word, sizeof(word));
    }
    return host;
}

void *rig_device(struct rig *rig, uint64_t bytes)
{
    void *device = NULL;
    rig_must(rig, rig->cuda->alloc(&device, bytes + 1), "alloc");
    rig_must(rig, rig->cuda->fill(device, RIG_POISON, bytes, rig->stream), "fill");
    return device;
}

void *rig_upload(struct rig *rig, const void *host, uint64_t bytes)
{
    void *device = rig_device(rig, bytes);
    rig_must(rig, rig->cuda->copy(device, host, bytes, rig->stream), "copy to device");
    rig_wait(rig);
    return device;
}

void *rig_download(struct rig *rig, const void *device, uint64_t bytes)
{
    void *host = malloc(bytes + 1);
    if (host == NULL) {
        abort();
    }
    rig_must(rig, rig->cuda->copy(host, device, bytes, rig->stream), "copy to host");
    rig_wait(rig);
    return host;
}

void rig_free(struct rig *rig, void *device)
{
    rig_must(rig, rig->cuda->free(device), "free");
}

void rig_wait(struct rig *rig)
{
    rig_must(rig, rig->cuda->stream_wait(rig->stream), "stream_wait");
}

void rig_verdict(struct rig *rig, const char *name, bool holds)
{
    printf("%s - %s\n", holds ? "ok" : "not ok", name);
    rig->failed += !holds;
}

bool rig_equal(const char *what, const void *got, const void *expected, uint64_t count)
{
    const uint8_t *a = got;
    const uint8_t *b = expected;
    for (uint64_t i = 0; i < count; i++) {
        if (a[i] != b[i]) {
            printf("  %s: byte %llu of %llu is %02x, not %02x\n", what, (unsigned long long)i,
                   (unsigned long long)count, a[i], b[i]);
            return false;
        }
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

double rig_time(struct rig *rig, void (*work)(struct rig *rig, void *self), void *self,
                unsigned runs)
{
    double times[RIG_RUNS_MAX];
    void *begin = NULL;
    void *end = NULL;
    rig_must(rig, rig->cuda->event_create(&begin), "event_create");
    rig_must(rig, rig->cuda->event_create(&end), "event_create");
    work(rig, self);
    work(rig, self);
    for (unsigned i = 0; i < runs; i++) {
        rig_must(rig, rig->cuda->event_record(begin, rig->stream), "event_record");
        work(rig, self);
        rig_must(rig, rig->cuda->event_record(end, rig->stream), "event_record");
        rig_must(rig, rig->cuda->event_wait(end), "event_wait");
        rig_must(rig, rig->cuda->event_seconds(begin, end, &times[i]), "event_seconds");
    }
    rig_must(rig, rig->cuda->event_destroy(begin), "event_destroy");
    rig_must(rig, rig->cuda->event_destroy(end), "event_destroy");
    qsort(times, runs, sizeof(times[0]), by_value);
    return times[runs / 2];
}

void rig_figure(struct rig *rig, struct figure figure)
{
    bool is_met = figure.value >= figure.target;
    printf(
        "{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"%s\",\"anchor\":\"%s\",\"anchor_value\":%.4g,"
        "\"ratio\":%.3f,\"target\":%.4g,\"met\":%s}\n",
        figure.name, figure.value, figure.unit, figure.anchor, figure.anchor_value,
        figure.value / figure.anchor_value, figure.target, is_met ? "true" : "false");
    rig->missed += !is_met;
}
