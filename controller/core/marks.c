/* marks.c -- what a step changed: marks on objects, lines of the log, sessions to close; uids. */
#include <string.h>

#include "controller/core/core.h"
#include "controller/core/text.h"
#include "controller/core/words.h"

enum { ORDER_DIGITS = 20, PLACE_DIGITS = 10 }; /* Of 2^64 - 1, of 2^32 - 1. */

/* Sorts below every character of a name. */
#define KEY_SEPARATOR '\001'

static struct marks *marks_of(struct controller *core, enum record_kind kind, void *object)
{
    switch (kind) {
    case RECORD_CLUSTER: return &core->cluster_marks;
    case RECORD_MODEL: return &((struct model *)object)->marks;
    case RECORD_VERSION: return &((struct version *)object)->marks;
    case RECORD_ROLL: return &((struct roll *)object)->marks;
    case RECORD_GROUP: return &((struct group *)object)->marks;
    case RECORD_AGENT: return &((struct agent *)object)->marks;
    case RECORD_REQUEST: return &((struct request_entry *)object)->marks;
    case RECORD_STALENESS: return &((struct staleness *)object)->marks;
    case RECORD_SWAP: return &((struct swap_entry *)object)->marks;
    case RECORD_SERIES: return &((struct series_chunk *)object)->marks;
    case RECORD_SESSION_LEASE: return &((struct session_lease *)object)->marks;
    case RECORD_SLOT_LEASE: return &((struct slot_lease *)object)->marks;
    case RECORD_KINDS_END: break;
    }
    baton_assert(false);
    return NULL;
}

static struct marks *mark(struct controller *core, enum record_kind kind, void *object)
{
    struct marks *marks = marks_of(core, kind, object);
    if (!marks->listed) {
        baton_assert(core->touched_count < core->touched_capacity);
        core->touched[core->touched_count] = (struct touched){ kind, object };
        core->touched_count++;
        marks->listed = true;
    }
    return marks;
}

void marks_put(struct controller *core, enum record_kind kind, void *object)
{
    struct marks *marks = mark(core, kind, object);
    marks->put = true;
    marks->changed = true;
}

void marks_change(struct controller *core, enum record_kind kind, void *object)
{
    mark(core, kind, object)->changed = true;
}

void marks_remove(struct controller *core, enum record_kind kind, void *object)
{
    mark(core, kind, object)->removed = true;
}

static struct log_entry *log_take(struct controller *core)
{
    size_t place = core->out.entries_count;
    if (place == core->entries_capacity) {
        return NULL; /* More than a line for every object in one step: the rest is noise. */
    }
    core->out.entries_count++;
    struct log_entry *entry = &core->entries[place];
    memset(entry, 0, sizeof(*entry));
    entry->number = core->log_next_number++;
    entry->wall_ns = core->wall_ns;
    return entry;
}

static void write_object(const struct object_ref *object, char *out, size_t out_bytes)
{
    const char *kind = words_get(&words_object_kind, object->kind);
    if (object->kind == OBJECT_ROLL) {
        text_format(out, out_bytes, "%s/%s-%llu", kind, object->name,
                    (unsigned long long)object->number);
    } else if (object->kind == OBJECT_VERSION && object->number != 0) {
        text_format(out, out_bytes, "%s/%s@%llu", kind, object->name,
                    (unsigned long long)object->number);
    } else if (object->kind == OBJECT_VERSION) {
        text_format(out, out_bytes, "%s/%s@%s", kind, object->name, object->uid);
    } else {
        text_format(out, out_bytes, "%s/%s", kind, object->name);
    }
}

static struct log_entry *log_start(struct controller *core, const struct object_ref *object,
                                   const char *reason)
{
    struct log_entry *entry = log_take(core);
    if (entry != NULL) {
        write_object(object, entry->object, sizeof(entry->object));
        text_copy(entry->reason, sizeof(entry->reason), reason);
    }
    return entry;
}

void log_add(struct controller *core, const struct object_ref *object, const char *reason,
             const char *by, const char *fmt, ...)
{
    struct log_entry *entry = log_start(core, object, reason);
    if (entry == NULL) {
        return;
    }
    text_copy(entry->by, sizeof(entry->by), by);
    va_list args;
    va_start(args, fmt);
    text_format_list(entry->message, sizeof(entry->message), fmt, args);
    va_end(args);
}

void log_warn(struct controller *core, const struct object_ref *object, const char *reason,
              const char *fmt, ...)
{
    struct log_entry *entry = log_start(core, object, reason);
    if (entry == NULL) {
        return;
    }
    entry->warning = true;
    va_list args;
    va_start(args, fmt);
    text_format_list(entry->message, sizeof(entry->message), fmt, args);
    va_end(args);
}

