/* options.h -- the command line of miniengine, understood.
 *
 * Depends on: argp.  Threads: main only.  Ownership: strings borrow from argv. */
#ifndef TESTS_MINIENGINE_OPTIONS_H
#define TESTS_MINIENGINE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { OPTIONS_FAULTS_MAX = 32 };

struct options {
    const char *model;
    const char *served_name;
    const char *host;
    const char *backend; /* Empty: none. */
    uint32_t port;
    uint32_t ranks;
    uint32_t length_max; /* 0: what the model allows. */
    uint32_t blocks;
    uint32_t drain_seconds;
    uint32_t worker; /* Above 0: this process is that rank. */
    bool sleep_mode;
    bool faults;
    const char *fault[OPTIONS_FAULTS_MAX]; /* JSON objects, set before the first request. */
    uint32_t fault_count;
};

/* Exits with a message for a command line that makes no sense. */
void options_parse(struct options *options, int argc, char **argv);

#endif /* options.h */
