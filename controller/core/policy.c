/* policy.c -- an update policy from the operator's words; unknown words are refused by name. */
#include <string.h>

#include "controller/core/fleet.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

enum {
    DEFAULT_PERCENT = 25,
    DEFAULT_LOSS_PERCENT = 50,
    DEFAULT_PROGRESS_MS = 600000,
    DEFAULT_SWAP_MS = 60000,
    DEFAULT_DRAIN_MS = 30000,
    DEFAULT_BARRIER_MS = 60000,
    DEFAULT_HOOK_MS = 10000,
    DEADLINE_MS_MIN = 100,
    DEADLINE_MS_MAX = 24 * 3600 * 1000,
};

/* One key whose value is a word: its field, its words, its default. */
struct word_key {
    const char *field;
    const struct word_table *table;
    const char *word;
    uint32_t number; /* In: the default. Out: what was given. */
};

struct baton_status policy_parse_word(struct call *call, const char *field,
                                      const struct word_table *table, const char *word,
                                      uint32_t *inout)
{
    char allowed[BATON_TEXT_BYTES];
    if (text_is_empty(word) || words_find(table, word, inout)) {
        return baton_status_ok();
    }
    words_list(table, allowed, sizeof(allowed));
    return call_bad_field(call, field, "\"%.60s\" is not known here; use %s", word, allowed);
}

static struct baton_status parse_words(struct call *call, struct update_policy *out)
{
    const struct policy_spec *spec = &call->request->body.apply;
    struct word_key keys[] = {
        { "spec.update.trigger", &words_trigger, spec->trigger, POLICY_TRIGGER_ON_PUBLISH },
        { "spec.update.strategy", &words_strategy, spec->strategy, POLICY_STRATEGY_ROLLING },
        { "spec.update.inFlight", &words_in_flight, spec->in_flight, POLICY_IN_FLIGHT_KEEP },
        { "spec.update.kv", &words_kv, spec->kv, POLICY_KV_FLUSH },
        { "spec.update.arrivals", &words_arrivals, spec->arrivals, POLICY_ARRIVALS_HOLD },
        { "spec.update.drainExpiry", &words_drain_expiry, spec->drain_expiry,
          POLICY_DRAIN_EXPIRY_GIVE_UP },
        { "spec.update.nonFinite", &words_non_finite, spec->non_finite, POLICY_NON_FINITE_REFUSE },
        { "spec.update.swapMode", &words_swap_mode, spec->swap_mode, POLICY_MODE_PAUSE },
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct baton_status st =
            policy_parse_word(call, keys[i].field, keys[i].table, keys[i].word, &keys[i].number);
        if (!baton_ok(&st)) {
            return st;
        }
    }
    out->trigger = (enum policy_trigger)keys[0].number;
    out->strategy = (enum policy_strategy)keys[1].number;
    out->swap.in_flight = (enum policy_in_flight)keys[2].number;
    out->swap.kv = (enum policy_kv)keys[3].number;
    out->swap.arrivals = (enum policy_arrivals)keys[4].number;
    out->swap.drain_expiry = (enum policy_drain_expiry)keys[5].number;
    out->non_finite = (enum policy_non_finite)keys[6].number;
    out->swap.mode = (enum policy_mode)keys[7].number;
    return baton_status_ok();
}

