/* mirror.c -- see mirror.h. */
#include "controller/store/mirror.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct mirror_record {
    char *text;
    char name[];
};

static int compare(const void *a, const void *b)
{
    const struct mirror_record *const left = a;
    const struct mirror_record *const right = b;
    return strcmp(left->name, right->name);
}

static void free_record(void *entry)
{
    free(((struct mirror_record *)entry)->text);
    free(entry);
}

static struct mirror_record *record_of(const char *name, const char *text)
{
    size_t size = strlen(name) + 1;
    struct mirror_record *entry = malloc(sizeof(*entry) + size);
    if (entry == NULL) {
        return NULL;
    }
    memcpy(entry->name, name, size);
    entry->text = text == NULL ? NULL : strdup(text);
    if (text != NULL && entry->text == NULL) {
        free(entry);
        return NULL;
    }
    return entry;
}

static size_t bytes_of(const struct mirror_record *entry)
{
    return strlen(entry->name) + strlen(entry->text);
}

static struct baton_status no_memory(void)
{
    return baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                             "store: no memory for a copy of it");
}

struct baton_status mirror_put(struct mirror *mirror, const char *name, const char *text)
{
    struct mirror_record *entry = record_of(name, text);
    if (entry == NULL) {
        return no_memory();
    }
    struct mirror_record **place = tsearch(entry, &mirror->root, compare);
    if (place == NULL) {
        free_record(entry);
        return no_memory();
    }
    struct mirror_record *there = *place;
    if (there == entry) {
        mirror->count++;
    } else { /* The new text goes where the old one was. */
        char *old = there->text;
        mirror->bytes -= bytes_of(there);
        there->text = entry->text;
        entry->text = old;
        free_record(entry);
    }
    mirror->bytes += bytes_of(there);
    return mirror->bytes <= MIRROR_BYTES_MAX
               ? baton_status_ok()
               : baton_status_make(BATON_RESOURCE_EXHAUSTED, BATON_REASON_LIMIT,
                                   "store: a copy of it takes more than %d bytes",
                                   (int)MIRROR_BYTES_MAX);
}

void mirror_remove(struct mirror *mirror, const char *name)
{
    struct mirror_record *key = record_of(name, NULL);
    baton_assert(key != NULL);
    struct mirror_record **place = tfind(key, &mirror->root, compare);
    if (place != NULL) {
        struct mirror_record *there = *place;
        (void)tdelete(key, &mirror->root, compare);
        mirror->count--;
        mirror->bytes -= bytes_of(there);
        free_record(there);
    }
    free(key);
}

struct visiting {
    mirror_visit_fn visit;
    void *context;
    struct baton_status status;
};

static void visit_node(const void *node, VISIT which, void *argument)
{
    const struct mirror_record *entry = *(const struct mirror_record *const *)node;
    struct visiting *visiting = argument;
    if ((which == postorder || which == leaf) && baton_ok(&visiting->status)) {
        visiting->status = visiting->visit(visiting->context, entry->name, entry->text);
    }
}

struct baton_status mirror_visit(const struct mirror *mirror, mirror_visit_fn visit, void *context)
{
    struct visiting visiting = { visit, context, baton_status_ok() };
    twalk_r(mirror->root, visit_node, &visiting);
    return visiting.status;
}

void mirror_free(struct mirror *mirror)
{
    tdestroy(mirror->root, free_record);
    *mirror = (struct mirror){ 0 };
}
