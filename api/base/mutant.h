/* mutant.h -- deliberate protocol faults of the cores, for the simulator alone.
 *
 * if (MUTANT(NAME)) {...} is never true in production: MUTANT() is the constant 0 there.  The
 * simulator's own build of the cores (BATON_MUTANTS) reads which fault is switched on from a global,
 * and tests/sim/mutants.c shows that each is found by the check that must find it.  So a check that
 * has gone blind shows, as does a rule that nothing tests any more.
 *
 * Depends on: nothing.  Threads: the global is written once, before any core runs. */
#ifndef BATON_BASE_MUTANT_H
#define BATON_BASE_MUTANT_H

#ifdef BATON_MUTANTS
extern int baton_mutant;
#define MUTANT(name) (baton_mutant == MUTANT_##name)
#else
#define MUTANT(name) 0
#endif

enum {
    MUTANT_NONE,

    /* Agent. */
    MUTANT_FORGOT_RESTORE,      /* A failed swap reopens without putting the old weights back. */
    MUTANT_BACK_UNPROBED,       /* A failed swap reopens with weights that nobody looked at. */
    MUTANT_KV_SKIPPED,          /* Commits without dropping KV. */
    MUTANT_VERIFY_SKIPPED,      /* Commits on the engine's word, without reading back. */
    MUTANT_ONE_ENGINE,          /* Updates the first engine only, and takes it for all. */
    MUTANT_GATE_KEPT,           /* Swaps without closing the gates. */
    MUTANT_LABEL_EARLY,         /* Writes the new label before COMMIT. */
    MUTANT_STEP_KEPT,           /* A restore does not raise the step. */
    MUTANT_INTENT_SKIPPED,      /* Changes weights without INTENT. */
    MUTANT_EPOCH_UNCHECKED,     /* Takes tickets of any epoch. */
    MUTANT_WAITED_UNCHECKED,    /* A ticket that had to wait is not looked at again. */
    MUTANT_OUTCOME_TURNED,      /* Says COMMITTED of a swap that was undone. */
    MUTANT_OUTCOME_UNTOLD,      /* Takes an outcome for told that was never sent. */
    MUTANT_RECOVERY_TRUSTS,     /* After a crash within a swap believes that nothing changed. */
    MUTANT_JOIN_TRUSTS,         /* Serves what joined without comparing it. */
    MUTANT_DROP_NAMED,          /* Deletes what its own journal names. */
    MUTANT_RESTORE_UNCHECKED,   /* Takes a swap that cannot be undone. */
    MUTANT_DEADLINE_FAR,        /* Gives a swap a thousand times its time. */
    MUTANT_TAINT_FORGOTTEN,     /* Goes on with an engine whose answers are out of step. */
    MUTANT_BARRIER_OPENS_EARLY, /* Opens after its own COMMIT, before the others'. */
    MUTANT_MEMBERS_NOT_AWAITED, /* A leader goes on before its members have answered. */
    MUTANT_MEMBER_STEP_FREE,    /* A member obeys commands of steps that have passed. */
    MUTANT_SLEEP_BELIEVED,      /* Takes an engine for asleep that did not say so. */
    MUTANT_WAKE_TRUSTS,         /* Serves what is left after a sleep. */
    MUTANT_ROUTER_UNHEARD,      /* Pauses although a router did not acknowledge. */
    MUTANT_ROUTER_UNTOLD,       /* Goes back and does not tell the routers. */
    MUTANT_ROUTER_BLAMED,       /* Says of any swap that a router kept it from going on. */
    MUTANT_DOUBT_GUESSED,       /* In doubt takes the old version, whatever members committed. */
    MUTANT_LIVE_UNREAD,         /* Commits a live swap without reading back. */
    MUTANT_LIVE_UNJOURNALED,    /* Begins one without LIVE_INTENT. */

