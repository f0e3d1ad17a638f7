/* Sums up what the ranks reported; the weakest rank speaks for the engine. */
#include <inttypes.h>
#include <string.h>

#include "agent/engine/answer.h"
#include "api/base/bytes.h"
#include "api/base/clock.h"

/* What an error code of the contract means to the caller. */
struct error_row {
    const char *name;
    enum baton_code code;
    enum baton_reason reason;
};

static const struct error_row ERRORS[] = {
    { "FENCED", BATON_ABORTED, BATON_REASON_STALE_TICKET },
    { "BAD_REQUEST", BATON_INTERNAL, BATON_REASON_ENGINE_REFUSED },
    { "LANDING_UNREADABLE", BATON_FAILED_PRECONDITION, BATON_REASON_IO },
    { "DIGEST_MISMATCH", BATON_DATA_LOSS, BATON_REASON_DIGEST_MISMATCH },
    { "MISSING_TENSOR", BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE },
    { "UNEXPECTED_TENSOR", BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE },
    { "SHAPE_MISMATCH", BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE },
    { "DTYPE_MISMATCH", BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE },
    { "VERIFY_FAILED", BATON_DATA_LOSS, BATON_REASON_ENGINE_LIED },
};

static bool fence_equal(const struct engine_fence *a, const struct engine_fence *b)
{
    return a->generation == b->generation && a->n == b->n && a->owner_term == b->owner_term &&
           a->ticket == b->ticket && a->step == b->step;
}

static const struct answer_part *part_of(const struct answer_rank *rank, enum answer_phase phase)
{
    switch (phase) {
    case ANSWER_STAGED: return &rank->staged;
    case ANSWER_APPLIED: return &rank->applied;
    case ANSWER_READBACK: break;
    }
    return &rank->readback;
}

/* Does the part speak of our call? */
static bool is_ours(const struct answer_part *part, const struct engine_fence *fence)
{
    return part->present && (fence == NULL || fence_equal(&part->fence, fence));
}

static bool rank_is_ok(const struct answer_rank *rank, enum answer_phase phase, const char *digest,
                       const struct engine_fence *fence)
{
    const struct answer_part *part = part_of(rank, phase);
    if (!is_ours(part, fence) || !part->ok || strcmp(part->digest, digest) != 0) {
        return false;
    }
    return phase != ANSWER_APPLIED ||
           (!rank->session && strcmp(rank->resident_digest, digest) == 0);
}

/* Has the rank its old tensors?  What did not happen there left them alone. */
static bool rank_is_old(const struct answer_rank *rank, const struct engine_fence *fence)
{
    const struct answer_part *applied = &rank->applied;
    if (!applied->present) {
        return true;
    }
    if (is_ours(applied, fence)) {
        return !applied->ok && applied->restored;
    }
    return applied->ok || applied->restored;
}

static enum engine_level rank_level(const struct answer_rank *rank, enum answer_phase phase)
{
    switch (phase) {
    case ANSWER_STAGED: break;
    case ANSWER_APPLIED: return rank->resident_level;
    case ANSWER_READBACK: return rank->readback.level;
    }
    return ENGINE_LEVEL_NONE;
}

static uint64_t ns_max(uint64_t so_far, double seconds)
{
    uint64_t ns = (uint64_t)(seconds * (double)BATON_NS_PER_S);
    return ns > so_far ? ns : so_far;
}

static void times_add(const struct answer_rank *rank, struct engine_update *out)
{
    out->stage_ns = ns_max(out->stage_ns, rank->stage_s);
    out->load_ns = ns_max(out->load_ns, rank->load_s);
    out->finalize_ns = ns_max(out->finalize_ns, rank->finalize_s);
    out->verify_ns = ns_max(out->verify_ns, rank->verify_s);
}

/* The code of a rank that is not ok.  One that reports no error of this call did not do it, though the
 * call was answered. */
