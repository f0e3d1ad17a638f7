/* get.c -- batonctl get KIND [NAME]: lists, one object, or a watch. */
#include <stdio.h>
#include <string.h>

#include "api/wire/wire.h"
#include "baton/v1/common.pb-c.h"
#include "controller/cli/list.h"

enum { WIDTHS_MAX = 24 };

static enum cli_exit unknown_kind(const char *name)
{
    return cli_usage("get what? models, versions, groups, engines, agents or rolls%s%s",
                     name != NULL ? ", not " : "", name != NULL ? name : "");
}

/* Prints each change until the stream's end or --timeout. */
static enum cli_exit watch(struct cli *cli, const struct cli_kind *kind, const char *name)
{
    size_t widths[WIDTHS_MAX] = { 0 };
    void *request = baton_wire_new(baton_wire_find_message(kind->watch_request));
    cli_set_text(request, "model", cli->model);
    struct rpc_stream *stream;
    enum cli_exit code = cli_stream(cli, kind->watch_method, request, cli->timeout_ns, &stream);
    baton_wire_free(request);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    struct rpc_next next;
    while ((next = rpc_stream_next(stream, RPC_NO_TIMEOUT)).kind == RPC_NEXT_MESSAGE) {
        void *item = cli_get_part(next.message, kind->item_field);
        char full[CLI_CELL_BYTES] = "";
        if (item != NULL) {
            cli_item_name(kind, item, full);
        }
        if (item != NULL && (name == NULL || strcmp(strchr(full, '/') + 1, name) == 0)) {
            cli_print_row(cli, kind, item, widths);
        }
        baton_wire_free(next.message);
    }
    rpc_stream_unref(stream);
    bool timed_out = next.status.code == BATON_DEADLINE_EXCEEDED && cli->timeout_ns != 0;
    return baton_ok(&next.status) || timed_out ? CLI_EXIT_OK : cli_fail(&next.status);
}

static enum cli_exit not_found(const struct cli_kind *kind, const char *name)
{
    struct baton_status st =
        baton_status_make(BATON_NOT_FOUND, BATON_REASON_NONE, "no %s '%s'", kind->singular, name);
    st = baton_status_hint(st, "`batonctl get %s` lists them", kind->plural);
    return cli_fail(&st);
}

static enum cli_exit print(struct cli *cli, const struct cli_kind *kind, const char *name)
{
    struct cli_list list;
    enum cli_exit code = cli_list_fetch(cli, kind, &list);
    if (code == CLI_EXIT_OK && name == NULL) {
        cli_print_items(cli, kind, list.items, list.count, true);
    } else if (code == CLI_EXIT_OK) {
        void *item = cli_list_find(&list, kind, name);
        if (item != NULL) {
            cli_print_items(cli, kind, &item, 1, false);
        } else {
            code = not_found(kind, name);
        }
    }
    cli_list_free(&list);
    return code;
}

static bool has_model(const struct cli_kind *kind)
{
    return protobuf_c_message_descriptor_get_field_by_name(
               baton_wire_find_message(kind->list_request), "model") != NULL;
}

enum cli_exit cli_run_get(struct cli *cli)
{
    const char *kind_name = cli->words_count > 0 ? cli->words[0] : NULL;
    const char *name = NULL;
    const char *first = NULL;
    if (kind_name != NULL && (cli->words_count > 1 || strchr(kind_name, '/') != NULL)) {
        (void)cli_object(cli, NULL, &first, &name);
        kind_name = first;
    }
    const struct cli_kind *kind = cli_kind_find(kind_name);
    if (kind == NULL) {
        return unknown_kind(kind_name);
    }
    if (cli->model != NULL && !has_model(kind)) {
        return cli_usage("%s are not of one model: leave --model out", kind->plural);
    }
    if (!cli->watch) {
        return print(cli, kind, name);
    }
    if (kind->watch_method == NULL) {
        return cli_usage("%s cannot be watched; watch groups", kind->plural);
    }
    enum cli_exit code = cli_connect(cli);
    return code == CLI_EXIT_OK ? watch(cli, kind, name) : code;
}
