/* late.pml -- an engine call that wakes up late (rules 2 and 3).
 *
 * One engine, its agent with a journal.  The agent's calls may be abandoned at their deadline and
 * then run at any later time, in any order: each waits on a connection of its own.  The agent may
 * die at any point; the engine may start anew at any point, with boot weights and its gate shut.
 * Tickets 0->1 and 1->0 follow each other.  Two kinds of engine, -DPLUGIN=1: a call names its step
 * and one worker checks and runs it in one piece; -DPLUGIN=0: nothing can be refused, so an
 * abandoned call rules out the life that it was made to.
 *
 * Holds: an open gate means that the engine holds the committed version; and nobody waits for
 * ever.
 *
 * Mutants (plug-in): NO_FENCE, STEP_STAYS, CHECKED_EARLY; (without): RESTORED_IN_PLACE,
 * TAINT_FORGOTTEN; (both): BOOTS_OPEN, OPENS_ANY_LIFE. */
#ifndef PLUGIN
#define PLUGIN 1
#endif
#ifndef HANGS
#define HANGS 2
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef RESTARTS
#define RESTARTS 1
#endif
#ifndef TICKETS
#define TICKETS 2
#endif

#define CALLS 3

/* The engine. */
byte life = 1;
bit resident = 0; /* Boot weights are 0. */
bool gate = true;
byte fence = 0;

/* Calls that wait, each on its connection: what, under which step, to which life. */
bool c_waits[CALLS];
bool c_checked[CALLS];
bit c_version[CALLS];
byte c_step[CALLS];
byte c_life[CALLS];

/* The journal. */
bit committed = 0;
bool open_ = false; /* A ticket. */
bit to = 0;
byte number = 0;
byte step = 0;
bool done = false;
bool rejoin = false;
byte member = 1; /* The life that COMMIT or ACCEPT names. */
byte tainted = 0; /* A life that may not be used any more. */

byte hangs = 0, crashes = 0, restarts = 0, tickets = 0;

#define NOW (number * 8 + step)

inline may_die()
{
    if
    :: skip
    :: atomic { crashes < CRASHES -> crashes++; goto dead }
    fi
}

/* Puts a call on a free connection; 'mine' is its place. */
inline call(v)
{
    atomic {
        if
        :: !c_waits[0] -> mine = 0
        :: c_waits[0] && !c_waits[1] -> mine = 1
        :: c_waits[0] && c_waits[1] && !c_waits[2] -> mine = 2
        fi;
        c_waits[mine] = true; c_checked[mine] = false; c_version[mine] = v; c_step[mine] = NOW; c_life[mine] = known
    };
    may_die();
    if
    :: !c_waits[mine] -> hung = false
    :: atomic { c_waits[mine] && hangs < HANGS -> hangs++; hung = true }
    fi;
    mine = 0
}

inline recreate()
{
    atomic {
        life++; resident = 0; fence = 0;
        gate = false
    }
}

