#include "agent/engine/process_args.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BYTES_MAX = 32, ARG_BYTES_MAX = 64 << 10 };

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT, "no memory");
}

static size_t list_length(const char *const *list)
{
    size_t length = 0;
    while (list != NULL && list[length] != NULL) {
        length++;
    }
    return length;
}

void args_free(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        free(list[i]);
    }
    free(list);
}

struct baton_status args_copy(const char *const *list, char ***out)
{
    *out = NULL;
    if (list == NULL) {
        return baton_status_ok();
    }
    size_t length = list_length(list);
    char **copy = calloc(length + 1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < length; i++) {
        copy[i] = strdup(list[i]);
        if (copy[i] == NULL) {
            args_free(copy);
            copy = NULL;
        }
    }
    *out = copy;
    return copy != NULL ? baton_status_ok() : no_memory();
}

/* The length of "{letters}" at 'text', 0 if there is no such word. */
static size_t word_length(const char *text)
{
    size_t length = 1;
    while (isalpha((unsigned char)text[length])) {
        length++;
    }
    return text[0] == '{' && length > 1 && text[length] == '}' ? length + 1 : 0;
}

static bool word_is(const char *text, size_t length, const char *word)
{
    return strlen(word) == length - 2 && strncmp(text + 1, word, length - 2) == 0;
}

static const char *word_value(const struct args_words *words, const char *text, size_t length)
{
    if (word_is(text, length, "checkpoint")) {
        return words->checkpoint;
    }
    if (word_is(text, length, "guardPage")) {
        return words->guard_page;
    }
    return word_is(text, length, "tokenFile") ? words->token_file : NULL;
}

static struct baton_status unknown_word(const char *text, size_t length, size_t index)
{
    return baton_status_hint(
        baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                          "command[%zu]: %.*s is not known", index,
                          (int)(length < WORD_BYTES_MAX ? length : WORD_BYTES_MAX), text),
        "use {checkpoint}, {guardPage} or {tokenFile}");
}

/* Writes 'argument' with its words replaced into 'out', which holds ARG_BYTES_MAX. */
static struct baton_status expand(const char *argument, size_t index,
                                  const struct args_words *words, char *out)
{
    size_t used = 0;
    for (const char *at = argument; *at != '\0';) {
        size_t length = word_length(at);
        const char *piece = at;
        size_t piece_length = 1;
        if (length > 0) {
            piece = word_value(words, at, length);
            if (piece == NULL) {
                return unknown_word(at, length, index);
            }
            piece_length = strlen(piece);
        }
        if (used + piece_length >= ARG_BYTES_MAX) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                     "command[%zu] is longer than %d bytes", index, ARG_BYTES_MAX);
        }
        memcpy(out + used, piece, piece_length);
        used += piece_length;
        at += length > 0 ? length : 1;
    }
    out[used] = '\0';
    return baton_status_ok();
}

static struct baton_status fill(const char *const *head, const char *const *argv,
                                const struct args_words *words, char **list)
{
    size_t count = list_length(head);
    char *scratch = malloc(ARG_BYTES_MAX);
    struct baton_status st = scratch != NULL ? baton_status_ok() : no_memory();
    for (size_t i = 0; baton_ok(&st) && i < count; i++) {
        list[i] = strdup(head[i]);
        st = list[i] != NULL ? st : no_memory();
    }
    for (size_t i = 0; baton_ok(&st) && argv[i] != NULL; i++) {
        st = expand(argv[i], i, words, scratch);
        if (baton_ok(&st)) {
            list[count + i] = strdup(scratch);
            st = list[count + i] != NULL ? st : no_memory();
        }
    }
    free(scratch);
    return st;
}

struct baton_status args_make(const char *const *head, const char *const *argv,
                              const struct args_words *words, char ***out)
{
    *out = NULL;
    if (list_length(argv) == 0 || list_length(argv) > PROCESS_ARGS_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "command has %zu words; 1 to %d are possible", list_length(argv),
                                 PROCESS_ARGS_MAX);
    }
    char **list = calloc(list_length(head) + list_length(argv) + 1, sizeof *list);
    if (list == NULL) {
        return no_memory();
    }
    struct baton_status st = fill(head, argv, words, list);
    if (!baton_ok(&st)) {
        args_free(list);
        return st;
    }
    *out = list;
    return st;
}

/* Puts "NAME=value" in place of an entry of that name, else at the end.  Takes 'entry'. */
static bool env_put_take(char **list, size_t *count, char *entry)
{
    if (entry == NULL) {
        return false;
    }
    size_t name = strcspn(entry, "=") + 1;
    for (size_t i = 0; i < *count; i++) {
        if (strncmp(list[i], entry, name) == 0) {
            free(list[i]);
            list[i] = entry;
            return true;
        }
    }
    list[(*count)++] = entry;
    return true;
}

static bool env_put_path(char **list, size_t *count, const char *name, const char *value)
{
    char entry[BATON_PATH_BYTES + BATON_NAME_BYTES];
    if (value == NULL || value[0] == '\0') {
        return true;
    }
    (void)snprintf(entry, sizeof entry, "%s=%s", name, value);
    return env_put_take(list, count, strdup(entry));
}

struct baton_status args_env(const char *const *env, const struct args_words *words, char ***out)
{
    const char *const *own = (const char *const *)environ;
    size_t count = 0;
    *out = NULL;
    if (list_length(env) > PROCESS_ENV_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "env has more than %d entries", PROCESS_ENV_MAX);
    }
    char **list = calloc(list_length(own) + list_length(env) + 3, sizeof *list);
    bool fits = list != NULL;
    for (size_t i = 0; fits && own[i] != NULL; i++) {
        fits = env_put_take(list, &count, strdup(own[i]));
    }
    for (size_t i = 0; fits && env != NULL && env[i] != NULL; i++) {
        fits = env_put_take(list, &count, strdup(env[i]));
    }
    fits = fits && env_put_path(list, &count, "BATON_GUARD_PAGE", words->guard_page) &&
           env_put_path(list, &count, "BATON_GUARD_TOKEN_FILE", words->token_file);
    if (!fits) {
        args_free(list);
        return no_memory();
    }
    *out = list;
    return baton_status_ok();
}
