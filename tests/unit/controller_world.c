/* controller_world.c -- see controller_world.h: time, store, steps, calls. */
#include "tests/unit/controller_world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/arena.h"
#include "api/base/bytes.h"
#include "controller/core/leases.h"
#include "controller/core/series.h"
#include "controller/core/staleness.h"
#include "controller/store/record_codec.h"
#include "tests/unit/controller_played.h"

struct controller_limits world_limits(void)
{
    return (struct controller_limits){
        .models = 4,
        .versions = 64,
        .versions_kept = 6,
        .rolls = 32,
        .rolls_kept = 10,
        .groups = 32,
        .agents = 16,
        .landed = 16,
        .request_ids = 16,
        .waits = 4,
        .open_kept_ms = 24 * 3600 * 1000,
        .unknown_kept_ms = 3600 * 1000,
        .swaps = 400,
        .swaps_kept = 100,
        .sessions = 16,
        .slot_leases = 64,
    };
}

/* A new core in memory that an earlier one may have left; NULL at first. */
static struct controller *build(struct world *world, void **memory)
{
    uint8_t seed[CONTROLLER_SEED_BYTES];
    world->seed++;
    memset(seed, world->seed, sizeof(seed));
    size_t bytes = controller_bytes(&world->limits);
    if (*memory == NULL) {
        *memory = malloc(bytes);
        cr_assert_not_null(*memory);
    }
    memset(*memory, 0xa5, bytes); /* The core may not rely on zeroed memory. */
    struct baton_arena arena = baton_arena_of(*memory, bytes);
    struct controller *core = controller_init(&arena, &world->limits, seed);
    cr_assert_not_null(core);
    return core;
}

static void load(const struct world *world, struct controller *core)
{
    for (size_t i = 0; i < world->kept_count; i++) {
        struct event event = { .kind = EVENT_LOAD,
                               .now_ns = world->now_ns,
                               .wall_ns = world->wall_ns };
        event.body.load = (struct record_ref){ world->kept[i].kind, &world->kept[i].body };
        (void)controller_step(core, &event);
        struct baton_status st = controller_load_status(core);
        cr_assert(baton_ok(&st), "load %s: %s", world->kept[i].key, st.message);
    }
}

static struct event started_event(const struct world *world)
{
    struct event event = { .kind = EVENT_STARTED,
                           .now_ns = world->now_ns,
                           .wall_ns = world->wall_ns };
    event.body.started = (struct started){ world->epoch, world->revision, world->log_next };
    return event;
}

struct controller *world_shown(struct world *world)
{
    struct event event = started_event(world);
    struct controller *core = build(world, &world->spare);
    load(world, core);
    controller_show(core, &event.body.started);
    return core;
}

struct world *world_new_limited(const struct controller_limits *limits)
{
    struct world *world = calloc(1, sizeof(*world));
    cr_assert_not_null(world);
    world->limits = *limits;
    world->now_ns = 1000 * SEC;
    world->wall_ns = UINT64_C(1700000000) * SEC;
    world->epoch = (struct epoch){ 1, 1 };
    world->log_next = 1;
    world->core = build(world, &world->memory);
    struct event event = started_event(world);
    world_step(world, &event);
    return world;
}

struct world *world_new(void)
{
    struct controller_limits limits = world_limits();
    return world_new_limited(&limits);
}

void world_free(struct world *world)
{
    free(world->memory);
    free(world->spare);
    free(world->kept);
    free(world);
}

static size_t body_bytes(enum record_kind kind)
{
    static const size_t bytes[RECORD_KINDS_END] = {
        [RECORD_CLUSTER] = sizeof(struct cluster_record),
        [RECORD_MODEL] = sizeof(struct model_record),
        [RECORD_VERSION] = sizeof(struct version_record),
        [RECORD_ROLL] = sizeof(struct roll_record),
        [RECORD_GROUP] = sizeof(struct group_record),
        [RECORD_AGENT] = sizeof(struct agent_record),
        [RECORD_REQUEST] = sizeof(struct request_record),
        [RECORD_STALENESS] = sizeof(struct staleness_record),
        [RECORD_SWAP] = sizeof(struct history_record),
        [RECORD_SERIES] = sizeof(struct series_chunk_record),
        [RECORD_SESSION_LEASE] = sizeof(struct session_lease_record),
        [RECORD_SLOT_LEASE] = sizeof(struct slot_lease_record),
    };
    return bytes[kind];
}

