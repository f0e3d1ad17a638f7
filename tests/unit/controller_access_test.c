/* controller_access_test.c -- patterns of identities, the table of rules, and what callers may do. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "api/wire/wire.h"
#include "controller/shell/access.h"
#include "controller/shell/pattern.h"
#include "controller/shell/routes.h"
#include "controller/shell/rules.h"
#include "controller/shell/standby_reads.h"

/* --- patterns --- */

#define ACCOUNT RPC_ACCOUNT_PREFIX

Test(controller_access, identities_match_part_by_part)
{
    static const struct {
        const char *pattern;
        const char *identity;
        enum rpc_name_kind kind;
        bool matches;
    } rows[] = {
        { "spiffe://lab/agent/a1", "spiffe://lab/agent/a1", RPC_NAME_SPIFFE, true },
        { "spiffe://lab/agent/*", "spiffe://lab/agent/a1", RPC_NAME_SPIFFE, true },
        { "spiffe://lab/agent/n-*", "spiffe://lab/agent/n-7", RPC_NAME_SPIFFE, true },
        { "spiffe://lab/agent/n-*", "spiffe://lab/agent/n-", RPC_NAME_SPIFFE, false },
        { "spiffe://lab/agent/n-*-x", "spiffe://lab/agent/n-x", RPC_NAME_SPIFFE, false },
        { "spiffe://lab/agent/*", "spiffe://lab/agent/a/b", RPC_NAME_SPIFFE, false },
        { "spiffe://lab/agent/*", "spiffe://lab/agent/", RPC_NAME_SPIFFE, false },
        { "spiffe://lab/agent/*", "spiffe://lab/agent", RPC_NAME_SPIFFE, false },
        { "spiffe://lab/*/*", "spiffe://lab/agent/a1", RPC_NAME_SPIFFE, true },
        { "spiffe://lab/agent/*", "spiffe://other/agent/a1", RPC_NAME_SPIFFE, false },
        { "spiffe://lab/agent/*", "spiffe://LAB/agent/a1", RPC_NAME_SPIFFE, false },
        { "*.lab.example", "node-1.lab.example", RPC_NAME_DNS, true },
        { "*.lab.example", "NODE-1.Lab.Example", RPC_NAME_DNS, true },
        { "*.lab.example", "a.b.lab.example", RPC_NAME_DNS, false },
        { "*.lab.example", "lab.example", RPC_NAME_DNS, false },
        { "*.lab.example", "x.lab.example.evil.example", RPC_NAME_DNS, false },
        { "node-1", "node-1", RPC_NAME_DNS, true },
        { "node-1", "node-10", RPC_NAME_DNS, false },
        { "*", "node-1", RPC_NAME_DNS, true },
        /* A DNS name is no SPIFFE id, whatever it looks like, nor the other way round. */
        { "spiffe://lab/agent/a1", "spiffe://lab/agent/a1", RPC_NAME_DNS, false },
        { "*", "spiffe://lab/agent/a1", RPC_NAME_SPIFFE, false },
        { ACCOUNT "rl:ppo", ACCOUNT "rl:ppo", RPC_NAME_ACCOUNT, true },
        { ACCOUNT "rl:*", ACCOUNT "rl:ppo", RPC_NAME_ACCOUNT, true },
        { ACCOUNT "*:ppo-*", ACCOUNT "rl:ppo-7", RPC_NAME_ACCOUNT, true },
        { ACCOUNT "rl:*", ACCOUNT "other:ppo", RPC_NAME_ACCOUNT, false },
        { ACCOUNT "rl:*", ACCOUNT "rl:ppo:x", RPC_NAME_ACCOUNT, false },
        { ACCOUNT "rl:ppo", ACCOUNT "rl:PPO", RPC_NAME_ACCOUNT, false },
        /* Nor is either an account. */
        { ACCOUNT "rl:ppo", ACCOUNT "rl:ppo", RPC_NAME_DNS, false },
        { ACCOUNT "rl:ppo", ACCOUNT "rl:ppo", RPC_NAME_SPIFFE, false },
        { "*", ACCOUNT "rl:ppo", RPC_NAME_ACCOUNT, false },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pattern_captures captures;
        cr_assert_eq(
            pattern_match_identity(rows[i].pattern, rows[i].kind, rows[i].identity, &captures),
            rows[i].matches, "%s on %s", rows[i].pattern, rows[i].identity);
    }
}

