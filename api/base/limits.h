/* limits.h -- every bound of the system, with assertions on their relations.
 *
 * A table that is full refuses with RESOURCE_EXHAUSTED and the name of the limit; nothing grows
 * without one of these numbers.
 *
 * Depends on: nothing. */
#ifndef BATON_BASE_LIMITS_H
#define BATON_BASE_LIMITS_H

enum {
    /* Names: lower case letters, digits, '-', '.', at most 63 characters (as in Kubernetes). */
    BATON_NAME_BYTES = 64,
    BATON_UID_BYTES = 16,
    BATON_UID_TEXT_BYTES = 2 * BATON_UID_BYTES + 1,
    BATON_DIGEST_BYTES = 16,
    BATON_DIGEST_TEXT_BYTES = 2 * BATON_DIGEST_BYTES + 1,
    BATON_REQUEST_ID_BYTES = 64,
    BATON_PATH_BYTES = 512,
    BATON_TEXT_BYTES = 256, /* Reasons and messages of records. */

    /* Controller. */
    BATON_MODELS_MAX = 64,
    BATON_GROUPS_MAX = 16384,
    BATON_AGENTS_MAX = 16384,
    BATON_ENGINES_PER_GROUP_MAX = 16,
    BATON_FOLLOWERS_PER_GROUP_MAX = 15, /* Agents of a group beside its leader. */
    BATON_GROUPS_PER_AGENT_MAX = 64,
    BATON_VERSIONS_MAX = 4096,
    BATON_ROLLS_MAX = 1024,
    BATON_SOURCES_PER_VERSION_MAX = 8,
    BATON_FOLLOWED_VERSIONS_MAX = 8, /* That an agent is told peers for as a follower. */
    BATON_HOLDERS_MAX = 4,           /* Peers that an agent is told of for one version. */
    BATON_ADDRESS_BYTES = 128,       /* Where a peer serves. */
    BATON_LARGEST_CHANGES_MAX = 4,   /* That a version records of its tensors. */
    BATON_HOOKS_MAX = 4,             /* Of a model's policy. */
    BATON_HOOK_URL_BYTES = 192,
    BATON_REQUEST_IDS_MAX = 65536,
    BATON_EVENTS_KEPT_MAX = 8192,
    BATON_CANARY_STEPS_MAX = 8,
    BATON_CHECKS_MAX = 8,
    BATON_QUERY_BYTES = 384, /* PromQL of a check. */
    BATON_ROLL_VERBS_MAX = 12,
    BATON_SWAPS_MAX = 65536, /* Of the swap history; fewer are kept unless configured. */
    BATON_SESSIONS_MAX = 16384,
    BATON_SLOT_LEASES_MAX = 16384,

    /* Wire. */
    BATON_MESSAGE_BYTES_MAX = 1 << 20, /* One gRPC message. */
    BATON_MANIFEST_PART_BYTES_MAX = 512 << 10,
    BATON_MESSAGE_DEPTH_MAX = 32,
    BATON_PAGE_ITEMS_MAX = 500,

    /* Data plane. */
    BATON_CHUNK_BYTES = 1 << 20,
    BATON_TENSOR_RANK_MAX = 8,
    BATON_TENSOR_NAME_BYTES = 512,
    BATON_TENSOR_LABEL_BYTES = 128, /* Of a name that is only shown: it may lose its end. */
    BATON_TENSORS_MAX = 1 << 20,
    BATON_SHARDS_MAX = 4096,
    BATON_SAFETENSORS_HEADER_BYTES_MAX = 100 << 20,
};
_Static_assert(BATON_MANIFEST_PART_BYTES_MAX < BATON_MESSAGE_BYTES_MAX, "a page fits a message");

#endif /* limits.h */
