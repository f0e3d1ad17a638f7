/* engine_faults.c -- the adapter "vllm" against miniengine with every fault that engines have.
 *
 * usage: engine_faults MINIENGINE SEAL VERSION_A VERSION_B CONFORMANCE
 *
 * First the conformance program with one rank and with two; then each fault on a fresh engine: the
 * result's fields must be right, and the call must end within its deadline. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/engine_mini.h"

/* An operation that hangs gets this; an operation that does not gets rig.call_ns. */
#define SHORT_NS (1500 * BATON_NS_PER_MS)
/* Far above the former, far below "for ever": the machine may be busy. */
#define LATE_NS (30 * BATON_NS_PER_S)

static struct mini_programs programs;
static struct mini_scratch scratch;
static struct mini mini;

/* --- updates ----------------------------------------------------------------------------------- */

enum after {
    AFTER_OLD,      /* The engine serves A, and takes B without the fault. */
    AFTER_UNKNOWN,  /* Nothing is claimed. */
    AFTER_RECREATE, /* It must be recreated. */
    AFTER_DEAD,     /* Its process ends by itself. */
};

struct update_case {
    const char *ranks;
    const char *fault; /* A JSON object or array. */
    bool hangs;
    bool answered;
    bool in_step;
    bool restored;
    const char *code; /* Null: any. */
    enum after after;
};

static const struct update_case UPDATES[] = {
    /* Failures that the engine tells and cleans up after. */
    { "1", "{\"kind\":\"fail\",\"tensor\":7}", false, true, true, true, "LOAD_FAILED", AFTER_OLD },
    { "2", "{\"kind\":\"fail\",\"rank\":1,\"tensor\":7}", false, true, true, true, "LOAD_FAILED",
      AFTER_OLD },
    { "2", "{\"kind\":\"fail\",\"phase\":\"stage\",\"rank\":1,\"tensor\":3}", false, true, true,
      true, "LANDING_UNREADABLE", AFTER_OLD },
    /* Answered 200, and not done: by all ranks, and by one of two. */
    { "1", "{\"kind\":\"lie\",\"phase\":\"stage\"}", false, true, true, true, "VERIFY_FAILED",
      AFTER_OLD },
    { "1", "{\"kind\":\"lie\",\"phase\":\"apply\"}", false, true, true, true, "VERIFY_FAILED",
      AFTER_OLD },
    { "2", "{\"kind\":\"lie\",\"phase\":\"apply\",\"rank\":1}", false, true, true, false,
      "VERIFY_FAILED", AFTER_RECREATE },
    /* Not rolled back. */
    { "2", "[{\"kind\":\"poison\",\"rank\":1},{\"kind\":\"fail\",\"rank\":1,\"tensor\":9}]", false,
      true, true, false, "LOAD_FAILED", AFTER_RECREATE },
    /* Silence. */
    { "1", "{\"kind\":\"hang\",\"phase\":\"start\"}", true, false, true, false, NULL,
      AFTER_UNKNOWN },
    { "2", "{\"kind\":\"hang\",\"phase\":\"stage\",\"rank\":1}", true, false, true, false, NULL,
      AFTER_UNKNOWN },
    { "2", "{\"kind\":\"hang\",\"phase\":\"apply\",\"rank\":1,\"tensor\":5}", true, false, true,
      false, NULL, AFTER_UNKNOWN },
    /* Death. */
    { "2", "{\"kind\":\"die\",\"phase\":\"stage\",\"rank\":1}", false, true, true, false, NULL,
      AFTER_DEAD },
    { "2", "{\"kind\":\"die\",\"phase\":\"apply\",\"rank\":1,\"tensor\":20}", false, true, true,
      false, NULL, AFTER_DEAD },
    /* Answers that belong to other calls. */
    { "2", "{\"kind\":\"late\",\"phase\":\"start\",\"rank\":1}", false, true, false, false, NULL,
      AFTER_RECREATE },
    { "2", "{\"kind\":\"late\",\"phase\":\"stage\",\"rank\":1}", false, true, false, false, NULL,
      AFTER_RECREATE },
    { "2", "{\"kind\":\"raise\",\"phase\":\"start\"}", false, true, false, false, NULL,
      AFTER_RECREATE },
    { "2", "{\"kind\":\"raise\",\"phase\":\"stage\",\"rank\":0}", false, true, false, false, NULL,
      AFTER_RECREATE },
    { "2", "{\"kind\":\"raise\",\"phase\":\"stage\",\"rank\":1}", false, true, true, true, NULL,
      AFTER_OLD },
};

