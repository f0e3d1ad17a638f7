/* requests.c -- API calls: who handles which, request ids, and the one answer of each. */
#include <string.h>

#include "controller/core/core.h"
#include "controller/core/fleet.h"
#include "controller/core/text.h"

#define REQUEST_ID_KEPT_NS (UINT64_C(24) * 3600 * S_NS)

struct request_handler {
    struct baton_status (*handle)(struct controller *core, struct call *call);
    bool keeps_id; /* Its request id is stored: the same id gets the same answer. */
};

static const struct request_handler handlers[REQUEST_KINDS_END] = {
    [REQUEST_MODEL_APPLY] = { models_apply, true },
    [REQUEST_MODEL_SUSPEND] = { models_suspend, true },
    [REQUEST_MODEL_RESUME] = { models_resume, true },
    [REQUEST_VERSION_OPEN] = { versions_open, true },
    [REQUEST_VERSION_MANIFEST] = { versions_manifest, false },
    [REQUEST_VERSION_SEAL] = { versions_seal, true },
    [REQUEST_VERSION_PUBLISH] = { versions_publish, true },
    [REQUEST_VERSION_PROGRESS] = { versions_progress, false },
    [REQUEST_VERSION_ABANDON] = { versions_abandon, true },
    [REQUEST_ROLL_START] = { rolls_start, true },
    [REQUEST_ROLL_PAUSE] = { rolls_pause, true },
    [REQUEST_ROLL_RESUME] = { rolls_resume, true },
    [REQUEST_ROLL_UNDO] = { rolls_undo, true },
    [REQUEST_ROLL_ADVANCE] = { rolls_advance, true },
    [REQUEST_ROLL_PROMOTE] = { rolls_promote, true },
    [REQUEST_ROLL_ABORT] = { rolls_abort, true },
    [REQUEST_ROLL_RETRY] = { rolls_retry, true },
    [REQUEST_ROLL_REPORT_CHECK] = { checks_report, true },
    [REQUEST_MODEL_HOLD] = { models_hold, true },
    [REQUEST_WAIT] = { waits_register, false },
    [REQUEST_STORE_FLOORS] = { floors_attest, true },
    [REQUEST_STORE_REBUILD] = { rebuild, true },
    [REQUEST_GROUP_CORDON] = { fleet_cordon, true },
    [REQUEST_GROUP_UNCORDON] = { fleet_uncordon, true },
    [REQUEST_GROUP_DRAIN] = { fleet_drain, true },
    [REQUEST_GROUP_RETIRE] = { fleet_retire, true },
    [REQUEST_GROUP_PIN] = { fleet_pin, true },
    [REQUEST_GROUP_UNPIN] = { fleet_unpin, true },
    [REQUEST_GROUP_SLEEP] = { fleet_sleep, true },
    [REQUEST_GROUP_WAKE] = { fleet_wake, true },
    [REQUEST_VERSION_PIN] = { versions_pin, true },
    [REQUEST_VERSION_UNPIN] = { versions_unpin, true },
    [REQUEST_VERSION_QUARANTINE] = { versions_quarantine, true },
    [REQUEST_VERSION_UNQUARANTINE] = { versions_unquarantine, true },
    [REQUEST_SESSION_RESOLVE] = { sessions_resolve, false }, /* Repeated, it renews. */
    [REQUEST_SLOTS_ACQUIRE] = { slots_acquire, true },
    [REQUEST_SLOTS_RELEASE] = { slots_release, true },
    [REQUEST_SAMPLES_REPORT] = { samples_report, true },
};

struct baton_status call_bad_field(struct call *call, const char *field, const char *fmt, ...)
{
    char message[BATON_TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    text_format_list(message, sizeof(message), fmt, args);
    va_end(args);
    text_copy(call->field, sizeof(call->field), field);
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s: %s", field,
                             message);
}

