/* publish.c -- the sending half of a publish: what baton.h says about directories, tensors, files. */
#include "api/client/publish.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/base/clock.h"
#include "api/base/random.h"

static const uint64_t timeout_default_ms = UINT64_C(60) * 60 * 1000;
/* How long the answer to the cancel of an abandoned publish may take. */
static const uint64_t end_ms = 10 * 1000;

/* --- options --- */

static struct baton_status bad_option(const char *field, const char *what)
{
    return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD, "%s: %s", field, what);
}

/* Copies optional text into a field of the protocol. */
static struct baton_status copy_text(const char *field, const char *text, char *out,
                                     size_t out_bytes)
{
    out[0] = '\0';
    if (text == NULL) {
        return baton_status_ok();
    }
    if (!local_text_is_valid(baton_bytes_of(text))) {
        return bad_option(field, "is not UTF-8 text without control characters");
    }
    if (!baton_text_copy(out, out_bytes, text)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_LIMIT,
                                 "%s: %zu bytes, at most %zu are allowed", field, strlen(text),
                                 out_bytes - 1);
    }
    return baton_status_ok();
}

static bool is_model_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < BATON_NAME_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-.") == length;
}

static struct baton_status fill_request_id(const char *given, struct local_publish *out)
{
    if (given != NULL && given[0] != '\0') {
        return copy_text("request_id", given, out->request_id, sizeof(out->request_id));
    }
    uint8_t random[BATON_UID_BYTES];
    baton_random_secure(random, sizeof(random));
    baton_hex_encode(random, sizeof(random), out->request_id);
    return baton_status_ok();
}

static struct baton_status fill_spec(const struct baton_publish_options *options,
                                     struct local_publish *out)
{
    if (options->model == NULL || !is_model_name(options->model)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "model: '%.64s' is no name: 1 to 63 of a-z, 0-9, '-' and '.'",
                                 options->model == NULL ? "" : options->model);
    }
    memset(out, 0, sizeof(*out));
    struct baton_status st = copy_text("model", options->model, out->model, sizeof(out->model));
    if (baton_ok(&st)) {
        st = fill_request_id(options->request_id, out);
    }
    if (baton_ok(&st)) {
        st = copy_text("reason", options->reason, out->reason, sizeof(out->reason));
    }
    out->optimizer_step = options->optimizer_step;
    out->rollout_iteration = options->rollout_iteration;
    out->samples_trained = options->samples_trained;
    out->parent_seq = options->parent_seq;
    out->bytes_expected = options->bytes_expected;
    out->partial = options->partial != 0;
    connection_describe_caller(out->requested_by, sizeof(out->requested_by));
    return st;
}

/* The agent has another working directory: a relative path is made absolute here. */
static struct baton_status fill_directory(const char *directory, struct local_publish *out)
{
    if (directory == NULL || directory[0] == '\0') {
        return bad_option("directory", "no path was given");
    }
    if (directory[0] == '/') {
        return copy_text("directory", directory, out->directory, sizeof(out->directory));
    }
    char *absolute = realpath(directory, NULL);
    if (absolute == NULL) {
        return baton_status_errno(errno, "open", directory);
    }
    struct baton_status st =
        copy_text("directory", absolute, out->directory, sizeof(out->directory));
    free(absolute);
    return st;
}

/* Options of any size that a caller may have been compiled with. */
static struct baton_status read_options(const struct baton_publish_options *given,
                                        struct baton_publish_options *out)
{
    if (given == NULL || given->size < offsetof(struct baton_publish_options, optimizer_step)) {
        return bad_option("options", "not initialised with BATON_PUBLISH_OPTIONS_INIT");
    }
    memset(out, 0, sizeof(*out));
    memcpy(out, given, given->size < sizeof(*out) ? given->size : sizeof(*out));
    return baton_status_ok();
}

static void apply_options(struct baton_publish *publish, struct baton_agent *agent,
                          const struct baton_publish_options *options)
{
    publish->agent = agent;
    publish->snapshot.fd = -1;
    publish->is_inline = options->inline_bytes != 0 || !agent->welcome.takes_segments;
    publish->progress = options->progress;
    publish->context = options->context;
    publish->started_ns = baton_clock_monotonic_ns();
    publish->deadline_ns =
        connection_deadline_ns(options->timeout_ms != 0 ? options->timeout_ms : timeout_default_ms);
    publish->last.phase = BATON_PHASE_QUEUED;
    publish->last.bytes_total = options->bytes_expected;
}

