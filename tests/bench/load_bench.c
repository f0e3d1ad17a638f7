/* load_bench.c -- one real controller under the load of a large fleet, over real gRPC on the loopback.
 *
 * usage: load_bench [--agents=N,N] [--engines=N] [--ranks=N] [--rounds=N] [--watchers=N] [--idle=S] ...   see --help
 *
 * Each agent has one connection, one session and one group of some engines; see load_agent.h.  Figures, one JSON object a line;
 * README.md says how to read them. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "tests/bench/load_controller.h"
#include "tests/bench/load_fleet.h"
#include "tests/bench/load_must.h"
#include "tests/bench/load_samples.h"
#include "tests/bench/load_store.h"
#include "tests/bench/ratio.h"

enum { SIZES_MAX = 8, SUMMARIES = 400, COMMITS = 300, WAIT_S = 180, LATENCY_AGENTS = 256 };

struct options {
    uint32_t sizes[SIZES_MAX];
    uint32_t sizes_count;
    uint32_t rounds;
    uint32_t watchers;
    uint32_t idle_s;
    struct load_shape shape;
};

struct bench {
    const struct options *options;
    uint32_t agents;
    struct rpc_client *client;
    struct load_fleet *fleet;
    uint64_t seq;
    uint64_t published_ns; /* When the last Publish was called. */
    double *commits;
    int missed;
};

/* --- lines --- */

/* 'target' 0: none at this size. */
static void print(struct bench *bench, const char *name, const char *unit, double value,
                  double target)
{
    bool met = target == 0 || value <= target;
    (void)printf("{\"name\": \"load_%s\", \"agents\": %u, \"value\": %.3f, \"unit\": \"%s\", "
                 "\"target\": %.0f, \"ratio\": %.3f, \"met\": %s, \"load\": %.2f}\n",
                 name, bench->agents, value, unit, target, target == 0 ? 0 : value / target,
                 met ? "true" : "false", samples_machine_load());
    (void)fflush(stdout);
    bench->missed += !met;
}

/* 'samples' in seconds, shown in ms beside the same percentiles of 'anchors'; the target is the 99th percentile's. */
static void print_spread(struct bench *bench, const char *name, struct samples *samples,
                         const char *anchor, struct samples *anchors, double target_ms)
{
    char full[64];
    char agents[32];
    struct samples_line line = { full, agents, samples, anchor, anchors, target_ms };
    (void)snprintf(full, sizeof(full), "load_%s", name);
    (void)snprintf(agents, sizeof(agents), "\"agents\": %u, ", bench->agents);
    bench->missed += !samples_print(&line);
}

static struct samples commits_of(const struct bench *bench)
{
    return (struct samples){ .values = bench->commits, .count = COMMITS };
}

/* --- waiting --- */

static void wait_serving(struct bench *bench)
{
    uint64_t until_ns = baton_clock_monotonic_ns() + WAIT_S * BATON_NS_PER_S;
    while (load_fleet_serving(bench->fleet, bench->seq) < bench->agents) {
        load_must(baton_clock_monotonic_ns() < until_ns, "a roll did not end");
        baton_clock_sleep_ns(2 * BATON_NS_PER_MS);
    }
}

static void wait_welcomed(struct bench *bench, uint64_t welcomes)
{
    uint64_t until_ns = baton_clock_monotonic_ns() + WAIT_S * BATON_NS_PER_S;
    while (load_fleet_welcomed(bench->fleet, welcomes) < bench->agents) {
        load_must(baton_clock_monotonic_ns() < until_ns, "an agent got no session");
        baton_clock_sleep_ns(2 * BATON_NS_PER_MS);
    }
}

/* Publishes a version; the roll runs. */
static void publish(struct bench *bench)
{
    char uid[BATON_UID_TEXT_BYTES];
    load_call_prepare(bench->client, bench->seq + 1, uid);
    bench->published_ns = baton_clock_monotonic_ns();
    bench->seq = load_call_publish(bench->client, uid);
}

static void roll(struct bench *bench)
{
    publish(bench);
    wait_serving(bench);
}

/* --- figures --- */

static void measure_idle(struct bench *bench, double target)
{
    double began_s = ratio_now_s();
    double cpu_s = load_controller_cpu_s();
    baton_clock_sleep_ns(bench->options->idle_s * BATON_NS_PER_S);
    double cores = (load_controller_cpu_s() - cpu_s) / (ratio_now_s() - began_s);
    print(bench, "heartbeat", "cores", cores, target);
    print(bench, "rss", "MiB", load_controller_rss_mib(), 512);
}