struct baton_status call_expects(const struct call *call, uint64_t revision, const char *what)
{
    uint64_t expected = call->request->options.expected_revision;
    if (expected == 0 || expected == revision) {
        return baton_status_ok();
    }
    return baton_status_hint(baton_status_make(BATON_ABORTED, BATON_REASON_STALE_REVISION,
                                               "%s is at revision %llu, not at the expected %llu",
                                               what, (unsigned long long)revision,
                                               (unsigned long long)expected),
                             "read it again and repeat the call with its revision");
}

const char *call_by(const struct call *call)
{
    const char *by = call->request->options.requested_by;
    return by == NULL ? "" : by;
}

static void print_swaps(struct fingerprint *print, const struct policy_spec *spec)
{
    fingerprint_add_text(print, spec->barrier_quorum);
    fingerprint_add_number(print, (uint64_t)spec->barrier_deadline_ms);
    fingerprint_add_text(print, spec->drain_expiry);
    fingerprint_add_text(print, spec->swap_mode);
    fingerprint_add_number(print, spec->hooks_count);
    for (size_t i = 0; i < spec->hooks_count && i < BATON_HOOKS_MAX; i++) {
        fingerprint_add_text(print, spec->hooks[i].when);
        fingerprint_add_text(print, spec->hooks[i].url);
        fingerprint_add_number(print, (uint64_t)spec->hooks[i].deadline_ms);
    }
}

static void print_policy(struct fingerprint *print, const struct policy_spec *spec)
{
    fingerprint_add_text(print, spec->trigger);
    fingerprint_add_text(print, spec->strategy);
    fingerprint_add_text(print, spec->max_unavailable);
    fingerprint_add_text(print, spec->mass_loss);
    fingerprint_add_text(print, spec->non_finite);
    fingerprint_add_number(print, (uint64_t)spec->progress_deadline_ms);
    fingerprint_add_text(print, spec->in_flight);
    fingerprint_add_text(print, spec->kv);
    fingerprint_add_text(print, spec->arrivals);
    fingerprint_add_number(print, (uint64_t)spec->swap_deadline_ms);
    fingerprint_add_number(print, (uint64_t)spec->drain_deadline_ms);
    fingerprint_add_number(print, spec->allow_recreate);
    print_swaps(print, spec);
    policy_stale_print(print, spec);
    policy_roll_print(print, &spec->roll);
}

static void print_open(struct fingerprint *print, const struct request_version_open *open)
{
    fingerprint_add_number(print, open->optimizer_step);
    fingerprint_add_number(print, open->rollout_iteration);
    fingerprint_add_number(print, open->samples_trained);
    fingerprint_add_number(print, open->parent_seq);
    fingerprint_add_number(print, open->partial);
    fingerprint_add_number(print, open->bytes);
}

static void print_publish(struct fingerprint *print, const struct request_version_publish *publish)
{
    for (size_t i = 0; i < publish->sources_count; i++) {
        fingerprint_add_text(print, publish->sources[i].backend);
        fingerprint_add_text(print, publish->sources[i].location);
        fingerprint_add_text(print, publish->sources[i].agent);
    }
}

static void print_report(struct fingerprint *print, const struct request_report_check *report)
{
    fingerprint_add_text(print, report->check);
    fingerprint_add_number(print, report->seq);
    fingerprint_add_bytes(print, &report->value, sizeof(report->value));
    fingerprint_add_number(print, report->verdict);
}

