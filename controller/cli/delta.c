/* delta.c -- batonctl delta: disk-delta directories made, checked and applied, without a
 * controller. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/cli/print.h"
#include "transport/delta/apply.h"
#include "transport/delta/publish.h"

enum { THREADS_DEFAULT_MAX = 16 };

enum { KEY_PUBLICATION = 0x2000, KEY_VERSION, KEY_ENCODING, KEY_CHECKSUM, KEY_THREADS };

const struct argp_option cli_delta_options[] = {
    { "publication", KEY_PUBLICATION, "DIR", 0, "The folder of the versions, weight_vNNNNNN", 0 },
    { "version", KEY_VERSION, "N", 0, "Version to write, check or come to; the first delta is 1",
      0 },
    { "encoding", KEY_ENCODING, "NAME", 0, "encode: xor (default) or overwrite", 0 },
    { "checksum", KEY_CHECKSUM, "NAME", 0, "encode: xxh3-128 (default), blake3 or adler32", 0 },
    { "threads", KEY_THREADS, "N", 0, "Threads (default: as many as processors, at most 16)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static struct {
    const char *publication;
    uint64_t version;
    const char *encoding;
    const char *checksum;
    unsigned threads; /* 0: not given. */
} given = { NULL, 0, "xor", "xxh3-128", 0 };

bool cli_delta_take(int key, const char *argument)
{
    switch (key) {
    case KEY_PUBLICATION: given.publication = argument; return true;
    case KEY_VERSION: given.version = cli_number("--version", argument); return true;
    case KEY_ENCODING: given.encoding = argument; return true;
    case KEY_CHECKSUM: given.checksum = argument; return true;
    case KEY_THREADS: {
        uint64_t number = cli_number("--threads", argument);
        given.threads = number < DELTA_THREADS_MAX ? (unsigned)number : DELTA_THREADS_MAX;
        return true;
    }
    default: return false;
    }
}

static unsigned default_threads(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1                     ? 1
           : processors < THREADS_DEFAULT_MAX ? (unsigned)processors
                                              : THREADS_DEFAULT_MAX;
}

static void print_encoded(const struct cli *cli, const struct delta_published *made)
{
    char digest[BATON_DIGEST_TEXT_BYTES], bytes[CLI_CELL_BYTES], delta[CLI_CELL_BYTES];
    digest_format(made->digests.result, digest);
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        (void)printf("{\"version\": %llu, \"tensors\": %llu, \"changedTensors\": %llu, "
                     "\"bytes\": %llu, \"changedBytes\": %llu, \"deltaBytes\": %llu, "
                     "\"shards\": %u, \"digest\": \"%s\"}\n",
                     (unsigned long long)given.version, (unsigned long long)made->tensors_count,
                     (unsigned long long)made->changed_tensors, (unsigned long long)made->bytes,
                     (unsigned long long)made->changed_bytes, (unsigned long long)made->delta_bytes,
                     made->shards_count, digest);
        return;
    }
    cli_text_bytes(made->bytes, bytes);
    cli_text_bytes(made->delta_bytes, delta);
    (void)printf("version %llu encoded: %llu of %llu tensors changed, %s for %s, digest %s\n",
                 (unsigned long long)given.version, (unsigned long long)made->changed_tensors,
                 (unsigned long long)made->tensors_count, delta, bytes, digest);
}

static enum cli_exit encode(struct cli *cli, const char *base, const char *next)
{
    struct delta_published made;
    struct delta_publish_options options = { .publication = given.publication,
                                             .base_dir = base,
                                             .next_dir = next,
                                             .version = given.version,
                                             .threads = given.threads };
    if (!delta_encoding_parse(given.encoding, &options.encoding)) {
        return cli_usage("--encoding takes xor or overwrite, not '%s'", given.encoding);
    }
    if (!delta_checksum_parse(given.checksum, &options.checksum)) {
        return cli_usage("--checksum takes xxh3-128, blake3 or adler32, not '%s'", given.checksum);
    }
    struct baton_status st = delta_publish(&options, &made);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    print_encoded(cli, &made);
    return CLI_EXIT_OK;
}

static void print_applied(const struct cli *cli, const struct delta_applied *done, bool wrote)
{
    char digest[BATON_DIGEST_TEXT_BYTES], bytes[CLI_CELL_BYTES];
    digest_format(done->digest, digest);
    if (cli->output == CLI_OUTPUT_JSON || cli->output == CLI_OUTPUT_YAML) {
        (void)printf("{\"from\": %llu, \"start\": %llu, \"version\": %llu, \"deltas\": %u, "
                     "\"changedTensors\": %llu, \"bytes\": %llu, \"digest\": \"%s\", "
                     "\"digestChecked\": %s}\n",
                     (unsigned long long)done->from, (unsigned long long)done->start,
                     (unsigned long long)given.version, done->deltas_count,
                     (unsigned long long)done->changed_tensors, (unsigned long long)done->bytes,
                     digest, done->digest_checked ? "true" : "false");
        return;
    }
    cli_text_bytes(done->bytes, bytes);
    (void)printf("version %llu %s: %u %s on version %llu, %llu tensors changed, %s, digest %s "
                 "(%s)\n",
                 (unsigned long long)given.version, wrote ? "applied" : "holds", done->deltas_count,
                 done->deltas_count == 1 ? "delta" : "deltas", (unsigned long long)done->start,
                 (unsigned long long)done->changed_tensors, bytes, digest,
                 done->digest_checked ? "the publisher's"
                                      : "the publisher wrote none: tensors that no delta changes "
                                        "were not checked");
}

static enum cli_exit apply(struct cli *cli, const char *checkpoint, const char *out)
{
    struct delta_applied done;
    struct delta_apply_options options = { given.publication, checkpoint, given.version, out,
                                           given.threads };
    struct baton_status st = delta_apply(&options, &done);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    print_applied(cli, &done, out != NULL);
    return CLI_EXIT_OK;
}

enum cli_exit cli_run_delta(struct cli *cli)
{
    const char *action = cli->words_count > 0 ? cli->words[0] : "";
    bool is_encode = strcmp(action, "encode") == 0;
    bool is_apply = strcmp(action, "apply") == 0;
    if (!is_encode && !is_apply && strcmp(action, "verify") != 0) {
        return cli_usage("delta does: encode BASE NEXT, verify CHECKPOINT, apply CHECKPOINT OUT");
    }
    if (cli->words_count != (is_encode || is_apply ? 3 : 2)) {
        return cli_usage("delta %s takes %s", action,
                         is_encode  ? "BASE and NEXT, two checkpoint directories"
                         : is_apply ? "CHECKPOINT and OUT, a directory that does not exist"
                                    : "CHECKPOINT, a directory");
    }
    if (given.publication == NULL || given.version == 0) {
        return cli_usage("delta needs --publication DIR and --version N");
    }
    given.threads = given.threads == 0 ? default_threads() : given.threads;
    return is_encode ? encode(cli, cli->words[1], cli->words[2])
                     : apply(cli, cli->words[1], is_apply ? cli->words[2] : NULL);
}
