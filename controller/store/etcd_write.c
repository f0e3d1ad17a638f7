/* etcd_write.c -- reading the fencing keys, and writes under them; see etcd_store.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "controller/store/etcd_batch.h"
#include "controller/store/etcd_store.h"

void etcd_key(const struct etcd_store *store, const char *name, char out[ETCD_KEY_BYTES])
{
    int length = snprintf(out, ETCD_KEY_BYTES, "%s/%s", store->address.prefix, name);
    baton_assert(length > 0 && length < ETCD_KEY_BYTES);
}

void etcd_begin(struct etcd_store *store)
{
    store->end_ns = baton_clock_monotonic_ns() +
                    ETCD_STORE_OPERATION_TRIES * store->address.timeout_ms * BATON_NS_PER_MS;
}

uint64_t etcd_deadline_ns(const struct etcd_store *store)
{
    uint64_t deadline_ns = etcd_client_deadline_ns(store->client);
    return deadline_ns < store->end_ns ? deadline_ns : store->end_ns;
}

void etcd_op_range(struct etcd_text *text, const char *key, const char *end, const char *more)
{
    etcd_text_add(text, "{\"request_range\":{\"key\":");
    etcd_text_base64(text, key, strlen(key));
    if (end != NULL) {
        etcd_text_add(text, ",\"range_end\":");
        etcd_text_base64(text, end, strlen(end));
    }
    etcd_text_add(text, more);
    etcd_text_add(text, "}}");
}

struct baton_status etcd_txn(struct etcd_store *store, enum etcd_call_kind kind,
                             struct etcd_text *body, uint64_t deadline_ns, struct etcd_answer *out)
{
    *out = (struct etcd_answer){ 0 };
    struct baton_status st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
                                               "store: out of memory");
    if (!body->failed) {
        struct baton_bytes bytes = { (const uint8_t *)body->data, body->size };
        st = etcd_client_call(store->client, "kv/txn", kind, bytes, deadline_ns, out);
    }
    etcd_text_free(body);
    return st;
}

/* --- what is there --- */

static void add_find(const struct etcd_store *store, struct etcd_text *body)
{
    char key[ETCD_KEY_BYTES];
    char end[ETCD_KEY_BYTES];
    etcd_text_add(body, "{\"success\":[");
    static const char *const single[] = { "epoch", "revision", "redo", "leader" };
    for (size_t i = 0; i < sizeof(single) / sizeof(single[0]); i++) {
        etcd_key(store, single[i], key);
        etcd_op_range(body, key, NULL, "");
        etcd_text_add(body, ",");
    }
    etcd_key(store, "parts/", key);
    etcd_key(store, "parts0", end);
    etcd_op_range(body, key, end, ",\"limit\":\"1\",\"keys_only\":true");
    etcd_text_add(body, ",");
    etcd_key(store, "log/", key);
    etcd_key(store, "log0", end);
    etcd_op_range(body, key, end, ",\"limit\":\"1\",\"keys_only\":true,\"sort_order\":\"DESCEND\"");
    etcd_text_add(body, "]}");
}

/* The number in the key of the newest events; 0: there are none. */
static uint64_t log_last(const struct etcd_store *store, const struct etcd_answer *answer)
{
    char prefix[ETCD_KEY_BYTES];
    etcd_key(store, "log/", prefix);
    for (size_t i = 0; i < answer->pairs_count; i++) {
        const char *key = answer->pairs[i].key;
        if (strncmp(key, prefix, strlen(prefix)) == 0) {
            return strtoull(key + strlen(prefix), NULL, 10);
        }
    }
    return 0;
}

static bool has_under(const struct etcd_store *store, const struct etcd_answer *answer,
                      const char *name)
{
    char prefix[ETCD_KEY_BYTES];
    etcd_key(store, name, prefix);
    for (size_t i = 0; i < answer->pairs_count; i++) {
        if (strncmp(answer->pairs[i].key, prefix, strlen(prefix)) == 0) {
            return true;
        }
    }
    return false;
}

