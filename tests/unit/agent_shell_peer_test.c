/* agent_shell_peer_test.c -- SwapPeer: messages to and from plain structs, and real links on loopback. */
#include <criterion/criterion.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shell/peer_identity.h"
#include "agent/shell/peer_link.h"
#include "agent/shell/peer_message.h"
#include "agent/shell/peer_server.h"
#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "baton/v1/swap_peer.pb-c.h"

extern char **environ;

static struct agent_peer_command command_of(enum agent_peer_verb verb)
{
    struct agent_peer_command command = {
        .verb = verb,
        .leader = "a0",
        .group = "g0",
        .model = "m",
        .fence = { { 1, 2 }, 3, 4, UINT64_C(5) << 32 | 6 },
        .timeout_ns = 7 * BATON_NS_PER_MS,
        .ticket = { .uid = "u",
                    .number = 4,
                    .epoch = { 1, 2 },
                    .owner_term = 3,
                    .group = "g0",
                    .from = { 1, "11" },
                    .to = { 2, "22" },
                    .policy = { .in_flight = AGENT_IN_FLIGHT_ABORT,
                                .arrivals = AGENT_ARRIVALS_REFUSE,
                                .swap_deadline_ns = 8 * BATON_NS_PER_MS,
                                .drain_deadline_ns = 9 * BATON_NS_PER_MS,
                                .barrier_deadline_ns = 10 * BATON_NS_PER_MS,
                                .allow_recreate = true,
                                .live = true,
                                .drain_expiry = AGENT_DRAIN_KEEP,
                                .kv = AGENT_KV_SALT,
                                .hooks_count = 2,
                                .hooks = { { AGENT_HOOK_BEFORE_PAUSE, "http://r:1/a",
                                             11 * BATON_NS_PER_MS },
                                           { AGENT_HOOK_AFTER_PROBE, "http://r:1/b",
                                             12 * BATON_NS_PER_MS } } },
                    .rejoin = true,
                    .barrier = true },
    };
    if (verb == AGENT_PEER_COMMIT || verb == AGENT_PEER_COMPARE || verb == AGENT_PEER_END) {
        command.version = (struct agent_version){ 2, "22" };
    }
    if (verb == AGENT_PEER_OPEN || verb == AGENT_PEER_REOPEN || verb == AGENT_PEER_END) {
        command.outcome = AGENT_OUTCOME_APPLY_FAILED;
        command.committed = verb == AGENT_PEER_END;
    }
    if (verb == AGENT_PEER_SLEEP) {
        command.drain_ns = 9 * BATON_NS_PER_MS;
    }
    if (verb == AGENT_PEER_ASK) {
        strcpy(command.asked, "asked");
    }
    return command;
}

/* Through the bytes, as the network does it. */
static void *through_bytes(void *message, const ProtobufCMessageDescriptor *type)
{
    uint8_t bytes[16384];
    ProtobufCMessage *out = NULL;
    size_t size = baton_wire_size(message);
    cr_assert_lt(size, sizeof(bytes));
    baton_wire_encode(message, bytes);
    struct baton_status st =
        baton_wire_decode(type, (struct baton_bytes){ bytes, size }, NULL, &out);
    cr_assert(baton_ok(&st), "%s", st.message);
    baton_wire_free(message);
    return out;
}

/* Each verb comes out as it went in, with its ticket and its fence. */
Test(agent_shell_peer, commands_round_trip)
{
    for (int verb = AGENT_PEER_WATCH; verb < AGENT_PEER_VERBS; verb++) {
        struct agent_peer_command sent = command_of((enum agent_peer_verb)verb);
        struct agent_peer_command got;
        struct link_memory memory = { .count = 0 };
        void *message =
            through_bytes(peer_command_message(&sent), &baton__v1__link_request__descriptor);
        struct baton_status st = peer_command_from(message, &got, &memory);
        cr_assert(baton_ok(&st), "%s: %s", agent_peer_verb_name(sent.verb), st.message);
        cr_assert_eq(memcmp(&sent, &got, sizeof(sent)), 0, "%s", agent_peer_verb_name(sent.verb));
        link_memory_free(&memory);
        baton_wire_free(message);
    }
}

