/* local_recorder.c -- keeps every byte, so that tests compare what arrived with what was sent. */
#include "tests/unit/local_recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/base/clock.h"
#include "api/client/baton.h"

static struct recorder *of(struct local_upload *upload)
{
    return (struct recorder *)upload; /* One upload at a time: the recorder is its own upload. */
}

static void forget(struct recorder *recorder)
{
    for (size_t i = 0; i < recorder->entries_count; i++) {
        free(recorder->entries[i].bytes);
    }
    recorder->entries_count = 0;
    if (recorder->segment != NULL) {
        (void)munmap(recorder->segment, recorder->segment_bytes);
    }
    recorder->segment = NULL;
    recorder->segment_bytes = 0;
}

static void info(void *context, struct local_info *out)
{
    (void)context;
    memset(out, 0, sizeof(*out));
    out->connected = true;
    out->publishing = 3;
    (void)snprintf(out->agent, sizeof(out->agent), "agent-1");
    (void)snprintf(out->controller, sizeof(out->controller), "127.0.0.1:7070");
    (void)snprintf(out->directory, sizeof(out->directory), "/versions");
}

/* Works, visibly, until it is let go. */
static struct baton_status work(struct recorder *recorder, const struct local_feedback *feedback)
{
    uint64_t done = 0;
    atomic_fetch_add(&recorder->working, 1);
    do {
        done += 1000;
        if (!feedback->report(feedback->context, BATON_PHASE_COPYING, done, 1000000000, "a.bin")) {
            atomic_fetch_add(&recorder->cancelled, 1);
            return baton_status_make(BATON_CANCELLED, BATON_REASON_NONE, "stopped");
        }
        if (atomic_load(&recorder->blocks)) {
            baton_clock_sleep_ns(BATON_NS_PER_MS);
        }
    } while (atomic_load(&recorder->blocks));
    return baton_status_ok();
}

static void fill_result(const struct local_publish *request, struct local_result *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out->model, request->model, sizeof(out->model));
    out->seq = 7;
    (void)snprintf(out->uid, sizeof(out->uid), "00112233445566778899aabbccddeeff");
    (void)snprintf(out->digest, sizeof(out->digest), "ffeeddccbbaa99887766554433221100");
    out->bytes = 1000;
    out->tensors = 5;
}

static struct baton_status directory(void *context, const struct local_publish *request,
                                     const struct local_feedback *feedback,
                                     struct local_result *out)
{
    struct recorder *recorder = context;
    (void)pthread_mutex_lock(&recorder->lock);
    recorder->request = *request;
    (void)pthread_mutex_unlock(&recorder->lock);
    atomic_fetch_add(&recorder->begun, 1);
    struct baton_status st = work(recorder, feedback);
    if (baton_ok(&st)) {
        fill_result(request, out);
        atomic_fetch_add(&recorder->committed, 1);
    }
    return st;
}

static struct baton_status begin(void *context, const struct local_publish *request,
                                 const struct local_feedback *feedback, struct local_upload **out)
{
    struct recorder *recorder = context;
    if (recorder->refuses_begin) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_BAD_FIELD, "no model '%s'",
                                 request->model);
    }
    (void)feedback->report(feedback->context, BATON_PHASE_QUEUED, 0, 0, NULL);
    forget(recorder);
    recorder->request = *request;
    *out = (struct local_upload *)recorder;
    atomic_fetch_add(&recorder->begun, 1);
    return baton_status_ok();
}

static struct baton_status segment(struct local_upload *upload, int fd, uint64_t bytes)
{
    struct recorder *recorder = of(upload);
    if (recorder->segment != NULL) {
        (void)munmap(recorder->segment, recorder->segment_bytes);
        recorder->segment = NULL;
    }
    recorder->segment_bytes = bytes;
    if (bytes > 0) {
        void *memory = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
        baton_assert(memory != MAP_FAILED);
        recorder->segment = memory;
    }
    return baton_status_ok();
}

