/* store_bench.c -- the store in a real etcd of three members on the loopback: what a commit costs by itself, what a publish
 * costs through a controller, and how often a fleet at rest writes.
 *
 * usage: store_bench [--rounds=N] [--idle=S]
 *
 * Latencies stand beside those of a bare put of 1 KiB over the same kind of connection to the same member, taken in turn with
 * them.  One JSON object a line; README.md says how to read them. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/store/etcd_client.h"
#include "controller/store/etcd_text.h"
#include "controller/store/store.h"
#include "tests/bench/load_controller.h"
#include "tests/bench/load_fleet.h"
#include "tests/bench/load_must.h"
#include "tests/bench/load_samples.h"
#include "tests/bench/ratio.h"
#include "tests/conformance/etcd_rig.h"
#include "tests/unit/record_filler.h"

enum { MEMBERS = 3, GROUPS = 16, WAIT_S = 60, PUT_BYTES = 1024, ADDRESS_BYTES = 1024 };
#define PREFIX       "/bench"
#define LEASE_TARGET 10000 /* An agent's lease. */
#define BOUND_TARGET 32000 /* Eight times timeoutMs: what is not decided by then is given up. */
#define PUT_TARGET   50
#define IDLE_TARGET  30

struct options {
    unsigned long rounds;
    unsigned long idle_s;
};

struct bench {
    const struct options *options;
    struct etcd_rig rig;
    struct etcd_address address; /* Of the bare puts. */
    struct etcd_client *bare;
    struct rpc_client *client;
    struct load_fleet *fleet;
    uint64_t seq;
    int missed;
};

/* The 99th percentile counts; 'target' 0: none. */
static void print_latency(struct bench *bench, const char *name, struct samples *samples,
                          struct samples *puts, double target)
{
    char full[64];
    struct samples_line line = { full, "", samples, "bare put in etcd", puts, target };
    (void)snprintf(full, sizeof(full), "store_%s", name);
    bench->missed += !samples_print(&line);
}

/* --- the anchor --- */

static void open_bare(struct bench *bench, const char *address)
{
    struct baton_status st = etcd_address_parse(address, &bench->address);
    load_must(baton_ok(&st), st.message);
    st = etcd_client_open(&bench->address, &bench->bare);
    load_must(baton_ok(&st), st.message);
}

static double put_s(struct bench *bench)
{
    static const char KEY[] = "/bare";
    char value[PUT_BYTES];
    struct etcd_text body = { 0 };
    struct etcd_answer answer;
    memset(value, 'x', sizeof(value));
    etcd_text_add(&body, "{\"key\":");
    etcd_text_base64(&body, KEY, sizeof(KEY) - 1);
    etcd_text_add(&body, ",\"value\":");
    etcd_text_base64(&body, value, sizeof(value));
    etcd_text_add(&body, "}");
    load_must(!body.failed, "no memory");
    struct baton_bytes bytes = { (const uint8_t *)body.data, body.size };
    double began_s = ratio_now_s();
    struct baton_status st = etcd_client_call(bench->bare, "kv/put", ETCD_CALL_WRITE, bytes,
                                              etcd_client_deadline_ns(bench->bare), &answer);
    double took_s = ratio_now_s() - began_s;
    load_must(baton_ok(&st), st.message);
    etcd_answer_free(&answer);
    etcd_text_free(&body);
    return took_s;
}

/* --- commits by themselves --- */

/* One that was swapped and has a ticket again. */
static struct group_record *make_group(size_t place)
{
    static union record_body body;
    struct group_record *group = &body.group;
    record_fill(RECORD_GROUP, &body);
    (void)snprintf(group->name, sizeof(group->name), "g-%05zu", place);
    (void)snprintf(group->model, sizeof(group->model), "qwen3-8b-grpo");
    (void)snprintf(group->agent, sizeof(group->agent), "node-%05zu", place);
    char *const texts[] = { group->cordon_reason,       group->pin_reason,
                            group->retire_reason,       group->sleep_reason,
                            group->last_swap.message,   group->last_swap.reference_message,
                            group->last_swap.probe_text };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        texts[i][0] = '\0';
    }
    group->ticket.policy.hooks_count = 0;
    return group;
}

/* A transaction that changes 'count' groups; all have the record of the last one.  One that could not be decided in time
 * misses its target, and says so. */