Test(agent_shell_peer, a_heartbeat_says_what_to_land)
{
    struct agent_source sources[2] = { { "file", "/v/1", "a0" }, { "file", "/v/2", "a1" } };
    struct agent_version_goal goal = { { 2, "22" }, "uid", 99, sources, 2, NULL, 0 };
    struct agent_peer_command sent = command_of(AGENT_PEER_WATCH);
    struct agent_peer_command got;
    struct link_memory memory = { .count = 0 };
    sent.stage = &goal;
    sent.sleep = true;
    void *message =
        through_bytes(peer_command_message(&sent), &baton__v1__link_request__descriptor);
    struct baton_status st = peer_command_from(message, &got, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_null(got.target);
    cr_assert(got.sleep);
    cr_assert_eq(got.stage->bytes, 99);
    cr_assert_eq(got.stage->sources_count, 2);
    cr_assert_str_eq(got.stage->sources[1].location, "/v/2");
    link_memory_free(&memory);
    baton_wire_free(message);
}

static void expect_refused(Baton__V1__LinkRequest *request, const char *says)
{
    struct agent_peer_command got;
    struct link_memory memory = { .count = 0 };
    struct baton_status st = peer_command_from(request, &got, &memory);
    cr_assert_eq(st.code, BATON_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st.message, says), "%s", st.message);
    link_memory_free(&memory);
    baton_wire_free(request);
}

Test(agent_shell_peer, refuses_by_field)
{
    struct agent_peer_command command = command_of(AGENT_PEER_OPEN);
    expect_refused(baton_wire_new(&baton__v1__link_request__descriptor), "command: is missing");
    Baton__V1__LinkRequest *request = peer_command_message(&command);
    request->command->command_case = BATON__V1__PEER_COMMAND__COMMAND__NOT_SET;
    expect_refused(request, "it needs an upgrade");
    request = peer_command_message(&command);
    request->command->fence->step = 0;
    expect_refused(request, "fence.step: is missing");
    request = peer_command_message(&command);
    request->command->open_gate->outcome = (Baton__V1__SwapOutcome)99;
    expect_refused(request, "outcome: is unknown");
}

/* A leader that does not say its protocol is of the release that had only the first one. */
Test(agent_shell_peer, protocols)
{
    struct agent_peer_command command = command_of(AGENT_PEER_PAUSE);
    for (uint32_t protocol = 0; protocol <= PEER_PROTOCOL + 1; protocol++) {
        struct agent_peer_command got;
        struct link_memory memory = { .count = 0 };
        Baton__V1__LinkRequest *request = peer_command_message(&command);
        cr_assert_eq(request->command->protocol, PEER_PROTOCOL);
        request->command->protocol = protocol;
        struct baton_status st = peer_command_from(request, &got, &memory);
        cr_assert_eq(baton_ok(&st), protocol <= PEER_PROTOCOL, "%u: %s", protocol, st.message);
        if (!baton_ok(&st)) {
            cr_assert_eq(st.reason, BATON_REASON_INCOMPATIBLE);
            cr_assert_not_null(strstr(st.message, "protocol 2, this agent knows up to 1"), "%s",
                               st.message);
        }
        link_memory_free(&memory);
        baton_wire_free(request);
    }
}

