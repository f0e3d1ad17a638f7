/* cores.h -- the public headers of both cores in one file.
 *
 * Both have a 'struct agent_event': what an agent tells (controller) and what happens to an agent
 * (agent).  The controller's takes another name here; names of structs are not seen by the linker.
 *
 * Depends on: controller/core, agent/core.  Included by: tests/sim only. */
#ifndef TESTS_SIM_CORES_H
#define TESTS_SIM_CORES_H

#define agent_event told_agent_event
#include "controller/core/action.h"
#include "controller/core/admission.h"
#include "controller/core/controller.h"
#include "controller/core/judge.h"
#include "controller/core/leases.h"
#include "controller/core/staleness.h"
#include "controller/core/view.h"
#include "controller/core/words.h"
#undef agent_event

#include "agent/core/agent.h"

#endif /* cores.h */
