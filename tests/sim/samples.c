/* samples.c -- what data pipelines report of samples; see verbs.h. */
#include "tests/sim/verbs.h"

/* Of a call's number and the newest version when it was first made: a repeated call says the same. */
void verbs_samples(const struct call *call, struct sample_set *out)
{
    struct baton_random random;
    uint64_t newest = call->to_seq;
    baton_random_seed(&random, call->word);
    *out = (struct sample_set){ .count = 1 + world_below(&random, SIM_SAMPLES) };
    out->stage = SAMPLE_STAGE_DISPATCH + world_below(&random, SAMPLE_STAGE_CONSUMPTION);
    out->consumer_seq = world_below(&random, 2) == 0 ? newest : 0;
    for (uint32_t i = 0; i < out->count; i++) {
        struct sample *sample = &out->samples[i];
        sample->spans = out->spans[i];
        sample->spans_count = world_below(&random, SIM_SPANS + 1);
        uint64_t before = world_below(&random, 3);
        sample->consumer_seq =
            world_below(&random, 3) == 0 && newest > before ? newest - before : 0;
        for (size_t s = 0; s < sample->spans_count; s++) {
            uint64_t back = world_below(&random, 6);
            out->spans[i][s].seq = newest + 1 > back ? newest + 1 - back : 0;
            out->spans[i][s].tokens = world_below(&random, 5) == 0 ? 0 : 1 + back;
        }
    }
}
