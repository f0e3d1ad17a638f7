/* ticket.pml -- a ticket from the store to its stored outcome: commit, failover, restore.
 *
 * One group of two engines (plug-in: calls carry a fence), its leader agent with a journal, two
 * controllers of which one leads, one store.  Anybody may die between any two steps; a session may
 * break and lose what was under way; an old message may come once more; an engine may refuse,
 * damage, hang, or start anew, at any time.  Versions are 0 and 1; engines boot with 0.
 *
 * Holds: what 'watch' says of every state, the assertions in place, and at rest (nothing can move)
 * no ticket is open and the store believes what was committed.
 *
 * Mutants: SEND_FIRST, UNFENCED_STORE, ANY_OUTCOME, NO_INTENT, OPEN_BEFORE_COMMIT,
 * NO_RESTORE, NO_BACK_SHUT, NO_CONFIRM. */
#ifndef TICKETS
#define TICKETS 2
#endif
#ifndef LEADERSHIPS
#define LEADERSHIPS 2
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#ifndef ECHOES
#define ECHOES 1
#endif

#define DAMAGED 2
#define NOTHING 3 /* No call is under way. */

/* The store: durable; one statement that writes it is one transaction. */
byte st_epoch = 0;
byte st_number = 0;
bit st_committed = 0;
bool st_open = false;
byte st_uid = 0;

/* Tickets by uid: what one says never changes. */
byte uids = 0;
byte t_epoch[TICKETS];
byte t_number[TICKETS];
bit t_from[TICKETS];
bit t_to[TICKETS];
bool t_rejoin[TICKETS];

/* The journal: durable; one statement that writes it is one fsynced record. */
byte j_epoch = 0;
byte j_highest = 0;
bit j_committed = 0;
bool j_open = false;
byte j_uid = 0;
byte j_step = 0;
bool j_done = false;  /* The open ticket has its COMMIT. */
bool j_needs = false; /* One ended between INTENT and COMMIT and was not restored. */
bool o_have[TICKETS]; /* Outcomes, by ticket. */
bool o_stored[TICKETS];
bit o_committed[TICKETS];
bool taint[2];

/* Engines. */
byte resident[2];
bool gate[2] = true;
byte fence[2];
byte call[2] = NOTHING; /* An update under way: its version, or NOTHING. */
byte call_step[2];
bool fresh[2];   /* A life that the agent has not attached to. */
bool newer[2];   /* Not the life that the last COMMIT names. */
bool newer_t[2]; /* Not the life that the open ACCEPT names. */

/* Between agent and controller; tickets and outcomes are sets: they come in any order. */
byte s_epoch = 0; /* The agent's session; 0: none. */
bool hello = false, report = false;
byte told_epoch = 0; /* In hello: the highest seen. */
bit told_committed = 0;
bool told_away = false;
byte welcome = 0;
bool n_ticket[TICKETS];
bool n_outcome[TICKETS];
bool n_stored[TICKETS];
byte leading[2]; /* The epoch that a controller believes to be its own. */

byte crashes = 0, faults = 0, breaks = 0, echoes = 0;
bool away = false;          /* The group is OUT or JOINING. */
bool told[TICKETS];         /* The outcome was sent in this session. */
bool accepted[TICKETS];     /* History. */

#define FENCE_NOW (j_highest * 4 + j_step)
#define HOLDS(e) (resident[e] == j_committed)

inline drop_session()
{
    s_epoch = 0; hello = false; welcome = 0; report = false;
    told_epoch = 0; told_committed = 0; told_away = false
}

/* Each controller leads when it takes the next epoch, and goes on believing it until a write to the
 * store is refused.  Taking over again is also its restart. */
