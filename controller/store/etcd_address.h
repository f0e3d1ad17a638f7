/* etcd_address.h -- the address of a store in etcd, taken apart.
 *
 *   etcd:URL[,URL...][/PREFIX][?NAME=VALUE[&NAME=VALUE...]]
 *   etcd:https://a:2379,https://b:2379,https://c:2379/baton/prod?ca=/etc/baton/etcd-ca.pem&user=baton&passwordFile=/etc/baton/etcd.pw
 *
 * URLs are all http or all https and name their port.  PREFIX (default /baton) comes before every
 * key; one prefix, one controller's store.  Names:
 *
 *   ca               file of the CA that the members' certificates must come from (else the system's)
 *   cert, key        files of the client certificate
 *   user, passwordFile   etcd's user; the password is the file's first line, read at each login
 *   timeoutMs        one request, with all its tries (300 to 4000, the default): a write in doubt
 *                    takes twice that, in which the controller answers no agent, and an agent's lease
 *                    is 10 s; a commit of many requests takes at most eight times that
 *   maxTxnOps        at most so many operations in one request; etcd's --max-txn-ops (from 8; default 128)
 *   maxRequestBytes  at most so long a request; below etcd's --max-request-bytes (from 131072; default
 *                    1048576)
 *   cluster          id of the cluster, hexadecimal as in etcd's log: answers of another one are not believed (else
 *                    the first one that answers is taken)
 *   insecure=true    allows http to other addresses than loopback
 *
 * Values end at '&' and are taken as they are.  An address never carries a password, so it may be
 * printed; one with user information ("user:secret@host") is refused without printing it.
 *
 * Depends on: api/base.  Threads: any.  Ownership: plain data.
 * Errors: INVALID_ARGUMENT BAD_FIELD, naming the part. */
#ifndef CONTROLLER_STORE_ETCD_ADDRESS_H
#define CONTROLLER_STORE_ETCD_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/base/limits.h"
#include "api/base/status.h"

enum { ETCD_ENDPOINTS_MAX = 9, ETCD_URL_BYTES = 272, ETCD_PREFIX_BYTES = 128 };

struct etcd_address {
    char endpoints[ETCD_ENDPOINTS_MAX][ETCD_URL_BYTES]; /* "https://a:2379" */
    uint32_t endpoints_count;
    char prefix[ETCD_PREFIX_BYTES]; /* "/baton": no '/' at its end. */
    char ca[BATON_PATH_BYTES];      /* This and those below: empty when not given. */
    char cert[BATON_PATH_BYTES];
    char key[BATON_PATH_BYTES];
    char user[BATON_NAME_BYTES];
    char password_file[BATON_PATH_BYTES];
    uint32_t timeout_ms;
    uint32_t max_txn_ops;
    uint32_t max_request_bytes;
    uint64_t cluster; /* 0: not given. */
    bool insecure;
};

/* 'text' is what follows "etcd:". */
BATON_MUST_USE struct baton_status etcd_address_parse(const char *text, struct etcd_address *out);

#endif /* etcd_address.h */
