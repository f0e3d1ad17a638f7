/* transfer.c -- see transfer.h.  Sessions, staging, fences and the report; apply.c applies. */
#include "tests/miniengine/transfer.h"

#include <string.h>

#include "tests/miniengine/apply.h"
#include "tests/miniengine/slumber.h"
#include "tests/miniengine/worker.h"

static const char not_configured[] = "Weight transfer not configured. Please set "
                                     "weight_transfer_config to enable weight transfer.";

void transfer_deinit(struct transfer *transfer)
{
    landing_close(transfer->ready);
    json_decref(transfer->staged);
    json_decref(transfer->applied);
    json_decref(transfer->resident);
    json_decref(transfer->readback);
    memset(transfer, 0, sizeof *transfer);
}

int transfer_fence_order(const struct transfer_fence *a, const struct transfer_fence *b)
{
    for (int i = 0; i < TRANSFER_FENCE_PARTS; i++) {
        if (a->part[i] != b->part[i]) {
            return a->part[i] < b->part[i] ? -1 : 1;
        }
    }
    return 0;
}

json_t *transfer_fence_json(const struct transfer_fence *fence)
{
    json_t *list = json_array();
    for (int i = 0; i < TRANSFER_FENCE_PARTS; i++) {
        (void)json_array_append_new(list, json_integer((json_int_t)fence->part[i]));
    }
    return list;
}

json_t *transfer_trouble_json(const struct trouble *why, uint32_t rank)
{
    return json_pack("{s:s, s:s, s:s?, s:i}", "code", why->code, "message", why->message, "tensor",
                     why->tensor[0] != '\0' ? why->tensor : NULL, "rank", (int)rank);
}

void transfer_replace(json_t **part, json_t *value_taken)
{
    json_decref(*part);
    *part = value_taken;
}

static bool fence_read(const json_t *value, struct transfer_fence *out)
{
    if (json_array_size(value) != TRANSFER_FENCE_PARTS) {
        return false;
    }
    for (size_t i = 0; i < TRANSFER_FENCE_PARTS; i++) {
        const json_t *part = json_array_get(value, i);
        if (!json_is_integer(part) || json_integer_value(part) < 0) {
            return false;
        }
        out->part[i] = (uint64_t)json_integer_value(part);
    }
    return true;
}

static bool digest_read(const json_t *value, char out[LANDING_DIGEST_TEXT])
{
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != LANDING_DIGEST_TEXT - 1 ||
        strspn(text, "0123456789abcdef") != LANDING_DIGEST_TEXT - 1) {
        return false;
    }
    memcpy(out, text, LANDING_DIGEST_TEXT);
    return true;
}

/* Raises the highest fence; false for a lower one. */
static bool admit_fence(struct transfer *transfer, const struct transfer_fence *fence,
                        struct trouble *why)
{
    if (transfer->fenced && transfer_fence_order(fence, &transfer->highest) < 0) {
        return trouble_set(why, "FENCED", NULL, "a call with a higher fence came before");
    }
    transfer->highest = *fence;
    transfer->fenced = true;
    return true;
}

/* Reads landing and digest, and the fence where 'fenced'. */
static bool target_read(const json_t *info, bool fenced, struct transfer_target *out,
                        struct trouble *why)
{
    memset(out, 0, sizeof *out);
    out->landing = json_string_value(json_object_get(info, "landing"));
    if (out->landing == NULL || out->landing[0] != '/') {
        return trouble_set(why, "BAD_REQUEST", NULL, "'landing' must be an absolute directory");
    }
    if (!digest_read(json_object_get(info, "version_digest"), out->digest)) {
        return trouble_set(why, "BAD_REQUEST", NULL,
                           "'version_digest' must be 32 lower-case hexadecimal digits");
    }
    out->fenced = fenced && fence_read(json_object_get(info, "fence"), &out->fence);
    return out->fenced == fenced ||
           trouble_set(why, "BAD_REQUEST", NULL, "'fence' must be five unsigned integers");
}

/* Exactly these fields: one more or one less is a caller of another protocol. */
static bool fields_check(const json_t *info, const char *const *names, struct trouble *why)
{
    size_t count = 0;
    for (; names[count] != NULL; count++) {
        if (json_object_get(info, names[count]) == NULL) {
            return trouble_set(why, "BAD_REQUEST", NULL, "field '%s' is missing", names[count]);
        }
    }
    return json_object_size(info) == count ||
           trouble_set(why, "BAD_REQUEST", NULL, "there are fields beside the %zu known ones",
                       count);
}