active [2] proctype controller()
{
    bool known = false, seen_away = false, c_open = false, send = false, write = false;
    bit seen = 0;
    byte c_uid = 0, c_number = 0, u = 0;

end:
    do
    :: atomic { /* Takes over: everything volatile is gone. */
        st_epoch < LEADERSHIPS ->
        st_epoch++; leading[_pid] = st_epoch;
        c_open = st_open; c_uid = st_uid; c_number = st_number;
        known = false; seen = 0; seen_away = false; send = false; write = false
       }
    :: atomic { /* An agent that saw a later epoch ends this leadership. */
        leading[_pid] != 0 && hello && welcome == 0 && s_epoch == 0 ->
        hello = false;
        if
        :: told_epoch > leading[_pid] -> leading[_pid] = 0
        :: else ->
            welcome = leading[_pid]; known = true; seen = told_committed; seen_away = told_away;
            send = c_open && !write
        fi
       }
    :: atomic { leading[_pid] != 0 && st_epoch != leading[_pid] -> leading[_pid] = 0; known = false } /* Finds out. */
    :: atomic { leading[_pid] != 0 && s_epoch == leading[_pid] && report -> report = false; seen = told_committed; seen_away = told_away }
    :: atomic { /* Decides on a ticket and stores it: roll or rejoin. */
        leading[_pid] != 0 && s_epoch == leading[_pid] && known && !c_open && !send && !write && uids < TICKETS ->
        if
#ifndef MUTANT_UNFENCED_STORE
        :: st_epoch != leading[_pid] -> leading[_pid] = 0; known = false
        :: st_epoch == leading[_pid] ->
#else
        :: true ->
#endif
            c_open = true; c_uid = uids; c_number++;
            t_epoch[uids] = leading[_pid]; t_number[uids] = c_number;
            t_from[uids] = seen; t_rejoin[uids] = seen_away;
            t_to[uids] = (seen_away -> seen : 1 - seen);
            uids++; send = true;
#ifdef MUTANT_SEND_FIRST
            write = true
#else
            st_open = true; st_uid = c_uid; st_number = c_number
#endif
        fi
       }
#ifdef MUTANT_SEND_FIRST
    :: atomic { write && !send -> write = false; st_open = true; st_uid = c_uid; st_number = c_number }
#endif
    :: atomic { leading[_pid] != 0 && s_epoch == leading[_pid] && send -> send = false; n_ticket[c_uid] = true }
    :: atomic { /* An outcome is stored before it is acknowledged. */
        leading[_pid] != 0 && s_epoch == leading[_pid] && (n_outcome[0] || n_outcome[1]);
        if
        :: n_outcome[0] -> u = 0
        :: n_outcome[1] -> u = 1
        fi;
        n_outcome[u] = false;
        if
#ifdef MUTANT_ANY_OUTCOME
        :: c_open ->
#else
        :: c_open && c_uid == u ->
#endif
            if
            :: st_epoch == leading[_pid] ->
                st_open = false; c_open = false; send = false;
                st_committed = o_committed[u]; seen = o_committed[u];
                assert(st_committed == j_committed);
                n_stored[u] = true
            :: else -> leading[_pid] = 0; known = false
            fi
        :: else -> n_stored[u] = true
        fi;
        u = 0
       }
    od
}

inline may_die()
{
    if
    :: skip
    :: atomic { crashes < CRASHES -> crashes++; goto dead }
    fi
}

inline end_ticket()
{
    d_step { o_have[j_uid] = true; o_committed[j_uid] = j_committed; j_open = false }
}

inline accept_or_refuse()
{
    n_ticket[u] = false;
    if
    :: o_have[u] -> told[u] = false; u = 0 /* Told again. */
    :: !o_have[u] && (t_epoch[u] < j_epoch || t_number[u] <= j_highest || t_rejoin[u] != away ||
                      t_from[u] != j_committed) ->
        o_have[u] = true; o_committed[u] = j_committed; u = 0 /* REFUSE */
    :: else ->
        assert(!accepted[u]);
        accepted[u] = true;
        j_open = true; j_uid = u; j_step = 0; j_done = false; j_highest = t_number[u];
        newer_t[0] = fresh[0]; newer_t[1] = fresh[1];
        u = 0;
        goto swap
    fi
}

/* Both engines are asked at once, and what they hold is read back; 'ok' is what was found. */
inline update_both(v)
{
    d_step { call[0] = v; call_step[0] = FENCE_NOW; call[1] = v; call_step[1] = FENCE_NOW }
    may_die();
    if
    :: call[0] == NOTHING && call[1] == NOTHING
    :: atomic { faults < FAULTS && (call[0] != NOTHING || call[1] != NOTHING) -> faults++ } /* Deadline. */
    fi;
    may_die();
    ok = resident[0] == v && resident[1] == v && !fresh[0] && !fresh[1] && call[0] == NOTHING && call[1] == NOTHING
}

/* A new life: boot weights, gate shut, and whatever was under way in the old one is gone. */
inline new_life(e)
{
    resident[e] = 0; gate[e] = false; fence[e] = 0; call[e] = NOTHING; call_step[e] = 0;
    fresh[e] = true; newer[e] = true; newer_t[e] = true; taint[e] = false
}

#define RAISE(e) fence[e] = FENCE_NOW