static struct kept_record *find_kept(const struct world *world, enum record_kind kind,
                                     const char *key)
{
    for (size_t i = 0; i < world->kept_count; i++) {
        if (world->kept[i].kind == kind && strcmp(world->kept[i].key, key) == 0) {
            return &world->kept[i];
        }
    }
    return NULL;
}

/* Through the store's codec, so that a member without a row in its tables shows. */
static void keep(struct kept_record *kept, const struct record_op *op)
{
    char *text = record_encode(op->record);
    cr_assert_not_null(text);
    struct baton_status st = record_decode(op->record.kind, op->key, text, &kept->body);
    cr_assert(baton_ok(&st), "%s", st.message);
    free(text);
}

static void apply_op(struct world *world, const struct record_op *op)
{
    struct kept_record *kept = find_kept(world, op->record.kind, op->key);
    if (op->remove) {
        cr_assert_not_null(kept, "delete of %s, which is not stored", op->key);
        world->kept_count--;
        *kept = world->kept[world->kept_count];
        return;
    }
    if (kept == NULL) {
        if (world->kept_count == world->kept_capacity) {
            world->kept_capacity = world->kept_capacity * 2 + 64;
            world->kept = realloc(world->kept, world->kept_capacity * sizeof(struct kept_record));
            cr_assert_not_null(world->kept);
        }
        kept = &world->kept[world->kept_count];
        world->kept_count++;
        memset(kept, 0, sizeof(*kept));
        kept->kind = op->record.kind;
        cr_assert(baton_text_copy(kept->key, sizeof(kept->key), op->key));
    }
    keep(kept, op);
}

static void persist(struct world *world, const struct transaction *transaction)
{
    cr_assert_eq(transaction->epoch.generation, world->epoch.generation);
    cr_assert_eq(transaction->epoch.n, world->epoch.n);
    cr_assert_gt(transaction->revision, world->revision);
    cr_assert(transaction->sync || transaction->ops_count == 0);
    world->revision = transaction->revision;
    world->persists++;
    for (size_t i = 0; i < transaction->ops_count; i++) {
        apply_op(world, &transaction->ops[i]);
    }
    for (size_t i = 0; i < transaction->entries_count; i++) {
        cr_assert_eq(transaction->entries[i].number, world->log_next);
        world->log_next++;
    }
}

static void note_log(struct world *world, const struct log_entry *entry)
{
    world->logs++;
    (void)snprintf(world->last_log, sizeof(world->last_log), "%s %s: %s", entry->reason,
                   entry->object, entry->message);
}

static void perform(struct world *world, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST: persist(world, &action->body.persist); break;
    case ACTION_REPLY:
        if (world->in_batch) {
            world->batch_replies++;
            world->batch_ok += action->body.reply->status.code == BATON_OK;
            break;
        }
        cr_assert_not(world->replied, "two replies in one step");
        world->reply = *action->body.reply;
        world->replied = true;
        break;
    case ACTION_SEND: played_receive(world, &action->body.send); break;
    case ACTION_CLOSE_SESSION: played_closed(world, action->body.close); break;
    case ACTION_CHANGED: world->changes++; break;
    case ACTION_LOG: note_log(world, action->body.log); break;
    case ACTION_WAIT_DONE:
        cr_assert_lt(world->waits_count, WORLD_DONE_MAX);
        world->waits[world->waits_count++] = *action->body.wait_done;
        break;
    case ACTION_NEW_GENERATION: world->generation_floor = action->body.generation_floor; break;
    }
}

struct comparison {
    const struct world *world;
    size_t seen;
};