static struct baton_status update_to(const struct rig_version *version, uint64_t ns,
                                     struct engine_update *result)
{
    struct rig *rig = &mini.rig;
    return rig->adapter->update(rig->engine, version->landing, version->digest, &rig->fence,
                                baton_clock_monotonic_ns() + ns, result);
}

static bool pause_keep(void)
{
    struct rig *rig = &mini.rig;
    struct baton_status st =
        rig->adapter->pause(rig->engine, ENGINE_IN_FLIGHT_KEEP, true, rig_deadline(rig));
    return rig_check_ok(&st, "pause");
}

/* The engine serves what it served before, and a sound update goes in. */
static void after_old(double before)
{
    struct rig *rig = &mini.rig;
    struct engine_update update = { 0 };
    double now = 0;
    struct baton_status st = rig->adapter->resume(rig->engine, rig_deadline(rig));
    rig_check_ok(&st, "resume");
    rig_probe(rig, "probe", &now);
    rig_check(rig_same(before, now), "old weights", "%f, %f", before, now);
    mini_clear(&mini);
    rig_swap(rig, &rig->b, &update);
    rig_probe(rig, "probe", &now);
    rig_check(update.ok && !rig_same(before, now), "then new ones", "%s", update.error_code);
}

static void update_check(const struct update_case *test, const struct baton_status *st,
                         const struct engine_update *update)
{
    bool code = test->code == NULL || strcmp(update->error_code, test->code) == 0;
    rig_check(!baton_ok(st) && !update->ok && update->level == ENGINE_LEVEL_NONE && code,
              test->fault, "%s: %s", update->error_code, st->message);
    /* A dying engine may or may not get its last answer out. */
    rig_check(test->after == AFTER_DEAD || update->answered == test->answered, test->fault,
              "answered %d: %s", update->answered, st->message);
    rig_check(test->after == AFTER_DEAD || update->in_step == test->in_step, test->fault,
              "in step %d: %s", update->in_step, st->message);
    rig_check(update->restored == test->restored, test->fault, "restored %d: %s", update->restored,
              st->message);
    rig_check(!test->hangs || st->code == BATON_DEADLINE_EXCEEDED, test->fault, "%s", st->message);
}

static void update_run(const struct update_case *test)
{
    double before = 0;
    struct engine_update update = { 0 };
    rig_probe(&mini.rig, "probe", &before);
    if (!rig_fence(&mini.rig) || !pause_keep() || !mini_fault(&mini, test->fault)) {
        return;
    }
    uint64_t began = baton_clock_monotonic_ns();
    struct baton_status st =
        update_to(&mini.rig.b, test->hangs ? SHORT_NS : mini.rig.call_ns, &update);
    rig_check(baton_clock_monotonic_ns() - began < (test->hangs ? LATE_NS : mini.rig.call_ns),
              test->fault, "came back late");
    update_check(test, &st, &update);
    if (test->after == AFTER_OLD) {
        after_old(before);
    } else if (test->after == AFTER_DEAD) {
        rig_check(mini_ended(&mini), test->fault, "the engine lives on");
    }
}

static void updates(void)
{
    for (size_t i = 0; i < sizeof UPDATES / sizeof UPDATES[0]; i++) {
        (void)printf("# update, %s ranks: %s\n", UPDATES[i].ranks, UPDATES[i].fault);
        if (mini_start(&mini, &programs, &scratch, UPDATES[i].ranks)) {
            update_run(&UPDATES[i]);
        }
        mini_stop(&mini);
    }
}