static struct baton_status publish_init(struct baton_publish *publish, struct baton_agent *agent,
                                        const struct baton_publish_options *given)
{
    struct baton_status st = connection_check(agent);
    if (baton_ok(&st) && agent->publish != NULL) {
        st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_IN_USE,
                               "a publish is under way on this connection");
    }
    struct baton_publish_options options;
    if (baton_ok(&st)) {
        st = read_options(given, &options);
    }
    if (baton_ok(&st)) {
        st = fill_spec(&options, &publish->spec.as.publish);
    }
    if (baton_ok(&st)) {
        apply_options(publish, agent, &options);
    }
    return st;
}

static struct baton_status send_message(struct baton_publish *publish,
                                        const struct local_message *message)
{
    struct baton_status st =
        local_channel_send(&publish->agent->channel, message, -1, publish->deadline_ns);
    if (!baton_ok(&st)) {
        publish->state = PUBLISH_STATE_BROKEN;
    }
    return st;
}

/* --- directories --- */

static struct baton_status start_directory(struct baton_publish *publish, const char *directory)
{
    publish->spec.kind = LOCAL_KIND_PUBLISH_DIRECTORY;
    struct baton_status st = fill_directory(directory, &publish->spec.as.publish);
    if (!baton_ok(&st)) {
        return st;
    }
    publish->state = PUBLISH_STATE_SENT;
    return send_message(publish, &publish->spec);
}

/* Makes the handle and takes the connection; null and a failure otherwise. */
static struct baton_status create(struct baton_agent *agent,
                                  const struct baton_publish_options *options,
                                  struct baton_publish **out)
{
    struct baton_publish *publish = calloc(1, sizeof(*publish));
    if (publish == NULL) {
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "no memory for a publish");
    }
    struct baton_status st = publish_init(publish, agent, options);
    if (!baton_ok(&st)) {
        free(publish);
        return st;
    }
    agent->publish = publish;
    *out = publish;
    return st;
}

/* Gives up a handle that never said anything to the agent. */
static void discard(struct baton_publish *publish)
{
    publish->agent->publish = NULL;
    free(publish);
}

int baton_publish_directory_start(struct baton_agent *agent,
                                  const struct baton_publish_options *options,
                                  const char *directory, struct baton_publish **out,
                                  struct baton_error *error)
{
    struct baton_publish *publish = NULL;
    struct baton_status st = create(agent, options, &publish);
    if (baton_ok(&st)) {
        st = start_directory(publish, directory);
        if (!baton_ok(&st)) {
            discard(publish);
        }
    }
    if (baton_ok(&st)) {
        *out = publish;
    }
    return connection_error(&st, error);
}

int baton_publish_directory(struct baton_agent *agent, const struct baton_publish_options *options,
                            const char *directory, struct baton_published *out,
                            struct baton_error *error)
{
    struct baton_publish *publish = NULL;
    int code = baton_publish_directory_start(agent, options, directory, &publish, error);
    if (code == 0) {
        code = baton_publish_wait(publish, 0, out, error);
        baton_publish_end(publish);
    }
    return code;
}

/* --- tensors --- */

static struct baton_status begin(struct baton_publish *publish)
{
    publish->spec.kind = LOCAL_KIND_PUBLISH_BEGIN;
    struct baton_status st = send_message(publish, &publish->spec);
    if (baton_ok(&st)) {
        st = publish_await(publish, true, publish->deadline_ns);
    }
    if (baton_ok(&st) && !publish->is_inline) {
        st = snapshot_init(&publish->snapshot);
        if (st.code == BATON_UNIMPLEMENTED) {
            publish->is_inline = true;
            st = baton_status_ok();
        }
    }
    publish->last.phase = BATON_PHASE_SENDING;
    publish->last.bytes_done = 0;
    publish->last.bytes_total = publish->spec.as.publish.bytes_expected;
    return st;
}

int baton_publish_begin(struct baton_agent *agent, const struct baton_publish_options *options,
                        struct baton_publish **out, struct baton_error *error)
{
    struct baton_publish *publish = NULL;
    struct baton_status st = create(agent, options, &publish);
    if (!baton_ok(&st)) {
        return connection_error(&st, error);
    }
    st = begin(publish);
    if (!baton_ok(&st)) {
        baton_publish_end(publish);
        return connection_error(&st, error);
    }
    *out = publish;
    return connection_error(&st, error);
}