    /* Controller. */
    MUTANT_TICKET_UNSTORED,   /* Sends a ticket that is not in the store. */
    MUTANT_BUDGET_STALE,      /* Issues tickets by the count before the first of them. */
    MUTANT_UNKNOWN_FREE,      /* Groups that did not restate do not count as away. */
    MUTANT_NUMBER_KEPT,       /* Gives a ticket the number of the one before. */
    MUTANT_SEQ_REUSED,        /* Gives a seq below what agents have seen. */
    MUTANT_FLOORS_IGNORED,    /* Publishes before all agents restated. */
    MUTANT_FROM_STORED,       /* Tickets start from the stored version, not the reported one. */
    MUTANT_TICKET_NOT_RESENT, /* A ticket that was lost with its session stays lost. */
    MUTANT_OUTCOME_DROPPED,   /* Says that an outcome is stored, and does not close the ticket. */
    MUTANT_SUSPEND_UNSTORED,  /* Answers a suspend that is not in the store. */
    MUTANT_UNDO_WITHOUT_HOLD, /* An undone model goes on rolling. */
    MUTANT_LAG_OFF,           /* Counts one publish too few. */
    MUTANT_BLOCKED_LIES,      /* Names the budget where the roll is paused. */
    MUTANT_VERSION_FORGOTTEN, /* Removes the record of a version that a group serves. */
    MUTANT_ROLL_ENDS_EARLY,   /* Completes a roll while a group is behind. */
    MUTANT_PAUSE_FORGOTTEN,   /* A new roll lifts the operator's pause. */

    MUTANT_SLEEPER_TICKETED, /* Swaps a group that is to sleep. */
    MUTANT_SLEEPER_ROUTED,   /* Sends requests to a group that is to sleep. */
    MUTANT_SLEEPER_COUNTED,  /* Takes a group that sleeps for one that is away. */
    MUTANT_SLEEPER_PRESENT, /* Counts a group that sleeps as one of those of whom some may be away. */
    MUTANT_WOKEN_AS_NEW,    /* Takes a group that swaps for one that joins, since it was woken. */
    MUTANT_ASLEEP_OF_BEFORE, /* Takes the word of an earlier sleep for this one's. */

    MUTANT_READY_WITH_TICKET, /* Sends requests to a group that may swap at any moment. */
    MUTANT_SLOTS_UNBOUNDED,   /* Grants slots that there is no room for. */
    MUTANT_CORDON_IGNORED,    /* Swaps a group that is cordoned. */
    MUTANT_CHANGE_UNMARKED,   /* Changes a group and does not store it. */
    MUTANT_VERSION_OF_ANY,    /* Finds a version by its seq, of whatever model. */
    MUTANT_READY_FOR_ANY,     /* Takes groups of any model for those that a request is for. */
    MUTANT_SLEEP_OF_ALL,      /* Puts the groups of all models to sleep. */
    MUTANT_BUDGET_OF_ALL,     /* Takes so many percent of the groups of all models. */
    MUTANT_SAMPLES_UNSTORED,  /* Answers a report of samples that is not in the store. */
    MUTANT_SAMPLES_STALE,     /* Accepts samples that lag one publish too many. */
    MUTANT_TIMER_STUCK,       /* Asks for ever for a time that has passed. */

    /* Controller's store, and its shell as the simulator has it (tests/sim/head.c). */
    MUTANT_STORE_EPOCH_FREE,    /* Applies what a deposed controller committed. */
    MUTANT_STORE_REVISION_FREE, /* Applies a commit that comes twice. */
    MUTANT_UNANSWERED_SENT,     /* Sends before the store has answered. */
    MUTANT_DEPOSED_GOES_ON,     /* Goes on after the store refused its epoch. */
    MUTANT_TORN_READ,           /* Reads a commit that is decided before it is applied. */
    MUTANT_DOUBT_BELIEVED,      /* Takes a commit whose answer is lost for done. */

    MUTANT_COUNT
};

#endif /* mutant.h */