/* Half of the tensors are lost and the engine says that all is well: an honest read-back tells. */
static void loses(void)
{
    struct rig *rig = &mini.rig;
    struct engine_update update = { 0 };
    if (mini_start(&mini, &programs, &scratch, "2") && rig_fence(rig) && pause_keep() &&
        mini_fault(&mini, "{\"kind\":\"lose\"}")) {
        struct baton_status st = update_to(&rig->b, rig->call_ns, &update);
        rig_check_ok(&st, "the engine believes itself");
        st = rig->adapter->readback(rig->engine, rig->b.landing, rig->b.digest, rig_deadline(rig),
                                    &update);
        rig_check(!baton_ok(&st) && !update.ok && update.answered && update.in_step,
                  "the read-back does not", "%s", st.message);
    }
    mini_stop(&mini);
}

/* A slow engine is not a broken one. */
static void slow(void)
{
    struct engine_update update = { 0 };
    double before = 0;
    if (mini_start(&mini, &programs, &scratch, "2") &&
        mini_fault(&mini, "[{\"kind\":\"slow\",\"phase\":\"stage\",\"ms\":60},"
                          "{\"kind\":\"slow\",\"phase\":\"apply\",\"ms\":60},"
                          "{\"kind\":\"slow\",\"phase\":\"pause\",\"ms\":60}]")) {
        rig_probe(&mini.rig, "probe", &before);
        rig_swap(&mini.rig, &mini.rig.b, &update);
        rig_check(update.ok && update.answered, "slow and right", "%s", update.error_code);
    }
    mini_stop(&mini);
}

/* An update that hung and goes on after a higher fence came does what it does on all ranks alike, and
 * the engine says so: nothing is mixed, and the state can be read. */
static void wakes_up(void)
{
    struct rig *rig = &mini.rig;
    struct engine_update update = { 0 };
    if (mini_start(&mini, &programs, &scratch, "2") && rig_fence(rig) && pause_keep() &&
        mini_fault(&mini, "{\"kind\":\"hang\",\"phase\":\"stage\",\"rank\":1}")) {
        struct baton_status st = update_to(&rig->b, SHORT_NS, &update);
        rig_check(!update.answered, "hung staging", "%s", st.message);
        mini_clear(&mini);
        rig_fence(rig);
        struct engine_facts facts;
        st = rig->adapter->attach(rig->engine, rig_deadline(rig), &facts);
        rig_check(baton_ok(&st) && strcmp(facts.resident_digest, rig->b.digest) != 0,
                  "a late staging changes nothing", "%s", st.message);
        st = rig->adapter->update(rig->engine, rig->b.landing, rig->b.digest, &rig->fence,
                                  rig_deadline(rig), &update);
        rig_check(baton_ok(&st) && update.ok, "the session that it left is used", "%s", st.message);
    }
    mini_stop(&mini);
}

/* --- the other operations ---------------------------------------------------------------------- */

typedef struct baton_status (*operation_fn)(struct rig *rig, uint64_t deadline_ns);

static struct baton_status do_pause(struct rig *rig, uint64_t deadline_ns)
{
    return rig->adapter->pause(rig->engine, ENGINE_IN_FLIGHT_KEEP, true, deadline_ns);
}

static struct baton_status do_resume(struct rig *rig, uint64_t deadline_ns)
{
    return rig->adapter->resume(rig->engine, deadline_ns);
}

static struct baton_status do_invalidate(struct rig *rig, uint64_t deadline_ns)
{
    return rig->adapter->invalidate(rig->engine, deadline_ns);
}

static struct baton_status do_label(struct rig *rig, uint64_t deadline_ns)
{
    return rig->adapter->label(rig->engine, "m@2", deadline_ns);
}