/* OK if entries may be added now. */
static struct baton_status check_open(struct baton_publish *publish)
{
    if (publish == NULL || publish->agent == NULL) {
        return bad_option("publish", "it has ended or its connection was closed");
    }
    struct baton_status st = connection_check(publish->agent);
    if (baton_ok(&st) && publish->state != PUBLISH_STATE_OPEN) {
        st = publish->has_result ? local_result_status(&publish->result) : baton_status_ok();
        if (baton_ok(&st)) {
            st = baton_status_make(BATON_FAILED_PRECONDITION, BATON_REASON_BAD_FIELD,
                                   "the publish was sent, cancelled or broke already");
        }
    }
    return baton_ok(&st) ? publish_poll(publish) : st;
}

static struct baton_status send_inline(struct baton_publish *publish, struct local_message *entry,
                                       const uint8_t *data)
{
    entry->as.entry.is_inline = true;
    uint64_t bytes = entry->as.entry.bytes;
    struct baton_status st = send_message(publish, entry);
    for (uint64_t at = 0; baton_ok(&st) && at < bytes;) {
        uint64_t left = bytes - at;
        size_t now = left < LOCAL_DATA_BYTES_MAX ? (size_t)left : LOCAL_DATA_BYTES_MAX;
        struct local_message part = { .kind = LOCAL_KIND_DATA };
        part.as.data = (struct baton_bytes){ data + at, now };
        st = send_message(publish, &part);
        at += now;
    }
    return st;
}

static void count_sent(struct baton_publish *publish, const struct local_entry *entry)
{
    publish->last.bytes_done += entry->bytes;
    uint64_t elapsed_ns = baton_clock_monotonic_ns() - publish->started_ns;
    double seconds = (double)elapsed_ns / (double)BATON_NS_PER_S;
    if (seconds > 0.0) {
        publish->last.bytes_per_s = (uint64_t)((double)publish->last.bytes_done / seconds);
    }
    memcpy(publish->last.detail, entry->name, sizeof(publish->last.detail));
}

/* Hands over one entry; a failure in the middle of one breaks the conversation. */
static struct baton_status add_entry(struct baton_publish *publish, struct local_message *entry,
                                     const void *data)
{
    struct baton_status st = publish->is_inline
                                 ? send_inline(publish, entry, data)
                                 : snapshot_add(&publish->snapshot, entry, data,
                                                &publish->agent->channel, publish->deadline_ns);
    if (!baton_ok(&st)) {
        return baton_status_in(st, "'%.160s'", entry->as.entry.name);
    }
    count_sent(publish, &entry->as.entry);
    return publish_report(publish);
}

static struct baton_status fill_tensor(const struct baton_tensor *tensor, struct local_entry *out)
{
    if (tensor == NULL || tensor->size < sizeof(*tensor) || tensor->name == NULL ||
        tensor->name[0] == '\0' || tensor->dtype == NULL || tensor->dtype[0] == '\0') {
        return bad_option("tensor", "size, name and dtype are required");
    }
    if (tensor->rank > BATON_TENSOR_RANK_MAX || (tensor->rank > 0 && tensor->shape == NULL)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "tensor '%.160s': shape: %u dimensions, at most %d are allowed",
                                 tensor->name, tensor->rank, BATON_TENSOR_RANK_MAX);
    }
    if (tensor->bytes > 0 && tensor->data == NULL) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_BAD_FIELD,
                                 "tensor '%.160s': data is null", tensor->name);
    }
    struct baton_status st = copy_text("tensor name", tensor->name, out->name, sizeof(out->name));
    if (baton_ok(&st)) {
        st = copy_text("tensor dtype", tensor->dtype, out->dtype, sizeof(out->dtype));
    }
    out->rank = tensor->rank;
    out->bytes = tensor->bytes;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        out->dims[i] = tensor->shape[i];
    }
    return st;
}

int baton_publish_tensor(struct baton_publish *publish, const struct baton_tensor *tensor,
                         struct baton_error *error)
{
    struct local_message entry = { .kind = LOCAL_KIND_TENSOR };
    struct baton_status st = check_open(publish);
    if (baton_ok(&st)) {
        st = fill_tensor(tensor, &entry.as.entry);
    }
    if (baton_ok(&st)) {
        st = add_entry(publish, &entry, tensor->data);
    }
    return connection_error(&st, error);
}

int baton_publish_file(struct baton_publish *publish, const char *name, const void *data,
                       uint64_t bytes, struct baton_error *error)
{
    struct local_message entry = { .kind = LOCAL_KIND_FILE };
    struct baton_status st = check_open(publish);
    if (baton_ok(&st) && (name == NULL || name[0] == '\0' || (data == NULL && bytes > 0))) {
        st = bad_option("file", "name and data are required");
    }
    if (baton_ok(&st)) {
        st = copy_text("file name", name, entry.as.entry.name, sizeof(entry.as.entry.name));
    }
    if (baton_ok(&st)) {
        entry.as.entry.bytes = bytes;
        st = add_entry(publish, &entry, data);
    }
    return connection_error(&st, error);
}

