/* perform.c -- one function an action; see perform.h. */
#include "agent/shell/perform.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/shell/daemon.h"
#include "agent/shell/hook.h"
#include "agent/shell/journal_file.h"
#include "agent/shell/lander.h"
#include "agent/shell/link.h"
#include "agent/shell/operate.h"
#include "agent/shell/peer_link.h"
#include "agent/shell/peer_server.h"
#include "agent/shell/worker.h"
#include "api/base/clock.h"
#include "api/base/log.h"

/* The process ends here rather than do what has no record; a restart recovers from the journal. */
static _Noreturn void die_of_journal(const struct baton_status *st)
{
    baton_log_status(BATON_LOG_ERROR, "journal",
                     "cannot be written; ending so that nothing is lost", st);
    _Exit(3);
}

static void note_record(struct daemon *daemon, const struct journal_record *record,
                        uint64_t took_ns)
{
    uint32_t index;
    if (record->kind == JOURNAL_COMMIT && daemon_find_group(daemon, record->group, &index)) {
        memcpy(daemon->groups[index].committed, record->commit.version.digest,
               sizeof(daemon->groups[index].committed));
        daemon->committed = true;
    }
    if (daemon->notices_count < DAEMON_NOTICES_MAX) {
        struct journal_notice *notice = &daemon->notices[daemon->notices_count++];
        notice->kind = record->kind;
        notice->took_ns = took_ns;
        memcpy(notice->group, record->group, sizeof(notice->group));
    }
}

static void perform_journal(struct daemon *daemon, const struct journal_record *record)
{
    uint64_t took_ns = 0;
    struct baton_status st = journal_file_append(daemon->journal, record, &took_ns);
    if (!baton_ok(&st)) {
        die_of_journal(&st);
    }
    note_record(daemon, record, took_ns);
}

static struct worker *worker_of(struct daemon *daemon, struct agent_engine_id id)
{
    return daemon->workers[id.group][id.engine];
}

static void perform_op(struct daemon *daemon, const struct agent_op *op)
{
    char landing[BATON_PATH_BYTES] = "";
    if (op->digest[0] != '\0') {
        (void)lander_path(daemon->lander, op->digest, landing);
    }
    worker_submit(worker_of(daemon, op->engine), op, landing);
}

/* The directory that an engine boots from: its group's target, else what it committed. */
static bool boot_checkpoint(struct daemon *daemon, struct agent_engine_id id,
                            char out[BATON_PATH_BYTES])
{
    const struct group_facts *group = &daemon->groups[id.group];
    out[0] = '\0';
    return !daemon->config->engines[id.group][id.engine].boots_from_landing ||
           lander_path(daemon->lander, group->target, out) ||
           lander_path(daemon->lander, group->committed, out);
}

static void perform_recreate(struct daemon *daemon, struct agent_engine_id id)
{
    char checkpoint[BATON_PATH_BYTES];
    uint64_t deadline_ns =
        baton_clock_monotonic_ns() + daemon->config->core.times.recreate_deadline;
    if (boot_checkpoint(daemon, id, checkpoint)) {
        worker_recreate(worker_of(daemon, id), checkpoint, deadline_ns);
        return;
    }
    struct worker_event *event = calloc(1, sizeof(*event));
    baton_assert(event != NULL);
    event->news = WORKER_RECREATED;
    event->engine = id;
    event->status = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_NONE,
                                      "no version has landed yet that it could start from");
    baton_mailbox_post_own(daemon->mailbox, daemon_on_worker, event);
}

static void perform_log(const struct agent_log_event *log)
{
    struct baton_log_field fields[] = { BATON_LOG_TEXT("object", log->object),
                                        BATON_LOG_TEXT("reason", log->reason) };
    baton_log_fields(log->warning ? BATON_LOG_WARN : BATON_LOG_INFO, "agent", log->message, fields,
                     2);
}

void perform(struct daemon *daemon, const struct agent_action *action)
{
    switch (action->kind) {
    case AGENT_ACTION_JOURNAL: perform_journal(daemon, action->journal); break;
    case AGENT_ACTION_OPEN_SESSION: link_open(daemon->link); break;
    case AGENT_ACTION_CLOSE_SESSION: link_reset(daemon->link, action->text); break;
    case AGENT_ACTION_HELLO: link_send_hello(daemon->link, action->hello); break;
    case AGENT_ACTION_ACK: link_send_ack(daemon->link, action->ack); break;
    case AGENT_ACTION_NACK:
        daemon->goals_refused = true;
        link_send_nack(daemon->link, action->nack.revision, action->nack.message);
        break;
    case AGENT_ACTION_REPORT: link_send_report(daemon->link, action->report); break;
    case AGENT_ACTION_LAND: lander_land(daemon->lander, action->land); break;
    case AGENT_ACTION_LAND_CANCEL: lander_cancel(daemon->lander, action->digest); break;
    case AGENT_ACTION_DROP: lander_drop(daemon->lander, action->digest); break;
    case AGENT_ACTION_ENGINE_OP: perform_op(daemon, action->op); break;
    case AGENT_ACTION_ENGINE_ABANDON:
        worker_abandon(worker_of(daemon, action->abandon.engine), action->abandon.id);
        break;
    case AGENT_ACTION_RECREATE: perform_recreate(daemon, action->recreate); break;
    case AGENT_ACTION_HOOK: hooks_call(daemon->hooks, action->hook); break;
    case AGENT_ACTION_LOG: perform_log(action->log); break;
    case AGENT_ACTION_PEER_SEND:
        peer_links_send(daemon->peer_links, action->peer_send.agent, action->peer_send.command);
        break;
    case AGENT_ACTION_PEER_ANSWER:
        if (daemon->peer_server != NULL) {
            peer_server_answer(daemon->peer_server, action->peer_answer.leader,
                               action->peer_answer.result);
        }
        break;
    case AGENT_ACTION_OPERATED: operate_answered(daemon, action->operated); break;
    case AGENT_ACTION_STATUS: operate_status(daemon, action->status); break;
    case AGENT_ACTION_DONE: daemon->done = true; break;
    }
}