static struct baton_status entry(struct local_upload *upload, const struct local_entry *given)
{
    struct recorder *recorder = of(upload);
    if (recorder->refused_entry != NULL && strcmp(recorder->refused_entry, given->name) == 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_INCOMPATIBLE,
                                 "tensor '%s': not in the parent", given->name);
    }
    baton_assert(recorder->entries_count < RECORDER_ENTRIES_MAX);
    struct recorded_entry *kept = &recorder->entries[recorder->entries_count++];
    *kept = (struct recorded_entry){ .entry = *given };
    kept->bytes = malloc(given->bytes + 1);
    baton_assert(kept->bytes != NULL);
    if (!given->is_inline) {
        baton_assert(given->offset + given->bytes <= recorder->segment_bytes);
        memcpy(kept->bytes, recorder->segment + given->offset, given->bytes);
        kept->have = given->bytes;
    }
    return baton_status_ok();
}

static struct baton_status data(struct local_upload *upload, struct baton_bytes bytes)
{
    struct recorder *recorder = of(upload);
    struct recorded_entry *last = &recorder->entries[recorder->entries_count - 1];
    memcpy(last->bytes + last->have, bytes.data, bytes.size);
    last->have += bytes.size;
    return baton_status_ok();
}

static struct baton_status commit(struct local_upload *upload,
                                  const struct local_feedback *feedback, struct local_result *out)
{
    struct recorder *recorder = of(upload);
    struct baton_status st = work(recorder, feedback);
    if (baton_ok(&st)) {
        fill_result(&recorder->request, out);
        atomic_fetch_add(&recorder->committed, 1);
    }
    return st;
}

static void drop(struct local_upload *upload)
{
    atomic_fetch_add(&of(upload)->dropped, 1);
}

struct recorder *recorder_create(void)
{
    struct recorder *recorder = calloc(1, sizeof(*recorder));
    baton_assert(recorder != NULL);
    (void)pthread_mutex_init(&recorder->lock, NULL);
    return recorder;
}

void recorder_destroy(struct recorder *recorder)
{
    forget(recorder);
    (void)pthread_mutex_destroy(&recorder->lock);
    free(recorder);
}

static struct baton_status operate(void *context, const struct local_operate *request,
                                   const char *by, void (*say)(void *listener, const char *line),
                                   void *listener)
{
    struct recorder *recorder = context;
    (void)pthread_mutex_lock(&recorder->lock);
    recorder->operated = *request;
    (void)baton_text_copy(recorder->operated_by, sizeof(recorder->operated_by), by);
    (void)pthread_mutex_unlock(&recorder->lock);
    if (strcmp(request->verb, "status") != 0) {
        return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE, "no swap is open");
    }
    say(listener, "{\"agent\":\"a\"}");
    say(listener, "{\"group\":\"g0\"}");
    return baton_status_ok();
}

struct local_sink recorder_sink(struct recorder *recorder)
{
    return (struct local_sink){ .context = recorder,
                                .info = info,
                                .directory = directory,
                                .begin = begin,
                                .segment = segment,
                                .entry = entry,
                                .data = data,
                                .commit = commit,
                                .drop = drop,
                                .operate = operate,
                                .operator_context = recorder };
}

bool recorder_wait(const _Atomic uint32_t *counter, uint32_t value)
{
    uint64_t deadline_ns = baton_clock_monotonic_ns() + 60 * BATON_NS_PER_S;
    while (atomic_load(counter) < value) {
        if (baton_clock_monotonic_ns() > deadline_ns) {
            return false;
        }
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
    return true;
}

const struct recorded_entry *recorder_find(const struct recorder *recorder, const char *name)
{
    for (size_t i = 0; i < recorder->entries_count; i++) {
        if (strcmp(recorder->entries[i].entry.name, name) == 0) {
            return &recorder->entries[i];
        }
    }
    return NULL;
}
