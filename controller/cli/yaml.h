/* yaml.h -- prints JSON values as block-style YAML.
 *
 * Depends on: jansson.  Threads: any.  Ownership: all borrowed. */
#ifndef CONTROLLER_CLI_YAML_H
#define CONTROLLER_CLI_YAML_H

#include <jansson.h>
#include <stdio.h>

/* Writes 'value' as YAML, ended by a newline. */
void cli_yaml_print(FILE *out, const json_t *value);

#endif /* yaml.h */
