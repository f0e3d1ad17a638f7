/* live.pml -- a live swap: two ranks change between two steps of the engine, gate open.
 *
 * One engine of two ranks, its agent with a journal.  LIVE_INTENT is fsynced; one worker call on
 * each rank agrees, copies, agrees again, and puts back within the same call, or the engine dies;
 * then COMMIT.  In doubt (no good answer, or the agent died) the step rises and residents are read back:
 * all on the new version commits, all on the old one goes on with it.  The agent may die at any point, also between the call's copies; a
 * rank may fail before or after its copy, or die with the engine.  Requests run all the while.
 *
 * Holds: a step that generates sees all ranks on one version, and that is the journal's committed
 * one or, from LIVE_INTENT to COMMIT or to the restore, the one that is being swapped to; a token's
 * label is the older of both; and at rest no intent is open and residents are the committed version.
 *
 * Mutants: NO_INTENT, TWO_CALLS, NO_SECOND_AGREEMENT, LEAVES_IT, NO_FENCE, COMMITS_UNREAD,
 * LABELS_NEW. */
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef FAULTS
#define FAULTS 2
#endif

bit resident[2];
bool gate = true;
bool up = true;

/* The journal. */
bit committed = 0;
bool intent = false; /* LIVE_INTENT, or the restore's. */
bit to = 0;
byte step = 0;

/* The worker call: of the engine, so it goes on when the agent dies. */
bool calling = false;
bit version = 0;
byte call_step = 0;
byte fence = 0;
bool answered = false, well = false;

byte crashes = 0, faults = 0;
bool swapped = false;

/* A request: the oldest version that made one of its tokens, as its answer will say. */
bool running = false;
bit label = 0;
bit oldest = 0;

inline may_die()
{
    if
    :: skip
    :: atomic { crashes < CRASHES -> crashes++; goto dead }
    fi
}

/* Between two steps of the engine: nothing generates meanwhile. */
active proctype engine()
{
    bit was = 0;
    bool bad = false;
end:
    do
    :: atomic { up && gate && !calling && !running -> running = true; oldest = resident[0];
#ifdef MUTANT_LABELS_NEW
        label = (intent -> to : committed)
#else
        label = committed /* From LIVE_INTENT to COMMIT or the restore: as the older version. */
#endif
       }
    :: atomic { /* A step of generation. */
        up && gate && !calling ->
        assert(resident[0] == resident[1]);
        assert(resident[0] == committed || (intent && resident[0] == to));
        if
        :: running -> running = false; assert(label <= oldest)
        :: else
        fi
       }
    :: calling && call_step < fence -> atomic { calling = false; answered = true; well = false }
    :: calling && call_step >= fence ->
        was = resident[0];
        bad = false;
        if /* They agree: all hold what was prepared. */
        :: skip
        :: atomic { faults < FAULTS -> faults++; bad = true }
        fi;
        if
        :: !bad ->
            resident[0] = version;
#ifdef MUTANT_TWO_CALLS
            calling = false; /* The second rank's is a call of its own. */
            calling = true;
#endif
            if
            :: resident[1] = version
            :: atomic { faults < FAULTS -> faults++; bad = true } /* The copy fails on rank 1. */
            fi;
#ifndef MUTANT_NO_SECOND_AGREEMENT
            if /* They agree again; if not, all put back, or the engine is killed. */
            :: bad ->
                if
                :: resident[0] = was; resident[1] = was
                :: atomic { up = false; gate = false }
                fi
            :: else
            fi
#endif
        :: else
        fi;
        atomic { calling = false; answered = true; well = !bad; was = 0; bad = false }
    :: atomic { up && faults < FAULTS -> faults++; up = false; gate = false; running = false; if :: calling -> calling = false; answered = true; well = false :: else fi }
    od
}

inline call(v)
{
    atomic { calling = true; version = v; call_step = step; answered = false; well = false };
    may_die();
    if
    :: atomic { answered -> answered = false }
    fi
}

active proctype agent()
{
    goto swap;
dead: /* Same engine life: the intent is still open, so what is resident is read back. */
    if
    :: !up -> goto out
    :: up && !intent -> goto rest
    :: up && intent -> skip
    fi;
#ifdef MUTANT_LEAVES_IT
    intent = false; /* "The journal says the old version, so that is what it serves." */
    goto rest;
#else
    goto restore;
#endif

swap:
    may_die();
    to = 1;
#ifndef MUTANT_NO_INTENT
    atomic { intent = true; step = 1 }
#endif
    may_die();
    fence = step;
    may_die();
    call(1);
    may_die();
#ifndef MUTANT_COMMITS_UNREAD
    if
    :: !up -> goto out
    :: up && well && resident[0] == 1 && resident[1] == 1
    :: up && !(well && resident[0] == 1 && resident[1] == 1) -> goto restore
    fi;
#endif
    may_die();
    atomic { committed = 1; intent = false; swapped = true } /* COMMIT. */
    goto rest;

restore: /* The step rises, so that a call of before does nothing later; then what is there decides. */
    step = step + 1;
    may_die();
#ifndef MUTANT_NO_FENCE
    fence = step;
#endif
    may_die();
#ifndef MUTANT_NO_FENCE
    if /* One call at a time: the worker is asked after the one that may be under way. */
    :: !calling
    fi;
#endif
    if
    :: !up -> goto out
    :: atomic { up && resident[0] == 1 && resident[1] == 1 -> committed = 1; intent = false; swapped = true }; goto rest
    :: atomic { up && resident[0] == 0 && resident[1] == 0 -> intent = false }; goto rest
    fi; /* Neither is what the call never leaves: one that breaks that promise is shut, and not here. */

out: /* Shut; the engine is recreated with the committed version, verified, and opened. */
    gate = false;
    if
    :: !calling
    fi;
    atomic { up = true; resident[0] = committed; resident[1] = committed; intent = false; running = false };
    gate = true;
rest:
    if
    :: atomic { !up -> goto out }
    :: atomic { timeout -> assert(!intent && gate && up && resident[0] == committed && resident[1] == committed) }
    fi
}
