/* audit_names.c -- see audit_names.h: a sorted list of texts. */
#include "controller/store/audit_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/core/record.h"

enum { NAME_BYTES = RECORD_WORD_BYTES + RECORD_KEY_BYTES + 24, FIRST_CAPACITY = 256 };

static bool reserve(struct names *names)
{
    if (names->count < names->capacity) {
        return true;
    }
    size_t capacity = names->capacity == 0 ? FIRST_CAPACITY : 2 * names->capacity;
    char **items = realloc(names->items, capacity * sizeof(*items));
    if (items == NULL) {
        return false;
    }
    names->items = items;
    names->capacity = capacity;
    return true;
}

void names_add(struct names *names, const char *kind, const char *name)
{
    char text[NAME_BYTES];
    (void)snprintf(text, sizeof(text), "%.40s/%.180s", kind, name);
    char *item = reserve(names) ? strdup(text) : NULL;
    if (item == NULL) {
        names->failed = true;
        return;
    }
    names->items[names->count++] = item;
}

static void numbered(char out[NAME_BYTES], const char *name, uint64_t number)
{
    (void)snprintf(out, NAME_BYTES, "%.140s/%llu", name, (unsigned long long)number);
}

void names_add_number(struct names *names, const char *kind, const char *name, uint64_t number)
{
    char text[NAME_BYTES];
    numbered(text, name, number);
    names_add(names, kind, text);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(struct names *names)
{
    if (names->count > 0) {
        qsort(names->items, names->count, sizeof(*names->items), compare);
    }
}

/* Where the first one is that is not below 'text'. */
static size_t lower_bound(const struct names *names, const char *text)
{
    size_t low = 0;
    size_t high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(names->items[middle], text) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t names_count(const struct names *names, const char *kind, const char *name)
{
    char text[NAME_BYTES];
    size_t count = 0;
    (void)snprintf(text, sizeof(text), "%.40s/%.180s", kind, name);
    size_t at = lower_bound(names, text);
    while (at + count < names->count && strcmp(names->items[at + count], text) == 0) {
        count++;
    }
    return count;
}

size_t names_count_number(const struct names *names, const char *kind, const char *name,
                          uint64_t number)
{
    char text[NAME_BYTES];
    numbered(text, name, number);
    return names_count(names, kind, text);
}

void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++) {
        free(names->items[i]);
    }
    free(names->items);
    *names = (struct names){ 0 };
}
