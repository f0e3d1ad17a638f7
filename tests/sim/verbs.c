/* verbs.c -- the table of verbs; see verbs.h.
 *
 * To add one, write what it is about, what its request carries and what the store must show once it
 * was carried out. */
#include "tests/sim/verbs.h"

#include <stdio.h>
#include <string.h>

#include "tests/sim/check.h"

/* --- policies --- */

static const char *const words_unavailable[] = { "1", "2", "50%", "1", "100%", "25%" };

static const char *const triggers[] = { "OnPublish", "OnPublish", "OnPublish", "Manual",
                                        "OnPublish", "OnPublish", "Interval",  "MaxLag" };
static const struct check_spec checks[] = { { .name = "eyes", .kind = "Manual" } };
static const char *const step_checks[] = { "eyes" };
static const struct canary_spec steps[] = {
    { .groups = "1", .soak_ms = 1000, .checks = step_checks, .checks_count = 1 },
    { .groups = "50%", .hold = true },
};

static const struct policy_hook_spec one_router[] = {
    { "beforePause", "http://router-0/drain", 1500 },
    { "afterProbe", "http://router-0/open", 1500 },
};
static const struct policy_hook_spec two_routers[] = {
    { "beforePause", "http://router-0/drain", 1500 },
    { "beforePause", "http://router-1/drain", 800 },
    { "afterProbe", "http://router-1/open", 2500 },
    { "afterProbe", "http://router-0/open", 800 },
};

static void ask_policy(const struct world *world, const struct call *call, struct request *request)
{
    struct policy_spec *spec = &request->body.apply;
    (void)world;
    *spec = (struct policy_spec){ .max_unavailable = words_unavailable[call->word % 6],
                                  .swap_deadline_ms = 10000,
                                  .drain_deadline_ms = 4000 };
    spec->trigger = triggers[call->word / 6 % 8];
    spec->roll.every_n = call->word / 6 % 8 > 5 ? 2 : 0;
    spec->in_flight = call->word / 24 % 3 == 1   ? "wait"
                      : call->word / 24 % 3 == 2 ? "abort"
                                                 : "keep";
    spec->arrivals = call->word / 72 % 2 == 1 ? "refuse" : "hold";
    spec->allow_recreate = call->word / 144 % 3 == 1;
    spec->strategy = call->word / 432 % 4 == 1 ? "Barrier" : "Rolling";
    spec->barrier_quorum = call->word / 1728 % 3 == 1 ? "50%" : "100%";
    spec->barrier_deadline_ms = 4000;
    if (call->word / 5184 % 3 == 1) {
        spec->roll.soak_ms = 1500;
        spec->roll.checks = checks;
        spec->roll.checks_count = 1;
        spec->roll.canary = steps;
        spec->roll.canary_count = 2;
    }
    if (call->word / 15552 % 4 == 1) {
        spec->progress_deadline_ms = 15000;
        spec->roll.progress_action = call->word / 62208 % 2 == 0 ? "rollback" : "pause";
    }
    uint32_t live = call->word % 11; /* Several of them: much of a live swap is rare. */
    if (live == PEOPLE_LIVE || live == 2 || live == 8) {
        spec->swap_mode = "live";
        spec->in_flight = "keep";
        spec->kv = "keep";
        spec->strategy = "Rolling";
        /* Groups that cannot swap live wait for ever: a roll that is taken back for it would never end well. */
        spec->progress_deadline_ms = 0;
        spec->roll.progress_action = NULL;
    }
    spec->mass_loss = call->word / 124416 % 4 == 1 ? "50%" : NULL;
    if (call->word / 497664 % 4 > 1) {
        bool one = call->word / 497664 % 4 == 2;
        spec->hooks = one ? one_router : two_routers;
        spec->hooks_count = one ? 2 : 4;
    }
    spec->staleness_unit = "Publishes";
    spec->staleness_bounded = true;
    spec->staleness_bound = 2;
    spec->slots_samples_per_publish = SIM_SLOTS_PER_PUBLISH;
    spec->slots_max_held = SIM_SLOTS_HELD;
    spec->slots_ttl_ms = 6000;
    spec->sessions_ttl_ms = SIM_SESSION_MS;
    spec->sessions_max_hold_ms = 8000;
}

/* --- what they are about --- */

static uint64_t plain(struct world *world, struct call *call, uint32_t random)
{
    (void)world;
    (void)random;
    call->to_seq = 0;
    return 0;
}

