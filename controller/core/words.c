/* words.c -- see words.h.  A row's place is its enum's number. */
#include "controller/core/words.h"

#include <string.h>

#include "controller/core/text.h"
#include "controller/core/view.h"

#define TABLE(name_, ...)                                                                          \
    static const char *const name_##_rows[] = { __VA_ARGS__ };                                     \
    const struct word_table name_ = { name_##_rows, sizeof(name_##_rows) / sizeof(char *) }

TABLE(words_trigger, NULL, "OnPublish", "Manual", "Interval", "MaxLag");
TABLE(words_unit, NULL, "Publishes", "OptimizerSteps", "RolloutIterations", "Seconds");
TABLE(words_order, NULL, "MostStale", "Name");
TABLE(words_progress_action, NULL, "report", "pause", "rollback");
TABLE(words_check_kind, NULL, "Manual", "Metric", "Probe", "Change");
TABLE(words_compare, NULL, "<", "<=", ">", ">=");
TABLE(words_check_state, NULL, "Pending", "Passed", "Failed");
TABLE(words_strategy, NULL, "Rolling", "Barrier");
TABLE(words_in_flight, NULL, "keep", "wait", "abort");
TABLE(words_kv, NULL, "flush", "salt", "keep");
TABLE(words_swap_mode, NULL, "pause", "live");
TABLE(words_drain_expiry, NULL, "giveUp", "abort", "keep");
TABLE(words_hook_when, NULL, "beforePause", "afterProbe");
TABLE(words_non_finite, NULL, "refuse", "allow");
TABLE(words_arrivals, NULL, "hold", "refuse");
TABLE(words_lag_unit, NULL, "Publishes", "OptimizerSteps", "Samples", "Seconds");
TABLE(words_version_state, NULL, "OPEN", "SEALED", "PUBLISHED");
TABLE(words_roll_state, NULL, "PROGRESSING", "PAUSED", "COMPLETED", "SUPERSEDED", "UNDONE",
      "ABORTED", "ROLLED_BACK");
TABLE(words_roll_cause, NULL, "publish", "start", "undo", "abort", "rollback", "trigger");
TABLE(words_barrier_stage, "none", "SHUTTING", "GO", "OPEN", "CANCELLED");
TABLE(words_swap_outcome, NULL, "COMMITTED", "REFUSED", "PAUSE_TIMEOUT", "APPLY_FAILED", "OUT",
      "LOST");
TABLE(words_verify_level, "none", "landed", "copied", "resident");
TABLE(words_object_kind, "none", "model", "version", "roll", "group", "agent");
TABLE(words_group_state, NULL, "JOINING", "SERVING", "STAGING", "STAGED", "PAUSING", "APPLYING",
      "RESUMING", "RESTORING", "OUT", "UNKNOWN", "STAGE_FAILED", "RETIRED", "ASLEEP");
TABLE(words_blocked, NULL, "BUDGET_FULL", "ROLL_PAUSED", "STAGING", "STAGE_FAILED", "RANK_MISSING",
      "AGENT_UNKNOWN", "MODEL_HELD", "MODEL_SUSPENDED", "NO_RESTORE_SOURCE", "NO_MEMORY",
      "NO_TRANSPORT", "INCOMPATIBLE_LAYOUT", "STORE_UNAVAILABLE", "ENGINE_UNREACHABLE",
      "ENGINE_NEEDS_RECREATE", "ENGINE_UNGUARDED", "NO_VERSION", "STORE_FLOORS_UNKNOWN",
      "SWAP_FAILED", [BLOCKED_GROUP_CORDONED] = "GROUP_CORDONED",
      [BLOCKED_GROUP_PINNED] = "GROUP_PINNED", [BLOCKED_MASS_LOSS] = "MASS_LOSS",
      [BLOCKED_VERSION_QUARANTINED] = "VERSION_QUARANTINED", [BLOCKED_CANARY_HOLD] = "CANARY_HOLD",
      [BLOCKED_CHECK_PENDING] = "CHECK_PENDING", [BLOCKED_CHECK_FAILED] = "CHECK_FAILED",
      [BLOCKED_SOAKING] = "SOAKING", [BLOCKED_SESSION_LEASES] = "SESSION_LEASES",
      [BLOCKED_ROUTER_NOT_DRAINED] = "ROUTER_NOT_DRAINED", [BLOCKED_IN_DOUBT] = "IN_DOUBT",
      [BLOCKED_BARRIER_WAITING] = "BARRIER_WAITING", [BLOCKED_GROUP_ASLEEP] = "GROUP_ASLEEP",
      [BLOCKED_LIVE_IMPOSSIBLE] = "LIVE_IMPOSSIBLE");
TABLE(words_canary_wait, "", "Groups", "Soak", "Check", "CheckFailed", "Hold");

_Static_assert(sizeof(words_blocked_rows) / sizeof(char *) == BLOCKED_REASONS_END,
               "each blocked reason has a word");
_Static_assert(sizeof(words_group_state_rows) / sizeof(char *) == GROUP_STATE_ASLEEP + 1,
               "each group state has a word");

const char *words_get(const struct word_table *table, uint32_t number)
{
    if (number >= table->count || table->words[number] == NULL) {
        return "";
    }
    return table->words[number];
}

bool words_find(const struct word_table *table, const char *word, uint32_t *out)
{
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->words[i] != NULL && strcmp(table->words[i], word) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

void words_list(const struct word_table *table, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < table->count; i++) {
        if (table->words[i] == NULL || used + 1 >= out_bytes) {
            continue;
        }
        const char *join = used == 0 ? "" : (i + 1 == table->count ? " or " : ", ");
        text_format(out + used, out_bytes - used, "%s\"%s\"", join, table->words[i]);
        used = strlen(out);
    }
}