/* The fencing keys of an answer that holds both. */
static struct baton_status take_fences(const struct etcd_store *store,
                                       const struct etcd_answer *answer, struct etcd_found *out)
{
    char key[ETCD_KEY_BYTES];
    etcd_key(store, "epoch", key);
    const struct etcd_pair *epoch = etcd_answer_find(answer, key);
    etcd_key(store, "revision", key);
    const struct etcd_pair *revision = etcd_answer_find(answer, key);
    out->exists = epoch != NULL || revision != NULL;
    if (!out->exists) {
        return baton_status_ok();
    }
    if (epoch == NULL || revision == NULL) {
        return baton_status_hint(
            baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                              "store: etcd has only one of the keys epoch and revision under %s",
                              store->address.prefix),
            "restore etcd from a backup, or give another prefix to start anew");
    }
    out->epoch_mod = epoch->mod_revision;
    out->revision_mod = revision->mod_revision;
    struct baton_status st = etcd_epoch_parse(epoch->value, &out->epoch);
    return baton_ok(&st) ? etcd_revision_parse(revision->value, &out->revision) : st;
}

/* Who leads by the leader's record, for who acquires epochs under it. */
static struct baton_status take_leader(const struct etcd_store *store,
                                       const struct etcd_answer *answer, struct etcd_found *out)
{
    char key[ETCD_KEY_BYTES];
    struct leader_record record;
    etcd_key(store, "leader", key);
    const struct etcd_pair *pair = etcd_answer_find(answer, key);
    if (pair == NULL || store->holder[0] == '\0') {
        return baton_status_ok();
    }
    struct baton_status st = etcd_leader_parse(pair->value, &record);
    out->leader_mod = pair->mod_revision;
    memcpy(out->holder, record.holder, sizeof(out->holder));
    return st;
}

struct baton_status etcd_find(struct etcd_store *store, uint64_t deadline_ns,
                              struct etcd_found *out)
{
    char redo[ETCD_KEY_BYTES];
    struct etcd_text body = { 0 };
    struct etcd_answer answer;
    *out = (struct etcd_found){ 0 };
    add_find(store, &body);
    struct baton_status st = etcd_txn(store, ETCD_CALL_READ, &body, deadline_ns, &answer);
    if (baton_ok(&st)) {
        st = take_fences(store, &answer, out);
        st = baton_ok(&st) ? take_leader(store, &answer, out) : st;
        etcd_key(store, "redo", redo);
        out->redo = etcd_answer_find(&answer, redo) != NULL;
        out->parts = has_under(store, &answer, "parts/");
        out->log_last = log_last(store, &answer);
        out->at = answer.revision;
    }
    etcd_answer_free(&answer);
    return st;
}

/* --- writes under the fencing keys --- */

struct write {
    struct etcd_store *store;
    struct etcd_revision to; /* Meaningful with 'numbered'. */
    bool numbered;           /* It changes the revision key. */
    const char *redo;        /* What the key 'redo' must hold, and is changed from; or null. */
    uint64_t deadline_ns;
};

/* Of the fencing keys, and of 'redo' where it is given. */
static void add_compares(const struct etcd_store *store, const char *redo, struct etcd_text *body)
{
    char key[ETCD_KEY_BYTES];
    char value[ETCD_STATE_BYTES];
    etcd_key(store, "epoch", key);
    etcd_epoch_format(&store->epoch, value);
    etcd_text_add(body, "{\"compare\":[{\"target\":\"MOD\",\"key\":");
    etcd_text_base64(body, key, strlen(key));
    etcd_text_format(body, ",\"mod_revision\":\"%llu\"}", (unsigned long long)store->epoch_mod);
    etcd_text_add(body, ",{\"target\":\"VALUE\",\"key\":");
    etcd_text_base64(body, key, strlen(key));
    etcd_text_add(body, ",\"value\":");
    etcd_text_base64(body, value, strlen(value));
    etcd_key(store, "revision", key);
    etcd_text_add(body, "},{\"target\":\"MOD\",\"key\":");
    etcd_text_base64(body, key, strlen(key));
    etcd_text_format(body, ",\"mod_revision\":\"%llu\"}", (unsigned long long)store->revision_mod);
    if (redo != NULL) {
        etcd_key(store, "redo", key);
        etcd_text_add(body, ",{\"target\":\"VALUE\",\"key\":");
        etcd_text_base64(body, key, strlen(key));
        etcd_text_add(body, ",\"value\":");
        etcd_text_base64(body, redo, strlen(redo));
        etcd_text_add(body, "}");
    }
    etcd_text_add(body, "]");
}

