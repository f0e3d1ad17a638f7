/* server_serve.c -- one connection: the capability, then what is asked for.  See server.h. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/base/clock.h"
#include "transport/landing/holding.h"
#include "transport/p2p/frame.h"
#include "transport/p2p/server_state.h"

enum { HANDSHAKE_S = 10, IDLE_S = 60, ANSWER_S = 30, LOOK_MS = 20 };

/* What a connection came to. */
struct serving {
    struct p2p_connection *connection;
    struct channel *channel;
    struct digest version;
    struct holding *holding; /* Null: not found so far. */
};

static uint64_t in_s(uint64_t seconds)
{
    return baton_clock_monotonic_ns() + seconds * BATON_NS_PER_S;
}

static struct baton_status answer(struct serving *serving, enum frame_code code, const char *text,
                                  uint64_t number)
{
    uint8_t bytes[FRAME_BYTES + FRAME_TEXT_MAX];
    size_t text_bytes = strnlen(text, FRAME_TEXT_MAX);
    struct frame_answer frame = { code, (uint32_t)text_bytes, number };
    frame_write_answer(&frame, bytes);
    memcpy(bytes + FRAME_BYTES, text, text_bytes);
    return channel_write(serving->channel, (struct baton_bytes){ bytes, FRAME_BYTES + text_bytes },
                         in_s(ANSWER_S));
}

/* --- hello --- */

static uint64_t wall_s(const struct p2p_server_options *options)
{
    return options->wall_s != NULL ? options->wall_s(options->context)
                                   : baton_clock_wall_ns() / BATON_NS_PER_S;
}

/* A stolen capability is of no use to who has no certificate of its node. */
static struct baton_status check_node(const struct serving *serving,
                                      const struct capability *capability)
{
    const struct channel *channel = serving->channel;
    if (!channel_has_certificate(channel)) {
        return baton_status_ok(); /* TLS that asks for none, or plain: the file allows that. */
    }
    bool is_node = capability->identity[0] != '\0' ? channel_has_name(channel, capability->identity)
                                                   : channel_is_agent(channel, capability->node);
    return is_node ? baton_status_ok()
                   : baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NOT_ALLOWED,
                                       "the capability is of node '%.63s', not of who shows it",
                                       capability->node);
}

static struct baton_status check(const struct serving *serving, struct baton_bytes bytes,
                                 struct capability *capability)
{
    const struct p2p_server_options *options = &serving->connection->server->options;
    struct capability_key keys[P2P_KEYS_MAX];
    size_t count = options->keys(options->context, keys);
    struct baton_status st = capability_open(bytes, keys, count, capability);
    if (baton_ok(&st)) {
        st = capability_check_version(capability, serving->version);
    }
    if (baton_ok(&st)) {
        st = capability_check_time(capability, wall_s(options));
    }
    return baton_ok(&st) ? check_node(serving, capability) : st;
}

static void refuse(struct serving *serving, const struct capability *capability,
                   const struct baton_status *why)
{
    struct p2p_server *server = serving->connection->server;
    struct p2p_refusal refusal = { .node = capability->node,
                                   .identity = channel_identity(serving->channel),
                                   .remote = channel_remote(serving->channel),
                                   .version = serving->version,
                                   .status = why };
    atomic_fetch_add(&server->refused, 1);
    server->options.refused(server->options.context, &refusal);
    struct baton_status st = answer(serving, FRAME_REFUSED, why->message, 0);
    (void)st; /* The connection ends in any case. */
}

/* False: the connection ends. */
static bool greet(struct serving *serving)
{
    uint8_t head[FRAME_BYTES];
    uint8_t body[BATON_DIGEST_BYTES + CAPABILITY_BYTES_MAX];
    struct frame_request request;
    struct capability capability;
    struct baton_status st = channel_read(serving->channel, head, sizeof(head), in_s(HANDSHAKE_S));
    if (!baton_ok(&st)) {
        return false;
    }
    st = frame_read_request(head, &request);
    if (!baton_ok(&st) || request.verb != FRAME_HELLO) {
        st = answer(serving, FRAME_BAD, "the first request is hello", 0);
        return false;
    }
    st = channel_read(serving->channel, body, request.number, in_s(HANDSHAKE_S));
    if (!baton_ok(&st)) {
        return false;
    }
    memcpy(serving->version.bytes, body, BATON_DIGEST_BYTES);
    st = check(
        serving,
        (struct baton_bytes){ body + BATON_DIGEST_BYTES, request.number - BATON_DIGEST_BYTES },
        &capability);
    if (!baton_ok(&st)) {
        refuse(serving, &capability, &st);
        return false;
    }
    if (!p2p_connection_name(serving->connection, capability.node)) {
        st = answer(serving, FRAME_BUSY, "this node has too many connections here", 0);
        return false;
    }
    return true;
}

/* --- what is asked for --- */

