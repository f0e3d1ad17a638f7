/* local_session.c -- one connection: handshake, questions, publishes, progress. */
#include "agent/shell/local_session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/base/log.h"
#include "api/client/local_channel.h"

static const char module[] = "local";
/* How long a message may take that has begun, and the first one of a connection. */
static const uint64_t message_ns = 30 * BATON_NS_PER_S;
static const uint64_t look_ns = 50 * BATON_NS_PER_MS;
static const uint64_t report_ns = 200 * BATON_NS_PER_MS;
/* Rates are averages over at least this time. */
static const uint64_t rate_ns = 1000 * BATON_NS_PER_MS;

enum session_state {
    SESSION_STATE_IDLE,    /* Between publishes. */
    SESSION_STATE_UPLOAD,  /* Entries come; ended by COMMIT or CANCEL. */
    SESSION_STATE_DISCARD, /* The upload failed and was answered; entries are dropped until then. */
    SESSION_STATE_END,     /* The client is gone, or does not keep to the protocol. */
};

/* How fast a phase goes. */
struct rate {
    uint32_t phase;
    uint64_t since_ns;
    uint64_t since_bytes;
    uint64_t bytes_per_s; /* Of the last window. */
};

struct session {
    const struct local_session_context *context;
    struct local_channel channel;
    enum session_state state;
    char client[128];             /* As the client described itself. */
    char model[BATON_NAME_BYTES]; /* Of the publish under way. */
    struct local_upload *upload;
    uint64_t inline_left; /* Bytes of the entry that DATA frames still owe. */

    bool is_cancelled; /* The client sent CANCEL during a sink's call. */
    bool is_gone;      /* The connection broke during one: the work goes on, nobody listens. */
    uint64_t looked_ns;
    uint64_t reported_ns;
    struct rate rate;
};

static const struct local_sink *sink_of(const struct session *session)
{
    return &session->context->options->sink;
}

/* --- answers --- */

static void send_answer(struct session *session, const struct local_message *message)
{
    if (session->is_gone) {
        return;
    }
    uint64_t deadline_ns = baton_clock_monotonic_ns() + session->context->options->write_timeout_ns;
    struct baton_status st = local_channel_send(&session->channel, message, -1, deadline_ns);
    if (!baton_ok(&st)) {
        session->is_gone = true;
    }
}

static void send_result(struct session *session, const struct baton_status *st,
                        const struct local_result *result)
{
    struct local_message answer = { .kind = LOCAL_KIND_RESULT };
    if (baton_ok(st)) {
        answer.as.result = *result;
        answer.as.result.code = BATON_OK;
    } else {
        local_result_from_status(st, &answer.as.result);
    }
    send_answer(session, &answer);
}

static void send_failure(struct session *session, const struct baton_status *st)
{
    send_result(session, st, NULL);
}

/* --- what a sink says while it works --- */

/* Reads what came meanwhile: nothing but CANCEL makes sense. */
static void look_for_cancel(struct session *session, uint64_t now_ns)
{
    if (session->is_gone || now_ns - session->looked_ns < look_ns) {
        return;
    }
    session->looked_ns = now_ns;
    while (local_channel_wait(&session->channel, -1, 0) == LOCAL_WAIT_READABLE) {
        struct local_message message;
        struct baton_status st =
            local_channel_receive(&session->channel, &message, now_ns + message_ns);
        if (!baton_ok(&st) || message.kind != LOCAL_KIND_CANCEL) {
            session->is_gone = true;
            return;
        }
        session->is_cancelled = true;
    }
}

static uint64_t rate_update(struct rate *rate, uint32_t phase, uint64_t bytes, uint64_t now_ns)
{
    if (rate->phase != phase || bytes < rate->since_bytes) {
        *rate = (struct rate){ phase, now_ns, bytes, 0 };
        return 0;
    }
    uint64_t elapsed_ns = now_ns - rate->since_ns;
    double per_s = elapsed_ns == 0 ? 0.0
                                   : (double)(bytes - rate->since_bytes) * (double)BATON_NS_PER_S /
                                         (double)elapsed_ns;
    if (elapsed_ns >= rate_ns) {
        *rate = (struct rate){ phase, now_ns, bytes, (uint64_t)per_s };
    }
    return rate->bytes_per_s != 0 ? rate->bytes_per_s : (uint64_t)per_s;
}

