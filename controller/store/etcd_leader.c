/* etcd_leader.c -- the leader's record in etcd, key PREFIX/leader; see leader.h. */
#include "controller/store/leader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/log.h"
#include "controller/store/etcd_batch.h"
#include "controller/store/etcd_client.h"
#include "controller/store/etcd_state.h"
#include "controller/store/etcd_text.h"

enum { TRIES_OF_TIMEOUT = 3, KEY_BYTES = ETCD_PREFIX_BYTES + 16 };

static const char prefix[] = "etcd:";

struct leader_store {
    struct etcd_address address;
    struct etcd_client *client;
    char key[KEY_BYTES];
};

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                             "store: out of memory");
}

struct baton_status leader_store_open(const char *address, uint32_t try_ms,
                                      struct leader_store **out)
{
    if (strncmp(address, prefix, sizeof(prefix) - 1) != 0) {
        return baton_status_hint(
            baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                              "leadership: the store %.200s belongs to one controller", address),
            "several controllers need a store in etcd (deploy/docs/leadership.md)");
    }
    struct leader_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return no_memory();
    }
    struct baton_status st = etcd_address_parse(address + sizeof(prefix) - 1, &store->address);
    if (baton_ok(&st)) {
        store->address.timeout_ms = TRIES_OF_TIMEOUT * try_ms; /* etcd_client.c divides it again. */
        (void)snprintf(store->key, sizeof(store->key), "%s/leader", store->address.prefix);
        st = etcd_client_open(&store->address, &store->client);
    }
    if (!baton_ok(&st)) {
        leader_store_close(store);
        return st;
    }
    *out = store;
    return st;
}

void leader_store_pin(struct leader_store *store, uint64_t cluster)
{
    etcd_client_pin(store->client, cluster);
}

void leader_store_close(struct leader_store *store)
{
    if (store != NULL) {
        etcd_client_close(store->client);
        free(store);
    }
}

/* The record of an answer; none there: all zero. */
static struct baton_status take(const struct leader_store *store, const struct etcd_answer *answer,
                                struct leader_record *out)
{
    const struct etcd_pair *pair = etcd_answer_find(answer, store->key);
    *out = (struct leader_record){ 0 };
    if (pair == NULL) {
        return baton_status_ok();
    }
    struct baton_status st = etcd_leader_parse(pair->value, out);
    out->place = pair->mod_revision;
    return st;
}

struct baton_status leader_store_read(struct leader_store *store, uint64_t deadline_ns,
                                      struct leader_record *out)
{
    struct etcd_text body = { 0 };
    struct etcd_answer answer = { 0 };
    etcd_text_add(&body, "{\"key\":");
    etcd_text_base64(&body, store->key, strlen(store->key));
    etcd_text_add(&body, "}");
    struct baton_bytes bytes = { (const uint8_t *)body.data, body.size };
    struct baton_status st = body.failed
                                 ? no_memory()
                                 : etcd_client_call(store->client, "kv/range", ETCD_CALL_READ,
                                                    bytes, deadline_ns, &answer);
    etcd_text_free(&body);
    if (baton_ok(&st)) {
        st = take(store, &answer, out);
    }
    etcd_answer_free(&answer);
    return st;
}

static struct baton_status check(const struct leader_record *next)
{
    bool ok = strlen(next->holder) < LEADER_HOLDER_BYTES &&
              next->holder[strspn(next->holder, "0123456789abcdef")] == '\0';
    for (const char *at = next->address; *at != '\0'; at++) {
        ok = ok && *at > ' ' && *at < 0x7f && *at != '"' && *at != '\\';
    }
    return ok ? baton_status_ok()
              : baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                  "leadership: the address has characters that no address has");
}

struct baton_status leader_store_write(struct leader_store *store, const struct leader_record *next,
                                       uint64_t deadline_ns, struct leader_record *out)
{
    char value[ETCD_LEADER_BYTES];
    struct etcd_text body = { 0 };
    struct etcd_answer answer = { 0 };
    struct baton_status st = check(next);
    if (!baton_ok(&st)) {
        return st;
    }
    etcd_leader_format(next, value);
    etcd_text_add(&body, "{\"compare\":[{\"target\":\"MOD\",\"key\":");
    etcd_text_base64(&body, store->key, strlen(store->key));
    etcd_text_format(&body, ",\"mod_revision\":\"%llu\"}],\"success\":[",
                     (unsigned long long)next->place);
    etcd_op_put(&body, store->key, value);
    etcd_text_add(&body, "],\"failure\":[{\"request_range\":{\"key\":");
    etcd_text_base64(&body, store->key, strlen(store->key));
    etcd_text_add(&body, "}}]}");
    struct baton_bytes bytes = { (const uint8_t *)body.data, body.size };
    st = body.failed ? no_memory()
                     : etcd_client_call(store->client, "kv/txn", ETCD_CALL_WRITE, bytes,
                                        deadline_ns, &answer);
    etcd_text_free(&body);
    if (baton_ok(&st) && answer.succeeded) {
        *out = *next;
        out->place = answer.revision;
    } else if (baton_ok(&st)) {
        st = take(store, &answer, out);
        st = baton_ok(&st) ? baton_status_make(BATON_ABORTED, BATON_REASON_STALE_REVISION,
                                               "leadership: another record is there")
                           : st;
    }
    etcd_answer_free(&answer);
    return st;
}
