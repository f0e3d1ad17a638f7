#include "agent/engine/sglang_dialect.h"

#include <stdio.h>

#include "agent/engine/sglang_answer.h"

/* Best first.  deploy/docs/sglang.md shows the same rows. */
static const struct sglang_dialect DIALECTS[] = {
    { "disk",
      { "/update_weights_from_disk", "/weights_checker", "/pause_generation" },
      NULL,
      NULL,
      "SGLang 0.5.23, run" },
    { "tensor",
      { "/update_weights_from_tensor", "/begin_weight_update", "/end_weight_update" },
      NULL,
      "its bodies are Python pickles of a trainer's device handles",
      "SGLang 0.5.23, run" },
    { "distributed",
      { "/update_weights_from_distributed", "/begin_weight_update", "/init_weights_update_group" },
      NULL,
      "joining a group stops generation until every peer is there, and only a restart ends that",
      "SGLang 0.5.23, run" },
    { "distributed, older form",
      { "/update_weights_from_distributed", "/init_weights_update_group" },
      "/begin_weight_update",
      "as distributed; and without a session each bucket moves the label",
      "slime's patch of 0.5.15 and SGLang before the session, read" },
    { "pull by disk delta",
      { "/pull_weights" },
      NULL,
      "it reads Miles' directories; Baton lands and verifies versions itself",
      "branches of Miles and slime, read; not in a release" },
};

const struct sglang_dialect *sglang_dialects(size_t *count)
{
    *count = sizeof DIALECTS / sizeof DIALECTS[0];
    return DIALECTS;
}

bool sglang_dialect_fits(const struct sglang_dialect *dialect, struct baton_bytes openapi)
{
    for (size_t i = 0; i < SGLANG_DIALECT_ROUTES_MAX && dialect->routes[i] != NULL; i++) {
        if (!sglang_answer_has_route(openapi, dialect->routes[i])) {
            return false;
        }
    }
    return dialect->lacks == NULL || !sglang_answer_has_route(openapi, dialect->lacks);
}

const struct sglang_dialect *sglang_dialect_choose(struct baton_bytes openapi, char *reason,
                                                   size_t reason_bytes)
{
    const struct sglang_dialect *chosen = NULL;
    const struct sglang_dialect *refused = NULL;
    char others[96] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof DIALECTS / sizeof DIALECTS[0]; i++) {
        const struct sglang_dialect *dialect = &DIALECTS[i];
        if (!sglang_dialect_fits(dialect, openapi)) {
            continue;
        }
        if (dialect->why_not == NULL) {
            chosen = chosen != NULL ? chosen : dialect;
            continue;
        }
        refused = refused != NULL ? refused : dialect;
        int wrote = snprintf(others + used, sizeof others - used, "%s%s", used > 0 ? "; " : "",
                             dialect->name);
        used += wrote > 0 && (size_t)wrote < sizeof others - used ? (size_t)wrote : 0;
    }
    if (chosen != NULL) {
        (void)snprintf(reason, reason_bytes, "dialect %s (%s)%s%s", chosen->name, chosen->source,
                       used > 0 ? "; there and not driven: " : "", others);
    } else if (refused != NULL) {
        (void)snprintf(reason, reason_bytes, "dialect %s is not driven: %s", refused->name,
                       refused->why_not);
    } else {
        (void)snprintf(reason, reason_bytes,
                       "it has no route /update_weights_from_disk with /weights_checker; use "
                       "SGLang 0.5.23");
    }
    return chosen;
}