static struct baton_status do_probe(struct rig *rig, uint64_t deadline_ns)
{
    struct engine_probe probe;
    return rig->adapter->probe(rig->engine, true, deadline_ns, &probe);
}

static struct baton_status do_readback(struct rig *rig, uint64_t deadline_ns)
{
    struct engine_update update;
    return rig->adapter->readback(rig->engine, rig->a.landing, rig->a.digest, deadline_ns, &update);
}

struct operation_case {
    const char *name;
    operation_fn run;
    bool paused; /* It is paused before. */
    const char *fault;
    enum baton_reason reason;
    enum baton_code code; /* OK: any. */
};

static const struct operation_case OPERATIONS[] = {
    { "pause", do_pause, false, "{\"kind\":\"lie\",\"phase\":\"pause\"}", BATON_REASON_ENGINE_LIED,
      BATON_OK },
    { "resume", do_resume, true, "{\"kind\":\"lie\",\"phase\":\"resume\"}",
      BATON_REASON_ENGINE_LIED, BATON_OK },
    { "label", do_label, true, "{\"kind\":\"lie\",\"phase\":\"label\"}", BATON_REASON_ENGINE_LIED,
      BATON_OK },
    { "pause", do_pause, false, "{\"kind\":\"raise\",\"phase\":\"pause\",\"rank\":0}",
      BATON_REASON_ENGINE_LIED, BATON_OK },
    { "pause", do_pause, false, "{\"kind\":\"hang\",\"phase\":\"pause\",\"rank\":1}",
      BATON_REASON_ENGINE_UNREACHABLE, BATON_DEADLINE_EXCEEDED },
    { "resume", do_resume, true, "{\"kind\":\"hang\",\"phase\":\"resume\"}",
      BATON_REASON_ENGINE_UNREACHABLE, BATON_DEADLINE_EXCEEDED },
    { "invalidate", do_invalidate, true, "{\"kind\":\"hang\",\"phase\":\"reset\"}",
      BATON_REASON_ENGINE_UNREACHABLE, BATON_DEADLINE_EXCEEDED },
    { "label", do_label, true, "{\"kind\":\"hang\",\"phase\":\"label\"}",
      BATON_REASON_ENGINE_UNREACHABLE, BATON_DEADLINE_EXCEEDED },
    { "probe", do_probe, false, "{\"kind\":\"hang\",\"phase\":\"probe\",\"rank\":1}",
      BATON_REASON_ENGINE_UNREACHABLE, BATON_DEADLINE_EXCEEDED },
    { "read back", do_readback, true, "{\"kind\":\"hang\",\"phase\":\"readback\",\"rank\":1}",
      BATON_REASON_ENGINE_UNREACHABLE, BATON_DEADLINE_EXCEEDED },
};

static void operation_run(const struct operation_case *test)
{
    struct rig *rig = &mini.rig;
    if ((test->paused && !pause_keep()) || !mini_fault(&mini, test->fault)) {
        return;
    }
    bool hangs = test->code == BATON_DEADLINE_EXCEEDED;
    uint64_t began = baton_clock_monotonic_ns();
    struct baton_status st = test->run(rig, began + (hangs ? SHORT_NS : rig->call_ns));
    rig_check(st.reason == test->reason && (!hangs || st.code == test->code), test->fault,
              "%s %s: %s", baton_code_name(st.code), baton_reason_name(st.reason), st.message);
    rig_check(baton_clock_monotonic_ns() - began < LATE_NS, test->fault, "came back late");
}

static void operations(void)
{
    for (size_t i = 0; i < sizeof OPERATIONS / sizeof OPERATIONS[0]; i++) {
        (void)printf("# %s: %s\n", OPERATIONS[i].name, OPERATIONS[i].fault);
        if (mini_start(&mini, &programs, &scratch, "2")) {
            operation_run(&OPERATIONS[i]);
        }
        mini_stop(&mini);
    }
}

