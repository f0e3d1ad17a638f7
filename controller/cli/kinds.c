/* kinds.c -- the kinds of objects and their columns: to add a column, add a row and a cell. */
#include "controller/cli/print.h"

#include <stdio.h>
#include <string.h>

#include "baton/v1/fleet.pb-c.h"
#include "baton/v1/models.pb-c.h"
#include "baton/v1/rolls.pb-c.h"
#include "baton/v1/versions.pb-c.h"

#define CELL(out, ...) ((void)snprintf((out), CLI_CELL_BYTES, __VA_ARGS__))

static void meta_name(const void *item, char *out)
{
    const Baton__V1__ObjectMeta *meta = cli_get_part(item, "meta");
    CELL(out, "%s", meta != NULL ? meta->name : cli_get_text(item, "name"));
}

static void meta_age(const void *item, char *out)
{
    const Baton__V1__ObjectMeta *meta = cli_get_part(item, "meta");
    cli_text_age(meta != NULL ? meta->created_at : NULL, out);
}

static void item_model(const void *item, char *out)
{
    CELL(out, "%s", cli_get_text(item, "model"));
}

static void item_agent(const void *item, char *out)
{
    CELL(out, "%s", cli_get_text(item, "agent"));
}

/* --- models --- */

static void model_trigger(const void *item, char *out)
{
    const Baton__V1__Model *m = item;
    CELL(out, "%s", m->spec != NULL && m->spec->update != NULL ? m->spec->update->trigger : "-");
}

static void model_newest(const void *item, char *out)
{
    const Baton__V1__Model *m = item;
    cli_text_seq(m->status != NULL ? m->status->newest_seq : 0, out);
}

static void model_promoted(const void *item, char *out)
{
    const Baton__V1__Model *m = item;
    cli_text_seq(m->status != NULL ? m->status->promoted_seq : 0, out);
}

/* A leader always tells conditions, a standby never does. */
static bool is_live(const Baton__V1__Model *m)
{
    return m->status != NULL && m->status->n_conditions > 0;
}

static void model_groups(const void *item, char *out)
{
    const Baton__V1__Model *m = item;
    if (m->status != NULL && is_live(m)) {
        CELL(out, "%u/%u", m->status->groups_converged, m->status->groups);
    } else if (m->status != NULL) {
        CELL(out, "?/%u", m->status->groups);
    }
}

static void model_lag(const void *item, char *out)
{
    const Baton__V1__Model *m = item;
    if (!is_live(m)) {
        CELL(out, "?");
        return;
    }
    CELL(out, "%llu", (unsigned long long)m->status->max_lag_publishes);
}

static void model_state(const void *item, char *out)
{
    const Baton__V1__ModelStatus *s = ((const Baton__V1__Model *)item)->status;
    if (s != NULL) {
        CELL(out, "%s",
             s->suspended                ? "Suspended"
             : s->held                   ? "Held"
             : s->active_roll[0] != '\0' ? "Rolling"
                                         : "Ready");
    }
}

static void model_budget(const void *item, char *out)
{
    const Baton__V1__Model *m = item;
    CELL(out, "%s",
         m->spec != NULL && m->spec->update != NULL ? m->spec->update->max_unavailable : "-");
}

static void model_hold(const void *item, char *out)
{
    const Baton__V1__Model *m = item;
    CELL(out, "%.150s", m->status != NULL ? m->status->hold_reason : "");
}

static const struct cli_column model_columns[] = {
    { "NAME", false, meta_name },
    { "STATE", false, model_state },
    { "NEWEST", false, model_newest },
    { "PROMOTED", false, model_promoted },
    { "CONVERGED", false, model_groups },
    { "MAX-LAG", false, model_lag },
    { "AGE", false, meta_age },
    { "TRIGGER", true, model_trigger },
    { "MAX-UNAVAILABLE", true, model_budget },
    { "HOLD", true, model_hold },
};

/* --- versions --- */