static const char *code_of(const struct answer_part *part, const struct engine_fence *fence)
{
    bool speaks = is_ours(part, fence) || strcmp(part->error_code, "FENCED") == 0;
    return part->present && !part->ok && speaks && part->error_code[0] != '\0' ? part->error_code
                                                                               : "VERIFY_FAILED";
}

/* It did compare, and names what differs: at least so many, since reports are cut. */
static struct baton_status others_of(const struct answer_part *part, uint32_t rank)
{
    return baton_status_make(BATON_DATA_LOSS, BATON_REASON_ENGINE_LIED,
                             "rank %" PRIu32
                             ": VERIFY_FAILED: it holds other weights: at least %" PRIu32
                             " tensors differ, the first is %s",
                             rank, part->mismatched, part->mismatched_first);
}

static struct baton_status failure_of(const struct answer_part *part, const char *code,
                                      uint32_t rank)
{
    struct error_row row = { code, BATON_ABORTED, BATON_REASON_ENGINE_REFUSED };
    bool told = strcmp(code, part->error_code) == 0;
    for (size_t i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; i++) {
        if (strcmp(ERRORS[i].name, code) == 0) {
            row = ERRORS[i];
        }
    }
    return baton_status_make(row.code, row.reason, "rank %" PRIu32 ": %s: %s%s%s", rank, code,
                             told ? part->error_tensor : "",
                             told && part->error_tensor[0] != '\0' ? ": " : "",
                             told ? part->error_message : "it answered and reports nothing done");
}

/* The failing rank that speaks: the first that did not just follow another one. */
static uint32_t speaker(const struct answer_report *report, enum answer_phase phase,
                        const char *digest, const struct engine_fence *fence)
{
    uint32_t found = report->ranks_count;
    for (uint32_t i = report->ranks_count; i-- > 0;) {
        const struct answer_rank *rank = &report->ranks[i];
        if (rank_is_ok(rank, phase, digest, fence)) {
            continue;
        }
        bool follows = strcmp(code_of(part_of(rank, phase), fence), "PEER_FAILED") == 0;
        if (!follows || found == report->ranks_count) {
            found = i;
        }
    }
    return found;
}

struct baton_status answer_sum(const struct answer_report *report, enum answer_phase phase,
                               const char *digest, const struct engine_fence *fence,
                               struct engine_update *out)
{
    out->ok = report->ranks_count > 0;
    out->restored = report->ranks_count > 0;
    out->level = ENGINE_LEVEL_RESIDENT;
    out->error_rank = -1;
    for (uint32_t i = 0; i < report->ranks_count; i++) {
        const struct answer_rank *rank = &report->ranks[i];
        enum engine_level level = rank_level(rank, phase);
        out->ok = out->ok && rank_is_ok(rank, phase, digest, fence);
        out->restored = out->restored && rank_is_old(rank, fence);
        out->level = level < out->level ? level : out->level;
        times_add(rank, out);
    }
    out->restored = out->restored && !out->ok && phase != ANSWER_READBACK;
    if (out->ok) {
        return baton_status_ok();
    }
    uint32_t at = speaker(report, phase, digest, fence);
    out->level = ENGINE_LEVEL_NONE;
    if (at == report->ranks_count) {
        return baton_status_make(BATON_INTERNAL, BATON_REASON_MALFORMED, "a report of no rank");
    }
    const struct answer_part *part = part_of(&report->ranks[at], phase);
    const char *code = code_of(part, fence);
    bool told = strcmp(code, part->error_code) == 0;
    (void)baton_text_copy(out->error_code, sizeof out->error_code, code);
    (void)baton_text_copy(out->error_tensor, sizeof out->error_tensor,
                          told ? part->error_tensor : "");
    out->error_rank = told ? part->error_rank : (int32_t)at;
    if (phase == ANSWER_READBACK && !part->ok && part->mismatched > 0 && !told &&
        strcmp(part->digest, digest) == 0) {
        return others_of(part, at);
    }
    return failure_of(part, code, (uint32_t)out->error_rank);
}