static void compare(struct comparison *with, enum record_kind kind, const void *body)
{
    char key[RECORD_KEY_BYTES];
    record_key((struct record_ref){ kind, body }, key);
    const struct kept_record *kept = find_kept(with->world, kind, key);
    cr_assert_not_null(kept, "record %s (kind %d) was never stored", key, (int)kind);
    cr_assert(memcmp(&kept->body, body, body_bytes(kind)) == 0,
              "record %s (kind %d) differs from the stored one", key, (int)kind);
    with->seen++;
}

static void compare_series(struct comparison *with, const struct controller *core,
                           const struct model_record *model)
{
    for (uint32_t i = 0; i < SERIES_CHUNKS; i++) {
        const struct series_chunk_record *chunk = view_series_chunk(core, model, i);
        if (chunk != NULL) {
            compare(with, RECORD_SERIES, chunk);
        }
    }
}

/* All records of a core are the stored ones, and there are no others. */
static void compare_all(const struct world *world, const struct controller *core)
{
    struct comparison with = { .world = world };
    for (uint32_t i = 0; i < view_models_count(core); i++) {
        compare(&with, RECORD_MODEL, view_model_at(core, i));
        compare(&with, RECORD_STALENESS, view_staleness_record(core, view_model_at(core, i)));
        compare_series(&with, core, view_model_at(core, i));
    }
    for (uint32_t i = 0; i < view_versions_count(core); i++) {
        compare(&with, RECORD_VERSION, view_version_at(core, i));
    }
    for (uint32_t i = 0; i < view_rolls_count(core); i++) {
        compare(&with, RECORD_ROLL, view_roll_at(core, i));
    }
    for (uint32_t i = 0; i < view_groups_count(core); i++) {
        compare(&with, RECORD_GROUP, view_group_at(core, i));
    }
    for (uint32_t i = 0; i < view_agents_count(core); i++) {
        compare(&with, RECORD_AGENT, view_agent_at(core, i));
    }
    for (uint32_t i = 0; i < view_requests_count(core); i++) {
        compare(&with, RECORD_REQUEST, view_request_at(core, i));
    }
    for (uint32_t i = 0; i < view_swaps_count(core); i++) {
        compare(&with, RECORD_SWAP, view_swap_at(core, i));
    }
    for (uint32_t i = 0; i < view_sessions_count(core); i++) {
        compare(&with, RECORD_SESSION_LEASE, view_session_at(core, i));
    }
    for (uint32_t i = 0; i < view_slot_leases_count(core); i++) {
        compare(&with, RECORD_SLOT_LEASE, view_slot_lease_at(core, i));
    }
    compare(&with, RECORD_CLUSTER, view_cluster(core));
    cr_assert_eq(with.seen, world->kept_count, "the store has %zu records, the core %zu",
                 world->kept_count, with.seen);
}

static void check_rebuild(struct world *world)
{
    bool skip = world->check_every != 0 && world->steps % world->check_every != 0;
    if (world->check_off || skip || !view_is_started(world->core)) {
        return;
    }
    compare_all(world, world->core);
    struct controller *other = build(world, &world->spare);
    load(world, other);
    struct event event = started_event(world);
    struct actions actions = controller_step(other, &event);
    for (size_t i = 0; i < actions.count; i++) {
        if (actions.items[i].kind == ACTION_PERSIST) {
            cr_assert_eq(actions.items[i].body.persist.ops_count, 0,
                         "a rebuilt core changed record %s",
                         actions.items[i].body.persist.ops[0].key);
        }
        cr_assert_neq(actions.items[i].kind, ACTION_SEND, "a rebuilt core has no sessions");
    }
    compare_all(world, other);
}

static void note_away(struct world *world)
{
    for (uint32_t i = 0; i < view_models_count(world->core); i++) {
        struct model_status status;
        view_model_status(world->core, view_model_at(world->core, i), world->wall_ns, &status);
        if (status.groups_unavailable > world->most_away) {
            world->most_away = status.groups_unavailable;
        }
    }
}