Test(controller_access, names_may_repeat_what_a_star_stood_for)
{
    static const struct {
        const char *pattern;
        const char *name;
        bool matches;
    } rows[] = { { "{1}", "n7", true },        { "{1}-*", "n7-g0", true },
                 { "{1}-*", "n7-", false },    { "{1}-*", "n70-g0", false },
                 { "{2}.{1}", "r3.n7", true }, { "*", "any", true },
                 { "*", "", false },           { "g-*", "g-1", true },
                 { "g0", "g0", true },         { "g0", "g00", false },
                 { "{1}*{2}", "n7xr3", true }, { "{1}*{2}", "n7r3", false } };
    struct pattern_captures captures;
    cr_assert(pattern_match_identity("spiffe://lab/*/rack-*", true, "spiffe://lab/n7/rack-r3",
                                     &captures));
    cr_assert_eq(captures.count, 2);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert_eq(pattern_match_name(rows[i].pattern, rows[i].name, &captures), rows[i].matches,
                     "%s on %s", rows[i].pattern, rows[i].name);
    }
}

/* One agent's name may begin, or end, another's: what belongs to the longer one is not the shorter one's. */
Test(controller_access, names_that_begin_alike_stay_apart)
{
    static const struct {
        const char *agent;
        const char *pattern;
        const char *name;
        bool matches;
    } rows[] = { { "spiffe://lab/agent/node", "{1}-*", "node-g0", true },
                 { "spiffe://lab/agent/node", "{1}-*", "node-7-g0", false },
                 { "spiffe://lab/agent/node-7", "{1}-*", "node-7-g0", true },
                 { "spiffe://lab/agent/gpu", "{1}-*", "gpu-a-g0", false },
                 { "spiffe://lab/agent/gpu-a", "{1}-*", "gpu-a-g0", true },
                 { "spiffe://lab/agent/node", "{1}-g*", "node-g0", true },
                 { "spiffe://lab/agent/node", "{1}-g*", "node-g0-g1", false },
                 { "spiffe://lab/agent/node", "{1}.*", "node.7.g0", false },
                 { "spiffe://lab/agent/node", "{1}.*", "node.7-g0", true },
                 { "spiffe://lab/agent/node", "{1}-pool-*", "node-pool-g0", true },
                 { "spiffe://lab/agent/a", "*-{1}", "g0-a", true },
                 { "spiffe://lab/agent/a", "*-{1}", "g0-gpu-a", false },
                 { "spiffe://lab/agent/a", "g-*", "g-1-2", true } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pattern_captures captures;
        cr_assert(pattern_match_identity("spiffe://lab/agent/*", true, rows[i].agent, &captures));
        cr_assert_eq(pattern_match_name(rows[i].pattern, rows[i].name, &captures), rows[i].matches,
                     "%s: %s on %s", rows[i].agent, rows[i].pattern, rows[i].name);
    }
}

/* A certificate of "*.lab" must not become a pattern that reaches everybody's groups. */
Test(controller_access, a_star_in_a_certificate_is_only_a_star)
{
    struct pattern_captures captures;
    cr_assert(pattern_match_identity("*.lab", RPC_NAME_DNS, "*.lab", &captures));
    cr_assert_not(pattern_match_name("{1}", "g0", &captures));
    cr_assert_not(pattern_match_name("{1}-*", "g0-1", &captures));
    cr_assert(pattern_match_name("{1}", "*", &captures));
}

Test(controller_access, bad_patterns_are_told)
{
    static const char *const identities[] = {
        "",
        "a b",
        "spiffe://",
        "spiffe:///x",
        "spiffe://lab",
        "http://x",
        "spiffe://*/a",
        "spiffe://l/a**",
        "spiffe://l/*/*/*/*/*",
        "a:b",
        "*x*.lab",
        "\xc3\xa4.lab",
        ACCOUNT "rl",
        ACCOUNT ":ppo",
        ACCOUNT "rl:",
        ACCOUNT "rl:a:b",
        ACCOUNT "rl:*-*",
    };
    static const char *const names[] = { "", "a b", "**", "*-*", "{", "{0}", "{5}", "{2}", "{1" };
    for (size_t i = 0; i < sizeof(identities) / sizeof(identities[0]); i++) {
        cr_assert_not_null(pattern_identity_fault(identities[i]), "%s", identities[i]);
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        cr_assert_not_null(pattern_name_fault(names[i], 1), "%s", names[i]);
    }
    cr_assert_null(pattern_identity_fault("spiffe://lab/*/n-*"));
    cr_assert_null(pattern_identity_fault("*.lab.example"));
    cr_assert_null(pattern_identity_fault(ACCOUNT "*:ppo-*"));
    cr_assert_null(pattern_name_fault("{1}-*", 1));
}

