#include "agent/engine/engine.h"

#include <string.h>

extern const struct engine_adapter engine_adapter_sglang;
extern const struct engine_adapter engine_adapter_vllm;

const struct engine_adapter *engine_adapter_find(const char *kind)
{
    static const struct engine_adapter *const ADAPTERS[] = { &engine_adapter_vllm,
                                                             &engine_adapter_sglang };
    for (size_t i = 0; i < sizeof ADAPTERS / sizeof ADAPTERS[0]; i++) {
        if (strcmp(kind, ADAPTERS[i]->kind) == 0) {
            return ADAPTERS[i];
        }
    }
    return NULL;
}
