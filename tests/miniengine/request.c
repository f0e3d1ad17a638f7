/* request.c -- see request.h. */
#include "tests/miniengine/request.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static bool fill(struct request *request, const uint32_t *prompt, const char *salt)
{
    size_t room = (size_t)request->prompt_count + request->params.tokens_max;
    size_t tops = request->params.logprobs > 0 ? (size_t)request->params.logprobs : 0;
    request->salt = strdup(salt);
    request->tokens = calloc(room, sizeof *request->tokens);
    request->logprobs = calloc(request->params.tokens_max, sizeof *request->logprobs);
    request->tops = calloc(request->params.tokens_max * tops + 1, sizeof *request->tops);
    request->blocks = calloc(room + 1, sizeof *request->blocks);
    request->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (request->salt == NULL || request->tokens == NULL || request->logprobs == NULL ||
        request->tops == NULL || request->blocks == NULL || request->event_fd < 0) {
        return false;
    }
    memcpy(request->tokens, prompt, request->prompt_count * sizeof *prompt);
    request->tokens_count = request->prompt_count;
    return true;
}

struct request *request_create(const struct request_params *params, const uint32_t *prompt,
                               uint32_t prompt_count, const char *salt)
{
    struct request *request = calloc(1, sizeof *request);
    if (request == NULL) {
        return NULL;
    }
    request->params = *params;
    request->prompt_count = prompt_count;
    request->random = params->seed;
    request->event_fd = -1;
    atomic_init(&request->references, 1);
    if (!fill(request, prompt, salt)) {
        request_release(request);
        return NULL;
    }
    return request;
}

struct request *request_retain(struct request *request)
{
    atomic_fetch_add(&request->references, 1);
    return request;
}

void request_release(struct request *request)
{
    if (request == NULL || atomic_fetch_sub(&request->references, 1) != 1) {
        return;
    }
    if (request->event_fd >= 0) {
        close(request->event_fd);
    }
    free(request->salt);
    free(request->tokens);
    free(request->logprobs);
    free(request->tops);
    free(request->blocks);
    free(request);
}

void request_notify(struct request *request)
{
    uint64_t one = 1;
    ssize_t written = write(request->event_fd, &one, sizeof one);
    (void)written; /* A full counter wakes the reader as well. */
}