/* Of a leader that is newer: the command comes through, and the follower answers why it cannot. */
Test(agent_shell_peer, policy_that_cannot_be_read)
{
    struct agent_peer_command command = command_of(AGENT_PEER_CLOSE);
    struct agent_peer_command got;
    struct link_memory memory = { .count = 0 };
    Baton__V1__LinkRequest *request = peer_command_message(&command);
    request->command->ticket->policy = NULL;
    struct baton_status st = peer_command_from(request, &got, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_str_eq(got.ticket.policy.unreadable, "policy: is missing");
    link_memory_free(&memory);
    baton_wire_free(request);
}

static struct agent_peer_result result_of(const struct agent_engine_report *engine)
{
    return (struct agent_peer_result){
        .group = "g0",
        .step = 6,
        .ok = true,
        .gone = true,
        .message = "why",
        .asked = AGENT_PEER_OUTCOME_COMMITTED,
        .times = { .load_ns = 1, .finalize_ns = 2, .verify_ns = 3 },
        .held = 4,
        .state = { .known = true,
                   .fence = { { 1, 2 }, 3, 4, 5 },
                   .committed = { 1, "11" },
                   .needs_ticket = true,
                   .may_sleep = true,
                   .open_uid = "u",
                   .open_from = { 1, "11" },
                   .open_to = { 2, "22" },
                   .prepared = true,
                   .open_committed = true,
                   .ready = true,
                   .serving = true,
                   .out = true,
                   .busy = true,
                   .can_restore = true,
                   .advisory = true,
                   .landed = { "11", "22" },
                   .staged_bytes = 6,
                   .level = AGENT_LEVEL_COPIED,
                   .blocked = "NO_MEMORY",
                   .message = "full",
                   .engines = engine,
                   .engines_count = 1 },
    };
}

Test(agent_shell_peer, results_round_trip)
{
    struct agent_engine_config config = { .name = "e1", .kind = "vllm", .endpoint = "http://x:1" };
    struct agent_engine_facts facts = {
        .incarnation = "life", .world_size = 2, .way_in = AGENT_WAY_IN_PLUGIN, .software = "0.32.0"
    };
    struct agent_engine_report engine = {
        .config = &config, .facts = &facts, .label = "7", .gate = "open", .reachable = true
    };
    struct agent_peer_result sent = result_of(&engine);
    struct agent_peer_result got;
    struct link_memory memory = { .count = 0 };
    void *message =
        through_bytes(peer_result_message(&sent), &baton__v1__link_response__descriptor);
    struct baton_status st = peer_result_from(message, &got, &memory);
    cr_assert(baton_ok(&st), "%s", st.message);
    cr_assert_eq(got.state.engines_count, 1);
    const struct agent_engine_report *told = &got.state.engines[0];
    cr_assert_str_eq(told->config->name, "e1");
    cr_assert_str_eq(told->config->endpoint, "http://x:1");
    cr_assert_str_eq(told->facts->incarnation, "life");
    cr_assert_eq(told->facts->way_in, AGENT_WAY_IN_PLUGIN);
    cr_assert_str_eq(told->label, "7");
    cr_assert_str_eq(told->gate, "open");
    cr_assert(told->reachable);
    got.state.engines = sent.state.engines;
    cr_assert_eq(memcmp(&sent, &got, sizeof(sent)), 0);
    link_memory_free(&memory);
    baton_wire_free(message);
}

/* --- real links --- */

struct rig {
    struct baton_mailbox *mailbox;
    struct shell_config *follower;
    struct shell_config *leader;
    struct agent_group_config group;    /* As the leader has it. */
    struct agent_group_config followed; /* As the follower has it. */
    struct agent_member_config member;
    struct peer_server *server;
    struct peer_links *links;
    unsigned ups, downs, commands, results;
    uint64_t step; /* Of the last command, then of the last result. */
};

static void deliver(void *context, struct agent_event *event)
{
    struct rig *rig = context;
    if (event->kind == AGENT_EVENT_PEER_UP) {
        cr_assert_str_eq(event->peer, "a1");
        rig->ups++;
    } else if (event->kind == AGENT_EVENT_PEER_DOWN) {
        rig->downs++;
    } else if (event->kind == AGENT_EVENT_PEER_COMMAND) {
        struct agent_peer_result result = { .group = "g0", .step = event->command->fence.step };
        rig->commands++;
        rig->step = event->command->fence.step;
        peer_server_answer(rig->server, event->command->leader, &result);
    } else if (event->kind == AGENT_EVENT_PEER_RESULT) {
        cr_assert_str_eq(event->peer_result.agent, "a1");
        rig->results++;
        rig->step = event->peer_result.result->step;
    }
}

/* Runs the loop until '*count' has been reached. */
static void run_until(struct rig *rig, const unsigned *count, unsigned wanted)
{
    uint64_t end_ns = baton_clock_monotonic_ns() + 120 * BATON_NS_PER_S;
    while (*count < wanted) {
        struct baton_mailbox_item item;
        uint64_t now_ns = baton_clock_monotonic_ns();
        cr_assert_lt(now_ns, end_ns, "waited too long");
        peer_links_run(rig->links, now_ns);
        uint64_t deadline_ns = peer_links_deadline_ns(rig->links);
        if (baton_mailbox_take(rig->mailbox, deadline_ns < end_ns ? deadline_ns : end_ns, &item)) {
            item.run(rig, item.argument);
        }
    }
}

static void open_server(struct rig *rig)
{
    struct peer_server_options options = { rig->follower, rig->mailbox, deliver, rig };
    struct baton_status st = peer_server_create(&options, &rig->server);
    cr_assert(baton_ok(&st), "%s", st.message);
}

static void drain(struct rig *rig)
{
    struct baton_mailbox_item item;
    while (baton_mailbox_take(rig->mailbox, 0, &item)) {
        (item.run == peer_server_news ? peer_server_discard : peer_links_discard)(item.argument);
    }
}

static void close_server(struct rig *rig)
{
    peer_server_drain(rig->server);
    struct baton_mailbox_item item;
    while (baton_mailbox_take(rig->mailbox, 0, &item)) {
        if (item.run == peer_server_news) {
            peer_server_discard(item.argument);
        } else {
            item.run(rig, item.argument);
        }
    }
    peer_server_destroy(rig->server);
}

/* Both ends show certificates: the leader's is of agent a2. */
static void use_certificates(struct rig *rig, const char *folder)
{
#define PLACE(out, name) (void)snprintf((out), sizeof(out), "%s/%s", folder, name)
    PLACE(rig->follower->listen_cert, "server.pem");
    PLACE(rig->follower->listen_key, "server.key");
    PLACE(rig->follower->listen_client_ca, "ca.pem");
    PLACE(rig->leader->peer_ca, "ca.pem");
    PLACE(rig->leader->peer_cert, "named.pem");
    PLACE(rig->leader->peer_key, "named.key");
#undef PLACE
    strcpy(rig->followed.leader, "a2");
}

/* Of certificates in the folder; null: plain. */
static struct rig *open_rig_with(const char *folder)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    rig->follower = calloc(1, sizeof(*rig->follower));
    rig->leader = calloc(1, sizeof(*rig->leader));
    struct baton_status st = baton_mailbox_create(64, &rig->mailbox);
    cr_assert(baton_ok(&st));
    strcpy(rig->followed.name, "g0");
    strcpy(rig->followed.leader, "a0");
    rig->follower->core.groups = &rig->followed;
    rig->follower->core.groups_count = 1;
    strcpy(rig->follower->listen, "127.0.0.1:0");
    if (folder != NULL) {
        use_certificates(rig, folder);
    }
    open_server(rig);
    strcpy(rig->member.agent, "a1");
    (void)snprintf(rig->member.address, sizeof(rig->member.address), "127.0.0.1:%u",
                   peer_server_port(rig->server));
    rig->group.followers = &rig->member;
    rig->group.followers_count = 1;
    rig->leader->core.groups = &rig->group;
    rig->leader->core.groups_count = 1;
    struct peer_links_options options = { rig->leader, rig->mailbox, deliver, rig };
    st = peer_links_create(&options, &rig->links);
    cr_assert(baton_ok(&st), "%s", st.message);
    return rig;
}

