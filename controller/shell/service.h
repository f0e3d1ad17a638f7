/* service.h -- what the services' handlers share: options, pages, missing objects, watches.
 *
 * Depends on: daemon.h.  Threads: the loop's unless said otherwise.  Ownership: stated per function. */
#ifndef CONTROLLER_SHELL_SERVICE_H
#define CONTROLLER_SHELL_SERVICE_H

#include "baton/v1/agent_session.pb-c.h"
#include "baton/v1/common.pb-c.h"
#include "controller/core/event.h"
#include "controller/shell/daemon.h"
#include "controller/shell/render.h"
#include "controller/shell/watch.h"

/* Defines a handler (RPC thread) that posts 'work' (loop thread): work(daemon, call, request).  The work has a
 * reference of the call, which it gives up or hands on. */
#define SERVICE_HANDLER(name, type)                                                                \
    static void name##_work(struct daemon *daemon, struct rpc_call *call, const type *request);    \
    static void name##_posted(void *target, void *argument)                                        \
    {                                                                                              \
        struct rpc_call *call = argument;                                                          \
        if (daemon_is_ready(target, call)) {                                                       \
            name##_work(target, call, rpc_call_request(call));                                     \
            daemon_answered(target);                                                               \
        } else {                                                                                   \
            rpc_call_unref(call);                                                                  \
        }                                                                                          \
    }                                                                                              \
    void name(struct rpc_call *call, const void *request, void *context)                           \
    {                                                                                              \
        (void)request;                                                                             \
        daemon_post(context, call, name##_posted);                                                 \
    }

/* The same for a call that may wait or stream: its end is told to the loop, by 'ended'. */
#define SERVICE_STREAM_HANDLER(name, type)                                                         \
    static void name##_work(struct daemon *daemon, struct rpc_call *call, const type *request);    \
    static void name##_posted(void *target, void *argument)                                        \
    {                                                                                              \
        struct rpc_call *call = argument;                                                          \
        if (rpc_call_is_cancelled(call)) {                                                         \
            rpc_call_unref(call);                                                                  \
        } else if (daemon_is_ready(target, call)) {                                                \
            name##_work(target, call, rpc_call_request(call));                                     \
        } else {                                                                                   \
            rpc_call_unref(call);                                                                  \
        }                                                                                          \
    }                                                                                              \
    void name(struct rpc_call *call, const void *request, void *context)                           \
    {                                                                                              \
        (void)request;                                                                             \
        rpc_call_receive(call, &service_end_receiver, context);                                    \
        daemon_post(context, call, name##_posted);                                                 \
    }

/* Tells the loop of a call's end: forgets its watch, cancels its wait. */
extern const struct rpc_receiver service_end_receiver;

/* Replies with a message, frees it and gives the call up. */
void service_reply(struct rpc_call *call, void *message);
/* Finishes with a failure and gives the call up. */
void service_fail(struct rpc_call *call, struct baton_status status);
/* NOT_FOUND, with the command that lists what there is. */
void service_not_found(struct rpc_call *call, const char *kind, const char *name);

/* A mutation's options, with the caller's name: the certificate's where there is one. */
struct request_options service_options(struct rpc_call *call,
                                       const Baton__V1__MutationOptions *options,
                                       struct rpc_peer *peer);

/* Starts the mutation 'request' of a call; its answer is the object. */
void service_mutate(struct daemon *daemon, struct rpc_call *call,
                    const Baton__V1__MutationOptions *options, struct request *request);

/* The server's authorize hook (RPC threads): has the caller a role that may call this RPC? */
struct baton_status service_authorize(struct rpc_call *call, void *context);
/* The server's other hooks: whether the caller has calls and streams left (rates.h), and its call's end. */
struct baton_status service_admit(struct rpc_call *call, void *context,
                                  struct rpc_error_details *details);
/* Of a connection that came to nothing; from threads of the core. */
void service_refused(const struct rpc_refused *refused, void *context);
void service_ended(struct rpc_call *call, enum baton_code code, void *context);
/* May the caller change what the request is about?  False: the call was refused and given up. */
bool service_may_change(struct daemon *daemon, struct rpc_call *call,
                        const struct request *request);
/* May the caller speak as this agent, and for these groups? */
struct baton_status service_check_agent(struct daemon *daemon, struct rpc_call *call,
                                        const char *agent, Baton__V1__GroupReport *const *groups,
                                        size_t count);
struct baton_status service_check_group(struct daemon *daemon, struct rpc_call *call,
                                        const char *agent, const char *group);

/* What the audit will say of a change; null if it is not audited.  The pending call's. */
struct audit_note *service_audit_begin(struct daemon *daemon, struct rpc_call *call,
                                       const struct request *request);
/* Writes it, once, before the call is answered. */
void service_audit_end(struct daemon *daemon, struct pending *pending,
                       const struct baton_status *status);
/* A refusal for want of rights, of calls left, or of a leader: of a change, and of anything else ('object' null: what the request names). */
void service_audit_refused_change(struct daemon *daemon, struct rpc_call *call,
                                  const struct request *request, const struct baton_status *status);
void service_audit_refused(struct daemon *daemon, struct rpc_call *call, const char *object,
                           const struct baton_status *status);

/* Names with commas between; cut where the core refuses it as too long anyway. */
void service_join_names(char *const *names, size_t count, char *out, size_t out_bytes);

/* Room for what a policy's lists point to. */
struct policy_room {
    struct check_spec checks[BATON_CHECKS_MAX];
    struct canary_spec steps[BATON_CANARY_STEPS_MAX];
};
/* The policy's keys about when and how versions roll; borrows from 'from' and 'room'. */
struct baton_status service_policy_read(const Baton__V1__UpdatePolicy *from,
                                        struct policy_room *room, struct roll_spec *out);

/* A page under way: full at the size that was asked for, or before its message grows too large. */
struct service_page {
    uint32_t items;
    uint32_t items_max;
    size_t bytes;
};
struct service_page service_page_begin(uint32_t asked);
/* Counts an item that was rendered; false: the page was full before it, and it belongs to the next. */
bool service_page_add(struct service_page *page, const void *message);

/* Page tokens are the last item's names, joined by '/': "m/7/uid".  Splits in place into at most
 * 'parts_max' parts; missing ones are empty. */
void service_token_split(char *token, const char *parts[], size_t parts_max);

#endif /* service.h */
