/* agent_shell_config_test.c -- the agent's YAML file: what is taken over, and what is refused by key. */
#include "agent/shell/config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD                                                                                       \
    "name: a\ncontroller: 127.0.0.1:1\nstateDirectory: /s\nlanding: {directory: /l, budget: "      \
    "1GiB}\n"
#define GROUP(engine) "groups:\n- name: g\n  model: m\n  engines:\n  - {" engine "}\n"
#define ENGINE        "name: e, kind: vllm, url: 'http://127.0.0.1:2'"

/* Loads 'text' as a file would be; the caller destroys what came. */
static struct baton_status load(const char *text, struct shell_config **out)
{
    char path[] = "/tmp/agent_shell_config.XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    *out = NULL;
    struct baton_status st = shell_config_load(path, out);
    (void)unlink(path);
    return st;
}

static struct shell_config *load_good(const char *text)
{
    struct shell_config *config = NULL;
    struct baton_status st = load(text, &config);
    cr_assert(baton_ok(&st), "%s", st.message);
    return config;
}

Test(agent_shell_config, takes_a_group_over)
{
    struct shell_config *config = load_good(HEAD "socket: unix:/x\nstopEnginesOnExit: true\ntimes: "
                                                 "{opLong: 3s}\n" GROUP(ENGINE));
    cr_assert_str_eq(config->core.agent, "a");
    cr_assert_str_eq(config->socket, "unix:/x");
    cr_assert(config->stop_engines);
    cr_assert_eq(config->core.landing_budget_bytes, UINT64_C(1) << 30);
    cr_assert_eq(config->core.times.op_long, UINT64_C(3000000000));
    cr_assert_eq(config->core.groups_count, 1);
    cr_assert_eq(config->core.groups[0].engines_count, 1);
    cr_assert_str_eq(config->engines[0][0].options.guard_page, "/s/engines/g.e.page");
    cr_assert_str_eq(config->engines[0][0].options.token_file, "/s/engines/g.e.token");
    cr_assert_not(config->engines[0][0].exec);
    shell_config_destroy(config);
}

/* A node that only publishes: the agent beside a trainer. */
Test(agent_shell_config, may_lead_no_group)
{
    struct shell_config *config = load_good(HEAD "versions: {directory: /v}\n");
    cr_assert_eq(config->core.groups_count, 0);
    cr_assert_str_eq(config->versions_directory, "/v");
    shell_config_destroy(config);
    config = load_good(HEAD "versions: {directory: /v}\ngroups: []\n");
    cr_assert_eq(config->core.groups_count, 0);
    shell_config_destroy(config);
}

/* Names that differ only at their ends must not share a page, a token or a process. */
Test(agent_shell_config, long_names_keep_files_of_their_own)
{
    char text[4096], name[64];
    memset(name, 'n', 62);
    name[62] = '\0';
    (void)snprintf(text, sizeof(text),
                   HEAD "groups:\n- name: %s1\n  model: m\n  engines:\n"
                        "  - {name: %s1, kind: vllm, url: 'http://127.0.0.1:2'}\n"
                        "  - {name: %s2, kind: vllm, url: 'http://127.0.0.1:3'}\n",
                   name, name, name);
    struct shell_config *config = load_good(text);
    const struct engine_setup *engines = config->engines[0];
    cr_assert_str_neq(engines[0].options.guard_page, engines[1].options.guard_page);
    cr_assert_str_neq(engines[0].options.token_file, engines[1].options.token_file);
    shell_config_destroy(config);
}

/* Core and process must agree on whether the engine needs a landed version to start. */
Test(agent_shell_config, long_commands_still_boot_from_the_landing)
{
    char text[4096], filler[700];
    memset(filler, 'x', sizeof(filler) - 1);
    filler[sizeof(filler) - 1] = '\0';
    (void)snprintf(text, sizeof(text),
                   HEAD
                   "groups:\n- name: g\n  model: m\n  engines:\n"
                   "  - name: e\n    kind: vllm\n    url: http://127.0.0.1:2\n"
                   "    recreate:\n      exec:\n        command: [serve, %s, '{checkpoint}']\n",
                   filler);
    struct shell_config *config = load_good(text);
    cr_assert(config->engines[0][0].exec);
    cr_assert(config->engines[0][0].boots_from_landing);
    cr_assert(config->core.groups[0].engines[0].boots_from_landing);
    cr_assert_eq(config->core.groups[0].engines[0].recreate, AGENT_RECREATE_EXEC);
    shell_config_destroy(config);
}

