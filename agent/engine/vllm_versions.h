/* vllm_versions.h -- what differs between the versions of vLLM that the adapter speaks to, in one table.
 *
 * A feature of an engine's software is asked for here and nowhere else; deploy/docs/vllm.md shows the same
 * table to users, with which versions were run.
 *
 * Depends on: api/base, engine.h.  Included by: agent/engine (vllm*.c), controller/cli, tests.
 * Threads: values only.  Ownership: nothing is kept. */
#ifndef AGENT_ENGINE_VLLM_VERSIONS_H
#define AGENT_ENGINE_VLLM_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>

/* The oldest and the newest minor number (of 0.x) that the adapter was written for. */
enum { VLLM_MINOR_OLDEST = 27, VLLM_MINOR_NEWEST = 33 };

enum vllm_feature {
    VLLM_TRUE_RESET,  /* /reset_prefix_cache says whether it did it. */
    VLLM_LABEL,       /* /weight_info, /update_weight_version. */
    VLLM_RANK_LIST,   /* /update_weights takes a payload a rank. */
    VLLM_NCCL_ID,     /* Its NCCL backend takes an id that somebody else made. */
    VLLM_CHECKSUMS,   /* The worker method compute_weight_checksums. */
    VLLM_TOKEN_SPANS, /* Answers name the version of each token. */
    VLLM_FEATURES_COUNT
};

struct vllm_feature_row {
    enum vllm_feature feature;
    unsigned since; /* The first minor number that has it. */
    const char *what;
    const char *source; /* Where that was seen, in vLLM's own tree. */
};

/* All of them, by feature. */
extern const struct vllm_feature_row vllm_features[VLLM_FEATURES_COUNT];

/* The minor number of "0.32.0"; 0 of what is no version; beyond all known ones from 1.0 on. */
unsigned long vllm_minor(const char *software);
bool vllm_has(const char *software, enum vllm_feature feature);

/* Why the engine is left to reload_weights: by its weight-transfer backend ("" : none) and its version. */
void vllm_reload_reason(const char *software, const char *backend, char *out, size_t out_bytes);

#endif /* vllm_versions.h */
