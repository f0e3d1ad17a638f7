/* pool.c -- threads that take items in turn. */
#include "transport/delta/pool.h"

#include <pthread.h>

struct pool {
    pthread_mutex_t lock;
    size_t next; /* Item to begin. */
    size_t count;
    size_t failed_item;
    struct baton_status failure;
    delta_pool_fn *run;
};

struct member {
    struct pool *pool;
    void *worker;
    pthread_t thread;
};

static bool take_item(struct pool *pool, size_t *out)
{
    pthread_mutex_lock(&pool->lock);
    bool has_more = baton_ok(&pool->failure) && pool->next < pool->count;
    *out = pool->next;
    pool->next += has_more;
    pthread_mutex_unlock(&pool->lock);
    return has_more;
}

static void note_failure(struct pool *pool, size_t item, const struct baton_status *st)
{
    pthread_mutex_lock(&pool->lock);
    if (baton_ok(&pool->failure) || item < pool->failed_item) {
        pool->failure = *st;
        pool->failed_item = item;
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument)
{
    const struct member *member = argument;
    size_t item;
    while (take_item(member->pool, &item)) {
        struct baton_status st = member->pool->run(member->worker, item);
        if (!baton_ok(&st)) {
            note_failure(member->pool, item, &st);
        }
    }
    return NULL;
}

struct baton_status delta_pool_run(void *const *workers, unsigned workers_count, size_t count,
                                   delta_pool_fn *run)
{
    struct member members[DELTA_THREADS_MAX];
    struct pool pool = { .count = count, .failure = baton_status_ok(), .run = run };
    unsigned started = 1;
    baton_assert(workers_count >= 1 && workers_count <= DELTA_THREADS_MAX);
    pthread_mutex_init(&pool.lock, NULL);
    for (unsigned i = 0; i < workers_count; i++) {
        members[i].pool = &pool;
        members[i].worker = workers[i];
    }
    while (started < workers_count &&
           pthread_create(&members[started].thread, NULL, work, &members[started]) == 0) {
        started++;
    }
    (void)work(&members[0]);
    for (unsigned i = 1; i < started; i++) {
        pthread_join(members[i].thread, NULL);
    }
    pthread_mutex_destroy(&pool.lock);
    return pool.failure;
}