Test(agent_shell_config, refuses_by_key)
{
    static const struct {
        const char *text, *says;
    } rows[] = {
        { HEAD, "groups: there are none, and no versions" },
        { HEAD "logFormat: xml\n" GROUP(ENGINE), "logFormat: is unknown" },
        { HEAD "times: {opLong: soon}\n" GROUP(ENGINE), "times: opLong: 'soon'" },
        { HEAD "times: {opLong: 0s}\n" GROUP(ENGINE), "opLong: must be above 0" },
        { HEAD "times: {opLong: 61s}\n" GROUP(ENGINE), "restoreBound: must not be shorter" },
        { HEAD GROUP("name: e, kind: none, url: u"), "groups[0].engines[0].kind: is unknown" },
        { HEAD GROUP("name: E, kind: vllm, url: u"), "groups[0].engines[0].name: must be" },
        { HEAD GROUP(ENGINE ", guard: maybe"), "groups[0].engines[0].guard: write page or none" },
        { HEAD GROUP(ENGINE) "- name: g\n  model: m\n  engines: [{" ENGINE "}]\n",
          "two groups have this name" },
        { "name: A\ncontroller: c\nstateDirectory: /s\nlanding: {directory: /l}\n" GROUP(ENGINE),
          "name: must be 1 to 63" },
        { "name: a\ncontroller: c\nstateDirectory: s\nlanding: {directory: /l}\n" GROUP(ENGINE),
          "stateDirectory: must be an absolute path" },
        { "name: a\ncontroller: c\nstateDirectory: /s\nlanding: {directory: l}\n" GROUP(ENGINE),
          "landing.directory: must be an absolute path" },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct shell_config *config = NULL;
        struct baton_status st = load(rows[i].text, &config);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "row %zu", i);
        cr_assert_null(config);
        cr_assert_not_null(strstr(st.message, rows[i].says), "row %zu: %s", i, st.message);
    }
}

#define MEMBERS "members: [{agent: b, address: 'b:1'}, {agent: c, address: 'c:1'}]"

Test(agent_shell_config, takes_members_over)
{
    struct shell_config *config =
        load_good(HEAD "peerTls: {ca: /ca}\ngroups:\n- name: g\n  model: m\n  " MEMBERS
                       "\n  engines:\n  - {" ENGINE "}\n");
    const struct agent_group_config *group = &config->core.groups[0];
    cr_assert_eq(group->followers_count, 2);
    cr_assert_str_eq(group->followers[1].agent, "c");
    cr_assert_str_eq(group->followers[1].address, "c:1");
    cr_assert_str_eq(group->leader, "");
    cr_assert_str_eq(config->peer_ca, "/ca");
    shell_config_destroy(config);
}

/* Where peers are, and what they are near. */
Test(agent_shell_config, takes_peers_over)
{
    struct shell_config *config =
        load_good(HEAD "peers: {listen: 127.0.0.1:7, zone: rack-3}\n" GROUP(ENGINE));
    cr_assert_str_eq(config->core.peer_address, "127.0.0.1:7");
    cr_assert_str_eq(config->core.peer_zone, "rack-3");
    shell_config_destroy(config);
    struct baton_status st =
        load(HEAD "peers: {listen: 127.0.0.1:7, zone: 'rack 3'}\n" GROUP(ENGINE), &config);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st.message, "peers.zone"), "%s", st.message);
}

/* A node of an engine whose API is elsewhere: it follows without engines. */
Test(agent_shell_config, may_follow_without_engines)
{
    struct shell_config *config =
        load_good(HEAD "listen: 127.0.0.1:7\nlistenTls: {cert: /c, key: /k, clientCa: /a}\n"
                       "groups:\n- {name: g, model: m, leader: b}\n");
    cr_assert_str_eq(config->core.groups[0].leader, "b");
    cr_assert_eq(config->core.groups[0].engines_count, 0);
    cr_assert_str_eq(config->listen, "127.0.0.1:7");
    cr_assert_str_eq(config->listen_client_ca, "/a");
    cr_assert_eq(config->listen_connections_max, 256);
    shell_config_destroy(config);
    config = load_good(HEAD "listen: 127.0.0.1:7\nlistenConnections: 3\n" GROUP(ENGINE));
    cr_assert_eq(config->listen_connections_max, 3);
    shell_config_destroy(config);
}