void world_step(struct world *world, struct event *event)
{
    event->now_ns = world->now_ns;
    event->wall_ns = world->wall_ns;
    event->more = world->together;
    world->replied = false;
    struct actions actions = controller_step(world->core, event);
    for (size_t i = 0; i < actions.count; i++) {
        cr_assert(actions.items[i].kind != ACTION_PERSIST || i == 0, "PERSIST comes first");
        perform(world, &actions.items[i]);
    }
    world->steps++;
    if (event->more) {
        return; /* Nobody looks before the rest has come. */
    }
    check_rebuild(world);
    note_away(world);
    if (world->after_step != NULL) {
        world->after_step(world, world->after_step_context);
    }
}

static void restart(struct world *world)
{
    for (uint32_t i = 0; i < world->agents_count; i++) {
        world->agents[i].session = 0;
    }
    world->core = build(world, &world->memory);
    load(world, world->core);
    struct event event = started_event(world);
    world_step(world, &event);
}

void world_restart(struct world *world)
{
    world->epoch.n++;
    restart(world);
}

void world_restart_generation(struct world *world)
{
    world->epoch.generation =
        (world->generation_floor > world->epoch.generation ? world->generation_floor
                                                           : world->epoch.generation) +
        1;
    world->epoch.n = 1;
    world->generation_floor = 0;
    restart(world);
}

static void timer(struct world *world)
{
    struct event event = { .kind = EVENT_TIMER };
    world_step(world, &event);
}

void world_apart(struct world *world)
{
    world->together = false;
    timer(world);
}

static void pass(struct world *world, uint64_t duration_ns, bool silent)
{
    uint64_t end = world->now_ns + duration_ns;
    while (world->now_ns < end) {
        uint64_t next = controller_deadline_ns(world->core);
        next = next < world->now_ns + 1 ? world->now_ns + 1 : next;
        bool renewed = !silent && world->agents_count > 0;
        uint64_t renew = renewed ? world->now_ns + 3 * SEC : end;
        next = next < renew ? next : renew;
        next = next < end ? next : end;
        world->wall_ns += next - world->now_ns;
        world->now_ns = next;
        for (uint32_t i = 0; !silent && i < world->agents_count; i++) {
            played_renew(world, &world->agents[i]);
        }
        timer(world);
    }
}

void world_pass(struct world *world, uint64_t duration_ns)
{
    pass(world, duration_ns, false);
}

void world_pass_silent(struct world *world, uint64_t duration_ns)
{
    pass(world, duration_ns, true);
}

struct baton_status world_call(struct world *world, struct request *request)
{
    struct event event = { .kind = EVENT_REQUEST };
    world->handle++;
    request->handle = world->handle;
    event.body.request = *request;
    world_step(world, &event);
    if (request->kind != REQUEST_WAIT) {
        cr_assert(world->replied, "no reply");
    }
    if (!world->replied) {
        return baton_status_ok();
    }
    cr_assert_eq(world->reply.handle, request->handle);
    return world->reply.status;
}

struct baton_status world_apply(struct world *world, const char *model,
                                const struct policy_spec *spec)
{
    struct request request = { .kind = REQUEST_MODEL_APPLY, .model = model };
    if (spec != NULL) {
        request.body.apply = *spec;
    }
    return world_call(world, &request);
}

struct baton_status world_verb(struct world *world, enum request_kind kind, const char *model,
                               uint64_t to_seq)
{
    struct request request = { .kind = kind, .model = model, .to_seq = to_seq };
    return world_call(world, &request);
}

