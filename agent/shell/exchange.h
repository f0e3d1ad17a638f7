/* exchange.h -- this node's part in passing versions from node to node.
 *
 * Serves what the landing and the store of published versions hold (transport/p2p/server.h), pulls what the goals name
 * peers for, and keeps what the controller told for both: public keys to check capabilities with, and the capabilities
 * to show.  Nothing of that is written down: after a start nobody is served until the controller has spoken.
 *
 * Depends on: config.h, transport/p2p, api/wire, api/base/mailbox.h.  Threads: exchange_pull() from landings' threads,
 * the rest from the loop's.  Ownership: the daemon's; the roots outlive exchange_stop(). */
#ifndef AGENT_SHELL_EXCHANGE_H
#define AGENT_SHELL_EXCHANGE_H

#include "agent/core/event.h"
#include "agent/shell/config.h"
#include "api/base/mailbox.h"

struct exchange;
struct landing_progress;
struct landing_root;

/* Something that went wrong with a peer, as the controller is told. */
struct exchange_trouble {
    bool poisoned; /* Else it was refused here. */
    char peer[BATON_NAME_BYTES];
    char identity[BATON_TEXT_BYTES];
    char address[BATON_ADDRESS_BYTES];
    char digest[BATON_DIGEST_TEXT_BYTES];
    char message[BATON_TEXT_BYTES];
    uint64_t count;
};

struct exchange_options {
    const struct shell_config *config;
    struct baton_mailbox *mailbox;
    baton_mailbox_work_fn *tell; /* There are troubles to take; its argument is null. */
};

/* Reads certificates; serves nobody yet. */
BATON_MUST_USE struct baton_status exchange_create(const struct exchange_options *options,
                                                   struct exchange **out);
/* From now on serves what the roots hold; 'versions' may be null. */
BATON_MUST_USE struct baton_status exchange_serve(struct exchange *exchange,
                                                  struct landing_root *landing,
                                                  struct landing_root *versions);
/* Serves nobody any more. */
void exchange_stop(struct exchange *exchange);
/* Null is fine. */
void exchange_destroy(struct exchange *exchange);

/* Takes a baton.v1.PeerAccess. */
void exchange_take_access(struct exchange *exchange, const void *message);

/* Lands a version from the peers that its goal names.  UNAVAILABLE: none gave all of it; what came is kept. */
BATON_MUST_USE struct baton_status exchange_pull(struct exchange *exchange,
                                                 struct landing_root *root,
                                                 const struct agent_version_goal *goal,
                                                 struct landing_progress *progress);

/* To be called when 'tell' runs.  One is posted at a time: a flood of refusals fills no mailbox, also none that nobody empties any
 * more. */
void exchange_heard(struct exchange *exchange);
/* The oldest trouble that was not taken yet; false: there is none. */
bool exchange_take_trouble(struct exchange *exchange, struct exchange_trouble *out);

#endif /* exchange.h */
