#include "agent/engine/vllm_versions.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RLHF  "entrypoints/serve/dev/rlhf/api_router.py"
#define CACHE "entrypoints/serve/dev/cache/api_router.py"

const struct vllm_feature_row vllm_features[VLLM_FEATURES_COUNT] = {
    [VLLM_TRUE_RESET] = { VLLM_TRUE_RESET, 26, "a cache reset says whether it was done", CACHE },
    [VLLM_LABEL] = { VLLM_LABEL, 27, "a label of the weights, written and read", RLHF },
    [VLLM_RANK_LIST] = { VLLM_RANK_LIST, 29, "a payload for each rank", RLHF },
    [VLLM_NCCL_ID] = { VLLM_NCCL_ID, 30, "an NCCL id made by the sender",
                       "distributed/weight_transfer/nccl_engine.py" },
    [VLLM_CHECKSUMS] = { VLLM_CHECKSUMS, 32, "checksums of what is resident",
                         "v1/worker/gpu_worker.py" },
    [VLLM_TOKEN_SPANS] = { VLLM_TOKEN_SPANS, 32, "the version of each token",
                           "entrypoints/scale_out/token_in_token_out" },
};

unsigned long vllm_minor(const char *software)
{
    char *end = NULL;
    unsigned long major = strtoul(software, &end, 10);
    if (end == software || *end != '.') {
        return 0;
    }
    return major > 0 ? ULONG_MAX : strtoul(end + 1, NULL, 10);
}

bool vllm_has(const char *software, enum vllm_feature feature)
{
    return vllm_minor(software) >= vllm_features[feature].since;
}

void vllm_reload_reason(const char *software, const char *backend, char *out, size_t out_bytes)
{
    if (backend[0] == '\0') {
        (void)snprintf(out, out_bytes,
                       "no weight-transfer backend is configured: reload_weights from the landing");
    } else if (strcmp(backend, "nccl") == 0 && !vllm_has(software, VLLM_NCCL_ID)) {
        (void)snprintf(out, out_bytes,
                       "weight-transfer backend \"nccl\" refused: %.40s takes no NCCL id that its "
                       "sender made (0.%u and later do): reload_weights from the landing",
                       software, vllm_features[VLLM_NCCL_ID].since);
    } else {
        (void)snprintf(out, out_bytes,
                       "weight-transfer backend is \"%.40s\", over which this agent does not send: "
                       "reload_weights from the landing",
                       backend);
    }
}
