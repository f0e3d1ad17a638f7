/* client.c -- the channel of a client and what its calls share; see client.h. */
#include "api/rpc/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>

#include "api/base/clock.h"
#include "api/rpc/details.h"
#include "api/rpc/server.h"

enum { METADATA_MAX = 16 };

/* --- waiting --- */

void client_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool client_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t deadline_ns)
{
    if (deadline_ns >= INT64_MAX) {
        (void)pthread_cond_wait(condition, mutex);
        return true;
    }
    struct timespec deadline = { .tv_sec = (time_t)(deadline_ns / BATON_NS_PER_S),
                                 .tv_nsec = (long)(deadline_ns % BATON_NS_PER_S) };
    return pthread_cond_timedwait(condition, mutex, &deadline) != ETIMEDOUT;
}

/* --- the list --- */

bool client_enter(struct rpc_client *client, struct client_entry *entry)
{
    pthread_mutex_lock(&client->mutex);
    entry->previous = NULL;
    entry->next = client->entries;
    if (entry->next != NULL) {
        entry->next->previous = entry;
    }
    client->entries = entry;
    bool is_closing = client->is_closing;
    pthread_mutex_unlock(&client->mutex);
    return !is_closing;
}

void client_leave(struct rpc_client *client, struct client_entry *entry)
{
    pthread_mutex_lock(&client->mutex);
    *(entry->previous == NULL ? &client->entries : &entry->previous->next) = entry->next;
    if (entry->next != NULL) {
        entry->next->previous = entry->previous;
    }
    if (client->entries == NULL) {
        pthread_cond_broadcast(&client->changed);
    }
    pthread_mutex_unlock(&client->mutex);
}

/* --- the client --- */

static grpc_arg text_arg(const char *key, const char *value)
{
    /* The core copies both. */
    return (grpc_arg){ .type = GRPC_ARG_STRING,
                       .key = (char *)(uintptr_t)key,
                       .value.string = (char *)(uintptr_t)value };
}

/* With a list, a server that is gone is left soon: another one takes its place within seconds. */
enum { CONNECT_MS = 10000, CONNECT_CHOICE_MS = 3000, KEEPALIVE_S = 20, KEEPALIVE_CHOICE_S = 5 };