static double commit_s(struct bench *bench, struct store *store, const struct store_start *start,
                       size_t count)
{
    struct record_op *ops = calloc(count, sizeof(*ops));
    load_must(ops != NULL, "no memory");
    for (size_t i = 0; i < count; i++) {
        ops[i].record = (struct record_ref){ RECORD_GROUP, make_group(i) };
        record_key(ops[i].record, ops[i].key);
    }
    struct transaction transaction = { .epoch = start->epoch,
                                       .revision = store_revision(store) + 1,
                                       .sync = true,
                                       .ops = ops,
                                       .ops_count = count };
    double began_s = ratio_now_s();
    struct baton_status st = store_commit(store, &transaction);
    double took_s = ratio_now_s() - began_s;
    load_must(baton_ok(&st) || st.code == BATON_UNAVAILABLE, st.message);
    if (!baton_ok(&st)) {
        (void)fprintf(stderr, "store_bench: given up: %s\n", st.message);
        bench->missed++;
    }
    free(ops);
    return took_s;
}

static void measure_commits(struct bench *bench, const char *address)
{
    static const struct {
        const char *name;
        size_t count;
        size_t rounds;
        double target;
    } rows[] = { { "commit_1_group", 1, 300, 0 },
                 { "commit_16_groups", 16, 100, 0 },
                 { "commit_1000_groups", 1000, 10, LEASE_TARGET },
                 { "commit_16384_groups", BATON_GROUPS_MAX, 3, BOUND_TARGET } };
    struct store *store = NULL;
    struct store_start start;
    struct baton_status st = store_open(address, baton_clock_wall_ns(), &store);
    load_must(baton_ok(&st), st.message);
    st = store_acquire_epoch(store, &start);
    load_must(baton_ok(&st), st.message);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct samples commits = { .count = 0 };
        struct samples puts = { .count = 0 };
        for (size_t round = 0; round < rows[i].rounds; round++) {
            samples_add(&puts, put_s(bench));
            samples_add(&commits, commit_s(bench, store, &start, rows[i].count));
        }
        print_latency(bench, rows[i].name, &commits, &puts, rows[i].target);
        free(commits.values);
        free(puts.values);
    }
    store_close(store);
}

/* --- a controller and its fleet --- */

static void start_fleet(struct bench *bench, const char *address)
{
    static const struct load_shape shape = { .engines = 2, .ranks = 1, .land_ms = 1, .swap_ms = 1 };
    load_controller_start(address);
    struct rpc_client_options options = { .target = load_controller_target(),
                                          .backoff_first_ns = 20 * BATON_NS_PER_MS,
                                          .backoff_max_ns = 100 * BATON_NS_PER_MS };
    struct baton_status st = rpc_client_create(&options, &bench->client);
    load_must(baton_ok(&st), st.message);
    load_call_wait(bench->client);
    load_call_apply(bench->client, "25%");
    bench->fleet = load_fleet_create(load_controller_target(), GROUPS, &shape);
}

static void wait_serving(struct bench *bench)
{
    uint64_t until_ns = baton_clock_monotonic_ns() + WAIT_S * BATON_NS_PER_S;
    while (load_fleet_serving(bench->fleet, bench->seq) < GROUPS) {
        load_must(baton_clock_monotonic_ns() < until_ns, "a roll did not end");
        baton_clock_sleep_ns(BATON_NS_PER_MS);
    }
}

/* Seconds of the call that publishes; the roll of all groups follows. */
static double publish_s(struct bench *bench)
{
    char uid[BATON_UID_TEXT_BYTES];
    load_call_prepare(bench->client, bench->seq + 1, uid);
    double began_s = ratio_now_s();
    bench->seq = load_call_publish(bench->client, uid);
    double took_s = ratio_now_s() - began_s;
    wait_serving(bench);
    return took_s;
}

static void measure_publishes(struct bench *bench)
{
    struct samples publishes = { .count = 0 };
    struct samples puts = { .count = 0 };
    (void)publish_s(bench);
    for (unsigned long i = 0; i < bench->options->rounds; i++) {
        samples_add(&puts, put_s(bench));
        samples_add(&publishes, publish_s(bench));
    }
    print_latency(bench, "publish", &publishes, &puts, PUT_TARGET);
    free(publishes.values);
    free(puts.values);
}