/* Passes a phase's faults.  False: the answer is ready. */
static bool enter(struct worker *worker, enum fault_phase phase, struct worker_answer *answer)
{
    struct fault_place place = { phase, (int32_t)worker->ranks->rank, FAULTS_ANY };
    struct fault_hit hit;
    if (!worker->backend) {
        *answer = worker_raises("%s", not_configured);
        return false;
    }
    faults_pass(worker->faults, place);
    if (phase == FAULT_APPLY) {
        return true; /* The other ranks count on this one's votes, whatever it will say. */
    }
    if (faults_take(worker->faults, FAULT_RAISE, place, &hit)) {
        *answer = worker_raises("asked to raise");
        return false;
    }
    if (faults_take(worker->faults, FAULT_LIE, place, &hit)) {
        *answer = worker_returns(json_null());
        return false;
    }
    return true;
}

struct worker_answer transfer_init(struct worker *worker, const json_t *kwargs)
{
    static const char *const names[] = { "protocol", NULL };
    const json_t *info = json_object_get(kwargs, "init_info");
    if (!worker->backend) {
        return worker_raises("%s", not_configured);
    }
    worker->transfer.initialized = fields_check(info, names, NULL) &&
                                   json_integer_value(json_object_get(info, "protocol")) == 1;
    return worker_returns(json_null());
}

static void drop_ready(struct transfer *transfer)
{
    landing_close(transfer->ready);
    transfer->ready = NULL;
}

static bool stage_tensors(struct worker *worker, struct landing *landing, struct trouble *why)
{
    for (uint32_t i = 0; i < worker->layout.tensors_count; i++) {
        struct fault_place place = { FAULT_STAGE, (int32_t)worker->ranks->rank, (int32_t)i };
        struct fault_hit hit;
        struct weights_source source;
        const char *name = worker->layout.tensors[i].name;
        faults_pass(worker->faults, place);
        if (faults_take(worker->faults, FAULT_FAIL, place, &hit)) {
            return trouble_set(why, "LANDING_UNREADABLE", name, "asked to fail at tensor %u", i);
        }
        if (!landing_source(landing, name, &source, why)) {
            return false;
        }
    }
    return true;
}

static bool stage(struct worker *worker, const struct transfer_target *target, bool in_session,
                  struct trouble *why)
{
    struct transfer *transfer = &worker->transfer;
    struct landing *landing = NULL;
    if (!admit_fence(transfer, &target->fence, why)) {
        return false;
    }
    drop_ready(transfer);
    if (in_session && !transfer->session) {
        return trouble_set(why, "BAD_REQUEST", NULL, "update before start");
    }
    if (transfer->poisoned) {
        *why = transfer->poison;
        return false;
    }
    struct fault_place place = { FAULT_STAGE, (int32_t)worker->ranks->rank, FAULTS_ANY };
    struct fault_hit hit;
    if (faults_take(worker->faults, FAULT_FAIL, place, &hit)) {
        return trouble_set(why, "LANDING_UNREADABLE", NULL, "asked to fail before it was opened");
    }
    if (!landing_open(target->landing, &landing, why)) {
        return false;
    }
    if (!landing_match(landing, &worker->layout, (const char(*)[LANDING_DTYPE_MAX])worker->dtypes,
                       why) ||
        !landing_verify(landing, target->digest, why) || !stage_tensors(worker, landing, why)) {
        landing_close(landing);
        return false;
    }
    transfer->ready = landing;
    transfer->ready_for = *target;
    transfer->ready_for.landing = NULL;
    return true;
}

/* The rank's own part of 'update_info', which may be one object or a list of one a rank. */
static const json_t *own_info(const struct worker *worker, const json_t *kwargs)
{
    const json_t *info = json_object_get(kwargs, "update_info");
    return json_is_array(info) ? json_array_get(info, worker->ranks->rank) : info;
}

static void record_staged(struct worker *worker, const struct transfer_target *target,
                          const struct trouble *why)
{
    bool ok = why == NULL || why->code[0] == '\0';
    transfer_replace(&worker->transfer.staged,
                     json_pack("{s:b, s:s?, s:o, s:o}", "ok", (int)ok, "version_digest",
                               target->digest[0] != '\0' ? target->digest : NULL, "fence",
                               target->fenced ? transfer_fence_json(&target->fence) : json_null(),
                               "error",
                               ok ? json_null() : transfer_trouble_json(why, worker->ranks->rank)));
}