static void version_seq(const void *item, char *out)
{
    cli_text_seq(((const Baton__V1__Version *)item)->seq, out);
}

static void version_state(const void *item, char *out)
{
    const Baton__V1__Version *v = item;
    CELL(out, "%s%s", cli_text_enum(&baton__v1__version_state__descriptor, (int)v->state),
         v->quarantined ? " (quarantined)"
         : v->partial   ? " (partial)"
                        : "");
}

static void version_step(const void *item, char *out)
{
    const Baton__V1__Version *v = item;
    if (v->optimizer_step != 0) {
        CELL(out, "%llu", (unsigned long long)v->optimizer_step);
    }
}

static void version_size(const void *item, char *out)
{
    cli_text_bytes(((const Baton__V1__Version *)item)->bytes, out);
}

static void version_serving(const void *item, char *out)
{
    CELL(out, "%u", ((const Baton__V1__Version *)item)->groups_serving);
}

static void version_age(const void *item, char *out)
{
    cli_text_age(((const Baton__V1__Version *)item)->published_at, out);
}

static void version_digest(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Version *)item)->digest);
}

static void version_source(const void *item, char *out)
{
    const Baton__V1__Version *v = item;
    if (v->n_sources > 0) {
        CELL(out, "%s:%.120s", v->sources[0]->backend, v->sources[0]->location);
    }
}

static void version_uid(const void *item, char *out)
{
    const Baton__V1__Version *v = item;
    CELL(out, "%s", v->meta != NULL ? v->meta->uid : "");
}

static const struct cli_column version_columns[] = {
    { "MODEL", false, item_model },     { "SEQ", false, version_seq },
    { "STATE", false, version_state },  { "STEP", false, version_step },
    { "SIZE", false, version_size },    { "GROUPS", false, version_serving },
    { "AGE", false, version_age },      { "DIGEST", true, version_digest },
    { "SOURCE", true, version_source }, { "UID", true, version_uid },
};

/* --- groups --- */

static void group_state(const void *item, char *out)
{
    const Baton__V1__Group *g = item;
    CELL(out, "%s%s", cli_text_enum(&baton__v1__group_state__descriptor, (int)g->state),
         g->asleep && g->state != BATON__V1__GROUP_STATE__GROUP_STATE_ASLEEP ? " (falls asleep)"
         : g->drained                                                        ? " (drained)"
         : g->cordoned                                                       ? " (cordoned)"
         : g->pinned                                                         ? " (pinned)"
                                                                             : "");
}

static void group_version(const void *item, char *out)
{
    cli_text_seq(((const Baton__V1__Group *)item)->committed_seq, out);
}

static void group_target(const void *item, char *out)
{
    const Baton__V1__Group *g = item;
    cli_text_seq(g->staging_seq != 0 ? g->staging_seq : g->target_seq, out);
}

static void group_lag(const void *item, char *out)
{
    const Baton__V1__Group *g = item;
    if (g->n_conditions == 0) { /* Of a standby, which does not know it. */
        CELL(out, "?");
        return;
    }
    CELL(out, "%llu", (unsigned long long)g->lag_publishes);
}

static void group_gate(const void *item, char *out)
{
    const Baton__V1__Group *g = item;
    if (g->n_conditions == 0) {
        CELL(out, "?");
        return;
    }
    CELL(out, "%s", g->advisory ? "advisory" : g->gate_open ? "open" : "shut");
}

static void group_verify(const void *item, char *out)
{
    CELL(out, "%s",
         cli_text_enum(&baton__v1__verify_level__descriptor,
                       (int)((const Baton__V1__Group *)item)->verify_level));
}

static void group_blocked(const void *item, char *out)
{
    CELL(out, "%s",
         cli_text_enum(&baton__v1__blocked_reason__descriptor,
                       (int)((const Baton__V1__Group *)item)->blocked_reason));
}