static struct rig *open_rig(void)
{
    return open_rig_with(NULL);
}

static void close_rig(struct rig *rig)
{
    peer_links_destroy(rig->links);
    peer_server_drain(rig->server);
    drain(rig);
    peer_server_destroy(rig->server);
    baton_mailbox_destroy(rig->mailbox);
    free(rig->leader);
    free(rig->follower);
    free(rig);
}

Test(agent_shell_peer, a_command_is_answered_over_the_link)
{
    struct rig *rig = open_rig();
    struct agent_peer_command command = command_of(AGENT_PEER_PAUSE);
    peer_links_send(rig->links, "a1", &command); /* Not up: lost. */
    run_until(rig, &rig->ups, 1);
    peer_links_send(rig->links, "a1", &command);
    run_until(rig, &rig->commands, 1);
    cr_assert_eq(rig->step, command.fence.step);
    rig->step = 0;
    run_until(rig, &rig->results, 1);
    cr_assert_eq(rig->step, command.fence.step);
    cr_assert_eq(rig->commands, 1);
    close_rig(rig);
}

/* Whoever the file does not name is answered, and takes nobody's place. */
Test(agent_shell_peer, a_stranger_is_answered)
{
    struct rig *rig = open_rig();
    struct agent_peer_command command = command_of(AGENT_PEER_SHUT);
    strcpy(command.leader, "a9");
    run_until(rig, &rig->ups, 1);
    peer_links_send(rig->links, "a1", &command);
    run_until(rig, &rig->results, 1);
    strcpy(command.leader, "a0");
    peer_links_send(rig->links, "a1", &command);
    run_until(rig, &rig->results, 2);
    close_rig(rig);
}

