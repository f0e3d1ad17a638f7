/* events.c -- batonctl events [KIND/NAME] [-w]. */
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/fleet.pb-c.h"
#include "controller/cli/print.h"

static void print_event(const struct cli *cli, const Baton__V1__Event *event)
{
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        cli_print_stream(cli, event);
    } else {
        char at[BATON_CLOCK_TEXT_BYTES];
        uint64_t wall_ns = 0;
        struct baton_status st = baton_wire_timestamp_ns(event->at, "at", &wall_ns);
        baton_clock_format(baton_ok(&st) ? wall_ns : 0, at);
        (void)printf("%s  %-7s  %-18s %-20s %s%s%s%s\n", at, event->type, event->reason,
                     event->object, event->message, event->by[0] != '\0' ? " (" : "", event->by,
                     event->by[0] != '\0' ? ")" : "");
    }
    (void)fflush(stdout);
}

enum cli_exit cli_run_events(struct cli *cli)
{
    char object[2 * BATON_NAME_BYTES] = "";
    const char *kind, *name;
    if (cli->words_count > 0) {
        if (!cli_object(cli, NULL, &kind, &name) || kind == NULL) {
            return cli_usage("events of what? say KIND/NAME, e.g. group/g0");
        }
        (void)snprintf(object, sizeof(object), "%.60s/%.60s", kind, name);
    }
    enum cli_exit code = cli_connect(cli);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    Baton__V1__EventsRequest *request = baton_wire_new(&baton__v1__events_request__descriptor);
    request->object = baton_wire_text(request, object);
    request->follow = cli->watch;
    struct rpc_stream *stream;
    code = cli_stream(cli, "baton.v1.Fleet/Events", request, cli->timeout_ns, &stream);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    struct rpc_next next;
    while ((next = rpc_stream_next(stream, RPC_NO_TIMEOUT)).kind == RPC_NEXT_MESSAGE) {
        print_event(cli, next.message);
        baton_wire_free(next.message);
    }
    rpc_stream_unref(stream);
    bool timed_out = next.status.code == BATON_DEADLINE_EXCEEDED && cli->timeout_ns != 0;
    return baton_ok(&next.status) || timed_out ? CLI_EXIT_OK : cli_fail(&next.status);
}