/* --- the end --- */

int baton_publish_send(struct baton_publish *publish, struct baton_error *error)
{
    struct baton_status st = check_open(publish);
    if (baton_ok(&st) && !publish->is_inline) {
        st = snapshot_flush(&publish->snapshot, &publish->agent->channel, publish->deadline_ns);
    }
    if (baton_ok(&st)) {
        struct local_message commit = { .kind = LOCAL_KIND_COMMIT };
        publish->state = PUBLISH_STATE_SENT;
        st = send_message(publish, &commit);
    }
    return connection_error(&st, error);
}

static struct baton_status await_result(struct baton_publish *publish, uint64_t timeout_ms)
{
    if (publish == NULL || (publish->agent == NULL && !publish->has_result)) {
        return bad_option("publish", "it has ended or its connection was closed");
    }
    if (publish->has_result) {
        return local_result_status(&publish->result);
    }
    struct baton_status st = connection_check(publish->agent);
    if (baton_ok(&st) && publish->state == PUBLISH_STATE_OPEN) {
        st = bad_option("publish", "it was not sent yet");
    }
    if (!baton_ok(&st)) {
        return st;
    }
    uint64_t until_ns = timeout_ms == 0 ? publish->deadline_ns : connection_deadline_ns(timeout_ms);
    st = publish_await(publish, false, until_ns);
    if (st.code == BATON_DEADLINE_EXCEEDED && !publish->has_result) {
        st = baton_status_hint(st, "The agent goes on; wait again, or ask with request id %s",
                               publish->spec.as.publish.request_id);
    }
    return st;
}

int baton_publish_wait(struct baton_publish *publish, uint64_t timeout_ms,
                       struct baton_published *out, struct baton_error *error)
{
    struct baton_status st = await_result(publish, timeout_ms);
    if (baton_ok(&st) && out != NULL) {
        connection_fill_published(out, &publish->result);
    }
    return connection_error(&st, error);
}

int baton_publish_commit(struct baton_publish *publish, struct baton_published *out,
                         struct baton_error *error)
{
    int code = baton_publish_send(publish, error);
    return code != 0 ? code : baton_publish_wait(publish, 0, out, error);
}

int baton_publish_cancel(struct baton_publish *publish, struct baton_error *error)
{
    struct baton_status st = baton_status_ok();
    if (publish == NULL || publish->agent == NULL) {
        st = bad_option("publish", "it has ended or its connection was closed");
    } else {
        st = connection_check(publish->agent);
    }
    if (baton_ok(&st) && publish->state != PUBLISH_STATE_BROKEN) {
        st = publish_send_cancel(publish);
    }
    return connection_error(&st, error);
}

/* Brings the conversation to a point at which the next question may be asked; else breaks it off. */
static void settle(struct baton_publish *publish)
{
    struct local_channel *channel = &publish->agent->channel;
    if (publish->state == PUBLISH_STATE_OPEN) {
        struct baton_status st = publish_send_cancel(publish);
        channel->is_broken = channel->is_broken || !baton_ok(&st);
    } else if (publish->cancelled_ns == 0 && !publish->has_result) {
        channel->is_broken = true; /* Sent and not waited for: its answer would come to the next. */
    }
    if (!channel->is_broken && !publish->has_result) {
        publish->progress = NULL;
        struct baton_status st = publish_await(publish, false, connection_deadline_ns(end_ms));
        channel->is_broken = channel->is_broken || (!baton_ok(&st) && !publish->has_result);
    }
}

void baton_publish_end(struct baton_publish *publish)
{
    if (publish == NULL) {
        return;
    }
    if (publish->agent != NULL) {
        if (publish->agent->owner == getpid()) {
            settle(publish);
        }
        publish->agent->publish = NULL;
    }
    snapshot_deinit(&publish->snapshot);
    free(publish);
}

const char *baton_publish_request_id(const struct baton_publish *publish)
{
    return publish->spec.as.publish.request_id;
}

void baton_close(struct baton_agent *agent)
{
    if (agent == NULL) {
        return;
    }
    if (agent->publish != NULL) {
        agent->publish->agent = NULL;
    }
    /* A child that inherited the connection leaves it working for its parent. */
    local_channel_deinit(&agent->channel, agent->owner == getpid());
    free(agent);
}
