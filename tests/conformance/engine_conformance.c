/* engine_conformance.c -- does a running engine keep deploy/docs/engine-contract.md?
 *
 * usage: engine_conformance --url URL --landing-a DIR --landing-b DIR [--page FILE] [--token FILE]
 *                           [--seconds N]
 *
 * The engine must have been started on version A, idle.  It is left on version A, resumed, its gate
 * open.  Prints a line a check; exit 0 if all hold.  For vLLM with the plug-in, and for miniengine. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"
#include "tests/conformance/engine_rig.h"

enum { SECONDS_DEFAULT = 60 };

static struct rig rig;

/* --- the scenarios, in order ------------------------------------------------------------------- */

static void attaches(void)
{
    struct engine_gate_state state;
    const struct engine_facts *facts = &rig.facts;
    bool guarded = rig.options.guard_page[0] != '\0';
    rig_check(facts->way_in == ENGINE_WAY_IN_PLUGIN, "way in is the plug-in", "%s",
              facts->way_in_reason);
    rig_check(facts->guarded == guarded, "guard is the one of our page", "%s",
              facts->way_in_reason);
    rig_check(!guarded || facts->gate == GUARD_GATE_SHUT, "boots shut", "gate %d", facts->gate);
    rig_check(facts->world_size > 0 && facts->software[0] != '\0' && facts->incarnation[0] != '\0',
              "facts are complete", "%u ranks, version \"%s\", incarnation \"%s\"",
              facts->world_size, facts->software, facts->incarnation);
    struct baton_status st = rig.adapter->health(rig.engine, rig_deadline(&rig), &state);
    rig_check(baton_ok(&st) && strcmp(state.incarnation, facts->incarnation) == 0,
              "health names the incarnation", "%s", st.message);
}

static void pauses(void)
{
    bool guarded = rig.options.guard_page[0] != '\0';
    struct baton_status st =
        rig.adapter->pause(rig.engine, ENGINE_IN_FLIGHT_WAIT, true, rig_deadline(&rig));
    rig_check_ok(&st, "pause wait");
    st = rig.adapter->pause(rig.engine, ENGINE_IN_FLIGHT_KEEP, true, rig_deadline(&rig));
    rig_check_ok(&st, "pause keep when paused");
    st = rig.adapter->pause(rig.engine, ENGINE_IN_FLIGHT_WAIT, true, rig_deadline(&rig));
    rig_check(baton_ok(&st) == guarded, "a second wait needs the guard's count", "%s", st.message);
    st = rig.adapter->pause(rig.engine, ENGINE_IN_FLIGHT_ABORT, false, rig_deadline(&rig));
    rig_check_ok(&st, "pause abort when paused");
    st = rig.adapter->resume(rig.engine, rig_deadline(&rig));
    rig_check_ok(&st, "resume");
    st = rig.adapter->resume(rig.engine, rig_deadline(&rig));
    rig_check_ok(&st, "resume twice");
}

static void swaps(double *a, double *b)
{
    struct engine_update update = { 0 };
    double again = 0;
    rig_probe(&rig, "probe on A", a);
    rig_swap(&rig, &rig.b, &update);
    rig_check(update.ok && update.answered && update.in_step &&
                  update.level >= ENGINE_LEVEL_COPIED && update.load_ns > 0,
              "A to B is verified in the engine", "level %d, code %s", update.level,
              update.error_code);
    rig_probe(&rig, "probe on B", b);
    rig_check(!rig_same(*a, *b), "A and B differ", "%f, %f", *a, *b);
    rig_swap(&rig, &rig.a, &update);
    rig_check(update.ok, "B to A is verified in the engine", "code %s", update.error_code);
    rig_probe(&rig, "probe on A again", &again);
    rig_check(rig_same(*a, again), "A is A again", "%f, %f", *a, again);
}

static void readback_is(const struct rig_version *version, bool wanted, const char *what)
{
    struct engine_update update = { 0 };
    struct baton_status st = rig.adapter->readback(rig.engine, version->landing, version->digest,
                                                   rig_deadline(&rig), &update);
    rig_check(update.answered && update.in_step && update.ok == wanted && baton_ok(&st) == wanted,
              what, "%s (%s)", st.message, update.error_code);
}

static void reads_back(void)
{
    readback_is(&rig.a, true, "read-back finds A");
    readback_is(&rig.b, false, "read-back does not find B");
}

static void labels(void)
{
    struct engine_facts facts;
    struct baton_status st = rig.adapter->label(rig.engine, "m@1", rig_deadline(&rig));
    rig_check_ok(&st, "label");
    st = rig.adapter->attach(rig.engine, rig_deadline(&rig), &facts);
    rig_check(baton_ok(&st) && strcmp(facts.label, "m@1") == 0, "label is attached to", "%s",
              facts.label);
    rig_check(strcmp(facts.resident_digest, rig.a.digest) == 0 &&
                  facts.level >= ENGINE_LEVEL_COPIED && !facts.session_open && !facts.paused,
              "state is attached to", "resident %s, level %d, session %d, paused %d",
              facts.resident_digest, facts.level, facts.session_open, facts.paused);
    rig_check(memcmp(&facts.fence, &rig.fence, sizeof facts.fence) == 0, "fence is attached to",
              "step %llu", (unsigned long long)facts.fence.step);
}

