/* puller_state.h -- what puller.c and puller_peer.c share.
 *
 * Depends on: puller.h, frame.h.  Threads: a stream belongs to one thread; peers are under the lock.
 * Ownership: as puller.h. */
#ifndef TRANSPORT_P2P_PULLER_STATE_H
#define TRANSPORT_P2P_PULLER_STATE_H

#include <pthread.h>

#include "transport/p2p/frame.h"
#include "transport/p2p/puller.h"

/* What became of a peer. */
struct peer_state {
    bool poisoned;
    unsigned
        refused; /* The capability; a new key of the controller may be on its way to the peer. */
    unsigned failures; /* In a row. */
    uint64_t retry_ns; /* Not before. */
    uint64_t bytes;
    char said[160]; /* Why it failed last. */
};

struct puller {
    struct puller_options options;
    pthread_mutex_t lock;
    struct peer_state states[BATON_HOLDERS_MAX]; /* Under the lock. */
    uint64_t gave_ns;                            /* Likewise: when anybody gave something last. */
};

#define FEED_NONE UINT64_MAX

/* A connection to one peer at a time. */
struct feed {
    struct puller *puller;
    unsigned worker;
    struct channel *channel; /* Null: none. */
    uint32_t peer;           /* Of 'channel'. */
    bool whole;              /* It said so. */
    uint64_t ahead;          /* The chunk to be asked for behind the next one, or FEED_NONE. */
    uint64_t asked;          /* The chunk that was asked for and not read, or FEED_NONE. */
    uint64_t held_chunk;     /* The chunk in 'held', or FEED_NONE. */
    uint8_t *held;           /* One chunk's room; made when needed. */
    size_t held_size;
};

/* Where a chunk goes. */
struct puller_room {
    uint8_t *data;
    size_t size; /* The chunk's. */
};

/* Connects and says hello. */
BATON_MUST_USE struct baton_status feed_dial(struct feed *feed, uint32_t peer);
void feed_hang_up(struct feed *feed);
/* Asks; '*out' is the answer's head; its text went into a status that is not OK: NOT_FOUND for NOT_HERE, UNAVAILABLE
 * for NOT_YET with the connection still good ('*out' says which). */
BATON_MUST_USE struct baton_status feed_ask(struct feed *feed, const struct frame_request *request,
                                            struct frame_answer *out);
/* A chunk, which may have been asked for before; asks for the one ahead meanwhile.  'out' as feed_ask(). */
BATON_MUST_USE struct baton_status feed_chunk(struct feed *feed, uint64_t chunk,
                                              struct puller_room room, struct frame_answer *out);
/* The body of an answer. */
BATON_MUST_USE struct baton_status feed_read(struct feed *feed, void *out, size_t size);

#endif /* puller_state.h */
