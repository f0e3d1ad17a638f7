/* roll_view.c -- see roll_view.h. */
#include "controller/cli/roll_view.h"

#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/rolls.pb-c.h"

enum { LINE_BYTES = 512, GROUPS_SHOWN = 256 };

/* How far a group's landing was when it was last seen, for the rate. */
struct staging {
    uint64_t at_ns;
    uint64_t bytes;
    double bytes_per_s; /* 0: not known yet. */
};

/* What was printed last, so that only changes are printed. */
struct follow {
    struct cli *cli;
    bool each_group;
    uint64_t number; /* The roll that is followed. */
    char last[LINE_BYTES];
    char lines[GROUPS_SHOWN]
              [LINE_BYTES]; /* Of the first groups; more are printed at every change. */
    struct staging stagings[GROUPS_SHOWN];
};

static void print_if_new(char last[LINE_BYTES], const char *line)
{
    if (strcmp(last, line) != 0) {
        (void)snprintf(last, LINE_BYTES, "%s", line);
        (void)printf("%s\n", line);
        (void)fflush(stdout);
    }
}

static const char *group_state(const Baton__V1__RollGroup *group)
{
    return cli_text_enum(&baton__v1__roll_group_state__descriptor, (int)group->state);
}

/* "  12 MiB of 1.1 GiB, 450 MiB/s, 2.4 s left" while a group lands; else empty. */
static void text_staging(struct staging *staging, const Baton__V1__RollGroup *group,
                         char out[CLI_CELL_BYTES])
{
    char done[CLI_CELL_BYTES], total[CLI_CELL_BYTES], rate[CLI_CELL_BYTES], left[CLI_CELL_BYTES];
    uint64_t now_ns = baton_clock_monotonic_ns();
    uint64_t bytes = group->staged_bytes;
    out[0] = '\0';
    if (group->state != BATON__V1__ROLL_GROUP_STATE__ROLL_GROUP_STATE_STAGING || bytes == 0) {
        *staging = (struct staging){ .at_ns = now_ns, .bytes = bytes };
        return;
    }
    if (bytes > staging->bytes && now_ns > staging->at_ns) {
        staging->bytes_per_s =
            (double)(bytes - staging->bytes) * 1e9 / (double)(now_ns - staging->at_ns);
        staging->at_ns = now_ns;
        staging->bytes = bytes;
    }
    cli_text_bytes(bytes, done);
    cli_text_bytes(group->staging_bytes, total);
    if (staging->bytes_per_s <= 0 || group->staging_bytes < bytes) {
        (void)snprintf(out, CLI_CELL_BYTES, "  %.30s of %.30s", done, total);
        return;
    }
    cli_text_bytes((uint64_t)staging->bytes_per_s, rate);
    cli_text_duration(
        (uint64_t)((double)(group->staging_bytes - bytes) / staging->bytes_per_s * 1e9), left);
    (void)snprintf(out, CLI_CELL_BYTES, "  %.30s of %.30s, %.30s/s, %.30s left", done, total, rate,
                   left);
}

static void print_group(struct follow *follow, const Baton__V1__Roll *roll, size_t index)
{
    const Baton__V1__RollGroup *group = roll->groups[index];
    char line[LINE_BYTES], shut[CLI_CELL_BYTES] = "", scratch[LINE_BYTES] = "";
    char landed[CLI_CELL_BYTES];
    struct staging none = { .at_ns = 0 };
    text_staging(index < GROUPS_SHOWN ? &follow->stagings[index] : &none, group, landed);
    if (group->phases != NULL && group->phases->shut_ns != 0) {
        cli_text_duration(group->phases->shut_ns, shut);
    }
    (void)snprintf(
        line, sizeof(line), "  %-20.40s %-9s v%llu -> v%llu%.120s%s%.20s%s%.30s%s%.200s",
        group->group, group_state(group), (unsigned long long)group->from_seq,
        (unsigned long long)roll->to_seq, landed, shut[0] != '\0' ? "  pause " : "", shut,
        group->blocked_reason != 0 ? "  " : "",
        group->blocked_reason != 0
            ? cli_text_enum(&baton__v1__blocked_reason__descriptor, (int)group->blocked_reason)
            : "",
        group->blocked_message[0] != '\0' ? ": " : "", group->blocked_message);
    print_if_new(index < GROUPS_SHOWN ? follow->lines[index] : scratch, line);
}

/* ", barrier SHUTTING: 2 shut" while there is one. */
static void text_barrier(const Baton__V1__Roll *roll, char out[CLI_CELL_BYTES])
{
    out[0] = '\0';
    if (roll->barrier_stage != BATON__V1__BARRIER_STAGE__BARRIER_STAGE_UNSPECIFIED &&
        roll->state == BATON__V1__ROLL_STATE__ROLL_STATE_PROGRESSING) {
        (void)snprintf(
            out, CLI_CELL_BYTES, ", barrier %.20s: %u shut",
            cli_text_enum(&baton__v1__barrier_stage__descriptor, (int)roll->barrier_stage),
            roll->groups_shut);
    }
}

