/* etcd_state.c -- see etcd_state.h. */
#include "controller/store/etcd_state.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/bytes.h"

enum { STATE_FORMAT = 1 };

typedef unsigned long long big;

void etcd_epoch_format(const struct etcd_epoch *epoch, char out[ETCD_STATE_BYTES])
{
    (void)snprintf(out, ETCD_STATE_BYTES,
                   "{\"format\":%d,\"generation\":\"%llu\",\"n\":\"%llu\",\"cluster\":\"%llu\","
                   "\"writer\":\"%s\",\"fence\":\"%llu\"}",
                   (int)STATE_FORMAT, (big)epoch->epoch.generation, (big)epoch->epoch.n,
                   (big)epoch->cluster, epoch->writer, (big)epoch->fence);
}

void etcd_revision_format(const struct etcd_revision *revision, char out[ETCD_STATE_BYTES])
{
    (void)snprintf(out, ETCD_STATE_BYTES,
                   "{\"format\":%d,\"revision\":\"%llu\",\"writer\":\"%s\",\"write\":\"%llu\"}",
                   (int)STATE_FORMAT, (big)revision->revision, revision->writer,
                   (big)revision->write);
}

void etcd_leader_format(const struct leader_record *record, char out[ETCD_LEADER_BYTES])
{
    int length = snprintf(out, ETCD_LEADER_BYTES,
                          "{\"format\":%d,\"holder\":\"%s\",\"address\":\"%s\",\"count\":\"%llu\","
                          "\"leaseMs\":\"%llu\"}",
                          (int)STATE_FORMAT, record->holder, record->address, (big)record->count,
                          (big)record->lease_ms);
    baton_assert(length > 0 && length < ETCD_LEADER_BYTES);
}

static struct baton_status malformed(const char *what)
{
    return baton_status_hint(
        baton_status_make(BATON_DATA_LOSS, BATON_REASON_MALFORMED, "store: etcd's key %s", what),
        "another prefix in the store's address, or a restore from a backup");
}

/* A decimal string; false: it is none. */
static bool take_number(const json_t *object, const char *name, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (text == NULL || text[0] == '\0' || text[strspn(text, "0123456789")] != '\0') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0;
}

static bool take_hex(const json_t *object, const char *name, char out[ETCD_WRITER_BYTES])
{
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL && text[strspn(text, "0123456789abcdef")] == '\0' &&
           baton_text_copy(out, ETCD_WRITER_BYTES, text);
}

static struct baton_status load(const char *text, const char *key, json_t **out)
{
    char what[64];
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    json_int_t format = json_integer_value(json_object_get(root, "format"));
    if (format > STATE_FORMAT) {
        json_decref(root);
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_INCOMPATIBLE,
                              "store: etcd's key %s has format %lld, this release knows up to %d",
                              key, (long long)format, (int)STATE_FORMAT),
            "start the release that wrote it, or give another prefix");
    }
    if (format < 1) {
        json_decref(root);
        (void)snprintf(what, sizeof(what), "%s was not written by Baton", key);
        return malformed(what);
    }
    *out = root;
    return baton_status_ok();
}

struct baton_status etcd_epoch_parse(const char *text, struct etcd_epoch *out)
{
    json_t *root = NULL;
    *out = (struct etcd_epoch){ 0 };
    struct baton_status st = load(text, "epoch", &root);
    if (!baton_ok(&st)) {
        return st;
    }
    bool ok = take_number(root, "generation", &out->epoch.generation) &&
              take_number(root, "n", &out->epoch.n) &&
              take_number(root, "cluster", &out->cluster) &&
              take_number(root, "fence", &out->fence) && take_hex(root, "writer", out->writer);
    json_decref(root);
    return ok ? st : malformed("epoch lacks a member");
}

struct baton_status etcd_revision_parse(const char *text, struct etcd_revision *out)
{
    json_t *root = NULL;
    *out = (struct etcd_revision){ 0 };
    struct baton_status st = load(text, "revision", &root);
    if (!baton_ok(&st)) {
        return st;
    }
    bool ok = take_number(root, "revision", &out->revision) &&
              take_number(root, "write", &out->write) && take_hex(root, "writer", out->writer);
    json_decref(root);
    return ok ? st : malformed("revision lacks a member");
}

static bool take_address(const json_t *object, char out[LEADER_ADDRESS_BYTES])
{
    const char *text = json_string_value(json_object_get(object, "address"));
    bool ok = text != NULL && baton_text_copy(out, LEADER_ADDRESS_BYTES, text);
    for (; ok && *text != '\0'; text++) {
        ok = *text > ' ' && *text < 0x7f && *text != '"' && *text != '\\';
    }
    return ok;
}

struct baton_status etcd_leader_parse(const char *text, struct leader_record *out)
{
    json_t *root = NULL;
    *out = (struct leader_record){ 0 };
    struct baton_status st = load(text, "leader", &root);
    if (!baton_ok(&st)) {
        return st;
    }
    bool ok = take_hex(root, "holder", out->holder) && take_address(root, out->address) &&
              take_number(root, "count", &out->count) &&
              take_number(root, "leaseMs", &out->lease_ms);
    json_decref(root);
    return ok ? st : malformed("leader lacks a member");
}
