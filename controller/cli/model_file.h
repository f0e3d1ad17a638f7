/* model_file.h -- a model's YAML file.
 *
 * Depends on: api/config, cli.h.  Threads: one.  Ownership: the request is the caller's. */
#ifndef CONTROLLER_CLI_MODEL_FILE_H
#define CONTROLLER_CLI_MODEL_FILE_H

#include "api/base/status.h"

struct Baton__V1__ApplyModelRequest;

/* Reads the file into a new request (a wire root).  Errors name file, line and key. */
BATON_MUST_USE struct baton_status cli_model_file_read(const char *path,
                                                       struct Baton__V1__ApplyModelRequest **out);

#endif /* model_file.h */