struct baton_status world_seal_values(struct world *world, const char *model,
                                      const struct version_values *values,
                                      char uid[BATON_UID_TEXT_BYTES])
{
    static uint64_t contents;
    char digest[BATON_DIGEST_TEXT_BYTES];
    contents++;
    (void)snprintf(digest, sizeof(digest), "%032llx", (unsigned long long)contents);
    struct request open = { .kind = REQUEST_VERSION_OPEN, .model = model };
    open.body.open.optimizer_step = world->next_step;
    open.body.open.rollout_iteration = world->next_iteration;
    struct baton_status st = world_call(world, &open);
    cr_assert(baton_ok(&st), "open: %s", st.message);
    cr_assert(baton_text_copy(uid, BATON_UID_TEXT_BYTES, world->reply.object.uid));
    struct request manifest = { .kind = REQUEST_VERSION_MANIFEST, .version_uid = uid };
    manifest.body.manifest =
        (struct request_version_manifest){ .digest = digest, .tensors = 10, .files = 2 };
    st = world_call(world, &manifest);
    cr_assert(baton_ok(&st), "manifest: %s", st.message);
    struct request seal = { .kind = REQUEST_VERSION_SEAL, .version_uid = uid };
    seal.body.seal =
        (struct request_version_seal){ .digest = digest, .bytes = 1000, .values = values };
    return world_call(world, &seal);
}

void world_seal(struct world *world, const char *model, char uid[BATON_UID_TEXT_BYTES])
{
    struct baton_status st = world_seal_values(world, model, NULL, uid);
    cr_assert(baton_ok(&st), "seal: %s", st.message);
}

struct baton_status world_publish_uid(struct world *world, const char *uid, const char *request_id)
{
    struct version_source source = { .backend = "file", .location = "/shared/v" };
    struct request publish = { .kind = REQUEST_VERSION_PUBLISH, .version_uid = uid };
    publish.options.request_id = request_id;
    publish.body.publish = (struct request_version_publish){ &source, 1 };
    return world_call(world, &publish);
}

uint64_t world_publish(struct world *world, const char *model)
{
    char uid[BATON_UID_TEXT_BYTES];
    world_seal(world, model, uid);
    struct baton_status st = world_publish_uid(world, uid, NULL);
    return baton_ok(&st) ? view_version_find_uid(world->core, uid)->seq : 0;
}

uint64_t world_publish_at(struct world *world, const char *model, uint64_t step, uint64_t iteration)
{
    world->next_step = step;
    world->next_iteration = iteration;
    return world_publish(world, model);
}

uint64_t world_wait(struct world *world, const char *model, uint64_t seq)
{
    struct request request = { .kind = REQUEST_WAIT, .model = model };
    request.body.wait = (struct request_wait){ .condition = "converged", .seq = seq };
    (void)world_call(world, &request);
    return request.handle;
}

const struct action_wait_done *world_wait_end(const struct world *world, uint64_t handle)
{
    for (uint32_t i = 0; i < world->waits_count; i++) {
        if (world->waits[i].handle == handle) {
            return &world->waits[i];
        }
    }
    return NULL;
}

enum blocked_reason world_blocked(const struct world *world, const char *group)
{
    struct group_status status;
    view_group_status(world->core, world_record(world, group), world->wall_ns, &status);
    if (status.blocked_reason != BLOCKED_NONE) {
        cr_assert_neq(status.blocked_message[0], '\0', "%s waits without a word: %d", group,
                      (int)status.blocked_reason);
    }
    return status.blocked_reason;
}

uint64_t world_committed(const struct world *world, const char *group)
{
    struct group_status status;
    view_group_status(world->core, world_record(world, group), world->wall_ns, &status);
    return status.committed_seq;
}

const struct group_record *world_record(const struct world *world, const char *group)
{
    const struct group_record *record = view_group_find(world->core, group);
    cr_assert_not_null(record, "no group %s", group);
    return record;
}

const struct roll_record *world_roll(const struct world *world, const char *model, uint64_t number)
{
    const struct roll_record *roll = view_roll_find(world->core, model, number);
    cr_assert_not_null(roll, "no roll %s-%llu", model, (unsigned long long)number);
    return roll;
}

uint32_t world_tickets(const struct world *world)
{
    uint32_t open = 0;
    for (uint32_t i = 0; i < view_groups_count(world->core); i++) {
        open += view_group_at(world->core, i)->ticket_open;
    }
    return open;
}
