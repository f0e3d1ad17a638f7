/* mailbox.c -- a ring under one lock; see mailbox.h. */
#include "api/base/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "api/base/clock.h"

/* What the taking thread gave itself. */
struct own {
    struct own *next;
    struct baton_mailbox_item item;
};

struct baton_mailbox {
    struct own *own; /* The taking thread's, oldest first. */
    struct own **own_end;
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_cond_t emptied;
    uint32_t capacity;
    uint32_t reserve; /* Places that only baton_mailbox_post_sure() uses. */
    uint32_t first;
    uint32_t count;
    uint64_t taken; /* So far. */
    struct baton_mailbox_item items[];
};

struct baton_status baton_mailbox_create(uint32_t capacity, struct baton_mailbox **out)
{
    struct baton_mailbox *mailbox =
        calloc(1, sizeof(*mailbox) + capacity * sizeof(struct baton_mailbox_item));
    if (mailbox == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for the mailbox");
    }
    pthread_condattr_t attributes;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&mailbox->lock, NULL);
    (void)pthread_cond_init(&mailbox->filled, &attributes);
    (void)pthread_cond_init(&mailbox->emptied, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    mailbox->own_end = &mailbox->own;
    mailbox->capacity = capacity;
    mailbox->reserve = capacity / 4;
    *out = mailbox;
    return baton_status_ok();
}

static bool take_own(struct baton_mailbox *mailbox, struct baton_mailbox_item *out)
{
    struct own *own = mailbox->own;
    if (own == NULL) {
        return false;
    }
    *out = own->item;
    mailbox->own = own->next;
    if (mailbox->own == NULL) {
        mailbox->own_end = &mailbox->own;
    }
    free(own);
    return true;
}

void baton_mailbox_destroy(struct baton_mailbox *mailbox)
{
    struct baton_mailbox_item left;
    if (mailbox != NULL) {
        while (take_own(mailbox, &left)) {
        }
        (void)pthread_cond_destroy(&mailbox->filled);
        (void)pthread_cond_destroy(&mailbox->emptied);
        (void)pthread_mutex_destroy(&mailbox->lock);
        free(mailbox);
    }
}

/* With the lock held and a place free. */
static void put(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run, void *argument)
{
    uint32_t place = (mailbox->first + mailbox->count) % mailbox->capacity;
    mailbox->items[place] = (struct baton_mailbox_item){ run, argument };
    if (mailbox->count++ == 0) {
        (void)pthread_cond_signal(&mailbox->filled);
    }
}

bool baton_mailbox_post(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run, void *argument)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    bool fits = mailbox->count + mailbox->reserve < mailbox->capacity;
    if (fits) {
        put(mailbox, run, argument);
    }
    (void)pthread_mutex_unlock(&mailbox->lock);
    return fits;
}

void baton_mailbox_post_sure(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run,
                             void *argument)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    while (mailbox->count == mailbox->capacity) {
        (void)pthread_cond_wait(&mailbox->emptied, &mailbox->lock);
    }
    put(mailbox, run, argument);
    (void)pthread_mutex_unlock(&mailbox->lock);
}

void baton_mailbox_post_own(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run,
                            void *argument)
{
    struct own *own = malloc(sizeof(*own));
    baton_assert(own != NULL);
    *own = (struct own){ .next = NULL, .item = { run, argument } };
    *mailbox->own_end = own;
    mailbox->own_end = &own->next;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / BATON_NS_PER_S),
                              .tv_nsec = (long)(ns % BATON_NS_PER_S) };
}

/* With the lock held; false: time is up. */
static bool wait_filled(struct baton_mailbox *mailbox, uint64_t deadline_ns)
{
    if (deadline_ns == UINT64_MAX) {
        (void)pthread_cond_wait(&mailbox->filled, &mailbox->lock);
        return true;
    }
    struct timespec until = timespec_of(deadline_ns);
    return pthread_cond_timedwait(&mailbox->filled, &mailbox->lock, &until) != ETIMEDOUT;
}

bool baton_mailbox_take(struct baton_mailbox *mailbox, uint64_t deadline_ns,
                        struct baton_mailbox_item *out)
{
    if (take_own(mailbox, out)) {
        return true;
    }
    (void)pthread_mutex_lock(&mailbox->lock);
    while (mailbox->count == 0 && wait_filled(mailbox, deadline_ns)) {
    }
    bool taken = mailbox->count > 0;
    if (taken) {
        *out = mailbox->items[mailbox->first];
        mailbox->first = (mailbox->first + 1) % mailbox->capacity;
        mailbox->count--;
        mailbox->taken++;
        (void)pthread_cond_signal(&mailbox->emptied);
    }
    (void)pthread_mutex_unlock(&mailbox->lock);
    return taken;
}

uint64_t baton_mailbox_posted(struct baton_mailbox *mailbox)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    uint64_t posted = mailbox->taken + mailbox->count;
    (void)pthread_mutex_unlock(&mailbox->lock);
    return posted;
}

uint64_t baton_mailbox_taken(struct baton_mailbox *mailbox)
{
    (void)pthread_mutex_lock(&mailbox->lock);
    uint64_t taken = mailbox->taken;
    (void)pthread_mutex_unlock(&mailbox->lock);
    return taken;
}

bool baton_mailbox_next_is(struct baton_mailbox *mailbox, baton_mailbox_work_fn *run)
{
    if (mailbox->own != NULL) {
        return mailbox->own->item.run == run;
    }
    (void)pthread_mutex_lock(&mailbox->lock);
    bool is = mailbox->count > 0 && mailbox->items[mailbox->first].run == run;
    (void)pthread_mutex_unlock(&mailbox->lock);
    return is;
}
