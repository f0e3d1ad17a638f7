/* prometheus.c -- see prometheus.h. */
#include "controller/shell/prometheus.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/shell/daemon.h"

enum {
    QUERIES_MAX = BATON_MODELS_MAX * BATON_CHECKS_MAX,
    ANSWER_BYTES_MAX = 64 << 10,
    PATH_BYTES = 3 * BATON_QUERY_BYTES + 64,
    STACK_BYTES = 512 << 10
};

/* One query of a turn. */
struct ask {
    char model[BATON_NAME_BYTES];
    uint64_t roll;
    uint32_t step;
    char check[BATON_NAME_BYTES];
    char path[PATH_BYTES]; /* Empty: it became too long. */
};

struct prometheus {
    const struct prometheus_options *options;
    struct daemon *daemon;
    struct http *http; /* The thread's, but for http_abort(). Null without a URL. */
    uint64_t due_ns;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* Guards what follows. */
    pthread_cond_t changed;
    bool is_stopping;
    size_t asks_count; /* 0: the thread waits. */
    struct ask asks[QUERIES_MAX];
};

/* --- answers --- */

static struct baton_status no_number(const char *what, const char *more)
{
    return baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                             "Prometheus: %.60s%.140s", what, more);
}

/* ["time", "number"], where the number is text. */
static struct baton_status read_sample(const json_t *sample, double *out)
{
    const char *text = json_string_value(json_array_get(sample, 1));
    char *end = NULL;
    double value = text == NULL ? 0 : strtod(text, &end);
    if (text == NULL || end == text || *end != '\0') {
        return no_number("its answer holds no number", "");
    }
    if (!__builtin_isfinite(value)) {
        return no_number("the query gave ", text);
    }
    *out = value;
    return baton_status_ok();
}

static struct baton_status read_vector(const json_t *result, double *out)
{
    char text[64];
    size_t samples = json_array_size(result);
    if (samples == 1) {
        return read_sample(json_object_get(json_array_get(result, 0), "value"), out);
    }
    (void)snprintf(text, sizeof(text), "%zu samples, not one%s", samples,
                   samples > 1 ? ": aggregate them" : "");
    return no_number("the query gave ", text);
}

static struct baton_status read_answer(const json_t *root, double *out)
{
    const json_t *data = json_object_get(root, "data");
    const char *status = json_string_value(json_object_get(root, "status"));
    const char *error = json_string_value(json_object_get(root, "error"));
    const char *type = json_string_value(json_object_get(data, "resultType"));
    if (status == NULL || strcmp(status, "success") != 0) {
        return no_number("", error != NULL ? error : "its answer has no status");
    }
    if (type != NULL && strcmp(type, "scalar") == 0) {
        return read_sample(json_object_get(data, "result"), out);
    }
    if (type != NULL && strcmp(type, "vector") == 0) {
        return read_vector(json_object_get(data, "result"), out);
    }
    return no_number("the query gave no scalar and no vector, but a ", type != NULL ? type : "?");
}

struct baton_status prometheus_read(uint32_t code, struct baton_bytes body, double *out)
{
    char text[32];
    json_t *root = json_loadb((const char *)body.data, body.size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root)) { /* Some proxy's. */
        json_decref(root);
        (void)snprintf(text, sizeof(text), "%u without JSON", code);
        return no_number("it answered ", text);
    }
    struct baton_status st = read_answer(root, out);
    json_decref(root);
    return st;
}

/* --- the thread --- */

/* Nobody answered. */
static struct baton_status not_there(const struct baton_status *failure)
{
    /* Without the query, which is shown beside it. */
    const char *why = strstr(failure->message, ": ");
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE,
                             "Prometheus cannot be asked: %.160s",
                             why != NULL ? why + 2 : failure->message);
}

struct news {
    struct ask ask;
    struct baton_status status;
    double value;
};