/* A channel that is already out of step is seen before anything is paused. */
static void out_of_step_before(void)
{
    struct rig *rig = &mini.rig;
    struct engine_facts facts;
    if (mini_start(&mini, &programs, &scratch, "2") && pause_keep() &&
        mini_fault(&mini, "{\"kind\":\"raise\",\"phase\":\"start\"}")) {
        struct engine_update update = { 0 };
        rig->fence.step++;
        (void)update_to(&rig->b, rig->call_ns, &update);
        rig_check(!update.in_step, "a raised error is seen", "%s", update.error_code);
        struct baton_status st = do_pause(rig, rig_deadline(rig));
        rig_check(st.reason == BATON_REASON_ENGINE_LIED, "no pause after it", "%s", st.message);
        st = rig->adapter->attach(rig->engine, rig_deadline(rig), &facts);
        rig_check(baton_ok(&st) && facts.way_in == ENGINE_WAY_IN_NONE, "and no way in", "%s",
                  facts.way_in_reason);
    }
    mini_stop(&mini);
}

static void *abort_soon(void *self)
{
    struct rig *rig = self;
    baton_clock_sleep_ns(SHORT_NS);
    rig->adapter->abort(rig->engine);
    return NULL;
}

static void aborts(void)
{
    pthread_t thread;
    if (mini_start(&mini, &programs, &scratch, "1") &&
        mini_fault(&mini, "{\"kind\":\"hang\",\"phase\":\"pause\"}") &&
        pthread_create(&thread, NULL, abort_soon, &mini.rig) == 0) {
        struct baton_status st =
            do_pause(&mini.rig, baton_clock_monotonic_ns() + 3600 * BATON_NS_PER_S);
        rig_check(st.code == BATON_CANCELLED, "abort ends a hanging pause", "%s", st.message);
        (void)pthread_join(thread, NULL);
    }
    mini_stop(&mini);
}

/* A killed engine that is started again boots shut and is another incarnation; an order to open the one
 * before opens nothing. */
static void restarts(void)
{
    struct engine_gate_state state;
    if (mini_start(&mini, &programs, &scratch, "2")) {
        struct engine_facts facts = mini.rig.facts;
        struct engine_gate_order order = { .gate = GUARD_GATE_OPEN,
                                           .version = 1,
                                           .boots = facts.boots };
        struct baton_status st =
            mini.rig.adapter->set_gate(mini.rig.engine, &order, rig_deadline(&mini.rig), &state);
        rig_check_ok(&st, "gate opens");
        mini_stop(&mini);
        if (mini_start(&mini, &programs, &scratch, "2")) {
            rig_check(mini.rig.facts.gate == GUARD_GATE_SHUT && mini.rig.facts.boots > facts.boots,
                      "boots shut", "gate %d", mini.rig.facts.gate);
            rig_check(strcmp(mini.rig.facts.incarnation, facts.incarnation) != 0,
                      "another incarnation", "%s", facts.incarnation);
            st = mini.rig.adapter->set_gate(mini.rig.engine, &order, rig_deadline(&mini.rig),
                                            &state);
            rig_check(st.code == BATON_ABORTED && state.gate == GUARD_GATE_SHUT,
                      "the old order opens nothing", "%s", st.message);
        }
    }
    mini_stop(&mini);
}

static bool gate_to(enum guard_gate gate, uint64_t version, bool salt)
{
    struct engine_gate_state state;
    struct engine_gate_order order = { .gate = gate,
                                       .version = version,
                                       .boots = mini.rig.facts.boots,
                                       .hold_max = 16,
                                       .hold_ms = 1000,
                                       .salt = salt };
    struct baton_status st =
        mini.rig.adapter->set_gate(mini.rig.engine, &order, rig_deadline(&mini.rig), &state);
    return rig_check_ok(&st, "gate") && rig_check(state.salt == salt, "gate", "salt is read back");
}

