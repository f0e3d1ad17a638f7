/* tokens.c -- see tokens.h. */
#include "api/rpc/tokens.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "api/base/file_mark.h"
#include "api/base/limits.h"
#include "api/base/log.h"

enum { DIGEST_BYTES = 32, LINE_BYTES = 512 };

struct token_row {
    uint8_t digest[DIGEST_BYTES];
    struct rpc_peer_name name;
};

struct token_rows {
    struct token_row *rows;
    size_t count;
};

struct rpc_tokens {
    char file[BATON_PATH_BYTES];
    pthread_mutex_t mutex;
    /* Under the mutex. */
    struct token_rows rows;
    struct baton_file_mark mark; /* Of the file when it was read last, good or not. */
};

/* --- the file --- */

static bool parse_hex(const char *text, uint8_t out[DIGEST_BYTES])
{
    for (int i = 0; i < DIGEST_BYTES; i++) {
        unsigned byte = 0;
        int taken = 0;
        if (sscanf(text + 2 * i, "%2x%n", &byte, &taken) != 1 || taken != 2 ||
            strspn(text + 2 * i, "0123456789abcdefABCDEF") < 2) {
            return false;
        }
        out[i] = (uint8_t)byte;
    }
    return true;
}

static bool is_name(const char *text)
{
    size_t size = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if (text[i] <= ' ' || text[i] > '~') {
            return false;
        }
    }
    return size > 0 && size < RPC_IDENTITY_BYTES;
}

/* What is wrong with a line; null: nothing. */
static const char *parse_row(char *line, struct token_row *out)
{
    static const char KIND[] = "sha256:";
    char *rest = NULL;
    char *digest = strtok_r(line, " \t", &rest);
    char *identity = strtok_r(NULL, " \t", &rest);
    if (digest == NULL || identity == NULL || strtok_r(NULL, " \t", &rest) != NULL) {
        return "is not 'sha256:HEX IDENTITY'";
    }
    if (strncmp(digest, KIND, strlen(KIND)) != 0 ||
        strlen(digest) != strlen(KIND) + (size_t)2 * DIGEST_BYTES ||
        !parse_hex(digest + strlen(KIND), out->digest)) {
        return "does not begin with 'sha256:' and 64 hexadecimal digits";
    }
    if (!is_name(identity)) {
        return "has an identity that is none, or too long";
    }
    out->name.kind = strncmp(identity, "spiffe://", 9) == 0 ? RPC_NAME_SPIFFE : RPC_NAME_DNS;
    (void)snprintf(out->name.text, sizeof(out->name.text), "%s", identity);
    return NULL;
}

static struct baton_status wrong(const char *file, unsigned line, const char *what)
{
    struct baton_status st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                               "%s:%u: the row %s", file, line, what);
    return baton_status_hint(st, "deploy/docs/security.md, Tokens, says how to make one");
}

static struct baton_status read_rows(const char *file, FILE *stream, struct token_rows *out)
{
    char line[LINE_BYTES];
    for (unsigned number = 1; fgets(line, sizeof(line), stream) != NULL; number++) {
        size_t size = strcspn(line, "\r\n");
        if (line[size] == '\0' && size + 1 == sizeof(line)) {
            return wrong(file, number, "is too long");
        }
        line[size] = '\0';
        if (line[strspn(line, " \t")] == '\0' || line[0] == '#') {
            continue;
        }
        if (out->count == RPC_TOKENS_MAX) {
            return wrong(file, number, "is one too many");
        }
        const char *fault = parse_row(line, &out->rows[out->count]);
        if (fault != NULL) {
            return wrong(file, number, fault);
        }
        out->count++;
    }
    return ferror(stream) != 0 ? baton_status_errno(EIO, "read", file) : baton_status_ok();
}

static struct baton_status load(const char *file, struct token_rows *out)
{
    FILE *stream = fopen(file, "re");
    if (stream == NULL) {
        return baton_status_in(baton_status_errno(errno, "open", file), "access.tokens");
    }
    *out = (struct token_rows){ calloc(RPC_TOKENS_MAX, sizeof(*out->rows)), 0 };
    baton_assert(out->rows != NULL);
    struct baton_status st = read_rows(file, stream, out);
    (void)fclose(stream);
    if (!baton_ok(&st)) {
        free(out->rows);
    }
    return st;
}

/* With the mutex. */
static void refresh(struct rpc_tokens *tokens)
{
    struct token_rows rows;
    if (!baton_file_has_changed(tokens->file, &tokens->mark)) {
        return;
    }
    struct baton_status st = load(tokens->file, &rows);
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_WARN, "rpc", "tokens not reloaded", &st);
        return;
    }
    free(tokens->rows.rows);
    tokens->rows = rows;
    struct baton_log_field fields[] = { BATON_LOG_NUMBER("rows", rows.count) };
    baton_log_fields(BATON_LOG_INFO, "rpc", "tokens reloaded", fields, 1);
}

struct baton_status rpc_tokens_open(const char *file, struct rpc_tokens **out)
{
    struct rpc_tokens *tokens = calloc(1, sizeof(*tokens));
    baton_assert(tokens != NULL);
    *out = NULL;
    pthread_mutex_init(&tokens->mutex, NULL);
    (void)snprintf(tokens->file, sizeof(tokens->file), "%s", file);
    (void)baton_file_has_changed(tokens->file, &tokens->mark);
    struct baton_status st = load(tokens->file, &tokens->rows);
    if (!baton_ok(&st)) {
        pthread_mutex_destroy(&tokens->mutex);
        free(tokens);
        return st;
    }
    *out = tokens;
    return st;
}

void rpc_tokens_close(struct rpc_tokens *tokens)
{
    if (tokens != NULL) {
        pthread_mutex_destroy(&tokens->mutex);
        free(tokens->rows.rows);
        free(tokens);
    }
}

bool rpc_tokens_find(struct rpc_tokens *tokens, struct baton_bytes token, struct rpc_peer_name *out)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    bool is_found = false;
    if (token.size < RPC_TOKEN_BYTES_MIN || token.size > RPC_TOKEN_BYTES_MAX ||
        EVP_Digest(token.data, token.size, digest, &size, EVP_sha256(), NULL) != 1) {
        return false;
    }
    pthread_mutex_lock(&tokens->mutex);
    refresh(tokens);
    for (size_t i = 0; i < tokens->rows.count && !is_found; i++) {
        is_found = memcmp(tokens->rows.rows[i].digest, digest, DIGEST_BYTES) == 0;
        if (is_found) {
            *out = tokens->rows.rows[i].name;
        }
    }
    pthread_mutex_unlock(&tokens->mutex);
    return is_found;
}

struct baton_status rpc_token_read(const char *file, char out[])
{
    FILE *stream = fopen(file, "re");
    if (stream == NULL) {
        return baton_status_errno(errno, "open", file);
    }
    bool is_read = fgets(out, RPC_TOKEN_BYTES_MAX + 1, stream) != NULL;
    (void)fclose(stream);
    size_t size = is_read ? strcspn(out, "\r\n") : 0;
    if (size < RPC_TOKEN_BYTES_MIN) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "%s: its first line is no token, which has at least %d characters",
                                 file, RPC_TOKEN_BYTES_MIN);
    }
    out[size] = '\0';
    return baton_status_ok();
}