static grpc_channel *create_channel(const char *address, void *context)
{
    const struct rpc_client *client = context;
    const struct rpc_client_options *options = &client->options;
    int first_ms = rpc_ms(options->backoff_first_ns, 200 * BATON_NS_PER_MS);
    grpc_arg args[16];
    size_t count = 0;
    args[count++] = rpc_arg(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args[count++] = rpc_arg(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    args[count++] = rpc_arg(GRPC_ARG_ENABLE_RETRIES, 0);
    args[count++] = rpc_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)options->message_bytes_max);
    bool choice = rpc_client_has_choice(client);
    uint64_t keepalive_ns = (choice ? KEEPALIVE_CHOICE_S : KEEPALIVE_S) * BATON_NS_PER_S;
    uint64_t timeout_ns = (choice ? 5 : 10) * BATON_NS_PER_S;
    args[count++] =
        rpc_arg(GRPC_ARG_KEEPALIVE_TIME_MS, rpc_ms(options->keepalive_ns, keepalive_ns));
    args[count++] =
        rpc_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, rpc_ms(options->keepalive_timeout_ns, timeout_ns));
    args[count++] = rpc_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    args[count++] = rpc_arg(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    args[count++] = rpc_arg(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, first_ms);
    /* The core's word for the longest time of one attempt.  A server that starts anew under thousands of clients takes
     * seconds to greet the last one; one that gives up sooner comes again behind the others. */
    args[count++] =
        rpc_arg(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, choice ? CONNECT_CHOICE_MS : CONNECT_MS);
    args[count++] = rpc_arg(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                            rpc_ms(options->backoff_max_ns, 2 * BATON_NS_PER_S));
    args[count++] = rpc_arg(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    if (options->user_agent != NULL) {
        args[count++] = text_arg(GRPC_ARG_PRIMARY_USER_AGENT_STRING, options->user_agent);
    }
    if (client->server_name != NULL) {
        args[count++] = text_arg(GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, client->server_name);
    }
    grpc_channel_args channel_args = { .num_args = count, .args = args };
    return client->options.inside != NULL
               ? inside_channel(client->options.inside, client->credentials, &channel_args)
               : grpc_channel_create(address, client->credentials, &channel_args);
}

/* Of a client inside the process, whose calls have channels of their own. */
static grpc_channel *create_none(const char *address, void *context)
{
    (void)context;
    return grpc_lame_client_channel_create(address, GRPC_STATUS_UNAVAILABLE, "none");
}

static void fill_defaults(struct rpc_client_options *options)
{
    if (options->message_bytes_max == 0 || options->message_bytes_max > INT32_MAX / 2) {
        options->message_bytes_max = BATON_MESSAGE_BYTES_MAX;
    }
    if (options->send_queue_bytes_max == 0) {
        options->send_queue_bytes_max = (size_t)4 << 20;
    }
}

/* What the client needs of its options later on is its own. */
static void keep_options(struct rpc_client *client)
{
    const struct rpc_tls *tls = client->options.tls;
    if (tls != NULL && tls->server_name != NULL) {
        client->server_name = strdup(tls->server_name);
        baton_assert(client->server_name != NULL);
    }
    if (client->options.bearer_token != NULL) {
        size_t bytes = strlen(client->options.bearer_token) + sizeof("Bearer ");
        client->authorization = malloc(bytes);
        baton_assert(client->authorization != NULL);
        (void)snprintf(client->authorization, bytes, "Bearer %s", client->options.bearer_token);
        client->options.bearer_token = NULL;
    }
    client->options.tls = NULL;
    client->options.target = NULL;
    fill_defaults(&client->options);
}

struct baton_status rpc_client_create(const struct rpc_client_options *options,
                                      struct rpc_client **out)
{
    struct rpc_client *client = calloc(1, sizeof(*client));
    baton_assert(client != NULL);
    const char *target = options->inside != NULL ? "unix:inside" : options->target;
    struct baton_status st = targets_parse(target, &client->targets);
    if (!baton_ok(&st)) {
        free(client);
        return st;
    }
    if (options->bearer_token != NULL && options->tls == NULL && !rpc_address_is_local(target)) {
        free(client);
        return baton_status_hint(
            baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NOT_ALLOWED,
                              "%.120s: a token is not sent in the clear to another machine",
                              target),
            "use TLS: name the authority that signs the server (batonctl: --ca)");
    }
    rpc_core_acquire();
    if (options->tls != NULL) {
        st = tls_client_credentials(options->tls, &client->credentials);
    } else {
        client->credentials = grpc_insecure_credentials_create();
    }
    if (!baton_ok(&st)) {
        rpc_core_release();
        free(client);
        return st;
    }
    client->options = *options;
    keep_options(client);
    pthread_mutex_init(&client->mutex, NULL);
    pthread_mutex_init(&client->targets_mutex, NULL);
    client_condition_init(&client->changed);
    client->targets.open = options->inside != NULL ? create_none : create_channel;
    client->targets.context = client;
    client->targets.local_only = options->tls == NULL && rpc_address_is_local(target);
    targets_open(&client->targets);
    rpc_loop_init(&client->loop);
    rpc_loop_start(&client->loop, "rpc-client");
    *out = client;
    return st;
}

void rpc_client_destroy(struct rpc_client *client)
{
    if (client == NULL) {
        return;
    }
    baton_assert(!rpc_is_loop_thread());
    pthread_mutex_lock(&client->mutex);
    client->is_closing = true;
    for (struct client_entry *entry = client->entries; entry != NULL; entry = entry->next) {
        entry->cancel(entry);
    }
    while (client->entries != NULL) {
        (void)pthread_cond_wait(&client->changed, &client->mutex);
    }
    pthread_mutex_unlock(&client->mutex);
    rpc_loop_deinit(&client->loop);
    targets_close(&client->targets);
    grpc_channel_credentials_release(client->credentials);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->targets_mutex);
    pthread_mutex_destroy(&client->mutex);
    free(client->server_name);
    free(client->authorization);
    free(client);
    rpc_core_release();
}

bool rpc_client_has_choice(const struct rpc_client *client)
{
    return client->targets.listed_count > 1;
}

/* --- calls --- */

static struct baton_status copy_pair(const struct rpc_metadata *pair, grpc_metadata *copy)
{
    copy->key = grpc_slice_from_copied_string(pair->key);
    copy->value = grpc_slice_from_copied_string(pair->value);
    if (!grpc_header_key_is_legal(copy->key) ||
        (!grpc_is_binary_header(copy->key) && !grpc_header_nonbin_value_is_legal(copy->value))) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "metadata \"%.80s\": the key is not lower case ASCII, or the "
                                 "value has characters that a header cannot carry",
                                 pair->key);
    }
    return baton_status_ok();
}