static void print_leases(struct fingerprint *print, const struct request *request)
{
    if (request->kind == REQUEST_SLOTS_ACQUIRE) {
        fingerprint_add_number(print, request->body.acquire.count);
        fingerprint_add_number(print, request->body.acquire.partial);
        fingerprint_add_text(print, request->body.acquire.lease);
    } else if (request->kind == REQUEST_SLOTS_RELEASE) {
        fingerprint_add_text(print, request->body.release.lease);
        fingerprint_add_number(print, request->body.release.consumed);
        fingerprint_add_number(print, request->body.release.dropped);
    } else if (request->kind == REQUEST_SAMPLES_REPORT) {
        const struct request_samples *samples = &request->body.samples;
        fingerprint_add_number(print, samples->stage);
        fingerprint_add_number(print, samples->consumer_seq);
        for (size_t i = 0; i < samples->samples_count; i++) {
            fingerprint_add_number(print, samples->samples[i].consumer_seq);
            fingerprint_add_number(print, samples->samples[i].spans_count);
            fingerprint_add_bytes(print, samples->samples[i].spans,
                                  samples->samples[i].spans_count * sizeof(struct sample_span));
        }
    }
}

/* Of method and content; who asks and why may differ between tries. */
static struct fingerprint print_request(const struct request *request)
{
    struct fingerprint print = fingerprint_of((uint64_t)request->kind);
    fingerprint_add_text(&print, request->model);
    fingerprint_add_text(&print, request->version_uid);
    fingerprint_add_number(&print, request->dry_run);
    fingerprint_add_text(&print, request->group);
    fingerprint_add_text(&print, request->agent);
    fingerprint_add_number(&print, request->to_seq);
    fingerprint_add_number(&print, request->options.expected_revision);
    if (request->kind == REQUEST_MODEL_APPLY) {
        print_policy(&print, &request->body.apply);
    } else if (request->kind == REQUEST_VERSION_OPEN) {
        print_open(&print, &request->body.open);
    } else if (request->kind == REQUEST_VERSION_SEAL) {
        fingerprint_add_text(&print, request->body.seal.digest);
        fingerprint_add_number(&print, request->body.seal.bytes);
    } else if (request->kind == REQUEST_VERSION_PUBLISH) {
        print_publish(&print, &request->body.publish);
    } else if (request->kind == REQUEST_ROLL_START) {
        fingerprint_add_text(&print, request->body.start.order);
    } else if (request->kind == REQUEST_ROLL_RETRY) {
        fingerprint_add_text(&print, request->body.retry.group);
    } else if (request->kind == REQUEST_ROLL_REPORT_CHECK) {
        print_report(&print, &request->body.check);
    } else if (request->kind == REQUEST_GROUP_RETIRE) {
        fingerprint_add_number(&print, request->body.retire.attest_dead);
    } else if (request->kind == REQUEST_VERSION_QUARANTINE) {
        fingerprint_add_number(&print, request->body.quarantine.evict);
    }
    print_leases(&print, request);
    return print;
}

static bool object_exists(const struct controller *core, const struct object_ref *object)
{
    switch (object->kind) {
    case OBJECT_MODEL: return model_find(core, object->name) != NULL;
    case OBJECT_VERSION: return index_find(&core->versions_uid, object->uid) != NULL;
    case OBJECT_ROLL: return roll_find(core, object->name, object->number) != NULL;
    case OBJECT_GROUP: return group_find(core, object->name) != NULL;
    case OBJECT_NONE:
    case OBJECT_AGENT: break;
    }
    return true;
}

static struct baton_status answer_again(const struct controller *core, struct call *call,
                                        const struct request_record *stored,
                                        const char *fingerprint)
{
    if (strcmp(stored->fingerprint, fingerprint) != 0) {
        return call_bad_field(call, "options.request_id",
                              "\"%s\" was used for another call; use a new id for a new call",
                              stored->id);
    }
    if (!object_exists(core, &stored->answer)) {
        return baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE,
                                 "the call with request id \"%s\" was carried out, but its object "
                                 "is no longer kept",
                                 stored->id);
    }
    call->answer = stored->answer;
    return baton_status_ok();
}

struct request_entry *requests_add(struct controller *core, const struct request_record *record)
{
    struct request_entry *entry = table_take(&core->requests_table);
    if (entry != NULL) {
        entry->r = *record;
        index_insert(&core->requests, entry);
    }
    return entry;
}