/* --- the table --- */

Test(controller_access, every_rpc_has_one_row_and_every_row_an_rpc)
{
    const struct rpc_route *routes = routes_all();
    cr_assert_eq(rules_count(), routes_count());
    for (size_t i = 0; i < routes_count(); i++) {
        const struct rule *rule = rules_find(routes[i].method);
        cr_assert_not_null(rule, "%s has no row in rules.c", routes[i].method);
        cr_assert_neq(rule->roles, 0, "nobody may call %s", routes[i].method);
    }
    for (size_t i = 0; i < rules_count(); i++) {
        cr_assert_eq(rules_find(rules_all()[i].method), &rules_all()[i], "%s has two rows",
                     rules_all()[i].method);
    }
    cr_assert_null(rules_find("baton.v1.Models/Nothing"));
}

/* The request message of "baton.v1.Models/Get". */
static const ProtobufCMessageDescriptor *request_of(const char *method)
{
    char service[64];
    const char *slash = strchr(method, '/');
    cr_assert_not_null(slash);
    (void)snprintf(service, sizeof(service), "%.*s", (int)(slash - method), method);
    const ProtobufCServiceDescriptor *descriptor = baton_wire_find_service(service);
    cr_assert_not_null(descriptor, "%s", service);
    const ProtobufCMethodDescriptor *found =
        protobuf_c_service_descriptor_get_method_by_name(descriptor, slash + 1);
    cr_assert_not_null(found, "%s", method);
    return found->input;
}

/* An RPC whose request takes a mutation's options changes something: none is for viewers, and those that are for
 * trainers or routers are bound to their models. */
Test(controller_access, who_only_looks_changes_nothing)
{
    size_t mutations = 0;
    for (size_t i = 0; i < rules_count(); i++) {
        const struct rule *rule = &rules_all()[i];
        const ProtobufCMessageDescriptor *request = request_of(rule->method);
        bool changes = protobuf_c_message_descriptor_get_field_by_name(request, "options") != NULL;
        unsigned scoped = ROLE_BIT(ROLE_TRAINER) | ROLE_BIT(ROLE_ROUTER);
        mutations += changes;
        bool traffic =
            (rule->roles & scoped) != 0 && strncmp(rule->method, "baton.v1.Admission/", 19) == 0;
        cr_assert_eq(rule->audited, changes && !traffic, "%s", rule->method);
        if (changes && (rule->roles & (scoped | ROLE_BIT(ROLE_VIEWER))) != 0) {
            cr_assert(rule->by_model, "%s", rule->method);
        }
    }
    cr_assert_gt(mutations, 25);
}

/* --- callers --- */

static char *list_a[] = { "{1}" };
static char *list_groups[] = { "{1}-*", "shared" };
static char *list_m[] = { "m", "m-*" };
static struct access_row rows[] = {
    { .identity = "spiffe://lab/agent/*",
      .agents = list_a,
      .agents_count = 1,
      .groups = list_groups,
      .groups_count = 2,
      .role = ROLE_AGENT },
    { .identity = "trainer.lab", .models = list_m, .models_count = 2, .role = ROLE_TRAINER },
    { .identity = "spiffe://lab/operator/*", .role = ROLE_OPERATOR },
    { .identity = "*.watch.lab", .role = ROLE_VIEWER },
    { .identity = "router.lab", .role = ROLE_ROUTER },
};
static const struct access table = { .rows = rows, .rows_count = sizeof(rows) / sizeof(rows[0]) };

