/* survey.h -- the look at a job's values while its chunks pass; private to landing.
 *
 * Life: job_create() makes it if somebody asked; workers add the chunks of tensors; job_seal() puts
 * the sums into the caller's struct landing_survey.  The base is opened at the start; that it cannot
 * be read, then or later, costs the comparison and nothing else.
 *
 * Threads: survey_add_*() and survey_lose_base() from any worker; the rest from the job's caller.
 * Ownership: the job's; the landing_survey is the caller's and must outlive the job. */
#ifndef TRANSPORT_LANDING_SURVEY_H
#define TRANSPORT_LANDING_SURVEY_H

#include "transport/landing/job.h"

/* Sets job->survey, and the job's origin JOB_ORIGIN_BASE if there is a base. */
BATON_MUST_USE struct baton_status survey_create(struct job *job, struct landing_survey *out,
                                                 uint64_t timeout_ns);
/* Null is fine. */
void survey_destroy(struct survey *survey);

/* Counts what a chunk of tensor 'item' holds. */
void survey_add_chunk(struct survey *survey, size_t item, struct baton_bytes bytes);

/* Where the base has this tensor; null: it is not compared, or is inherited from the base. */
const struct origin_place *survey_base_place(const struct job *job, size_t item);
void survey_add_change(struct survey *survey, size_t item, struct baton_bytes bytes,
                       struct baton_bytes base);
/* Ends the comparison. */
void survey_lose_base(struct survey *survey, const struct baton_status *why);

/* All items are done.  Fills what survey_create() was given, and refuses what it says to refuse;
 * nothing without a survey. */
BATON_MUST_USE struct baton_status survey_finish(struct job *job);

#endif /* survey.h */