/* Copies a detail as text that the other side takes. */
static void set_detail(struct local_progress *out, const char *detail)
{
    out->detail[0] = '\0';
    if (detail != NULL && local_text_is_valid(baton_bytes_of(detail))) {
        (void)baton_text_copy(out->detail, sizeof(out->detail), detail);
    }
}

static bool report(void *context, uint32_t phase, uint64_t bytes_done, uint64_t bytes_total,
                   const char *detail)
{
    struct session *session = context;
    uint64_t now_ns = baton_clock_monotonic_ns();
    look_for_cancel(session, now_ns);
    if (session->is_cancelled || atomic_load(session->context->is_stopping)) {
        return false;
    }
    bool is_due = session->rate.phase != phase || now_ns - session->reported_ns >= report_ns;
    if (session->is_gone || !is_due || !local_channel_is_writable(&session->channel)) {
        return true;
    }
    session->reported_ns = now_ns;
    struct local_message message = { .kind = LOCAL_KIND_PROGRESS };
    message.as.progress.phase = phase;
    message.as.progress.bytes_done = bytes_done;
    message.as.progress.bytes_total = bytes_total;
    message.as.progress.bytes_per_s = rate_update(&session->rate, phase, bytes_done, now_ns);
    set_detail(&message.as.progress, detail);
    send_answer(session, &message);
    return true;
}

static struct local_feedback start_feedback(struct session *session)
{
    session->is_cancelled = false;
    session->looked_ns = 0;
    session->reported_ns = 0;
    session->rate = (struct rate){ 0 };
    return (struct local_feedback){ report, session };
}

static void log_result(const struct session *session, const struct baton_status *st,
                       const struct local_result *result)
{
    const char *model = session->model;
    if (!baton_ok(st)) {
        char what[160];
        (void)snprintf(what, sizeof(what), "publish to %.63s by %.80s", model, session->client);
        baton_log_status(BATON_LOG_WARN, module, what, st);
        return;
    }
    const struct baton_log_field fields[] = {
        BATON_LOG_TEXT("model", model),
        BATON_LOG_NUMBER("seq", result->seq),
        BATON_LOG_TEXT("digest", result->digest),
        BATON_LOG_NUMBER("bytes", result->bytes),
        BATON_LOG_TEXT("client", session->client),
    };
    baton_log_fields(BATON_LOG_INFO, module, "published", fields,
                     sizeof(fields) / sizeof(fields[0]));
}

/* --- publishes --- */

static void finish(struct session *session, const struct baton_status *st,
                   const struct local_result *result)
{
    log_result(session, st, result);
    send_result(session, st, result);
    session->state = session->is_gone ? SESSION_STATE_END : SESSION_STATE_IDLE;
}

/* A publish needs a source; an agent without one takes break-glass only. */
static bool is_source(struct session *session)
{
    if (sink_of(session)->directory != NULL) {
        return true;
    }
    struct baton_status st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_NONE,
                                               "this agent keeps no versions to publish from");
    st = baton_status_hint(st, "Set versions.directory in its configuration");
    send_failure(session, &st);
    return false;
}

static void on_directory(struct session *session, const struct local_publish *request)
{
    if (!is_source(session)) {
        return;
    }
    memcpy(session->model, request->model, sizeof(session->model));
    struct local_feedback feedback = start_feedback(session);
    struct local_result result = { 0 };
    const struct local_sink *sink = sink_of(session);
    struct baton_status st = sink->directory(sink->context, request, &feedback, &result);
    finish(session, &st, &result);
}

static void on_begin(struct session *session, const struct local_publish *request)
{
    if (!is_source(session)) {
        return;
    }
    memcpy(session->model, request->model, sizeof(session->model));
    struct local_feedback feedback = start_feedback(session);
    const struct local_sink *sink = sink_of(session);
    struct baton_status st = sink->begin(sink->context, request, &feedback, &session->upload);
    if (!baton_ok(&st)) {
        struct local_result nothing = { 0 };
        finish(session, &st, &nothing);
        return;
    }
    session->state = SESSION_STATE_UPLOAD;
    session->inline_left = 0;
    struct local_message accepted = { .kind = LOCAL_KIND_ACCEPTED };
    send_answer(session, &accepted);
}

