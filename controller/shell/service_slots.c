/* service_slots.c -- baton.v1.Admission: slots and samples. */
#include <stdlib.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/judge.h"
#include "controller/core/leases.h"
#include "controller/shell/batch.h"
#include "controller/shell/render_stale.h"
#include "controller/shell/routes.h"
#include "controller/shell/service.h"

enum { SAMPLES_MAX = 1024, SPANS_MAX = 64 };

SERVICE_HANDLER(serve_admission_acquire_slots, Baton__V1__AcquireSlotsRequest)
SERVICE_HANDLER(serve_admission_release_slots, Baton__V1__ReleaseSlotsRequest)
SERVICE_HANDLER(serve_admission_report_samples, Baton__V1__ReportSamplesRequest)
SERVICE_HANDLER(serve_admission_evaluate_samples, Baton__V1__EvaluateSamplesRequest)

static Baton__V1__SlotState *render_slots(const struct controller *core, const char *name,
                                          void *root)
{
    const struct model_record *model = view_model_find(core, name);
    struct slots_status status;
    Baton__V1__SlotState *message = baton_wire_part(root, &baton__v1__slot_state__descriptor);
    (void)view_slots_status(core, model, &status); /* Without a bound: no room. */
    message->held = status.held;
    message->consumed_since_publish = status.consumed;
    message->samples_per_publish = status.per_publish;
    message->bound_publishes = status.bound_publishes;
    message->room = status.room;
    message->leases = status.leases;
    message->newest_seq = model->newest_seq;
    return message;
}