/* The page names the life whose gate is opened; no gate opens before all engines hold the version. */
inline open_gate(e)
{
    if
    :: atomic { !fresh[e] -> gate[e] = true; assert(HOLDS(1 - e) || fresh[1 - e]) }
    :: fresh[e] -> goto out
    fi
}

active proctype agent()
{
    bool ok = false;
    byte u = 0;

    goto wait;

dead: /* A new life of the agent goes on by how far the journal came; no session before that. */
    skip;
    d_step {
        drop_session();
        fresh[0] = false; fresh[1] = false; ok = false; u = 0; away = false;
        told[0] = false; told[1] = false
    }
    if
    :: j_open && (newer_t[0] || newer_t[1]) -> goto out
    :: j_open && !newer_t[0] && !newer_t[1] && j_done -> goto resume
    :: j_open && !newer_t[0] && !newer_t[1] && !j_done && t_rejoin[j_uid] -> goto out
    :: j_open && !newer_t[0] && !newer_t[1] && !j_done && !t_rejoin[j_uid] && j_step > 0 -> goto restore
    :: j_open && !newer_t[0] && !newer_t[1] && !j_done && !t_rejoin[j_uid] && j_step == 0 -> goto reopen
    :: !j_open && !j_needs && !newer[0] && !newer[1] && gate[0] && gate[1] -> goto wait
    :: !j_open && (j_needs || newer[0] || newer[1] || !gate[0] || !gate[1]) -> goto join
    fi;

join: /* Attached anew, gates shut: what is resident is read back and compared. */
    skip;
    d_step { gate[0] = false; gate[1] = false; fresh[0] = false; fresh[1] = false; away = true }
    may_die();
    if
    :: HOLDS(0) && HOLDS(1) && !j_needs && !newer[0] && !newer[1] -> goto resume
    :: !(HOLDS(0) && HOLDS(1) && !j_needs && !newer[0] && !newer[1])
    fi;

wait:
    skip;
    d_step { report = s_epoch != 0; if :: report -> told_committed = j_committed; told_away = away :: else fi }
end:
    do
    :: atomic { s_epoch == 0 && !hello && welcome == 0 -> hello = true; told_epoch = j_epoch; told_committed = j_committed; told_away = away }
    :: atomic {
        welcome != 0 ->
        if
        :: welcome >= j_epoch -> j_epoch = welcome; s_epoch = welcome; told[0] = o_stored[0]; told[1] = o_stored[1]; told_epoch = 0
        :: else
        fi;
        welcome = 0
       }
    :: atomic { s_epoch != 0 && leading[0] != s_epoch && leading[1] != s_epoch -> drop_session() }
    :: atomic { welcome != 0 && leading[0] != welcome && leading[1] != welcome -> drop_session() }
    :: atomic {
        s_epoch != 0 && (n_ticket[0] || n_ticket[1]);
        if
        :: n_ticket[0] -> u = 0
        :: n_ticket[1] -> u = 1
        fi;
        accept_or_refuse()
       }
    :: atomic { s_epoch != 0 && !n_outcome[0] && o_have[0] && !told[0] -> n_outcome[0] = true; told[0] = true }
    :: atomic { s_epoch != 0 && !n_outcome[1] && o_have[1] && !told[1] -> n_outcome[1] = true; told[1] = true }
    :: atomic { n_stored[0] -> n_stored[0] = false; o_stored[0] = true; told[0] = true }
    :: atomic { n_stored[1] -> n_stored[1] = false; o_stored[1] = true; told[1] = true }
    :: fresh[0] || fresh[1] -> goto out
    :: atomic { crashes < CRASHES -> crashes++; goto dead }
    od;

swap: /* Gates shut; then INTENT, before anything that may change weights. */
    may_die();
    gate[0] = false;
    may_die();
    gate[1] = false;
    may_die();
    if
    :: skip
    :: atomic { faults < FAULTS && !t_rejoin[j_uid] -> faults++; goto reopen } /* Pause failed. */
    fi;
#ifndef MUTANT_NO_INTENT
    j_step++;
#endif
    may_die();
    RAISE(0);
    RAISE(1);
    update_both(t_to[j_uid]);
    may_die();
    if
    :: ok
    :: !ok && t_rejoin[j_uid] -> goto out
#ifdef MUTANT_NO_RESTORE
    :: !ok && !t_rejoin[j_uid] -> goto reopen
#else
    :: !ok && !t_rejoin[j_uid] -> goto restore
#endif
    fi;
#ifdef MUTANT_OPEN_BEFORE_COMMIT
    gate[1] = true;
#endif
    may_die();
#ifndef MUTANT_NO_CONFIRM
    if /* The lives that were verified are still there. */
    :: fresh[0] || fresh[1] -> goto out
    :: else
    fi;
#endif
    /* COMMIT: the version changes here and nowhere else. */
    d_step {
        j_committed = t_to[j_uid]; j_done = true; j_needs = false; newer_t[0] = fresh[0]; newer_t[1] = fresh[1];
        newer[0] = fresh[0]; newer[1] = fresh[1]
    }

resume:
    may_die();
#ifdef MUTANT_NO_CONFIRM
    gate[1] = true;
    gate[0] = true;
#else
    open_gate(1);
    may_die();
    open_gate(0);
#endif
    may_die();
    away = false;
    if
    :: j_open -> end_ticket()
    :: else
    fi;
    goto wait;

restore: /* After the agent's death gates may be open; the step rises, so that a call that hangs does nothing later. */
#ifndef MUTANT_NO_BACK_SHUT
    skip;
    d_step { gate[0] = false; gate[1] = false }
    may_die();
#endif
    j_step++;
    may_die();
    RAISE(0);
    RAISE(1);
    update_both(t_from[j_uid]);
    if
    :: ok -> goto reopen
    :: else ->
        d_step {
            taint[0] = resident[0] != t_from[j_uid] || call[0] != NOTHING;
            taint[1] = resident[1] != t_from[j_uid] || call[1] != NOTHING
        }
        goto out
    fi;

reopen:
    may_die();
    open_gate(1);
    may_die();
    open_gate(0);
    may_die();
    end_ticket();
    goto wait;

out: /* The outcome is journaled, gates shut, engines recreated where they must or somebody likes to. */
    skip;
    d_step {
        ok = false;
        if
        :: j_open -> j_needs = j_needs || (j_step > 0 && !j_done); o_have[j_uid] = true; o_committed[j_uid] = j_committed; j_open = false
        :: else
        fi
    }
    may_die();
    d_step { gate[0] = false; gate[1] = false; away = true }
    may_die();
    if
    :: atomic { taint[0] -> new_life(0) }
    :: else
    fi;
    if
    :: atomic { taint[1] -> new_life(1) }
    :: else
    fi;
    goto join
}

