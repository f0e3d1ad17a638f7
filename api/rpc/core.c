/* core.c -- see core.h. */
#include "api/rpc/core.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>

#include "api/base/clock.h"
#include "api/base/log.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RPC_HAS_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(RPC_HAS_TSAN)
#include <sanitizer/tsan_interface.h>
#define TSAN_RELEASE(address) __tsan_release(address)
#define TSAN_ACQUIRE(address) __tsan_acquire(address)
#else
#define TSAN_RELEASE(address) ((void)(address))
#define TSAN_ACQUIRE(address) ((void)(address))
#endif

static _Thread_local bool is_loop_thread;
static _Thread_local bool is_hushed_thread;

/* --- the core's life --- */

static void log_line(gpr_log_func_args *args)
{
    if (is_hushed_thread) {
        return;
    }
    enum baton_log_level level =
        args->severity == GPR_LOG_SEVERITY_ERROR ? BATON_LOG_WARN : BATON_LOG_DEBUG;
    baton_log(level, "grpc", "%s", args->message);
}

void rpc_core_hush(bool is_hushed)
{
    is_hushed_thread = is_hushed;
}

/* Runs 'start' while all signals are blocked, so that the threads it makes never take one. */
static void without_signals(void (*start)(void *), void *argument)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    start(argument);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void start_core(void *unused)
{
    (void)unused;
    grpc_init();
}

void rpc_core_acquire(void)
{
    gpr_set_log_function(log_line);
    without_signals(start_core, NULL);
}

void rpc_core_release(void)
{
    grpc_shutdown();
}

/* --- loop --- */

void rpc_loop_init(struct rpc_loop *loop)
{
    *loop = (struct rpc_loop){ .queue = grpc_completion_queue_create_for_next(NULL) };
}

static void *run_loop(void *argument)
{
    struct rpc_loop *loop = argument;
    is_loop_thread = true;
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(loop->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        if (event.type == GRPC_OP_COMPLETE) {
            struct rpc_tag *tag = event.tag;
            TSAN_ACQUIRE(tag);
            tag->run(tag, event.success != 0);
        }
    }
}

struct start {
    struct rpc_loop *loop;
    int error;
};

static void start_thread(void *argument)
{
    struct start *start = argument;
    start->error = pthread_create(&start->loop->thread, NULL, run_loop, start->loop);
}

void rpc_loop_start(struct rpc_loop *loop, const char *name)
{
    struct start start = { .loop = loop };
    without_signals(start_thread, &start);
    baton_assert(start.error == 0);
    loop->has_thread = true;
    (void)pthread_setname_np(loop->thread, name);
}

void rpc_loop_deinit(struct rpc_loop *loop)
{
    if (loop->queue == NULL) {
        return;
    }
    grpc_completion_queue_shutdown(loop->queue);
    if (loop->has_thread) {
        (void)pthread_join(loop->thread, NULL);
    } else {
        (void)run_loop(loop); /* Never started: take what is left ourselves. */
        is_loop_thread = false;
    }
    grpc_completion_queue_destroy(loop->queue);
    loop->queue = NULL;
}

bool rpc_is_loop_thread(void)
{
    return is_loop_thread;
}

void rpc_tag_released(struct rpc_tag *tag)
{
    TSAN_RELEASE(tag);
}

void rpc_batch(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_tag *tag)
{
    TSAN_RELEASE(tag);
    grpc_call_error error = grpc_call_start_batch(call, ops, count, tag, NULL);
    baton_assert(error == GRPC_CALL_OK);
}

/* --- time --- */

gpr_timespec rpc_time(uint64_t monotonic_ns)
{
    if (monotonic_ns >= INT64_MAX) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return (gpr_timespec){
        .tv_sec = (int64_t)(monotonic_ns / BATON_NS_PER_S),
        .tv_nsec = (int32_t)(monotonic_ns % BATON_NS_PER_S),
        .clock_type = GPR_CLOCK_MONOTONIC,
    };
}

uint64_t rpc_time_ns(gpr_timespec time)
{
    gpr_timespec monotonic = gpr_convert_clock_type(time, GPR_CLOCK_MONOTONIC);
    if (monotonic.tv_sec >= INT64_MAX / (int64_t)BATON_NS_PER_S) {
        return UINT64_MAX;
    }
    if (monotonic.tv_sec < 0) {
        return 0;
    }
    return (uint64_t)monotonic.tv_sec * BATON_NS_PER_S + (uint64_t)monotonic.tv_nsec;
}

uint64_t rpc_deadline_after(uint64_t timeout_ns)
{
    uint64_t now = baton_clock_monotonic_ns();
    return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

/* --- bytes --- */

grpc_byte_buffer *rpc_buffer_of(const void *message)
{
    grpc_slice slice = grpc_slice_malloc(baton_wire_size(message));
    size_t size = baton_wire_encode(message, GRPC_SLICE_START_PTR(slice));
    baton_assert(size == GRPC_SLICE_LENGTH(slice));
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

struct baton_status rpc_buffer_decode(grpc_byte_buffer *buffer,
                                      const ProtobufCMessageDescriptor *type, size_t bytes_max,
                                      ProtobufCMessage **out)
{
    struct baton_wire_limits limits = baton_wire_limits_default();
    limits.bytes_max = bytes_max;
    limits.memory_max = bytes_max * 16;
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, buffer)) {
        return baton_status_make(BATON_INVALID_ARGUMENT, BATON_REASON_MALFORMED,
                                 "%s: the compressed bytes do not unpack", type->name);
    }
    grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
    struct baton_bytes bytes = { GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice) };
    struct baton_status st = baton_wire_decode(type, bytes, &limits, out);
    grpc_slice_unref(slice);
    grpc_byte_buffer_reader_destroy(&reader);
    return st;
}

bool rpc_slice_is(grpc_slice slice, const char *text)
{
    size_t length = strlen(text);
    return GRPC_SLICE_LENGTH(slice) == length &&
           memcmp(GRPC_SLICE_START_PTR(slice), text, length) == 0;
}

void rpc_slice_text(grpc_slice slice, char *out, size_t out_bytes)
{
    size_t length = GRPC_SLICE_LENGTH(slice);
    length = length < out_bytes ? length : out_bytes - 1;
    memcpy(out, GRPC_SLICE_START_PTR(slice), length);
    out[length] = '\0';
}

/* --- arguments --- */

grpc_arg rpc_arg(const char *key, int value)
{
    /* The core copies the key; its type only lacks the const. */
    return (grpc_arg){
        .type = GRPC_ARG_INTEGER,
        .key = (char *)(uintptr_t)key,
        .value.integer = value,
    };
}

int rpc_ms(uint64_t ns, uint64_t fallback_ns)
{
    uint64_t ms = (ns == 0 ? fallback_ns : ns) / BATON_NS_PER_MS;
    return ms == 0 ? 1 : ms > INT_MAX ? INT_MAX : (int)ms;
}
