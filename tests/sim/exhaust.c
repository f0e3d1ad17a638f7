/* exhaust.c -- all small worlds: one harm at each place where it can be.
 *
 * For each verb the world is run once unharmed, to count its boundaries, messages and writes; then
 * once for each of them and each harm.  Nothing here is drawn at random. */
#include <string.h>

#include "tests/sim/sim.h"
#include "tests/sim/verbs.h"

static const char *const harm_names[HARM_KINDS] = {
    [HARM_NONE] = "no harm",
    [HARM_NODE_DIES] = "the agent dies at its boundary",
    [HARM_HEAD_DIES] = "the controller dies at its boundary",
    [HARM_PACKET_LOST] = "a message is lost:",
    [HARM_PACKET_TWICE] = "a message arrives twice:",
    [HARM_STORE_FAILS] = "the store refuses write",
    [HARM_STORE_LOST] = "the store's answer is lost of write",
};

static bool run_one(struct world *world, const struct script *script, FILE *out)
{
    const char *broken = world_run_script(world, script, NULL);
    if (broken != NULL) {
        fprintf(out, "small world of policy %u with %s, %s %u: %s: %s\n", script->policy,
                verbs_at(script->verb)->name, harm_names[script->harm], script->at, broken,
                world->why);
    }
    bool missed = broken == NULL && script->harm != HARM_NONE && !world->struck;
    if (missed) {
        fprintf(out, "small world of policy %u with %s, %s %u: that never happened\n",
                script->policy, verbs_at(script->verb)->name, harm_names[script->harm], script->at);
    }
    return broken == NULL && !missed;
}

/* Places where each harm can be, counted in an unharmed run. */
static bool count_places(struct world *world, const struct script *script,
                         uint32_t places[HARM_KINDS], FILE *out)
{
    bool ok = run_one(world, script, out);
    places[HARM_NONE] = 1;
    places[HARM_NODE_DIES] = world->nodes[0].boundaries;
    places[HARM_HEAD_DIES] = world->heads[0].boundaries;
    places[HARM_PACKET_LOST] = world->packets;
    places[HARM_PACKET_TWICE] = world->packets;
    places[HARM_STORE_FAILS] = world->writes;
    places[HARM_STORE_LOST] = world->writes;
    return ok;
}

/* Every harm at every place of one small world. */
static uint32_t exhaust_one(struct world *world, struct script script, const struct share *share,
                            uint64_t *runs)
{
    uint32_t places[HARM_KINDS];
    uint32_t failed = !count_places(world, &script, places, share->out);
    uint64_t number = 0;
    for (script.harm = HARM_NODE_DIES; script.harm < HARM_KINDS; script.harm++) {
        for (script.at = 1; script.at <= places[script.harm]; script.at++) {
            if (number++ % share->jobs == share->job) {
                ++*runs;
                failed += !run_one(world, &script, share->out);
            }
        }
    }
    return failed;
}

uint32_t predict(struct world *world, FILE *out)
{
    static const struct {
        const char *who;
        enum harm harm;
    } deaths[] = { { "agent", HARM_NODE_DIES }, { "controller", HARM_HEAD_DIES } };
    struct script script = { .policy = PEOPLE_ROLLING };
    uint32_t places[HARM_KINDS];
    while (strcmp(verbs_at(script.verb)->name, "wait") != 0) { /* It changes nothing. */
        script.verb++;
    }
    uint32_t failed = !count_places(world, &script, places, out);
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++) {
        uint32_t outcomes = 0;
        script.harm = deaths[i].harm;
        for (script.at = 1; script.at <= places[script.harm]; script.at++) {
            failed += !run_one(world, &script, out);
            outcomes |= world->outcomes;
        }
        /* Design 2: it authorises, and fails no swap by its end. */
        bool fails = (outcomes & ~(UINT32_C(1) << SWAP_OUTCOME_COMMITTED |
                                   UINT32_C(1) << SWAP_OUTCOME_REFUSED)) != 0;
        failed += fails && script.harm == HARM_HEAD_DIES;
        fprintf(out, "%s", deaths[i].who);
        for (uint32_t outcome = 0; outcome < words_swap_outcome.count; outcome++) {
            if ((outcomes >> outcome & 1U) != 0) {
                fprintf(out, " %s", words_get(&words_swap_outcome, outcome));
            }
        }
        fprintf(out, "\n");
    }
    return failed;
}

uint32_t exhaust(struct world *world, const struct share *share, uint64_t *runs)
{
    static const uint32_t policies[] = { PEOPLE_ROLLING, PEOPLE_BARRIER, PEOPLE_LIVE };
    uint32_t failed = 0;
    for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
        for (uint32_t verb = 0; verb < verbs_count(); verb++) {
            failed += exhaust_one(world, (struct script){ .verb = verb, .policy = policies[p] },
                                  share, runs);
        }
    }
    return failed;
}
