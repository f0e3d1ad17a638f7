#include "agent/engine/engine.h"

#include <string.h>

extern const struct engine_adapter engine_adapter_vllm;

const struct engine_adapter *engine_adapter_find(const char *kind)
{
    return strcmp(kind, engine_adapter_vllm.kind) == 0 ? &engine_adapter_vllm : NULL;
}
