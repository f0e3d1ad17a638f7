/* layout.c -- batonctl layout show|check|diff|plan: files only, no controller. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/config/config.h"
#include "controller/cli/layout_view.h"
#include "transport/layout_file/layout_file.h"

enum { KEY_RANK = 0x2100, KEY_COPIES, KEY_BUCKET };

/* Of addresses; what a layout does not need is never touched. */
#define ARENA_BYTES (UINT64_C(16) << 30)

const struct argp_option cli_layout_options[] = {
    { "rank", KEY_RANK, "N", 0, "show: only this rank, box by box", 0 },
    { "copies", KEY_COPIES, NULL, 0, "plan: list every copy", 0 },
    { "bucket", KEY_BUCKET, "SIZE", 0, "plan: bytes of a bucket (default 1GiB)", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static struct {
    uint32_t rank;
    bool has_copies;
    const char *bucket;
} chosen = { .rank = LAYOUT_NONE };

/* Ends the program if no layout can have such a rank. */
static uint32_t rank_of(const char *argument)
{
    uint64_t rank = cli_number("--rank", argument);
    if (rank >= LAYOUT_RANKS_MAX) {
        exit((int)cli_usage("--rank %s: no layout has more than %d ranks", argument,
                            LAYOUT_RANKS_MAX));
    }
    return (uint32_t)rank;
}

bool cli_layout_take(int key, const char *argument)
{
    switch (key) {
    case KEY_RANK: chosen.rank = rank_of(argument); break;
    case KEY_COPIES: chosen.has_copies = true; break;
    case KEY_BUCKET: chosen.bucket = argument; break;
    default: return false;
    }
    return true;
}

static enum cli_exit show(struct cli *cli, struct baton_arena *arena)
{
    struct layout_file file;
    struct baton_status st = layout_file_read(cli->words[1], arena, &file);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    if (chosen.rank != LAYOUT_NONE && chosen.rank >= layout_ranks_count(file.layout)) {
        return cli_usage("--rank %u: the layout has %u ranks, from 0 on", chosen.rank,
                         layout_ranks_count(file.layout));
    }
    cli_layout_show(cli, file.layout, chosen.rank);
    return CLI_EXIT_OK;
}

static enum cli_exit check(struct cli *cli, struct baton_arena *arena)
{
    struct layout_file file;
    struct baton_status st = layout_file_read(cli->words[1], arena, &file);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    cli_layout_check(cli, file.layout);
    return CLI_EXIT_OK;
}

static struct baton_status read_two(const struct cli *cli, struct baton_arena *arena,
                                    struct layout_file files[2])
{
    struct baton_status st = layout_file_read(cli->words[1], arena, &files[0]);
    return baton_ok(&st) ? layout_file_read(cli->words[2], arena, &files[1]) : st;
}

static enum cli_exit diff(struct cli *cli, struct baton_arena *arena)
{
    struct layout_file files[2];
    struct baton_status st = read_two(cli, arena, files);
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    return cli_layout_diff(cli, files[0].layout, files[1].layout) ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static enum cli_exit plan(struct cli *cli, struct baton_arena *arena)
{
    struct layout_file files[2];
    struct layout_plan_options options = { 0 };
    struct layout_plan *made = NULL;
    struct baton_status st =
        baton_config_bytes("--bucket", chosen.bucket, 0, &options.bucket_bytes);
    if (!baton_ok(&st)) {
        return cli_usage("%s", st.message);
    }
    st = read_two(cli, arena, files);
    if (baton_ok(&st)) {
        options.source_ranks_per_link = files[0].ranks_per_link;
        options.target_ranks_per_link = files[1].ranks_per_link;
        st = layout_plan_create(files[0].layout, files[1].layout, &options, arena, &made);
    }
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    cli_layout_plan(cli, files[0].layout, files[1].layout, made, chosen.has_copies);
    return CLI_EXIT_OK;
}

static const struct {
    const char *name;
    const char *words;
    int words_count;
    enum cli_exit (*run)(struct cli *cli, struct baton_arena *arena);
} actions[] = {
    { "show", "FILE", 2, show },
    { "check", "FILE", 2, check },
    { "diff", "FILE FILE", 3, diff },
    { "plan", "SOURCE TARGET", 3, plan },
};

enum cli_exit cli_run_layout(struct cli *cli)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (cli->words_count == 0 || strcmp(cli->words[0], actions[i].name) != 0) {
            continue;
        }
        if (cli->words_count != actions[i].words_count) {
            return cli_usage("layout %s takes %s", actions[i].name, actions[i].words);
        }
        void *memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            struct baton_status st = baton_status_errno(errno, "mmap", "a layout's memory");
            return cli_fail(&st);
        }
        struct baton_arena arena = baton_arena_of(memory, ARENA_BYTES);
        enum cli_exit code = actions[i].run(cli, &arena);
        (void)munmap(memory, ARENA_BYTES);
        return code;
    }
    return cli_usage("layout show, check, diff or plan?");
}