static void print_roll(struct follow *follow, const Baton__V1__Roll *roll)
{
    char line[LINE_BYTES], barrier[CLI_CELL_BYTES];
    text_barrier(roll, barrier);
    (void)snprintf(line, sizeof(line),
                   "roll/%.60s to v%llu: %s%s, %u of %u groups done, %u swapping%s%s%.240s",
                   roll->meta != NULL ? roll->meta->name : roll->model,
                   (unsigned long long)roll->to_seq,
                   cli_text_enum(&baton__v1__roll_state__descriptor, (int)roll->state),
                   roll->degraded ? " (degraded)" : "", roll->groups_done, roll->groups_total,
                   roll->groups_swapping, barrier, roll->canary_message[0] != '\0' ? "; " : "",
                   roll->canary_message);
    print_if_new(follow->last, line);
    for (size_t i = 0; follow->each_group && i < roll->n_groups; i++) {
        print_group(follow, roll, i);
    }
}

/* True if the roll tells how the command ends. */
static bool is_over(const Baton__V1__Roll *roll, bool each_group, enum cli_exit *code)
{
    switch (roll->state) {
    case BATON__V1__ROLL_STATE__ROLL_STATE_COMPLETED: *code = CLI_EXIT_OK; return true;
    case BATON__V1__ROLL_STATE__ROLL_STATE_SUPERSEDED:
    case BATON__V1__ROLL_STATE__ROLL_STATE_ABORTED:
    case BATON__V1__ROLL_STATE__ROLL_STATE_ROLLED_BACK:
    case BATON__V1__ROLL_STATE__ROLL_STATE_UNDONE: *code = CLI_EXIT_FAILED; return true;
    case BATON__V1__ROLL_STATE__ROLL_STATE_UNSPECIFIED:
    case BATON__V1__ROLL_STATE__ROLL_STATE_PROGRESSING:
    case BATON__V1__ROLL_STATE__ROLL_STATE_PAUSED:
    case _BATON__V1__ROLL_STATE_IS_INT_SIZE: break;
    }
    *code = CLI_EXIT_DEGRADED;
    return roll->degraded && !each_group;
}

/* Number of the model's newest roll, or 0 after an error was printed. */
static uint64_t newest_roll(struct cli *cli, const char *model, enum cli_exit *code)
{
    Baton__V1__GetRollRequest *request = baton_wire_new(&baton__v1__get_roll_request__descriptor);
    request->model = baton_wire_text(request, model);
    void *reply = NULL;
    uint64_t timeout_ns = cli->timeout_ns;
    cli->timeout_ns = 0;
    *code = cli_call(cli, "baton.v1.Rolls/Get", request, &reply);
    cli->timeout_ns = timeout_ns;
    baton_wire_free(request);
    uint64_t number = reply != NULL ? ((const Baton__V1__Roll *)reply)->number : 0;
    baton_wire_free(reply);
    return number;
}

/* Prints until the roll is over; else 'out' says why the stream ended, and it is not printed yet. */
static bool follow_stream(struct follow *follow, struct rpc_stream *stream, enum cli_exit *code,
                          struct baton_status *out)
{
    bool over = false;
    struct rpc_next next = { .kind = RPC_NEXT_END };
    while (!over && (next = rpc_stream_next(stream, RPC_NO_TIMEOUT)).kind == RPC_NEXT_MESSAGE) {
        const Baton__V1__WatchRollsResponse *change = next.message;
        if (change->roll != NULL && change->roll->number == follow->number) {
            print_roll(follow, change->roll);
            over = is_over(change->roll, follow->each_group, code);
        }
        baton_wire_free(next.message);
    }
    *out = next.status;
    return over;
}

static enum cli_exit follow_roll(struct cli *cli, const char *model, bool each_group)
{
    static struct follow follow; /* Its lines are too many for a stack. */
    enum cli_exit code;
    follow = (struct follow){ .cli = cli, .each_group = each_group };
    follow.number = newest_roll(cli, model, &code);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    Baton__V1__WatchRollsRequest *request =
        baton_wire_new(&baton__v1__watch_rolls_request__descriptor);
    request->model = baton_wire_text(request, model);
    bool over = false;
    while (!over) {
        struct rpc_stream *stream;
        struct baton_status st;
        code = cli_stream(cli, "baton.v1.Rolls/Watch", request, cli->timeout_ns, &stream);
        if (code != CLI_EXIT_OK) {
            break;
        }
        over = follow_stream(&follow, stream, &code, &st);
        rpc_stream_unref(stream);
        if (!over && !cli_is_elsewhere(cli, &st)) {
            code = cli_fail(&st);
            over = true;
        }
        cli->found_leader = false; /* Another one leads now: the watch goes on there. */
    }
    baton_wire_free(request);
    return code;
}

enum cli_exit cli_roll_status(struct cli *cli, const char *model)
{
    return follow_roll(cli, model, false);
}

enum cli_exit cli_roll_watch(struct cli *cli, const char *model)
{
    return follow_roll(cli, model, true);
}