static void group_pause(const void *item, char *out)
{
    const Baton__V1__Group *g = item;
    cli_text_duration(
        g->last_swap != NULL && g->last_swap->phases != NULL ? g->last_swap->phases->shut_ns : 0,
        out);
}

static void group_engines(const void *item, char *out)
{
    CELL(out, "%zu", ((const Baton__V1__Group *)item)->n_engines);
}

static void group_message(const void *item, char *out)
{
    const Baton__V1__Group *g = item;
    CELL(out, "%.150s", g->blocked_message[0] != '\0' ? g->blocked_message : g->state_message);
}

static const struct cli_column group_columns[] = {
    { "NAME", false, meta_name },        { "MODEL", false, item_model },
    { "STATE", false, group_state },     { "VERSION", false, group_version },
    { "TARGET", false, group_target },   { "LAG", false, group_lag },
    { "GATE", false, group_gate },       { "VERIFIED", false, group_verify },
    { "BLOCKED", false, group_blocked }, { "LAST-PAUSE", true, group_pause },
    { "ENGINES", true, group_engines },  { "AGENT", true, item_agent },
    { "MESSAGE", true, group_message },
};

/* --- engines --- */

static void engine_name(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->name);
}

static void engine_group(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->group);
}

static void engine_kind(const void *item, char *out)
{
    const Baton__V1__Engine *e = item;
    CELL(out, "%s %s", e->kind, e->software);
}

static void engine_ranks(const void *item, char *out)
{
    CELL(out, "%u", ((const Baton__V1__Engine *)item)->world_size);
}

static void engine_gate(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->gate);
}

static void engine_label(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->label);
}

static void engine_way_in(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->way_in);
}

static void engine_reachable(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->reachable ? "yes" : "no");
}

static void engine_endpoint(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->endpoint);
}

static void engine_recreates(const void *item, char *out)
{
    const Baton__V1__Engine *e = item;
    CELL(out, "%s (%u)", e->recreate, e->recreates);
}

static void engine_incarnation(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Engine *)item)->incarnation);
}

static const struct cli_column engine_columns[] = {
    { "GROUP", false, engine_group },       { "NAME", false, engine_name },
    { "KIND", false, engine_kind },         { "RANKS", false, engine_ranks },
    { "WAY-IN", false, engine_way_in },     { "REACHABLE", false, engine_reachable },
    { "GATE", false, engine_gate },         { "LABEL", false, engine_label },
    { "AGENT", true, item_agent },          { "ENDPOINT", true, engine_endpoint },
    { "RECREATE", true, engine_recreates }, { "INCARNATION", true, engine_incarnation },
};

/* --- agents --- */

static void agent_connected(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Agent *)item)->connected ? "yes" : "no");
}

static void agent_seen(const void *item, char *out)
{
    cli_text_age(((const Baton__V1__Agent *)item)->last_seen_at, out);
}

static void agent_groups(const void *item, char *out)
{
    CELL(out, "%u", ((const Baton__V1__Agent *)item)->groups);
}

static void agent_landing(const void *item, char *out)
{
    const Baton__V1__Agent *a = item;
    char used[CLI_CELL_BYTES], budget[CLI_CELL_BYTES];
    cli_text_bytes(a->landing_used_bytes, used);
    cli_text_bytes(a->landing_budget_bytes, budget);
    CELL(out, "%.60s of %.60s", used, budget);
}

static void agent_software(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Agent *)item)->software);
}

static void agent_address(const void *item, char *out)
{
    CELL(out, "%.150s", ((const Baton__V1__Agent *)item)->address);
}

static void agent_certificate(const void *item, char *out)
{
    cli_text_left(((const Baton__V1__Agent *)item)->certificate_ends_at, out);
}

static const struct cli_column agent_columns[] = {
    { "NAME", false, meta_name },        { "CONNECTED", false, agent_connected },
    { "LAST-SEEN", false, agent_seen },  { "GROUPS", false, agent_groups },
    { "LANDING", false, agent_landing }, { "SOFTWARE", true, agent_software },
    { "ADDRESS", true, agent_address },  { "CERTIFICATE-ENDS", true, agent_certificate },
};