static void measure_summary(struct bench *bench)
{
    struct samples summaries = { .count = 0 };
    struct samples anchors = { .count = 0 };
    for (uint32_t i = 0; i < SUMMARIES; i++) {
        double began_s = ratio_now_s();
        load_call_get(bench->client);
        double between_s = ratio_now_s();
        (void)load_call_summary(bench->client);
        samples_add(&anchors, between_s - began_s);
        samples_add(&summaries, ratio_now_s() - between_s);
    }
    print_spread(bench, "summary", &summaries, "Models.List", &anchors, 50);
    free(summaries.values);
    free(anchors.values);
}

static double seconds_between(uint64_t from_ns, uint64_t to_ns)
{
    return ((double)to_ns - (double)from_ns) / 1e9;
}

/* Of the roll that just ended. */
static void collect(struct bench *bench, struct samples *first, struct samples *goals,
                    struct samples *tickets)
{
    uint64_t first_ns = UINT64_MAX;
    for (uint32_t i = 0; i < bench->agents; i++) {
        const struct load_times *times = &load_fleet_agent(bench->fleet, i)->times;
        uint64_t goal_ns = atomic_load(&times->goal_ns);
        first_ns = goal_ns < first_ns ? goal_ns : first_ns;
        samples_add(goals, seconds_between(bench->published_ns, goal_ns));
        samples_add(tickets, seconds_between(atomic_load(&times->staged_ns),
                                             atomic_load(&times->ticket_ns)));
    }
    samples_add(first, seconds_between(bench->published_ns, first_ns));
}

static void measure_rolls(struct bench *bench, double target_ms)
{
    struct samples first = { .count = 0 };
    struct samples goals = { .count = 0 };
    struct samples tickets = { .count = 0 };
    struct samples commits = commits_of(bench);
    double cpu_s = load_controller_cpu_s();
    for (uint32_t i = 0; i < bench->options->rounds; i++) {
        roll(bench);
        collect(bench, &first, &goals, &tickets);
    }
    cpu_s = (load_controller_cpu_s() - cpu_s) / bench->options->rounds;
    print_spread(bench, "publish_to_first_goal", &first, "store commit", &commits, target_ms);
    print_spread(bench, "publish_to_each_goal", &goals, "store commit", &commits, 0);
    print_spread(bench, "staged_to_ticket", &tickets, "store commit", &commits, target_ms);
    print(bench, "roll_cpu", "ms a group", cpu_s * 1e3 / bench->agents, 0);
    free(first.values);
    free(goals.values);
    free(tickets.values);
}

/* Until all readers that are left satisfy it. */
static void wait_readers(const struct load_watches *watches, uint32_t count, uint64_t seq)
{
    uint64_t until_ns = baton_clock_monotonic_ns() + WAIT_S * BATON_NS_PER_S;
    while ((seq == 0 ? load_watches_ready(watches) : load_watches_done(watches, seq)) +
               load_watches_cut(watches) <
           count) {
        load_must(baton_clock_monotonic_ns() < until_ns, "a watch did not hear of the roll's end");
        baton_clock_sleep_ns(2 * BATON_NS_PER_MS);
    }
}

static void measure_watchers(struct bench *bench)
{
    uint32_t count = bench->options->watchers;
    struct load_watches *watches = load_watches_open(load_controller_target(), count);
    wait_readers(watches, count, 0);
    uint64_t messages = load_watches_messages(watches);
    double began_s = ratio_now_s();
    double cpu_s = load_controller_cpu_s();
    roll(bench);
    double served_s = ratio_now_s();
    wait_readers(watches, count, bench->seq);
    double ended_s = ratio_now_s();
    double cores = (load_controller_cpu_s() - cpu_s) / (ended_s - began_s);
    print(bench, "watchers", "cores", cores, 1);
    print(bench, "watchers_roll", "s", served_s - began_s, 0);
    print(bench, "watchers_behind", "s", ended_s - served_s, 0);
    print(bench, "watchers_messages", "a reader",
          (double)(load_watches_messages(watches) - messages) / count, 0);
    load_must(load_watches_cut(watches) == 0, "watches were cut");
    load_watches_close(watches);
}

static void measure_restart(struct bench *bench)
{
    load_controller_kill();
    double began_s = ratio_now_s();
    load_controller_restart();
    load_call_wait(bench->client);
    print(bench, "restart", "s", ratio_now_s() - began_s, 3);
    wait_welcomed(bench, 2);
    while (load_call_summary(bench->client) > 0) {
        baton_clock_sleep_ns(2 * BATON_NS_PER_MS);
    }
    print(bench, "restart_all_restated", "s", ratio_now_s() - began_s, 0);
    roll(bench);
}

