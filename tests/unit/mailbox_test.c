/* mailbox_test.c -- order, refusal when full, the reserve for what must not get lost, deadlines, threads. */
#include "api/base/mailbox.h"

#include <criterion/criterion.h>
#include <pthread.h>

#include "api/base/clock.h"

static void note(void *target, void *argument)
{
    (void)target;
    (void)argument;
}

static struct baton_mailbox *make(uint32_t capacity)
{
    struct baton_mailbox *mailbox = NULL;
    struct baton_status st = baton_mailbox_create(capacity, &mailbox);
    cr_assert(baton_ok(&st));
    return mailbox;
}

Test(mailbox, gives_back_in_order)
{
    struct baton_mailbox *mailbox = make(8);
    int values[3];
    struct baton_mailbox_item item;
    for (int i = 0; i < 3; i++) {
        cr_assert(baton_mailbox_post(mailbox, note, &values[i]));
    }
    for (int i = 0; i < 3; i++) {
        cr_assert(baton_mailbox_take(mailbox, 0, &item));
        cr_assert_eq(item.argument, &values[i]);
    }
    cr_assert_not(baton_mailbox_take(mailbox, 0, &item));
    baton_mailbox_destroy(mailbox);
}

Test(mailbox, refuses_when_full_but_keeps_a_reserve)
{
    struct baton_mailbox *mailbox = make(8);
    unsigned taken = 0;
    struct baton_mailbox_item item;
    while (baton_mailbox_post(mailbox, note, NULL)) {
        taken++;
    }
    cr_assert_eq(taken, 6, "a quarter is kept");
    baton_mailbox_post_sure(mailbox, note, NULL);
    baton_mailbox_post_sure(mailbox, note, NULL);
    for (taken = 0; baton_mailbox_take(mailbox, 0, &item);) {
        taken++;
    }
    cr_assert_eq(taken, 8);
    baton_mailbox_destroy(mailbox);
}

static void note_other(void *target, void *argument)
{
    note(target, argument);
}

/* What the taker gave itself comes first, and so it is what is next. */
Test(mailbox, tells_what_is_next)
{
    struct baton_mailbox *mailbox = make(8);
    struct baton_mailbox_item item;
    cr_assert_not(baton_mailbox_next_is(mailbox, note));
    cr_assert(baton_mailbox_post(mailbox, note, NULL));
    cr_assert(baton_mailbox_next_is(mailbox, note));
    cr_assert_not(baton_mailbox_next_is(mailbox, note_other));
    baton_mailbox_post_own(mailbox, note_other, NULL);
    cr_assert(baton_mailbox_next_is(mailbox, note_other));
    cr_assert(baton_mailbox_take(mailbox, 0, &item));
    cr_assert(baton_mailbox_next_is(mailbox, note));
    baton_mailbox_destroy(mailbox);
}

Test(mailbox, waits_no_longer_than_its_deadline)
{
    struct baton_mailbox *mailbox = make(4);
    struct baton_mailbox_item item;
    uint64_t deadline_ns = baton_clock_monotonic_ns() + 20 * BATON_NS_PER_MS;
    cr_assert_not(baton_mailbox_take(mailbox, deadline_ns, &item));
    cr_assert_geq(baton_clock_monotonic_ns(), deadline_ns);
    baton_mailbox_destroy(mailbox);
}

enum { ROUNDS = 20000 };

static void *post_many(void *argument)
{
    for (int i = 0; i < ROUNDS; i++) {
        baton_mailbox_post_sure(argument, note, NULL);
    }
    return NULL;
}

/* A full mailbox makes sure posters wait; none of their items is lost. */
Test(mailbox, loses_nothing_between_threads)
{
    struct baton_mailbox *mailbox = make(16);
    pthread_t threads[3];
    struct baton_mailbox_item item;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, post_many, mailbox), 0);
    }
    for (int i = 0; i < 3 * ROUNDS; i++) {
        cr_assert(baton_mailbox_take(mailbox, UINT64_MAX, &item));
    }
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    }
    cr_assert_not(baton_mailbox_take(mailbox, 0, &item));
    baton_mailbox_destroy(mailbox);
}

/* What the taker gives itself counts for neither. */
Test(mailbox, tells_when_all_of_now_is_taken)
{
    struct baton_mailbox *mailbox = make(4);
    struct baton_mailbox_item item;
    baton_mailbox_post_sure(mailbox, note, NULL);
    cr_assert(baton_mailbox_take(mailbox, 0, &item));
    baton_mailbox_post_sure(mailbox, note, NULL);
    baton_mailbox_post_sure(mailbox, note, NULL);
    uint64_t now = baton_mailbox_posted(mailbox);
    baton_mailbox_post_own(mailbox, note, NULL);
    baton_mailbox_post_sure(mailbox, note, NULL);
    cr_assert(baton_mailbox_take(mailbox, 0, &item));
    cr_assert(baton_mailbox_take(mailbox, 0, &item));
    cr_assert_eq(baton_mailbox_taken(mailbox) + 1, now);
    cr_assert(baton_mailbox_take(mailbox, 0, &item));
    cr_assert_eq(baton_mailbox_taken(mailbox), now);
    baton_mailbox_destroy(mailbox);
}

/* The taker must never wait for itself: with a full mailbox nobody else would make room. */
Test(mailbox, taker_gives_itself_work_also_when_full)
{
    struct baton_mailbox *mailbox = make(4);
    int values[2];
    struct baton_mailbox_item item;
    for (int i = 0; i < 4; i++) {
        baton_mailbox_post_sure(mailbox, note, NULL);
    }
    baton_mailbox_post_own(mailbox, note, &values[0]);
    baton_mailbox_post_own(mailbox, note, &values[1]);
    cr_assert(baton_mailbox_take(mailbox, 0, &item));
    cr_assert_eq(item.argument, &values[0]);
    cr_assert(baton_mailbox_take(mailbox, 0, &item));
    cr_assert_eq(item.argument, &values[1]);
    for (int i = 0; i < 4; i++) {
        cr_assert(baton_mailbox_take(mailbox, 0, &item));
        cr_assert_null(item.argument);
    }
    cr_assert_not(baton_mailbox_take(mailbox, 0, &item));
    baton_mailbox_post_own(mailbox, note, NULL);
    baton_mailbox_destroy(mailbox); /* What is left is freed, not run. */
}
