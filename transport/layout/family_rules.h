/* family_rules.h -- how the tensors of a family are cut and fused; for family.c.
 *
 * Depends on: family.h. */
#ifndef TRANSPORT_LAYOUT_FAMILY_RULES_H
#define TRANSPORT_LAYOUT_FAMILY_RULES_H

#include "transport/layout/family.h"

/* The rules of a family that passed its check, for the meshes of 'spec'; null: the arena is full.
 * With a mesh of their own, experts are cut along "etp", else along "tp".  With several stages, a
 * tied head is a copy on the last one. */
const struct layout_rule *family_rules(const struct layout_family *family,
                                       const struct layout_spec *spec, struct baton_arena *arena,
                                       size_t *count);

#endif /* family_rules.h */
