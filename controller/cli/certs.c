/* certs.c -- batonctl certs init DIR | certs issue DIR NAME: a small certificate authority for a lab.
 *
 * Its key lies beside it, readable by its owner: enough for a lab, a test or a first fleet.  A site that has an authority
 * of its own needs none of this: any certificate whose names the controller's roles match will do. */
#include <stdio.h>
#include <string.h>

#include "api/config/config.h"
#include "controller/cli/authority.h"
#include "controller/cli/cli.h"

enum { KEY_TRUST_DOMAIN = 0x2000, KEY_ROLE, KEY_DNS, KEY_IP, KEY_DAYS, KEY_VALID, KEY_RENEW };

const struct argp_option cli_certs_options[] = {
    { "trust-domain", KEY_TRUST_DOMAIN, "NAME", 0,
      "init: first part of all identities (default baton.lab)", 0 },
    { "role", KEY_ROLE, "ROLE", 0,
      "issue: controller, agent, trainer, router, operator or viewer; part of the identity", 0 },
    { "dns", KEY_DNS, "NAME", 0, "issue: a host name that is dialled; may come again", 0 },
    { "ip", KEY_IP, "ADDRESS", 0, "issue: an address that is dialled; may come again", 0 },
    { "days", KEY_DAYS, "N", 0, "How long it holds (default 90; the authority's 3650)", 0 },
    { "valid", KEY_VALID, "DURATION", 0, "The same, e.g. 12h", 0 },
    { "renew", KEY_RENEW, NULL, 0, "issue: a new certificate for the key that is there", 0 },
    { NULL, 0, NULL, 0, NULL, 0 }
};

static const char *trust_domain = "baton.lab";
static struct authority_leaf leaf;
static uint64_t days;
static const char *valid_text;

static bool add(const char *list[], size_t *count, const char *text)
{
    if (*count == AUTHORITY_NAMES_MAX) {
        return false;
    }
    list[(*count)++] = text;
    return true;
}

bool cli_certs_take(int key, const char *argument)
{
    switch (key) {
    case KEY_TRUST_DOMAIN: trust_domain = argument; return true;
    case KEY_ROLE: leaf.role = argument; return true;
    case KEY_DNS: return add(leaf.dns, &leaf.dns_count, argument);
    case KEY_IP: return add(leaf.ip, &leaf.ip_count, argument);
    case KEY_DAYS: days = cli_number("--days", argument); return true;
    case KEY_VALID: valid_text = argument; return true;
    case KEY_RENEW: leaf.renew = true; return true;
    default: return false;
    }
}

static struct baton_status validity_s(uint64_t days_otherwise, uint64_t *out)
{
    uint64_t ns = 0;
    struct baton_status st = baton_config_duration("--valid", valid_text, 0, &ns);
    *out = valid_text != NULL ? ns / UINT64_C(1000000000)
                              : (days != 0 ? days : days_otherwise) * UINT64_C(86400);
    if (baton_ok(&st) && (*out == 0 || *out > UINT64_C(86400) * 36500)) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                               "--valid, --days: must be 1 s to 100 years");
    }
    return st;
}

static enum cli_exit init(const char *folder)
{
    uint64_t seconds = 0;
    struct baton_status st = validity_s(3650, &seconds);
    if (baton_ok(&st)) {
        st = authority_create(folder, trust_domain, seconds);
    }
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    (void)printf("%s/ca.crt  for clientCa, ca and --ca\n%s/ca.key  keep it secret\n", folder,
                 folder);
    return CLI_EXIT_OK;
}

static enum cli_exit issue(const char *folder, const char *name)
{
    char identity[AUTHORITY_IDENTITY_BYTES];
    leaf.name = name;
    if (leaf.role == NULL) {
        return cli_usage(
            "whose certificate? say --role controller, agent, trainer, router, operator "
            "or viewer");
    }
    struct baton_status st = validity_s(90, &leaf.valid_s);
    if (baton_ok(&st)) {
        st = authority_issue(folder, &leaf, identity);
    }
    if (!baton_ok(&st)) {
        return cli_fail(&st);
    }
    (void)printf("%s/%s.crt\n%s/%s.key\nidentity: %s\n", folder, name, folder, name, identity);
    return CLI_EXIT_OK;
}

enum cli_exit cli_run_certs(struct cli *cli)
{
    if (cli->words_count == 2 && strcmp(cli->words[0], "init") == 0) {
        return init(cli->words[1]);
    }
    if (cli->words_count == 3 && strcmp(cli->words[0], "issue") == 0) {
        return issue(cli->words[1], cli->words[2]);
    }
    return cli_usage("certs what? say init DIR, or issue DIR NAME --role ROLE");
}
