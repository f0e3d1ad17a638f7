/* controller_rates_test.c -- how often an identity may call, how many streams it may have; and its part of the file. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "controller/shell/config.h"
#include "controller/shell/rates.h"

enum { IDENTITIES = 40000 };

static const struct rates_options few = {
    .roles = { [ROLE_VIEWER] = { 10, 100, 2 }, [ROLE_AGENT] = { 20, 200, 3 } }
};

static struct baton_status take(struct rates *rates, const char *identity, unsigned roles,
                                uint64_t now_ns, uint64_t *retry_ns)
{
    struct rates_call call = { identity, roles, false, now_ns };
    uint32_t mark = 0;
    struct baton_status st = rates_take(rates, &call, &mark, retry_ns);
    cr_assert_eq(mark, 0);
    return st;
}

/* Takes all that an identity has at this time. */
static unsigned drain(struct rates *rates, const char *identity, unsigned roles, uint64_t now_ns)
{
    uint64_t retry_ns = 0;
    unsigned taken = 0;
    struct baton_status st = take(rates, identity, roles, now_ns, &retry_ns);
    while (baton_ok(&st) && taken < 1000) {
        taken++;
        st = take(rates, identity, roles, now_ns, &retry_ns);
    }
    return taken;
}

Test(controller_rates, a_burst_then_the_rate)
{
    struct rates *rates = rates_create(&few);
    uint64_t now = 7 * BATON_NS_PER_S;
    uint64_t retry_ns = 0;
    cr_assert_eq(drain(rates, "v", ROLE_BIT(ROLE_VIEWER), now), 100);
    struct baton_status st = take(rates, "v", ROLE_BIT(ROLE_VIEWER), now, &retry_ns);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_eq(st.reason, BATON_REASON_LIMIT);
    cr_assert_not_null(strstr(st.message, "v called more than 10 times a second"), "%s",
                       st.message);
    cr_assert_not_null(strstr(st.hint, "rates.viewer.calls"), "%s", st.hint);
    cr_assert_eq(retry_ns, BATON_NS_PER_S / 10);
    cr_assert_eq(rates_refused(rates), 2);
    cr_assert_eq(drain(rates, "v", ROLE_BIT(ROLE_VIEWER), now + retry_ns), 1);
    cr_assert_eq(drain(rates, "v", ROLE_BIT(ROLE_VIEWER), now + retry_ns + BATON_NS_PER_S), 10);
    rates_destroy(rates);
}

Test(controller_rates, one_identity_and_one_role_do_not_use_up_another)
{
    struct rates *rates = rates_create(&few);
    unsigned both = ROLE_BIT(ROLE_VIEWER) | ROLE_BIT(ROLE_AGENT);
    cr_assert_eq(drain(rates, "a", ROLE_BIT(ROLE_VIEWER), 1), 100);
    cr_assert_eq(drain(rates, "b", ROLE_BIT(ROLE_VIEWER), 1), 100);
    cr_assert_eq(drain(rates, "a", both, 1), 200, "the better role counts, and is whole");
    cr_assert_eq(drain(rates, "a", ROLE_BIT(ROLE_AGENT), 1), 0);
    cr_assert_eq(drain(rates, "nobody", 0, 1), 100, "without a role the viewer's limits count");
    rates_destroy(rates);
}

Test(controller_rates, streams_have_places_that_come_back)
{
    struct rates *rates = rates_create(&few);
    struct rates_call call = { "v", ROLE_BIT(ROLE_VIEWER), true, 1 };
    uint32_t marks[3];
    uint64_t retry_ns = 0;
    for (int i = 0; i < 2; i++) {
        struct baton_status st = rates_take(rates, &call, &marks[i], &retry_ns);
        cr_assert(baton_ok(&st), "%s", st.message);
        cr_assert_neq(marks[i], 0);
    }
    struct baton_status st = rates_take(rates, &call, &marks[2], &retry_ns);
    cr_assert_eq(st.code, BATON_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(st.hint, "rates.viewer.streams"), "%s", st.hint);
    cr_assert_eq(marks[2], 0);
    rates_give_back(rates, marks[2]);
    rates_give_back(rates, marks[0]);
    st = rates_take(rates, &call, &marks[0], &retry_ns);
    cr_assert(baton_ok(&st), "%s", st.message);
    rates_destroy(rates);
}

/* More identities than places: those that are idle make room, and one that is not keeps its own. */
Test(controller_rates, the_table_is_bounded_and_forgets_only_the_idle)
{
    struct rates *rates = rates_create(&few);
    char name[16];
    uint64_t retry_ns = 0;
    for (int i = 0; i < IDENTITIES; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        struct baton_status st =
            take(rates, name, ROLE_BIT(ROLE_VIEWER), (uint64_t)i * BATON_NS_PER_S, &retry_ns);
        cr_assert(baton_ok(&st), "%s", st.message);
    }
    uint64_t now = (uint64_t)IDENTITIES * BATON_NS_PER_S;
    cr_assert_eq(drain(rates, "flooder", ROLE_BIT(ROLE_VIEWER), now), 100);
    for (int i = 0; i < IDENTITIES; i++) {
        (void)snprintf(name, sizeof(name), "m%d", i);
        (void)take(rates, name, ROLE_BIT(ROLE_VIEWER), now, &retry_ns);
    }
    cr_assert_eq(drain(rates, "flooder", ROLE_BIT(ROLE_VIEWER), now), 0);
    rates_destroy(rates);
}

static struct baton_status load(const char *text, struct controller_config **config)
{
    char path[] = "/tmp/baton-rates-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    struct baton_status st = controller_config_load(path, config);
    (void)unlink(path);
    return st;
}

Test(controller_rates, the_file_says_and_leaves_the_rest)
{
    struct controller_config *config = NULL;
    struct rates_options options;
    struct connection_limits limits = { 0 };
    struct baton_status st = load("rates: {viewer: {calls: 5}, agent: {calls: 9, streams: 4}}\n"
                                  "connections: {handshake: 2s, perAddress: 7}\n",
                                  &config);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = controller_config_rates(config, &options);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = controller_config_connections(config, &limits);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(limits.per_address_max, 7);
    cr_assert_eq(limits.handshake_ns, 2 * BATON_NS_PER_S);
    cr_assert_eq(limits.idle_ns, 1800 * BATON_NS_PER_S);
    struct rates *rates = rates_create(&options);
    cr_assert_eq(rates_of(rates, ROLE_VIEWER).calls, 5);
    cr_assert_eq(rates_of(rates, ROLE_VIEWER).burst, 1000);
    cr_assert_eq(rates_of(rates, ROLE_VIEWER).streams, 1024);
    cr_assert_eq(rates_of(rates, ROLE_AGENT).streams, 4);
    cr_assert_eq(rates_of(rates, ROLE_ROUTER).calls, 10000);
    rates_destroy(rates);
    controller_config_free(config);
}

Test(controller_rates, what_is_too_much_is_named)
{
    struct controller_config *config = NULL;
    struct rates_options options;
    struct connection_limits limits = { 0 };
    struct baton_status st =
        load("rates: {router: {calls: 1000001}}\nconnections: {idle: 10ms}\n", &config);
    cr_assert(baton_ok(&st), "%s", st.message);
    st = controller_config_rates(config, &options);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st.message, "rates.router"), "%s", st.message);
    st = controller_config_connections(config, &limits);
    cr_assert_not_null(strstr(st.message, "connections: "), "%s", st.message);
    controller_config_free(config);
}