/* An update that must be refused, with the weights left as they are.  It comes 'below' the fence; two are
 * raised for it, so that no earlier update had either. */
static void refuses(const struct rig_version *version, uint64_t below, const char *code, double a)
{
    rig_fence(&rig);
    rig_fence(&rig);
    struct engine_fence fence = rig.fence;
    fence.step -= below;
    char what[128];
    double now = 0;
    struct engine_update update = { 0 };
    struct baton_status st =
        rig.adapter->pause(rig.engine, ENGINE_IN_FLIGHT_KEEP, true, rig_deadline(&rig));
    st = rig.adapter->update(rig.engine, version->landing, version->digest, &fence,
                             rig_deadline(&rig), &update);
    (void)snprintf(what, sizeof what, "%s: refused and told", code);
    rig_check(!baton_ok(&st) && !update.ok && strcmp(update.error_code, code) == 0, what, "%s: %s",
              update.error_code, st.message);
    (void)snprintf(what, sizeof what, "%s: answered, in step, old weights", code);
    rig_check(update.answered && update.in_step && update.restored, what, "%d %d %d",
              update.answered, update.in_step, update.restored);
    st = rig.adapter->resume(rig.engine, rig_deadline(&rig));
    rig_probe(&rig, "probe after a refusal", &now);
    (void)snprintf(what, sizeof what, "%s: still A", code);
    rig_check(rig_same(a, now), what, "%f, %f", a, now);
}

static void refusals(double a)
{
    struct rig_version mixed = rig.b;
    struct rig_version missing = rig.b;
    refuses(&rig.b, 1, "FENCED", a);
    (void)baton_text_copy(mixed.digest, sizeof mixed.digest, rig.a.digest);
    refuses(&mixed, 0, "DIGEST_MISMATCH", a);
    (void)snprintf(missing.landing, sizeof missing.landing, "%.400s-is-not-there", rig.b.landing);
    refuses(&missing, 0, "LANDING_UNREADABLE", a);
}

/* A session that an earlier life left open is no obstacle; nor is a second attach. */
static void recovers(double b)
{
    struct engine_update update = { 0 };
    double now = 0;
    rig_swap(&rig, &rig.b, &update);
    rig_probe(&rig, "probe on B at last", &now);
    rig_check(update.ok && rig_same(b, now), "after all refusals B goes in", "%f, %f", b, now);
    rig_swap(&rig, &rig.a, &update);
    rig_check(update.ok, "and A again", "%s", update.error_code);
}

/* The one call, under the next step of the fence that 'prepared' was prepared under. */
static struct baton_status live_to(const struct rig_version *version, struct engine_update *update)
{
    rig.fence.step++;
    return rig.adapter->swap_live(rig.engine, version->digest, &rig.fence, rig_deadline(&rig),
                                  update);
}

static void live_swaps(const struct rig_version *version, double before, double after,
                       const char *what)
{
    struct engine_update update = { 0 };
    struct engine_facts facts;
    double now = 0;
    struct baton_status st = rig.adapter->prepare(rig.engine, version->landing, version->digest,
                                                  &rig.fence, rig_deadline(&rig), &update);
    rig_check(baton_ok(&st) && update.ok, what, "prepare: %s", st.message);
    rig_probe(&rig, "probe with a version prepared", &now);
    rig_check(rig_same(before, now), "what is prepared is not served", "%f, %f", before, now);
    st = live_to(version, &update);
    rig_check(baton_ok(&st) && update.ok && update.level == ENGINE_LEVEL_RESIDENT, what, "live: %s",
              st.message);
    rig_probe(&rig, "probe after a live swap", &now);
    rig_check(rig_same(after, now), "a live swap serves at once", "%f, %f", after, now);
    st = rig.adapter->attach(rig.engine, rig_deadline(&rig), &facts);
    rig_check(baton_ok(&st) && !facts.paused && !facts.session_open &&
                  strcmp(facts.resident_digest, version->digest) == 0,
              "it leaves no pause and no session", "%s", facts.resident_digest);
    readback_is(version, true, "read-back after a live swap");
}