uint64_t verbs_to_any(struct world *world, struct call *call, uint32_t random)
{
    uint32_t content = 1 + random / 2 % (world->contents > 0 ? world->contents : 1);
    while (content > 1 && world->versions[content].model != call->model) {
        content--;
    }
    call->to_seq = random % 2 == 0 ? 0 : world->versions[content].seq;
    return 0;
}

static uint64_t to_one(struct world *world, struct call *call, uint32_t random)
{
    return verbs_to_any(world, call, random | 1U);
}

static uint64_t with_word(struct world *world, struct call *call, uint32_t random)
{
    (void)world;
    call->word = random;
    return 0;
}

static uint64_t a_verdict(struct world *world, struct call *call, uint32_t random)
{
    (void)world;
    call->word = random % 2 != 0 ? CHECK_STATE_PASSED : CHECK_STATE_FAILED;
    return 0;
}

static uint64_t a_group(struct world *world, struct call *call, uint32_t random)
{
    const struct node *node = &world->nodes[random % world->nodes_count];
    const char *name = node->groups_config[random / 64 % node->led_count].name;
    memcpy(call->group, name, sizeof(call->group));
    call->model = model_of_group(world, name);
    return 0;
}

static bool spans(const struct node *node)
{
    bool spans = false;
    for (uint32_t g = 0; g < node->led_count; g++) {
        spans |= node->groups_config[g].followers_count > 0;
    }
    return spans;
}

/* Half of them: its machine is lost for good, and somebody attests it when the lease is over. */
static uint64_t a_dead_group(struct world *world, struct call *call, uint32_t random)
{
    struct node *node = &world->nodes[random % world->nodes_count];
    (void)a_group(world, call, random);
    if (random / 1024 % 2 == 0 || spans(node) || world->calm) {
        return 0;
    }
    node_crash(world, node, "its machine is lost", (20 + random / 2048 % 20) * S);
    for (uint32_t g = 0; g < node->groups_count; g++) {
        for (uint32_t e = 0; e < node->groups[g].engines_count; e++) {
            engine_die(world, node, (struct agent_engine_id){ g, e }, false);
        }
    }
    return 16 * S;
}

/* Of the whole model, of an agent, of one group; with 0: of the model. */
static uint64_t a_sleeper(struct world *world, struct call *call, uint32_t random)
{
    uint32_t whole = call->model;
    (void)a_group(world, call, random / 16);
    call->word = random;
    if (random % 3 == 0) {
        call->group[0] = '\0';
        call->model = whole;
    } else if (random % 3 == 1) {
        (void)snprintf(call->agent, sizeof(call->agent), "a%u", random / 16 % world->nodes_count);
    }
    return world->calm ? 0 : random / 1024 % 8 * S;
}

static uint64_t of_samples(struct world *world, struct call *call, uint32_t random)
{
    const struct model_record *model = model_stored(&world->disk, call->model);
    call->to_seq = model != NULL ? model->newest_seq : 0;
    call->word = random;
    return 0;
}

static uint64_t a_lease(struct world *world, struct call *call, uint32_t random)
{
    /* Some name what was granted for another model. */
    uint32_t model = (call->model + (random / 8192 % 2 == 0)) % world->models_count;
    memcpy(call->uid, world->models[model].lease, sizeof(call->uid));
    call->word = random;
    return random / 64 % 3000 * MS;
}

/* --- what they carry --- */

static void ask_verdict(const struct world *world, const struct call *call, struct request *request)
{
    (void)world;
    request->body.check.check = "eyes";
    request->body.check.verdict = (enum check_state)call->word;
}

/* Nobody attests what is not so. */
static void ask_retire(const struct world *world, const struct call *call, struct request *request)
{
    uint32_t place = (uint32_t)(call->group[1] - '0') / SIM_GROUPS;
    const struct node *node = &world->nodes[place];
    bool dead = !node->up && !spans(node);
    for (uint32_t g = 0; g < node->led_count; g++) {
        for (uint32_t e = 0; e < node->groups[g].engines_count; e++) {
            dead &= !node->groups[g].engines[e].up;
        }
    }
    request->body.retire.attest_dead = dead;
}

static void ask_quarantine(const struct world *world, const struct call *call,
                           struct request *request)
{
    (void)world;
    request->body.quarantine.evict = call->to_seq % 2 == 0;
}

bool verbs_restarts(const struct call *call)
{
    return call->word / SIM_SESSIONS % 2 == 0;
}

static void ask_asleep(const struct world *world, const struct call *call, struct request *request)
{
    (void)world;
    (void)call;
    request->body.wait.condition = "asleep";
}

