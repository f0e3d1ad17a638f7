/* engine_check_view.c -- what `engine check` found, as a table or JSON; see engine_check.h. */
#include "controller/cli/engine_check.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "controller/cli/yaml.h"

static const char *verdict_name(enum check_verdict verdict)
{
    switch (verdict) {
    case CHECK_OK: return "ok";
    case CHECK_WARN: return "warn";
    case CHECK_FAIL: break;
    }
    return "FAIL";
}

static const char *way_in_name(enum engine_way_in way_in)
{
    switch (way_in) {
    case ENGINE_WAY_IN_PLUGIN: return "plug-in";
    case ENGINE_WAY_IN_RELOAD: return "reload";
    case ENGINE_WAY_IN_NONE: break;
    }
    return "none";
}

static const char *gate_name(enum guard_gate gate)
{
    switch (gate) {
    case GUARD_GATE_OPEN: return "open";
    case GUARD_GATE_HOLD: return "hold";
    case GUARD_GATE_SHUT: break;
    }
    return "shut";
}

static const char *guard_name(const struct check *check)
{
    if (check->facts.boots == 0) {
        return check->routes_refuse ? "there, and does not take the token" : "none";
    }
    return check->facts.guarded ? "there, with this page" : "there, page not compared";
}

/* Nothing is known of an engine that refuses the token, or whose guard reads another page. */
static bool is_known(const struct check *check)
{
    return check->engine != NULL && check->facts.software[0] != '\0';
}

static json_t *facts_json(const struct check *check)
{
    const struct engine_facts *facts = &check->facts;
    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:b, s:b, s:s, s:s}",
                     "software", facts->software, "worldSize", (json_int_t)facts->world_size,
                     "worldSizeDataParallel", (json_int_t)facts->ranks_all, "wayIn",
                     way_in_name(facts->way_in), "wayInReason", facts->way_in_reason, "guard",
                     guard_name(check), "gate", gate_name(facts->gate), "guarded", facts->guarded,
                     "live", facts->live, "liveReason", facts->live_reason, "sleepMode",
                     facts->sleep_mode, "externalKv", facts->external_kv, "label", facts->label,
                     "residentDigest", facts->resident_digest);
}

static json_t *findings_json(const struct check *check)
{
    json_t *list = json_array();
    for (unsigned i = 0; i < check->findings_count; i++) {
        const struct check_finding *found = &check->findings[i];
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", found->name,
                                                    "verdict", verdict_name(found->verdict),
                                                    "message", found->message, "fix", found->fix));
    }
    return list;
}

static void print_structured(const struct check *check)
{
    json_t *attached = is_known(check) ? facts_json(check) : json_null();
    json_t *root =
        json_pack("{s:s, s:b, s:o, s:o}", "url", check->options.url, "holds", check_holds(check),
                  "engine", attached, "checks", findings_json(check));
    if (check->cli->output == CLI_OUTPUT_YAML) {
        cli_yaml_print(stdout, root);
    } else {
        (void)json_dumpf(root, stdout, JSON_INDENT(2));
        (void)putchar('\n');
    }
    json_decref(root);
}

static void row(const char *title, const char *text, const char *why)
{
    (void)printf("%-14s %s%s%s\n", title, text[0] != '\0' ? text : "-", why[0] != '\0' ? ": " : "",
                 why);
}

static void print_facts(const struct check *check)
{
    const struct engine_facts *facts = &check->facts;
    char ranks[BATON_NAME_BYTES];
    (void)snprintf(ranks, sizeof ranks, "%" PRIu32, facts->world_size);
    row("engine", check->options.url, "");
    row("software", facts->software, "");
    row("ranks", facts->world_size > 0 ? ranks : "-", "");
    row("data parallel", facts->ranks_all > facts->world_size ? "yes" : "no", "");
    row("way in", way_in_name(facts->way_in), facts->way_in_reason);
    row("guard", guard_name(check), "");
    row("gate", facts->boots != 0 ? gate_name(facts->gate) : "-", "");
    row("live swap", facts->live ? "can" : "cannot", facts->live_reason);
    row("sleep mode", facts->sleep_mode ? "on" : "off", "");
    row("external KV", facts->external_kv ? "yes" : "no", "");
    row("label", facts->label, "");
    row("verified", facts->resident_digest, "");
    (void)putchar('\n');
}

void check_print(const struct check *check)
{
    if (check->cli->output == CLI_OUTPUT_JSON || check->cli->output == CLI_OUTPUT_YAML) {
        print_structured(check);
        return;
    }
    if (is_known(check) && !check->cli->quiet) {
        print_facts(check);
    }
    for (unsigned i = 0; i < check->findings_count; i++) {
        const struct check_finding *found = &check->findings[i];
        if (check->cli->quiet && found->verdict == CHECK_OK) {
            continue;
        }
        (void)printf("%-5s %-12s %s\n", verdict_name(found->verdict), found->name, found->message);
        if (found->fix[0] != '\0') {
            (void)printf("%-5s %-12s fix: %s\n", "", "", found->fix);
        }
    }
}
