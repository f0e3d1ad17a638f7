/* engine_check.c -- batonctl engine check URL: what a new user runs first; see engine_check.h. */
#include "controller/cli/engine_check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/engine/vllm_versions.h"
#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/http/http.h"

enum { KEY_GUARD_PAGE = 0x2700, KEY_WEIGHTS, KEY_NO_WEIGHTS, KEY_SELF_UPDATE, KEY_SERVED };

/* Unless --timeout says another: of one call, and of one that moves or reads all weights. */
static const uint64_t soon_ns = 30 * BATON_NS_PER_S;
static const uint64_t late_ns = 600 * BATON_NS_PER_S;
/* Two runs on the same weights differ less, whatever was batched with them. */
static const double output_tolerance = 0.05;

const struct argp_option cli_engine_options[] = {
    { "guard-page", KEY_GUARD_PAGE, "FILE", 0, "The engine's BATON_GUARD_PAGE (agent: guardPage)",
      0 },
    { "weights", KEY_WEIGHTS, "DIR", 0,
      "Compare the resident weights with this checkpoint or landing (default: what the engine says "
      "that it was started on); changes nothing",
      0 },
    { "no-weights", KEY_NO_WEIGHTS, NULL, 0, "Do not compare weights: it reads all of them", 0 },
    { "self-update", KEY_SELF_UPDATE, "DIR", 0,
      "Also pause it, load these, the same weights, verify, resume: generation stops for that long",
      0 },
    { "served-model", KEY_SERVED, "NAME", 0, "For the probes (default: the first of /v1/models)",
      0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static struct {
    const char *guard_page;
    const char *weights;
    const char *self_update;
    const char *served;
    bool weights_skipped;
} chosen;

bool cli_engine_take(int key, const char *argument)
{
    switch (key) {
    case KEY_GUARD_PAGE: chosen.guard_page = argument; break;
    case KEY_WEIGHTS: chosen.weights = argument; break;
    case KEY_NO_WEIGHTS: chosen.weights_skipped = true; break;
    case KEY_SELF_UPDATE: chosen.self_update = argument; break;
    case KEY_SERVED: chosen.served = argument; break;
    default: return false;
    }
    return true;
}

/* --- findings --- */

void check_add(struct check *check, const char *name, enum check_verdict verdict, const char *fix,
               const char *fmt, ...)
{
    va_list args;
    if (check->findings_count == CHECK_FINDINGS_MAX) {
        return; /* More than all steps together add. */
    }
    struct check_finding *found = &check->findings[check->findings_count++];
    found->name = name;
    found->verdict = verdict;
    (void)snprintf(found->fix, sizeof found->fix, "%s", fix != NULL ? fix : "");
    va_start(args, fmt);
    (void)vsnprintf(found->message, sizeof found->message, fmt, args);
    va_end(args);
}

void check_add_failed(struct check *check, const char *name, const struct baton_status *st,
                      const char *fix)
{
    check_add(check, name, CHECK_FAIL, st->hint[0] != '\0' ? st->hint : fix, "%s", st->message);
}

bool check_has_failed(const struct check *check, const char *name)
{
    for (unsigned i = 0; i < check->findings_count; i++) {
        const struct check_finding *found = &check->findings[i];
        if (found->verdict == CHECK_FAIL && strcmp(found->name, name) == 0) {
            return true;
        }
    }
    return false;
}

bool check_holds(const struct check *check)
{
    for (unsigned i = 0; i < check->findings_count; i++) {
        if (check->findings[i].verdict == CHECK_FAIL) {
            return false;
        }
    }
    return true;
}

static uint64_t deadline(const struct check *check, uint64_t otherwise_ns)
{
    uint64_t ns = check->cli->timeout_ns != 0 ? check->cli->timeout_ns : otherwise_ns;
    uint64_t now = baton_clock_monotonic_ns();
    return ns < UINT64_MAX - now ? now + ns : UINT64_MAX;
}

uint64_t check_soon(const struct check *check)
{
    return deadline(check, soon_ns);
}

uint64_t check_late(const struct check *check)
{
    return deadline(check, late_ns);
}

/* --- attach --- */

static void check_way_in(struct check *check)
{
    const struct engine_facts *facts = &check->facts;
    static const char fix[] = "install the package into its Python environment and start it with "
                              "--weight-transfer-config '{\"backend\":\"baton\"}': "
                              "deploy/docs/vllm.md";
    switch (facts->way_in) {
    case ENGINE_WAY_IN_PLUGIN:
        check_add(check, "way in", CHECK_OK, NULL, "plug-in: %s", facts->way_in_reason);
        break;
    case ENGINE_WAY_IN_RELOAD:
        check_add(check, "way in", CHECK_WARN, fix, "%s; nothing is read back, level landed",
                  facts->way_in_reason);
        break;
    case ENGINE_WAY_IN_NONE:
        check_add(check, "way in", CHECK_FAIL, "start it as deploy/docs/vllm.md says", "none: %s",
                  facts->way_in_reason);
        break;
    }
    if (facts->session_open) {
        check_add(check, "session", CHECK_WARN, "let its agent finish, or restart the engine",
                  "a weight update is open");
    }
}

/* What was started in a way that works today and will not at the first swap. */
static void check_flags(struct check *check)
{
    const struct engine_facts *facts = &check->facts;
    unsigned long minor = vllm_minor(facts->software);
    if (minor > VLLM_MINOR_NEWEST) {
        check_add(check, "software", CHECK_WARN,
                  "try --self-update on an engine that nobody uses; deploy/docs/vllm.md, Versions",
                  "vLLM %s is newer than 0.%d, the newest that this batonctl knows",
                  facts->software, VLLM_MINOR_NEWEST);
    }
    if (facts->compiled_on_cpu) {
        check_add(check, "flags", CHECK_WARN, "start it with --enforce-eager",
                  "on a CPU compiled code may hold the old weights after a swap");
    }
    if (facts->named_by_path) {
        check_add(check, "name", CHECK_WARN, "start it with --served-model-name NAME",
                  "clients must call the model by its directory, which another version's is not");
    }
}

static void check_attach(struct check *check)
{
    struct baton_status st = check->adapter->open(&check->options, &check->engine);
    if (!baton_ok(&st)) {
        check_add_failed(check, "attach", &st, NULL);
        return;
    }
    st = check->adapter->attach(check->engine, check_soon(check), &check->facts);
    if (!baton_ok(&st)) {
        check_add_failed(check, "attach", &st, "is that an engine? deploy/docs/vllm.md");
        check->adapter->close(check->engine);
        check->engine = NULL;
        return;
    }
    check_guard_found(check);
    if (!check->speaks || (check->options.guard_page[0] != '\0' && check->facts.boots != 0 &&
                           !check->facts.guarded)) {
        check_add(check, "way in", CHECK_WARN, NULL, "not looked for: see above");
    } else {
        check_way_in(check);
        check_flags(check);
    }
}

/* --- probe --- */

bool check_same_output(const struct engine_probe *a, const struct engine_probe *b)
{
    return a->tokens_count == b->tokens_count && strcmp(a->text, b->text) == 0 &&
           fabs(a->logprob_sum - b->logprob_sum) <= output_tolerance;
}

void check_probe(struct check *check)
{
    struct engine_probe again;
    if (!check->speaks) {
        return;
    }
    if (check->facts.paused || check->facts.sleeping) {
        check_add(
            check, "probe", CHECK_FAIL, check->facts.paused ? "POST /resume" : "POST /wake_up",
            "the engine is %s: it cannot generate", check->facts.paused ? "paused" : "asleep");
        return;
    }
    struct baton_status st =
        check->adapter->probe(check->engine, true, check_soon(check), &check->before);
    if (baton_ok(&st)) {
        /* The second run finds what the first one left in the prefix cache. */
        st = check->adapter->probe(check->engine, true, check_soon(check), &again);
    }
    if (!baton_ok(&st)) {
        check_add_failed(check, "probe", &st, "see the engine's log");
    } else if (!check_same_output(&check->before, &again)) {
        check_add(check, "probe", CHECK_WARN, "ask again while nothing else runs on it",
                  "the same prompt gave \"%.60s\" (log-probability %.4f), then \"%.60s\" (%.4f)",
                  check->before.text, check->before.logprob_sum, again.text, again.logprob_sum);
    } else {
        check->probed = true;
        check_add(check, "probe", CHECK_OK, NULL,
                  "%u tokens, twice the same; and a long prompt, with the prefix cache and without",
                  check->before.tokens_count);
    }
}

/* --- the command --- */

static bool take_path(const char *option, const char *text, char *out, size_t out_bytes)
{
    if (text == NULL || baton_text_copy(out, out_bytes, text)) {
        return true;
    }
    (void)cli_usage("%s: longer than %zu bytes", option, out_bytes - 1);
    return false;
}

static bool take_options(const struct cli *cli, struct engine_options *out)
{
    (void)snprintf(out->name, sizeof out->name, "engine");
    return take_path("URL", cli->words[1], out->url, sizeof out->url) &&
           take_path("--guard-page", chosen.guard_page, out->guard_page, sizeof out->guard_page) &&
           take_path("--token-file", cli->token_file, out->token_file, sizeof out->token_file) &&
           take_path("--served-model", chosen.served, out->served_model, sizeof out->served_model);
}

static bool is_url(const char *url)
{
    struct http *http = NULL;
    struct baton_status st = http_open(&(struct http_options){ .url = url }, &http);
    http_close(http);
    if (!baton_ok(&st)) {
        (void)cli_usage("%s", st.message);
    }
    return baton_ok(&st);
}

static enum cli_exit unreached(struct check *check, const struct baton_status *st)
{
    check_add_failed(check, "reach", st,
                     "run this on the engine's machine, once it says that it listens");
    if (st->code == BATON_DEADLINE_EXCEEDED) {
        return CLI_EXIT_TIMEOUT;
    }
    return st->code == BATON_UNAVAILABLE ? CLI_EXIT_UNREACHABLE : CLI_EXIT_FAILED;
}

static enum cli_exit run_steps(struct check *check)
{
    check_guard_files(check);
    struct baton_status st = check_guard_routes(check);
    if (!baton_ok(&st)) {
        return unreached(check, &st);
    }
    check_attach(check);
    if (check->engine != NULL) {
        check_probe(check);
        check_weights(check);
        check_self_update(check);
    }
    return check_holds(check) ? CLI_EXIT_OK : CLI_EXIT_FINDINGS;
}

enum cli_exit cli_run_engine(struct cli *cli)
{
    static struct check check; /* Too large for a stack. */
    check = (struct check){ .cli = cli,
                            .weights_dir = chosen.weights,
                            .weights_skipped = chosen.weights_skipped,
                            .self_update = chosen.self_update,
                            .adapter = engine_adapter_find("vllm") };
    if (cli->words_count != 2 || strcmp(cli->words[0], "check") != 0) {
        return cli_usage("engine check URL");
    }
    if (!take_options(cli, &check.options) || !is_url(check.options.url)) {
        return CLI_EXIT_USAGE;
    }
    enum cli_exit code = run_steps(&check);
    check_print(&check);
    check.adapter->close(check.engine);
    return code;
}
