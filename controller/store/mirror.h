/* mirror.h -- a store's records as text, by name: what follow.h keeps of a store elsewhere.
 *
 * Depends on: api/base; glibc's search trees inside.  Threads: an object belongs to one thread at a time.
 * Ownership: mirror_free(); names and texts are copied. */
#ifndef CONTROLLER_STORE_MIRROR_H
#define CONTROLLER_STORE_MIRROR_H

#include <stddef.h>

#include "api/base/status.h"

enum { MIRROR_BYTES_MAX = 512 << 20 };

struct mirror {
    void *root; /* A tree of records. */
    size_t count;
    size_t bytes; /* Of names and texts. */
};

/* 'name' as "KIND/KEY".  RESOURCE_EXHAUSTED LIMIT: more than MIRROR_BYTES_MAX. */
BATON_MUST_USE struct baton_status mirror_put(struct mirror *mirror, const char *name,
                                              const char *text);
/* One that is not there is fine. */
void mirror_remove(struct mirror *mirror, const char *name);
/* In the order of the names' bytes, until one fails; gives that failure. */
typedef struct baton_status (*mirror_visit_fn)(void *context, const char *name, const char *text);
BATON_MUST_USE struct baton_status mirror_visit(const struct mirror *mirror, mirror_visit_fn visit,
                                                void *context);
void mirror_free(struct mirror *mirror);

#endif /* mirror.h */
