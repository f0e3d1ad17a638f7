/* survey.c -- sums of each tensor's chunks, and the few figures that are kept of them. */
#include "transport/landing/survey.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/log.h"
#include "transport/landing/directory_source.h"
#include "transport/model/values.h"

static const char module[] = "landing";

/* Of one tensor; the sums are under the lock. */
struct tensor_look {
    struct values_found found;
    struct values_change change;
    const struct manifest_tensor *base; /* Of the same name, dtype and shape; null: none. */
    struct origin_place place;          /* There. */
};

struct survey {
    struct landing_survey *out;
    const struct manifest *manifest;
    struct directory_source base;
    struct manifest *base_manifest; /* Null: no base. */
    struct tensor_look *tensors;
    _Atomic bool is_lost; /* The base could not be read. */
    pthread_mutex_t lock;
};

void survey_lose_base(struct survey *survey, const struct baton_status *why)
{
    if (!atomic_exchange(&survey->is_lost, true)) {
        baton_log_status(BATON_LOG_WARN, module, "the change of the tensors is not measured", why);
    }
}

/* --- life --- */

static struct baton_status open_base(struct survey *survey)
{
    const char *dir = survey->out->base_dir;
    struct baton_status st = directory_source_open(dir, CHECKPOINT_PARTIAL, &survey->base);
    return baton_ok(&st) ? directory_source_manifest(dir, &survey->base_manifest) : st;
}

/* The base's tensor that 'tensor' can be compared with. */
static const struct manifest_tensor *find_base(const struct survey *survey,
                                               const struct manifest_tensor *tensor)
{
    const struct manifest_tensor *base = manifest_find_tensor(survey->base_manifest, tensor->name);
    bool is_alike = base != NULL && base->dtype == tensor->dtype &&
                    tensor_shape_equal(&base->shape, &tensor->shape);
    return is_alike ? base : NULL;
}

static void place_tensors(struct survey *survey)
{
    for (size_t i = 0; i < survey->manifest->tensors_count; i++) {
        struct tensor_look *look = &survey->tensors[i];
        const char *name = survey->manifest->tensors[i].name;
        const struct checkpoint_tensor *from = checkpoint_find(survey->base.checkpoint, name);
        look->base = from == NULL ? NULL : find_base(survey, &survey->manifest->tensors[i]);
        if (look->base != NULL) {
            look->place = (struct origin_place){ from->shard, from->offset, NULL };
        }
    }
}

struct baton_status survey_create(struct job *job, struct landing_survey *out, uint64_t timeout_ns)
{
    struct survey *survey = calloc(1, sizeof(*survey));
    if (survey != NULL) {
        survey->tensors = calloc(job->manifest->tensors_count + 1, sizeof(*survey->tensors));
    }
    if (survey == NULL || survey->tensors == NULL) {
        free(survey);
        return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                 "landing: out of memory");
    }
    survey->out = out;
    survey->manifest = job->manifest;
    (void)pthread_mutex_init(&survey->lock, NULL);
    job->survey = survey;
    if (out->base_dir == NULL) {
        return baton_status_ok();
    }
    struct baton_status st = open_base(survey);
    if (baton_ok(&st)) {
        place_tensors(survey);
        job->origins[JOB_ORIGIN_BASE] = directory_source_origin(&survey->base, timeout_ns);
    } else {
        survey_lose_base(survey, &st);
    }
    return baton_status_ok();
}

void survey_destroy(struct survey *survey)
{
    if (survey == NULL) {
        return;
    }
    directory_source_close(&survey->base);
    manifest_destroy(survey->base_manifest);
    (void)pthread_mutex_destroy(&survey->lock);
    free(survey->tensors);
    free(survey);
}

/* --- chunks --- */

void survey_add_chunk(struct survey *survey, size_t item, struct baton_bytes bytes)
{
    struct values_found found = { 0, 0 };
    values_scan(survey->manifest->tensors[item].dtype, bytes, &found);
    if (found.nans + found.infs == 0) {
        return;
    }
    (void)pthread_mutex_lock(&survey->lock);
    survey->tensors[item].found.nans += found.nans;
    survey->tensors[item].found.infs += found.infs;
    (void)pthread_mutex_unlock(&survey->lock);
}

