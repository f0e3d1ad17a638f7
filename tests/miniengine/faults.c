/* faults.c -- see faults.h. */
#include "tests/miniengine/faults.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A slot is written before 'id' is set and only read while 'id' is not zero. */
struct slot {
    _Atomic uint32_t id;
    uint32_t kind;
    uint32_t phase;
    int32_t rank;
    int32_t tensor;
    uint32_t sticky;
    uint32_t serves;
    uint64_t ms;            /* UINT64_MAX: until cleared. */
    _Atomic uint64_t fired; /* One bit a rank. */
};

struct faults_table {
    atomic_flag writer;
    uint32_t ids;
    struct slot slots[FAULTS_MAX];
};

static const char *const kind_names[FAULT_KINDS] = { "fail",   "hang",  "die",  "lie", "lose",
                                                     "poison", "raise", "late", "slow" };
static const char *const phase_names[FAULT_PHASES] = { "pause",    "start", "stage", "apply",
                                                       "readback", "reset", "label", "resume",
                                                       "probe",    "sleep", "step" };

static void sleep_ms(uint64_t ms)
{
    struct timespec wait = { .tv_sec = (time_t)(ms / 1000),
                             .tv_nsec = (long)(ms % 1000) * 1000000L };
    (void)nanosleep(&wait, NULL);
}

bool faults_create(struct faults *faults)
{
    int fd = memfd_create("miniengine-faults", 0);
    if (fd < 0) {
        return false;
    }
    if (ftruncate(fd, (off_t)sizeof(struct faults_table)) != 0 || !faults_attach(faults, fd)) {
        close(fd);
        return false;
    }
    return true;
}

