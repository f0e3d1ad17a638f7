/* family_rules.h -- how the tensors of a family are cut and fused; for family.c.
 *
 * Depends on: family.h. */
#ifndef TRANSPORT_LAYOUT_FAMILY_RULES_H
#define TRANSPORT_LAYOUT_FAMILY_RULES_H

#include "transport/layout/family.h"

/* The rules of a family that passed its check; null: the arena is full.  With a mesh of their own,
 * experts are cut along "etp", else along "tp". */
const struct layout_rule *family_rules(const struct layout_family *family, bool has_expert_mesh,
                                       struct baton_arena *arena, size_t *count);

#endif /* family_rules.h */
