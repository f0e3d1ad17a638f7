/* options.c -- see options.h. */
#include "tests/miniengine/options.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/miniengine/ranks.h"

const char *argp_program_version = "miniengine " BATON_VERSION;

enum key {
    KEY_MODEL = 'm',
    KEY_PORT = 'p',
    KEY_HOST = 256,
    KEY_NAME,
    KEY_RANKS,
    KEY_LENGTH,
    KEY_BLOCKS,
    KEY_BACKEND,
    KEY_DRAIN,
    KEY_SLEEP,
    KEY_FAULTS,
    KEY_FAULT,
    KEY_WORKER,
};

static const struct argp_option table[] = {
    { "model", KEY_MODEL, "DIR", 0, "Checkpoint directory (config.json, safetensors, tokenizer)",
      0 },
    { "port", KEY_PORT, "N", 0, "Port; 0 takes a free one (default 8000)", 0 },
    { "host", KEY_HOST, "ADDRESS", 0, "IPv4 address to listen on (default 127.0.0.1)", 0 },
    { "served-model-name", KEY_NAME, "NAME", 0, "Name in requests (default: DIR)", 0 },
    { "tensor-parallel-size", KEY_RANKS, "N", 0, "Ranks, each a process (default 1)", 0 },
    { "max-model-len", KEY_LENGTH, "N", 0, "Tokens of prompt and output (default: the model's)",
      0 },
    { "kv-blocks", KEY_BLOCKS, "N", 0, "KV cache blocks of 16 tokens (default 1024)", 0 },
    { "weight-transfer-backend", KEY_BACKEND, "NAME", 0, "baton (default) or none", 0 },
    { "drain-seconds", KEY_DRAIN, "N", 0, "How long SIGTERM waits for requests (default 5)", 0 },
    { "enable-sleep-mode", KEY_SLEEP, NULL, 0,
      "/sleep releases memory; without it, it is a pause, as on a CPU", 0 },
    { "faults", KEY_FAULTS, NULL, 0, "Allow faults on demand: /miniengine/faults", 0 },
    { "fault", KEY_FAULT, "JSON", 0, "Set one fault from the start; implies --faults", 0 },
    { "worker", KEY_WORKER, "RANK", OPTION_HIDDEN, "", 0 },
    { NULL, 0, NULL, 0, NULL, 0 },
};

static uint32_t number(const char *text, uint32_t min, uint32_t max, const char *name,
                       struct argp_state *state)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*text == '\0' || *text == '-' || *end != '\0' || value < min || value > max) {
        argp_error(state, "--%s must be a whole number from %u to %u, not '%s'", name, min, max,
                   text);
    }
    return (uint32_t)value;
}

static void check(const struct options *o, struct argp_state *state)
{
    if (o->model == NULL) {
        argp_error(state, "--model is missing: give a checkpoint directory");
    }
    if (strcmp(o->backend, "baton") != 0 && o->backend[0] != '\0') {
        argp_error(state, "--weight-transfer-backend must be baton or none");
    }
}

static void add_fault(struct options *o, const char *text, struct argp_state *state)
{
    if (o->fault_count == OPTIONS_FAULTS_MAX) {
        argp_error(state, "at most %d --fault options", OPTIONS_FAULTS_MAX);
    }
    o->fault[o->fault_count++] = text;
    o->faults = true;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case KEY_MODEL: o->model = text; break;
    case KEY_PORT: o->port = number(text, 0, 65535, "port", state); break;
    case KEY_HOST: o->host = text; break;
    case KEY_NAME: o->served_name = text; break;
    case KEY_RANKS: o->ranks = number(text, 1, RANKS_MAX, "tensor-parallel-size", state); break;
    case KEY_LENGTH: o->length_max = number(text, 2, 4096, "max-model-len", state); break;
    case KEY_BLOCKS: o->blocks = number(text, 2, 1 << 20, "kv-blocks", state); break;
    case KEY_BACKEND: o->backend = strcmp(text, "none") == 0 ? "" : text; break;
    case KEY_DRAIN: o->drain_seconds = number(text, 0, 3600, "drain-seconds", state); break;
    case KEY_SLEEP: o->sleep_mode = true; break;
    case KEY_FAULTS: o->faults = true; break;
    case KEY_FAULT: add_fault(o, text, state); break;
    case KEY_WORKER: o->worker = number(text, 1, RANKS_MAX - 1, "worker", state); break;
    case ARGP_KEY_ARG: argp_error(state, "unexpected '%s'", text); break;
    case ARGP_KEY_END: check(o, state); break;
    default: return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp parser = {
        .options = table,
        .parser = parse_option,
        .doc = "A small transformer server with vLLM's control routes, for tests of Baton.",
    };
    *options = (struct options){ .host = "127.0.0.1",
                                 .backend = "baton",
                                 .port = 8000,
                                 .ranks = 1,
                                 .blocks = 1024,
                                 .drain_seconds = 5 };
    (void)argp_parse(&parser, argc, argv, 0, NULL, options);
}
