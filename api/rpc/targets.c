/* targets.c -- see targets.h. */
#include "api/rpc/targets.h"

#include <stdio.h>
#include <string.h>

#include "api/rpc/rpc.h"

static struct baton_status check(const char *address)
{
    bool is_one =
        strlen(address) < TARGET_BYTES - 1 && strpbrk(address, " \t\r\n") == NULL &&
        (strncmp(address, "unix:", 5) == 0 ? address[5] != '\0' : strchr(address, ':') != NULL);
    if (is_one) {
        return baton_status_ok();
    }
    struct baton_status st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                               "address \"%.200s\": is none", address);
    return baton_status_hint(st, "write host:port or unix:/path");
}

static bool is_whole(const char *text)
{
    static const char *const schemes[] = { "unix:", "ipv4:", "ipv6:" };
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0) {
            return true;
        }
    }
    return false;
}

struct baton_status targets_parse(const char *text, struct targets *out)
{
    const char *at = text == NULL ? "" : text;
    bool whole = is_whole(at);
    for (;;) {
        size_t bytes = whole ? strlen(at) : strcspn(at, ",");
        char one[TARGET_BYTES];
        if (out->listed_count == TARGETS_LISTED_MAX) {
            return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                     "address \"%.200s\": a list has at most %d", text,
                                     (int)TARGETS_LISTED_MAX);
        }
        (void)snprintf(one, sizeof(one), "%.*s",
                       bytes < sizeof(one) ? (int)bytes : (int)sizeof(one), at);
        struct baton_status st = check(one);
        if (!baton_ok(&st)) {
            return st;
        }
        memcpy(out->listed[out->listed_count++].address, one, sizeof(one));
        if (at[bytes] == '\0') {
            return st;
        }
        at += bytes + 1;
    }
}

void targets_open(struct targets *targets)
{
    for (uint32_t i = 0; i < targets->listed_count; i++) {
        targets->listed[i].channel = targets->open(targets->listed[i].address, targets->context);
    }
}

void targets_close(struct targets *targets)
{
    for (uint32_t i = 0; i < targets->listed_count; i++) {
        if (targets->listed[i].channel != NULL) {
            grpc_channel_destroy(targets->listed[i].channel);
        }
    }
    if (targets->named.channel != NULL) {
        grpc_channel_destroy(targets->named.channel);
    }
}

const struct target *targets_current(const struct targets *targets)
{
    return targets->at_named ? &targets->named : &targets->listed[targets->at];
}

static void name(struct targets *targets, const char *leader)
{
    if (targets->named.channel != NULL && strcmp(targets->named.address, leader) == 0) {
        return;
    }
    if (targets->named.channel != NULL) { /* Its calls are over: nothing was sent there any more. */
        grpc_channel_destroy(targets->named.channel);
    }
    (void)snprintf(targets->named.address, sizeof(targets->named.address), "%s", leader);
    targets->named.channel = targets->open(leader, targets->context);
}

void targets_follow(struct targets *targets, uint64_t turn, const char *leader)
{
    struct baton_status st = check(leader);
    if (turn != targets->turn || !baton_ok(&st) ||
        (targets->local_only && !rpc_address_is_local(leader))) {
        targets_pass(targets, turn);
        return;
    }
    if (strcmp(targets_current(targets)->address, leader) == 0) { /* It knows no better. */
        targets_pass(targets, turn);
        return;
    }
    targets->turn++;
    for (uint32_t i = 0; i < targets->listed_count; i++) {
        if (strcmp(targets->listed[i].address, leader) == 0) {
            targets->at_named = false;
            targets->at = i;
            return;
        }
    }
    name(targets, leader);
    targets->at_named = true;
}

void targets_pass(struct targets *targets, uint64_t turn)
{
    if (turn != targets->turn || (!targets->at_named && targets->listed_count == 1)) {
        return;
    }
    targets->turn++;
    targets->at = targets->at_named ? targets->at : (targets->at + 1) % targets->listed_count;
    targets->at_named = false;
}