static void ask_session(const struct world *world, const struct call *call, struct request *request)
{
    static char name[32];
    (void)world;
    (void)snprintf(name, sizeof(name), "s%u", call->word % SIM_SESSIONS);
    request->body.session = (struct request_session){ .query = { .model = request->model },
                                                      .name = name,
                                                      .restart = verbs_restarts(call) };
}

static void ask_slots(const struct world *world, const struct call *call, struct request *request)
{
    (void)world;
    request->body.acquire = (struct request_acquire){ .count = 1 + call->word / 2 % 9,
                                                      .partial = call->word / 16 % 2 == 0,
                                                      .lease = call->word % 2 == 0 ? "" : call->uid,
                                                      .holder = "pipeline" };
}

uint32_t verbs_consumed(const struct call *call)
{
    return 1 + call->word % 2;
}

static void ask_release(const struct world *world, const struct call *call, struct request *request)
{
    (void)world;
    request->body.release = (struct request_release){ .lease = call->uid,
                                                      .consumed = verbs_consumed(call),
                                                      .dropped = call->word / 2 % 2 };
}

static void ask_samples(const struct world *world, const struct call *call, struct request *request)
{
    static struct sample_set set;
    (void)world;
    verbs_samples(call, &set);
    request->body.samples =
        (struct request_samples){ set.stage, set.samples, set.count, set.consumer_seq };
}

/* --- what the store shows --- */

static bool is_suspended(const struct shown *shown)
{
    return shown->model->suspended;
}

static bool is_free(const struct shown *shown)
{
    return !shown->model->suspended && !shown->model->held;
}

static bool is_held(const struct shown *shown)
{
    return shown->model->held; /* Where all groups are there already, it ends at once. */
}

/* Or it was over: the controller was kept from seeing that its last groups have soaked. */
static bool is_paused(const struct shown *shown)
{
    char key[RECORD_KEY_BYTES];
    if (shown->roll != NULL) {
        return shown->roll->state == ROLL_STATE_PAUSED;
    }
    (void)snprintf(key, sizeof(key), "m/%llu", (unsigned long long)shown->model->last_roll_number);
    const struct roll_record *last = disk_find(&shown->world->disk, RECORD_ROLL, key);
    return last != NULL && last->state == ROLL_STATE_COMPLETED;
}

static bool goes_on(const struct shown *shown)
{
    return shown->roll == NULL || shown->roll->state == ROLL_STATE_PROGRESSING;
}

static bool is_cordoned(const struct shown *shown)
{
    return shown->group == NULL || shown->group->cordoned;
}

static bool is_not_cordoned(const struct shown *shown)
{
    return shown->group == NULL || (!shown->group->cordoned && !shown->group->drained);
}

static bool is_drained(const struct shown *shown)
{
    return shown->group == NULL || (shown->group->cordoned && shown->group->drained);
}

static bool is_pinned(const struct shown *shown)
{
    return shown->group == NULL || shown->group->pinned;
}

static bool is_not_pinned(const struct shown *shown)
{
    return shown->group == NULL || !shown->group->pinned;
}

static bool all_sleep(const struct shown *shown, bool asleep)
{
    const struct call *call = shown->call;
    for (size_t i = 0; i < shown->world->disk.count; i++) {
        const struct kept_record *kept = &shown->world->disk.kept[i];
        const struct group_record *group = &kept->body.group;
        bool named = kept->kind == RECORD_GROUP && !group->retired &&
                     (call->agent[0] != '\0'   ? strcmp(group->agent, call->agent) == 0
                      : call->group[0] != '\0' ? strcmp(group->name, call->group) == 0
                                               : model_of_name(group->model) == call->model);
        if (named && group->asleep != asleep) {
            return false;
        }
    }
    return true;
}

static bool is_asleep(const struct shown *shown)
{
    return all_sleep(shown, true);
}

static bool is_awake(const struct shown *shown)
{
    return all_sleep(shown, false);
}

static bool is_retired(const struct shown *shown)
{
    return shown->group == NULL || (shown->group->retired && !shown->group->ticket_open);
}

static const struct version_record *version_of(const struct shown *shown)
{
    uint32_t content = content_of_seq(shown->world, shown->call->model, shown->call->to_seq);
    return content == 0 ? NULL
                        : disk_find(&shown->world->disk, RECORD_VERSION,
                                    shown->world->versions[content].uid);
}

static bool is_quarantined(const struct shown *shown)
{
    const struct version_record *version = version_of(shown);
    return version == NULL || version->quarantined;
}

static bool is_fit_again(const struct shown *shown)
{
    const struct version_record *version = version_of(shown);
    return version == NULL || !version->quarantined;
}

