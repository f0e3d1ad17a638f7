/* roll_trace.c -- batonctl roll trace MODEL [NUMBER]: the swaps of a roll as trace events (the JSON
 * that Perfetto and chrome://tracing read), one track a group, one slice a phase.
 *
 * An agent tells how long each phase took and when the swap ended: the phases lie end to end before
 * that.  Landing ended when the ticket was issued, at the latest. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/limits.h"
#include "api/wire/wire.h"
#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/rolls.pb-c.h"
#include "controller/cli/roll_view.h"

enum { GROUPS_MAX = BATON_GROUPS_MAX };

struct trace {
    json_t *events;
    char (*groups)[BATON_NAME_BYTES]; /* Their places are the tracks. */
    int groups_count;
    uint64_t begin_ns; /* Wall time of the trace's zero; 0: not set. */
    size_t swaps;
};

static uint64_t at_ns(const Google__Protobuf__Timestamp *at)
{
    return at == NULL ? 0 : (uint64_t)at->seconds * 1000000000U + (uint64_t)at->nanos;
}

static double us(const struct trace *trace, uint64_t ns)
{
    return ns > trace->begin_ns ? (double)(ns - trace->begin_ns) / 1e3 : 0;
}

static void add_name(struct trace *trace, const char *what, int track, const char *name)
{
    json_array_append_new(trace->events,
                          json_pack("{s:s, s:s, s:i, s:i, s:{s:s}}", "name", what, "ph", "M", "pid",
                                    1, "tid", track, "args", "name", name));
}

static int track_of(struct trace *trace, const char *group)
{
    for (int i = 0; i < trace->groups_count; i++) {
        if (strcmp(trace->groups[i], group) == 0) {
            return i + 1;
        }
    }
    if (trace->groups_count == GROUPS_MAX) {
        return GROUPS_MAX;
    }
    (void)snprintf(trace->groups[trace->groups_count], BATON_NAME_BYTES, "%s", group);
    trace->groups_count++;
    add_name(trace, "thread_name", trace->groups_count, group);
    return trace->groups_count;
}

/* A slice from 'start_ns' on; none for a phase that took no time. */
static void add_slice(struct trace *trace, int track, const char *name, uint64_t start_ns,
                      uint64_t took_ns)
{
    if (took_ns != 0) {
        json_array_append_new(trace->events,
                              json_pack("{s:s, s:s, s:i, s:i, s:f, s:f}", "name", name, "ph", "X",
                                        "pid", 1, "tid", track, "ts", us(trace, start_ns), "dur",
                                        (double)took_ns / 1e3));
    }
}

static void add_phases(struct trace *trace, int track, const Baton__V1__SwapEntry *entry)
{
    const Baton__V1__SwapPhases *p = entry->swap->phases;
    const struct {
        const char *name;
        uint64_t ns;
    } phases[] = {
        { "pause", p->pause_ns },
        { "apply", p->apply_ns },
        { "finalize", p->finalize_ns },
        { "verify", p->verify_ns },
        { "invalidate", p->invalidate_ns },
        { "commit", p->commit_ns },
        { "label", p->label_ns },
        { "probe", p->probe_ns },
        { "open", p->open_ns },
    };
    size_t count = sizeof(phases) / sizeof(phases[0]);
    uint64_t at = at_ns(entry->swap->ended_at);
    for (size_t i = 0; i < count; i++) {
        at -= phases[i].ns;
    }
    add_slice(trace, track, "queue", at - p->queue_ns, p->queue_ns);
    for (size_t i = 0; i < count; i++) {
        add_slice(trace, track, phases[i].name, at, phases[i].ns);
        at += phases[i].ns;
    }
}

static uint64_t landing_begin(const Baton__V1__SwapEntry *entry)
{
    uint64_t stage = entry->swap->phases != NULL ? entry->swap->phases->stage_ns : 0;
    return at_ns(entry->issued_at) - stage;
}