static void drop_upload(struct session *session)
{
    if (session->upload != NULL) {
        sink_of(session)->drop(session->upload);
        session->upload = NULL;
    }
}

/* Answers an entry that the sink refused; what the client still sends of this publish is dropped. */
static void refuse_upload(struct session *session, const struct baton_status *st)
{
    baton_log_status(BATON_LOG_WARN, module, "upload refused", st);
    drop_upload(session);
    send_failure(session, st);
    session->state = SESSION_STATE_DISCARD;
}

static void on_commit(struct session *session)
{
    struct local_feedback feedback = start_feedback(session);
    struct local_result result = { 0 };
    struct baton_status st;
    if (session->inline_left > 0) {
        st = baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_TRUNCATED,
                               "COMMIT before the last entry was whole: %llu bytes are missing",
                               (unsigned long long)session->inline_left);
        drop_upload(session);
    } else {
        st = sink_of(session)->commit(session->upload, &feedback, &result);
        session->upload = NULL;
    }
    finish(session, &st, &result);
}

static void on_cancel(struct session *session)
{
    if (session->state == SESSION_STATE_UPLOAD) {
        drop_upload(session);
        struct baton_status st = baton_status_make(BATON_CANCELLED, BATON_REASON_NONE,
                                                   "the publish was cancelled by its client");
        send_failure(session, &st);
    }
    session->state = SESSION_STATE_IDLE;
}

/* Memory that its sender could still shorten or change would be a trap for whoever maps it. */
static struct baton_status check_segment(int fd, uint64_t bytes)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_SHRINK)) != (F_SEAL_WRITE | F_SEAL_SHRINK)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "SEGMENT: the memory is not sealed against writing");
    }
    if (fstat(fd, &info) != 0 || info.st_size < 0 || (uint64_t)info.st_size < bytes) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_TRUNCATED,
                                 "SEGMENT: the memory is shorter than the %llu bytes announced",
                                 (unsigned long long)bytes);
    }
    return baton_status_ok();
}

static struct baton_status take_segment(struct session *session,
                                        const struct local_segment *segment)
{
    int fd = local_channel_take_fd(&session->channel);
    if (fd < 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "SEGMENT came without its memory");
    }
    struct baton_status st = check_segment(fd, segment->bytes);
    if (baton_ok(&st)) {
        st = sink_of(session)->segment(session->upload, fd, segment->bytes);
    }
    (void)close(fd);
    return st;
}

static struct baton_status take_data(struct session *session, struct baton_bytes data)
{
    if (data.size > session->inline_left) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "DATA: %zu bytes where the entry lacks %llu", data.size,
                                 (unsigned long long)session->inline_left);
    }
    session->inline_left -= data.size;
    return sink_of(session)->data(session->upload, data);
}

static struct baton_status take_entry(struct session *session, const struct local_entry *entry)
{
    if (session->inline_left > 0) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_TRUNCATED,
                                 "'%.160s' came before the entry in front of it was whole",
                                 entry->name);
    }
    session->inline_left = entry->is_inline ? entry->bytes : 0;
    return sink_of(session)->entry(session->upload, entry);
}

/* A message inside an upload; false if it does not belong there. */
static bool on_upload_message(struct session *session, const struct local_message *message)
{
    struct baton_status st;
    if (message->kind == LOCAL_KIND_SEGMENT) {
        st = take_segment(session, &message->as.segment);
    } else if (message->kind == LOCAL_KIND_TENSOR || message->kind == LOCAL_KIND_FILE) {
        st = take_entry(session, &message->as.entry);
    } else if (message->kind == LOCAL_KIND_DATA) {
        st = take_data(session, message->as.data);
    } else if (message->kind == LOCAL_KIND_COMMIT) {
        on_commit(session);
        return true;
    } else {
        return false;
    }
    if (!baton_ok(&st)) {
        refuse_upload(session, &st);
    }
    return true;
}

static bool on_discarded_message(struct session *session, enum local_kind kind)
{
    if (kind == LOCAL_KIND_COMMIT) {
        session->state = SESSION_STATE_IDLE;
        return true;
    }
    return kind == LOCAL_KIND_SEGMENT || kind == LOCAL_KIND_TENSOR || kind == LOCAL_KIND_FILE ||
           kind == LOCAL_KIND_DATA;
}