static bool is_kept(const struct shown *shown)
{
    const struct version_record *version = version_of(shown);
    return version == NULL || version->pinned;
}

static const struct verb verbs[] = {
    { "apply", REQUEST_MODEL_APPLY, with_word, ask_policy, NULL },
    { "suspend", REQUEST_MODEL_SUSPEND, plain, NULL, is_suspended },
    { "resume", REQUEST_MODEL_RESUME, plain, NULL, is_free },
    { "roll start", REQUEST_ROLL_START, verbs_to_any, NULL, NULL },
    { "roll pause", REQUEST_ROLL_PAUSE, plain, NULL, is_paused },
    { "roll resume", REQUEST_ROLL_RESUME, plain, NULL, goes_on },
    { "roll undo", REQUEST_ROLL_UNDO, verbs_to_any, NULL, is_held },
    { "wait", REQUEST_WAIT, plain, NULL, NULL },
    { "hold", REQUEST_MODEL_HOLD, plain, NULL, is_held },
    { "roll advance", REQUEST_ROLL_ADVANCE, plain, NULL, NULL },
    { "roll promote", REQUEST_ROLL_PROMOTE, plain, NULL, NULL },
    { "roll abort", REQUEST_ROLL_ABORT, plain, NULL, NULL },
    { "roll retry", REQUEST_ROLL_RETRY, plain, NULL, NULL },
    { "report check", REQUEST_ROLL_REPORT_CHECK, a_verdict, ask_verdict, NULL },
    { "uncordon", REQUEST_GROUP_UNCORDON, a_group, NULL, is_not_cordoned },
    { "unpin", REQUEST_GROUP_UNPIN, a_group, NULL, is_not_pinned },
    { "release slots", REQUEST_SLOTS_RELEASE, a_lease, ask_release, NULL },
    { "wake", REQUEST_GROUP_WAKE, a_sleeper, NULL, is_awake },
    { "wait for asleep", REQUEST_WAIT, plain, ask_asleep, NULL },
    { "sleep", REQUEST_GROUP_SLEEP, a_sleeper, NULL, is_asleep },
    { "cordon", REQUEST_GROUP_CORDON, a_group, NULL, is_cordoned },
    { "drain", REQUEST_GROUP_DRAIN, a_group, NULL, is_drained },
    { "pin", REQUEST_GROUP_PIN, a_group, NULL, is_pinned },
    { "retire", REQUEST_GROUP_RETIRE, a_dead_group, ask_retire, is_retired },
    { "version pin", REQUEST_VERSION_PIN, to_one, NULL, is_kept },
    { "version unpin", REQUEST_VERSION_UNPIN, to_one, NULL, NULL },
    { "quarantine", REQUEST_VERSION_QUARANTINE, to_one, ask_quarantine, is_quarantined },
    { "unquarantine", REQUEST_VERSION_UNQUARANTINE, to_one, NULL, is_fit_again },
    { "session", REQUEST_SESSION_RESOLVE, with_word, ask_session, NULL },
    { "acquire slots", REQUEST_SLOTS_ACQUIRE, a_lease, ask_slots, NULL },
    { "report samples", REQUEST_SAMPLES_REPORT, of_samples, ask_samples, NULL },
};
enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };

const struct verb *verbs_at(uint32_t place)
{
    return &verbs[place];
}

uint32_t verbs_count(void)
{
    return VERBS;
}

const char *verbs_model(const struct call *call)
{
    bool sleeps = call->kind == REQUEST_GROUP_SLEEP || call->kind == REQUEST_GROUP_WAKE;
    return sleeps && (call->group[0] != '\0' || call->agent[0] != '\0') ? ""
                                                                        : model_name(call->model);
}

void verbs_ask(const struct world *world, const struct call *call, struct request *request)
{
    request->group = call->group[0] != '\0' ? call->group : "";
    request->agent = call->agent[0] != '\0' ? call->agent : "";
    if (call->agent[0] != '\0') {
        request->group = "";
    }
    if (verbs[call->verb].ask != NULL) {
        verbs[call->verb].ask(world, call, request);
    }
}

bool people_shows(const struct world *world, const struct call *call)
{
    struct shown shown = { .world = world, .call = call };
    shown.model = model_stored(&world->disk, call->model);
    if (call->verb == SIM_NOBODY || verbs[call->verb].shows == NULL || shown.model == NULL) {
        return true;
    }
    shown.roll = model_roll(&world->disk, call->model);
    if (call->agent[0] == '\0') {
        shown.group = disk_find(&world->disk, RECORD_GROUP, call->group);
    }
    return verbs[call->verb].shows(&shown);
}
