/* print.c -- tables, JSON, YAML and names on stdout; see print.h. */
#include "controller/cli/print.h"

#include <stdio.h>
#include <string.h>

#include "controller/cli/yaml.h"

enum { COLUMNS_MAX = 24 };

static bool is_shown(const struct cli *cli, const struct cli_column *column)
{
    return !column->wide || cli->output == CLI_OUTPUT_WIDE;
}

static void print_cells(char cells[][CLI_CELL_BYTES], const size_t widths[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int width = i + 1 < count ? (int)widths[i] : 0;
        (void)printf("%-*s%s", width, cells[i], i + 1 < count ? "   " : "\n");
    }
}

/* Fills the shown cells of one item and grows the widths; returns how many. */
static size_t fill_cells(const struct cli *cli, const struct cli_kind *kind, const void *item,
                         char cells[][CLI_CELL_BYTES], size_t widths[])
{
    size_t count = 0;
    for (size_t i = 0; i < kind->columns_count; i++) {
        const struct cli_column *column = &kind->columns[i];
        if (!is_shown(cli, column)) {
            continue;
        }
        cells[count][0] = '\0';
        if (item != NULL) {
            column->cell(item, cells[count]);
        } else {
            (void)snprintf(cells[count], CLI_CELL_BYTES, "%s", column->title);
        }
        if (cells[count][0] == '\0') {
            (void)snprintf(cells[count], CLI_CELL_BYTES, "-");
        }
        size_t size = strlen(cells[count]);
        widths[count] = size > widths[count] ? size : widths[count];
        count++;
    }
    return count;
}

static void print_table(const struct cli *cli, const struct cli_kind *kind, void *const *items,
                        size_t count)
{
    char cells[COLUMNS_MAX][CLI_CELL_BYTES];
    size_t widths[COLUMNS_MAX] = { 0 };
    if (count == 0) {
        (void)fprintf(stderr, "no %s\n", kind->plural);
        return;
    }
    for (size_t i = 0; i <= count; i++) { /* The titles count as an item without a message. */
        (void)fill_cells(cli, kind, i < count ? items[i] : NULL, cells, widths);
    }
    if (!cli->no_headers) {
        print_cells(cells, widths, fill_cells(cli, kind, NULL, cells, widths));
    }
    for (size_t i = 0; i < count; i++) {
        print_cells(cells, widths, fill_cells(cli, kind, items[i], cells, widths));
    }
}

void cli_print_row(const struct cli *cli, const struct cli_kind *kind, const void *item,
                   size_t widths[])
{
    char cells[COLUMNS_MAX][CLI_CELL_BYTES];
    if (cli->output != CLI_OUTPUT_TABLE && cli->output != CLI_OUTPUT_WIDE) {
        if (cli->output == CLI_OUTPUT_NAME) {
            void *items[] = { (void *)(uintptr_t)item };
            cli_print_items(cli, kind, items, 1, false);
        } else {
            cli_print_stream(cli, item);
        }
    } else {
        if (widths[0] == 0) {
            size_t count = fill_cells(cli, kind, NULL, cells, widths);
            char values[COLUMNS_MAX][CLI_CELL_BYTES];
            (void)fill_cells(cli, kind, item, values, widths);
            for (size_t i = 0; i < count; i++) {
                widths[i] = widths[i] < 10 ? 10 : widths[i];
            }
            if (!cli->no_headers) {
                print_cells(cells, widths, count);
            }
        }
        print_cells(cells, widths, fill_cells(cli, kind, item, cells, widths));
    }
    (void)fflush(stdout);
}

static void print_json(const struct cli *cli, const json_t *value)
{
    if (cli->output == CLI_OUTPUT_YAML) {
        cli_yaml_print(stdout, value);
    } else {
        (void)json_dumpf(value, stdout, JSON_INDENT(2));
        (void)fputc('\n', stdout);
    }
}

static json_t *to_json(const void *message)
{
    json_t *value = NULL;
    struct baton_status st = baton_wire_to_json(message, &value);
    if (!baton_ok(&st)) {
        (void)cli_fail(&st);
        return json_object();
    }
    return value;
}

void cli_print_message(const struct cli *cli, const void *message)
{
    json_t *value = to_json(message);
    print_json(cli, value);
    json_decref(value);
}

void cli_print_stream(const struct cli *cli, const void *message)
{
    if (cli->output == CLI_OUTPUT_YAML) {
        (void)puts("---");
    }
    cli_print_message(cli, message);
}

void cli_item_name(const struct cli_kind *kind, const void *item, char out[CLI_CELL_BYTES])
{
    const void *meta = cli_get_part(item, "meta");
    const char *name = meta != NULL ? cli_get_text(meta, "name") : cli_get_text(item, "name");
    const char *group = meta == NULL ? cli_get_text(item, "group") : "";
    (void)snprintf(out, CLI_CELL_BYTES, "%s/%.60s%s%.60s", kind->singular, group,
                   group[0] != '\0' ? "." : "", name);
}

static void print_names(const struct cli_kind *kind, void *const *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char name[CLI_CELL_BYTES];
        cli_item_name(kind, items[i], name);
        (void)puts(name);
    }
}

void cli_print_items(const struct cli *cli, const struct cli_kind *kind, void *const *items,
                     size_t count, bool is_list)
{
    if (cli->output == CLI_OUTPUT_TABLE || cli->output == CLI_OUTPUT_WIDE) {
        print_table(cli, kind, items, count);
    } else if (cli->output == CLI_OUTPUT_NAME) {
        print_names(kind, items, count);
    } else if (!is_list && count == 1) {
        cli_print_message(cli, items[0]);
    } else {
        json_t *array = json_array();
        for (size_t i = 0; i < count; i++) {
            (void)json_array_append_new(array, to_json(items[i]));
        }
        json_t *list = json_pack("{s:o}", "items", array);
        print_json(cli, list);
        json_decref(list);
    }
}