static void connect_control(struct bench *bench)
{
    struct rpc_client_options options = { .target = load_controller_target(),
                                          .backoff_first_ns = 20 * BATON_NS_PER_MS,
                                          .backoff_max_ns = 100 * BATON_NS_PER_MS };
    struct baton_status st = rpc_client_create(&options, &bench->client);
    load_must(baton_ok(&st), st.message);
    load_call_wait(bench->client);
}

static int measure(const struct options *options, uint32_t agents)
{
    struct bench bench = { .options = options, .agents = agents };
    double target_ms = agents == LATENCY_AGENTS ? 20 : 0;
    load_controller_start(NULL);
    connect_control(&bench);
    /* A ticket then waits for the controller alone, not for other groups. */
    load_call_apply(bench.client, "100%");
    bench.fleet = load_fleet_create(load_controller_target(), agents, &options->shape);
    wait_welcomed(&bench, 1);
    roll(&bench);
    bench.commits = calloc(COMMITS, sizeof(double));
    load_must(bench.commits != NULL, "no memory");
    load_store_commits(load_controller_folder(), bench.commits, COMMITS);
    measure_idle(&bench, 1);
    measure_summary(&bench);
    measure_rolls(&bench, target_ms);
    measure_watchers(&bench);
    measure_restart(&bench);
    load_fleet_destroy(bench.fleet);
    rpc_client_destroy(bench.client);
    load_controller_end();
    free(bench.commits);
    return bench.missed;
}

/* --- options --- */

static const struct argp_option words[] = {
    { "agents", 'a', "N,N", 0, "Sizes of the fleet, one after another (default 256,2000)", 0 },
    { "engines", 'e', "N", 0, "Engines of each agent's group (default 10)", 0 },
    { "ranks", 'r', "N", 0, "Ranks of each engine (default 1)", 0 },
    { "land-ms", 'l', "N", 0, "A version lands within so long (default 1000)", 0 },
    { "swap-ms", 's', "N", 0, "A swap takes so long (default 300)", 0 },
    { "rounds", 'n', "N", 0, "Rolls to measure (default 20)", 0 },
    { "watchers", 'w', "N", 0, "Readers of a roll (default 1000)", 0 },
    { "idle", 'i', "S", 0, "Seconds of heartbeats (default 20)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static uint32_t number_of(const char *text, uint32_t max, const struct argp_state *state)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || end == text || value > max) {
        argp_error(state, "'%s' is not a number up to %u", text, max);
    }
    return (uint32_t)value;
}

static void sizes_of(char *text, struct options *options, const struct argp_state *state)
{
    char *rest = NULL;
    options->sizes_count = 0;
    for (char *word = strtok_r(text, ",", &rest); word != NULL && options->sizes_count < SIZES_MAX;
         word = strtok_r(NULL, ",", &rest)) {
        options->sizes[options->sizes_count++] = number_of(word, BATON_AGENTS_MAX, state);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    switch (key) {
    case 'a': sizes_of(argument, options, state); return 0;
    case 'e':
        options->shape.engines = number_of(argument, BATON_ENGINES_PER_GROUP_MAX, state);
        return 0;
    case 'r': options->shape.ranks = number_of(argument, 1024, state); return 0;
    case 'l': options->shape.land_ms = number_of(argument, 60000, state); return 0;
    case 's': options->shape.swap_ms = number_of(argument, 60000, state); return 0;
    case 'n': options->rounds = number_of(argument, 10000, state); return 0;
    case 'w': options->watchers = number_of(argument, 10000, state); return 0;
    case 'i': options->idle_s = number_of(argument, 3600, state); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = { .options = words,
                                      .parser = parse,
                                      .doc = "Figures of one controller under a large fleet." };
    struct options options = { .sizes = { 256, 2000 },
                               .sizes_count = 2,
                               .rounds = 20,
                               .watchers = 1000,
                               .idle_s = 20,
                               .shape = {
                                   .engines = 10, .ranks = 1, .land_ms = 1000, .swap_ms = 300 } };
    int missed = 0;
    (void)argp_parse(&argp, argc, argv, 0, NULL, &options);
    for (uint32_t i = 0; i < options.sizes_count; i++) {
        missed += measure(&options, options.sizes[i]);
    }
    return missed == 0 ? 0 : 1;
}
