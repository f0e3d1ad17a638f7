/* daemon.c -- the loop and what it is given; see daemon.h. */
#include "agent/shell/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/shell/exchange.h"
#include "agent/shell/hook.h"
#include "agent/shell/janitor.h"
#include "agent/shell/journal_file.h"
#include "agent/shell/lander.h"
#include "agent/shell/link.h"
#include "agent/shell/local_server.h"
#include "agent/shell/operate.h"
#include "agent/shell/peer_link.h"
#include "agent/shell/peer_server.h"
#include "agent/shell/perform.h"
#include "agent/shell/source.h"
#include "agent/shell/worker.h"
#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/rpc/rpc.h"

enum { PROGRESS_MS = 200, SPACE_S = 1 };

bool daemon_find_group(const struct daemon *daemon, const char *name, uint32_t *out)
{
    for (uint32_t i = 0; i < daemon->config->core.groups_count; i++) {
        if (strcmp(daemon->config->core.groups[i].name, name) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* --- one step --- */

static void step_once(struct daemon *daemon, struct agent_event *event)
{
    event->now_ns = baton_clock_monotonic_ns();
    event->wall_ns = baton_clock_wall_ns();
    struct agent_actions actions = agent_step(daemon->core, event);
    for (size_t i = 0; i < actions.count; i++) {
        perform(daemon, &actions.items[i]);
    }
}

/* How much room the journal has.  Tickets that came while there was none were ignored: restating makes
 * the controller send them again. */
static void tell_space(struct daemon *daemon)
{
    enum agent_journal_space space = journal_file_space(daemon->journal);
    enum agent_journal_space before = daemon->space;
    if (space != before) {
        struct agent_event event = { .kind = AGENT_EVENT_JOURNAL_SPACE, .space = space };
        daemon->space = space;
        step_once(daemon, &event);
        if (before == AGENT_JOURNAL_NONE) {
            link_reset(daemon->link, "the journal's disk has room again");
        }
    }
}

/* What the journal did in the last step: times, and the space that is left. */
static void tell_notices(struct daemon *daemon)
{
    while (daemon->notices_count > 0) {
        struct journal_notice notices[DAEMON_NOTICES_MAX];
        unsigned count = daemon->notices_count;
        memcpy(notices, daemon->notices, count * sizeof(*notices));
        daemon->notices_count = 0;
        for (unsigned i = 0; i < count; i++) {
            struct agent_event event = { .kind = AGENT_EVENT_JOURNAL_SYNCED,
                                         .synced = { notices[i].kind, notices[i].group,
                                                     notices[i].took_ns } };
            step_once(daemon, &event);
        }
    }
    tell_space(daemon);
}

static bool snapshot_record(void *context, uint32_t index, struct journal_record *record)
{
    return agent_snapshot(context, index, record);
}

static void compact(struct daemon *daemon)
{
    if (journal_file_wants_compaction(daemon->journal)) {
        struct baton_status st =
            journal_file_compact(daemon->journal, snapshot_record, daemon->core);
        if (!baton_ok(&st)) {
            baton_log_status(BATON_LOG_WARN, "journal", "could not be compacted", &st);
        }
    }
}

/* --- versions that do not fit --- */

/* Compares the layouts of what a group committed and of what it stages, once for each pair: manifests
 * are large, and versions never change. */
static void compare(struct daemon *daemon, struct group_facts *group)
{
    char path[BATON_PATH_BYTES];
    if (strcmp(group->compared[0], group->committed) == 0 &&
        strcmp(group->compared[1], group->stage) == 0) {
        return;
    }
    group->fit = baton_status_ok();
    group->compared[0][0] = '\0';
    if (lander_path(daemon->lander, group->committed, path) &&
        lander_path(daemon->lander, group->stage, path)) {
        group->fit = lander_compare(daemon->lander, group->committed, group->stage);
        memcpy(group->compared[0], group->committed, sizeof(group->committed));
        memcpy(group->compared[1], group->stage, sizeof(group->stage));
    }
}

/* Versions that are landed for groups whose engines could not take them are told at once: after goals,
 * after landings, and after a commit, which is what the next version has to fit. */
static void check_fit(struct daemon *daemon)
{
    for (uint32_t i = 0; i < daemon->config->core.groups_count; i++) {
        struct group_facts *group = &daemon->groups[i];
        if (group->stage[0] == '\0' || group->committed[0] == '\0' ||
            strcmp(group->stage, group->committed) == 0) {
            continue;
        }
        compare(daemon, group);
        if (!baton_ok(&group->fit)) {
            struct agent_event event = { .kind = AGENT_EVENT_UNFIT,
                                         .unfit = { daemon->config->core.groups[i].name,
                                                    group->stage, group->committed,
                                                    group->fit.message } };
            daemon_step(daemon, &event);
        }
    }
}

void daemon_step(struct daemon *daemon, struct agent_event *event)
{
    bool journaled = daemon->notices_count > 0;
    step_once(daemon, event);
    journaled |= daemon->notices_count > 0;
    if (journaled) {
        tell_notices(daemon);
        compact(daemon);
    }
    if (daemon->committed) {
        daemon->committed = false;
        check_fit(daemon);
    }
}

/* --- what comes in --- */

/* What the last good goals said. */
struct noted_goals {
    char target[BATON_GROUPS_PER_AGENT_MAX][BATON_DIGEST_TEXT_BYTES];
    char stage[BATON_GROUPS_PER_AGENT_MAX][BATON_DIGEST_TEXT_BYTES];
};

/* Goals that the core refused: the last good ones stay. */
static void restore_goals(struct daemon *daemon, const struct noted_goals *before)
{
    for (uint32_t i = 0; i < daemon->config->core.groups_count; i++) {
        memcpy(daemon->groups[i].target, before->target[i], sizeof(before->target[i]));
        memcpy(daemon->groups[i].stage, before->stage[i], sizeof(before->stage[i]));
    }
}

/* Noted before the core sees them, because an engine that it starts at once needs them. */
static void note_goals(struct daemon *daemon, const struct agent_goals *goals,
                       struct noted_goals *before)
{
    for (uint32_t i = 0; i < daemon->config->core.groups_count; i++) {
        memcpy(before->target[i], daemon->groups[i].target, sizeof(before->target[i]));
        memcpy(before->stage[i], daemon->groups[i].stage, sizeof(before->stage[i]));
    }
    for (uint32_t i = 0; i < goals->groups_count; i++) {
        uint32_t index;
        if (daemon_find_group(daemon, goals->groups[i].group, &index)) {
            struct group_facts *group = &daemon->groups[index];
            memcpy(group->target, goals->groups[i].target.version.digest, sizeof(group->target));
            memcpy(group->stage, goals->groups[i].stage.version.digest, sizeof(group->stage));
        }
    }
}

/* What a leader says a group should serve and land counts like a controller's goal. */
static void note_watch(struct daemon *daemon, const struct agent_peer_command *command)
{
    uint32_t index;
    if (command->verb != AGENT_PEER_WATCH || !daemon_find_group(daemon, command->group, &index)) {
        return;
    }
    struct group_facts *group = &daemon->groups[index];
    memset(group->target, 0, sizeof(group->target));
    memset(group->stage, 0, sizeof(group->stage));
    if (command->target != NULL) {
        memcpy(group->target, command->target->version.digest, sizeof(group->target));
    }
    if (command->stage != NULL) {
        memcpy(group->stage, command->stage->version.digest, sizeof(group->stage));
    }
}

/* From other agents of its groups. */
static void deliver_peer(void *context, struct agent_event *event)
{
    struct daemon *daemon = context;
    bool watches =
        event->kind == AGENT_EVENT_PEER_COMMAND && event->command->verb == AGENT_PEER_WATCH;
    if (watches) {
        note_watch(daemon, event->command);
    }
    daemon_step(daemon, event);
    if (watches) {
        check_fit(daemon);
    }
}

/* Those that come while there is no session wait for it. */
static void tell_troubles(struct daemon *daemon)
{
    struct exchange_trouble trouble;
    while (daemon->exchange != NULL && link_is_connected(daemon->link) &&
           exchange_take_trouble(daemon->exchange, &trouble)) {
        link_send_peer_trouble(daemon->link, &trouble);
    }
}

void daemon_on_exchange(void *target, void *argument)
{
    struct daemon *daemon = target;
    (void)argument;
    exchange_heard(daemon->exchange);
    tell_troubles(daemon);
}

static void take_peer_access(void *context, const void *message)
{
    struct daemon *daemon = context;
    if (daemon->exchange != NULL) {
        exchange_take_access(daemon->exchange, message);
        tell_troubles(daemon);
    }
}

static void deliver(void *context, struct agent_event *event)
{
    struct daemon *daemon = context;
    bool are_goals = event->kind == AGENT_EVENT_GOALS;
    struct noted_goals before;
    daemon->goals_refused = false;
    if (are_goals) {
        note_goals(daemon, event->goals, &before);
    }
    if (daemon->source != NULL) {
        source_set_connected(daemon->source, link_is_connected(daemon->link));
    }
    daemon_step(daemon, event);
    if (are_goals && daemon->goals_refused) {
        restore_goals(daemon, &before);
    } else if (are_goals) {
        check_fit(daemon);
    }
}

void daemon_on_worker(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct worker_event *news = argument;
    struct agent_event event = { .kind = AGENT_EVENT_OP_ENDED };
    switch (news->news) {
    case WORKER_OP_ENDED: event.op = &news->result; break;
    case WORKER_RECREATED:
        event.kind = AGENT_EVENT_RECREATED;
        event.recreated.engine = news->engine;
        event.recreated.status = &news->status;
        break;
    case WORKER_EXITED:
        event.kind = AGENT_EVENT_ENGINE_EXITED;
        event.exited = news->engine;
        break;
    }
    daemon_step(daemon, &event);
    free(news);
}

void daemon_on_lander(void *target, void *argument)
{
    struct daemon *daemon = target;
    struct lander_event *news = argument;
    struct agent_event event = { .kind = AGENT_EVENT_LANDING, .landing = &news->landing };
    daemon_step(daemon, &event);
    check_fit(daemon);
    free(news);
}

void daemon_on_hook(void *target, void *argument)
{
    struct hook_event *news = argument;
    struct agent_event event = { .kind = AGENT_EVENT_HOOK_ENDED,
                                 .hook = { news->id, &news->status } };
    daemon_step(target, &event);
    free(news);
}

static void on_landing(void *context, const struct agent_landing_event *landing)
{
    struct agent_event event = { .kind = AGENT_EVENT_LANDING, .landing = landing };
    daemon_step(context, &event);
}

/* --- the loop --- */

static void shutdown_work(void *target, void *argument)
{
    struct agent_event event = { .kind = AGENT_EVENT_SHUTDOWN };
    (void)argument;
    daemon_step(target, &event);
}

void daemon_stop(struct daemon *daemon)
{
    baton_mailbox_post_sure(daemon->mailbox, shutdown_work, NULL);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_deadline(const struct daemon *daemon, uint64_t progress_ns)
{
    uint64_t deadline = earlier(agent_deadline_ns(daemon->core), link_deadline_ns(daemon->link));
    deadline = earlier(deadline, peer_links_deadline_ns(daemon->peer_links));
    if (daemon->space != AGENT_JOURNAL_ROOM) {
        deadline = earlier(deadline, daemon->space_ns);
    }
    return lander_is_busy(daemon->lander) ? earlier(deadline, progress_ns) : deadline;
}

static void run_due(struct daemon *daemon, uint64_t *progress_ns)
{
    uint64_t now = baton_clock_monotonic_ns();
    if (now >= agent_deadline_ns(daemon->core)) {
        struct agent_event event = { .kind = AGENT_EVENT_TIMER };
        daemon_step(daemon, &event);
    }
    link_run(daemon->link, now);
    peer_links_run(daemon->peer_links, now);
    if (daemon->space != AGENT_JOURNAL_ROOM && now >= daemon->space_ns) {
        daemon->space_ns = now + SPACE_S * BATON_NS_PER_S;
        tell_space(daemon);
    }
    if (lander_is_busy(daemon->lander) && now >= *progress_ns) {
        lander_progress(daemon->lander, on_landing, daemon);
        *progress_ns = now + PROGRESS_MS * BATON_NS_PER_MS;
    }
}

void daemon_run(struct daemon *daemon)
{
    struct agent_event started = { .kind = AGENT_EVENT_STARTED };
    uint64_t progress_ns = 0;
    daemon_step(daemon, &started);
    while (!daemon->done) {
        struct baton_mailbox_item item;
        if (baton_mailbox_take(daemon->mailbox, next_deadline(daemon, progress_ns), &item)) {
            item.run(daemon, item.argument);
        }
        run_due(daemon, &progress_ns);
    }
    baton_log(BATON_LOG_INFO, "agent", "stopped");
}

/* --- create --- */

static void on_record(void *context, const struct journal_record *record)
{
    struct daemon *daemon = context;
    struct agent_event event = { .kind = AGENT_EVENT_RECOVERED, .recovered = record };
    uint32_t index;
    if (record->kind == JOURNAL_COMMIT && daemon_find_group(daemon, record->group, &index)) {
        memcpy(daemon->groups[index].committed, record->commit.version.digest,
               sizeof(daemon->groups[index].committed));
    }
    step_once(daemon, &event);
}

static struct baton_status open_core(struct daemon *daemon)
{
    size_t bytes = agent_size(&daemon->config->core);
    daemon->memory = calloc(1, bytes);
    baton_assert(daemon->memory != NULL);
    daemon->core = agent_init(daemon->memory, &daemon->config->core, baton_clock_wall_ns());
    return journal_file_open(daemon->config->state_directory, on_record, daemon, &daemon->journal);
}

/* Where pages, tokens, pid files and logs of engines are by default. */
static struct baton_status make_engines_directory(struct daemon *daemon)
{
    char path[BATON_PATH_BYTES];
    (void)snprintf(path, sizeof(path), "%.500s/engines", daemon->config->state_directory);
    if (mkdir(path, 0700) != 0 && errno != EEXIST) {
        return baton_status_errno(errno, "mkdir", path);
    }
    return baton_status_ok();
}

static struct baton_status open_workers(struct daemon *daemon)
{
    daemon->hooks = hooks_create(daemon->mailbox, daemon_on_hook, &daemon->config->hooks_tls);
    for (uint32_t g = 0; g < daemon->config->core.groups_count; g++) {
        uint32_t count = daemon->config->core.groups[g].engines_count;
        daemon->workers[g] = calloc(count, sizeof(struct worker *));
        baton_assert(daemon->workers[g] != NULL);
        for (uint32_t e = 0; e < count; e++) {
            struct worker_options options = {
                { g, e }, &daemon->config->engines[g][e], daemon->mailbox, daemon_on_worker
            };
            bool alive = true;
            struct baton_status st = worker_create(&options, &daemon->workers[g][e], &alive);
            if (!baton_ok(&st)) {
                return baton_status_in(st, "group %s", daemon->config->core.groups[g].name);
            }
            if (!alive) {
                struct agent_event event = { .kind = AGENT_EVENT_ENGINE_EXITED,
                                             .exited = { g, e } };
                step_once(daemon, &event);
            }
        }
    }
    return baton_status_ok();
}

static struct baton_status open_client(struct daemon *daemon)
{
    const struct shell_config *config = daemon->config;
    struct rpc_tls tls = { .ca_file = config->ca,
                           .cert_file = config->cert[0] != '\0' ? config->cert : NULL,
                           .key_file = config->key[0] != '\0' ? config->key : NULL };
    struct rpc_client_options options = { .target = config->controller,
                                          .tls = config->ca[0] != '\0' ? &tls : NULL,
                                          .user_agent = "baton-agent/" BATON_VERSION };
    struct baton_status st = rpc_client_create(&options, &daemon->client);
    if (baton_ok(&st)) {
        struct link_options link = { daemon->client, daemon->mailbox, deliver, take_peer_access,
                                     daemon };
        daemon->link = link_create(&link);
    }
    return st;
}

/* Links to others, and where others dial in: only once the journal is recovered. */
static struct baton_status open_peers(struct daemon *daemon)
{
    struct peer_links_options links = { daemon->config, daemon->mailbox, deliver_peer, daemon };
    struct peer_server_options server = { daemon->config, daemon->mailbox, deliver_peer, daemon };
    struct baton_status st = peer_links_create(&links, &daemon->peer_links);
    if (baton_ok(&st) && daemon->config->listen[0] != '\0') {
        st = peer_server_create(&server, &daemon->peer_server);
    }
    return st;
}

/* What passes versions on; it serves once there is something to serve from. */
static struct baton_status open_exchange(struct daemon *daemon)
{
    struct exchange_options options = { daemon->config, daemon->mailbox, daemon_on_exchange };
    return daemon->config->peers_listen[0] != '\0' ? exchange_create(&options, &daemon->exchange)
                                                   : baton_status_ok();
}

static struct baton_status serve_peers(struct daemon *daemon)
{
    struct landing_root *versions = daemon->source != NULL ? source_root(daemon->source) : NULL;
    return daemon->exchange != NULL
               ? exchange_serve(daemon->exchange, lander_root(daemon->lander), versions)
               : baton_status_ok();
}

static struct baton_status open_lander(struct daemon *daemon)
{
    struct lander_options options = { daemon->config->landing_directory,
                                      daemon->config->core.landing_budget_bytes, daemon->mailbox,
                                      daemon_on_lander, daemon->exchange };
    struct baton_status st = lander_create(&options, &daemon->lander);
    if (baton_ok(&st)) {
        lander_list(daemon->lander, on_landing, daemon);
    }
    return st;
}

/* The local socket: publishes, where this agent is a source, and break-glass. */
static struct baton_status open_local(struct daemon *daemon, struct local_sink sink)
{
    sink.operate = operate_ask;
    sink.operator_context = daemon;
    struct local_server_options local = { .address = daemon->config->socket,
                                          .agent = daemon->config->core.agent,
                                          .sink = sink };
    return local_server_create(&local, &daemon->local);
}

static struct baton_status open_source(struct daemon *daemon)
{
    const struct shell_config *config = daemon->config;
    if (config->versions_directory[0] == '\0') {
        struct baton_status local = open_local(daemon, (struct local_sink){ 0 });
        if (!baton_ok(&local)) { /* It serves all the same; only break-glass is not to be had. */
            baton_log_status(BATON_LOG_WARN, "agent", "no local socket", &local);
        }
        return baton_status_ok();
    }
    struct source_options options = { .agent = config->core.agent,
                                      .directory = config->versions_directory,
                                      .controller = config->controller,
                                      .client = daemon->client,
                                      .budget_bytes = config->versions_budget_bytes };
    struct baton_status st = source_create(&options, &daemon->source);
    if (baton_ok(&st)) {
        st = janitor_create(daemon->client, daemon->source, 0, &daemon->janitor);
    }
    if (!baton_ok(&st)) {
        return baton_status_in(st, "versions");
    }
    return open_local(daemon, source_sink(daemon->source));
}

static struct baton_status open_all(struct daemon *daemon)
{
    struct baton_status (*const steps[])(
        struct daemon *) = { open_core,   make_engines_directory, open_client, open_exchange,
                             open_lander, open_workers,           open_source, serve_peers,
                             open_peers };
    struct baton_status st = baton_mailbox_create(DAEMON_MAILBOX, &daemon->mailbox);
    for (size_t i = 0; baton_ok(&st) && i < sizeof(steps) / sizeof(steps[0]); i++) {
        st = steps[i](daemon);
    }
    return st;
}

struct baton_status daemon_create(const struct shell_config *config, struct daemon **out)
{
    struct daemon *daemon = calloc(1, sizeof(*daemon));
    baton_assert(daemon != NULL);
    daemon->config = config;
    struct baton_status st = open_all(daemon);
    if (!baton_ok(&st)) {
        daemon_destroy(daemon);
        return st;
    }
    *out = daemon;
    return st;
}

/* --- destroy --- */

/* An agent that could not start leaves the engines of its earlier life alone. */
static void destroy_workers(struct daemon *daemon)
{
    bool kill = daemon->config->stop_engines && daemon->done;
    for (uint32_t g = 0; g < daemon->config->core.groups_count; g++) {
        for (uint32_t e = 0;
             daemon->workers[g] != NULL && e < daemon->config->core.groups[g].engines_count; e++) {
            worker_destroy(daemon->workers[g][e], kill);
        }
        free(daemon->workers[g]);
    }
}

/* What was posted after the loop's end; nothing of it is acted on any more. */
static void drain_mailbox(struct daemon *daemon)
{
    struct baton_mailbox_item item;
    while (daemon->mailbox != NULL && baton_mailbox_take(daemon->mailbox, 0, &item)) {
        if (item.run == daemon_on_worker || item.run == daemon_on_lander ||
            item.run == daemon_on_hook) {
            free(item.argument);
        } else if (item.run == peer_links_news) {
            peer_links_discard(item.argument);
        } else if (item.run == peer_server_news) {
            peer_server_discard(item.argument);
        } else if (item.run == operate_work) {
            operate_discard(item.argument);
        } else if (item.run != shutdown_work && item.run != daemon_on_exchange) {
            link_discard(item.argument);
        }
    }
}

void daemon_destroy(struct daemon *daemon)
{
    if (daemon == NULL) {
        return;
    }
    /* First: nobody takes from the mailbox any more, and who tells of refusals would wait for room in it. */
    exchange_stop(daemon->exchange);
    local_server_destroy(daemon->local);
    peer_server_drain(daemon->peer_server);
    peer_links_destroy(daemon->peer_links);
    janitor_destroy(daemon->janitor);
    link_destroy(daemon->link);
    hooks_destroy(daemon->hooks);
    destroy_workers(daemon);
    lander_destroy(daemon->lander);
    source_destroy(daemon->source);
    exchange_destroy(daemon->exchange);
    rpc_client_destroy(daemon->client);
    drain_mailbox(daemon);
    peer_server_destroy(daemon->peer_server);
    journal_file_close(daemon->journal);
    baton_mailbox_destroy(daemon->mailbox);
    free(daemon->memory);
    free(daemon);
}
