/* audit_names.h -- the names of what is stored, to ask whether a reference holds; inside of audit.c.
 *
 * Depends on: api/base.  Threads: one.  Ownership: names_free(). */
#ifndef CONTROLLER_STORE_AUDIT_NAMES_H
#define CONTROLLER_STORE_AUDIT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct names {
    char **items;
    size_t count;
    size_t capacity;
    bool failed; /* Memory ran out. */
};

/* "kind/name", or with a number "kind/name/7". */
void names_add(struct names *names, const char *kind, const char *name);
void names_add_number(struct names *names, const char *kind, const char *name, uint64_t number);
/* Once all are there, before the first question. */
void names_sort(struct names *names);
/* How often it was added. */
size_t names_count(const struct names *names, const char *kind, const char *name);
size_t names_count_number(const struct names *names, const char *kind, const char *name,
                          uint64_t number);
void names_free(struct names *names);

#endif /* audit_names.h */