/* A transaction of 'ops' and a put of 'key', where there is one; else it tells the fencing keys. */
static struct etcd_text fenced(const struct write *write, const char *ops, const char *key,
                               const char *value)
{
    char name[ETCD_KEY_BYTES];
    struct etcd_store *store = write->store;
    struct etcd_text body = { 0 };
    add_compares(store, write->redo, &body);
    etcd_text_add(&body, ",\"success\":[");
    etcd_text_add(&body, ops);
    if (key != NULL) {
        etcd_text_add(&body, ops[0] == '\0' ? "" : ",");
        etcd_key(store, key, name);
        etcd_op_put(&body, name, value);
    }
    etcd_text_add(&body, "],\"failure\":[");
    etcd_key(store, "epoch", name);
    etcd_op_range(&body, name, NULL, "");
    etcd_text_add(&body, ",");
    etcd_key(store, "revision", name);
    etcd_op_range(&body, name, NULL, "");
    etcd_text_add(&body, "]}");
    return body;
}

static struct baton_status deposed(struct etcd_store *store, const struct etcd_found *found)
{
    struct epoch asked = store->epoch.epoch;
    struct epoch stored = found->epoch.epoch;
    store->leads = false;
    return baton_status_hint(
        baton_status_make(BATON_ABORTED, BATON_REASON_STALE_EPOCH,
                          "the store is at epoch %llu/%llu, the write at %llu/%llu",
                          (unsigned long long)stored.generation, (unsigned long long)stored.n,
                          (unsigned long long)asked.generation, (unsigned long long)asked.n),
        "another controller leads now; this one must start again");
}

/* What one request of a write came to. */
enum step { STEP_DONE, STEP_AGAIN, STEP_DOUBT, STEP_FAILED };

static bool is_ours(const struct write *write, const struct etcd_revision *found)
{
    return write->numbered && found->write == write->to.write &&
           strcmp(found->writer, write->to.writer) == 0;
}

static bool fences_hold(const struct etcd_store *store, const struct etcd_found *found)
{
    return found->epoch_mod == store->epoch_mod && found->revision_mod == store->revision_mod;
}

/* The comparisons did not hold: who changed the keys?  'fence' is the epoch that a withdrawal of ours
 * writes, or null. */
static enum step explain(struct write *write, const struct etcd_answer *answer,
                         const struct etcd_epoch *fence, struct baton_status *out)
{
    struct etcd_store *store = write->store;
    struct etcd_found found = { 0 };
    *out = take_fences(store, answer, &found);
    if (!baton_ok(out)) {
        return STEP_FAILED;
    }
    if (found.exists && is_ours(write, &found.revision)) {
        store->revision_mod = found.revision_mod;
        /* It may be ours from before somebody else took over. */
        store->leads = found.epoch_mod == store->epoch_mod;
        return STEP_DONE;
    }
    if (write->redo != NULL && fences_hold(store, &found)) {
        return STEP_DONE; /* Only 'redo' differs: by an earlier try of ours. */
    }
    if (fence != NULL && found.epoch.fence == fence->fence &&
        strcmp(found.epoch.writer, fence->writer) == 0) {
        store->epoch = *fence;
        store->epoch_mod = found.epoch_mod;
        return STEP_AGAIN;
    }
    /* After a withdrawal: a later leader's commit hides whether ours came before it. */
    bool hidden = fence != NULL && found.revision_mod != store->revision_mod;
    *out = deposed(store, &found);
    out->code = hidden ? BATON_DEADLINE_EXCEEDED : out->code;
    return STEP_FAILED;
}

