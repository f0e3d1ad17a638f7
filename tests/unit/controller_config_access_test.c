/* controller_config_access_test.c -- roles from the controller's file: what is read, and what is refused where. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/shell/config.h"

/* Loads a text as a file. */
static struct baton_status load(const char *text, char path[32], struct controller_config **config,
                                struct access *out)
{
    (void)snprintf(path, 32, "/tmp/baton-access-XXXXXX");
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    struct baton_status st = controller_config_load(path, config);
    if (baton_ok(&st)) {
        st = controller_config_access(path, *config, out);
    }
    (void)unlink(path);
    return st;
}

Test(controller_config_access, what_is_written_counts)
{
    static const char text[] = "access:\n"
                               "  local: [viewer, operator]\n"
                               "  identities:\n"
                               "  - identity: spiffe://lab/agent/*\n"
                               "    role: agent\n"
                               "    agents: ['{1}']\n"
                               "    groups: ['{1}-*', g0]\n"
                               "  - {identity: trainer.lab, role: trainer, models: ['*']}\n";
    struct controller_config *config = NULL;
    struct access access;
    char path[32];
    struct baton_status st = load(text, path, &config, &access);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(access.local_roles, ROLE_BIT(ROLE_VIEWER) | ROLE_BIT(ROLE_OPERATOR));
    cr_assert_eq(access.anonymous_roles, 0);
    cr_assert_eq(access.rows_count, 2);
    cr_assert_eq(access.rows[0].role, ROLE_AGENT);
    cr_assert_eq(access.rows[0].groups_count, 2);
    cr_assert_str_eq(access.rows[0].groups[1], "g0");
    cr_assert_eq(access.rows[1].role, ROLE_TRAINER);
    controller_config_free(config);
}

Test(controller_config_access, local_is_all_unless_it_is_written)
{
    struct controller_config *config = NULL;
    struct access access;
    char path[32];
    struct baton_status st = load("store: 'memory:'\n", path, &config, &access);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(access.local_roles, ROLES_ALL);
    controller_config_free(config);
    st = load("access: {identities: []}\n", path, &config, &access);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(access.local_roles, ROLES_ALL);
    cr_assert_eq(access.rows_count, 0);
    controller_config_free(config);
    st = load("access: {local: [none]}\n", path, &config, &access);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(access.local_roles, 0);
    controller_config_free(config);
}

Test(controller_config_access, what_is_wrong_is_named_with_its_line)
{
    static const struct {
        const char *text;
        const char *place;
        const char *what;
    } cases[] = {
        { "access:\n  local:\n  - viewer\n  - king\n",
          ":4: access.local[1]: ", "'king' is no role" },
        { "access:\n  local: [viewer, none]\n", ":2: access.local[1]: ", "'none' is no role" },
        { "access:\n  identities:\n  - identity: a b\n    role: viewer\n",
          ":3: access.identities[0].identity: ", "spaces" },
        { "access:\n  identities:\n  - identity: x\n    role: viewer\n  - identity: y\n    role: "
          "boss\n",
          ":6: access.identities[1].role: ", "'boss' is no role; write trainer, agent" },
        { "access:\n  identities:\n  - identity: x\n    role: trainer\n",
          ":3: access.identities[0].models: ", "a trainer needs the models" },
        { "access:\n  identities:\n  - {identity: x, role: agent, agents: [x]}\n",
          ":3: access.identities[0].groups: ", "the groups that it may speak for" },
        { "access:\n  identities:\n  - identity: x\n    role: operator\n    models: [m]\n",
          ":5: access.identities[0].models: ", "only for the roles trainer and router" },
        { "access:\n  identities:\n  - identity: x\n    role: viewer\n    groups: [m]\n",
          ":5: access.identities[0].groups: ", "only for the role agent" },
        { "access:\n  identities:\n  - identity: x\n    role: agent\n    agents: [x]\n"
          "    groups:\n    - g0\n    - '{1}'\n",
          ":8: access.identities[0].groups[1]: ", "the identity does not have" },
        { "access:\n  identities:\n  - identity: x\n    role: viewer\n    modles: [m]\n",
          ":5: ", "modles" },
        { "access:\n  identities:\n  - role: viewer\n", ":3: ", "identity" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct controller_config *config = NULL;
        struct access access;
        char path[32];
        struct baton_status st = load(cases[i].text, path, &config, &access);
        cr_assert_eq(st.code, BATON_INVALID_ARGUMENT, "case %zu", i);
        cr_assert(strncmp(st.message, path, strlen(path)) == 0, "case %zu: %s", i, st.message);
        const char *rest = st.message + strlen(path);
        cr_assert(strncmp(rest, cases[i].place, strlen(cases[i].place)) == 0, "case %zu: %s", i,
                  st.message);
        cr_assert_not_null(strstr(rest, cases[i].what), "case %zu: %s", i, st.message);
        controller_config_free(config);
    }
}
