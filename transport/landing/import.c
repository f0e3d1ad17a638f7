/* import.c -- whole checkpoint directories, and partial ones over a parent, into a root. */
#include "transport/landing/directory_source.h"

/* Runs all of a job and seals it. */
static struct baton_status run_and_seal(struct job *job)
{
    struct baton_status st = job_run(job, 0, job->items_count);
    return baton_ok(&st) ? job_seal(job, NULL) : st;
}

static struct baton_status import(struct landing_root *root, const struct directory_source *source,
                                  struct manifest *manifest, const struct landing_options *options,
                                  struct landing_progress *progress)
{
    struct job *job = NULL;
    struct job_options job_options = { root, manifest, NULL, options, progress };
    struct baton_status st = job_create(&job_options, &job);
    if (!baton_ok(&st)) {
        return st;
    }
    job->origins[0] = directory_source_origin(source, job_timeout_ns(options));
    directory_source_place(source, job, 0);
    st = run_and_seal(job);
    job_destroy(job, false);
    return st;
}

struct baton_status landing_import_directory(struct landing_root *root, const char *dir,
                                             const struct landing_options *options,
                                             struct landing_progress *progress,
                                             struct manifest **out)
{
    struct directory_source source = { NULL, NULL };
    struct manifest *manifest = NULL;
    struct baton_status st = directory_source_open(dir, CHECKPOINT_WHOLE, &source);
    if (!baton_ok(&st)) {
        return st;
    }
    st = checkpoint_to_manifest(source.checkpoint, &manifest);
    if (baton_ok(&st)) {
        st = import(root, &source, manifest, options, progress);
    }
    directory_source_close(&source);
    if (!baton_ok(&st)) {
        manifest_destroy(manifest);
        return baton_status_in(st, "import %.150s", dir);
    }
    *out = manifest;
    return st;
}

/* What parent and partial directory give together. */
struct composition {
    struct directory_source parent;
    struct directory_source partial;
    struct manifest *parent_manifest;
    struct manifest *partial_manifest;
    struct manifest *whole;
};

static struct baton_status open_composition(const char *parent_dir, const char *partial_dir,
                                            struct composition *c)
{
    struct baton_status st = directory_source_open(partial_dir, CHECKPOINT_PARTIAL, &c->partial);
    if (baton_ok(&st)) {
        st = checkpoint_to_manifest(c->partial.checkpoint, &c->partial_manifest);
    }
    if (baton_ok(&st)) {
        st = directory_source_open(parent_dir, CHECKPOINT_PARTIAL, &c->parent);
    }
    if (baton_ok(&st)) {
        st = directory_source_manifest(parent_dir, &c->parent_manifest);
    }
    if (baton_ok(&st)) {
        st = manifest_merge(c->parent_manifest, c->partial_manifest, &c->whole);
    }
    return st;
}

static void close_composition(struct composition *c)
{
    directory_source_close(&c->parent);
    directory_source_close(&c->partial);
    manifest_destroy(c->parent_manifest);
    manifest_destroy(c->partial_manifest);
    manifest_destroy(c->whole);
}

/* What is inherited must have the parent's digests; what is new gets its own. */
static void expect_parent(const struct composition *c, struct job *job)
{
    size_t tensors = job->manifest->tensors_count;
    for (size_t i = 0; i < job->items_count; i++) {
        struct job_item *item = &job->items[i];
        bool is_new = i < tensors ? manifest_find_tensor(c->partial_manifest, item->name) != NULL
                                  : manifest_find_file(c->partial_manifest, item->name) != NULL;
        item->has_digest = !is_new;
        item->digest = i < tensors ? job->manifest->tensors[i].digest
                                   : job->manifest->files[i - tensors].digest;
    }
}

static struct baton_status compose(struct landing_root *root, struct composition *c,
                                   const struct landing_options *options,
                                   struct landing_progress *progress)
{
    struct job *job = NULL;
    struct job_options job_options = { root, c->whole, NULL, options, progress };
    struct baton_status st = job_create(&job_options, &job);
    if (!baton_ok(&st)) {
        return st;
    }
    job->origins[0] = directory_source_origin(&c->parent, job_timeout_ns(options));
    job->origins[1] = directory_source_origin(&c->partial, job_timeout_ns(options));
    directory_source_place(&c->parent, job, 0);
    directory_source_place(&c->partial, job, 1);
    expect_parent(c, job);
    st = run_and_seal(job);
    job_destroy(job, false);
    return st;
}

struct baton_status landing_compose(struct landing_root *root, const char *parent_dir,
                                    const char *partial_dir, const struct landing_options *options,
                                    struct landing_progress *progress, struct manifest **out)
{
    struct composition c = { .parent = { NULL, NULL } };
    struct baton_status st = open_composition(parent_dir, partial_dir, &c);
    if (baton_ok(&st)) {
        st = compose(root, &c, options, progress);
    }
    if (baton_ok(&st)) {
        *out = c.whole;
        c.whole = NULL;
    }
    close_composition(&c);
    return baton_status_in(st, "compose %.120s", partial_dir);
}