/* --- rolls --- */

static void roll_state(const void *item, char *out)
{
    const Baton__V1__Roll *r = item;
    CELL(out, "%s%s", cli_text_enum(&baton__v1__roll_state__descriptor, (int)r->state),
         r->degraded ? " (degraded)" : "");
}

static void roll_to(const void *item, char *out)
{
    cli_text_seq(((const Baton__V1__Roll *)item)->to_seq, out);
}

static void roll_done(const void *item, char *out)
{
    const Baton__V1__Roll *r = item;
    CELL(out, "%u/%u", r->groups_done, r->groups_total);
}

static void roll_cause(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Roll *)item)->cause);
}

static void roll_age(const void *item, char *out)
{
    cli_text_age(((const Baton__V1__Roll *)item)->started_at, out);
}

static void roll_took(const void *item, char *out)
{
    const Baton__V1__Roll *r = item;
    uint64_t start = 0, end = 0;
    struct baton_status a = baton_wire_timestamp_ns(r->started_at, "started_at", &start);
    struct baton_status b = baton_wire_timestamp_ns(r->ended_at, "ended_at", &end);
    cli_text_duration(baton_ok(&a) && baton_ok(&b) && end > start ? end - start : 0, out);
}

static void roll_by(const void *item, char *out)
{
    CELL(out, "%s", ((const Baton__V1__Roll *)item)->requested_by);
}

static void roll_reason(const void *item, char *out)
{
    CELL(out, "%.150s", ((const Baton__V1__Roll *)item)->reason);
}

static const struct cli_column roll_columns[] = {
    { "NAME", false, meta_name },    { "MODEL", false, item_model }, { "TO", false, roll_to },
    { "STATE", false, roll_state },  { "DONE", false, roll_done },   { "CAUSE", false, roll_cause },
    { "AGE", false, roll_age },      { "TOOK", false, roll_took },   { "BY", true, roll_by },
    { "REASON", true, roll_reason },
};

#define COLUMNS(table) (table), sizeof(table) / sizeof((table)[0])

const struct cli_kind cli_kinds[] = {
    { "models", "model", "baton.v1.Models/List", "baton.v1.ListModelsRequest",
      "baton.v1.Models/Watch", "baton.v1.WatchModelsRequest", "model", COLUMNS(model_columns) },
    { "versions", "version", "baton.v1.Versions/List", "baton.v1.ListVersionsRequest",
      "baton.v1.Versions/Watch", "baton.v1.WatchVersionsRequest", "version",
      COLUMNS(version_columns) },
    { "groups", "group", "baton.v1.Fleet/ListGroups", "baton.v1.ListGroupsRequest",
      "baton.v1.Fleet/Watch", "baton.v1.WatchGroupsRequest", "group", COLUMNS(group_columns) },
    { "engines", "engine", "baton.v1.Fleet/ListEngines", "baton.v1.ListEnginesRequest", NULL, NULL,
      NULL, COLUMNS(engine_columns) },
    { "agents", "agent", "baton.v1.Fleet/ListAgents", "baton.v1.ListAgentsRequest", NULL, NULL,
      NULL, COLUMNS(agent_columns) },
    { "rolls", "roll", "baton.v1.Rolls/List", "baton.v1.ListRollsRequest", "baton.v1.Rolls/Watch",
      "baton.v1.WatchRollsRequest", "roll", COLUMNS(roll_columns) },
};
const size_t cli_kinds_count = sizeof(cli_kinds) / sizeof(cli_kinds[0]);

const struct cli_kind *cli_kind_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < cli_kinds_count; i++) {
        if (strcmp(cli_kinds[i].plural, name) == 0 || strcmp(cli_kinds[i].singular, name) == 0) {
            return &cli_kinds[i];
        }
    }
    return NULL;
}