/* What was not prepared under this ticket, or comes below the fence, does nothing at all. */
static void live_refusals(double a)
{
    struct engine_update update = { 0 };
    double now = 0;
    struct baton_status st = live_to(&rig.b, &update);
    rig_check(!baton_ok(&st) && !update.ok && update.answered && update.restored,
              "a live swap without a preparation is refused", "%s", st.message);
    st = rig.adapter->prepare(rig.engine, rig.b.landing, rig.b.digest, &rig.fence,
                              rig_deadline(&rig), &update);
    rig_check_ok(&st, "prepare");
    rig_fence(&rig);
    rig.fence.step -= 2;
    st = live_to(&rig.b, &update);
    rig.fence.step++;
    rig_check(!baton_ok(&st) && !update.ok && update.answered, "a late live swap is void", "%s",
              st.message);
    st = rig.adapter->prepare(rig.engine, rig.b.landing, rig.a.digest, &rig.fence,
                              rig_deadline(&rig), &update);
    rig_check(!baton_ok(&st) && !update.ok && strcmp(update.error_code, "DIGEST_MISMATCH") == 0,
              "what is not whole is not prepared", "%s", st.message);
    rig_probe(&rig, "probe after all that", &now);
    rig_check(rig_same(a, now), "still A", "%f, %f", a, now);
}

/* An engine that says that it can swap live can; another one says why not. */
static void lives(double a, double b)
{
    rig_check(rig.facts.live_reason[0] != '\0', "live: says why or why not", "%d", rig.facts.live);
    if (!rig.facts.live) {
        return;
    }
    live_swaps(&rig.b, a, b, "swaps live to B");
    live_swaps(&rig.a, b, a, "and back to A");
    live_refusals(a);
}

static void gate_is(enum guard_gate gate, const char *what)
{
    struct engine_gate_state state;
    struct engine_gate_order order = {
        .gate = gate, .version = 7, .boots = rig.facts.boots, .hold_max = 16, .hold_ms = 1000
    };
    struct baton_status st = rig.adapter->set_gate(rig.engine, &order, rig_deadline(&rig), &state);
    rig_check_ok(&st, what);
    struct engine_probe probe;
    st = rig.adapter->probe(rig.engine, true, rig_deadline(&rig), &probe);
    rig_check(baton_ok(&st) && probe.version == 7, "answers carry the version", "%s, version %llu",
              st.message, (unsigned long long)probe.version);
}

static void gates(void)
{
    struct engine_gate_state state;
    struct engine_gate_order order = { .gate = GUARD_GATE_OPEN,
                                       .version = 7,
                                       .boots = rig.facts.boots + 1 };
    if (rig.options.guard_page[0] == '\0') {
        return;
    }
    struct baton_status st = rig.adapter->set_gate(rig.engine, &order, rig_deadline(&rig), &state);
    rig_check(st.code == BATON_ABORTED && state.gate == GUARD_GATE_SHUT,
              "a gate opened for another incarnation opens nothing", "%s, gate %d", st.message,
              state.gate);
    gate_is(GUARD_GATE_HOLD, "gate holds");
    gate_is(GUARD_GATE_SHUT, "gate shuts");
    gate_is(GUARD_GATE_OPEN, "gate opens");
}

/* --- command line ------------------------------------------------------------------------------ */

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    switch (key) {
    case 'u': (void)baton_text_copy(rig.options.url, sizeof rig.options.url, text); break;
    case 'p':
        (void)baton_text_copy(rig.options.guard_page, sizeof rig.options.guard_page, text);
        break;
    case 't':
        (void)baton_text_copy(rig.options.token_file, sizeof rig.options.token_file, text);
        break;
    case 'a': (void)rig_version_load(&rig.a, text); break;
    case 'b': (void)rig_version_load(&rig.b, text); break;
    case 's': rig.call_ns = strtoul(text, NULL, 10) * BATON_NS_PER_S; break;
    case ARGP_KEY_END:
        if (rig.options.url[0] == '\0' || rig.a.digest[0] == '\0' || rig.b.digest[0] == '\0') {
            argp_error(state, "--url, --landing-a and --landing-b are needed");
        }
        break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void options_parse(int argc, char **argv)
{
    static const struct argp_option TABLE[] = {
        { "url", 'u', "URL", 0, "Engine's address", 0 },
        { "page", 'p', "FILE", 0, "Guard page", 0 },
        { "token", 't', "FILE", 0, "Token file", 0 },
        { "landing-a", 'a', "DIR", 0, "Landing of the version that the engine was started on", 0 },
        { "landing-b", 'b', "DIR", 0, "Landing of another version", 0 },
        { "seconds", 's', "N", 0, "Deadline of one operation", 0 },
        { NULL, 0, NULL, 0, NULL, 0 },
    };
    static const struct argp PARSER = { .options = TABLE,
                                        .parser = parse_option,
                                        .doc = "Does a running engine keep the engine contract?" };
    rig.call_ns = SECONDS_DEFAULT * BATON_NS_PER_S;
    (void)snprintf(rig.options.name, sizeof rig.options.name, "engine");
    (void)argp_parse(&PARSER, argc, argv, 0, NULL, NULL);
}

int main(int argc, char **argv)
{
    double a = 0;
    double b = 0;
    options_parse(argc, argv);
    if (rig_open(&rig)) {
        attaches();
        pauses();
        swaps(&a, &b);
        reads_back();
        labels();
        refusals(a);
        recovers(b);
        lives(a, b);
        gates();
    }
    rig_close(&rig);
    (void)printf("%u failed\n", rig_failures());
    return rig_failures() == 0 ? 0 : 1;
}
