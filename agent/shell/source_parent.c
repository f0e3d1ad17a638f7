/* source_parent.c -- the version that a publish inherits from. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/shell/source_work.h"
#include "baton/v1/versions.pb-c.h"

static bool is_usable(const Baton__V1__Source *place)
{
    return strcmp(place->backend, "file") == 0 && place->location[0] == '/' &&
           strpbrk(place->location, "\"\\") == NULL && access(place->location, R_OK | X_OK) == 0;
}

/* A directory that this agent can read: its own root's, or one that another agent shares. */
static bool find_directory(const struct source_work *work, const Baton__V1__Version *version,
                           struct source_parent *parent)
{
    struct landing_root *root = work->source->root;
    struct baton_status pinned = landing_pin(root, parent->digest);
    if (baton_ok(&pinned)) {
        parent->is_pinned = true;
        landing_path(root, parent->digest, parent->directory);
        return true;
    }
    for (size_t i = 0; i < version->n_sources; i++) {
        const Baton__V1__Source *place = version->sources[i];
        if (is_usable(place) &&
            baton_text_copy(parent->directory, sizeof(parent->directory), place->location)) {
            return true;
        }
    }
    return false;
}

static struct baton_status take_parent(const struct source_work *work,
                                       const Baton__V1__Version *version,
                                       struct source_parent *parent)
{
    parent->seq = version->seq;
    if (!digest_parse(version->digest, &parent->digest)) {
        return baton_status_make(BATON_INTERNAL, BATON_REASON_MALFORMED,
                                 "the controller gave version %s@%llu the digest '%.40s'",
                                 work->request->model, (unsigned long long)version->seq,
                                 version->digest);
    }
    if (find_directory(work, version, parent)) {
        return baton_status_ok();
    }
    struct baton_status st = baton_status_make(
        BATON_FAILED_PRECONDITION, BATON_REASON_IO,
        "version %s@%llu, to inherit from, lies in no directory that this agent can read",
        work->request->model, (unsigned long long)version->seq);
    return baton_status_hint(st, "Publish a whole checkpoint, or through agent %.63s",
                             version->n_sources > 0 ? version->sources[0]->agent : "(none)");
}

struct baton_status source_find_parent(struct source_work *work, uint64_t seq, bool is_required)
{
    Baton__V1__Version *version = NULL;
    struct baton_status st = source_find_version(work, seq, &version);
    if (st.code == BATON_NOT_FOUND && !is_required && seq == 0) {
        return baton_status_ok();
    }
    if (st.code == BATON_NOT_FOUND) {
        return baton_status_hint(baton_status_in(st, "parent of a partial version"),
                                 "Publish a whole version first");
    }
    if (baton_ok(&st)) {
        st = take_parent(work, version, &work->parent);
    }
    baton_wire_free(version);
    return st;
}

static void release(struct source_work *work, struct source_parent *parent)
{
    if (parent->is_pinned) {
        landing_unpin(work->source->root, parent->digest);
    }
    *parent = (struct source_parent){ 0 };
}

void source_release_parent(struct source_work *work)
{
    release(work, &work->parent);
}

void source_find_base(struct source_work *work)
{
    Baton__V1__Version *version = NULL;
    uint64_t seq = work->parent.seq != 0 ? work->parent.seq : work->request->parent_seq;
    struct baton_status st = source_find_version(work, seq, &version);
    if (baton_ok(&st)) {
        st = take_parent(work, version, &work->base);
    }
    if (!baton_ok(&st)) {
        work->base = (struct source_parent){ 0 };
    }
    baton_wire_free(version);
}

void source_release_base(struct source_work *work)
{
    release(work, &work->base);
}

struct baton_status source_load_parent(const struct source_parent *parent, struct manifest **out)
{
    char config[BATON_PATH_BYTES + 32];
    struct baton_writer text = baton_writer_of((uint8_t *)config, sizeof(config));
    baton_write_bytes(&text, baton_bytes_of("{\"directory\": \""));
    baton_write_bytes(&text, baton_bytes_of(parent->directory));
    baton_write_bytes(&text, baton_bytes_of("\"}"));
    baton_write_u8(&text, 0);
    baton_assert(baton_writer_ok(&text));
    struct landing_source from = { .backend = "file", .config = config };
    return landing_fetch_manifest(&from, &parent->digest, UINT64_C(30000000000), out);
}