static void add_swap(struct trace *trace, const Baton__V1__SwapEntry *entry)
{
    const Baton__V1__SwapRecord *swap = entry->swap;
    if (swap == NULL || swap->phases == NULL) {
        return;
    }
    int track = track_of(trace, entry->group);
    char name[CLI_CELL_BYTES];
    uint64_t issued = at_ns(entry->issued_at);
    uint64_t slot = 0;
    struct baton_status st = baton_wire_duration_ns(entry->slot, "slot", &slot);
    (void)snprintf(name, sizeof(name), "v%llu -> v%llu %s", (unsigned long long)swap->from_seq,
                   (unsigned long long)swap->to_seq,
                   cli_text_enum(&baton__v1__swap_outcome__descriptor, (int)swap->outcome));
    add_slice(trace, track, "stage", landing_begin(entry), swap->phases->stage_ns);
    add_slice(trace, track, name, issued, baton_ok(&st) && slot != 0 ? slot : 1);
    add_phases(trace, track, entry);
    trace->swaps++;
}

static void add_page(struct trace *trace, const Baton__V1__ListSwapsResponse *page)
{
    for (size_t i = 0; i < page->n_swaps; i++) {
        uint64_t begin = landing_begin(page->swaps[i]);
        bool earlier = trace->begin_ns == 0 || begin < trace->begin_ns;
        trace->begin_ns = earlier && trace->swaps == 0 ? begin : trace->begin_ns;
    }
    for (size_t i = 0; i < page->n_swaps; i++) {
        add_swap(trace, page->swaps[i]);
    }
}

static enum cli_exit fetch(struct cli *cli, const char *model, uint64_t number, struct trace *trace)
{
    char token[CLI_CELL_BYTES] = "";
    enum cli_exit code;
    do {
        Baton__V1__ListSwapsRequest *request =
            baton_wire_new(&baton__v1__list_swaps_request__descriptor);
        request->model = baton_wire_text(request, model);
        request->roll_number = number;
        request->page_token = baton_wire_text(request, token);
        void *reply = NULL;
        code = cli_call(cli, "baton.v1.Fleet/ListSwaps", request, &reply);
        baton_wire_free(request);
        token[0] = '\0';
        if (code == CLI_EXIT_OK) {
            const Baton__V1__ListSwapsResponse *page = reply;
            add_page(trace, page);
            (void)snprintf(token, sizeof(token), "%s", page->next_page_token);
        }
        baton_wire_free(reply);
    } while (token[0] != '\0');
    return code;
}

/* The roll to trace; null after an error was printed. */
static Baton__V1__Roll *find_roll(struct cli *cli, const char *model, enum cli_exit *code)
{
    Baton__V1__GetRollRequest *request = baton_wire_new(&baton__v1__get_roll_request__descriptor);
    request->model = baton_wire_text(request, model);
    request->number = cli->words_count > 2 ? cli_number("NUMBER", cli->words[2]) : 0;
    void *reply = NULL;
    *code = cli_call(cli, "baton.v1.Rolls/Get", request, &reply);
    baton_wire_free(request);
    return reply;
}

static void print(struct trace *trace, const Baton__V1__Roll *roll)
{
    char name[CLI_CELL_BYTES];
    (void)snprintf(name, sizeof(name), "roll/%.80s to v%llu",
                   roll->meta != NULL ? roll->meta->name : roll->model,
                   (unsigned long long)roll->to_seq);
    add_name(trace, "process_name", 0, name);
    json_t *whole =
        json_pack("{s:O, s:s, s:{s:s, s:I}}", "traceEvents", trace->events, "displayTimeUnit", "ms",
                  "otherData", "roll", name, "beginUnixNs", (json_int_t)trace->begin_ns);
    (void)json_dumpf(whole, stdout, JSON_COMPACT);
    (void)printf("\n");
    json_decref(whole);
}

enum cli_exit cli_roll_trace(struct cli *cli, const char *model)
{
    enum cli_exit code;
    Baton__V1__Roll *roll = find_roll(cli, model, &code);
    if (roll == NULL) {
        return code;
    }
    struct trace trace = { .events = json_array(), .groups = calloc(GROUPS_MAX, BATON_NAME_BYTES) };
    baton_assert(trace.groups != NULL);
    code = fetch(cli, model, roll->number, &trace);
    if (code == CLI_EXIT_OK) {
        print(&trace, roll);
    }
    if (code == CLI_EXIT_OK && trace.swaps == 0) {
        (void)fprintf(stderr,
                      "no swap of this roll is kept: none ended yet, or they are too old\n");
    }
    json_decref(trace.events);
    free(trace.groups);
    baton_wire_free(roll);
    return code;
}
