/* check_shown.c -- the truth about numbers and answers that a controller shows: lag, and which groups
 * are ready for a request; see check.h. */
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/verbs.h"

bool check_publishes(const struct world *world, uint32_t model, const struct check_path *path,
                     uint64_t *out)
{
    uint64_t at = path->newest;
    *out = 0;
    while (at != 0 && at != path->served) {
        uint32_t content = content_of_seq(world, model, at);
        at = content != 0 ? world->versions[content].parent : 0;
        ++*out;
    }
    return at == path->served && at != 0;
}

static uint64_t above(uint64_t from, uint64_t to)
{
    return from != 0 && to > from ? to - from : 0;
}

/* The lag once more, from what was published. */
void check_lag(struct world *world, const struct group_record *group,
               const struct group_status *status)
{
    uint32_t of = model_of_name(group->model);
    const struct model_record *model = model_stored(&world->disk, of);
    uint32_t content = content_of_seq(world, of, status->committed_seq);
    uint64_t publishes = 0;
    if (world->went_back || model == NULL || content == 0 ||
        disk_find(&world->disk, RECORD_VERSION, world->versions[content].uid) == NULL) {
        return;
    }
    struct check_path path = { model->newest_seq, status->committed_seq };
    bool related = check_publishes(world, of, &path, &publishes);
    enum lag_relation relation = !related         ? LAG_RELATION_UNRELATED
                                 : publishes == 0 ? LAG_RELATION_CURRENT
                                                  : LAG_RELATION_BEHIND;
    if (status->relation != relation) {
        world_break(world, CHECK_STALENESS,
                    "%s: v%llu is said to be in relation %d to v%llu, not %d", group->name,
                    (unsigned long long)status->committed_seq, (int)status->relation,
                    (unsigned long long)model->newest_seq, (int)relation);
    }
    const struct version_model *served = &world->versions[content];
    const struct version_model *newest =
        &world->versions[content_of_seq(world, of, model->newest_seq)];
    const uint64_t expected[] = { publishes, above(served->step, newest->step),
                                  above(served->samples, newest->samples),
                                  above(served->published_ns, newest->published_ns) / S };
    const uint64_t told[] = { status->lag_publishes, status->lag_optimizer_steps,
                              status->lag_samples, status->lag_seconds };
    static const char *const units[] = { "publishes", "optimizer steps", "samples", "seconds" };
    for (int i = 0; related && i < 4; i++) {
        if (told[i] != expected[i]) {
            world_break(world, CHECK_STALENESS, "%s: lag of %llu %s; it is %llu", group->name,
                        (unsigned long long)told[i], units[i], (unsigned long long)expected[i]);
        }
    }
}

/* A group that is said to be ready serves the version that is named, or nobody. */
void check_admission(struct world *world, const struct head *head, const struct group_record *group)
{
    const struct admission_query query = { .model = group->model };
    const struct version_record *version = NULL;
    const struct group_model *truth = world_group(world, group->name, NULL);
    if (world->went_back || !view_admission_group(head->core, &query, group, &version)) {
        return;
    }
    bool open = false;
    for (uint32_t e = 0; e < truth->engines_count; e++) {
        open |= truth->engines[e].guarded && engine_is_open(world, &truth->engines[e]);
    }
    if (group->ticket_open || group->asleep ||
        (open && content_of(version->digest) != truth->committed)) {
        world_break(world, CHECK_ADMISSION, "%s is said to be ready with v%llu; it serves v%llu%s",
                    group->name, (unsigned long long)version->seq,
                    (unsigned long long)truth->committed_seq,
                    group->ticket_open ? " and has a ticket"
                    : group->asleep    ? " and is to sleep"
                                       : "");
    }
}

/* A session gets a version that a group serves, and the same one as long as its lease was promised. */
void check_session(struct world *world, const struct call *call, uint64_t seq)
{
    struct session_book *book = &world->models[call->model].sessions[call->word % SIM_SESSIONS];
    bool served = false;
    for (size_t i = 0; i < world->disk.count; i++) {
        const struct group_record *group = &world->disk.kept[i].body.group;
        served |= world->disk.kept[i].kind == RECORD_GROUP && group->committed_seq == seq &&
                  !group->ticket_open && !group->retired && !group->asleep &&
                  model_of_name(group->model) == call->model;
    }
    bool lives = book->seq != 0 && world->now_ns < book->until_ns && !world->went_back;
    if (!served) {
        world_break(world, CHECK_ADMISSION, "a session is sent to v%llu, which no group serves",
                    (unsigned long long)seq);
    } else if (lives && seq != book->seq && !verbs_restarts(call)) {
        world_break(world, CHECK_ADMISSION,
                    "a session is sent to v%llu while its lease of v%llu lives",
                    (unsigned long long)seq, (unsigned long long)book->seq);
    }
    book->seq = seq;
    book->until_ns = world->now_ns + SIM_SESSION_MS * MS;
}

/* What the agent tells an operator at its node is what its journal says. */
void check_status(struct world *world, const struct node *node,
                  const struct agent_node_status *status)
{
    for (uint32_t i = 0; i < status->groups_count; i++) {
        const struct agent_group_report *told = &status->groups[i].report;
        const struct group_model *truth = node_part((struct node *)node, told->group);
        if (told->committed.seq != truth->journal_seq) {
            world_break(world, CHECK_COMMIT, "%s tells its operator v%llu; v%llu was committed",
                        told->group, (unsigned long long)told->committed.seq,
                        (unsigned long long)truth->journal_seq);
        }
    }
}