/* Of a live call that was not admitted here: nothing was touched, whatever the other ranks say. */
static void record_applied(struct worker *worker, const struct transfer_target *target,
                           const struct trouble *why)
{
    transfer_replace(&worker->transfer.applied,
                     json_pack("{s:b, s:s?, s:o, s:b, s:o}", "ok", 0, "version_digest",
                               target->digest[0] != '\0' ? target->digest : NULL, "fence",
                               target->fenced ? transfer_fence_json(&target->fence) : json_null(),
                               "restored", 1, "error",
                               transfer_trouble_json(why, worker->ranks->rank)));
}

struct worker_answer transfer_start(struct worker *worker, const json_t *kwargs)
{
    (void)kwargs;
    struct worker_answer answer;
    if (!enter(worker, FAULT_START, &answer)) {
        return answer;
    }
    worker->transfer.session = true;
    return worker_returns(json_null());
}

static void stage_and_record(struct worker *worker, const json_t *info, bool in_session)
{
    static const char *const names[] = { "landing", "version_digest", "fence", NULL };
    struct transfer *transfer = &worker->transfer;
    double began = apply_clock();
    struct transfer_target target;
    struct trouble why = { .code = "" };
    if (target_read(info, true, &target, &why) && fields_check(info, names, &why)) {
        (void)stage(worker, &target, in_session, &why);
    }
    transfer->stage_seconds = apply_clock() - began;
    /* What is staged under a higher fence stays, and stays told. */
    if (strcmp(why.code, "FENCED") != 0 || transfer->ready == NULL) {
        record_staged(worker, &target, &why);
    }
}

struct worker_answer transfer_update(struct worker *worker, const json_t *kwargs)
{
    struct worker_answer answer;
    if (!enter(worker, FAULT_STAGE, &answer)) {
        return answer;
    }
    stage_and_record(worker, own_info(worker, kwargs), true);
    return worker_returns(json_null());
}

struct worker_answer transfer_prepare(struct worker *worker, const json_t *kwargs)
{
    struct fault_place place = { FAULT_STAGE, (int32_t)worker->ranks->rank, FAULTS_ANY };
    struct fault_hit hit;
    if (!worker->backend) {
        return worker_raises("%s", not_configured);
    }
    faults_pass(worker->faults, place);
    if (!faults_take(worker->faults, FAULT_LIE, place, &hit)) {
        stage_and_record(worker, kwargs, false);
    }
    return transfer_report(worker, NULL);
}

/* The staged version stands under the fence of the call from here on; a call of another ticket, or
 * a late one, leaves nothing staged and so is a failure that all ranks see. */
static void admit_live(struct worker *worker, const json_t *kwargs, struct transfer_target *target,
                       struct trouble *why)
{
    struct transfer *transfer = &worker->transfer;
    size_t same = (TRANSFER_FENCE_PARTS - 1) * sizeof(uint64_t);
    memset(target, 0, sizeof *target);
    target->fenced = fence_read(json_object_get(kwargs, "fence"), &target->fence);
    bool ok = target->fenced &&
              digest_read(json_object_get(kwargs, "version_digest"), target->digest) &&
              json_object_size(kwargs) == 2;
    if (!ok) {
        (void)trouble_set(why, "BAD_REQUEST", NULL,
                          "'version_digest' and 'fence', and nothing else, must be given");
    } else if (admit_fence(transfer, &target->fence, why) &&
               (transfer->ready == NULL ||
                strcmp(transfer->ready_for.digest, target->digest) != 0 ||
                memcmp(transfer->ready_for.fence.part, target->fence.part, same) != 0)) {
        (void)trouble_set(why, "BAD_REQUEST", NULL, "it was not prepared under this ticket");
    }
    if (why->code[0] != '\0') {
        drop_ready(transfer);
        return;
    }
    transfer->ready_for.fence = target->fence;
}

struct worker_answer transfer_live(struct worker *worker, const json_t *kwargs)
{
    struct fault_place place = { FAULT_APPLY, (int32_t)worker->ranks->rank, FAULTS_ANY };
    struct transfer *transfer = &worker->transfer;
    struct transfer_target target;
    struct trouble why = { .code = "" };
    if (!worker->backend) {
        return worker_raises("%s", not_configured);
    }
    faults_pass(worker->faults, place);
    admit_live(worker, kwargs, &target, &why);
    bool alive = apply_staged(worker);
    transfer->session = false;
    drop_ready(transfer);
    if (why.code[0] != '\0') {
        record_applied(worker, &target, &why);
    }
    return alive ? transfer_report(worker, NULL) : worker_raises("a peer rank is gone");
}

