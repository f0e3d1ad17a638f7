/* watch.c -- see watch.h. */
#include "controller/shell/watch.h"

#include <stdlib.h>
#include <string.h>

#include "api/base/clock.h"
#include "api/wire/wire.h"
#include "controller/shell/daemon.h"
#include "controller/shell/endpoints.h"
#include "controller/shell/render.h"
#include "controller/shell/summaries.h"

/* One answer of a watch; all four response messages have these three fields. */
struct change {
    int type; /* WatchEventType. */
    uint64_t revision;
    void *object; /* A part of 'root', or null for a bookmark. */
};

enum { TYPE_ADDED = 1, TYPE_MODIFIED, TYPE_DELETED, TYPE_BOOKMARK };

#define RESPONSE(upper, lower, member)                                                             \
    do {                                                                                           \
        Baton__V1__Watch##upper##Response *m =                                                     \
            baton_wire_new(&baton__v1__watch_##lower##_response__descriptor);                      \
        m->type = (Baton__V1__WatchEventType)change->type;                                         \
        m->revision = change->revision;                                                            \
        m->member = change->object;                                                                \
        return m;                                                                                  \
    } while (0)

/* Wraps a rendered object; the wrapper is a root of its own that only borrows the object. */
static void *wrap(enum object_kind kind, const struct change *change)
{
    switch (kind) {
    case OBJECT_MODEL: RESPONSE(Models, models, model);
    case OBJECT_VERSION: RESPONSE(Versions, versions, version);
    case OBJECT_ROLL: RESPONSE(Rolls, rolls, roll);
    case OBJECT_GROUP: RESPONSE(Groups, groups, group);
    case OBJECT_NONE:
    case OBJECT_AGENT: break;
    }
    return NULL;
}

static bool send_change(struct watcher *watcher, const struct change *change)
{
    void *message = wrap(watcher->kind, change);
    struct baton_status st = rpc_send(watcher->call, message);
    baton_wire_free(message);
    watcher->last_sent_ns = baton_clock_monotonic_ns();
    return baton_ok(&st);
}

static bool matches(const struct watcher *watcher, enum object_kind kind, const char *model)
{
    return watcher->kind == kind &&
           (watcher->filter[0] == '\0' || strcmp(watcher->filter, model) == 0);
}

/* --- the start of a watch --- */

static uint32_t count_of(const struct controller *core, enum object_kind kind)
{
    switch (kind) {
    case OBJECT_MODEL: return view_models_count(core);
    case OBJECT_VERSION: return view_versions_count(core);
    case OBJECT_ROLL: return view_rolls_count(core);
    case OBJECT_GROUP: return view_groups_count(core);
    case OBJECT_NONE:
    case OBJECT_AGENT: break;
    }
    return 0;
}

static struct object_ref ref_at(const struct controller *core, enum object_kind kind,
                                uint32_t index, const char **model)
{
    struct object_ref ref = { .kind = kind };
    if (kind == OBJECT_MODEL) {
        *model = view_model_at(core, index)->name;
        (void)baton_text_copy(ref.name, sizeof(ref.name), *model);
    } else if (kind == OBJECT_VERSION) {
        *model = view_version_at(core, index)->model;
        (void)baton_text_copy(ref.uid, sizeof(ref.uid), view_version_at(core, index)->uid);
    } else if (kind == OBJECT_ROLL) {
        *model = view_roll_at(core, index)->model;
        (void)baton_text_copy(ref.name, sizeof(ref.name), *model);
        ref.number = view_roll_at(core, index)->number;
    } else {
        *model = view_group_at(core, index)->model;
        (void)baton_text_copy(ref.name, sizeof(ref.name), view_group_at(core, index)->name);
    }
    return ref;
}

static bool send_all(struct daemon *daemon, struct watcher *watcher)
{
    uint32_t count = count_of(daemon->core, watcher->kind);
    for (uint32_t i = 0; i < count; i++) {
        const char *model = NULL;
        struct object_ref ref = ref_at(daemon->core, watcher->kind, i, &model);
        if (!matches(watcher, watcher->kind, model)) {
            continue;
        }
        struct change change = { TYPE_ADDED, 0, render_object(daemon->core, &ref) };
        bool sent = send_change(watcher, &change);
        baton_wire_free(change.object);
        if (!sent) {
            return false;
        }
    }
    return true;
}

/* The object as it is now; of a deleted one what names it.  Null: a later entry deletes it. */
static void *render_past(const struct controller *core, const struct past_change *past)
{
    return past->change == CHANGE_DELETED ? render_gone(&past->object, past->model)
                                          : render_object(core, &past->object);
}

/* What changed after 'revision'. */
static bool send_past(struct daemon *daemon, struct watcher *watcher, uint64_t revision)
{
    uint64_t kept =
        daemon->past_count < DAEMON_PAST_CHANGES ? daemon->past_count : DAEMON_PAST_CHANGES;
    for (uint64_t i = daemon->past_count - kept; i < daemon->past_count; i++) {
        const struct past_change *past = &daemon->past[i % DAEMON_PAST_CHANGES];
        if (past->revision <= revision || !matches(watcher, past->object.kind, past->model)) {
            continue;
        }
        struct change change = { (int)past->change, past->revision,
                                 render_past(daemon->core, past) };
        bool sent = change.object == NULL || send_change(watcher, &change);
        baton_wire_free(change.object);
        if (!sent) {
            return false;
        }
    }
    return true;
}

static uint64_t oldest_revision(const struct daemon *daemon)
{
    if (daemon->past_count <= DAEMON_PAST_CHANGES) {
        return daemon->past_base;
    }
    return daemon->past[daemon->past_count % DAEMON_PAST_CHANGES].revision;
}

bool watch_covers(const struct daemon *daemon, uint64_t revision)
{
    return revision <= view_revision(daemon->core) && revision >= oldest_revision(daemon);
}

static struct baton_status check_revision(const struct daemon *daemon, uint64_t revision)
{
    if (revision > view_revision(daemon->core)) {
        return baton_status_hint(
            baton_status_make(
                BATON_OUT_OF_RANGE, BATON_REASON_COMPACTED,
                "from_revision: %llu is above the store's, %llu: it is of another store",
                (unsigned long long)revision, (unsigned long long)view_revision(daemon->core)),
            "list again and watch from the list's revision");
    }
    if (revision == 0 || revision >= oldest_revision(daemon)) {
        return baton_status_ok();
    }
    return baton_status_hint(
        baton_status_make(BATON_OUT_OF_RANGE, BATON_REASON_COMPACTED,
                          "from_revision: changes since %llu are gone, the oldest kept is %llu",
                          (unsigned long long)revision,
                          (unsigned long long)oldest_revision(daemon)),
        "list again and watch from the list's revision");
}

static bool send_bookmark(struct daemon *daemon, struct watcher *watcher)
{
    struct change change = { TYPE_BOOKMARK, view_revision(daemon->core), NULL };
    return send_change(watcher, &change);
}

static void send_late_bookmark(struct daemon *daemon, struct watcher *watcher)
{
    uint64_t shown = watch_rolls_shown(daemon);
    if (watcher->kind != OBJECT_ROLL || shown >= view_revision(daemon->core)) {
        (void)send_bookmark(daemon, watcher);
    }
}

static struct baton_status check_request(const struct daemon *daemon,
                                         const struct watch_request *request)
{
    if (strlen(request->filter) >= BATON_NAME_BYTES) {
        return rpc_status_field(request->kind == OBJECT_MODEL ? "name" : "model",
                                "longer than %d characters", BATON_NAME_BYTES - 1);
    }
    return check_revision(daemon, request->from_revision);
}

void watch_start(struct daemon *daemon, struct rpc_call *call, const struct watch_request *request)
{
    struct baton_status st = check_request(daemon, request);
    if (!baton_ok(&st)) {
        rpc_finish(call, &st);
        rpc_call_unref(call);
        return;
    }
    struct watcher *watcher = calloc(1, sizeof(*watcher));
    baton_assert(watcher != NULL);
    watcher->call = call;
    watcher->kind = request->kind;
    (void)baton_text_copy(watcher->filter, sizeof(watcher->filter), request->filter);
    watcher->next = daemon->watchers;
    daemon->watchers = watcher;
    bool sent = request->from_revision == 0 ? send_all(daemon, watcher)
                                            : send_past(daemon, watcher, request->from_revision);
    if (sent) {
        (void)send_bookmark(daemon, watcher);
    }
}

/* --- changes --- */

static const char *model_of(const struct action_changed *changed)
{
    switch (changed->record.kind) {
    case RECORD_MODEL: return ((const struct model_record *)changed->record.body)->name;
    case RECORD_VERSION: return ((const struct version_record *)changed->record.body)->model;
    case RECORD_ROLL: return ((const struct roll_record *)changed->record.body)->model;
    case RECORD_GROUP: return ((const struct group_record *)changed->record.body)->model;
    case RECORD_CLUSTER:
    case RECORD_AGENT:
    case RECORD_REQUEST:
    case RECORD_STALENESS:
    case RECORD_SWAP:
    case RECORD_SERIES:
    case RECORD_SESSION_LEASE:
    case RECORD_SLOT_LEASE:
    case RECORD_KINDS_END: break;
    }
    return "";
}

/* A deleted object is gone from the view; its record still tells all that is left of it. */
static void *render_changed(const struct controller *core, const struct action_changed *changed)
{
    if (changed->change != CHANGE_DELETED) {
        return render_object(core, &changed->object);
    }
    switch (changed->record.kind) {
    case RECORD_VERSION: return render_version(core, changed->record.body, NULL);
    case RECORD_ROLL: return render_roll(core, changed->record.body, false, NULL);
    case RECORD_MODEL:
    case RECORD_GROUP:
    case RECORD_CLUSTER:
    case RECORD_AGENT:
    case RECORD_REQUEST:
    case RECORD_STALENESS:
    case RECORD_SWAP:
    case RECORD_SERIES:
    case RECORD_SESSION_LEASE:
    case RECORD_SLOT_LEASE:
    case RECORD_KINDS_END: break;
    }
    return NULL;
}

static void note_past(struct daemon *daemon, const struct object_ref *object, enum change_kind kind,
                      uint64_t revision, const char *model)
{
    struct past_change *past = &daemon->past[daemon->past_count++ % DAEMON_PAST_CHANGES];
    past->revision = revision;
    past->change = kind;
    past->object = *object;
    (void)baton_text_copy(past->model, sizeof(past->model), model);
}

/* Encoded once; gives the bytes that went out. */
static size_t send_to_watchers(struct daemon *daemon, enum object_kind kind, const char *model,
                               const struct change *change)
{
    size_t bytes = 0;
    void *message = wrap(kind, change);
    struct rpc_encoded *encoded = rpc_encode(message);
    uint64_t now_ns = baton_clock_monotonic_ns();
    for (struct watcher *w = daemon->watchers; w != NULL; w = w->next) {
        if (matches(w, kind, model)) {
            (void)rpc_send_encoded(w->call, encoded);
            w->last_sent_ns = now_ns;
            bytes += rpc_encoded_bytes(encoded);
        }
    }
    rpc_encoded_free(encoded);
    baton_wire_free(message);
    return bytes;
}

size_t watch_show(struct daemon *daemon, const struct object_ref *object, const char *model,
                  uint64_t revision)
{
    struct change change = { TYPE_MODIFIED, revision, render_object(daemon->core, object) };
    size_t bytes =
        change.object != NULL ? send_to_watchers(daemon, object->kind, model, &change) : 0;
    baton_wire_free(change.object);
    return bytes;
}

bool watch_has(const struct daemon *daemon, enum object_kind kind, const char *model)
{
    for (const struct watcher *w = daemon->watchers; w != NULL; w = w->next) {
        if (matches(w, kind, model)) {
            return true;
        }
    }
    return false;
}

/* A roll shows its groups, so it changes with them, though its record does not. */
static void changed_roll_of(struct daemon *daemon, const char *model)
{
    const struct model_record *record = view_model_find(daemon->core, model);
    if (record == NULL || record->active_roll == 0) {
        return;
    }
    struct object_ref object = { .kind = OBJECT_ROLL, .number = record->active_roll };
    uint64_t revision = view_revision(daemon->core);
    memcpy(object.name, record->name, sizeof(object.name));
    note_past(daemon, &object, CHANGE_MODIFIED, revision, model);
    watch_rolls_note(daemon, &object, model, revision);
}

void watch_step_ended(struct daemon *daemon)
{
    if (daemon->shown_again[0] != '\0' && !daemon->rebuild) {
        changed_roll_of(daemon, daemon->shown_again);
    }
    daemon->shown_again[0] = '\0';
    watch_rolls_run(daemon);
}

/* A step may change many groups of one roll: it is noted after the last of them. */
static void show_roll_again(struct daemon *daemon, const char *model)
{
    if (strcmp(daemon->shown_again, model) != 0) {
        if (daemon->shown_again[0] != '\0') {
            changed_roll_of(daemon, daemon->shown_again);
        }
        (void)baton_text_copy(daemon->shown_again, sizeof(daemon->shown_again), model);
    }
}

static bool is_running_roll(const struct action_changed *changed)
{
    const struct roll_record *roll = changed->record.body;
    return changed->change == CHANGE_MODIFIED && changed->record.kind == RECORD_ROLL &&
           roll->state == ROLL_STATE_PROGRESSING;
}

/* What may be said of it to watches of rolls. */
static uint64_t revision_of(const struct daemon *daemon, const struct action_changed *changed)
{
    uint64_t shown = watch_rolls_shown(daemon);
    bool cut = changed->object.kind == OBJECT_ROLL && shown < changed->revision;
    return cut ? shown : changed->revision;
}

void watch_changed(struct daemon *daemon, const struct action_changed *changed)
{
    const char *model = model_of(changed);
    enum object_kind kind = changed->object.kind;
    if (kind == OBJECT_NONE || kind == OBJECT_AGENT) {
        return;
    }
    note_past(daemon, &changed->object, changed->change, changed->revision, model);
    if (is_running_roll(changed)) {
        watch_rolls_note(daemon, &changed->object, model, changed->revision);
    } else if (watch_has(daemon, kind, model)) {
        if (kind == OBJECT_ROLL) {
            watch_rolls_forget(daemon, model);
        }
        struct change change = { (int)changed->change, revision_of(daemon, changed),
                                 render_changed(daemon->core, changed) };
        if (change.object != NULL) {
            (void)send_to_watchers(daemon, kind, model, &change);
        }
        baton_wire_free(change.object);
    }
    endpoints_changed(daemon);
    if (kind == OBJECT_GROUP) {
        show_roll_again(daemon, model);
    }
}

void watch_send_bookmarks(struct daemon *daemon, uint64_t now_ns, uint64_t silence_ns)
{
    for (struct watcher *w = daemon->watchers; w != NULL && daemon->core != NULL; w = w->next) {
        if (now_ns - w->last_sent_ns >= silence_ns) {
            send_late_bookmark(daemon, w);
        }
    }
}

/* --- the event log --- */

void watch_follow(struct daemon *daemon, struct rpc_call *call, const char *object)
{
    struct follower *follower = calloc(1, sizeof(*follower));
    baton_assert(follower != NULL);
    follower->call = call;
    (void)baton_text_copy(follower->object, sizeof(follower->object), object);
    follower->next = daemon->followers;
    daemon->followers = follower;
}

void watch_log(struct daemon *daemon, const struct log_entry *entry)
{
    void *message = NULL;
    for (struct follower *f = daemon->followers; f != NULL; f = f->next) {
        if (f->object[0] == '\0' || strcmp(f->object, entry->object) == 0) {
            message = message != NULL ? message : render_event(entry, NULL);
            (void)rpc_send(f->call, message);
        }
    }
    baton_wire_free(message);
}

/* --- the end --- */

void watch_end(struct daemon *daemon, struct rpc_call *call)
{
    for (struct watcher **at = &daemon->watchers; *at != NULL; at = &(*at)->next) {
        if ((*at)->call == call) {
            struct watcher *ended = *at;
            *at = ended->next;
            rpc_call_unref(ended->call);
            free(ended);
            return;
        }
    }
    for (struct follower **at = &daemon->followers; *at != NULL; at = &(*at)->next) {
        if ((*at)->call == call) {
            struct follower *ended = *at;
            *at = ended->next;
            rpc_call_unref(ended->call);
            free(ended);
            return;
        }
    }
}

void watch_end_all(struct daemon *daemon, const struct baton_status *status)
{
    while (daemon->watchers != NULL) {
        rpc_finish(daemon->watchers->call, status);
        watch_end(daemon, daemon->watchers->call);
    }
    endpoints_end_all(daemon, status);
    summaries_end_all(daemon, status);
    while (daemon->followers != NULL) {
        rpc_finish(daemon->followers->call, status);
        watch_end(daemon, daemon->followers->call);
    }
}
