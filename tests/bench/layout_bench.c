/* layout_bench.c -- how long a plan takes, what it needs, and how far its busiest link is from what no plan can go below.
 *
 * usage: layout_bench
 *
 * Figures (one JSON object a line), CPU time of one core:
 *   layout_plan_256    a 1T-parameter MoE (Kimi-K2's numbers, BF16, 70,000 tensors), source EP64 x FSDP8, target 256 ranks
 *                      EP32 x TP8; aim 0.3 s
 *   layout_plan_2048   the same for 2,048 ranks, eight replicas of those; aim 2 s
 *   layout_memory      of this process after the first: both layouts, their building, and the plan; aim 512 MiB
 *   layout_balance_*   the plan's busiest link over the lower bound, for these two and for shapes that peers publish; aim 1.05
 *   layout_share_*     the same of source links alone: how fair equal sources share; aim 1.05
 *
 * The building of the layouts is not in the times; it is printed to stderr. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "transport/layout/family.h"
#include "transport/layout/plan.h"

#define ARENA_BYTES (UINT64_C(8) << 30) /* Of addresses; what is touched is counted. */

enum { ROUNDS = 5 };

static const struct layout_family kimi = { .kind = LAYOUT_KIND_MLA,
                                           .dtype = TENSOR_DTYPE_BF16,
                                           .layers = 61,
                                           .dense_layers = 1,
                                           .hidden = 7168,
                                           .heads = 64,
                                           .intermediate = 18432,
                                           .vocab = 163840,
                                           .experts = 384,
                                           .expert_intermediate = 2048,
                                           .shared_intermediate = 2048,
                                           .q_lora = 1536,
                                           .kv_lora = 512,
                                           .nope_dim = 128,
                                           .rope_dim = 64,
                                           .v_dim = 128,
                                           .has_router_bias = true };
static const struct layout_family qwen235 = { .kind = LAYOUT_KIND_MOE,
                                              .dtype = TENSOR_DTYPE_BF16,
                                              .layers = 94,
                                              .hidden = 4096,
                                              .heads = 64,
                                              .kv_heads = 4,
                                              .head_dim = 128,
                                              .vocab = 151936,
                                              .experts = 128,
                                              .expert_intermediate = 1536,
                                              .has_qk_norm = true };
static const struct layout_family qwen30 = { .kind = LAYOUT_KIND_MOE,
                                             .dtype = TENSOR_DTYPE_BF16,
                                             .layers = 48,
                                             .hidden = 2048,
                                             .heads = 32,
                                             .kv_heads = 4,
                                             .head_dim = 128,
                                             .vocab = 151936,
                                             .experts = 128,
                                             .expert_intermediate = 768,
                                             .has_qk_norm = true };

struct side {
    enum layout_style style;
    struct layout_mesh mesh;
    struct layout_mesh expert_mesh;
    const char *fsdp_axis;
};