/* --- questions --- */

static void on_ask_info(struct session *session)
{
    struct local_message answer = { .kind = LOCAL_KIND_INFO };
    const struct local_sink *sink = sink_of(session);
    if (sink->info != NULL) {
        sink->info(sink->context, &answer.as.info);
    } else {
        (void)baton_text_copy(answer.as.info.agent, sizeof(answer.as.info.agent),
                              session->context->options->agent);
        (void)baton_text_copy(answer.as.info.software, sizeof(answer.as.info.software),
                              BATON_VERSION);
    }
    send_answer(session, &answer);
}

static void say(void *listener, const char *line)
{
    struct local_message answer = { .kind = LOCAL_KIND_OPERATED };
    (void)snprintf(answer.as.operated.text, sizeof(answer.as.operated.text), "%s", line);
    send_answer(listener, &answer);
}

/* Who is at the other end, by the kernel's word; break-glass is for the agent's own user and root. */
static struct baton_status check_operator(const struct session *session, char *by, size_t by_bytes)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);
    if (getsockopt(session->channel.fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
        return baton_status_errno(errno, "getsockopt", "SO_PEERCRED");
    }
    (void)snprintf(by, by_bytes, "uid %ld (pid %ld)", (long)peer.uid, (long)peer.pid);
    if (peer.uid != 0 && peer.uid != geteuid()) {
        struct baton_status st =
            baton_status_make(BATON_PERMISSION_DENIED, BATON_REASON_NONE,
                              "break-glass is for root and the agent's own user (uid %ld); this is "
                              "uid %ld",
                              (long)geteuid(), (long)peer.uid);
        return baton_status_hint(st, "sudo batonctl --agent unix:... status");
    }
    return baton_status_ok();
}

static void on_operate(struct session *session, const struct local_operate *request)
{
    char by[BATON_NAME_BYTES];
    struct local_result result = { 0 };
    const struct local_sink *sink = sink_of(session);
    struct baton_status st = check_operator(session, by, sizeof(by));
    if (baton_ok(&st) && sink->operate == NULL) {
        st = baton_status_make(BATON_UNIMPLEMENTED, BATON_REASON_NONE,
                               "this agent takes no break-glass");
    }
    if (baton_ok(&st)) {
        st = sink->operate(sink->operator_context, request, by, say, session);
    }
    send_result(session, &st, &result);
}

static bool on_idle_message(struct session *session, const struct local_message *message)
{
    if (message->kind == LOCAL_KIND_PING) {
        struct local_message pong = { .kind = LOCAL_KIND_PONG };
        pong.as.token = message->as.token;
        send_answer(session, &pong);
    } else if (message->kind == LOCAL_KIND_ASK_INFO) {
        on_ask_info(session);
    } else if (message->kind == LOCAL_KIND_OPERATE) {
        on_operate(session, &message->as.operate);
    } else if (message->kind == LOCAL_KIND_PUBLISH_DIRECTORY) {
        on_directory(session, &message->as.publish);
    } else if (message->kind == LOCAL_KIND_PUBLISH_BEGIN) {
        on_begin(session, &message->as.publish);
    } else {
        return false;
    }
    return true;
}

static bool dispatch(struct session *session, const struct local_message *message)
{
    if (message->kind == LOCAL_KIND_CANCEL) {
        on_cancel(session);
        return true;
    }
    switch (session->state) {
    case SESSION_STATE_IDLE: return on_idle_message(session, message);
    case SESSION_STATE_UPLOAD: return on_upload_message(session, message);
    case SESSION_STATE_DISCARD: return on_discarded_message(session, message->kind);
    case SESSION_STATE_END: return false;
    }
    return false;
}

/* --- the life of a session --- */

static void break_off(struct session *session, const struct baton_status *st)
{
    baton_log_status(BATON_LOG_WARN, module, "local client dropped", st);
    send_failure(session, st);
    session->state = SESSION_STATE_END;
}

