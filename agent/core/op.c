/* op.c -- see op.h. */
#include "agent/core/op.h"

const char *agent_op_name(enum agent_op_kind kind)
{
    static const char *const names[] = {
        [AGENT_OP_NONE] = "NONE",
        [AGENT_OP_ATTACH] = "ATTACH",
        [AGENT_OP_HEALTH] = "HEALTH",
        [AGENT_OP_SET_GATE] = "SET_GATE",
        [AGENT_OP_RAISE_FENCE] = "RAISE_FENCE",
        [AGENT_OP_PAUSE] = "PAUSE",
        [AGENT_OP_UPDATE] = "UPDATE",
        [AGENT_OP_READBACK] = "READBACK",
        [AGENT_OP_INVALIDATE] = "INVALIDATE",
        [AGENT_OP_LABEL] = "LABEL",
        [AGENT_OP_RESUME] = "RESUME",
        [AGENT_OP_PROBE] = "PROBE",
        [AGENT_OP_WARM] = "WARM",
        [AGENT_OP_SLEEP] = "SLEEP",
        [AGENT_OP_WAKE] = "WAKE",
        [AGENT_OP_PREPARE] = "PREPARE",
        [AGENT_OP_LIVE] = "LIVE",
    };
    return names[kind];
}

bool agent_op_is_mutating(enum agent_op_kind kind)
{
    return kind == AGENT_OP_UPDATE || kind == AGENT_OP_INVALIDATE || kind == AGENT_OP_LABEL ||
           kind == AGENT_OP_SLEEP || kind == AGENT_OP_WAKE || kind == AGENT_OP_LIVE;
}