void log_foreign(struct controller *core, const struct agent_event *event, const char *by)
{
    struct log_entry *entry = log_take(core);
    if (entry == NULL) {
        return;
    }
    entry->warning = event->warning;
    text_copy(entry->object, sizeof(entry->object), event->object);
    text_copy(entry->reason, sizeof(entry->reason), event->reason);
    text_copy(entry->message, sizeof(entry->message), event->message);
    text_copy(entry->by, sizeof(entry->by), by);
}

void session_close(struct controller *core, uint64_t session, struct baton_status status)
{
    baton_assert(core->out.closes_count < core->limits.agents + 2);
    core->closes[core->out.closes_count] = (struct action_close){ session, status };
    core->out.closes_count++;
}

void uid_make(struct controller *core, char out[BATON_UID_TEXT_BYTES])
{
    text_format(out, BATON_UID_TEXT_BYTES, "%016llx%016llx",
                (unsigned long long)baton_random_u64(&core->uid_random[0]),
                (unsigned long long)baton_random_u64(&core->uid_random[1]));
}

void wake_at(struct controller *core, uint64_t at_ns)
{
    if (at_ns < core->wake_ns) {
        core->wake_ns = at_ns;
    }
}

void wake_first(struct controller *core, uint64_t *due_ns, uint64_t at_ns)
{
    *due_ns = at_ns < *due_ns ? at_ns : *due_ns;
    wake_at(core, at_ns);
}

bool wake_is_due(struct controller *core, uint64_t *due_ns)
{
    if (core->now_ns < *due_ns) {
        wake_at(core, *due_ns);
        return false;
    }
    *due_ns = UINT64_MAX;
    return true;
}

/* By hand, because every look at a group looks for its versions: formatting would be most of a step. */
static char *key_add(char *at, const char *end, const char *text)
{
    size_t length = strlen(text);
    baton_assert(length + 1 < (size_t)(end - at));
    memcpy(at, text, length);
    at[length] = KEY_SEPARATOR;
    return at + length + 1;
}

static char *digits_add(char *at, uint64_t number, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        at[i] = (char)('0' + number % 10);
        number /= 10;
    }
    return at + digits;
}

void order_key_write(char out[ORDER_KEY_BYTES], const char *model, uint64_t number, const char *uid)
{
    const char *end = out + ORDER_KEY_BYTES;
    char *at = key_add(out, end, model);
    baton_assert(end - at > ORDER_DIGITS + 1);
    at = digits_add(at, UINT64_MAX - number, ORDER_DIGITS); /* Newer comes first, and 0 last. */
    *at++ = KEY_SEPARATOR;
    key_add(at, end, uid)[-1] = '\0';
}

void order_key_write_turn(char out[ORDER_KEY_BYTES], const char *model, uint32_t place,
                          uint64_t lag, const char *name)
{
    const char *end = out + ORDER_KEY_BYTES;
    char *at = key_add(out, end, model);
    baton_assert(end - at > PLACE_DIGITS + ORDER_DIGITS);
    at = digits_add(at, place, PLACE_DIGITS);
    at = digits_add(at, UINT64_MAX - lag, ORDER_DIGITS);
    key_add(at, end, name)[-1] = '\0';
}

void order_key_write_name(char out[ORDER_KEY_BYTES], const char *model, const char *name)
{
    const char *end = out + ORDER_KEY_BYTES;
    char *at = key_add(out, end, model);
    key_add(at, end, name)[-1] = '\0';
}

static struct object_ref ref_of(enum object_kind kind, const char *name)
{
    struct object_ref ref = { .kind = kind };
    text_copy(ref.name, sizeof(ref.name), name);
    return ref;
}

struct object_ref ref_model(const struct model *model)
{
    return ref_of(OBJECT_MODEL, model->r.name);
}

struct object_ref ref_version(const struct version *version)
{
    struct object_ref ref = ref_of(OBJECT_VERSION, version->r.model);
    text_copy(ref.uid, sizeof(ref.uid), version->r.uid);
    ref.number = version->r.seq;
    return ref;
}

struct object_ref ref_roll(const struct roll *roll)
{
    struct object_ref ref = ref_of(OBJECT_ROLL, roll->r.model);
    ref.number = roll->r.number;
    return ref;
}

struct object_ref ref_group(const struct group *group)
{
    return ref_of(OBJECT_GROUP, group->r.name);
}

struct object_ref ref_agent(const struct agent *agent)
{
    return ref_of(OBJECT_AGENT, agent->r.name);
}
