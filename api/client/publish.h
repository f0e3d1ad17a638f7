/* publish.h -- a publish under way, as its two files see it.
 *
 * publish.c sends what is to be published; publish_wait.c listens, reports progress and keeps time.
 *
 * Private to api/client.  Depends on: connection.h, snapshot.h.  Threads: as in baton.h. */
#ifndef BATON_CLIENT_PUBLISH_H
#define BATON_CLIENT_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/status.h"
#include "api/client/connection.h"
#include "api/client/snapshot.h"

enum publish_state {
    PUBLISH_STATE_OPEN,   /* Entries may come. */
    PUBLISH_STATE_SENT,   /* COMMIT, CANCEL or PUBLISH_DIRECTORY went; the agent's turn. */
    PUBLISH_STATE_BROKEN, /* The connection is of no more use. */
};

struct baton_publish {
    struct baton_agent *agent; /* Null: the connection was closed first. */
    struct local_message spec; /* PUBLISH_DIRECTORY or PUBLISH_BEGIN, as sent. */
    enum publish_state state;
    bool has_result;
    struct local_result result;
    bool is_inline;
    struct snapshot snapshot;

    uint64_t started_ns;
    uint64_t deadline_ns;
    uint64_t heard_ns;     /* When the agent last said something. */
    uint64_t cancelled_ns; /* When CANCEL went; 0: not. */

    baton_progress_fn *progress;
    void *context;
    struct local_progress last; /* What the agent last said, or how far sending is. */
    uint64_t reported_ns;       /* When 'progress' last ran. */
};

/* Waits for RESULT or, where 'accepts', for ACCEPTED; reports progress meanwhile.  Returns the
 * result's failure.  DEADLINE_EXCEEDED at 'until_ns': the publish goes on. */
BATON_MUST_USE struct baton_status publish_await(struct baton_publish *publish, bool accepts,
                                                 uint64_t until_ns);

/* Looks, without waiting, whether the agent refused already. */
BATON_MUST_USE struct baton_status publish_poll(struct baton_publish *publish);

/* Runs the callback if it is due; CANCELLED, after telling the agent, if the callback said so. */
BATON_MUST_USE struct baton_status publish_report(struct baton_publish *publish);

/* Tells the agent once. */
BATON_MUST_USE struct baton_status publish_send_cancel(struct baton_publish *publish);

#endif /* publish.h */