/* Receives the next message; false if there is none to come. */
static bool next_message(struct session *session, struct local_message *out)
{
    uint64_t now_ns = baton_clock_monotonic_ns();
    bool is_idle = session->state == SESSION_STATE_IDLE;
    uint64_t until_ns = is_idle ? UINT64_MAX : now_ns + session->context->options->idle_ns;
    enum local_wait came =
        local_channel_wait(&session->channel, session->context->stop_fd, until_ns);
    struct baton_status st;
    if (came == LOCAL_WAIT_READABLE) {
        st = local_channel_receive(&session->channel, out, baton_clock_monotonic_ns() + message_ns);
        if (st.code == BATON_UNAVAILABLE) {
            return false; /* It hung up, which is its right. */
        }
    } else if (came == LOCAL_WAIT_WOKEN) {
        st = baton_status_make(BATON_UNAVAILABLE, BATON_REASON_SHUTTING_DOWN,
                               "the agent shuts down");
    } else {
        st = baton_status_make(BATON_DEADLINE_EXCEEDED, BATON_REASON_IO,
                               "a publish heard nothing from its client for too long");
    }
    if (!baton_ok(&st)) {
        break_off(session, &st);
        return false;
    }
    return true;
}

static struct baton_status check_hello(const struct local_message *message)
{
    if (message->kind != LOCAL_KIND_HELLO) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "the first message is %s, not HELLO",
                                 local_kind_name(message->kind));
    }
    const struct local_hello *hello = &message->as.hello;
    if (hello->version_min > LOCAL_VERSION || hello->version_max < LOCAL_VERSION) {
        struct baton_status st = baton_status_make(
            BATON_UNIMPLEMENTED, BATON_REASON_INCOMPATIBLE,
            "the client speaks versions %u to %u of the local protocol, this agent %d",
            hello->version_min, hello->version_max, LOCAL_VERSION);
        return baton_status_hint(st, "Use libbaton and baton-agent of the same release");
    }
    return baton_status_ok();
}

static bool shake_hands(struct session *session, bool is_refused)
{
    struct local_message message;
    if (local_channel_wait(&session->channel, session->context->stop_fd,
                           baton_clock_monotonic_ns() + message_ns) != LOCAL_WAIT_READABLE) {
        return false;
    }
    struct baton_status st =
        local_channel_receive(&session->channel, &message, baton_clock_monotonic_ns() + message_ns);
    if (st.code == BATON_UNAVAILABLE) {
        return false; /* A look whether somebody listens. */
    }
    if (baton_ok(&st)) {
        st = check_hello(&message);
    }
    if (baton_ok(&st) && is_refused) {
        st = baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                               "the agent serves %u local connections, its limit",
                               session->context->options->connections_max);
    }
    if (!baton_ok(&st)) {
        break_off(session, &st);
        return false;
    }
    memcpy(session->client, message.as.hello.client, sizeof(session->client));
    struct local_message welcome = { .kind = LOCAL_KIND_WELCOME };
    welcome.as.welcome.version = LOCAL_VERSION;
    welcome.as.welcome.takes_segments = true;
    (void)baton_text_copy(welcome.as.welcome.agent, sizeof(welcome.as.welcome.agent),
                          session->context->options->agent);
    (void)baton_text_copy(welcome.as.welcome.software, sizeof(welcome.as.welcome.software),
                          BATON_VERSION);
    send_answer(session, &welcome);
    return !session->is_gone;
}

static void serve(struct session *session)
{
    struct local_message message;
    while (session->state != SESSION_STATE_END && !session->is_gone &&
           next_message(session, &message)) {
        enum local_kind kind = message.kind;
        if (!dispatch(session, &message)) {
            struct baton_status st =
                baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                  "%s does not belong here", local_kind_name(kind));
            break_off(session, &st);
        }
    }
}

void local_session_run(const struct local_session_context *context, int fd, bool is_refused)
{
    struct session session = { .context = context, .state = SESSION_STATE_IDLE };
    struct baton_status st = local_channel_init(&session.channel, fd);
    if (!baton_ok(&st)) {
        baton_log_status(BATON_LOG_WARN, module, "cannot serve a local client", &st);
        return;
    }
    if (shake_hands(&session, is_refused)) {
        serve(&session);
    }
    drop_upload(&session);
    local_channel_deinit(&session.channel, true);
}