static struct rpc_peer certificate(const char *name)
{
    struct rpc_peer peer = { .principal = RPC_PRINCIPAL_CERTIFICATE, .names_count = 1 };
    peer.names[0].kind = strncmp(name, "spiffe:", 7) == 0 ? RPC_NAME_SPIFFE : RPC_NAME_DNS;
    (void)snprintf(peer.names[0].text, sizeof(peer.names[0].text), "%s", name);
    (void)snprintf(peer.identity, sizeof(peer.identity), "%s", name);
    return peer;
}

static bool may_call(const struct access *access, const struct rpc_peer *peer, const char *method)
{
    struct baton_status st = access_check_call(access, peer, method);
    cr_assert(baton_ok(&st) || (st.code == BATON_PERMISSION_DENIED &&
                                st.reason == BATON_REASON_NOT_ALLOWED && st.hint[0] != '\0'));
    return baton_ok(&st);
}

static bool may_change(const struct rpc_peer *peer, const char *method, const char *model)
{
    struct baton_status st = access_check_model(&table, peer, method, model);
    return baton_ok(&st);
}

Test(controller_access, each_role_has_its_calls)
{
    static const struct {
        const char *identity;
        const char *method;
        bool allowed;
    } cases[] = {
        { "spiffe://lab/agent/n7", "baton.v1.AgentSession/Session", true },
        { "spiffe://lab/agent/n7", "baton.v1.Versions/Get", true },
        { "spiffe://lab/agent/n7", "baton.v1.Versions/Publish", false },
        { "spiffe://lab/agent/n7", "baton.v1.Rolls/Start", false },
        { "trainer.lab", "baton.v1.Versions/Publish", true },
        { "trainer.lab", "baton.v1.Rolls/Undo", false },
        { "trainer.lab", "baton.v1.AgentSession/Session", false },
        { "spiffe://lab/operator/ada", "baton.v1.Rolls/Undo", true },
        { "spiffe://lab/operator/ada", "baton.v1.Versions/Publish", false },
        { "spiffe://lab/operator/ada", "baton.v1.AgentSession/Session", false },
        { "x.watch.lab", "baton.v1.Fleet/Events", true },
        { "x.watch.lab", "baton.v1.Fleet/Cordon", false },
        { "router.lab", "baton.v1.Admission/AcquireSlots", true },
        { "router.lab", "baton.v1.Models/Apply", false },
        { "stranger.lab", "baton.v1.Models/List", false },
        { "spiffe://other/operator/ada", "baton.v1.Models/List", false },
        { "spiffe://lab/operator/ada", "baton.v1.Models/NotInTheTable", false },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rpc_peer peer = certificate(cases[i].identity);
        cr_assert_eq(may_call(&table, &peer, cases[i].method), cases[i].allowed, "%s %s",
                     cases[i].identity, cases[i].method);
    }
}

Test(controller_access, a_refusal_says_who_what_and_what_to_do)
{
    struct rpc_peer peer = certificate("x.watch.lab");
    struct baton_status st = access_check_call(&table, &peer, "baton.v1.Fleet/Cordon");
    cr_assert_str_eq(st.message, "x.watch.lab may not call baton.v1.Fleet/Cordon: that needs the "
                                 "role operator, and its role is viewer");
    cr_assert_not_null(strstr(st.hint, "access.identities"));
    peer = certificate("trainer.lab");
    st = access_check_model(&table, &peer, "baton.v1.Versions/Open", "other");
    cr_assert_str_eq(st.message, "trainer.lab may not call baton.v1.Versions/Open for model "
                                 "'other': that needs the role trainer with this model");
}

Test(controller_access, trainers_reach_their_models_only)
{
    struct rpc_peer trainer = certificate("trainer.lab");
    struct rpc_peer viewer = certificate("x.watch.lab");
    struct rpc_peer router = certificate("router.lab");
    struct rpc_peer operator= certificate("spiffe://lab/operator/ada");
    cr_assert(may_change(&trainer, "baton.v1.Versions/Open", "m"));
    cr_assert(may_change(&trainer, "baton.v1.Versions/Open", "m-2"));
    cr_assert_not(may_change(&trainer, "baton.v1.Versions/Open", "other"));
    cr_assert_not(may_change(&trainer, "baton.v1.Fleet/Sleep", ""));
    cr_assert(may_change(&operator, "baton.v1.Fleet/Sleep", "other"));
    cr_assert_not(may_change(&operator, "baton.v1.Versions/Open", "m"));
    cr_assert(may_change(&router, "baton.v1.Admission/AcquireSlots", "any"));
    cr_assert_not(may_change(&viewer, "baton.v1.Admission/Resolve", "m"));
}

