/* landing.h -- a checkpoint directory, opened for reading: its tensors, and what its manifest says.
 *
 * Opening reads headers only.  landing_verify holds the bytes against baton.manifest.json;
 * landing_match holds the tensors against the model.  Errors name the tensor.
 *
 * Depends on: transport/model, weights.h, jansson.  Threads: one caller.  Ownership:
 * landing_open/landing_close; what is found in it is borrowed. */
#ifndef TESTS_MINIENGINE_LANDING_H
#define TESTS_MINIENGINE_LANDING_H

#include <stddef.h>

#include "tests/miniengine/trouble.h"
#include "tests/miniengine/weights.h"

enum { LANDING_DTYPE_MAX = 12, LANDING_DIGEST_TEXT = 33 };

struct landing;

bool landing_open(const char *dir, struct landing **out, struct trouble *why);
void landing_close(struct landing *landing); /* Accepts null. */

/* The manifest is there, names this version, lists exactly these tensors with these dtypes and
 * shapes, its entries make up the version's digest, and every tensor's bytes its own. */
bool landing_verify(struct landing *landing, const char *version_digest, struct trouble *why);

/* Exactly the model's tensors, in the model's shapes.  'dtypes', if not null, holds the dtype that
 * each tensor of the layout must have. */
bool landing_match(const struct landing *landing, const struct weights_layout *layout,
                   const char (*dtypes)[LANDING_DTYPE_MAX], struct trouble *why);

/* The bytes of one tensor; reads them on first use.  False: gone or unreadable. */
bool landing_source(struct landing *landing, const char *name, struct weights_source *out,
                    struct trouble *why);

#endif /* landing.h */