bool faults_attach(struct faults *faults, int fd)
{
    void *memory =
        mmap(NULL, sizeof(struct faults_table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    faults->table = memory;
    faults->fd = fd;
    return true;
}

void faults_destroy(struct faults *faults)
{
    if (faults->table != NULL) {
        (void)munmap(faults->table, sizeof *faults->table);
        close(faults->fd);
    }
    memset(faults, 0, sizeof *faults);
}

/* Held for microseconds, by HTTP threads of one process only. */
static void writer_enter(struct faults_table *table)
{
    while (atomic_flag_test_and_set(&table->writer)) {
        sleep_ms(1);
    }
}

static void writer_leave(struct faults_table *table)
{
    atomic_flag_clear(&table->writer);
}

static bool name_index(const json_t *object, const char *field, const char *const *names,
                       uint32_t *index)
{
    const char *name = json_string_value(json_object_get(object, field));
    for (*index = 0; name != NULL && names[*index] != NULL; ++*index) {
        if (strcmp(names[*index], name) == 0) {
            return true;
        }
    }
    return false;
}

/* An optional whole number of [min, max]. */
static bool read_number(const json_t *object, const char *field, int64_t min, int64_t max,
                        int64_t *value)
{
    const json_t *number = json_object_get(object, field);
    if (number == NULL) {
        return true;
    }
    *value = json_integer_value(number);
    return json_is_integer(number) && *value >= min && *value <= max;
}

static const char *default_phase(uint32_t kind)
{
    return kind == FAULT_FAIL || kind == FAULT_LOSE || kind == FAULT_POISON || kind == FAULT_DIE
               ? "apply"
               : NULL;
}

static bool parse_names(const json_t *object, struct slot *slot)
{
    const char *kinds[FAULT_KINDS + 1] = { NULL };
    const char *phases[FAULT_PHASES + 1] = { NULL };
    memcpy(kinds, kind_names, sizeof kind_names);
    memcpy(phases, phase_names, sizeof phase_names);
    if (!name_index(object, "kind", kinds, &slot->kind)) {
        return false;
    }
    if (json_object_get(object, "phase") == NULL &&
        (default_phase(slot->kind) != NULL || slot->kind == FAULT_LATE)) {
        slot->phase = FAULT_APPLY;
        return true;
    }
    return name_index(object, "phase", phases, &slot->phase);
}

#define PHASE(name) (1U << (FAULT_##name))

/* Where each kind is asked for; elsewhere it would never fire. */
static const uint32_t phases_of[FAULT_KINDS] = {
    [FAULT_FAIL] = PHASE(STAGE) | PHASE(APPLY),
    [FAULT_HANG] = (1U << FAULT_PHASES) - 1,
    [FAULT_DIE] = (1U << FAULT_PHASES) - 1,
    [FAULT_LIE] = ((1U << FAULT_PHASES) - 1) & ~(PHASE(PROBE) | PHASE(STEP)),
    [FAULT_LOSE] = PHASE(APPLY),
    [FAULT_POISON] = PHASE(APPLY),
    [FAULT_RAISE] = PHASE(PAUSE) | PHASE(START) | PHASE(STAGE) | PHASE(APPLY),
    [FAULT_LATE] = PHASE(PAUSE) | PHASE(START) | PHASE(STAGE) | PHASE(APPLY) | PHASE(READBACK),
    [FAULT_SLOW] = (1U << FAULT_PHASES) - 1,
};

/* These never reach another rank than 0 in a server either. */
static bool is_local(uint32_t phase)
{
    return ((1U << phase) & (PHASE(RESET) | PHASE(LABEL) | PHASE(RESUME))) != 0;
}

static bool takes_tensor(const struct slot *slot)
{
    return ((1U << slot->phase) & (PHASE(STAGE) | PHASE(APPLY))) != 0 &&
           (slot->kind == FAULT_FAIL || slot->kind == FAULT_HANG || slot->kind == FAULT_DIE ||
            slot->kind == FAULT_SLOW);
}

/* Refuses what could never fire. */
static bool check_place(const struct slot *slot, uint32_t ranks, struct trouble *why)
{
    const char *kind = kind_names[slot->kind];
    const char *phase = phase_names[slot->phase];
    if (((1U << slot->phase) & phases_of[slot->kind]) == 0) {
        return trouble_set(why, "BAD_REQUEST", NULL, "%s is not possible in phase %s", kind, phase);
    }
    if (is_local(slot->phase) && slot->rank > 0) {
        return trouble_set(why, "BAD_REQUEST", NULL, "phase %s runs in rank 0 only", phase);
    }
    if (slot->tensor != FAULTS_ANY && !takes_tensor(slot)) {
        return trouble_set(why, "BAD_REQUEST", NULL, "%s in phase %s takes no 'tensor'", kind,
                           phase);
    }
    if (slot->kind == FAULT_LATE && (slot->rank == 0 || ranks < 2)) {
        return trouble_set(why, "BAD_REQUEST", NULL,
                           "only ranks above 0 answer late; this engine has %u", ranks);
    }
    return true;
}

static bool parse(const json_t *object, uint32_t ranks, struct slot *slot, struct trouble *why)
{
    memset(slot, 0, sizeof *slot);
    if (!json_is_object(object) || !parse_names(object, slot)) {
        return trouble_set(
            why, "BAD_REQUEST", NULL,
            "a fault needs 'kind' (fail hang die lie lose poison raise late slow) and "
            "'phase' (pause start stage apply readback reset label resume probe sleep step)");
    }
    int64_t rank = FAULTS_ANY;
    int64_t tensor = FAULTS_ANY;
    int64_t ms = 0;
    int64_t seconds = 0;
    if (!read_number(object, "rank", FAULTS_ANY, (int64_t)ranks - 1, &rank) ||
        !read_number(object, "tensor", FAULTS_ANY, 1 << 20, &tensor) ||
        !read_number(object, "ms", 0, 86400000, &ms) ||
        !read_number(object, "seconds", 0, 86400, &seconds)) {
        return trouble_set(why, "BAD_REQUEST", NULL,
                           "'rank', 'tensor', 'ms' and 'seconds' are whole numbers in range");
    }
    ms += seconds * 1000;
    slot->rank = (int32_t)rank;
    slot->tensor = (int32_t)tensor;
    slot->ms = ms == 0 && slot->kind == FAULT_HANG ? UINT64_MAX : (uint64_t)ms;
    slot->sticky = json_is_true(json_object_get(object, "sticky")) ? 1 : 0;
    slot->serves = json_is_true(json_object_get(object, "serves")) ? 1 : 0;
    return check_place(slot, ranks, why);
}

static bool store(struct faults_table *table, const struct slot *parsed)
{
    for (size_t i = 0; i < FAULTS_MAX; i++) {
        struct slot *slot = &table->slots[i];
        if (atomic_load(&slot->id) != 0) {
            continue;
        }
        slot->kind = parsed->kind;
        slot->phase = parsed->phase;
        slot->rank = parsed->rank;
        slot->tensor = parsed->tensor;
        slot->sticky = parsed->sticky;
        slot->serves = parsed->serves;
        slot->ms = parsed->ms;
        atomic_store(&slot->fired, 0);
        atomic_store(&slot->id, ++table->ids);
        return true;
    }
    return false;
}

static size_t room(const struct faults_table *table)
{
    size_t free_slots = 0;
    for (size_t i = 0; i < FAULTS_MAX; i++) {
        free_slots += atomic_load(&table->slots[i].id) == 0 ? 1U : 0U;
    }
    return free_slots;
}

bool faults_add(struct faults *faults, const json_t *wanted, uint32_t ranks, struct trouble *why)
{
    size_t count = json_is_array(wanted) ? json_array_size(wanted) : 1;
    struct slot parsed[FAULTS_MAX];
    if (count > FAULTS_MAX) {
        return trouble_set(why, "BAD_REQUEST", NULL, "at most %d faults", FAULTS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *object = json_is_array(wanted) ? json_array_get(wanted, i) : wanted;
        if (!parse(object, ranks, &parsed[i], why)) {
            return false;
        }
    }
    writer_enter(faults->table);
    bool fits = room(faults->table) >= count;
    for (size_t i = 0; fits && i < count; i++) {
        fits = store(faults->table, &parsed[i]);
    }
    writer_leave(faults->table);
    return fits || trouble_set(why, "BAD_REQUEST", NULL,
                               "the table of %d faults is full; DELETE clears it", FAULTS_MAX);
}

static json_t *slot_json(const struct slot *slot)
{
    json_t *fired = json_array();
    uint64_t bits = atomic_load(&slot->fired);
    for (int rank = 0; rank < 64; rank++) {
        if ((bits >> rank & 1U) != 0) {
            (void)json_array_append_new(fired, json_integer(rank));
        }
    }
    return json_pack("{s:I, s:s, s:s, s:i, s:i, s:I, s:b, s:b, s:o}", "id",
                     (json_int_t)atomic_load(&slot->id), "kind", kind_names[slot->kind], "phase",
                     phase_names[slot->phase], "rank", slot->rank, "tensor", slot->tensor, "ms",
                     slot->ms == UINT64_MAX ? (json_int_t)-1 : (json_int_t)slot->ms, "sticky",
                     (int)slot->sticky, "serves", (int)slot->serves, "fired", fired);
}

json_t *faults_list(const struct faults *faults)
{
    json_t *list = json_array();
    for (size_t i = 0; i < FAULTS_MAX; i++) {
        if (atomic_load(&faults->table->slots[i].id) != 0) {
            (void)json_array_append_new(list, slot_json(&faults->table->slots[i]));
        }
    }
    return json_pack("{s:o}", "faults", list);
}

void faults_clear(struct faults *faults)
{
    writer_enter(faults->table);
    for (size_t i = 0; i < FAULTS_MAX; i++) {
        atomic_store(&faults->table->slots[i].id, 0);
    }
    writer_leave(faults->table);
}

static bool matches(const struct slot *slot, enum fault_kind kind, struct fault_place place)
{
    return slot->kind == (uint32_t)kind && slot->phase == (uint32_t)place.phase &&
           (slot->rank == FAULTS_ANY || slot->rank == place.rank) && slot->tensor == place.tensor;
}

bool faults_take(struct faults *faults, enum fault_kind kind, struct fault_place place,
                 struct fault_hit *hit)
{
    for (size_t i = 0; faults->table != NULL && i < FAULTS_MAX; i++) {
        struct slot *slot = &faults->table->slots[i];
        uint32_t id = atomic_load(&slot->id);
        if (id == 0 || !matches(slot, kind, place)) {
            continue;
        }
        uint64_t bit = UINT64_C(1) << ((uint32_t)place.rank & 63U);
        bool again = (atomic_fetch_or(&slot->fired, bit) & bit) != 0;
        if (again && slot->sticky == 0) {
            continue;
        }
        *hit = (struct fault_hit){ .id = id, .ms = slot->ms, .serves = slot->serves != 0 };
        return true;
    }
    return false;
}

static bool is_set(const struct faults *faults, uint32_t id)
{
    for (size_t i = 0; i < FAULTS_MAX; i++) {
        if (atomic_load(&faults->table->slots[i].id) == id) {
            return true;
        }
    }
    return false;
}

static void hang(struct faults *faults, struct fault_hit hit)
{
    enum { STEP_MS = 5 };
    for (uint64_t waited = 0; waited < hit.ms && is_set(faults, hit.id); waited += STEP_MS) {
        sleep_ms(STEP_MS);
    }
}

void faults_pass(struct faults *faults, struct fault_place place)
{
    struct fault_hit hit;
    if (faults_take(faults, FAULT_SLOW, place, &hit)) {
        sleep_ms(hit.ms);
    }
    if (faults_take(faults, FAULT_HANG, place, &hit)) {
        hang(faults, hit);
    }
    if (faults_take(faults, FAULT_DIE, place, &hit)) {
        faults->die(faults->die_self);
    }
}