/* One worker thread: the fence is checked and the call carried out in one piece. */
inline run_call(e)
{
    if
    :: call_step[e] < fence[e] /* Refused. */
    :: else ->
        if
        :: resident[e] = call[e]
        :: faults < FAULTS -> faults++ /* Says no, or yes, and did nothing. */
        :: faults < FAULTS -> faults++; resident[e] = DAMAGED
        fi
    fi;
    call[e] = NOTHING; call_step[e] = 0
}

/* What may happen to anybody at any time, so often at most. */
active proctype world()
{
    do
    :: atomic { call[0] != NOTHING -> run_call(0) }
    :: atomic { call[1] != NOTHING -> run_call(1) }
    :: atomic { faults < FAULTS -> faults++; new_life(0) }
    :: atomic { faults < FAULTS -> faults++; new_life(1) }
    :: atomic { /* A session breaks; tickets and outcomes on their way are lost, or come late. */
        breaks < BREAKS && (s_epoch != 0 || hello || welcome != 0) ->
        breaks++; drop_session();
        if
        :: n_ticket[0] = false; n_ticket[1] = false; n_outcome[0] = false; n_outcome[1] = false; n_stored[0] = false; n_stored[1] = false
        :: skip
        fi
       }
    :: atomic { echoes < ECHOES && uids > 0 && t_number[0] <= st_number && t_epoch[0] <= j_epoch -> echoes++; n_ticket[0] = true }
    :: atomic { echoes < ECHOES && o_have[0] -> echoes++; n_outcome[0] = true }
    :: atomic { /* At rest. */
        timeout ->
        if
        :: leading[0] == st_epoch || leading[1] == st_epoch ->
            assert(!j_open && !st_open && st_committed == j_committed);
            assert((gate[0] && gate[1]) || uids == TICKETS)
        :: else
        fi;
        break
       }
    od;
}

#define SOUND ((!gate[0] || HOLDS(0)) && (!gate[1] || HOLDS(1)) && (!j_open || (st_open && st_uid == j_uid)))

active proctype watch()
{
end:
    atomic { !(SOUND) -> assert(false) }
}
