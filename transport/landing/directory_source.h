/* directory_source.h -- a local checkpoint directory as an origin of a job; private to landing.
 *
 * Threads: one caller.  Ownership: directory_source_open() gives, _close() takes; jobs borrow. */
#ifndef TRANSPORT_LANDING_DIRECTORY_SOURCE_H
#define TRANSPORT_LANDING_DIRECTORY_SOURCE_H

#include "transport/landing/job.h"
#include "transport/model/checkpoint.h"

struct directory_source {
    struct checkpoint *checkpoint;
    char *config; /* For backend "file". */
};

BATON_MUST_USE struct baton_status directory_source_open(const char *dir, enum checkpoint_kind kind,
                                                         struct directory_source *out);
/* A zeroed one is fine. */
void directory_source_close(struct directory_source *source);

struct origin directory_source_origin(const struct directory_source *source, uint64_t timeout_ns);

/* Points every item of the job that this directory has to it, as the job's origin 'origin'. */
void directory_source_place(const struct directory_source *source, struct job *job, size_t origin);

/* Reads baton.manifest.json of a sealed directory. */
BATON_MUST_USE struct baton_status directory_source_manifest(const char *dir,
                                                             struct manifest **out);

#endif /* directory_source.h */
