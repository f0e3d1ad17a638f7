/* service_access.c -- who may call what, asked where calls come in and where they reach the core; see access.h. */
#include <stdio.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/shell/access.h"
#include "controller/shell/service.h"

enum { AGENT_OBJECT_BYTES = 80 };

static struct baton_status hinted(struct baton_status st)
{
    return baton_status_hint(
        st,
        "access.tokens of the controller's file names the file of tokens, access.serviceAccounts "
        "whose tokens of Kubernetes count; deploy/docs/security.md");
}

static struct baton_status bad_token(const char *what)
{
    return hinted(baton_status_make(BATON_UNAUTHENTICATED, BATON_REASON_NOT_ALLOWED, "%s", what));
}

/* A token of the file, or else of a service account. */
static struct baton_status find_token(struct daemon *daemon, struct baton_bytes token,
                                      struct rpc_peer_name *out)
{
    if (daemon->tokens != NULL && rpc_tokens_find(daemon->tokens, token, out)) {
        return baton_status_ok();
    }
    if (daemon->accounts == NULL || memchr(token.data, '.', token.size) == NULL) {
        return bad_token("nobody has this token");
    }
    int64_t now_s = (int64_t)(baton_clock_wall_ns() / BATON_NS_PER_S);
    return hinted(rpc_accounts_find(daemon->accounts, token, now_s, out));
}

/* Whose token a caller without a certificate shows, if it shows one: who shows one is held to it. */
static struct baton_status read_token(struct daemon *daemon, struct rpc_call *call,
                                      struct rpc_peer *peer)
{
    static const char BEARER[] = "Bearer ";
    struct baton_bytes shown = rpc_call_metadata(call, "authorization");
    struct rpc_peer_name name;
    if (shown.data == NULL || peer->principal == RPC_PRINCIPAL_CERTIFICATE) {
        return baton_status_ok();
    }
    if (!peer->is_private) {
        return bad_token("a token came in the clear from another machine: it is not looked at, and "
                         "others may know it now");
    }
    if (shown.size < strlen(BEARER) || memcmp(shown.data, BEARER, strlen(BEARER)) != 0) {
        return bad_token("the metadata 'authorization' is not 'Bearer ' and a token");
    }
    struct baton_bytes token = { shown.data + strlen(BEARER), shown.size - strlen(BEARER) };
    struct baton_status st = find_token(daemon, token, &name);
    if (baton_ok(&st)) {
        rpc_call_set_token_name(call, &name);
        rpc_call_peer(call, peer);
    }
    return st;
}

struct baton_status service_admit(struct rpc_call *call, void *context,
                                  struct rpc_error_details *details)
{
    struct daemon *daemon = context;
    struct rpc_peer peer;
    uint32_t mark = 0;
    rpc_call_peer(call, &peer);
    struct baton_status st = read_token(daemon, call, &peer);
    if (!baton_ok(&st)) { /* Who guesses may not do so without end. */
        struct rates_call guess = { .identity = peer.identity,
                                    .now_ns = baton_clock_monotonic_ns() };
        struct baton_status limit =
            rates_take(daemon->rates, &guess, &mark, &details->retry_after_ns);
        st = baton_ok(&limit) ? st : limit;
        service_audit_refused(daemon, call, NULL, &st);
        return st;
    }
    const struct rule *rule = rules_find(rpc_call_method(call));
    struct rates_call asked = { .identity = peer.identity,
                                .roles = rule != NULL
                                             ? rule->roles & access_roles(&daemon->access, &peer)
                                             : 0,
                                .is_stream = rpc_call_is_stream(call),
                                .now_ns = baton_clock_monotonic_ns() };
    st = rates_take(daemon->rates, &asked, &mark, &details->retry_after_ns);
    rpc_call_set_mark(call, mark);
    if (!baton_ok(&st)) {
        service_audit_refused(daemon, call, NULL, &st);
    }
    return st;
}

void service_ended(struct rpc_call *call, enum baton_code code, void *context)
{
    struct daemon *daemon = context;
    uint64_t took_ns = rpc_call_is_stream(call) ? 0 : rpc_call_age_ns(call);
    stats_call_ended(daemon->stats, rpc_call_method(call), code, took_ns);
    rates_give_back(daemon->rates, rpc_call_mark(call));
}

