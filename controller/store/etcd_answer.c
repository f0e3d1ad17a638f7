/* etcd_answer.c -- see etcd_answer.h. */
#include "controller/store/etcd_answer.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "controller/store/etcd_text.h"

static struct baton_status malformed(const char *what)
{
    return baton_status_hint(baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED,
                                               "store: this is no answer of etcd: %s", what),
                             "is the endpoint the client URL of an etcd 3.4 or later?");
}

/* The gateway writes 64-bit numbers as strings. */
static uint64_t number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value)) {
        return json_integer_value(value) < 0 ? 0 : (uint64_t)json_integer_value(value);
    }
    const char *text = json_string_value(value);
    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return 0;
    }
    errno = 0;
    unsigned long long number = strtoull(text, NULL, 10);
    return errno == 0 ? number : 0;
}

/* Text of a base64 member, an absent one is empty; null: it is none, or memory ran out. */
static char *text_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *coded = value == NULL ? "" : json_string_value(value);
    size_t bytes = 0;
    if (coded == NULL) {
        return NULL;
    }
    size_t size = value == NULL ? 0 : json_string_length(value);
    char *text = malloc(size / 4 * 3 + 1);
    if (text == NULL || !etcd_base64_decode(coded, size, text, &bytes) ||
        memchr(text, '\0', bytes) != NULL) {
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

static struct baton_status take_pair(const json_t *object, struct etcd_answer *out)
{
    struct etcd_pair *pair = &out->pairs[out->pairs_count++];
    pair->key = text_of(object, "key");
    pair->value = text_of(object, "value");
    pair->mod_revision = number_of(object, "mod_revision");
    return pair->key != NULL && pair->value != NULL ? baton_status_ok()
                                                    : malformed("a pair's key or value is no text");
}

/* Room for 'count' more pairs. */
static struct baton_status make_room(size_t count, struct etcd_answer *out)
{
    if (count > ETCD_PAIRS_MAX - out->pairs_count) {
        return malformed("more pairs than were asked for");
    }
    struct etcd_pair *pairs =
        realloc(out->pairs, (out->pairs_count + count) * sizeof(struct etcd_pair));
    if (pairs == NULL) {
        return malformed("no memory to read it");
    }
    memset(pairs + out->pairs_count, 0, count * sizeof(struct etcd_pair));
    out->pairs = pairs;
    return baton_status_ok();
}

static struct baton_status take_range(const json_t *range, struct etcd_answer *out)
{
    const json_t *list = json_object_get(range, "kvs");
    size_t count = json_array_size(list);
    out->more = json_is_true(json_object_get(range, "more"));
    struct baton_status st = count == 0 ? baton_status_ok() : make_room(count, out);
    for (size_t i = 0; baton_ok(&st) && i < count; i++) {
        st = take_pair(json_array_get(list, i), out);
    }
    return st;
}

static void take_message(const char *text, struct etcd_answer *out)
{
    size_t at = 0;
    for (; text != NULL && text[at] != '\0' && at + 1 < sizeof(out->message); at++) {
        out->message[at] = text[at] >= ' ' && text[at] < 0x7f ? text[at] : '?';
    }
    out->message[at] = '\0';
}

/* A line of a watch: {"result":{"header":...,"created":true,"events":[{"type":"DELETE","kv":...}]}}. */
static struct baton_status take_watch(const json_t *result, struct etcd_answer *out)
{
    const json_t *list = json_object_get(result, "events");
    size_t count = json_array_size(list);
    out->created = json_is_true(json_object_get(result, "created"));
    out->canceled = json_is_true(json_object_get(result, "canceled"));
    out->compacted = number_of(result, "compact_revision");
    if (out->canceled) {
        take_message(json_string_value(json_object_get(result, "cancel_reason")), out);
    }
    struct baton_status st = count == 0 ? baton_status_ok() : make_room(count, out);
    for (size_t i = 0; baton_ok(&st) && i < count; i++) {
        const json_t *event = json_array_get(list, i);
        const char *type = json_string_value(json_object_get(event, "type"));
        st = take_pair(json_object_get(event, "kv"), out);
        out->pairs[out->pairs_count - 1].removed = type != NULL && strcmp(type, "DELETE") == 0;
    }
    return st;
}

static void take_error(const json_t *root, struct etcd_answer *out)
{
    /* Of a stream it is an object of its own; etcd 3.4 says "error" and "message" both. */
    const json_t *inner = json_object_get(root, "error");
    const json_t *object = json_is_object(inner) ? inner : root;
    const char *text = json_string_value(json_object_get(object, "message"));
    text = text != NULL ? text : json_string_value(inner);
    out->error = number_of(object, "code");
    out->error = out->error == 0 ? number_of(object, "grpc_code") : out->error;
    if (out->error == 0 && inner != NULL) {
        out->error = BATON_UNKNOWN;
    }
    take_message(text, out);
}

static struct baton_status take_all(const json_t *whole, struct etcd_answer *out)
{
    const json_t *result = json_object_get(whole, "result");
    const json_t *root = json_is_object(result) ? result : whole;
    const json_t *header = json_object_get(root, "header");
    const json_t *responses = json_object_get(root, "responses");
    const char *token = json_string_value(json_object_get(root, "token"));
    out->cluster_id = number_of(header, "cluster_id");
    out->revision = number_of(header, "revision");
    out->succeeded = json_is_true(json_object_get(root, "succeeded"));
    take_error(whole, out);
    if (token != NULL && !baton_text_copy(out->token, sizeof(out->token), token)) {
        return malformed("a token that is too long");
    }
    struct baton_status st = root == result ? take_watch(result, out) : take_range(root, out);
    for (size_t i = 0; baton_ok(&st) && i < json_array_size(responses); i++) {
        const json_t *range = json_object_get(json_array_get(responses, i), "response_range");
        st = range == NULL ? st : take_range(range, out);
    }
    return st;
}

struct baton_status etcd_answer_parse(struct baton_bytes body, struct etcd_answer *out)
{
    json_error_t error;
    *out = (struct etcd_answer){ 0 };
    if (body.size > ETCD_ANSWER_BYTES_MAX) {
        return malformed("it is too long");
    }
    json_t *root = json_loadb((const char *)body.data, body.size, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return malformed("it is not JSON");
    }
    struct baton_status st = json_is_object(root) ? take_all(root, out) : malformed("no object");
    json_decref(root);
    return st;
}

void etcd_answer_free(struct etcd_answer *answer)
{
    for (size_t i = 0; i < answer->pairs_count; i++) {
        free(answer->pairs[i].key);
        free(answer->pairs[i].value);
    }
    free(answer->pairs);
    explicit_bzero(answer, sizeof(*answer));
}

const struct etcd_pair *etcd_answer_find(const struct etcd_answer *answer, const char *key)
{
    for (size_t i = 0; i < answer->pairs_count; i++) {
        if (strcmp(answer->pairs[i].key, key) == 0) {
            return &answer->pairs[i];
        }
    }
    return NULL;
}

/* --- judging --- */

/* An error of etcd by its code and a part of its message; the first row that fits counts. */
struct meaning {
    uint64_t code;    /* gRPC's; 0: any. */
    const char *part; /* Of the message; empty: any. */
    enum etcd_verdict verdict;
    enum baton_code our_code;
    enum baton_reason reason;
    const char *hint;
};

static const struct meaning meanings[] = {
    { 0, "database space exceeded", ETCD_REFUSED, BATON_RESOURCE_EXHAUSTED, BATON_REASON_NO_SPACE,
      "etcd's quota is full: compact and defragment it or raise --quota-backend-bytes, then "
      "`etcdctl alarm disarm`; nothing was changed" },
    { 0, "too many requests", ETCD_ELSEWHERE, BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
      "etcd is overloaded; it is tried again" },
    { 0, "request is too large", ETCD_REFUSED, BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
      "lower maxRequestBytes of the store's address, or raise etcd's --max-request-bytes" },
    { 0, "too many operations", ETCD_REFUSED, BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
      "lower maxTxnOps of the store's address to etcd's --max-txn-ops" },
    { 0, "user name is empty", ETCD_REFUSED, BATON_UNAUTHENTICATED, BATON_REASON_BAD_FIELD,
      "give user= and passwordFile= in the store's address" },
    { 0, "authentication failed", ETCD_REFUSED, BATON_UNAUTHENTICATED, BATON_REASON_BAD_FIELD,
      "check user= and the first line of passwordFile= against etcd's users" },
    { 0, "authentication is not enabled", ETCD_REFUSED, BATON_FAILED_PRECONDITION,
      BATON_REASON_BAD_FIELD,
      "run `etcdctl auth enable`, or leave user= and passwordFile= out of the store's address" },
    { 0, "revision in header is old", ETCD_LOGIN, BATON_UNAUTHENTICATED, BATON_REASON_BAD_FIELD,
      "etcd's users changed; a new login is tried" },
    { 0, "revision of auth store is old", ETCD_LOGIN, BATON_UNAUTHENTICATED, BATON_REASON_BAD_FIELD,
      "etcd's users changed; a new login is tried" },
    { BATON_UNAUTHENTICATED, "", ETCD_LOGIN, BATON_UNAUTHENTICATED, BATON_REASON_BAD_FIELD,
      "check user= and passwordFile= of the store's address" },
    { BATON_PERMISSION_DENIED, "", ETCD_REFUSED, BATON_PERMISSION_DENIED, BATON_REASON_BAD_FIELD,
      "give the user's role the store's keys: `etcdctl role grant-permission ROLE readwrite "
      "--prefix=true PREFIX/`" },
    { BATON_OUT_OF_RANGE, "", ETCD_REFUSED, BATON_OUT_OF_RANGE, BATON_REASON_COMPACTED,
      "etcd was compacted while it was read; read it again" },
    { 0, "etcdserver: no leader", ETCD_ELSEWHERE, BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
      "a majority of etcd's members must run and reach each other; see `etcdctl endpoint status`" },
    { BATON_INVALID_ARGUMENT, "", ETCD_REFUSED, BATON_INTERNAL, BATON_REASON_MALFORMED,
      "etcd does not understand the request: is it 3.4 or later?" },
    { BATON_NOT_FOUND, "", ETCD_REFUSED, BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
      "the endpoint has no /v3 gateway: is it 3.4 or later, without --enable-grpc-gateway=false?" },
    { BATON_RESOURCE_EXHAUSTED, "", ETCD_REFUSED, BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
      "see etcd's log" },
    { 0, "", ETCD_DOUBT, BATON_UNAVAILABLE, BATON_REASON_STORE_UNAVAILABLE,
      "is a majority of etcd's members running? see `etcdctl endpoint status` and etcd's log" },
};

static const struct meaning *meaning_of(const struct etcd_answer *answer, uint64_t code)
{
    const struct meaning *at = meanings;
    while ((at->code != 0 && at->code != code) || strstr(answer->message, at->part) == NULL) {
        at++; /* The last row fits everything. */
    }
    return at;
}

enum etcd_verdict etcd_answer_judge(const struct etcd_answer *answer, long http,
                                    struct baton_status *out)
{
    if (http == 200 && answer->error == 0) {
        return ETCD_FINE;
    }
    uint64_t code = answer->error != 0 ? answer->error : (http == 404 ? BATON_NOT_FOUND : 0);
    const struct meaning *meaning = meaning_of(answer, code);
    *out = baton_status_hint(baton_status_make(meaning->our_code, meaning->reason,
                                               "etcd says: %s (HTTP %ld, code %llu)",
                                               answer->message, http, (unsigned long long)code),
                             "%s", meaning->hint);
    return meaning->verdict;
}
