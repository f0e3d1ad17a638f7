/* config_access.c -- the part of the controller's file that says who may do what; see config.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/config/config.h"
#include "controller/shell/config.h"
#include "controller/shell/pattern.h"

enum { KEY_BYTES = 96 };

/* Where in the file something is wrong. */
struct place {
    const char *path;
    char row[KEY_BYTES]; /* "access.identities[3]" */
};

BATON_PRINTF(3, 4)
static struct baton_status bad(const struct place *place, const char *key, const char *what, ...)
{
    char where[KEY_BYTES + 32];
    char text[BATON_TEXT_BYTES];
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text, sizeof(text), what, args);
    va_end(args);
    (void)snprintf(where, sizeof(where), "%s%s%s", place->row, key[0] != '\0' ? "." : "", key);
    return baton_config_fault(place->path, where, text);
}

static struct baton_status check_role(const struct place *place, const char *key, const char *word,
                                      enum role *out)
{
    return role_parse(word, out)
               ? baton_status_ok()
               : bad(place, key,
                     "'%.40s' is no role; write trainer, agent, router, operator or viewer", word);
}

/* One list of name patterns: there is one if and only if the role needs one. */
static struct baton_status check_names(const struct place *place, const char *key,
                                       char *const *patterns, unsigned count, size_t stars)
{
    for (unsigned i = 0; i < count; i++) {
        const char *fault = pattern_name_fault(patterns[i], stars);
        if (fault != NULL) {
            char item[KEY_BYTES];
            (void)snprintf(item, sizeof(item), "%s[%u]", key, i);
            return bad(place, item, "'%.80s' %s", patterns[i], fault);
        }
    }
    return baton_status_ok();
}

static struct baton_status check_lists(const struct place *place, const struct access_row *row)
{
    bool is_agent = row->role == ROLE_AGENT;
    bool has_models = row->role == ROLE_TRAINER || row->role == ROLE_ROUTER;
    if (is_agent && (row->agents_count == 0 || row->groups_count == 0)) {
        return bad(place, row->agents_count == 0 ? "agents" : "groups",
                   "an agent needs the names that it may bear (agents) and the groups that it may "
                   "speak for (groups)");
    }
    if (!is_agent && (row->agents_count > 0 || row->groups_count > 0)) {
        return bad(place, row->agents_count > 0 ? "agents" : "groups",
                   "is only for the role agent");
    }
    if (row->role == ROLE_TRAINER && row->models_count == 0) {
        return bad(place, "models",
                   "a trainer needs the models that it may publish; [\"*\"] means all");
    }
    if (!has_models && row->models_count > 0) {
        return bad(place, "models", "is only for the roles trainer and router");
    }
    return baton_status_ok();
}

static struct baton_status check_row(const char *path, size_t index, struct access_row *row)
{
    struct place place = { .path = path };
    (void)snprintf(place.row, sizeof(place.row), "access.identities[%zu]", index);
    const char *fault = pattern_identity_fault(row->identity);
    size_t stars = pattern_stars(row->identity);
    if (fault != NULL) {
        return bad(&place, "identity", "'%.120s' %s", row->identity, fault);
    }
    struct baton_status st = check_role(&place, "role", row->role_word, &row->role);
    if (baton_ok(&st)) {
        st = check_lists(&place, row);
    }
    if (baton_ok(&st)) {
        st = check_names(&place, "models", row->models, row->models_count, stars);
    }
    if (baton_ok(&st)) {
        st = check_names(&place, "agents", row->agents, row->agents_count, stars);
    }
    if (baton_ok(&st)) {
        st = check_names(&place, "groups", row->groups, row->groups_count, stars);
    }
    return st;
}

/* "none" stands alone: a list cannot be empty by mistake. */
static struct baton_status read_local(const char *path, const struct controller_access *from,
                                      unsigned *out)
{
    struct place place = { .path = path, .row = "access.local" };
    *out = 0;
    for (unsigned i = 0; i < from->local_count; i++) {
        enum role role = ROLE_VIEWER;
        if (from->local_count == 1 && strcmp(from->local[0], "none") == 0) {
            return baton_status_ok();
        }
        (void)snprintf(place.row, sizeof(place.row), "access.local[%u]", i);
        struct baton_status st = check_role(&place, "", from->local[i], &role);
        if (!baton_ok(&st)) {
            return st;
        }
        *out |= ROLE_BIT(role);
    }
    return baton_status_ok();
}

struct baton_status controller_config_access(const char *path,
                                             const struct controller_config *config,
                                             struct access *out)
{
    struct baton_status st = baton_status_ok();
    *out = access_default();
    if (config->access == NULL) {
        return st;
    }
    if (config->access->local_count > 0) {
        st = read_local(path, config->access, &out->local_roles);
    }
    for (unsigned i = 0; baton_ok(&st) && i < config->access->identities_count; i++) {
        st = check_row(path, i, &config->access->identities[i]);
    }
    out->rows = config->access->identities;
    out->rows_count = config->access->identities_count;
    return st;
}
