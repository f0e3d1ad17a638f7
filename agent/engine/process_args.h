/* process_args.h -- the command and environment of an engine, for process.c alone.
 *
 * Depends on: api/base, process.h.  Threads: any.  Ownership: args_make/free. */
#ifndef AGENT_ENGINE_PROCESS_ARGS_H
#define AGENT_ENGINE_PROCESS_ARGS_H

#include "agent/engine/process.h"
#include "api/base/status.h"

/* What the words in braces stand for. */
struct args_words {
    const char *checkpoint;
    const char *guard_page;
    const char *token_file;
};

/* A null-terminated copy of 'argv' with the words replaced, after 'head' (null-terminated) as it is.
 * A brace around anything but a word of letters is left alone: arguments may be JSON. */
BATON_MUST_USE struct baton_status args_make(const char *const *head, const char *const *argv,
                                             const struct args_words *words, char ***out);

/* A null-terminated copy of the agent's environment with 'env' (may be null) and the guard's two
 * variables over it. */
BATON_MUST_USE struct baton_status args_env(const char *const *env, const struct args_words *words,
                                            char ***out);

/* A plain copy; null stays null. */
BATON_MUST_USE struct baton_status args_copy(const char *const *list, char ***out);
void args_free(char **list);

#endif /* process_args.h */