const struct origin_place *survey_base_place(const struct job *job, size_t item)
{
    const struct survey *survey = job->survey;
    const struct tensor_look *look = &survey->tensors[item];
    if (look->base == NULL || atomic_load(&survey->is_lost) ||
        !values_are_float(survey->manifest->tensors[item].dtype)) {
        return NULL;
    }
    bool is_inherited =
        job->items[item].has_digest && digest_equal(job->items[item].digest, look->base->digest);
    return is_inherited ? NULL : &look->place;
}

void survey_add_change(struct survey *survey, size_t item, struct baton_bytes bytes,
                       struct baton_bytes base)
{
    struct values_change change = { 0, 0 };
    values_compare(survey->manifest->tensors[item].dtype, bytes, base, &change);
    (void)pthread_mutex_lock(&survey->lock);
    survey->tensors[item].change.delta += change.delta;
    survey->tensors[item].change.base += change.base;
    (void)pthread_mutex_unlock(&survey->lock);
}

/* --- the end --- */

/* Cut where a character of UTF-8 ends. */
static void copy_name(char out[BATON_TENSOR_LABEL_BYTES], const char *name)
{
    size_t length = strnlen(name, BATON_TENSOR_LABEL_BYTES - 1);
    while (length > 0 && name[length] != '\0' && ((uint8_t)name[length] & 0xc0) == 0x80) {
        length--;
    }
    memcpy(out, name, length);
    out[length] = '\0';
}

static void count_found(const struct survey *survey, size_t item)
{
    struct landing_survey *out = survey->out;
    const struct values_found *found = &survey->tensors[item].found;
    if (found->nans + found->infs == 0) {
        return;
    }
    out->nans += found->nans;
    out->infs += found->infs;
    if (out->bad_tensors++ == 0) {
        copy_name(out->first_bad, survey->manifest->tensors[item].name);
    }
}

/* Keeps the largest, in order. */
static void keep_change(struct landing_survey *out, const char *name, double change)
{
    uint32_t place = out->largest_count;
    while (place > 0 && out->largest[place - 1].change < change) {
        place--;
    }
    if (place == BATON_LARGEST_CHANGES_MAX) {
        return;
    }
    bool is_full = out->largest_count == BATON_LARGEST_CHANGES_MAX;
    uint32_t after = out->largest_count - place - (is_full ? 1 : 0);
    memmove(&out->largest[place + 1], &out->largest[place], after * sizeof(out->largest[0]));
    copy_name(out->largest[place].name, name);
    out->largest[place].change = change;
    out->largest_count += is_full ? 0 : 1;
}

static void count_change(const struct survey *survey, size_t item)
{
    struct landing_survey *out = survey->out;
    const struct tensor_look *look = &survey->tensors[item];
    const struct manifest_tensor *tensor = &survey->manifest->tensors[item];
    if (look->base == NULL) {
        out->added++;
    } else if (digest_equal(look->base->digest, tensor->digest)) {
        out->unchanged++;
    } else {
        out->changed++;
        if (values_are_float(tensor->dtype)) {
            keep_change(out, tensor->name, values_change_relative(&look->change));
        }
    }
}

static struct baton_status refuse(const struct landing_survey *found)
{
    struct baton_status st = baton_status_make(
        BATON_FAILED_PRECONDITION, BATON_REASON_NON_FINITE,
        "tensor '%.120s': NaN or infinity; %llu NaN and %llu infinite in %llu tensors",
        found->first_bad, (unsigned long long)found->nans, (unsigned long long)found->infs,
        (unsigned long long)found->bad_tensors);
    return baton_status_hint(st, "nonFinite: allow in the model's policy lets it pass");
}

struct baton_status survey_finish(struct job *job)
{
    const struct survey *survey = job->survey;
    if (survey == NULL) {
        return baton_status_ok();
    }
    survey->out->compared = survey->base_manifest != NULL && !atomic_load(&survey->is_lost);
    for (size_t i = 0; i < job->manifest->tensors_count; i++) {
        count_found(survey, i);
        if (survey->out->compared) {
            count_change(survey, i);
        }
    }
    bool is_refused = survey->out->refuse && survey->out->bad_tensors > 0;
    return is_refused ? refuse(survey->out) : baton_status_ok();
}