struct worker_answer transfer_finish(struct worker *worker, const json_t *kwargs)
{
    (void)kwargs;
    struct transfer *transfer = &worker->transfer;
    struct fault_place place = { FAULT_APPLY, (int32_t)worker->ranks->rank, FAULTS_ANY };
    struct fault_hit hit;
    struct worker_answer answer;
    if (!enter(worker, FAULT_APPLY, &answer)) {
        return answer;
    }
    bool alive = apply_staged(worker);
    transfer->session = false;
    drop_ready(transfer);
    if (!alive) {
        return worker_raises("a peer rank is gone");
    }
    return faults_take(worker->faults, FAULT_RAISE, place, &hit) ? worker_raises("asked to raise")
                                                                 : worker_returns(json_null());
}

struct worker_answer transfer_raise_fence(struct worker *worker, const json_t *kwargs)
{
    struct transfer *transfer = &worker->transfer;
    struct transfer_target none = { .landing = NULL };
    struct trouble why = { .code = "" };
    bool ok = fence_read(json_object_get(kwargs, "fence"), &none.fence) ||
              trouble_set(&why, "BAD_REQUEST", NULL, "'fence' must be five unsigned integers");
    ok = ok && admit_fence(transfer, &none.fence, &why);
    if (!ok && transfer->staged == NULL) {
        record_staged(worker, &none, &why);
    }
    if (ok && transfer->ready != NULL &&
        transfer_fence_order(&transfer->ready_for.fence, &none.fence) < 0) {
        (void)trouble_set(&why, "FENCED", NULL, "dropped: a higher fence came");
        drop_ready(transfer);
        record_staged(worker, &transfer->ready_for, &why);
    }
    return transfer_report(worker, NULL);
}

static json_t *part_json(json_t *part)
{
    return part != NULL ? json_incref(part) : json_null();
}

struct worker_answer transfer_report(struct worker *worker, const json_t *kwargs)
{
    (void)kwargs;
    const struct transfer *t = &worker->transfer;
    json_t *seconds =
        json_pack("{s:f, s:f, s:f, s:f}", "stage", t->stage_seconds, "load", t->load_seconds,
                  "finalize", t->finalize_seconds, "verify", t->verify_seconds);
    return worker_returns(
        json_pack("{s:i, s:i, s:i, s:b, s:s, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "protocol",
                  1, "rank", (int)worker->ranks->rank, "world_size", (int)worker->ranks->count,
                  "live", (int)worker->backend, "live_why",
                  worker->backend ? "all ranks change between two steps" : not_configured,
                  "initialized", (int)t->initialized, "session", (int)t->session, "fence",
                  t->fenced ? transfer_fence_json(&t->highest) : json_null(), "staged",
                  part_json(t->staged), "applied", part_json(t->applied), "resident",
                  part_json(t->resident), "readback", part_json(t->readback), "seconds", seconds));
}

/* Compares the resident weights with a landing's that is opened and checked for it. */
static json_t *readback(struct worker *worker, const struct transfer_target *target)
{
    struct trouble why = { .code = "" };
    struct landing *landing = NULL;
    struct apply_comparison found = { .mismatched = NULL };
    double began = apply_clock();
    bool ok = slumber_is_awake(worker, &why) && landing_open(target->landing, &landing, &why) &&
              landing_match(landing, &worker->layout, NULL, &why) &&
              landing_verify(landing, target->digest, &why);
    ok = ok && apply_compare(worker, landing, &found, &why);
    landing_close(landing);
    json_t *mismatched = found.mismatched != NULL ? found.mismatched : json_array();
    return apply_readback_json(
        &(struct apply_outcome){ .ok = ok && json_array_size(mismatched) == 0,
                                 .digest = target->digest,
                                 .tensors = found.tensors,
                                 .mismatched = mismatched,
                                 .seconds = apply_clock() - began,
                                 .why = &why,
                                 .rank = worker->ranks->rank });
}

struct worker_answer transfer_readback(struct worker *worker, const json_t *kwargs)
{
    struct fault_place place = { FAULT_READBACK, (int32_t)worker->ranks->rank, FAULTS_ANY };
    struct fault_hit hit;
    struct transfer_target target;
    struct trouble why = { .code = "" };
    if (!target_read(kwargs, false, &target, &why)) {
        return worker_raises("baton_readback: %s", why.message);
    }
    faults_pass(worker->faults, place);
    if (faults_take(worker->faults, FAULT_LIE, place, &hit)) {
        json_t *claim =
            apply_readback_json(&(struct apply_outcome){ .ok = true,
                                                         .digest = target.digest,
                                                         .tensors = worker->layout.tensors_count,
                                                         .mismatched = json_array() });
        transfer_replace(&worker->transfer.readback, claim);
        return transfer_report(worker, NULL);
    }
    transfer_replace(&worker->transfer.readback, readback(worker, &target));
    return transfer_report(worker, NULL);
}