/* The follower's agent is restarted on its port: the leader hears that, and dials again. */
Test(agent_shell_peer, a_follower_that_is_back_is_dialled_again)
{
    struct rig *rig = open_rig();
    run_until(rig, &rig->ups, 1);
    strcpy(rig->follower->listen, rig->member.address);
    close_server(rig);
    run_until(rig, &rig->downs, 1);
    open_server(rig);
    run_until(rig, &rig->ups, 2);
    struct agent_peer_command command = command_of(AGENT_PEER_SHUT);
    peer_links_send(rig->links, "a1", &command);
    run_until(rig, &rig->results, 1);
    close_rig(rig);
}

/* A newer link of the same leader ends the older one: nobody hears two. */
Test(agent_shell_peer, a_newer_link_replaces_the_older)
{
    struct rig *rig = open_rig();
    struct peer_links *newer = NULL;
    struct peer_links_options options = { rig->leader, rig->mailbox, deliver, rig };
    struct agent_peer_command command = command_of(AGENT_PEER_SHUT);
    run_until(rig, &rig->ups, 1);
    peer_links_send(rig->links, "a1", &command);
    run_until(rig, &rig->results, 1);
    struct baton_status st = peer_links_create(&options, &newer);
    cr_assert(baton_ok(&st));
    struct peer_links *older = rig->links;
    rig->links = newer;
    run_until(rig, &rig->ups, 2);
    peer_links_send(newer, "a1", &command);
    run_until(rig, &rig->results, 2);
    rig->links = older;
    run_until(rig, &rig->downs, 1);
    drain(rig); /* News of the newer one. */
    peer_links_destroy(newer);
    close_rig(rig);
}

/* --- identity --- */

static struct rpc_peer peer_named(const char *name)
{
    struct rpc_peer peer = { .principal = RPC_PRINCIPAL_CERTIFICATE, .names_count = 1 };
    peer.names[0].kind = strncmp(name, "spiffe:", 7) == 0 ? RPC_NAME_SPIFFE : RPC_NAME_DNS;
    (void)snprintf(peer.names[0].text, sizeof(peer.names[0].text), "%s", name);
    return peer;
}