static enum step send(struct write *write, struct etcd_text *body, uint64_t deadline_ns,
                      const struct etcd_epoch *fence, struct baton_status *out)
{
    struct etcd_store *store = write->store;
    struct etcd_answer answer;
    enum step step = STEP_DONE;
    *out = etcd_txn(store, ETCD_CALL_WRITE, body, deadline_ns, &answer);
    if (!baton_ok(out)) {
        step = out->code == BATON_DEADLINE_EXCEEDED ? STEP_DOUBT : STEP_FAILED;
    } else if (!answer.succeeded) {
        step = explain(write, &answer, fence, out);
    } else if (fence != NULL) {
        store->epoch = *fence;
        store->epoch_mod = answer.revision;
        step = STEP_AGAIN;
    } else if (write->numbered) {
        store->revision_mod = answer.revision;
    }
    etcd_answer_free(&answer);
    return step;
}

/* Finds out about a write whose answer was lost, or makes sure that it never happens. */
static enum step withdraw(struct write *write, struct baton_status *out)
{
    struct etcd_store *store = write->store;
    char value[ETCD_STATE_BYTES];
    struct etcd_epoch fence = store->epoch;
    uint64_t deadline_ns = etcd_client_deadline_ns(store->client);
    enum step step = STEP_DOUBT;
    baton_log_status(BATON_LOG_WARN, "store", "a write got no answer; reading whether it was done",
                     out);
    fence.fence = ++store->count;
    memcpy(fence.writer, store->writer, sizeof(fence.writer));
    etcd_epoch_format(&fence, value);
    while (step == STEP_DOUBT && baton_clock_monotonic_ns() < deadline_ns) {
        struct etcd_text body = fenced(write, "", "epoch", value);
        step = send(write, &body, deadline_ns, &fence, out);
    }
    if (step == STEP_DOUBT || (step == STEP_FAILED && out->reason != BATON_REASON_STALE_EPOCH)) {
        store->leads = false;
        *out =
            baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_STORE_UNAVAILABLE,
                              "it is not known whether the write was done; %.200s", out->message);
        step = STEP_FAILED;
    }
    return step;
}

struct baton_status etcd_write_revision(struct etcd_store *store, const char *ops,
                                        uint64_t revision)
{
    char value[ETCD_STATE_BYTES];
    struct baton_status st = baton_status_ok();
    struct write write = { .store = store,
                           .numbered = true,
                           .deadline_ns = etcd_deadline_ns(store) };
    enum step step = STEP_AGAIN;
    while (step == STEP_AGAIN) {
        write.to = (struct etcd_revision){ .revision = revision, .write = ++store->count };
        memcpy(write.to.writer, store->writer, sizeof(write.to.writer));
        etcd_revision_format(&write.to, value);
        struct etcd_text body = fenced(&write, ops, "revision", value);
        step = send(&write, &body, write.deadline_ns, NULL, &st);
        if (step == STEP_DOUBT) {
            step = withdraw(&write, &st);
        }
    }
    if (step == STEP_DONE) {
        store->revision = revision;
        return baton_status_ok();
    }
    return st;
}

struct baton_status etcd_write_again(struct etcd_store *store, const char *ops, const char *redo)
{
    struct baton_status st = baton_status_ok();
    struct write write = { .store = store, .redo = redo, .deadline_ns = etcd_deadline_ns(store) };
    enum step step = STEP_DOUBT;
    do {
        struct etcd_text body = fenced(&write, ops, NULL, NULL);
        step = send(&write, &body, write.deadline_ns, NULL, &st);
    } while (step == STEP_DOUBT && baton_clock_monotonic_ns() < write.deadline_ns);
    if (step == STEP_DOUBT) {
        st.code = BATON_UNAVAILABLE;
    }
    return step == STEP_DONE ? baton_status_ok() : st;
}
