/* phase.h -- where a group stands: the table of states.
 *
 * The states of design 3 are what is reported; a phase is finer: one operation that all engines
 * of a group (or some) do in parallel, or a wait.  Each row says which operation, who takes part,
 * how often it is tried, and what comes after success and after failure.  A phase ends when every
 * engine that takes part has ended, at the latest at the group's deadline.
 *
 * Depends on: op.h, swap.h.  Threads: one.  Ownership: none. */
#ifndef AGENT_CORE_PHASE_H
#define AGENT_CORE_PHASE_H

#include "agent/core/op.h"

struct agent;
struct engine;
struct group;

enum phase {
    PHASE_ATTACH,
    PHASE_SHUT,
    PHASE_AWAIT_TARGET,
    PHASE_COMPARE,
    PHASE_AWAIT_TICKET,
    PHASE_SERVING,
    PHASE_DRAIN,
    PHASE_SETTLE,
    PHASE_WARM,
    PHASE_CLOSE,
    PHASE_PAUSE,
    PHASE_BARRIER_SHUT,
    PHASE_FENCE,
    PHASE_KNOW,
    PHASE_UPDATE,
    PHASE_VERIFY,
    PHASE_INVALIDATE,
    PHASE_CONFIRM,
    PHASE_LABEL,
    PHASE_MARK,
    PHASE_BARRIER_OPEN,
    PHASE_RESUME,
    PHASE_PROBE,
    PHASE_TELL,
    PHASE_OPEN_REST,
    PHASE_OPEN_FIRST,
    PHASE_BACK_SHUT,
    PHASE_BACK_FENCE,
    PHASE_BACK_UPDATE,
    PHASE_BACK_VERIFY,
    PHASE_REOPEN_RESUME,
    PHASE_BACK_PROBE,
    PHASE_BACK_TELL,
    PHASE_REOPEN_REST,
    PHASE_REOPEN_FIRST,
    PHASE_OUT_SHUT,
    PHASE_OUT,
    PHASE_COMMIT,
    PHASE_ASK,
    PHASE_MEMBER_SHUT,
    PHASE_MEMBER_UP,
    PHASE_DRAIN_SHUT,
    PHASE_DRAINED,
    PHASE_DETACHED,
    PHASE_SLEEP_SHUT,
    PHASE_SLEEP,
    PHASE_SLEEPLESS,
    PHASE_ASLEEP,
    PHASE_WAKE,
    PHASE_LIVE_PREPARE,
    PHASE_LIVE_SWAP,
    PHASE_LIVE_VERIFY,
    PHASE_LIVE_CONFIRM,
    PHASE_LIVE_MARK,
    PHASE_LIVE_FENCE,
    PHASE_LIVE_KNOW_TO,
    PHASE_LIVE_KNOW_FROM,
    PHASE_BACK_PAUSE,
    PHASE_COUNT
};

/* Which gates may be open in a phase. */
enum phase_gate {
    PHASE_GATE_UNKNOWN,  /* They are being looked at, or being shut. */
    PHASE_GATE_SHUT,     /* None is open. */
    PHASE_GATE_MAY_OPEN, /* Some may be: all engines are resident at the committed version. */
    PHASE_GATE_LIVE,     /* The engine's may be, under LIVE_INTENT: its ranks are uniformly on the
                          * version that is committed or on the ticket's. */
};

/* What happens in a phase, or at its end. */
typedef void phase_fn(struct agent *agent, struct group *group);
/* Whether an engine takes part. */
typedef bool phase_part_fn(const struct group *group, const struct engine *engine);

struct phase_row {
    const char *name;
    enum agent_group_state state; /* As reported; see group_state() for SERVING and OUT. */
    enum phase_gate gate;
    enum agent_op_kind op;   /* NONE: a wait, driven by 'wait'. */
    enum agent_gate to_gate; /* Of SET_GATE. */
    uint32_t tries;
    phase_part_fn *part;
    phase_fn *wait;   /* Of a wait: looks whether it is over. */
    phase_fn *done;   /* All who took part succeeded. */
    phase_fn *failed; /* At least one did not. */
};

const struct phase_row *phase_row(enum phase phase);

/* Enters a phase; its operations start within this step. */
void phase_enter(struct agent *agent, struct group *group, enum phase phase);

/* Gives up what the phase's operations still do, and ends it as failed. */
void phase_interrupt(struct agent *agent, struct group *group);

/* Moves the group on as far as it goes without another event. */
void phase_advance(struct agent *agent, struct group *group);

/* When the group has something to do by itself. */
uint64_t phase_deadline_ns(const struct agent *agent, const struct group *group);

/* The state to report. */
enum agent_group_state group_state(const struct agent *agent, const struct group *group);

#endif /* phase.h */