struct baton_status service_authorize(struct rpc_call *call, void *context)
{
    struct daemon *daemon = context;
    struct rpc_peer peer;
    rpc_call_peer(call, &peer);
    struct baton_status st = access_check_call(&daemon->access, &peer, rpc_call_method(call));
    if (!baton_ok(&st)) {
        service_audit_refused(daemon, call, NULL, &st);
    }
    return st;
}

/* A question about one model of a request, answered as long as all answers were yes. */
struct asking {
    const struct daemon *daemon;
    const struct rpc_peer *peer;
    const char *method;
    bool asked;
    struct baton_status status;
};

static void ask_model(struct asking *asking, const char *model)
{
    asking->asked = true;
    if (baton_ok(&asking->status)) {
        asking->status =
            access_check_model(&asking->daemon->access, asking->peer, asking->method, model);
    }
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static void ask_groups(struct asking *asking, const struct request *request)
{
    const struct controller *core = asking->daemon->core;
    uint32_t count = view_groups_count(core);
    for (uint32_t i = 0; i < count; i++) {
        const struct group_record *group = view_group_at(core, i);
        if ((is_given(request->group) && strcmp(group->name, request->group) == 0) ||
            (is_given(request->agent) && strcmp(group->agent, request->agent) == 0)) {
            ask_model(asking, group->model);
        }
    }
}

/* All that the request names must be of models that the caller reaches, whichever the core then looks at. */
static void ask_all(struct asking *asking, const struct request *request)
{
    if (is_given(request->model)) {
        ask_model(asking, request->model);
    }
    if (is_given(request->version_uid)) {
        const struct version_record *version =
            view_version_find_uid(asking->daemon->core, request->version_uid);
        if (version != NULL) {
            ask_model(asking, version->model);
        }
    }
    if (is_given(request->group) || is_given(request->agent)) {
        ask_groups(asking, request);
    }
    if (!asking->asked) {
        ask_model(asking, NULL); /* Nothing that there is: the core says so, and changes nothing. */
    }
}

bool service_may_change(struct daemon *daemon, struct rpc_call *call, const struct request *request)
{
    const struct rule *rule = rules_find(rpc_call_method(call));
    struct rpc_peer peer;
    if (rule != NULL && !rule->by_model) {
        return true; /* The call itself was allowed. */
    }
    rpc_call_peer(call, &peer);
    struct asking asking = { daemon, &peer, rpc_call_method(call), false, baton_status_ok() };
    ask_all(&asking, request);
    if (!baton_ok(&asking.status)) {
        service_audit_refused_change(daemon, call, request, &asking.status);
        service_fail(call, asking.status);
        return false;
    }
    return true;
}

/* "agent/n7", or "group/g0" where the group is what it may not speak for. */
static void audit_agent(struct daemon *daemon, struct rpc_call *call, const char *agent,
                        const char *group, const struct baton_status *status)
{
    char object[AGENT_OBJECT_BYTES];
    (void)snprintf(object, sizeof(object), "%s/%.63s", group != NULL ? "group" : "agent",
                   group != NULL ? group : agent);
    service_audit_refused(daemon, call, object, status);
}

static struct baton_status check_group(struct daemon *daemon, struct rpc_call *call,
                                       const struct rpc_peer *peer, const char *agent,
                                       const char *group)
{
    struct baton_status st = access_check_agent(&daemon->access, peer, agent, group);
    if (!baton_ok(&st)) {
        audit_agent(daemon, call, agent, group, &st);
    }
    return st;
}

struct baton_status service_check_group(struct daemon *daemon, struct rpc_call *call,
                                        const char *agent, const char *group)
{
    struct rpc_peer peer;
    rpc_call_peer(call, &peer);
    return check_group(daemon, call, &peer, agent, group);
}

struct baton_status service_check_agent(struct daemon *daemon, struct rpc_call *call,
                                        const char *agent, Baton__V1__GroupReport *const *groups,
                                        size_t count)
{
    struct rpc_peer peer;
    rpc_call_peer(call, &peer);
    struct baton_status st = check_group(daemon, call, &peer, agent, NULL);
    for (size_t i = 0; baton_ok(&st) && i < count; i++) {
        st = check_group(daemon, call, &peer, agent, groups[i]->group);
    }
    return st;
}