/* Sources and targets; the named ones are those of the peers' published runs. */
static const struct shape {
    const char *name;
    const struct layout_family *family;
    struct side source, target;
} shapes[] = {
    { "256",
      &kimi,
      { LAYOUT_STYLE_HF,
        { { { "dp", 64 }, { "fsdp", 8 } }, 2 },
        { { { "ep", 64 }, { "fsdp", 8 } }, 2 },
        "fsdp" },
      { LAYOUT_STYLE_VLLM,
        { { { "dp", 32 }, { "tp", 8 } }, 2 },
        { { { "ep", 32 }, { "etp", 8 } }, 2 },
        NULL } },
    { "2048",
      &kimi,
      { LAYOUT_STYLE_HF,
        { { { "dp", 64 }, { "fsdp", 8 } }, 2 },
        { { { "ep", 64 }, { "fsdp", 8 } }, 2 },
        "fsdp" },
      { LAYOUT_STYLE_VLLM,
        { { { "dp", 256 }, { "tp", 8 } }, 2 },
        { { { "replica", 8 }, { "ep", 32 }, { "etp", 8 } }, 3 },
        NULL } },
    { "kimi_k2_tp8_pp8_ep32_to_tp32_ep32",
      &kimi,
      { LAYOUT_STYLE_MEGATRON,
        { { { "pp", 8 }, { "dp", 4 }, { "tp", 8 } }, 3 },
        { { { "pp", 8 }, { "ep", 32 } }, 2 },
        NULL },
      { LAYOUT_STYLE_VLLM, { { { "tp", 32 } }, 1 }, { { { "ep", 32 } }, 1 }, NULL } },
    { "qwen3_235b_tp4_pp4_ep16_to_tp32_ep32",
      &qwen235,
      { LAYOUT_STYLE_MEGATRON,
        { { { "pp", 4 }, { "dp", 4 }, { "tp", 4 } }, 3 },
        { { { "pp", 4 }, { "ep", 16 } }, 2 },
        NULL },
      { LAYOUT_STYLE_VLLM, { { { "tp", 32 } }, 1 }, { { { "ep", 32 } }, 1 }, NULL } },
    { "qwen3_30b_ep8_pp2_to_tp8_dp2",
      &qwen30,
      { LAYOUT_STYLE_MEGATRON,
        { { { "pp", 2 }, { "dp", 8 } }, 2 },
        { { { "pp", 2 }, { "ep", 8 } }, 2 },
        NULL },
      { LAYOUT_STYLE_VLLM, { { { "dp", 2 }, { "tp", 8 } }, 2 }, { .count = 0 }, NULL } },
};
enum { SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

/* Of this process: others on the machine do not count. */
static double processor_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void must(const struct baton_status *st)
{
    if (!baton_ok(st)) {
        (void)fprintf(stderr, "layout_bench: %s\n", st->message);
        exit(2);
    }
}

static struct layout *build(const struct shape *shape, const struct side *side,
                            struct baton_arena *arena)
{
    struct layout_family family = *shape->family;
    struct layout_spec spec = { .name = shape->name,
                                .mesh = side->mesh,
                                .expert_mesh = side->expert_mesh,
                                .fsdp_axis = side->fsdp_axis };
    struct layout *layout = NULL;
    family.style = side->style;
    struct baton_status st = layout_family_fill(&family, arena, &spec);
    must(&st);
    st = layout_expand(&spec, arena, &layout);
    must(&st);
    return layout;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Plans several times in the same memory; the median of the times. */
static double time_plan(const struct layout *source, const struct layout *target,
                        struct baton_arena *arena, struct layout_plan **plan)
{
    static const struct layout_plan_options options;
    double seconds[ROUNDS];
    size_t used = arena->used;
    for (int round = 0; round < ROUNDS; round++) {
        arena->used = used;
        double began = processor_s();
        struct baton_status st = layout_plan_create(source, target, &options, arena, plan);
        seconds[round] = processor_s() - began;
        must(&st);
    }
    qsort(seconds, ROUNDS, sizeof(seconds[0]), compare);
    return seconds[ROUNDS / 2];
}

static int print(const char *name, const char *unit, double value, const char *anchor,
                 double anchor_value)
{
    double ratio = value / anchor_value;
    bool is_met = strcmp(anchor, "aim") == 0 ? ratio <= 1 : ratio <= 1.05;
    (void)printf("{\"name\": \"%s\", \"value\": %.3f, \"unit\": \"%s\", \"anchor\": \"%s\", "
                 "\"anchor_value\": %.3f, \"ratio\": %.3f, \"target\": %s, \"met\": %s}\n",
                 name, value, unit, anchor, anchor_value, ratio,
                 strcmp(anchor, "aim") == 0 ? "1" : "1.05", is_met ? "true" : "false");
    return is_met ? 0 : 1;
}

static int print_memory(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return print("layout_memory", "MiB", (double)usage.ru_maxrss / 1024, "aim", 512);
}

static int measure(const struct shape *shape, struct baton_arena *arena)
{
    struct layout_plan *plan = NULL;
    char name[80];
    double began = processor_s();
    baton_arena_reset(arena);
    struct layout *source = build(shape, &shape->source, arena);
    struct layout *target = build(shape, &shape->target, arena);
    double built = processor_s() - began;
    double seconds = time_plan(source, target, arena, &plan);
    const struct layout_plan_figures *figures = layout_plan_figures(plan);
    (void)fprintf(stderr,
                  "%s: %u tensors, %u to %u ranks: layouts %.2f s, plan %.3f s, %u copies, %.1f GB "
                  "sent, %.1f GB delivered\n",
                  shape->name, figures->tensors, layout_ranks_count(source),
                  layout_ranks_count(target), built, seconds, layout_plan_copies_count(plan),
                  (double)figures->bytes / 1e9, (double)figures->delivered_bytes / 1e9);
    int missed = 0;
    if (shape == &shapes[0]) {
        missed += print("layout_plan_256", "s", seconds, "aim", 0.3);
        missed += print_memory();
    } else if (shape == &shapes[1]) {
        missed += print("layout_plan_2048", "s", seconds, "aim", 2);
    }
    (void)snprintf(name, sizeof(name), "layout_balance_%s", shape->name);
    missed += print(name, "GB", (double)figures->bottleneck / 1e9, "lower bound",
                    (double)figures->lower_bound / 1e9);
    (void)snprintf(name, sizeof(name), "layout_share_%s", shape->name);
    return missed + print(name, "GB", (double)figures->egress_max / 1e9, "lower bound",
                          (double)figures->egress_bound / 1e9);
}

int main(void)
{
    void *memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int missed = 0;
    if (memory == MAP_FAILED) {
        perror("layout_bench: mmap");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    struct baton_arena arena = baton_arena_of(memory, ARENA_BYTES);
    for (int i = 0; i < SHAPES; i++) {
        missed += measure(&shapes[i], &arena);
    }
    return missed == 0 ? 0 : 1;
}