/* On the loop's thread. */
static void news_work(void *target, void *argument)
{
    struct news *news = argument;
    struct event event = { .kind = EVENT_METRIC,
                           .body.metric = { .model = news->ask.model,
                                            .roll = news->ask.roll,
                                            .step = news->ask.step,
                                            .check = news->ask.check,
                                            .answered = baton_ok(&news->status),
                                            .value = news->value,
                                            .why = news->status.message } };
    daemon_step(target, &event);
    free(news);
}

static struct baton_status ask_once(struct prometheus *prometheus, const struct ask *ask,
                                    double *out)
{
    const struct http_request request = { .method = "GET", .path = ask->path, .repeatable = true };
    struct http_answer answer;
    if (prometheus->http == NULL) {
        return no_number("the controller's file names none", "");
    }
    if (ask->path[0] == '\0') {
        return no_number("the query is too long with its values", "");
    }
    uint64_t until_ns = baton_clock_monotonic_ns() + prometheus->options->deadline_ns;
    struct baton_status st = http_call(prometheus->http, &request, until_ns, &answer);
    if (!baton_ok(&st)) {
        return not_there(&st);
    }
    struct baton_bytes body = { (const uint8_t *)answer.body, answer.body_bytes };
    return prometheus_read(answer.code, body, out);
}

/* Answers one query; false if nobody is there to be asked the next one. */
static bool work_one(struct prometheus *prometheus, const struct ask *ask, bool is_there)
{
    struct news *news = calloc(1, sizeof(*news));
    baton_assert(news != NULL);
    news->ask = *ask;
    news->status = is_there ? ask_once(prometheus, ask, &news->value)
                            : no_number("it did not answer another query", "");
    bool answered = news->status.code != BATON_UNAVAILABLE;
    if (!daemon_post_any(prometheus->daemon, news_work, news)) {
        free(news); /* The next turn asks again. */
    }
    return is_there && answered;
}

static void *thread_main(void *argument)
{
    struct prometheus *prometheus = argument;
    (void)pthread_mutex_lock(&prometheus->lock);
    while (!prometheus->is_stopping) {
        size_t count = prometheus->asks_count;
        if (count == 0) {
            (void)pthread_cond_wait(&prometheus->changed, &prometheus->lock);
            continue;
        }
        (void)pthread_mutex_unlock(&prometheus->lock);
        bool is_there = true;
        for (size_t i = 0; i < count; i++) { /* The loop leaves them alone meanwhile. */
            is_there = work_one(prometheus, &prometheus->asks[i], is_there);
        }
        (void)pthread_mutex_lock(&prometheus->lock);
        prometheus->asks_count = 0;
    }
    (void)pthread_mutex_unlock(&prometheus->lock);
    return NULL;
}

/* --- turns --- */

static bool put(char out[PATH_BYTES], size_t *used, const char *text, bool encode)
{
    static const char digits[] = "0123456789ABCDEF";
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    for (; *text != '\0'; text++) {
        bool as_is = !encode || strchr(plain, *text) != NULL;
        if (*used + 4 > PATH_BYTES) {
            return false;
        }
        if (as_is) {
            out[(*used)++] = *text;
        } else {
            out[(*used)++] = '%';
            out[(*used)++] = digits[(uint8_t)*text >> 4];
            out[(*used)++] = digits[(uint8_t)*text & 15];
        }
    }
    out[*used] = '\0';
    return true;
}

/* The query with its values put in, as a path. */
static void make_path(const struct metric_query *query, char out[PATH_BYTES])
{
    static const char model_word[] = "$model";
    static const char seq_word[] = "$seq";
    char seq[24];
    size_t used = 0;
    (void)snprintf(seq, sizeof(seq), "%llu", (unsigned long long)query->seq);
    bool fits = put(out, &used, "/api/v1/query?query=", false);
    for (const char *at = query->query; *at != '\0' && fits;) {
        char one[2] = { *at, '\0' };
        if (strncmp(at, model_word, sizeof(model_word) - 1) == 0) {
            fits = put(out, &used, query->model, true);
            at += sizeof(model_word) - 1;
        } else if (strncmp(at, seq_word, sizeof(seq_word) - 1) == 0) {
            fits = put(out, &used, seq, true);
            at += sizeof(seq_word) - 1;
        } else {
            fits = put(out, &used, one, true);
            at++;
        }
    }
    out[0] = fits ? out[0] : '\0';
}