/* Transactions of etcd so far, and those that renewed the leader's record. */
struct writes {
    unsigned long long all;
    unsigned long long renewals;
};

static struct writes writes_of(struct bench *bench)
{
    static const char KEY[] = PREFIX "/leader";
    struct writes writes = { 0 };
    struct etcd_text body = { 0 };
    etcd_text_add(&body, "{\"key\":");
    etcd_text_base64(&body, KEY, sizeof(KEY) - 1);
    etcd_text_add(&body, "}");
    load_must(!body.failed, "no memory");
    const char *text = etcd_rig_post(&bench->rig, 0, "kv/range", body.data);
    const char *revision = strstr(text, "\"revision\":\"");
    const char *version = strstr(text, "\"version\":\"");
    load_must(revision != NULL && version != NULL &&
                  sscanf(revision + 12, "%llu", &writes.all) == 1 &&
                  sscanf(version + 11, "%llu", &writes.renewals) == 1,
              "etcd does not tell its revision, or nobody leads");
    etcd_text_free(&body);
    return writes;
}

static void measure_idle(struct bench *bench)
{
    baton_clock_sleep_ns(BATON_NS_PER_S); /* What the last roll left to do is done. */
    struct writes before = writes_of(bench);
    baton_clock_sleep_ns(bench->options->idle_s * BATON_NS_PER_S);
    struct writes after = writes_of(bench);
    double minutes = (double)bench->options->idle_s / 60;
    double renewals = (double)(after.renewals - before.renewals) / minutes;
    double others = (double)(after.all - before.all) / minutes - renewals;
    load_must(load_fleet_serving(bench->fleet, bench->seq) == GROUPS && renewals > 0,
              "the fleet is not at rest, or the leader's record was not renewed");
    bool met = others <= IDLE_TARGET;
    (void)printf("{\"name\": \"store_idle_writes\", \"groups\": %d, \"value\": %.1f, \"unit\": "
                 "\"transactions a minute\", \"anchor\": \"renewals of the leader's record\", "
                 "\"anchor_value\": %.1f, \"ratio\": %.2f, \"target\": %d, \"met\": %s, \"load\": "
                 "%.2f}\n",
                 GROUPS, others, renewals, others / renewals, IDLE_TARGET, met ? "true" : "false",
                 samples_machine_load());
    bench->missed += !met;
}

static int measure(const struct options *options)
{
    static struct bench bench;
    char address[ADDRESS_BYTES];
    bench.options = options;
    etcd_rig_init(&bench.rig, MEMBERS);
    etcd_rig_start(&bench.rig);
    etcd_rig_address(&bench.rig, PREFIX, address);
    open_bare(&bench, strchr(address, ':') + 1);
    start_fleet(&bench, address);
    measure_publishes(&bench);
    measure_idle(&bench);
    load_fleet_destroy(bench.fleet);
    rpc_client_destroy(bench.client);
    load_controller_end();
    etcd_rig_address(&bench.rig, PREFIX "/direct", address);
    measure_commits(&bench, address);
    etcd_client_close(bench.bare);
    etcd_rig_stop(&bench.rig);
    return bench.missed;
}

static const struct argp_option words[] = {
    { "rounds", 'n', "N", 0, "Publishes to measure (default 300)", 0 },
    { "idle", 'i', "S", 0, "Seconds at rest (default 60)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *options = state->input;
    unsigned long *place = key == 'n' ? &options->rounds : &options->idle_s;
    char *end = NULL;
    if (key != 'n' && key != 'i') {
        return ARGP_ERR_UNKNOWN;
    }
    *place = strtoul(argument, &end, 10);
    if (*end != '\0' || *place == 0 || *place > 100000) {
        argp_error(state, "'%s' is not a number from 1 to 100000", argument);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = { .options = words,
                                      .parser = parse,
                                      .doc = "Figures of the store in an etcd of three members." };
    struct options options = { .rounds = 300, .idle_s = 60 };
    (void)argp_parse(&argp, argc, argv, 0, NULL, &options);
    load_must(etcd_rig_there(), "etcd is not installed (deploy/install.sh test)");
    return measure(&options) == 0 ? 0 : 1;
}
