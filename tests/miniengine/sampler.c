/* sampler.c -- see sampler.h. */
#include "tests/miniengine/sampler.h"

#include <math.h>
#include <stdlib.h>

#include "tests/miniengine/kernels.h"

struct choice {
    float logit;
    uint32_t token;
};

static int by_logit(const void *a, const void *b)
{
    const struct choice *x = a;
    const struct choice *y = b;
    if (x->logit != y->logit) {
        return x->logit > y->logit ? -1 : 1;
    }
    return x->token < y->token ? -1 : 1;
}

/* SplitMix64, from 53 bits to [0, 1). */
static double random_unit(uint64_t *state)
{
    *state += UINT64_C(0x9E3779B97F4A7C15);
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Draws from the best choices that top-k and top-p leave. */
static uint32_t draw(struct request *request, const struct choice *sorted, uint32_t vocab)
{
    const struct request_params *p = &request->params;
    uint32_t bound = p->top_k > 0 && p->top_k < vocab ? p->top_k : vocab;
    double max = (double)sorted[0].logit;
    double total = 0;
    for (uint32_t i = 0; i < bound; i++) {
        total += exp(((double)sorted[i].logit - max) / p->temperature);
    }
    double kept = 0;
    uint32_t count = 0;
    while (count < bound && (count == 0 || kept < p->top_p * total)) {
        kept += exp(((double)sorted[count++].logit - max) / p->temperature);
    }
    double left = random_unit(&request->random) * kept;
    for (uint32_t i = 0; i < count; i++) {
        left -= exp(((double)sorted[i].logit - max) / p->temperature);
        if (left < 0) {
            return sorted[i].token;
        }
    }
    return sorted[count - 1].token;
}

bool sampler_append(struct request *request, const float *logits, uint32_t vocab)
{
    struct choice *sorted = calloc(vocab, sizeof *sorted);
    if (sorted == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < vocab; i++) {
        sorted[i] = (struct choice){ .logit = logits[i], .token = i };
    }
    qsort(sorted, vocab, sizeof *sorted, by_logit);
    uint32_t token =
        request->params.temperature > 0 ? draw(request, sorted, vocab) : sorted[0].token;
    double norm = kernels_logsumexp(logits, vocab);
    uint32_t index = request_generated(request);
    request->logprobs[index] = (float)((double)logits[token] - norm);
    for (int i = 0; i < request->params.logprobs && (uint32_t)i < vocab; i++) {
        request->tops[index * (uint32_t)request->params.logprobs + (uint32_t)i] =
            (struct request_top){ .token = sorted[i].token,
                                  .logprob = (float)((double)sorted[i].logit - norm) };
    }
    request->tokens[request->tokens_count++] = token;
    free(sorted);
    return true;
}