static bool is_old(const struct controller *core, const struct request_entry *entry)
{
    return core->wall_ns > entry->r.stored_wall_ns &&
           core->wall_ns - entry->r.stored_wall_ns > REQUEST_ID_KEPT_NS;
}

void requests_expire(struct controller *core)
{
    uint32_t expired = 0;
    for (uint32_t i = core->requests.count; i > 0; i--) {
        struct request_entry *entry = core->requests.objects[i - 1];
        if (expired < STEP_REQUESTS_EXPIRED_MAX && is_old(core, entry)) {
            index_remove(&core->requests, entry);
            marks_remove(core, RECORD_REQUEST, entry);
            expired++;
        }
    }
}

static struct baton_status check_room(struct controller *core)
{
    if (!table_is_full(&core->requests_table)) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                          "%u request ids of the last 24 h are kept, which is the limit",
                          core->limits.request_ids),
        "send the call without a request id, or slow down");
}

static void remember(struct controller *core, const struct call *call, const char *fingerprint)
{
    struct request_record record = { .stored_wall_ns = core->wall_ns, .answer = call->answer };
    text_copy(record.id, sizeof(record.id), call->request->options.request_id);
    text_copy(record.fingerprint, sizeof(record.fingerprint), fingerprint);
    marks_put(core, RECORD_REQUEST, requests_add(core, &record));
}

static struct baton_status handle_with_id(struct controller *core, struct call *call,
                                          const struct request_handler *handler)
{
    const char *id = call->request->options.request_id;
    if (strlen(id) >= BATON_REQUEST_ID_BYTES) {
        return call_bad_field(call, "options.request_id", "longer than %d characters",
                              BATON_REQUEST_ID_BYTES - 1);
    }
    struct fingerprint print = print_request(call->request);
    char text[BATON_DIGEST_TEXT_BYTES];
    fingerprint_write(&print, text);
    const struct request_entry *known = index_find(&core->requests, id);
    if (known != NULL) {
        return answer_again(core, call, &known->r, text);
    }
    struct baton_status st = check_room(core);
    if (!baton_ok(&st)) {
        return st;
    }
    st = handler->handle(core, call);
    if (baton_ok(&st)) {
        remember(core, call, text);
    }
    return st;
}

struct action_reply *requests_reply(struct controller *core, uint64_t handle,
                                    struct baton_status status)
{
    baton_assert(core->out.replies_count < EVENT_REQUESTS_MAX);
    struct action_reply *reply = &core->replies[core->out.replies_count++];
    memset(reply, 0, sizeof(*reply));
    reply->handle = handle;
    reply->status = status;
    return reply;
}

void requests_handle(struct controller *core, const struct request *request)
{
    baton_assert(request->kind > 0 && request->kind < REQUEST_KINDS_END);
    const struct request_handler *handler = &handlers[request->kind];
    struct call call = { .request = request };
    struct baton_status st = handler->keeps_id && !text_is_empty(request->options.request_id)
                                 ? handle_with_id(core, &call, handler)
                                 : handler->handle(core, &call);
    if (call.deferred) {
        return;
    }
    struct action_reply *reply = requests_reply(core, request->handle, st);
    reply->retry_ns = call.retry_ns;
    if (baton_ok(&st)) {
        reply->object = call.answer;
    }
    text_copy(reply->field, sizeof(reply->field), call.field);
}

void requests_handle_batch(struct controller *core, const struct request_batch *batch)
{
    baton_assert(batch->count <= EVENT_REQUESTS_MAX);
    for (size_t i = 0; i < batch->count; i++) {
        enum request_kind kind = batch->items[i].kind;
        baton_assert(kind == REQUEST_SLOTS_ACQUIRE || kind == REQUEST_SESSION_RESOLVE);
        requests_handle(core, &batch->items[i]);
    }
}
