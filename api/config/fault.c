/* fault.c -- the line of a key, for what a schema cannot refuse; see config.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "api/config/config.h"

enum { PART_BYTES = 64 };

static yaml_node_t *child_of(yaml_document_t *document, const yaml_node_t *node, const char *part)
{
    if (node->type == YAML_SEQUENCE_NODE && part[0] == '[') {
        size_t index = strtoul(part + 1, NULL, 10);
        size_t count = (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
        return index < count
                   ? yaml_document_get_node(document, node->data.sequence.items.start[index])
                   : NULL;
    }
    if (node->type != YAML_MAPPING_NODE) {
        return NULL;
    }
    for (yaml_node_pair_t *pair = node->data.mapping.pairs.start;
         pair < node->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(document, pair->key);
        if (key->type == YAML_SCALAR_NODE &&
            strcmp((const char *)key->data.scalar.value, part) == 0) {
            return yaml_document_get_node(document, pair->value);
        }
    }
    return NULL;
}

/* Takes "name" or "[3]" off the front of a key; the rest. */
static const char *take_part(const char *key, char out[PART_BYTES])
{
    size_t size = key[0] == '[' ? strcspn(key, "]") + 1 : strcspn(key, ".[");
    size = size < strlen(key) ? size : strlen(key);
    size_t kept = size < PART_BYTES - 1 ? size : PART_BYTES - 1;
    memcpy(out, key, kept);
    out[kept] = '\0';
    return key + size + (key[size] == '.');
}

static unsigned long line_of(yaml_document_t *document, const char *key)
{
    yaml_node_t *node = yaml_document_get_root_node(document);
    unsigned long line = 1;
    char part[PART_BYTES];
    while (node != NULL) {
        line = node->start_mark.line + 1;
        if (key[0] == '\0') {
            break;
        }
        key = take_part(key, part);
        node = child_of(document, node, part);
    }
    return line;
}

struct baton_status baton_config_fault(const char *path, const char *key, const char *what)
{
    yaml_parser_t parser;
    yaml_document_t document;
    unsigned long line = 1;
    FILE *file = fopen(path, "re");
    if (file != NULL && yaml_parser_initialize(&parser) != 0) {
        yaml_parser_set_input_file(&parser, file);
        if (yaml_parser_load(&parser, &document) != 0) {
            line = line_of(&document, key);
            yaml_document_delete(&document);
        }
        yaml_parser_delete(&parser);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return baton_status_hint(baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                               "%s:%lu: %s: %s", path, line, key, what),
                             "correct the file and start again");
}