/* Under the lock, while the thread waits. */
static void fill_asks(struct prometheus *prometheus)
{
    struct metric_query queries[QUERIES_MAX];
    size_t count = view_metric_queries(prometheus->daemon->core, queries, QUERIES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct ask *ask = &prometheus->asks[i];
        (void)baton_text_copy(ask->model, sizeof(ask->model), queries[i].model);
        (void)baton_text_copy(ask->check, sizeof(ask->check), queries[i].check);
        ask->roll = queries[i].roll;
        ask->step = queries[i].step;
        make_path(&queries[i], ask->path);
    }
    prometheus->asks_count = count;
}

uint64_t prometheus_deadline_ns(const struct prometheus *prometheus)
{
    return prometheus->due_ns;
}

void prometheus_run(struct prometheus *prometheus, uint64_t now_ns)
{
    if (now_ns < prometheus->due_ns) {
        return;
    }
    prometheus->due_ns = now_ns + prometheus->options->interval_ns;
    (void)pthread_mutex_lock(&prometheus->lock);
    if (prometheus->asks_count == 0) {
        fill_asks(prometheus);
        (void)pthread_cond_signal(&prometheus->changed);
    }
    (void)pthread_mutex_unlock(&prometheus->lock);
}

/* --- life --- */

static struct baton_status start_thread(struct prometheus *prometheus)
{
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&prometheus->thread, &attributes, thread_main, prometheus);
    (void)pthread_attr_destroy(&attributes);
    prometheus->has_thread = failed == 0;
    return failed == 0 ? baton_status_ok()
                       : baton_status_errno(failed, "pthread_create", "prometheus");
}

struct baton_status prometheus_create(const struct prometheus_options *options,
                                      struct daemon *daemon, struct prometheus **out)
{
    struct prometheus *prometheus = calloc(1, sizeof(*prometheus));
    baton_assert(prometheus != NULL);
    prometheus->options = options;
    prometheus->daemon = daemon;
    (void)pthread_mutex_init(&prometheus->lock, NULL);
    (void)pthread_cond_init(&prometheus->changed, NULL);
    struct baton_status st = baton_status_ok();
    if (options->url != NULL) {
        struct http_options http = { .url = options->url,
                                     .remote_allowed = true,
                                     .body_bytes_max = ANSWER_BYTES_MAX,
                                     .tls = &options->tls };
        st = baton_status_in(http_open(&http, &prometheus->http), "prometheus");
    }
    if (baton_ok(&st)) {
        st = start_thread(prometheus);
    }
    if (!baton_ok(&st)) {
        prometheus_destroy(prometheus);
        return st;
    }
    *out = prometheus;
    return st;
}

void prometheus_destroy(struct prometheus *prometheus)
{
    if (prometheus == NULL) {
        return;
    }
    if (prometheus->http != NULL) {
        http_abort(prometheus->http);
    }
    if (prometheus->has_thread) {
        (void)pthread_mutex_lock(&prometheus->lock);
        prometheus->is_stopping = true;
        (void)pthread_cond_signal(&prometheus->changed);
        (void)pthread_mutex_unlock(&prometheus->lock);
        (void)pthread_join(prometheus->thread, NULL);
    }
    http_close(prometheus->http);
    (void)pthread_cond_destroy(&prometheus->changed);
    (void)pthread_mutex_destroy(&prometheus->lock);
    free(prometheus);
}