/* Words that are right each, and not together. */
static struct baton_status check_together(struct call *call, const struct swap_policy *swap)
{
    bool keeps = swap->in_flight == POLICY_IN_FLIGHT_KEEP;
    bool may_keep = keeps || (swap->in_flight == POLICY_IN_FLIGHT_WAIT &&
                              swap->drain_expiry == POLICY_DRAIN_EXPIRY_KEEP);
    if (swap->kv == POLICY_KV_KEEP && !keeps) {
        return call_bad_field(call, "spec.update.kv",
                              "\"keep\" is possible with inFlight \"keep\" only");
    }
    if (swap->kv == POLICY_KV_SALT && may_keep) {
        return call_bad_field(call, "spec.update.kv",
                              "\"salt\" is not possible where requests in progress are kept: they "
                              "would go on with KV of the old version; use inFlight \"wait\" or "
                              "\"abort\" without drainExpiry \"keep\"");
    }
    if (swap->in_flight == POLICY_IN_FLIGHT_WAIT &&
        swap->drain_expiry != POLICY_DRAIN_EXPIRY_GIVE_UP &&
        swap->drain_deadline_ms >= swap->swap_deadline_ms) {
        return call_bad_field(call, "spec.update.drainDeadline",
                              "%llu ms must be below swapDeadline (%llu ms), or drainExpiry never "
                              "comes into its own",
                              (unsigned long long)swap->drain_deadline_ms,
                              (unsigned long long)swap->swap_deadline_ms);
    }
    return baton_status_ok();
}

/* Live means that nothing is shut and nothing is dropped; what asks for either contradicts it. */
static struct baton_status check_live(struct call *call, const struct update_policy *policy)
{
    static const char field[] = "spec.update.swapMode";
    const struct swap_policy *swap = &policy->swap;
    if (swap->mode != POLICY_MODE_LIVE) {
        return baton_status_ok();
    }
    if (swap->in_flight != POLICY_IN_FLIGHT_KEEP) {
        return call_bad_field(call, field, "\"live\" is possible with inFlight \"keep\" only");
    }
    if (swap->kv != POLICY_KV_KEEP) {
        return call_bad_field(call, field,
                              "\"live\" is possible with kv \"keep\" only: requests in progress go "
                              "on with the KV that they have");
    }
    if (policy->strategy == POLICY_STRATEGY_BARRIER) {
        return call_bad_field(call, field,
                              "\"live\" is not possible with strategy \"Barrier\", which shuts all "
                              "groups");
    }
    if (swap->hooks_count > 0) {
        return call_bad_field(call, field,
                              "\"live\" is not possible with hooks: no gate shuts, so there is "
                              "nothing that routers could drain");
    }
    return baton_status_ok();
}

bool policy_read_count(const char *text, size_t length, uint32_t *out)
{
    uint32_t value = 0;
    if (length == 0 || length > 6) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *out = value;
    return true;
}

bool policy_read_groups(const char *text, uint32_t *out, bool *out_is_percent)
{
    if (text_is_empty(text)) {
        return false;
    }
    size_t length = strlen(text);
    bool percent = text[length - 1] == '%';
    *out_is_percent = percent;
    return policy_read_count(text, percent ? length - 1 : length, out) && *out != 0 &&
           (!percent || *out <= 100);
}

/* A number of groups, or a percentage. */
struct share_key {
    const char *field;
    const char *text;
    uint32_t value; /* In: the default. Out: what was given. */
    bool is_percent;
};

static struct baton_status parse_share(struct call *call, struct share_key *key)
{
    const char *text = key->text;
    if (text_is_empty(text)) {
        return baton_status_ok();
    }
    if (!policy_read_groups(text, &key->value, &key->is_percent)) {
        return call_bad_field(call, key->field,
                              "\"%.40s\" is neither a number of groups (at least 1) nor a "
                              "percentage (1%% to 100%%)",
                              text);
    }
    return baton_status_ok();
}

static struct baton_status parse_shares(struct call *call, struct update_policy *out)
{
    const struct policy_spec *spec = &call->request->body.apply;
    struct share_key away = { "spec.update.maxUnavailable", spec->max_unavailable, DEFAULT_PERCENT,
                              true };
    struct share_key loss = { "spec.update.massLoss", spec->mass_loss, DEFAULT_LOSS_PERCENT, true };
    struct share_key quorum = { "spec.update.barrier.quorum", spec->barrier_quorum, 100, true };
    struct baton_status st = parse_share(call, &away);
    if (baton_ok(&st)) {
        st = parse_share(call, &loss);
    }
    if (baton_ok(&st)) {
        st = parse_share(call, &quorum);
    }
    out->max_unavailable = away.value;
    out->max_unavailable_is_percent = away.is_percent;
    out->mass_loss = loss.value;
    out->mass_loss_is_percent = loss.is_percent;
    out->barrier_quorum = quorum.value;
    out->barrier_quorum_is_percent = quorum.is_percent;
    return st;
}