static bool is_sealed(const struct serving *serving)
{
    const struct p2p_server_options *options = &serving->connection->server->options;
    for (size_t i = 0; i < options->roots_count; i++) {
        if (landing_has(options->roots[i], serving->version)) {
            return true;
        }
    }
    return false;
}

static void look(struct serving *serving)
{
    const struct p2p_server_options *options = &serving->connection->server->options;
    for (size_t i = 0; serving->holding == NULL && i < options->roots_count; i++) {
        struct baton_status st =
            holding_open(options->roots[i], serving->version, &serving->holding);
        (void)st; /* It is not there, or cannot be read: then it is not to be had here. */
    }
}

/* A landing may begin a moment later than the one that pulls from it. */
static void find(struct serving *serving, uint64_t deadline_ns)
{
    for (look(serving); serving->holding == NULL && baton_clock_monotonic_ns() < deadline_ns &&
                        !p2p_is_stopping(serving->connection->server);
         look(serving)) {
        struct timespec pause = { 0, LOOK_MS * (long)BATON_NS_PER_MS };
        (void)nanosleep(&pause, NULL);
    }
}

static struct baton_status send_bytes(struct serving *serving, const void *data, size_t size)
{
    struct baton_status st = answer(serving, FRAME_OK, "", size);
    return baton_ok(&st) ? channel_write(serving->channel, (struct baton_bytes){ data, size },
                                         in_s(ANSWER_S + size / (1 << 20)))
                         : st;
}

static struct baton_status send_chunk(struct serving *serving, uint64_t chunk, uint64_t deadline_ns)
{
    struct p2p_server *server = serving->connection->server;
    struct holding_piece piece;
    struct baton_status found = holding_find(serving->holding, chunk, deadline_ns, &piece);
    if (!baton_ok(&found)) {
        enum frame_code code = found.code == BATON_UNAVAILABLE    ? FRAME_NOT_YET
                               : found.code == BATON_NOT_FOUND    ? FRAME_NOT_HERE
                               : found.code == BATON_OUT_OF_RANGE ? FRAME_BAD
                                                                  : FRAME_FAILED;
        return answer(serving, code, found.message, 0);
    }
    struct baton_status st = answer(serving, FRAME_OK, "", piece.size);
    if (baton_ok(&st)) {
        st =
            channel_send_file(serving->channel, piece.fd, piece.offset, piece.size, in_s(ANSWER_S));
    }
    if (baton_ok(&st)) {
        atomic_fetch_add(&server->chunks, 1);
        atomic_fetch_add(&server->bytes, piece.size);
    }
    return st;
}

static struct baton_status send_table(struct serving *serving)
{
    uint64_t count = 0;
    const struct digest *table = holding_table(serving->holding, &count);
    return send_bytes(serving, table, count * sizeof(*table));
}

static struct baton_status send_manifest(struct serving *serving)
{
    struct baton_bytes text = holding_manifest(serving->holding);
    return send_bytes(serving, text.data, text.size);
}

static struct baton_status serve_request(struct serving *serving,
                                         const struct frame_request *request)
{
    uint64_t deadline_ns = baton_clock_monotonic_ns() + request->wait_ms * BATON_NS_PER_MS;
    find(serving, deadline_ns);
    if (serving->holding == NULL) {
        return answer(serving, FRAME_NOT_YET, "the version is not here", 0);
    }
    switch (request->verb) {
    case FRAME_MANIFEST: return send_manifest(serving);
    case FRAME_TABLE: return send_table(serving);
    case FRAME_CHUNK: return send_chunk(serving, request->number, deadline_ns);
    case FRAME_HELLO: break;
    }
    return answer(serving, FRAME_BAD, "hello is said once", 0);
}

/* True: the next request may come. */
static bool serve_next(struct serving *serving)
{
    uint8_t head[FRAME_BYTES];
    struct frame_request request;
    struct baton_status st = channel_read(serving->channel, head, sizeof(head), in_s(IDLE_S));
    if (!baton_ok(&st)) {
        return false;
    }
    st = frame_read_request(head, &request);
    if (!baton_ok(&st)) {
        st = answer(serving, FRAME_BAD, st.message, 0);
        return false;
    }
    st = serve_request(serving, &request);
    return baton_ok(&st);
}

void p2p_serve(struct p2p_connection *connection)
{
    struct serving serving = { .connection = connection, .channel = connection->channel };
    struct baton_status st =
        channel_handshake(serving.channel, connection->server->options.tls, in_s(HANDSHAKE_S));
    if (!baton_ok(&st) || !greet(&serving)) {
        return;
    }
    st = answer(&serving, FRAME_OK, "", is_sealed(&serving) ? FRAME_WHOLE : 0);
    while (baton_ok(&st) && serve_next(&serving)) {
        if (p2p_is_stopping(connection->server)) {
            break;
        }
    }
    holding_close(serving.holding);
}
