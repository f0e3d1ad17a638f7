/* watch_rolls.c -- how often a roll that runs is shown; see watch.h.
 *
 * It changes with each report of each of its groups and is as large as they are many, so what happens within
 * SHOW_MS is shown at once; and so that many readers of a large roll do not cost a processor, all that is
 * shown stays below SHOW_BYTES_PER_S.  What ends, pauses or begins a roll does not wait (watch.c).
 *
 * What waits was noted for resumed watches already.  Until it is shown, no message to watches of rolls names
 * a revision at or above it: who resumes from that message would miss it. */
#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "controller/shell/daemon.h"
#include "controller/shell/watch.h"

enum { SHOW_MS = 100, SHOW_BYTES_PER_S = 64 << 20 };

struct late_roll {
    bool waits;
    struct object_ref object;
    char model[BATON_NAME_BYTES];
    uint64_t since; /* Revision of its first change that was not shown. */
    uint64_t due_ns;
};

struct late_rolls {
    uint32_t count;
    struct late_roll items[BATON_MODELS_MAX];
};

static struct late_roll *find(const struct daemon *daemon, const char *model)
{
    struct late_rolls *rolls = daemon->late_rolls;
    for (uint32_t i = 0; rolls != NULL && i < rolls->count; i++) {
        if (strcmp(rolls->items[i].model, model) == 0) {
            return &rolls->items[i];
        }
    }
    return NULL;
}

/* Of a model that was never seen: a new one. */
static struct late_roll *get(struct daemon *daemon, const char *model)
{
    struct late_roll *found = find(daemon, model);
    if (found != NULL) {
        return found;
    }
    if (daemon->late_rolls == NULL) {
        daemon->late_rolls = calloc(1, sizeof(*daemon->late_rolls));
        baton_assert(daemon->late_rolls != NULL);
    }
    baton_assert(daemon->late_rolls->count < BATON_MODELS_MAX); /* Models are never removed. */
    found = &daemon->late_rolls->items[daemon->late_rolls->count++];
    (void)baton_text_copy(found->model, sizeof(found->model), model);
    return found;
}

void watch_rolls_note(struct daemon *daemon, const struct object_ref *roll, const char *model,
                      uint64_t revision)
{
    if (!watch_has(daemon, OBJECT_ROLL, model)) {
        return;
    }
    struct late_roll *late = get(daemon, model);
    late->since = late->waits ? late->since : revision;
    late->waits = true;
    late->object = *roll;
}

void watch_rolls_forget(struct daemon *daemon, const char *model)
{
    struct late_roll *late = find(daemon, model);
    if (late != NULL) {
        late->waits = false;
    }
}

uint64_t watch_rolls_shown(const struct daemon *daemon)
{
    const struct late_rolls *rolls = daemon->late_rolls;
    uint64_t shown = UINT64_MAX;
    for (uint32_t i = 0; rolls != NULL && i < rolls->count; i++) {
        const struct late_roll *late = &rolls->items[i];
        shown = late->waits && late->since - 1 < shown ? late->since - 1 : shown;
    }
    return shown;
}

uint64_t watch_rolls_deadline_ns(const struct daemon *daemon)
{
    const struct late_rolls *rolls = daemon->late_rolls;
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; rolls != NULL && i < rolls->count; i++) {
        const struct late_roll *late = &rolls->items[i];
        first = late->waits && late->due_ns < first ? late->due_ns : first;
    }
    return first;
}

static void show(struct daemon *daemon, struct late_roll *late, uint64_t now_ns)
{
    late->waits = false; /* Before what may be named is asked. */
    uint64_t shown = watch_rolls_shown(daemon);
    uint64_t revision = view_revision(daemon->core);
    size_t bytes =
        watch_show(daemon, &late->object, late->model, shown < revision ? shown : revision);
    uint64_t fair_ns = (uint64_t)bytes * BATON_NS_PER_S / SHOW_BYTES_PER_S;
    uint64_t least_ns = SHOW_MS * BATON_NS_PER_MS;
    late->due_ns = now_ns + (fair_ns > least_ns ? fair_ns : least_ns);
}

void watch_rolls_run(struct daemon *daemon)
{
    struct late_rolls *rolls = daemon->late_rolls;
    if (rolls == NULL || daemon->core == NULL || daemon->rebuild) {
        return;
    }
    uint64_t now_ns = baton_clock_monotonic_ns();
    for (uint32_t i = 0; i < rolls->count; i++) {
        if (rolls->items[i].waits && now_ns >= rolls->items[i].due_ns) {
            show(daemon, &rolls->items[i], now_ns);
        }
    }
}
