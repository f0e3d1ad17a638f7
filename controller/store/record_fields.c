/* record_fields.c -- see record_fields.h: one row for each member of each stored struct. */
#include "controller/store/record_fields.h"

#include <string.h>

#include "api/base/status.h"

#define SIZE_OF(type_, member_) sizeof(((type_ *)0)->member_)
#define TEXT(type_, member_, name_)                                                                \
    {                                                                                              \
        .name = (name_), .kind = FIELD_TEXT, .offset = offsetof(type_, member_),                   \
        .size = SIZE_OF(type_, member_)                                                            \
    }
#define PLAIN(kind_, type_, member_, name_)                                                        \
    {                                                                                              \
        .name = (name_), .kind = (kind_), .offset = offsetof(type_, member_),                      \
        .size = SIZE_OF(type_, member_)                                                            \
    }
#define U64(type_, member_, name_)  PLAIN(FIELD_U64, type_, member_, name_)
#define U32(type_, member_, name_)  PLAIN(FIELD_U32, type_, member_, name_)
#define BOOL(type_, member_, name_) PLAIN(FIELD_BOOL, type_, member_, name_)
#define WORD(type_, member_, name_, words_)                                                        \
    {                                                                                              \
        .name = (name_), .kind = FIELD_WORD, .offset = offsetof(type_, member_),                   \
        .size = SIZE_OF(type_, member_), .words = &(words_)                                        \
    }
#define STRUCT(type_, member_, name_, fields_)                                                     \
    {                                                                                              \
        .name = (name_), .kind = FIELD_STRUCT, .offset = offsetof(type_, member_),                 \
        .fields = &(fields_)                                                                       \
    }
