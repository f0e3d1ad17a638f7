/* worker.c -- see worker.h. */
#include "tests/miniengine/worker.h"
#include "tests/miniengine/slumber.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct worker_answer worker_returns(json_t *result_taken)
{
    return (struct worker_answer){ .result = result_taken };
}

struct worker_answer worker_raises(const char *fmt, ...)
{
    struct worker_answer answer = { .result = NULL };
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(answer.raised, sizeof answer.raised, fmt, args);
    va_end(args);
    return answer;
}

/* Loads a whole checkpoint into a set and notes the dtypes that it came in. */
static bool load_checkpoint(struct worker *worker, struct landing *landing, float *set,
                            struct trouble *why)
{
    for (uint32_t i = 0; i < worker->layout.tensors_count; i++) {
        const struct weights_tensor *tensor = &worker->layout.tensors[i];
        struct weights_source source;
        if (!landing_source(landing, tensor->name, &source, why)) {
            return false;
        }
        (void)snprintf(worker->dtypes[i], LANDING_DTYPE_MAX, "%s", source.dtype);
        weights_load(tensor, source, set);
    }
    return true;
}

static bool boot_weights(struct worker *worker, const char *dir, struct trouble *why)
{
    size_t bytes = (worker->layout.floats * sizeof(float) + 63U) & ~(size_t)63U;
    worker->set = aligned_alloc(64, bytes);
    worker->dtypes = calloc(worker->layout.tensors_count, sizeof *worker->dtypes);
    if (worker->set == NULL || worker->dtypes == NULL) {
        return trouble_set(why, "INTERNAL", NULL, "out of memory for the weights");
    }
    memset(worker->set, 0, bytes);
    worker->model.set = worker->set;
    struct landing *landing = NULL;
    bool ok = landing_open(dir, &landing, why) &&
              landing_match(landing, &worker->layout, NULL, why) &&
              load_checkpoint(worker, landing, worker->set, why);
    landing_close(landing);
    return ok;
}

bool worker_open(struct worker *worker, const struct worker_options *options, struct ranks *ranks,
                 struct faults *faults, struct trouble *why)
{
    memset(worker, 0, sizeof *worker);
    worker->ranks = ranks;
    worker->faults = faults;
    worker->backend = options->backend;
    if (!config_load(options->dir, &worker->config, why) ||
        !weights_init(&worker->layout, &worker->config, options->rank, options->ranks_count, why)) {
        return false;
    }
    if (!model_init(&worker->model, &worker->layout, options->blocks_count)) {
        return trouble_set(why, "INTERNAL", NULL, "out of memory for the KV cache");
    }
    if (ranks->count > 1) {
        worker->model.join = ranks_join;
        worker->model.join_self = ranks;
    }
    return boot_weights(worker, options->dir, why);
}

void worker_close(struct worker *worker)
{
    transfer_deinit(&worker->transfer);
    model_deinit(&worker->model);
    weights_deinit(&worker->layout);
    free(worker->set);
    free(worker->aside);
    free(worker->dtypes);
    memset(worker, 0, sizeof *worker);
}

static struct worker_answer synchronize(struct worker *worker, const json_t *kwargs)
{
    (void)kwargs;
    struct fault_place place = { FAULT_PAUSE, (int32_t)worker->ranks->rank, FAULTS_ANY };
    struct fault_hit hit;
    faults_pass(worker->faults, place);
    return faults_take(worker->faults, FAULT_RAISE, place, &hit) ? worker_raises("asked to raise")
                                                                 : worker_returns(json_null());
}

static struct worker_answer check_health(struct worker *worker, const json_t *kwargs)
{
    (void)worker;
    (void)kwargs;
    return worker_returns(json_null());
}

