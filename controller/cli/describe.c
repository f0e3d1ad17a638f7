/* describe.c -- batonctl describe KIND NAME: everything about one object, and its events. */
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "controller/cli/list.h"
#include "controller/cli/yaml.h"

enum { EVENTS_SHOWN = 12 };

static void row(const char *key, const char *value)
{
    (void)printf("  %-18s %s\n", key, value[0] != '\0' ? value : "-");
}

static void row_duration(const char *key, uint64_t ns)
{
    char text[CLI_CELL_BYTES];
    if (ns != 0) {
        cli_text_duration(ns, text);
        row(key, text);
    }
}

static void print_phases(const Baton__V1__SwapPhases *p)
{
    if (p == NULL) {
        return;
    }
    (void)printf("Phases of the last swap:\n");
    row_duration("queue", p->queue_ns);
    row_duration("stage", p->stage_ns);
    row_duration("pause", p->pause_ns);
    row_duration("apply", p->apply_ns);
    row_duration("finalize", p->finalize_ns);
    row_duration("verify", p->verify_ns);
    row_duration("invalidate", p->invalidate_ns);
    row_duration("commit", p->commit_ns);
    row_duration("label", p->label_ns);
    row_duration("probe", p->probe_ns);
    row_duration("open", p->open_ns);
    row_duration("gate shut, in all", p->shut_ns);
    row_duration("  of it engine", p->engine_ns);
    row_duration("  of it journal", p->journal_ns);
    row_duration("  of it barrier", p->barrier_ns);
}

/* What became of requests, and of KV. */
static void print_requests(const Baton__V1__SwapRecord *swap)
{
    char text[CLI_CELL_BYTES];
    (void)snprintf(text, sizeof(text), "%u inside, %u kept, %u ended; %u held at the gate",
                   swap->requests_inside, swap->requests_kept, swap->requests_aborted,
                   swap->requests_held);
    row("requests", text);
    if (swap->in_flight[0] != '\0') {
        (void)snprintf(text, sizeof(text), "%.20s%s", swap->in_flight,
                       swap->drain_expired ? ", the drain took too long" : "");
        row("in flight", text);
        row("KV", swap->kv);
    }
}

static void print_swap(const Baton__V1__SwapRecord *swap)
{
    char text[CLI_CELL_BYTES];
    if (swap == NULL) {
        return;
    }
    (void)printf("Last swap:\n");
    (void)snprintf(text, sizeof(text), "v%llu -> v%llu", (unsigned long long)swap->from_seq,
                   (unsigned long long)swap->to_seq);
    row("versions", text);
    row("outcome", cli_text_enum(&baton__v1__swap_outcome__descriptor, (int)swap->outcome));
    if (swap->message[0] != '\0') {
        row("message", swap->message);
    }
    row("verified", cli_text_enum(&baton__v1__verify_level__descriptor, (int)swap->verify_level));
    cli_text_age(swap->ended_at, text);
    row("ended, ago", text);
    row("probe's text", swap->probe_text);
    if (swap->references != 0) {
        (void)snprintf(text, sizeof(text), "%u of %u held, %.4g away at most",
                       swap->references - swap->references_missed, swap->references,
                       swap->reference_away);
        row("references", text);
    }
    if (swap->references_missed != 0) {
        row("missed", swap->reference_message);
    }
    if (swap->mode[0] != '\0') {
        row("mode", swap->mode);
    }
    print_requests(swap);
    print_phases(swap->phases);
}

static void print_engine(const Baton__V1__Engine *engine)
{
    char text[CLI_CELL_BYTES];
    (void)printf("Engine %s:\n", engine->name);
    (void)snprintf(text, sizeof(text), "%.40s %.60s, %u ranks", engine->kind, engine->software,
                   engine->world_size);
    row("kind", text);
    row("endpoint", engine->endpoint);
    row("reachable", engine->reachable ? "yes" : "no");
    row("gate", engine->gate);
    row("label", engine->label);
    row("way in", engine->way_in);
    row("because", engine->way_in_reason);
    row("incarnation", engine->incarnation);
    (void)snprintf(text, sizeof(text), "%.40s, %u times", engine->recreate, engine->recreates);
    row("recreate", text);
}

static void print_conditions(Baton__V1__Condition *const *conditions, size_t count)
{
    if (count > 0) {
        (void)printf("Conditions:\n");
    }
    for (size_t i = 0; i < count; i++) {
        (void)printf("  %-12s %-8s %-20s %s\n", conditions[i]->type, conditions[i]->status,
                     conditions[i]->reason, conditions[i]->message);
    }
}

/* What an operator said of the group. */
static void print_apart(const Baton__V1__Group *g)
{
    if (g->cordoned) {
        row(g->drained ? "drained" : "cordoned",
            g->cordon_reason[0] != '\0' ? g->cordon_reason : "yes");
    }
    if (g->asleep) {
        row("asleep", g->sleep_reason[0] != '\0' ? g->sleep_reason : "yes");
    }
    if (g->pinned) {
        row("pinned", g->pin_reason[0] != '\0' ? g->pin_reason : "yes");
    }
}