static void answer_acquire(struct daemon *daemon, struct pending *pending,
                           const struct action_reply *reply)
{
    const struct controller *core = daemon->core;
    const struct slot_lease_record *lease = view_slot_lease_find(core, reply->object.uid);
    Baton__V1__AcquireSlotsResponse *message =
        baton_wire_new(&baton__v1__acquire_slots_response__descriptor);
    message->lease = baton_wire_text(message, reply->object.uid);
    message->granted = (uint32_t)reply->object.number;
    message->revision = view_revision(core);
    message->state = render_slots(core, reply->object.name, message);
    if (lease != NULL) { /* Of a repeated call it may be gone. */
        message->held = lease->held;
        message->expires_at =
            baton_wire_timestamp(message, view_slot_lease_expires_wall_ns(core, lease));
    }
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void serve_admission_acquire_slots_work(struct daemon *daemon, struct rpc_call *call,
                                               const Baton__V1__AcquireSlotsRequest *request)
{
    uint64_t ttl_ns = 0;
    struct baton_status st = baton_wire_duration_ns(request->ttl, "ttl", &ttl_ns);
    if (!baton_ok(&st)) {
        service_fail(call, st);
        return;
    }
    struct request mutation = { .kind = REQUEST_SLOTS_ACQUIRE,
                                .model = request->model,
                                .body.acquire = { .count = request->count,
                                                  .partial = request->partial,
                                                  .lease = request->lease,
                                                  .holder = request->holder,
                                                  .ttl_ms = ttl_ns / BATON_NS_PER_MS } };
    batch_add(daemon, call, request->options, &mutation, answer_acquire);
}

static void answer_release(struct daemon *daemon, struct pending *pending,
                           const struct action_reply *reply)
{
    Baton__V1__ReleaseSlotsResponse *message =
        baton_wire_new(&baton__v1__release_slots_response__descriptor);
    message->held = reply->object.number;
    message->revision = view_revision(daemon->core);
    message->state = render_slots(daemon->core, reply->object.name, message);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void serve_admission_release_slots_work(struct daemon *daemon, struct rpc_call *call,
                                               const Baton__V1__ReleaseSlotsRequest *request)
{
    struct rpc_peer peer;
    struct request mutation = { .kind = REQUEST_SLOTS_RELEASE,
                                .model = request->model,
                                .body.release = { request->lease, request->consumed,
                                                  request->dropped } };
    mutation.options = service_options(call, request->options, &peer);
    daemon_request(daemon, call, &mutation, answer_release, NULL);
}

/* --- samples --- */

static struct baton_status check_spans(const Baton__V1__Sample *sample, size_t i)
{
    if (sample->n_spans > SPANS_MAX) {
        return rpc_status_field("samples.spans", "sample %zu has more than %d", i, SPANS_MAX);
    }
    for (size_t k = 0; k < sample->n_spans; k++) {
        if (sample->spans[k]->tokens > SAMPLE_TOKENS_MAX) {
            return rpc_status_field("samples.spans.tokens", "sample %zu has %llu in a span", i,
                                    (unsigned long long)sample->spans[k]->tokens);
        }
    }
    return baton_status_ok();
}

/* The samples of a message as the core takes them, in one block that the caller frees; null: too
 * many, which was refused by field in '*st'. */
static struct sample *read_samples(Baton__V1__Sample *const *from, size_t count,
                                   struct baton_status *st)
{
    size_t spans = 0;
    *st = baton_status_ok();
    if (count == 0 || count > SAMPLES_MAX) {
        *st = rpc_status_field("samples", "%zu samples; a call has 1 to %d", count, SAMPLES_MAX);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        *st = check_spans(from[i], i);
        if (!baton_ok(st)) {
            return NULL;
        }
        spans += from[i]->n_spans;
    }
    struct sample *samples =
        malloc(count * sizeof(struct sample) + spans * sizeof(struct sample_span));
    baton_assert(samples != NULL);
    struct sample_span *span = (struct sample_span *)(samples + count);
    for (size_t i = 0; i < count; i++) {
        samples[i] = (struct sample){ span, from[i]->n_spans, from[i]->consumer_seq };
        for (size_t k = 0; k < from[i]->n_spans; k++) {
            *span++ = (struct sample_span){ from[i]->spans[k]->seq, from[i]->spans[k]->tokens };
        }
    }
    return samples;
}

static void answer_report(struct daemon *daemon, struct pending *pending,
                          const struct action_reply *reply)
{
    Baton__V1__ReportSamplesResponse *message =
        baton_wire_new(&baton__v1__report_samples_response__descriptor);
    message->counted = (uint32_t)reply->object.number;
    message->revision = view_revision(daemon->core);
    rpc_reply(pending->call, message);
    baton_wire_free(message);
}

static void serve_admission_report_samples_work(struct daemon *daemon, struct rpc_call *call,
                                                const Baton__V1__ReportSamplesRequest *request)
{
    struct baton_status st;
    struct rpc_peer peer;
    struct sample *samples = read_samples(request->samples, request->n_samples, &st);
    if (samples == NULL) {
        service_fail(call, st);
        return;
    }
    struct request mutation = { .kind = REQUEST_SAMPLES_REPORT,
                                .model = request->model,
                                .body.samples = { (uint32_t)request->stage, samples,
                                                  request->n_samples, request->consumer_seq } };
    mutation.options = service_options(call, request->options, &peer);
    daemon_request(daemon, call, &mutation, answer_report, NULL);
    free(samples);
}

static Baton__V1__SampleVerdict *render_verdict(const struct sample_verdict *verdict,
                                                const struct judge_rule *rule, void *root)
{
    char sentence[BATON_TEXT_BYTES];
    Baton__V1__SampleVerdict *message =
        baton_wire_part(root, &baton__v1__sample_verdict__descriptor);
    message->accept = verdict->faults == 0;
    message->faults = baton_wire_take(root, SAMPLE_FAULTS_END, sizeof(*message->faults));
    for (uint32_t fault = 1; fault < SAMPLE_FAULTS_END; fault++) {
        if ((verdict->faults & UINT32_C(1) << fault) != 0) {
            message->faults[message->n_faults++] = (Baton__V1__SampleFault)fault;
        }
    }
    message->oldest_seq = verdict->oldest_seq;
    message->max_lag = verdict->max_lag;
    message->mean_lag = verdict->mean_lag;
    message->consumer_seq = verdict->consumer_seq;
    judge_explain(verdict, rule, sentence);
    message->message = baton_wire_text(root, sentence);
    return message;
}

static void *render_verdicts(const struct controller *core, const struct model_record *model,
                             const Baton__V1__EvaluateSamplesRequest *request,
                             const struct sample *samples)
{
    struct judge_rule rule = view_judge_rule(model);
    Baton__V1__EvaluateSamplesResponse *reply =
        baton_wire_new(&baton__v1__evaluate_samples_response__descriptor);
    if (request->max_lag != NULL) {
        rule.bounded = true;
        rule.bound = request->max_lag->bound;
        rule.unit =
            request->max_lag->unit == 0 ? LAG_PUBLISHES : (enum lag_unit)request->max_lag->unit;
    }
    reply->unit = (Baton__V1__LagUnit)rule.unit;
    if (rule.bounded) {
        reply->_bound_case = BATON__V1__EVALUATE_SAMPLES_RESPONSE___BOUND_BOUND;
        reply->bound = rule.bound;
    }
    reply->revision = view_revision(core);
    reply->verdicts = baton_wire_take(reply, request->n_samples, sizeof(*reply->verdicts));
    for (size_t i = 0; i < request->n_samples; i++) {
        struct sample_verdict verdict =
            view_judge_sample(core, model, &samples[i], request->consumer_seq, &rule);
        reply->accepted += verdict.faults == 0;
        reply->verdicts[reply->n_verdicts++] = render_verdict(&verdict, &rule, reply);
    }
    return reply;
}

static void serve_admission_evaluate_samples_work(struct daemon *daemon, struct rpc_call *call,
                                                  const Baton__V1__EvaluateSamplesRequest *request)
{
    const struct model_record *model = view_model_find(daemon->core, request->model);
    struct baton_status st;
    if (model == NULL) {
        service_not_found(call, "model", request->model);
        return;
    }
    if (request->max_lag != NULL && (uint32_t)request->max_lag->unit >= LAG_UNITS_END) {
        service_fail(call, rpc_status_field("max_lag.unit", "not a unit of lag"));
        return;
    }
    struct sample *samples = read_samples(request->samples, request->n_samples, &st);
    if (samples == NULL) {
        service_fail(call, st);
        return;
    }
    service_reply(call, render_verdicts(daemon->core, model, request, samples));
    free(samples);
}
