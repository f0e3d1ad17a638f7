/* references_test.c -- baton.references.json: what is taken, and what is refused with which words. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/model/references.h"

#define ITEM "{\"prompt\":[1,2],\"logprobs\":[-0.5,0],\"tolerance\":0.05}"

static void refuse(const char *text, const char *words)
{
    struct references *references = NULL;
    struct baton_status st = references_parse(baton_bytes_of(text), &references);
    cr_expect_eq(st.code, BATON_INVALID_ARGUMENT, "taken: %s", text);
    cr_expect_not_null(strstr(st.message, words), "%s: %s", text, st.message);
}

Test(references, takes_what_is_right)
{
    struct references *references = NULL;
    struct baton_status st =
        references_parse(baton_bytes_of("{\"references\":[" ITEM "," ITEM "]}"), &references);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(references->count, 2);
    cr_expect_eq(references->items[1].prompt_count, 2);
    cr_expect_eq(references->items[1].prompt[1], 2);
    cr_expect_eq(references->items[1].logprobs_count, 2);
    cr_expect_eq(references->items[1].logprobs[0], -0.5);
    cr_expect_eq(references->items[1].tolerance, 0.05);
    references_destroy(references);
}

Test(references, refuses_by_item_and_key)
{
    refuse("", "JSON");
    refuse("[]", "must be {");
    refuse("{\"references\":[]}", "1 to 8 items");
    refuse("{\"references\":[1]}", "references[0]");
    refuse("{\"references\":[" ITEM ",{\"prompt\":[1],\"logprobs\":[-1]}]}",
           "references[1].tolerance");
    refuse("{\"references\":[{\"prompt\":[],\"logprobs\":[-1],\"tolerance\":1}]}", "prompt");
    refuse("{\"references\":[{\"prompt\":[-1],\"logprobs\":[-1],\"tolerance\":1}]}", "prompt");
    refuse("{\"references\":[{\"prompt\":[1.5],\"logprobs\":[-1],\"tolerance\":1}]}", "prompt");
    refuse("{\"references\":[{\"prompt\":[1],\"logprobs\":[0.5],\"tolerance\":1}]}", "logprobs");
    refuse("{\"references\":[{\"prompt\":[1],\"logprobs\":\"x\",\"tolerance\":1}]}", "logprobs");
    refuse("{\"references\":[{\"prompt\":[1],\"logprobs\":[-1],\"tolerance\":0}]}", "tolerance");
    refuse("{\"references\":[{\"prompt\":[1],\"logprobs\":[-1],\"tolerance\":1,\"text\":2}]}",
           "text");
}

/* Lists and the file are bounded. */
Test(references, bounds)
{
    size_t room = REFERENCES_BYTES_MAX + 2;
    char *text = malloc(room);
    int used = snprintf(text, room, "{\"references\":[{\"prompt\":[1");
    for (int i = 0; i < REFERENCE_PROMPT_MAX; i++) {
        used += snprintf(text + used, room - (size_t)used, ",1");
    }
    (void)snprintf(text + used, room - (size_t)used, "],\"logprobs\":[-1],\"tolerance\":1}]}");
    refuse(text, "1 to 1024");
    memset(text, ' ', REFERENCES_BYTES_MAX + 1);
    text[REFERENCES_BYTES_MAX + 1] = '\0';
    refuse(text, "longer than");
    free(text);
}
