/* publish.c -- batonctl publish DIR --model M: through the local agent, with progress. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/bytes.h"
#include "api/base/clock.h"
#include "api/client/baton.h"
#include "controller/cli/print.h"

enum { KEY_STEP = 0x2000, KEY_ITERATION, KEY_SAMPLES, KEY_PARENT, KEY_PARTIAL };

const struct argp_option cli_publish_options[] = {
    { "optimizer-step", KEY_STEP, "N", 0, "Trainer's optimizer step", 0 },
    { "rollout-iteration", KEY_ITERATION, "N", 0, "Trainer's rollout iteration", 0 },
    { "samples-trained", KEY_SAMPLES, "N", 0, "Samples trained so far", 0 },
    { "parent", KEY_PARENT, "SEQ", 0, "Version that it came from (default: the newest)", 0 },
    { "partial", KEY_PARTIAL, NULL, 0, "DIR holds the changed tensors only; the rest is inherited",
      0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static struct baton_publish_options publish_options = BATON_PUBLISH_OPTIONS_INIT;

bool cli_publish_take(int key, const char *argument)
{
    struct baton_publish_options *options = &publish_options;
    switch (key) {
    case KEY_STEP: options->optimizer_step = cli_number("--optimizer-step", argument); break;
    case KEY_ITERATION:
        options->rollout_iteration = cli_number("--rollout-iteration", argument);
        break;
    case KEY_SAMPLES: options->samples_trained = cli_number("--samples-trained", argument); break;
    case KEY_PARENT: options->parent_seq = cli_number("--parent", argument); break;
    case KEY_PARTIAL: options->partial = 1; break;
    default: return false;
    }
    return true;
}

static void text_remaining(const struct baton_progress *progress, char out[CLI_CELL_BYTES])
{
    if (progress->remaining_ms == UINT64_MAX) {
        (void)snprintf(out, CLI_CELL_BYTES, "-");
    } else {
        cli_text_duration(progress->remaining_ms * BATON_NS_PER_MS, out);
    }
}

static int show_progress(const struct baton_progress *progress, void *context)
{
    const struct cli *cli = context;
    char done[CLI_CELL_BYTES], total[CLI_CELL_BYTES], rate[CLI_CELL_BYTES], left[CLI_CELL_BYTES];
    if (cli->quiet || isatty(STDERR_FILENO) == 0) {
        return 0;
    }
    cli_text_bytes(progress->bytes_done, done);
    cli_text_bytes(progress->bytes_total, total);
    cli_text_bytes(progress->bytes_per_s, rate);
    text_remaining(progress, left);
    (void)fprintf(stderr, "\r\033[K%-10s %.40s of %.40s, %.40s/s, %.40s left", progress->phase_name,
                  done, total, rate, left);
    return 0;
}

static enum cli_exit fail(const struct baton_error *error)
{
    struct baton_status st = baton_status_make(
        (enum baton_code)error->code, baton_reason_from_name(error->reason), "%s", error->message);
    if (error->hint[0] != '\0') {
        st = baton_status_hint(st, "%s", error->hint);
    }
    return cli_fail(&st);
}

static void print_result(const struct cli *cli, const struct baton_published *result,
                         uint64_t took_ns)
{
    char bytes[CLI_CELL_BYTES], took[CLI_CELL_BYTES];
    if (cli->output == CLI_OUTPUT_NAME) {
        (void)printf("version/%s@%llu\n", result->model, (unsigned long long)result->seq);
    } else if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        (void)printf("{\"model\": \"%s\", \"seq\": %llu, \"uid\": \"%s\", \"digest\": \"%s\", "
                     "\"bytes\": %llu, \"tensors\": %llu, \"repeated\": %s}\n",
                     result->model, (unsigned long long)result->seq, result->uid, result->digest,
                     (unsigned long long)result->bytes, (unsigned long long)result->tensors,
                     result->repeated != 0 ? "true" : "false");
    } else {
        cli_text_bytes(result->bytes, bytes);
        cli_text_duration(took_ns, took);
        (void)printf("version/%s@%llu published: %llu tensors, %s in %s, digest %s%s\n",
                     result->model, (unsigned long long)result->seq,
                     (unsigned long long)result->tensors, bytes, took, result->digest,
                     result->repeated != 0 ? " (it was published before; nothing was done again)"
                                           : "");
    }
}

static enum cli_exit publish(struct cli *cli, struct baton_agent *agent, const char *directory)
{
    struct baton_error error = BATON_ERROR_INIT;
    struct baton_published result = BATON_PUBLISHED_INIT;
    uint64_t started_ns = baton_clock_monotonic_ns();
    publish_options.model = cli->model;
    publish_options.request_id = cli->request_id;
    publish_options.reason = cli->reason;
    publish_options.timeout_ms = cli->timeout_ns / BATON_NS_PER_MS;
    publish_options.progress = show_progress;
    publish_options.context = cli;
    int code = baton_publish_directory(agent, &publish_options, directory, &result, &error);
    if (!cli->quiet && isatty(STDERR_FILENO) != 0) {
        (void)fputs("\r\033[K", stderr);
    }
    if (code != 0) {
        return fail(&error);
    }
    print_result(cli, &result, baton_clock_monotonic_ns() - started_ns);
    return CLI_EXIT_OK;
}

enum cli_exit cli_run_publish(struct cli *cli)
{
    char directory[PATH_MAX];
    if (cli->words_count != 1) {
        return cli_usage("publish which directory?");
    }
    if (cli->model == NULL) {
        return cli_usage("publish for which model? say --model NAME");
    }
    if (realpath(cli->words[0], directory) == NULL) {
        struct baton_status st = baton_status_make(BATON_NOT_FOUND, BATON_REASON_IO,
                                                   "%s: no such directory", cli->words[0]);
        return cli_fail(&st);
    }
    struct baton_error error = BATON_ERROR_INIT;
    struct baton_agent *agent = NULL;
    if (baton_connect(cli->agent, 5000, &agent, &error) != 0) {
        return fail(&error);
    }
    enum cli_exit code = publish(cli, agent, directory);
    baton_close(agent);
    return code;
}