active proctype agent()
{
    byte mine = 0;
    byte known = 1; /* The life that it has attached to. */
    bool hung = false;
    goto serve;

dead:
    atomic { mine = 0; hung = false; known = life }
    if
    :: known == tainted -> goto out
    :: known != tainted && open_ && known != member -> goto out
    :: known != tainted && open_ && known == member && done -> goto resume
    :: known != tainted && open_ && known == member && !done && step == 0 -> goto reopen
    :: known != tainted && open_ && known == member && !done && step > 0 -> /* A call may be on its way. */
#if PLUGIN
        if
        :: rejoin -> goto out
        :: else -> goto restore
        fi
#else
#ifndef MUTANT_TAINT_FORGOTTEN
        tainted = known;
        may_die();
#endif
        goto out
#endif
    :: known != tainted && !open_ -> goto join
    fi;

join: /* Serves on by the journal's word for that life; else out. */
    if
    :: known == member && gate -> goto serve
    :: known == member && !gate -> goto out
    :: known != member -> goto out
    fi;

serve:
    do
    :: atomic { tickets < TICKETS && life == known -> tickets++; open_ = true; to = 1 - committed; number++; step = 0; done = false; rejoin = false; member = known; goto swap }
    :: life != known -> goto out
    :: atomic { crashes < CRASHES -> crashes++; goto dead }
    :: tickets == TICKETS && life == known && gate -> goto rest
    od;

swap:
    gate = false;
    may_die();
    step++; /* INTENT. */
    may_die();
#if PLUGIN && !defined(MUTANT_NO_FENCE)
    fence = NOW;
#endif
    may_die();
    call(to);
    may_die();
    if
    :: !hung && resident == to && life == known
    :: hung ->
#if PLUGIN
        goto restore
#else
#ifndef MUTANT_RESTORED_IN_PLACE
        tainted = known;
        may_die();
        goto out
#else
        goto restore
#endif
#endif
    :: !hung && (resident != to || life != known) -> goto restore
    fi;
    may_die();
    if /* The life that was verified is read once more. */
    :: life != known -> goto out
    :: life == known
    fi;
    may_die();
    atomic { committed = to; done = true; member = known } /* COMMIT. */
resume:
    may_die();
    if /* The page names the life whose gate it opens. */
#ifdef MUTANT_OPENS_ANY_LIFE
    :: true -> gate = true
#else
    :: atomic { life == known -> gate = true }
    :: life != known -> goto out
#endif
    fi;
    may_die();
    open_ = false; /* OUTCOME. */
    goto serve;

restore:
    gate = false;
    may_die();
    if
    :: life != known -> goto out
    :: life == known
    fi;
#ifndef MUTANT_STEP_STAYS
    step++;
#endif
    may_die();
#if PLUGIN && !defined(MUTANT_NO_FENCE)
    fence = NOW;
#endif
    may_die();
    call(committed);
    may_die();
    if
    :: !hung && resident == committed && life == known -> goto reopen
    :: hung || resident != committed || life != known -> tainted = known; goto out
    fi;

reopen:
    may_die();
    if
    :: atomic { life == known -> gate = true }
    :: life != known -> goto out
    fi;
    may_die();
    open_ = false;
    goto serve;

out: /* Gate shut, outcome told, engine recreated if it must, and brought to the committed version. */
    gate = false;
    open_ = false;
    may_die();
    if
    :: tainted == life -> recreate()
    :: tainted != life
    fi;
    known = life;
    may_die();
    /* A rejoin ticket: a number of its own. */
    atomic { number++; step = 1; open_ = true; rejoin = true; done = false; member = known } /* ACCEPT, INTENT. */
#if PLUGIN && !defined(MUTANT_NO_FENCE)
    fence = NOW;
#endif
    may_die();
    if
    :: resident == committed && life == known
    :: resident != committed && life == known -> call(committed)
    :: life != known -> goto out
    fi;
    may_die();
    if
    :: hung -> atomic { tainted = known; hung = false }; goto out
    :: !hung && (resident != committed || life != known) -> goto out
    :: !hung && resident == committed && life == known
    fi;
    atomic { member = known; done = true } /* COMMIT of the same version in this life. */
    goto resume;
rest:
    skip
}

/* One call: refused if it is not of this life (its connection broke) or of a lower step. */
inline run_call(k)
{
#if PLUGIN && defined(MUTANT_CHECKED_EARLY)
    if
    :: !c_checked[k] && c_life[k] == life && c_step[k] >= fence -> c_checked[k] = true
    :: !c_checked[k] && !(c_life[k] == life && c_step[k] >= fence) -> c_waits[k] = false
    :: c_checked[k] -> c_waits[k] = false; if :: c_life[k] == life -> resident = c_version[k] :: else fi
    fi
#else
    c_waits[k] = false;
    if
    :: c_life[k] == life && (!PLUGIN || c_step[k] >= fence) -> resident = c_version[k]
    :: else
    fi
#endif
}

active proctype engine()
{
end:
    do
    :: atomic { c_waits[0] -> run_call(0) }
    :: atomic { c_waits[1] -> run_call(1) }
    :: atomic { c_waits[2] -> run_call(2) }
    :: atomic { /* Starts anew by itself. */
        restarts < RESTARTS ->
        restarts++; life++; resident = 0; fence = 0;
#ifdef MUTANT_BOOTS_OPEN
        gate = true
#else
        gate = false
#endif
       }
    od
}

active proctype watch()
{
end:
    atomic { gate && resident != committed -> assert(false) }
}