/* The call's own, and who the client is. */
static struct baton_status copy_metadata(const struct rpc_client *client,
                                         const struct rpc_call_options *options,
                                         struct client_call *out)
{
    struct rpc_metadata bearer = { "authorization", client->authorization };
    size_t count = options->metadata_count + (client->authorization != NULL);
    if (options->metadata_count > METADATA_MAX) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "a call sends at most %d metadata pairs", METADATA_MAX);
    }
    if (count == 0) {
        return baton_status_ok();
    }
    out->metadata = calloc(count, sizeof(*out->metadata));
    baton_assert(out->metadata != NULL);
    struct baton_status st = baton_status_ok();
    for (size_t i = 0; i < count && baton_ok(&st); i++) {
        st = copy_pair(i < options->metadata_count ? &options->metadata[i] : &bearer,
                       &out->metadata[out->metadata_count++]);
    }
    return st;
}

void client_call_free_metadata(struct client_call *call)
{
    for (size_t i = 0; i < call->metadata_count; i++) {
        grpc_slice_unref(call->metadata[i].key);
        grpc_slice_unref(call->metadata[i].value);
    }
    free(call->metadata);
    call->metadata = NULL;
    call->metadata_count = 0;
}

void client_call_open(struct rpc_client *client, const char *name,
                      const struct rpc_call_options *options, uint64_t default_timeout_ns,
                      struct client_call *out)
{
    static const struct rpc_call_options NONE = { .timeout_ns = 0 };
    options = options == NULL ? &NONE : options;
    *out = (struct client_call){ .method = rpc_method_find(name, strlen(name)) };
    baton_assert(out->method != NULL);
    out->refusal = copy_metadata(client, options, out);
    if (!baton_ok(&out->refusal)) {
        client_call_free_metadata(out);
    }
    uint64_t timeout_ns = options->timeout_ns == 0 ? default_timeout_ns : options->timeout_ns;
    pthread_mutex_lock(&client->targets_mutex);
    const struct target *target = targets_current(&client->targets);
    /* Where there is another address, a call that cannot be sent ends, and the next one goes there. */
    bool waits = options->wait_for_ready && target == &client->targets.listed[0] &&
                 client->targets.listed_count == 1;
    out->flags = waits ? GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                             GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET
                       : 0;
    out->turn = client->targets.turn;
    memcpy(out->address, target->address, sizeof(out->address));
    out->own = client->options.inside != NULL ? create_channel(target->address, client) : NULL;
    out->core = grpc_channel_create_call(out->own != NULL ? out->own : target->channel, NULL,
                                         GRPC_PROPAGATE_DEFAULTS, client->loop.queue,
                                         grpc_slice_from_static_string(out->method->path), NULL,
                                         rpc_time(rpc_deadline_after(timeout_ns)), NULL);
    pthread_mutex_unlock(&client->targets_mutex);
}

void client_call_check(struct client_call *call, bool is_closing)
{
    if (is_closing) {
        (void)grpc_call_cancel_with_status(call->core, GRPC_STATUS_CANCELLED,
                                           "the client is closing", NULL);
    } else if (!baton_ok(&call->refusal)) {
        (void)grpc_call_cancel_with_status(call->core, (grpc_status_code)call->refusal.code,
                                           call->refusal.message, NULL);
    }
}

/* --- the end of a call --- */

void client_call_close(struct client_call *call)
{
    grpc_call_unref(call->core);
    if (call->own != NULL) {
        grpc_channel_destroy(call->own);
    }
}

void client_end_init(struct client_end *end)
{
    end->code = GRPC_STATUS_UNKNOWN;
    end->message = grpc_empty_slice();
    grpc_metadata_array_init(&end->trailers);
}

void client_end_deinit(struct client_end *end)
{
    grpc_slice_unref(end->message);
    grpc_metadata_array_destroy(&end->trailers);
}