/* The digest of what this rank holds of one tensor, as its kernels use it. */
static void tensor_checksum(const struct worker *worker, const struct weights_tensor *tensor,
                            char text[LANDING_DIGEST_TEXT])
{
    XXH3_state_t *state = XXH3_createState();
    (void)XXH3_128bits_reset(state);
    for (uint32_t b = 0; b < tensor->boxes_count; b++) {
        const struct weights_box *box = &tensor->boxes[b];
        uint32_t lines = box->transposed ? box->columns : box->rows;
        uint32_t width = box->transposed ? box->rows : box->columns;
        for (uint32_t i = 0; i < lines; i++) {
            (void)XXH3_128bits_update(state, worker->model.set + box->offset + i * box->stride,
                                      width * sizeof(float));
        }
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    (void)XXH3_freeState(state);
    (void)snprintf(text, LANDING_DIGEST_TEXT, "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
}

static struct worker_answer checksums(struct worker *worker, const json_t *kwargs)
{
    (void)kwargs;
    if (worker->unusable || worker->asleep != 0) {
        return worker_raises("Cannot copy out of meta tensor; no data!");
    }
    json_t *sums = json_object();
    for (uint32_t i = 0; i < worker->layout.tensors_count; i++) {
        char key[WEIGHTS_NAME_MAX + 40];
        char text[LANDING_DIGEST_TEXT];
        (void)snprintf(key, sizeof key, "dp0:pp0:pcp0:tp%u:%s", worker->ranks->rank,
                       worker->layout.tensors[i].name);
        tensor_checksum(worker, &worker->layout.tensors[i], text);
        (void)json_object_set_new(sums, key, json_string(text));
    }
    return worker_returns(sums);
}

/* The engine's own fallback.  As there, a failure leaves the model without weights, and nothing
 * but the checkpoint is looked at: no manifest, no agreement, no label. */
static struct worker_answer reload_weights(struct worker *worker, const json_t *kwargs)
{
    const char *dir = json_string_value(json_object_get(kwargs, "weights_path"));
    struct landing *landing = NULL;
    struct trouble why = { .code = "" };
    if (dir == NULL) {
        return worker_raises("reload_weights: 'weights_path' is missing");
    }
    if (!slumber_is_awake(worker, &why)) {
        return worker_raises("reload_weights: %s", why.message);
    }
    worker->unusable = true;
    bool ok = landing_open(dir, &landing, &why) &&
              landing_match(landing, &worker->layout, NULL, &why) &&
              load_checkpoint(worker, landing, worker->set, &why);
    landing_close(landing);
    if (!ok) {
        return worker_raises("%s %s", why.message, why.tensor);
    }
    worker->unusable = false;
    worker->transfer.poisoned = false;
    json_decref(worker->transfer.resident);
    worker->transfer.resident = NULL;
    return worker_returns(json_null());
}

struct worker_answer worker_call(struct worker *worker, const char *method, const json_t *kwargs)
{
    static const struct {
        const char *name;
        struct worker_answer (*run)(struct worker *worker, const json_t *kwargs);
    } methods[] = {
        { "synchronize_device", synchronize },
        { "check_health", check_health },
        { "compute_weight_checksums", checksums },
        { "reload_weights", reload_weights },
        { "sleep", slumber_sleep },
        { "wake_up", slumber_wake },
        { "init_weight_transfer_engine", transfer_init },
        { "start_weight_update", transfer_start },
        { "update_weights", transfer_update },
        { "finish_weight_update", transfer_finish },
        { "baton_fence", transfer_raise_fence },
        { "baton_report", transfer_report },
        { "baton_readback", transfer_readback },
        { "baton_prepare", transfer_prepare },
        { "baton_live", transfer_live },
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(methods[i].name, method) == 0) {
            return methods[i].run(worker, kwargs);
        }
    }
    return worker_raises("'Worker' object has no attribute '%.100s'", method);
}

bool worker_step(struct worker *worker, const struct model_batch *batch, float *logits)
{
    struct fault_place place = { FAULT_STEP, (int32_t)worker->ranks->rank, FAULTS_ANY };
    faults_pass(worker->faults, place);
    if (batch->probe != 0) {
        place.phase = FAULT_PROBE;
        faults_pass(worker->faults, place);
    }
    return !worker->unusable && worker->asleep == 0 && model_forward(&worker->model, batch, logits);
}

static enum fault_phase phase_of(const char *method)
{
    if (strcmp(method, "synchronize_device") == 0) {
        return FAULT_PAUSE;
    }
    if (strcmp(method, "start_weight_update") == 0) {
        return FAULT_START;
    }
    if (strcmp(method, "update_weights") == 0 || strcmp(method, "baton_prepare") == 0) {
        return FAULT_STAGE;
    }
    if (strcmp(method, "finish_weight_update") == 0 || strcmp(method, "baton_live") == 0) {
        return FAULT_APPLY;
    }
    if (strcmp(method, "sleep") == 0 || strcmp(method, "wake_up") == 0) {
        return FAULT_SLEEP;
    }
    return strcmp(method, "baton_readback") == 0 ? FAULT_READBACK : FAULT_PROBE;
}

static bool answer_call(struct worker *worker, const json_t *call)
{
    const char *method = json_string_value(json_object_get(call, "method"));
    struct fault_hit hit;
    struct fault_place place = { phase_of(method), (int32_t)worker->ranks->rank, FAULTS_ANY };
    bool ok = true;
    if (faults_take(worker->faults, FAULT_LATE, place, &hit)) {
        json_t *extra = json_pack("{s:n}", "result");
        ok = ranks_send_reply(worker->ranks, extra);
        json_decref(extra);
    }
    struct worker_answer answer = worker_call(worker, method, json_object_get(call, "kwargs"));
    json_t *reply = answer.result != NULL ? json_pack("{s:o}", "result", answer.result)
                                          : json_pack("{s:s}", "raised", answer.raised);
    ok = ok && ranks_send_reply(worker->ranks, reply);
    json_decref(reply);
    return ok;
}

int worker_run(struct worker *worker)
{
    struct model_batch *batch = calloc(1, sizeof *batch);
    float *logits = calloc((size_t)MODEL_SEQUENCES_MAX * worker->config.vocab, sizeof *logits);
    bool ok = batch != NULL && logits != NULL;
    while (ok) {
        enum ranks_command command = RANKS_STEP;
        json_t *call = NULL;
        ok = ranks_receive(worker->ranks, &command, batch, &call);
        if (ok && command == RANKS_STEP) {
            ok = worker_step(worker, batch, logits);
        } else if (ok) {
            ok = answer_call(worker, call);
        }
        json_decref(call);
    }
    free(batch);
    free(logits);
    return 1;
}
