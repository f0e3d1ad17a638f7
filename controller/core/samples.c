/* samples.c -- Admission.ReportSamples: counters and histograms of samples by their lag; nothing is
 * kept of a single one.  Counts are stored now and then (housekeeping), or at once for a call with a
 * request id. */
#include "api/base/mutant.h"
#include "controller/core/core.h"
#include "controller/core/judge.h"
#include "controller/core/staleness.h"

enum { SAMPLES_PER_CALL_MAX = 1024, SPANS_PER_SAMPLE_MAX = 64 };

static struct baton_status check(struct call *call)
{
    const struct request_samples *report = &call->request->body.samples;
    if (report->stage < SAMPLE_STAGE_DISPATCH || report->stage > SAMPLE_STAGE_CONSUMPTION) {
        return call_bad_field(call, "stage", "not a stage of a sample's life");
    }
    if (report->samples_count == 0 || report->samples_count > SAMPLES_PER_CALL_MAX) {
        return call_bad_field(call, "samples", "%zu samples; a call has 1 to %d",
                              report->samples_count, SAMPLES_PER_CALL_MAX);
    }
    for (size_t i = 0; i < report->samples_count; i++) {
        if (report->samples[i].spans_count > SPANS_PER_SAMPLE_MAX) {
            return call_bad_field(call, "samples.spans", "sample %zu has more than %d spans", i,
                                  SPANS_PER_SAMPLE_MAX);
        }
        for (size_t k = 0; k < report->samples[i].spans_count; k++) {
            if (report->samples[i].spans[k].tokens > SAMPLE_TOKENS_MAX) {
                return call_bad_field(call, "samples.spans.tokens", "sample %zu has %llu in a span",
                                      i, (unsigned long long)report->samples[i].spans[k].tokens);
            }
        }
    }
    return baton_status_ok();
}

static void count(struct sample_counter *counter, const struct sample_verdict *verdict)
{
    uint32_t apart = UINT32_C(1) << SAMPLE_UNRELATED | UINT32_C(1) << SAMPLE_VERSION_UNKNOWN |
                     UINT32_C(1) << SAMPLE_NO_SPANS | UINT32_C(1) << SAMPLE_LATER_THAN_CONSUMER;
    counter->samples++;
    counter->tokens += verdict->tokens;
    if ((verdict->faults & apart) != 0) {
        counter->unrelated++;
        return;
    }
    counter->max_lag = verdict->max_lag > counter->max_lag ? verdict->max_lag : counter->max_lag;
    counter->buckets[lag_bucket(LAG_PUBLISHES, verdict->max_lag)]++;
}

struct baton_status samples_report(struct controller *core, struct call *call)
{
    const struct request_samples *report = &call->request->body.samples;
    struct model *model = NULL;
    struct baton_status st = model_of_call(core, call, &model);
    if (baton_ok(&st)) {
        st = check(call);
    }
    if (!baton_ok(&st)) {
        return st;
    }
    struct judge_rule rule = { .unit = LAG_PUBLISHES };
    struct sample_counter *counter = &model->staleness->samples[report->stage];
    uint64_t before = counter->tokens;
    for (size_t i = 0; i < report->samples_count; i++) {
        struct sample_verdict verdict =
            view_judge_sample(core, &model->r, &report->samples[i], report->consumer_seq, &rule);
        count(counter, &verdict);
    }
    if (report->stage == SAMPLE_STAGE_COMPLETION) {
        cost_note_tokens(core, model, counter->tokens - before);
    }
    call->answer = (struct object_ref){ .number = report->samples_count };
    if (!MUTANT(SAMPLES_UNSTORED)) {
        staleness_flush_later(core, model, call->request->options.request_id);
    }
    return st;
}