static struct baton_status parse_deadline(struct call *call, const char *field, int64_t given_ms,
                                          uint64_t default_ms, uint64_t *out_ms)
{
    *out_ms = default_ms;
    if (given_ms == 0) {
        return baton_status_ok();
    }
    if (given_ms < DEADLINE_MS_MIN || given_ms > DEADLINE_MS_MAX) {
        return call_bad_field(call, field, "%lld ms is outside of 100 ms to 24 h",
                              (long long)given_ms);
    }
    *out_ms = (uint64_t)given_ms;
    return baton_status_ok();
}

static struct baton_status parse_deadlines(struct call *call, struct update_policy *out)
{
    const struct policy_spec *spec = &call->request->body.apply;
    struct baton_status st =
        parse_deadline(call, "spec.update.progressDeadline", spec->progress_deadline_ms,
                       DEFAULT_PROGRESS_MS, &out->progress_deadline_ms);
    if (baton_ok(&st)) {
        st = parse_deadline(call, "spec.update.swapDeadline", spec->swap_deadline_ms,
                            DEFAULT_SWAP_MS, &out->swap.swap_deadline_ms);
    }
    if (baton_ok(&st)) {
        st = parse_deadline(call, "spec.update.drainDeadline", spec->drain_deadline_ms,
                            DEFAULT_DRAIN_MS, &out->swap.drain_deadline_ms);
    }
    if (baton_ok(&st)) {
        st = parse_deadline(call, "spec.update.barrier.deadline", spec->barrier_deadline_ms,
                            DEFAULT_BARRIER_MS, &out->swap.barrier_deadline_ms);
    }
    return st;
}

/* True if more follows the scheme. */
static bool has_scheme(const char *url, const char *scheme)
{
    size_t length = strlen(scheme);
    return !text_is_empty(url) && strncmp(url, scheme, length) == 0 && url[length] != '\0';
}

static struct baton_status parse_hook(struct call *call, const struct policy_hook_spec *spec,
                                      struct hook_policy *out)
{
    static const char field[] = "spec.update.hooks.when";
    uint32_t when = 0;
    if (text_is_empty(spec->when)) {
        return call_bad_field(call, field, "use \"beforePause\" or \"afterProbe\"");
    }
    struct baton_status st = policy_parse_word(call, field, &words_hook_when, spec->when, &when);
    if (!baton_ok(&st)) {
        return st;
    }
    out->when = (enum policy_hook_when)when;
    size_t length = text_is_empty(spec->url) ? 0 : strlen(spec->url);
    if (length >= sizeof(out->url) ||
        !(has_scheme(spec->url, "http://") || has_scheme(spec->url, "https://"))) {
        return call_bad_field(call, "spec.update.hooks.url",
                              "\"%.60s\" is no \"http[s]://host:port/path\" of at most %zu "
                              "characters",
                              text_is_empty(spec->url) ? "" : spec->url, sizeof(out->url) - 1);
    }
    text_copy(out->url, sizeof(out->url), spec->url);
    return parse_deadline(call, "spec.update.hooks.deadline", spec->deadline_ms, DEFAULT_HOOK_MS,
                          &out->deadline_ms);
}

static struct baton_status parse_hooks(struct call *call, struct swap_policy *out)
{
    const struct policy_spec *spec = &call->request->body.apply;
    struct baton_status st = baton_status_ok();
    if (spec->hooks_count > BATON_HOOKS_MAX) {
        return call_bad_field(call, "spec.update.hooks", "%zu hooks; at most %d are possible",
                              spec->hooks_count, BATON_HOOKS_MAX);
    }
    for (size_t i = 0; baton_ok(&st) && i < spec->hooks_count; i++) {
        st = parse_hook(call, &spec->hooks[i], &out->hooks[i]);
        out->hooks_count++;
    }
    return st;
}