static void expect_members_refused(const char *group, const char *says)
{
    char text[2048];
    struct shell_config *config = NULL;
    (void)snprintf(text, sizeof(text), HEAD "%s", group);
    struct baton_status st = load(text, &config);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st.message, says), "%s", st.message);
}

Test(agent_shell_config, refuses_members_that_do_not_fit)
{
    expect_members_refused("groups:\n- {name: g, model: m, leader: b}\n",
                           "so this one needs listen");
    expect_members_refused("groups:\n- {name: g, model: m}\n", "engines: there are none");
    expect_members_refused(
        "listen: 127.0.0.1:7\ngroups:\n- name: g\n  model: m\n  leader: b\n  " MEMBERS "\n",
        "has a leader and members");
    expect_members_refused("listen: 127.0.0.1:7\ngroups:\n- {name: g, model: m, leader: a}\n",
                           "names its own agent as leader");
    expect_members_refused(
        "groups:\n- name: g\n  model: m\n  members: [{agent: a, address: 'x:1'}]\n"
        "  engines:\n  - {" ENGINE "}\n",
        "names its own agent as a member");
    expect_members_refused(
        "groups:\n- name: g\n  model: m\n  members: [{agent: b, address: 'x:1'}, {agent: b, "
        "address: 'y:1'}]\n  engines:\n  - {" ENGINE "}\n",
        "two members of the group");
    expect_members_refused("listen: 127.0.0.1:7\ngroups:\n- {name: g, model: m, leader: B_}\n",
                           "leader: must be 1 to 63");
}

/* Nothing goes over the network without certificates by mistake; on this machine nothing is asked for. */
Test(agent_shell_config, other_machines_need_certificates)
{
#define REST "stateDirectory: /s\nlanding: {directory: /l, budget: 1GiB}\n"
#define REMOTE                                                                                     \
    "groups:\n- name: g\n  model: m\n  members: [{agent: b, address: '10.0.0.2:1'}]\n  "           \
    "engines:\n  - {" ENGINE "}\n"
    static const struct {
        const char *text;
        const char *key; /* Null: nothing is wrong. */
    } cases[] = {
        { HEAD GROUP(ENGINE), NULL },
        { "name: a\ncontroller: 'unix:/run/c.sock'\n" REST GROUP(ENGINE), NULL },
        { "name: a\ncontroller: c.example:7070\n" REST GROUP(ENGINE),
          "controller: c.example:7070" },
        { "name: a\ncontroller: c.example:7070\ninsecure: true\n" REST GROUP(ENGINE), NULL },
        { "name: a\ncontroller: c.example:7070\ncontrollerTls: {ca: /ca}\n" REST GROUP(ENGINE),
          NULL },
        { HEAD "listen: 0.0.0.0:7071\n" GROUP(ENGINE), "listen: 0.0.0.0:7071" },
        { HEAD "listen: 0.0.0.0:7071\nlistenTls: {cert: /c, key: /k}\n" GROUP(ENGINE),
          "listen: 0.0.0.0:7071" },
        { HEAD
          "listen: 0.0.0.0:7071\nlistenTls: {cert: /c, key: /k, clientCa: /ca}\n" GROUP(ENGINE),
          NULL },
        { HEAD "listen: 127.0.0.1:7071\n" GROUP(ENGINE), NULL },
        { HEAD REMOTE, "groups[0].members[0].address: 10.0.0.2:1" },
        { HEAD "peerTls: {ca: /ca}\n" REMOTE, NULL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shell_config *config = load_good(cases[i].text);
        struct baton_status st = shell_config_check_secure(config);
        cr_assert_eq(baton_ok(&st), cases[i].key == NULL, "case %zu: %s", i, st.message);
        if (cases[i].key != NULL) {
            cr_assert_eq(strncmp(st.message, cases[i].key, strlen(cases[i].key)), 0, "case %zu: %s",
                         i, st.message);
            cr_assert_not_null(strstr(st.hint, "insecure"));
        }
        shell_config_destroy(config);
    }
}