/* What only a leader knows. */
static void print_live(const Baton__V1__Group *g)
{
    char text[CLI_CELL_BYTES];
    (void)snprintf(text, sizeof(text), "%llu publishes, %llu optimizer steps, %llu s",
                   (unsigned long long)g->lag_publishes, (unsigned long long)g->lag_optimizer_steps,
                   (unsigned long long)g->lag_seconds);
    row("lag", text);
    row("gate", g->gate_open ? "open" : "shut");
    (void)snprintf(text, sizeof(text), "%s%s%.150s", g->can_swap_live ? "can" : "cannot",
                   g->live_reason[0] != '\0' ? ": " : "", g->live_reason);
    row("swap live", text);
}

static void print_group(const void *item)
{
    const Baton__V1__Group *g = item;
    char text[CLI_CELL_BYTES];
    (void)printf("Group %s:\n", g->meta != NULL ? g->meta->name : "");
    row("model", g->model);
    row("leader agent", g->agent);
    row("state", cli_text_enum(&baton__v1__group_state__descriptor, (int)g->state));
    if (g->state_message[0] != '\0') {
        row("because", g->state_message);
    }
    cli_text_seq(g->committed_seq, text);
    row("serves", text);
    cli_text_seq(g->target_seq, text);
    row("target", text);
    cli_text_seq(g->staging_seq, text);
    row("stages", text);
    if (g->n_conditions > 0) { /* Else a standby tells what is stored. */
        print_live(g);
    }
    print_apart(g);
    row("verified", cli_text_enum(&baton__v1__verify_level__descriptor, (int)g->verify_level));
    if (g->blocked_reason != 0) {
        row("blocked",
            cli_text_enum(&baton__v1__blocked_reason__descriptor, (int)g->blocked_reason));
        row("to unblock", g->blocked_message);
    }
    if (g->ticket != NULL) {
        (void)snprintf(text, sizeof(text), "%llu, to v%llu", (unsigned long long)g->ticket->number,
                       (unsigned long long)g->ticket->to_seq);
        row("open ticket", text);
    }
    print_conditions(g->conditions, g->n_conditions);
    print_swap(g->last_swap);
    for (size_t i = 0; i < g->n_engines; i++) {
        print_engine(g->engines[i]);
    }
}

/* Kinds without a layout of their own: the object as YAML. */
static void print_plain(struct cli *cli, const void *item)
{
    enum cli_output output = cli->output;
    cli->output = CLI_OUTPUT_YAML;
    cli_print_message(cli, item);
    cli->output = output;
}

static void print_events(struct cli *cli, const char *object)
{
    Baton__V1__EventsRequest *request = baton_wire_new(&baton__v1__events_request__descriptor);
    request->object = baton_wire_text(request, object);
    struct rpc_stream *stream;
    enum cli_exit code =
        cli_stream(cli, "baton.v1.Fleet/Events", request, 10 * BATON_NS_PER_S, &stream);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return;
    }
    char lines[EVENTS_SHOWN][512];
    unsigned count = 0;
    struct rpc_next next;
    while ((next = rpc_stream_next(stream, RPC_NO_TIMEOUT)).kind == RPC_NEXT_MESSAGE) {
        const Baton__V1__Event *event = next.message;
        char age[CLI_CELL_BYTES];
        cli_text_age(event->at, age);
        (void)snprintf(lines[count++ % EVENTS_SHOWN], sizeof(lines[0]),
                       "  %-6.10s %-8s %-20s %.300s", age, event->type, event->reason,
                       event->message);
        baton_wire_free(next.message);
    }
    rpc_stream_unref(stream);
    if (count > 0) {
        (void)printf("Events:\n");
    }
    for (unsigned i = count > EVENTS_SHOWN ? count - EVENTS_SHOWN : 0; i < count; i++) {
        (void)puts(lines[i % EVENTS_SHOWN]);
    }
}

static void print_all(struct cli *cli, const struct cli_kind *kind, void *item)
{
    char object[CLI_CELL_BYTES];
    if (cli->output != CLI_OUTPUT_TABLE && cli->output != CLI_OUTPUT_WIDE) {
        cli_print_items(cli, kind, &item, 1, false);
        return;
    }
    if (strcmp(kind->singular, "group") == 0) {
        print_group(item);
    } else if (strcmp(kind->singular, "engine") == 0) {
        print_engine(item);
    } else {
        print_plain(cli, item);
    }
    cli_item_name(kind, item, object);
    if (!cli->asks_stored) { /* No standby tells events. */
        print_events(cli, object);
    }
}

static enum cli_exit describe(struct cli *cli, const struct cli_kind *kind, const char *name)
{
    struct cli_list list;
    enum cli_exit code = cli_list_fetch(cli, kind, &list);
    void *item = code == CLI_EXIT_OK ? cli_list_find(&list, kind, name) : NULL;
    if (item != NULL) {
        print_all(cli, kind, item);
    } else if (code == CLI_EXIT_OK) {
        struct baton_status st = baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "no %s '%s'",
                                                   kind->singular, name);
        st = baton_status_hint(st, "`batonctl get %s` lists them", kind->plural);
        code = cli_fail(&st);
    }
    cli_list_free(&list);
    return code;
}

enum cli_exit cli_run_describe(struct cli *cli)
{
    const char *kind_name = NULL, *name = NULL;
    (void)cli_object(cli, NULL, &kind_name, &name);
    const struct cli_kind *kind = cli_kind_find(kind_name);
    if (kind == NULL || name == NULL) {
        return cli_usage("describe what? say KIND NAME, e.g. group g0");
    }
    return describe(cli, kind, name);
}