struct baton_status policy_parse(struct call *call, struct update_policy *out)
{
    struct update_policy policy = { 0 };
    struct baton_status st = parse_words(call, &policy);
    if (baton_ok(&st)) {
        st = parse_shares(call, &policy);
    }
    if (baton_ok(&st)) {
        st = parse_deadlines(call, &policy);
    }
    if (baton_ok(&st)) {
        st = policy_parse_stale(call, &policy);
    }
    if (baton_ok(&st)) {
        st = parse_hooks(call, &policy.swap);
    }
    if (baton_ok(&st)) {
        st = check_together(call, &policy.swap);
    }
    if (baton_ok(&st)) {
        st = check_live(call, &policy);
    }
    policy.swap.allow_recreate = call->request->body.apply.allow_recreate;
    if (baton_ok(&st)) {
        st = policy_parse_roll(call, &policy);
    }
    if (baton_ok(&st)) {
        *out = policy;
    }
    return st;
}

static bool hooks_equal(const struct swap_policy *a, const struct swap_policy *b)
{
    bool equal = a->hooks_count == b->hooks_count;
    for (uint32_t i = 0; equal && i < a->hooks_count; i++) {
        equal = a->hooks[i].when == b->hooks[i].when &&
                a->hooks[i].deadline_ms == b->hooks[i].deadline_ms &&
                text_equal(a->hooks[i].url, b->hooks[i].url);
    }
    return equal;
}

static bool swap_equal(const struct swap_policy *a, const struct swap_policy *b)
{
    return a->in_flight == b->in_flight && a->kv == b->kv && a->arrivals == b->arrivals &&
           a->swap_deadline_ms == b->swap_deadline_ms &&
           a->drain_deadline_ms == b->drain_deadline_ms && a->allow_recreate == b->allow_recreate &&
           a->barrier_deadline_ms == b->barrier_deadline_ms && a->drain_expiry == b->drain_expiry &&
           a->mode == b->mode && hooks_equal(a, b);
}

bool policy_equal(const struct update_policy *a, const struct update_policy *b)
{
    return a->trigger == b->trigger && a->strategy == b->strategy &&
           a->max_unavailable == b->max_unavailable &&
           a->max_unavailable_is_percent == b->max_unavailable_is_percent &&
           a->progress_deadline_ms == b->progress_deadline_ms && a->mass_loss == b->mass_loss &&
           a->mass_loss_is_percent == b->mass_loss_is_percent && a->non_finite == b->non_finite &&
           a->barrier_quorum == b->barrier_quorum &&
           a->barrier_quorum_is_percent == b->barrier_quorum_is_percent &&
           swap_equal(&a->swap, &b->swap) && policy_stale_equal(a, b) &&
           policy_roll_equal(&a->roll, &b->roll);
}

uint32_t policy_allowed(uint32_t count, bool is_percent, uint32_t groups_count)
{
    if (!is_percent) {
        return count;
    }
    uint32_t allowed = (uint32_t)((uint64_t)groups_count * count / 100);
    return allowed == 0 ? 1 : allowed;
}

uint32_t policy_max_unavailable(const struct update_policy *policy, uint32_t groups_count)
{
    return policy_allowed(policy->max_unavailable, policy->max_unavailable_is_percent,
                          groups_count);
}

uint32_t policy_barrier_quorum(const struct update_policy *policy, uint32_t groups_count)
{
    uint64_t wanted = policy->barrier_quorum;
    if (wanted == 0) {
        return groups_count;
    }
    if (policy->barrier_quorum_is_percent) {
        wanted = ((uint64_t)groups_count * wanted + 99) / 100;
    }
    return wanted < groups_count ? (uint32_t)wanted : groups_count;
}
