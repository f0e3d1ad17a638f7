/* names.h -- names with stars: matching, and new names from what the stars stood for.
 *
 * Depends on: nothing.  Pure.  Threads: values only.  Ownership: captures borrow from the name. */
#ifndef TRANSPORT_LAYOUT_NAMES_H
#define TRANSPORT_LAYOUT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAMES_STARS_MAX = 9 };

struct name_match {
    struct {
        const char *text;
        size_t size;
    } stars[NAMES_STARS_MAX];
    uint32_t stars_count;
};

/* True if 'name' is 'pattern' with any text for each '*'.  Each star but the last stands for as
 * little as possible. */
bool names_match(const char *pattern, const char *name, struct name_match *out);
/* Writes 'into' with $1 to $9 replaced; false if it does not fit or names a star that is not
 * there. */
bool names_write(const char *into, const struct name_match *match, char *out, size_t out_bytes);
/* The number that stands behind 'word' and before a dot or the end ("layers." in
 * "model.layers.17.mlp" gives 17); false (and 'out' untouched) if there is none. */
bool names_number(const char *name, const char *word, uint32_t *out);

#endif /* names.h */