/* Of what there is not the core may say so to whoever may change something like it, and to nobody else. */
Test(controller_access, nothing_known_is_of_no_model)
{
    struct rpc_peer trainer = certificate("trainer.lab");
    struct rpc_peer viewer = certificate("x.watch.lab");
    struct rpc_peer operator= certificate("spiffe://lab/operator/ada");
    cr_assert(may_change(&trainer, "baton.v1.Versions/Seal", NULL));
    cr_assert(may_change(&trainer, "baton.v1.Fleet/Sleep", NULL));
    cr_assert(may_change(&operator, "baton.v1.Fleet/Sleep", NULL));
    cr_assert_not(may_change(&operator, "baton.v1.Versions/Seal", NULL));
    cr_assert_not(may_change(&viewer, "baton.v1.Admission/Resolve", NULL));
}

Test(controller_access, an_agent_speaks_for_its_own_groups_only)
{
    static const struct {
        const char *identity;
        const char *agent;
        const char *group;
        bool allowed;
    } cases[] = {
        { "spiffe://lab/agent/n7", "n7", NULL, true },
        { "spiffe://lab/agent/n7", "n7", "n7-g0", true },
        { "spiffe://lab/agent/n7", "n7", "shared", true },
        { "spiffe://lab/agent/n7", "n7", "n8-g0", false },
        { "spiffe://lab/agent/n7", "n8", NULL, false },
        { "spiffe://lab/agent/n7", "n8", "n7-g0", false },
        { "spiffe://lab/operator/ada", "n7", NULL, false },
        { "trainer.lab", "n7", "n7-g0", false },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rpc_peer peer = certificate(cases[i].identity);
        struct baton_status st = access_check_agent(&table, &peer, cases[i].agent, cases[i].group);
        cr_assert_eq(baton_ok(&st), cases[i].allowed, "row %zu: %s", i, st.message);
    }
}

/* On this machine nothing changes; a certificate that no row names has no rights, not even from there; neither has
 * a common name; and who shows nothing from elsewhere has none. */
Test(controller_access, defaults)
{
    struct access access = access_default();
    struct rpc_peer local = { .principal = RPC_PRINCIPAL_LOCAL, .identity = "local" };
    struct rpc_peer nobody = { .principal = RPC_PRINCIPAL_ANONYMOUS, .identity = "anonymous" };
    struct rpc_peer named = { .principal = RPC_PRINCIPAL_CERTIFICATE, .identity = "trainer.lab" };
    for (size_t i = 0; i < rules_count(); i++) {
        const char *method = rules_all()[i].method;
        cr_assert(may_call(&access, &local, method), "%s", method);
        cr_assert_not(may_call(&access, &nobody, method), "%s", method);
        cr_assert_not(may_call(&table, &named, method), "%s", method);
        cr_assert_not(may_call(&table, &local, method), "its roles are none: %s", method);
    }
}

/* Each read has a row that says whether a standby answers it, and nothing else has; what it answers is one message
 * with one answer, and needs no leader's word. */
Test(controller_access, a_standby_answers_reads_only)
{
    size_t reads = 0;
    for (size_t i = 0; i < rules_count(); i++) {
        const struct rule *rule = &rules_all()[i];
        const struct standby_read *read = standby_reads_find(rule->method);
        bool looks = (rule->roles & ROLE_BIT(ROLE_VIEWER)) != 0;
        cr_assert_eq(read != NULL, looks, "%s", rule->method);
        reads += looks;
        if (read != NULL && read->stored) {
            cr_assert(!rule->by_model && !rule->audited, "%s", rule->method);
            for (size_t j = 0; j < routes_count(); j++) { /* Streams have a limit of their own. */
                cr_assert(strcmp(routes_all()[j].method, rule->method) != 0 ||
                              routes_all()[j].calls_max == 0,
                          "%s", rule->method);
            }
        } else if (read != NULL) {
            cr_assert_gt(strlen(read->why), 10, "%s", rule->method);
        }
    }
    cr_assert_eq(reads, standby_reads_count());
}
