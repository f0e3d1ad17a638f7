/* list.c -- pages of a list call put together; see list.h. */
#include "controller/cli/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/wire/wire.h"

static bool append(struct cli_list *list, void **items, size_t count)
{
    void **grown = realloc(list->items, (list->count + count + 1) * sizeof(void *));
    if (grown == NULL) {
        return false;
    }
    if (count > 0) {
        memcpy(grown + list->count, items, count * sizeof(void *));
    }
    list->items = grown;
    list->count += count;
    return true;
}

enum cli_exit cli_list_fetch(struct cli *cli, const struct cli_kind *kind, struct cli_list *list)
{
    *list = (struct cli_list){ .pages_count = 0 };
    const char *token = "";
    do {
        void *request = baton_wire_new(baton_wire_find_message(kind->list_request));
        void *reply = NULL;
        cli_set_text(request, "model", cli->model);
        cli_set_text(request, "page_token", token);
        enum cli_exit code = cli_call(cli, kind->list_method, request, &reply);
        baton_wire_free(request);
        if (code != CLI_EXIT_OK) {
            return code;
        }
        list->pages[list->pages_count++] = reply;
        size_t count;
        void **items = cli_get_items(reply, &count);
        if (!append(list, items, count)) {
            return CLI_EXIT_FAILED;
        }
        list->revision = cli_get_u64(reply, "revision");
        token = cli_get_text(reply, "next_page_token");
    } while (token[0] != '\0' && list->pages_count < CLI_PAGES_MAX);
    if (token[0] != '\0') {
        (void)fprintf(stderr, "error: the list has more than %d pages\n", CLI_PAGES_MAX);
        return CLI_EXIT_FAILED;
    }
    return CLI_EXIT_OK;
}

void cli_list_free(struct cli_list *list)
{
    for (size_t i = 0; i < list->pages_count; i++) {
        baton_wire_free(list->pages[i]);
    }
    free(list->items);
    *list = (struct cli_list){ .pages_count = 0 };
}

void *cli_list_find(const struct cli_list *list, const struct cli_kind *kind, const char *name)
{
    const char *seq = name[0] == 'v' ? name + 1 : name;
    for (size_t i = 0; i < list->count; i++) {
        char full[CLI_CELL_BYTES], number[32];
        cli_item_name(kind, list->items[i], full);
        (void)snprintf(number, sizeof(number), "%llu",
                       (unsigned long long)cli_get_u64(list->items[i], "seq"));
        bool is_version = strcmp(kind->singular, "version") == 0 && strcmp(number, seq) == 0;
        if (strcmp(strchr(full, '/') + 1, name) == 0 || is_version) {
            return list->items[i];
        }
    }
    return NULL;
}