/* A decimal number in the trailers; false: there is none. */
static bool trailing_number(const struct client_end *end, const char *key, uint64_t *out)
{
    char text[24];
    for (size_t i = 0; i < end->trailers.count; i++) {
        if (rpc_slice_is(end->trailers.metadata[i].key, key)) {
            rpc_slice_text(end->trailers.metadata[i].value, text, sizeof(text));
            size_t digits = strspn(text, "0123456789");
            *out = strtoull(text, NULL, 10);
            return digits > 0 && text[digits] == '\0';
        }
    }
    return false;
}

struct rpc_stored client_end_stored(const struct client_end *end)
{
    uint64_t revision = 0;
    uint64_t age_ms = 0;
    bool is = trailing_number(end, RPC_STORED_REVISION_KEY, &revision) &&
              trailing_number(end, RPC_STORED_AGE_KEY, &age_ms) && age_ms <= UINT64_MAX / 1000000;
    return is ? (struct rpc_stored){ true, revision, age_ms * 1000000 }
              : (struct rpc_stored){ .is_stored = false };
}

grpc_op client_end_op(struct client_end *end)
{
    grpc_op op = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT };
    op.data.recv_status_on_client.status = &end->code;
    op.data.recv_status_on_client.status_details = &end->message;
    op.data.recv_status_on_client.trailing_metadata = &end->trailers;
    return op;
}

/* A failure that the core made, not the peer: it gets the names of server and method. */
static struct baton_status own_failure(enum baton_code code, const char *text,
                                       const struct client_call *call)
{
    struct baton_status st;
    const char *target = call->address;
    if (code == BATON_UNAVAILABLE) {
        st = baton_status_make(code, BATON_REASON_NONE, "%s: %s", target, text);
        return baton_status_hint(st, "check that the server runs and listens at %s", target);
    }
    if (code == BATON_DEADLINE_EXCEEDED) {
        st = baton_status_make(code, BATON_REASON_NONE, "%s: no answer from %s in time",
                               call->method->name, target);
        return baton_status_hint(st, "try again, or allow more time");
    }
    enum baton_reason reason =
        code == BATON_RESOURCE_EXHAUSTED ? BATON_REASON_LIMIT : BATON_REASON_NONE;
    return baton_status_make(code, reason, "%s", text[0] != '\0' ? text : baton_code_name(code));
}

/* 'leader' is empty where the peer named none. */
static void learn(struct rpc_client *client, const struct client_call *call,
                  const struct baton_status *st, const char *leader)
{
    bool is_silent = st->reason == BATON_REASON_NONE &&
                     (st->code == BATON_UNAVAILABLE || st->code == BATON_DEADLINE_EXCEEDED);
    bool serves_not =
        st->reason == BATON_REASON_NOT_LEADER || st->reason == BATON_REASON_SHUTTING_DOWN;
    pthread_mutex_lock(&client->targets_mutex);
    if (serves_not && leader[0] != '\0') {
        targets_follow(&client->targets, call->turn, leader);
    } else if (is_silent || serves_not) {
        targets_pass(&client->targets, call->turn);
    }
    pthread_mutex_unlock(&client->targets_mutex);
}

struct baton_status client_end_status(const struct client_end *end, struct rpc_client *client,
                                      const struct client_call *call, bool is_cancelled)
{
    if (end->code == GRPC_STATUS_OK) {
        return baton_status_ok();
    }
    enum baton_code code = (unsigned)end->code <= (unsigned)BATON_UNAUTHENTICATED
                               ? (enum baton_code)end->code
                               : BATON_UNKNOWN;
    char text[BATON_STATUS_MESSAGE_BYTES];
    char leader[TARGET_BYTES] = "";
    struct baton_status st;
    rpc_slice_text(end->message, text, sizeof(text));
    bool by_peer = false;
    for (size_t i = 0; i < end->trailers.count && !by_peer; i++) {
        if (rpc_slice_is(end->trailers.metadata[i].key, RPC_DETAILS_KEY)) {
            st = baton_status_make(code, BATON_REASON_NONE, "%s", text);
            rpc_details_decode(end->trailers.metadata[i].value, &st, leader, sizeof(leader));
            by_peer = true;
        }
    }
    if (!by_peer && code == BATON_CANCELLED && !is_cancelled) {
        st = own_failure(BATON_UNAVAILABLE, "the server gave the call up, as when it shuts down",
                         call);
    } else if (!by_peer) {
        st = own_failure(code, text, call);
    }
    if (client->options.inside == NULL) { /* It stays with its server, whoever leads. */
        learn(client, call, &st, leader);
    }
    return st;
}