/* Whoever the authority signed may dial; only the leader itself is taken for the leader. */
Test(agent_shell_peer, a_leader_is_who_its_certificate_names)
{
    static const struct {
        const char *name;
        const char *pattern;
        bool is_leader;
    } cases[] = {
        { "spiffe://lab/agent/a0", "", true },
        { "spiffe://lab/agent/a00", "", false },
        { "spiffe://lab/agent/a1", "", false },
        { "spiffe://lab/viewer/a0", "", false },
        { "spiffe://lab/operator/agent/a0", "", false },
        { "a0", "", false }, /* A trainer on the node a0 has that name, too. */
        { "a0", "{leader}", true },
        { "a0.lab", "{leader}", false },
        { "a0.lab", "", false },
        { "a0.lab", "{leader}.lab", true },
        { "xa0.lab", "{leader}.lab", false },
        { "a0.lab.evil", "{leader}.lab", false },
        { "spiffe://lab/ns/x/sa/a0", "spiffe://lab/ns/x/sa/{leader}", true },
        { "spiffe://lab/agent/a0", "spiffe://lab/ns/x/sa/{leader}", false },
        { "spiffe://lab/agent/a0", "{leader}.lab", false },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rpc_peer peer = peer_named(cases[i].name);
        cr_assert_eq(peer_identity_is_leader(&peer, cases[i].pattern, "a0", false),
                     cases[i].is_leader, "%s by '%s'", cases[i].name, cases[i].pattern);
    }
    struct rpc_peer local = { .principal = RPC_PRINCIPAL_LOCAL };
    struct rpc_peer anonymous = { .principal = RPC_PRINCIPAL_ANONYMOUS };
    cr_assert(peer_identity_is_leader(&local, "", "a0", false));
    cr_assert_not(peer_identity_is_leader(&anonymous, "", "a0", false));
    cr_assert(peer_identity_is_leader(&anonymous, "", "a0", true));
    cr_assert_not(peer_identity_is_pattern("spiffe://lab/agent/a0"));
    cr_assert_not(peer_identity_is_pattern("{leader}{leader}"));
    cr_assert(peer_identity_is_pattern("spiffe://lab/agent/{leader}"));
}

static void run(char *const *words)
{
    pid_t child;
    int status = -1;
    cr_assert_eq(posix_spawnp(&child, words[0], NULL, NULL, words, environ), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "%s failed", words[0]);
}

/* Each command is held against the certificate, not only the first of a link; what is refused is counted, and
 * reaches nobody. */
Test(agent_shell_peer, a_link_speaks_for_the_leader_of_its_certificate_only)
{
    char folder[] = "/tmp/baton-peer-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    char *make[] = { RPC_CERTS, folder, NULL };
    char *clear[] = { "rm", "-rf", folder, NULL };
    run(make);
    struct rig *rig = open_rig_with(folder);
    struct agent_peer_command command = command_of(AGENT_PEER_SHUT);
    strcpy(command.leader, "a2");
    run_until(rig, &rig->ups, 1);
    peer_links_send(rig->links, "a1", &command);
    run_until(rig, &rig->results, 1);
    cr_assert_eq(peer_server_refused(rig->server), 0);
    strcpy(command.leader, "a0");
    peer_links_send(rig->links, "a1", &command);
    run_until(rig, &rig->downs, 1);
    cr_assert_eq(peer_server_refused(rig->server), 1);
    run_until(rig, &rig->ups, 2);
    peer_links_send(rig->links, "a1", &command); /* As the first one of a link, too. */
    run_until(rig, &rig->downs, 2);
    cr_assert_eq(peer_server_refused(rig->server), 2);
    cr_assert_eq(rig->commands, 1);
    close_rig(rig);
    run(clear);
}
