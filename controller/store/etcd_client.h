/* etcd_client.h -- calls to a cluster of etcd: all members in turn, login, deadline.
 *
 * A read is tried at one member after the other until the deadline.  A write goes on only while it is
 * certain that nothing was done; once that is in doubt the call ends, and the caller finds out by
 * reading (etcd_write.h).  An answer of another cluster than the one that is pinned (a member that was
 * set up anew, a restore) is not believed; pinned is what the address names, else what the caller says,
 * else the first one that answers.
 *
 * Files that the address names are opened once before anything is asked, so that one that cannot be read is
 * told even while no member serves; they are read anew whenever they are needed.
 *
 * Depends on: etcd_http.h, etcd_answer.h.  Threads: one at a time.
 * Ownership: etcd_client_open/close; the address is borrowed and must outlive it. */
#ifndef CONTROLLER_STORE_ETCD_CLIENT_H
#define CONTROLLER_STORE_ETCD_CLIENT_H

#include "controller/store/etcd_address.h"
#include "controller/store/etcd_answer.h"

struct etcd_client;

BATON_MUST_USE struct baton_status etcd_client_open(const struct etcd_address *address,
                                                    struct etcd_client **out);
void etcd_client_close(struct etcd_client *client);

/* Whether calls end after one try at each member, before the deadline; then FAILED_PRECONDITION (certificates, another
 * cluster) is given only if each member gave it. */
void etcd_client_try_once(struct etcd_client *client, bool once);

enum etcd_call_kind { ETCD_CALL_READ, ETCD_CALL_WRITE };

/* Until when an operation that begins now may last (monotonic). */
uint64_t etcd_client_deadline_ns(const struct etcd_client *client);

/* Posts 'body' to "/v3/<path>".  OK: answered without an error; free 'out' in any case.
 * DEADLINE_EXCEEDED STORE_UNAVAILABLE: of a write, and only then: it may have been done, now or later.
 * RESOURCE_EXHAUSTED LIMIT: also when the answer was longer than ETCD_ANSWER_BYTES_MAX. */
BATON_MUST_USE struct baton_status etcd_client_call(struct etcd_client *client, const char *path,
                                                    enum etcd_call_kind kind,
                                                    struct baton_bytes body, uint64_t deadline_ns,
                                                    struct etcd_answer *out);

/* Opens a watch at one member, with a new login where there is a user: "/v3/watch" with 'body'. */
struct etcd_stream;
BATON_MUST_USE struct baton_status etcd_client_watch(struct etcd_client *client, uint32_t endpoint,
                                                     struct baton_bytes body,
                                                     struct etcd_stream **out);

/* Believes this cluster only, unless another one is pinned; 0: does nothing. */
void etcd_client_pin(struct etcd_client *client, uint64_t cluster);

/* Id of the cluster that is pinned; 0: none is yet. */
uint64_t etcd_client_cluster(const struct etcd_client *client);

#endif /* etcd_client.h */
