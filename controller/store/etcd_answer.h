/* etcd_answer.h -- what etcd's JSON gateway answers, parsed within bounds.
 *
 * One parser for ranges, transactions, logins, a line of a watch and errors: what an answer lacks stays zero (the
 * gateway omits zeros).  The pairs of all ranges of a transaction come in one list, so do a watch's events.  Knows etcd
 * 3.4 to 3.6.
 *
 * Depends on: api/base; jansson inside.  Threads: any.
 * Ownership: an answer owns its pairs; etcd_answer_free(). */
#ifndef CONTROLLER_STORE_ETCD_ANSWER_H
#define CONTROLLER_STORE_ETCD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/base/bytes.h"
#include "api/base/status.h"

enum {
    ETCD_PAIRS_MAX = 4096,
    ETCD_ANSWER_BYTES_MAX = 32 << 20,
    ETCD_TOKEN_BYTES = 2048,
    ETCD_ERROR_BYTES = 160,
};

struct etcd_pair {
    char *key;   /* Terminated; holds no NUL. */
    char *value; /* Terminated; holds no NUL. */
    uint64_t mod_revision;
    bool removed; /* Of a watch: the key is gone; the value is empty. */
};

struct etcd_answer {
    uint64_t cluster_id;
    uint64_t revision;              /* Of the header. */
    uint64_t error;                 /* gRPC code; 0: none. */
    bool succeeded;                 /* Of a transaction: its comparisons held. */
    bool more;                      /* Of a range: there are keys behind the last pair. */
    bool created;                   /* Of a watch: it has begun. */
    bool canceled;                  /* Of a watch: it has ended; 'message' may say why. */
    uint64_t compacted;             /* Of that: up to there, which is why; else 0. */
    char message[ETCD_ERROR_BYTES]; /* Of an error, printable. */
    char token[ETCD_TOKEN_BYTES];   /* Of a login.  A secret. */
    struct etcd_pair *pairs;
    size_t pairs_count;
};

/* DATA_LOSS MALFORMED: it is no answer of etcd.  'out' is to be freed in any case. */
BATON_MUST_USE struct baton_status etcd_answer_parse(struct baton_bytes body,
                                                     struct etcd_answer *out);
void etcd_answer_free(struct etcd_answer *answer);

/* Null: there is no pair of this key. */
const struct etcd_pair *etcd_answer_find(const struct etcd_answer *answer, const char *key);

/* What an answer means for the call that it answers. */
enum etcd_verdict {
    ETCD_FINE,
    ETCD_REFUSED,   /* Nothing was done, and no other member will say otherwise. */
    ETCD_ELSEWHERE, /* Nothing was done; another member may do it. */
    ETCD_DOUBT,     /* It may have been done, now or later. */
    ETCD_LOGIN,     /* Nothing was done; a new login is needed. */
};

/* Judges an answer of HTTP code 'http'; sets 'out' to what to tell unless FINE. */
enum etcd_verdict etcd_answer_judge(const struct etcd_answer *answer, long http,
                                    struct baton_status *out);

#endif /* etcd_answer.h */