/* Another version behind the gate; KV is dropped only where 'resets'. */
static bool swap_kv(const struct rig_version *version, uint64_t seq, bool salt, bool resets)
{
    struct rig *rig = &mini.rig;
    struct engine_update update = { 0 };
    struct baton_status st = rig->adapter->warm(rig->engine, rig_deadline(rig));
    bool good =
        rig_check_ok(&st, "warm") && gate_to(GUARD_GATE_HOLD, seq - 1, salt) && rig_fence(rig);
    st = rig->adapter->pause(rig->engine, ENGINE_IN_FLIGHT_KEEP, false, rig_deadline(rig));
    good = rig_check_ok(&st, "pause") && good;
    (void)update_to(version, rig->call_ns, &update);
    good = rig_check(update.ok, "update", "%s", update.error_code) && good;
    st = resets ? do_invalidate(rig, rig_deadline(rig)) : baton_status_ok();
    good = rig_check_ok(&st, "invalidate") && good && gate_to(GUARD_GATE_HOLD, seq, salt);
    st = do_resume(rig, rig_deadline(rig));
    return rig_check_ok(&st, "resume") && good;
}

/* KV of other weights is found out by what it does to answers, whatever the engine says; under the
 * salt of its version a request never finds any. */
static void caches(void)
{
    struct rig *rig = &mini.rig;
    if (mini_start(&mini, &programs, &scratch, "2") && gate_to(GUARD_GATE_OPEN, 1, false) &&
        mini_fault(&mini, "{\"kind\":\"lie\",\"phase\":\"reset\"}") &&
        swap_kv(&rig->b, 2, false, true)) {
        struct baton_status st = do_probe(rig, rig_deadline(rig));
        rig_check(st.reason == BATON_REASON_ENGINE_LIED, "a reset that lied", "%s", st.message);
        st = do_pause(rig, rig_deadline(rig));
        rig_check_ok(&st, "pause, and caches are cleared with it");
        st = do_resume(rig, rig_deadline(rig));
        rig_check_ok(&st, "resume");
        st = do_probe(rig, rig_deadline(rig));
        rig_check_ok(&st, "nothing old is left");
        if (gate_to(GUARD_GATE_OPEN, 2, true) && swap_kv(&rig->a, 3, true, false)) {
            st = do_probe(rig, rig_deadline(rig));
            rig_check_ok(&st, "salted: old KV is there and not found");
            (void)gate_to(GUARD_GATE_HOLD, 3, false);
            st = do_probe(rig, rig_deadline(rig));
            rig_check(st.reason == BATON_REASON_ENGINE_LIED, "without the salt it is", "%s",
                      st.message);
        }
    }
    mini_stop(&mini);
}

static void conformance(const char *program, const char *ranks)
{
    char command[8 * BATON_PATH_BYTES];
    (void)printf("# conformance, %s ranks\n", ranks);
    if (mini_start(&mini, &programs, &scratch, ranks)) {
        const struct rig *rig = &mini.rig;
        (void)snprintf(command, sizeof command,
                       "'%s' --url %s --page %s --token %s --landing-a %s --landing-b %s", program,
                       rig->options.url, rig->options.guard_page, rig->options.token_file,
                       rig->a.landing, rig->b.landing);
        int code = system(command); /* NOLINT: a test's own words. */
        rig_check(code == 0, "conformance", "%s ranks: exit %d", ranks, code);
    }
    mini_stop(&mini);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        (void)fprintf(stderr, "usage: %s MINIENGINE SEAL VERSION_A VERSION_B CONFORMANCE\n",
                      argv[0]);
        return 2;
    }
    programs = (struct mini_programs){ argv[1], argv[2], argv[3], argv[4] };
    if (mini_scratch_make(&programs, &scratch)) {
        conformance(argv[5], "1");
        conformance(argv[5], "2");
        updates();
        loses();
        slow();
        wakes_up();
        operations();
        out_of_step_before();
        aborts();
        restarts();
        caches();
    }
    mini_scratch_drop(&scratch);
    (void)printf("%u failed\n", rig_failures());
    return rig_failures() == 0 ? 0 : 1;
}