#define LIST(type_, member_, name_, fields_)                                                       \
    {                                                                                              \
        .name = (name_), .kind = FIELD_LIST, .offset = offsetof(type_, member_),                   \
        .size = SIZE_OF(type_, member_) / SIZE_OF(type_, member_[0]), .fields = &(fields_),        \
        .count_offset = offsetof(type_, member_##_count)                                           \
    }
#define TABLE(name_, type_)                                                                        \
    static const struct field_table name_ = { name_##_rows,                                        \
                                              sizeof(name_##_rows) / sizeof(struct field),         \
                                              sizeof(type_) }

static const struct field epoch_rows[] = {
    U64(struct epoch, generation, "generation"),
    U64(struct epoch, n, "n"),
};
TABLE(epoch, struct epoch);

static const struct field hook_rows[] = {
    WORD(struct hook_policy, when, "when", words_hook_when),
    TEXT(struct hook_policy, url, "url"),
    U64(struct hook_policy, deadline_ms, "deadlineMs"),
};
TABLE(hook, struct hook_policy);

static const struct field swap_policy_rows[] = {
    WORD(struct swap_policy, in_flight, "inFlight", words_in_flight),
    WORD(struct swap_policy, kv, "kv", words_kv),
    WORD(struct swap_policy, arrivals, "arrivals", words_arrivals),
    U64(struct swap_policy, swap_deadline_ms, "swapDeadlineMs"),
    U64(struct swap_policy, drain_deadline_ms, "drainDeadlineMs"),
    BOOL(struct swap_policy, allow_recreate, "allowRecreate"),
    U64(struct swap_policy, barrier_deadline_ms, "barrierDeadlineMs"),
    WORD(struct swap_policy, drain_expiry, "drainExpiry", words_drain_expiry),
    WORD(struct swap_policy, mode, "mode", words_swap_mode),
    { .name = "hooks",
      .kind = FIELD_LIST,
      .offset = offsetof(struct swap_policy, hooks),
      .size = BATON_HOOKS_MAX,
      .fields = &hook,
      .count_offset = offsetof(struct swap_policy, hooks_count) },
};
TABLE(swap_policy, struct swap_policy);

static const struct field staleness_policy_rows[] = {
    WORD(struct staleness_policy, unit, "unit", words_lag_unit),
    BOOL(struct staleness_policy, bounded, "bounded"),
    U64(struct staleness_policy, bound, "bound"),
    BOOL(struct staleness_policy, warned, "warned"),
    U64(struct staleness_policy, warn, "warn"),
};
TABLE(staleness_policy, struct staleness_policy);

static const struct field session_policy_rows[] = {
    U64(struct session_policy, max_hold_ms, "maxHoldMs"),
    U64(struct session_policy, ttl_ms, "ttlMs"),
};
TABLE(session_policy, struct session_policy);

static const struct field slot_policy_rows[] = {
    U32(struct slot_policy, samples_per_publish, "samplesPerPublish"),
    U32(struct slot_policy, max_held, "maxHeld"),
    U64(struct slot_policy, ttl_ms, "ttlMs"),
};
TABLE(slot_policy, struct slot_policy);

static const struct field check_policy_rows[] = {
    TEXT(struct check_policy, name, "name"),
    WORD(struct check_policy, kind, "kind", words_check_kind),
    WORD(struct check_policy, compare, "compare", words_compare),
    PLAIN(FIELD_DOUBLE, struct check_policy, threshold, "threshold"),
    U64(struct check_policy, window_ms, "windowMs"),
    PLAIN(FIELD_DOUBLE, struct check_policy, tolerance, "tolerance"),
    PLAIN(FIELD_DOUBLE, struct check_policy, max_change, "maxChange"),
    U64(struct check_policy, min_changed, "minChanged"),
    TEXT(struct check_policy, query, "query"),
};
TABLE(check_policy, struct check_policy);

static const struct field canary_step_rows[] = {
    U32(struct canary_step, groups, "groups"),
    BOOL(struct canary_step, groups_is_percent, "groupsIsPercent"),
    U64(struct canary_step, soak_ms, "soakMs"),
    U32(struct canary_step, checks, "checks"),
    BOOL(struct canary_step, hold, "hold"),
};
TABLE(canary_step, struct canary_step);

static const struct field roll_policy_rows[] = {
    U64(struct roll_policy, every_n, "everyN"),
    WORD(struct roll_policy, every_unit, "everyUnit", words_unit),
    WORD(struct roll_policy, order, "order", words_order),
    TEXT(struct roll_policy, order_list, "orderList"),
    WORD(struct roll_policy, progress_action, "progressAction", words_progress_action),
    U64(struct roll_policy, soak_ms, "soakMs"),
    LIST(struct roll_policy, checks, "checks", check_policy),
    LIST(struct roll_policy, canary, "canary", canary_step),
};
TABLE(roll_policy, struct roll_policy);

static const struct field update_policy_rows[] = {
    WORD(struct update_policy, trigger, "trigger", words_trigger),
    WORD(struct update_policy, strategy, "strategy", words_strategy),
    U32(struct update_policy, max_unavailable, "maxUnavailable"),
    BOOL(struct update_policy, max_unavailable_is_percent, "maxUnavailableIsPercent"),
    U64(struct update_policy, progress_deadline_ms, "progressDeadlineMs"),
    U32(struct update_policy, barrier_quorum, "barrierQuorum"),
    BOOL(struct update_policy, barrier_quorum_is_percent, "barrierQuorumIsPercent"),
    U32(struct update_policy, mass_loss, "massLoss"),
    BOOL(struct update_policy, mass_loss_is_percent, "massLossIsPercent"),
    WORD(struct update_policy, non_finite, "nonFinite", words_non_finite),
    STRUCT(struct update_policy, swap, "swap", swap_policy),
    STRUCT(struct update_policy, staleness, "staleness", staleness_policy),
    STRUCT(struct update_policy, sessions, "sessions", session_policy),
    STRUCT(struct update_policy, slots, "slots", slot_policy),
    STRUCT(struct update_policy, roll, "roll", roll_policy),
};
TABLE(update_policy, struct update_policy);

static const struct field cluster_rows[] = {
    U64(struct cluster_record, generation, "generation"),
    BOOL(struct cluster_record, floors_pending, "floorsPending"),
    TEXT(struct cluster_record, importing, "importing"),
};
TABLE(cluster, struct cluster_record);

static const struct field model_rows[] = {
    TEXT(struct model_record, name, "name"),
    TEXT(struct model_record, uid, "uid"),
    U64(struct model_record, revision, "revision"),
    U64(struct model_record, generation, "generation"),
    U64(struct model_record, created_wall_ns, "createdWallNs"),
    STRUCT(struct model_record, policy, "policy", update_policy),
    U64(struct model_record, newest_seq, "newestSeq"),
    U64(struct model_record, newest_published_wall_ns, "newestPublishedWallNs"),
    U64(struct model_record, seq_floor, "seqFloor"),
    U64(struct model_record, promoted_seq, "promotedSeq"),
    U64(struct model_record, previous_promoted_seq, "previousPromotedSeq"),
    BOOL(struct model_record, held, "held"),
    TEXT(struct model_record, hold_reason, "holdReason"),
    BOOL(struct model_record, suspended, "suspended"),
    BOOL(struct model_record, roll_pending, "rollPending"),
    U64(struct model_record, trigger_seq, "triggerSeq"),
    U64(struct model_record, trigger_step, "triggerStep"),
    U64(struct model_record, trigger_iteration, "triggerIteration"),
    U64(struct model_record, trigger_wall_ns, "triggerWallNs"),
    U64(struct model_record, active_roll, "activeRoll"),
    U64(struct model_record, last_roll_number, "lastRollNumber"),
};
TABLE(model, struct model_record);

static const struct field source_rows[] = {
    TEXT(struct version_source, backend, "backend"),
    TEXT(struct version_source, location, "location"),
    TEXT(struct version_source, agent, "agent"),
};
TABLE(source, struct version_source);

static const struct field tensor_change_rows[] = {
    TEXT(struct tensor_change, name, "name"),
    PLAIN(FIELD_DOUBLE, struct tensor_change, change, "change"),
};
TABLE(tensor_change, struct tensor_change);

static const struct field values_rows[] = {
    BOOL(struct version_values, scanned, "scanned"),
    U64(struct version_values, nans, "nans"),
    U64(struct version_values, infs, "infs"),
    U64(struct version_values, bad_tensors, "badTensors"),
    TEXT(struct version_values, first_bad, "firstBad"),
    BOOL(struct version_values, compared, "compared"),
    U64(struct version_values, base_seq, "baseSeq"),
    U64(struct version_values, changed, "changed"),
    U64(struct version_values, unchanged, "unchanged"),
    U64(struct version_values, added, "added"),
    LIST(struct version_values, largest, "largest", tensor_change),
};
TABLE(values, struct version_values);

static const struct field version_rows[] = {
    TEXT(struct version_record, uid, "uid"),
    TEXT(struct version_record, model, "model"),
    U64(struct version_record, seq, "seq"),
    U64(struct version_record, revision, "revision"),
    WORD(struct version_record, state, "state", words_version_state),
    TEXT(struct version_record, digest, "digest"),
    U64(struct version_record, bytes, "bytes"),
    U64(struct version_record, tensors, "tensors"),
    U64(struct version_record, files, "files"),
    BOOL(struct version_record, manifest_read, "manifestRead"),
    TEXT(struct version_record, manifest_digest, "manifestDigest"),
    U64(struct version_record, optimizer_step, "optimizerStep"),
    U64(struct version_record, rollout_iteration, "rolloutIteration"),
    U64(struct version_record, samples_trained, "samplesTrained"),
    U64(struct version_record, created_wall_ns, "createdWallNs"),
    U64(struct version_record, published_wall_ns, "publishedWallNs"),
    U64(struct version_record, parent_seq, "parentSeq"),
    BOOL(struct version_record, partial, "partial"),
    TEXT(struct version_record, requested_by, "requestedBy"),
    TEXT(struct version_record, reason, "reason"),
    BOOL(struct version_record, quarantined, "quarantined"),
    TEXT(struct version_record, quarantine_reason, "quarantine_reason"),
    BOOL(struct version_record, pinned, "pinned"),
    STRUCT(struct version_record, values, "values", values),
    U64(struct version_record, hold_roll, "holdRoll"),
    U64(struct version_record, hold_since_wall_ns, "holdSinceWallNs"),
    { .name = "sources",
      .kind = FIELD_LIST,
      .offset = offsetof(struct version_record, sources),
      .size = BATON_SOURCES_PER_VERSION_MAX,
      .fields = &source,
      .count_offset = offsetof(struct version_record, sources_count) },
};
TABLE(version, struct version_record);

static const struct field check_rows[] = {
    TEXT(struct check_record, name, "name"),
    WORD(struct check_record, state, "state", words_check_state),
    PLAIN(FIELD_DOUBLE, struct check_record, value, "value"),
    TEXT(struct check_record, message, "message"),
    TEXT(struct check_record, by, "by"),
    U64(struct check_record, reported_wall_ns, "reportedWallNs"),
    BOOL(struct check_record, unanswered, "unanswered"),
};
TABLE(check, struct check_record);

static const struct field verb_rows[] = {
    TEXT(struct verb_record, verb, "verb"),
    TEXT(struct verb_record, by, "by"),
    TEXT(struct verb_record, reason, "reason"),
    U64(struct verb_record, at_wall_ns, "atWallNs"),
};
TABLE(verb, struct verb_record);

static const struct field roll_rows[] = {
    TEXT(struct roll_record, model, "model"),
    U64(struct roll_record, number, "number"),
    TEXT(struct roll_record, uid, "uid"),
    U64(struct roll_record, revision, "revision"),
    U64(struct roll_record, to_seq, "toSeq"),
    U64(struct roll_record, promoted_seq, "promotedSeq"),
    WORD(struct roll_record, state, "state", words_roll_state),
    BOOL(struct roll_record, degraded, "degraded"),
    BOOL(struct roll_record, catches_up, "catchesUp"),
    WORD(struct roll_record, cause, "cause", words_roll_cause),
    TEXT(struct roll_record, requested_by, "requestedBy"),
    TEXT(struct roll_record, reason, "reason"),
    U64(struct roll_record, started_wall_ns, "startedWallNs"),
    U64(struct roll_record, ended_wall_ns, "endedWallNs"),
    U32(struct roll_record, groups_total, "groupsTotal"),
    U32(struct roll_record, groups_done, "groupsDone"),
    WORD(struct roll_record, barrier_stage, "barrierStage", words_barrier_stage),
    U32(struct roll_record, barrier_tries, "barrierTries"),
    U64(struct roll_record, barrier_decided_wall_ns, "barrierDecidedWallNs"),
    TEXT(struct roll_record, order_list, "orderList"),
    BOOL(struct roll_record, promoted, "promoted"),
    BOOL(struct roll_record, canary_passed, "canaryPassed"),
    U32(struct roll_record, canary_step, "canaryStep"),
    BOOL(struct roll_record, canary_soaked, "canarySoaked"),
    LIST(struct roll_record, checks, "checks", check),
    LIST(struct roll_record, verbs, "verbs", verb),
};
TABLE(roll, struct roll_record);

static const struct field ticket_rows[] = {
    TEXT(struct ticket_record, uid, "uid"),
    U64(struct ticket_record, number, "number"),
    STRUCT(struct ticket_record, epoch, "epoch", epoch),
    U64(struct ticket_record, owner_term, "ownerTerm"),
    U64(struct ticket_record, from_seq, "fromSeq"),
    TEXT(struct ticket_record, from_digest, "fromDigest"),
    U64(struct ticket_record, to_seq, "toSeq"),
    TEXT(struct ticket_record, to_digest, "toDigest"),
    STRUCT(struct ticket_record, policy, "policy", swap_policy),
    U64(struct ticket_record, issued_wall_ns, "issuedWallNs"),
    U64(struct ticket_record, roll_number, "rollNumber"),
    BOOL(struct ticket_record, rejoin, "rejoin"),
    BOOL(struct ticket_record, revoked, "revoked"),
    U32(struct ticket_record, max_unavailable, "maxUnavailable"),
    BOOL(struct ticket_record, max_unavailable_is_percent, "maxUnavailableIsPercent"),
    BOOL(struct ticket_record, barrier, "barrier"),
    BOOL(struct ticket_record, resolve, "resolve"),
};
TABLE(ticket, struct ticket_record);

static const struct field phases_rows[] = {
    U64(struct swap_phases, queue_ns, "queueNs"),
    U64(struct swap_phases, stage_ns, "stageNs"),
    U64(struct swap_phases, pause_ns, "pauseNs"),
    U64(struct swap_phases, apply_ns, "applyNs"),
    U64(struct swap_phases, finalize_ns, "finalizeNs"),
    U64(struct swap_phases, verify_ns, "verifyNs"),
    U64(struct swap_phases, invalidate_ns, "invalidateNs"),
    U64(struct swap_phases, commit_ns, "commitNs"),
    U64(struct swap_phases, label_ns, "labelNs"),
    U64(struct swap_phases, probe_ns, "probeNs"),
    U64(struct swap_phases, open_ns, "openNs"),
    U64(struct swap_phases, shut_ns, "shutNs"),
    U64(struct swap_phases, engine_ns, "engineNs"),
    U64(struct swap_phases, journal_ns, "journalNs"),
    U64(struct swap_phases, barrier_ns, "barrierNs"),
};
TABLE(phases, struct swap_phases);

static const struct field swap_rows[] = {
    TEXT(struct swap_record, ticket_uid, "ticketUid"),
    U64(struct swap_record, ticket_number, "ticketNumber"),
    U64(struct swap_record, from_seq, "fromSeq"),
    U64(struct swap_record, to_seq, "toSeq"),
    WORD(struct swap_record, outcome, "outcome", words_swap_outcome),
    TEXT(struct swap_record, message, "message"),
    STRUCT(struct swap_record, phases, "phases", phases),
    U64(struct swap_record, bytes, "bytes"),
    WORD(struct swap_record, verify_level, "verifyLevel", words_verify_level),
    U64(struct swap_record, ended_wall_ns, "endedWallNs"),
    U32(struct swap_record, requests_held, "requestsHeld"),
    TEXT(struct swap_record, probe_text, "probeText"),
    PLAIN(FIELD_DOUBLE, struct swap_record, probe_logprob, "probeLogprob"),
    U32(struct swap_record, references, "references"),
    U32(struct swap_record, references_missed, "referencesMissed"),
    PLAIN(FIELD_DOUBLE, struct swap_record, reference_away, "referenceAway"),
    TEXT(struct swap_record, reference_message, "referenceMessage"),
    U32(struct swap_record, requests_inside, "requestsInside"),
    U32(struct swap_record, requests_kept, "requestsKept"),
    U32(struct swap_record, requests_aborted, "requestsAborted"),
    BOOL(struct swap_record, drain_expired, "drainExpired"),
    BOOL(struct swap_record, router_not_drained, "routerNotDrained"),
    WORD(struct swap_record, in_flight, "inFlight", words_in_flight),
    WORD(struct swap_record, kv, "kv", words_kv),
    WORD(struct swap_record, mode, "mode", words_swap_mode),
};
TABLE(swap, struct swap_record);

static const struct field history_rows[] = {
    TEXT(struct history_record, group, "group"),
    TEXT(struct history_record, model, "model"),
    U64(struct history_record, roll_number, "rollNumber"),
    U64(struct history_record, issued_wall_ns, "issuedWallNs"),
    U64(struct history_record, closed_wall_ns, "closedWallNs"),
    U64(struct history_record, slot_ns, "slotNs"),
    STRUCT(struct history_record, swap, "swap", swap),
};
TABLE(history, struct history_record);

static const struct field group_rows[] = {
    TEXT(struct group_record, name, "name"),
    TEXT(struct group_record, uid, "uid"),
    U64(struct group_record, revision, "revision"),
    U64(struct group_record, created_wall_ns, "createdWallNs"),
    TEXT(struct group_record, model, "model"),
    TEXT(struct group_record, agent, "agent"),
    U64(struct group_record, committed_seq, "committedSeq"),
    TEXT(struct group_record, committed_digest, "committedDigest"),
    U64(struct group_record, target_seq, "targetSeq"),
    U64(struct group_record, owner_term, "ownerTerm"),
    U64(struct group_record, ticket_number, "ticketNumber"),
    BOOL(struct group_record, ticket_open, "ticketOpen"),
    STRUCT(struct group_record, ticket, "ticket", ticket),
    BOOL(struct group_record, swapped, "swapped"),
    STRUCT(struct group_record, last_swap, "lastSwap", swap),
    U64(struct group_record, attempts_roll, "attemptsRoll"),
    U32(struct group_record, attempts, "attempts"),
    U32(struct group_record, failures, "failures"),
    BOOL(struct group_record, cordoned, "cordoned"),
    TEXT(struct group_record, cordon_reason, "cordonReason"),
    BOOL(struct group_record, drained, "drained"),
    BOOL(struct group_record, pinned, "pinned"),
    TEXT(struct group_record, pin_reason, "pinReason"),
    BOOL(struct group_record, retired, "retired"),
    TEXT(struct group_record, retire_reason, "retireReason"),
    U64(struct group_record, retired_wall_ns, "retiredWallNs"),
    BOOL(struct group_record, returning, "returning"),
    BOOL(struct group_record, as_new, "asNew"),
    BOOL(struct group_record, late, "late"),
    TEXT(struct group_record, members, "members"),
    BOOL(struct group_record, soaking, "soaking"),
    BOOL(struct group_record, asleep, "asleep"),
    TEXT(struct group_record, sleep_reason, "sleepReason"),
};
TABLE(group, struct group_record);

static const struct field agent_rows[] = {
    TEXT(struct agent_record, name, "name"),
    TEXT(struct agent_record, uid, "uid"),
    U64(struct agent_record, revision, "revision"),
    U64(struct agent_record, created_wall_ns, "createdWallNs"),
    TEXT(struct agent_record, journal_incarnation, "journalIncarnation"),
    TEXT(struct agent_record, software, "software"),
    TEXT(struct agent_record, address, "address"),
    BOOL(struct agent_record, retired, "retired"),
};
TABLE(agent, struct agent_record);

static const struct field object_rows[] = {
    WORD(struct object_ref, kind, "kind", words_object_kind),
    TEXT(struct object_ref, name, "name"),
    TEXT(struct object_ref, uid, "uid"),
    U64(struct object_ref, number, "number"),
};
TABLE(object, struct object_ref);

static const struct field request_rows[] = {
    TEXT(struct request_record, id, "id"),
    TEXT(struct request_record, fingerprint, "fingerprint"),
    U64(struct request_record, stored_wall_ns, "storedWallNs"),
    STRUCT(struct request_record, answer, "answer", object),
};
TABLE(request, struct request_record);

static const struct field jump_rows[] = {
    U64(struct lineage_jump, seq, "seq"),
    U64(struct lineage_jump, parent, "parent"),
};
TABLE(jump, struct lineage_jump);

static const struct field undone_rows[] = {
    U64(struct lineage_undone, seq, "seq"),
};
TABLE(undone, struct lineage_undone);

static const struct field lineage_rows[] = {
    U64(struct lineage, base_seq, "baseSeq"),
    LIST(struct lineage, jumps, "jumps", jump),
    LIST(struct lineage, undone, "undone", undone),
};
TABLE(lineage, struct lineage);

static const struct field cost_phase_rows[] = {
    U64(struct cost_phase, ns, "ns"),
    U64(struct cost_phase, rank_ns, "rankNs"),
};
TABLE(cost_phase, struct cost_phase);

static const struct field cost_rows[] = {
    U64(struct cost_bucket, slot, "slot"),
    U32(struct cost_bucket, swaps, "swaps"),
    U32(struct cost_bucket, publishes, "publishes"),
    U32(struct cost_bucket, delays, "delays"),
    U64(struct cost_bucket, delay_ns, "delayNs"),
    U64(struct cost_bucket, shut_ns, "shutNs"),
    U64(struct cost_bucket, rank_shut_ns, "rankShutNs"),
    U64(struct cost_bucket, tokens, "tokens"),
    LIST(struct cost_bucket, phases, "phases", cost_phase),
};
TABLE(cost, struct cost_bucket);

static const struct field sample_counter_rows[] = {
    U64(struct sample_counter, samples, "samples"),
    U64(struct sample_counter, tokens, "tokens"),
    U64(struct sample_counter, max_lag, "maxLag"),
    U64(struct sample_counter, unrelated, "unrelated"),
    U64(struct sample_counter, buckets[0], "bucket0"),
    U64(struct sample_counter, buckets[1], "bucket1"),
    U64(struct sample_counter, buckets[2], "bucket2"),
    U64(struct sample_counter, buckets[3], "bucket3"),
    U64(struct sample_counter, buckets[4], "bucket4"),
    U64(struct sample_counter, buckets[5], "bucket5"),
    U64(struct sample_counter, buckets[6], "bucket6"),
    U64(struct sample_counter, buckets[7], "bucket7"),
    U64(struct sample_counter, buckets[8], "bucket8"),
    U64(struct sample_counter, buckets[9], "bucket9"),
};
TABLE(sample_counter, struct sample_counter);

static const struct field staleness_rows[] = {
    TEXT(struct staleness_record, model, "model"),
    STRUCT(struct staleness_record, lineage, "lineage", lineage),
    U64(struct staleness_record, consumed, "consumed"),
    LIST(struct staleness_record, cost, "cost", cost),
    LIST(struct staleness_record, samples, "samples", sample_counter),
};
TABLE(staleness, struct staleness_record);

static const struct field point_rows[] = {
    U64(struct series_point, slot, "slot"),
    U32(struct series_point, groups, "groups"),
    U32(struct series_point, groups_over_bound, "over"),
    U64(struct series_point, newest_seq, "newest"),
    U64(struct series_point, max_publishes, "publishes"),
    PLAIN(FIELD_DOUBLE, struct series_point, mean_publishes, "mean"),
    U64(struct series_point, max_optimizer_steps, "steps"),
    U64(struct series_point, max_samples, "samples"),
    U64(struct series_point, max_seconds, "seconds"),
    U64(struct series_point, max_age_seconds, "age"),
};
TABLE(point, struct series_point);

static const struct field series_rows[] = {
    TEXT(struct series_chunk_record, model, "model"),
    U32(struct series_chunk_record, tier, "tier"),
    U32(struct series_chunk_record, place, "place"),
    U64(struct series_chunk_record, number, "number"),
    LIST(struct series_chunk_record, points, "points", point),
};
TABLE(series, struct series_chunk_record);

static const struct field session_lease_rows[] = {
    TEXT(struct session_lease_record, model, "model"),
    TEXT(struct session_lease_record, name, "name"),
    U64(struct session_lease_record, seq, "seq"),
    U64(struct session_lease_record, created_wall_ns, "createdWallNs"),
    U64(struct session_lease_record, expires_wall_ns, "expiresWallNs"),
    BOOL(struct session_lease_record, expired, "expired"),
};
TABLE(session_lease, struct session_lease_record);

static const struct field slot_lease_rows[] = {
    TEXT(struct slot_lease_record, id, "id"),
    TEXT(struct slot_lease_record, model, "model"),
    TEXT(struct slot_lease_record, holder, "holder"),
    U64(struct slot_lease_record, held, "held"),
    U64(struct slot_lease_record, seq, "seq"),
    U64(struct slot_lease_record, created_wall_ns, "createdWallNs"),
    U64(struct slot_lease_record, expires_wall_ns, "expiresWallNs"),
};
TABLE(slot_lease, struct slot_lease_record);

static const struct field log_entry_rows[] = {
    U64(struct log_entry, number, "number"),    U64(struct log_entry, wall_ns, "wallNs"),
    BOOL(struct log_entry, warning, "warning"), TEXT(struct log_entry, object, "object"),
    TEXT(struct log_entry, reason, "reason"),   TEXT(struct log_entry, message, "message"),
    TEXT(struct log_entry, by, "by"),
};
const struct field_table log_entry_fields = { log_entry_rows,
                                              sizeof(log_entry_rows) / sizeof(struct field),
                                              sizeof(struct log_entry) };

static const struct {
    const char *word;
    const struct field_table *fields;
} kinds[RECORD_KINDS_END] = {
    [RECORD_CLUSTER] = { "cluster", &cluster },
    [RECORD_MODEL] = { "model", &model },
    [RECORD_VERSION] = { "version", &version },
    [RECORD_ROLL] = { "roll", &roll },
    [RECORD_GROUP] = { "group", &group },
    [RECORD_AGENT] = { "agent", &agent },
    [RECORD_REQUEST] = { "request", &request },
    [RECORD_STALENESS] = { "staleness", &staleness },
    [RECORD_SERIES] = { "series", &series },
    [RECORD_SESSION_LEASE] = { "sessionLease", &session_lease },
    [RECORD_SLOT_LEASE] = { "slotLease", &slot_lease },
    [RECORD_SWAP] = { "swap", &history },
};

const struct field_table *record_fields(enum record_kind kind)
{
    baton_assert(kind > 0 && kind < RECORD_KINDS_END);
    return kinds[kind].fields;
}

const char *record_kind_word(enum record_kind kind)
{
    baton_assert(kind > 0 && kind < RECORD_KINDS_END);
    return kinds[kind].word;
}

bool record_kind_find(const char *word, enum record_kind *out)
{
    for (int kind = 1; kind < RECORD_KINDS_END; kind++) {
        if (strcmp(kinds[kind].word, word) == 0) {
            *out = (enum record_kind)kind;
            return true;
        }
    }
    return false;
}
