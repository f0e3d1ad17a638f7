/* layout_fuzz.c -- foreign layout files: what is taken is sealed, and can be planned into itself. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transport/layout/plan.h"
#include "transport/layout_file/layout_file.h"

enum { ARENA_BYTES = 8 << 20, TEXT_BYTES_MAX = 1 << 14 };

static void must(bool condition)
{
    if (!condition) {
        abort();
    }
}

/* From a layout to itself: every element, no link below the bound; only memory may run out. */
static void plan_into_itself(const struct layout_file *file, struct baton_arena *arena)
{
    const struct layout *layout = file->layout;
    const struct layout_plan_options options = { .source_ranks_per_link = file->ranks_per_link,
                                                 .target_ranks_per_link = file->ranks_per_link };
    struct layout_plan *plan = NULL;
    struct baton_status st = layout_plan_create(layout, layout, &options, arena, &plan);
    if (baton_ok(&st)) {
        const struct layout_plan_figures *figures = layout_plan_figures(plan);
        must(figures->lower_bound <= figures->bottleneck);
        for (uint32_t c = 0; c < layout_plan_copies_count(plan); c++) {
            uint32_t holding = layout_plan_copy(plan, c)->target_holding;
            (void)layout_plan_strides(plan, c, layout_holding_get(layout, holding)->first_piece);
        }
    } else {
        /* A rename rule may give two tensors one name. */
        must(st.code == BATON_RESOURCE_EXHAUSTED || st.reason == BATON_REASON_INCOMPATIBLE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t memory[ARENA_BYTES];
    char *text = size <= TEXT_BYTES_MAX ? calloc(1, size + 1) : NULL;
    struct baton_arena arena = baton_arena_of(memory, sizeof(memory));
    struct layout_file file;
    if (text == NULL) {
        return 0;
    }
    memcpy(text, data, size);
    struct baton_status st = layout_file_parse("fuzz", text, &arena, &file);
    if (baton_ok(&st)) {
        plan_into_itself(&file, &arena);
    }
    free(text);
    return 0;
}
