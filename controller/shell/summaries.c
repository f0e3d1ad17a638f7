/* summaries.c -- see summaries.h. */
#include "controller/shell/summaries.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/core/text.h"
#include "controller/shell/render_stale.h"

enum { SILENCE_S = 10 };

struct summary_watcher {
    struct summary_watcher *next;
    struct rpc_call *call; /* Referenced. */
    char model[BATON_NAME_BYTES];
    uint64_t interval_ns;
    uint64_t due_ns;
    uint64_t sent_ns;
    uint64_t print; /* Of what was sent last. */
};

/* Of what a reader would call a change. */
static uint64_t print_of(const struct staleness_summary *summary)
{
    struct fingerprint print = fingerprint_of(summary->newest_seq);
    fingerprint_add_number(&print, summary->groups);
    fingerprint_add_number(&print, summary->groups_current);
    fingerprint_add_number(&print, summary->groups_behind);
    fingerprint_add_number(&print, summary->groups_unrelated);
    fingerprint_add_number(&print, summary->groups_unknown);
    fingerprint_add_number(&print, summary->groups_over_warn);
    fingerprint_add_number(&print, summary->groups_over_bound);
    fingerprint_add_bytes(&print, &summary->policy, sizeof(summary->policy));
    fingerprint_add_bytes(&print, summary->lags, sizeof(summary->lags));
    return print.a;
}

static void look(struct daemon *daemon, struct summary_watcher *watcher, uint64_t now_ns)
{
    const struct model_record *model = view_model_find(daemon->core, watcher->model);
    struct staleness_summary summary;
    view_staleness_summary(daemon->core, model, baton_clock_wall_ns(), &summary);
    uint64_t print = print_of(&summary);
    bool silent = now_ns - watcher->sent_ns >= SILENCE_S * BATON_NS_PER_S;
    watcher->due_ns = now_ns + watcher->interval_ns;
    if (print == watcher->print && !silent) {
        return;
    }
    void *message = render_staleness(daemon->core, model, NULL);
    (void)rpc_send(watcher->call, message);
    baton_wire_free(message);
    watcher->print = print;
    watcher->sent_ns = now_ns;
}

void summaries_watch(struct daemon *daemon, struct rpc_call *call, const char *model,
                     uint64_t interval_ns)
{
    struct summary_watcher *watcher = calloc(1, sizeof(*watcher));
    baton_assert(watcher != NULL);
    watcher->call = call;
    watcher->interval_ns = interval_ns;
    (void)baton_text_copy(watcher->model, sizeof(watcher->model), model);
    watcher->next = daemon->summary_watchers;
    daemon->summary_watchers = watcher;
    look(daemon, watcher, baton_clock_monotonic_ns());
}

uint64_t summaries_deadline_ns(const struct daemon *daemon)
{
    uint64_t first = UINT64_MAX;
    for (const struct summary_watcher *w = daemon->summary_watchers; w != NULL; w = w->next) {
        first = w->due_ns < first ? w->due_ns : first;
    }
    return first;
}

void summaries_run(struct daemon *daemon, uint64_t now_ns)
{
    for (struct summary_watcher *w = daemon->summary_watchers;
         w != NULL && daemon->core != NULL && !daemon->rebuild; w = w->next) {
        if (now_ns >= w->due_ns) {
            look(daemon, w, now_ns);
        }
    }
}

void summaries_end(struct daemon *daemon, struct rpc_call *call)
{
    for (struct summary_watcher **at = &daemon->summary_watchers; *at != NULL; at = &(*at)->next) {
        if ((*at)->call == call) {
            struct summary_watcher *ended = *at;
            *at = ended->next;
            rpc_call_unref(ended->call);
            free(ended);
            return;
        }
    }
}

void summaries_end_all(struct daemon *daemon, const struct baton_status *status)
{
    while (daemon->summary_watchers != NULL) {
        rpc_finish(daemon->summary_watchers->call, status);
        summaries_end(daemon, daemon->summary_watchers->call);
    }
}
